"""``asm``: read, check, print and explain an instruction stream."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from archloom.oracle import assembly, binary, taidl
from archloom.oracle.assembly import to_text
from archloom.oracle.binary import encode
from archloom.oracle.errors import ArtifactError, InputError, StreamError, counted
from archloom.oracle.nests import size
from archloom.oracle.reading import TEXT_BYTES, read_bytes
from archloom.oracle.stream import Instr, Node, Stream
from archloom.oracle.taidl.isa import Isa
from archloom.tvm_backend.artifact import network as artifact
from archloom.tvm_backend.artifact.files import is_artifact
from archloom.tvm_backend.commands import Outcome, arguments
from archloom.tvm_backend.files import write_file
from archloom.tvm_backend.report.table import Column, count, render
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.targets.choice import names_of

TEXT_KINDS = {".asm": "text", ".txt": "text", ".loom": "text", "": "text"}
BINARY_KINDS = {".bin": "binary", ".loom": "binary", "": "binary"}


def register(subparsers: Any) -> None:
    parser = arguments.command(
        subparsers, "asm", run, "print, check and explain an instruction stream",
        "FILE is assembly text, its binary form, or an artifact (with --layer if it has several).")
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--layer", metavar="NAME", help="the layer of an artifact whose stream is meant")
    parser.add_argument("--target", "-t", metavar="TARGET",
                        help="the target whose ISA it is, such as mine.py, if that is not named by ARCHLOOM_TARGETS")
    parser.add_argument("--explain", action="store_true",
                        help="what the stream consists of and what the oracle makes of it, instead of its text")
    parser.add_argument("--binary", action="store_true", help="write the binary form (needs --output)")
    parser.add_argument("--no-check", action="store_true", help="do not check the stream against its ISA")
    arguments.add_output(parser, "write there instead of to stdout")


def run(args: argparse.Namespace) -> Outcome:
    if args.binary and args.output is None:
        raise InputError("--binary: give --output as well; the binary form is not printed")
    if args.output is not None:
        arguments.suffix_of(args.output, BINARY_KINDS if args.binary else TEXT_KINDS)
    stream = read_stream(args.file, args.layer)
    make_known(stream.isa, args.target)
    isa = None if args.no_check else checked(stream)
    data = {**summary(stream), "text": to_text(stream)}
    text = data["text"]
    if args.explain:
        text = explain(stream, isa)
        if isa is not None:
            shown, data["oracle"] = raising(stream, isa)
            text += f"\n\n{shown}"
    if args.output is not None:
        write_file(args.output, encode(stream) if args.binary else text.encode())
        text, data["output"] = str(args.output), str(args.output)
    return Outcome(text, data)


def read_stream(path: Path, layer: str | None) -> Stream:
    """The stream in a text or binary file, or the stream of ``layer`` in an artifact."""
    if is_artifact(path):
        compiled = artifact.load(path).compiled
        return compiled.plans[arguments.layer_of(str(path), list(compiled.plans), layer)].stream
    if path.is_dir():
        raise ArtifactError(f"{path}: a directory, but not an artifact, or half-written: manifest.json is missing")
    if layer is not None:
        raise InputError(f"--layer {layer!r}: {path} is not an artifact")
    blob = read_bytes(path, TEXT_BYTES)
    if blob.startswith(binary.MAGIC):
        return binary.decode(blob, str(path))
    try:
        return assembly.parse(blob.decode(), str(path))
    except UnicodeDecodeError as error:
        raise StreamError(f"{path}: neither assembly text nor a binary stream: {error}") from error


def make_known(isa: str, target: str | None) -> None:
    """Make the ISA of a target of one's own known: that of ``target``, or those that the environment names."""
    if target is None and isa in taidl.available():
        return
    registry.run_own()
    for name in registry.names_loaded() if target is None else names_of(target):
        _ = registry.get(name).accelerator


def checked(stream: Stream) -> "Isa":
    """The stream's ISA, after the stream was validated and resolved against it."""
    from archloom.oracle.resolve import resolve

    isa = taidl.load(stream.isa, **dict(stream.parameters))
    resolve(stream, isa)
    return isa


def raising(stream: Stream, isa: "Isa") -> tuple[str, dict[str, Any]]:
    """How the oracle computes the stream, as text and as a JSON object; or why it does not."""
    from archloom.oracle.xla import compile_stream

    try:
        report = compile_stream(stream, isa).report
    except InputError as error:
        return str(error), {"refused": str(error)}
    return report.explanation, report.to_dict()


def instances(nodes: tuple[Node, ...], times: int = 1) -> Counter[str]:
    """How often each mnemonic is executed, counted without unrolling loops."""
    found: Counter[str] = Counter()
    for node in nodes:
        if isinstance(node, Instr):
            found[node.mnemonic] += times
        else:
            found += instances(node.body, times * node.extent)
    return found


def summary(stream: Stream) -> dict[str, Any]:
    """Sizes of a stream as a JSON object."""
    return {
        "name": stream.name, "isa": stream.isa, "parameters": dict(stream.parameters), "hbm_bytes": stream.hbm_bytes,
        "arguments": [_tensor(t) for t in stream.arguments], "results": [_tensor(t) for t in stream.results],
        "static_instructions": size(stream.body), "instructions": stream.count(),
        "instances": dict(instances(stream.body)),
    }


def _tensor(tensor: Any) -> dict[str, Any]:
    return {"name": tensor.name, "address": tensor.address, "shape": tensor.shape, "dtype": tensor.dtype}


def explain(stream: Stream, isa: "Isa | None") -> str:
    """Tables of the stream's tensors and of its instructions."""
    data = summary(stream)
    parameters = ", ".join(f"{k}={v}" for k, v in stream.parameters)
    tensors = [[t["name"], t["dtype"], "×".join(map(str, t["shape"])), f"{t['address']:#x}", role]
               for role, group in (("argument", data["arguments"]), ("result", data["results"])) for t in group]
    used = [[mnemonic, count(n)] for mnemonic, n in Counter(data["instances"]).most_common()]
    checked_text = "not checked" if isa is None else "follows its ISA and stays inside its memories"
    return "\n\n".join([
        f"{stream.name}: {stream.isa} ({parameters}), {count(stream.hbm_bytes)} bytes of HBM, {checked_text}",
        render([Column(c) for c in ("tensor", "dtype", "shape", "address", "role")], tensors),
        render((Column("instruction"), Column("executed", "right")), used),
        f"{counted(data['static_instructions'], 'instruction')} in the text, {count(data['instructions'])} executed",
    ])
