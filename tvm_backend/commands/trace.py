"""``trace``: what every object of an accelerator does in a window of a run, for Perfetto and chrome://tracing."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archloom.oracle.errors import InputError, counted
from archloom.oracle.fallbacks import as_field, titled
from archloom.tvm_backend.artifact.files import is_artifact
from archloom.tvm_backend.commands import Outcome, arguments, layers
from archloom.tvm_backend.compile import plan_steps
from archloom.tvm_backend.files import write_file
from archloom.tvm_backend.progress import bar
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.targets.backend import UMABackend
from archloom.tvm_backend.targets.choice import choose

if TYPE_CHECKING:
    from archloom.acadl_models.acadl import ArchitectureGraph
    from archloom.oracle.fallbacks import Fallback
    from archloom.oracle.resolved import ResolvedStream
    from archloom.oracle.stream import Stream

CYCLES = 10_000
"""Length of the window if none is asked for."""

STREAM_SUFFIXES = (".asm", ".bin")


def register(subparsers: Any) -> None:
    parser = arguments.command(
        subparsers, "trace", run, "write a Perfetto trace of a window of a run",
        "SOURCE is an artifact or a model (with --layer), an operator, or an instruction stream (.asm, .bin). What "
        "lies before the window is skipped as far as it is proven to repeat; 1 us of the trace is 1 clock cycle.")
    parser.add_argument("model", metavar="SOURCE", help="artifact, .onnx file, operator, or stream (.asm, .bin)")
    layers.add_layer(parser)
    parser.add_argument("--from", dest="begin", type=int, default=0, metavar="CYCLE", help="first cycle (default 0)")
    parser.add_argument("--cycles", type=int, default=CYCLES, metavar="N", help=f"length (default {CYCLES})")
    arguments.add_loading(parser)
    arguments.add_target(parser)
    arguments.add_output(parser, "the trace: .json, or .json.gz for a compressed one", required=True)


def run(args: argparse.Namespace) -> Outcome:
    from archloom.acadl_models.timing.engine.window import log_window
    from archloom.acadl_models.timing.trace import trace_bytes

    _check(args)
    graph, stream, fallbacks = _source(args)
    log = log_window(graph, stream, args.begin, args.cycles)
    data = trace_bytes(log, compressed=args.output.suffix == ".gz")
    write_file(args.output, data)
    figures = {
        "output": str(args.output), "bytes": len(data), "graph": graph.name, "stream": stream.name, "from": log.begin,
        "to": log.end, "clock_hz": graph.clock_hz, "steps": len(log.events),
        **as_field(fallbacks),
    }
    text = (f"{args.output}: cycles {log.begin:,} to {log.end:,} of {stream.name} on {graph.name}, "
            f"{counted(len(log.events), 'step')}; open it in ui.perfetto.dev (1 us is 1 cycle)")
    return Outcome("\n".join(filter(None, [text, titled(fallbacks)])), figures)


def _check(args: argparse.Namespace) -> None:
    """Refuse what can be seen to be wrong before anything slow begins."""
    if args.begin < 0:
        raise InputError(f"--from: expected a cycle of at least 0, found {args.begin}")
    if args.cycles < 1:
        raise InputError(f"--cycles: expected at least 1, found {args.cycles}")
    arguments.suffix_of(args.output, {".json": "as it is", ".json.gz": "compressed"})
    folder = args.output.resolve().parent
    if not folder.is_dir():
        raise InputError(f"{args.output}: cannot be written: {folder} is no directory")
    if args.output.is_dir():
        raise InputError(f"{args.output}: cannot be written: it is a directory")


def _source(args: argparse.Namespace) -> "tuple[ArchitectureGraph, ResolvedStream, tuple[Fallback, ...]]":
    """The architecture graph and the resolved stream that SOURCE means, and what was done in another way than meant."""
    path = Path(args.model)
    if is_artifact(path):
        return *_of_artifact(path, args.layer), ()
    options = arguments.target_options(args)
    if "," in args.target:
        raise InputError(f"--target {args.target}: a trace is that of one machine; name one target")
    backend = registry.get(args.target)
    if path.suffix in STREAM_SUFFIXES or path.is_dir():
        from archloom.tvm_backend.commands.asm import read_stream

        return *_of_stream(read_stream(path, args.layer), backend, options), ()
    return _of_network(args, backend, options)


def _of_artifact(path: Path, layer: str | None) -> "tuple[ArchitectureGraph, ResolvedStream]":
    from archloom.tvm_backend.artifact import network as artifact

    compiled = artifact.load(path).compiled
    name = arguments.layer_of(str(path), list(compiled.plans), layer)
    owner = next(r.target for r in compiled.regions if any(step.name == name for step in r.steps))
    target = next(c for c in choose(compiled.target, compiled.options) if c.name == owner)
    return _of_stream(compiled.plans[name].stream, target.backend, dict(target.options))


def _of_network(
    args: argparse.Namespace, backend: "UMABackend", options: dict[str, Any]
) -> "tuple[ArchitectureGraph, ResolvedStream, tuple[Fallback, ...]]":
    """Map one layer of a network, or an operator."""
    from archloom.tvm_backend.estimate.network import partition_operator

    chosen, operator = choose(backend, options), arguments.source(args).operator
    partition = None if operator is None else partition_operator(operator, chosen)
    whole = layers.partition(args, chosen) if partition is None else partition
    one, name = layers.of_layer(whole, args.layer, args.model)
    with bar(quiet=args.quiet) as progress:
        plans = plan_steps(one, chosen, progress)
    return *_of_stream(plans[name].stream, backend, options), whole.fallbacks


def _of_stream(
    stream: "Stream", backend: "UMABackend", options: dict[str, Any]
) -> "tuple[ArchitectureGraph, ResolvedStream]":
    from archloom.oracle.resolve import resolve

    accelerator = backend.accelerator
    if stream.isa != accelerator.isa_name:
        raise InputError(
            f"{stream.name}: a stream of ISA {stream.isa!r}, but target {backend.target_name!r} has "
            f"{accelerator.isa_name!r}; choose its target with --target"
        )
    made = accelerator.configure({k: v for k, v in options.items() if k not in backend.attributes})
    wanted, given = dict(made.isa.parameters), dict(stream.parameters)
    differ = [f"{k}={v}, not {wanted[k]}" for k, v in given.items() if k in wanted and wanted[k] != v]
    if differ:
        raise InputError(
            f"{stream.name}: made for {'; '.join(differ)} as in target {backend.target_name!r}; set its options"
        )
    return made.graph, resolve(stream, made.isa)
