"""Inputs for the command line, by kinds: each function changes something sound and says how it is used."""

from __future__ import annotations

import atexit
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import onnx

from tests.fuzz import mutators
from tests.tvm_backend.hostile.cases import called, conv, nested, product, quantized

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("gemmini", "eyeriss", "amx", "qkv", "plasticine", "mesh", "wormhole", "triple_ring", "oma", "gamma",
           "systolic_array", "tpu_v1", "ultratrail", "ai_engine", "mte")
KERNEL, NUMBERS = "@kernel", "@numbers"
"""Words in place of a command: a serialized kernel is run, a network is run on numbers of all kinds."""


@dataclass(frozen=True)
class Input:
    """The words of a command, and the files that it reads."""

    words: tuple[str, ...]
    files: Mapping[str, bytes]


@cache
def base(name: str) -> bytes:
    """A sound input, see :mod:`tests.fuzz.bases`; all are made when the first is asked for."""
    return (_bases() / name).read_bytes()


@cache
def _bases() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="archloom-fuzz-bases-"))
    atexit.register(shutil.rmtree, folder, True)
    subprocess.run([sys.executable, "-m", "tests.fuzz.bases", str(folder)], check=True, cwd=ROOT)
    return folder


def _network(rng: Random) -> onnx.ModelProto:
    return rng.choice((product(), conv(), quantized(0.1), called(), nested(3)))


def _read(rng: Random, name: str) -> tuple[str, ...]:
    """A command that reads a network."""
    target = rng.choice(TARGETS)
    return rng.choice((("compile", name, "--coverage", "-t", target), ("estimate", name, "--no-cache", "-t", target),
                       ("compile", name, "-o", "out.zip"), ("check", name, "--samples", "1"),
                       ("compile", name, "--calibrate", "random:1", "--coverage")))


def onnx_bytes(rng: Random) -> Input:
    content = mutators.changed_bytes(rng, _network(rng).SerializeToString())
    return Input(_read(rng, "net.onnx"), {"net.onnx": content})


def onnx_structure(rng: Random) -> Input:
    content = mutators.changed_network(rng, _network(rng)).SerializeToString()
    return Input(_read(rng, "net.onnx"), {"net.onnx": content})


def onnx_text(rng: Random) -> Input:
    text = mutators.changed_text(rng, onnx.printer.to_text(_network(rng)))
    return Input(_read(rng, "net.onnxtxt"), {"net.onnxtxt": text.encode(errors="replace")})


def pt2(rng: Random) -> Input:
    content = mutators.packed(mutators.changed_file(rng, mutators.unpacked(base("net.pt2"))))
    if rng.random() < 0.2:
        content = mutators.changed_bytes(rng, content)
    return Input(_read(rng, "net.pt2"), {"net.pt2": content})


def artifact(rng: Random) -> Input:
    """A file of an artifact, with checksums that are right again and the signature of nobody."""
    from archloom.tvm_backend.artifact import files as artifact_files

    sound = {name: data for name, data in mutators.unpacked(base("net.zip")).items() if name != artifact_files.MANIFEST}
    files = artifact_files.with_manifest(mutators.changed_file(rng, sound))
    files["manifest.json"] = files["manifest.json"].replace(b'"signature": "', b'"signature": "0')
    if rng.random() < 0.1:
        files["manifest.json"] = mutators.changed_json(rng, files["manifest.json"])
    words = rng.choice((("run", "net.zip", "-i", "x.npz", "-o", "y.npz"), ("report", "net.zip"),
                        ("asm", "net.zip", "--explain"), ("trace", "net.zip", "-o", "t.json")))
    return Input(words, {"net.zip": mutators.packed(files), "x.npz": base("x.npz")})


def npz(rng: Random) -> Input:
    content = base("x.npz")
    if rng.random() < 0.5:
        content = mutators.packed(mutators.changed_file(rng, mutators.unpacked(content)))
    else:
        content = mutators.changed_bytes(rng, content)
    return Input(("run", "net.zip", "-i", "x.npz", "-o", "y.npz"), {"net.zip": base("net.zip"), "x.npz": content})


def _sealed(content: bytes, header: struct.Struct, rng: Random) -> bytes:
    """With length and CRC of what follows the header in its last fields."""
    *head, _, _ = header.unpack_from(content)
    payload = mutators.changed_bytes(rng, content[header.size:])
    if header.size == 22:  # of a kernel: the length of its JSON comes first
        head[-1] = max(0, min(head[-1], len(payload)))
    return header.pack(*head, len(payload), zlib.crc32(payload)) + payload


def kernel(rng: Random) -> Input:
    return Input((KERNEL, "k.kernel"), {"k.kernel": _sealed(base("k.kernel"), struct.Struct("<8sHIII"), rng)})


def stream(rng: Random) -> Input:
    content = _sealed(base("s.bin"), struct.Struct("<4sHII"), rng) if rng.random() < 0.4 else mutators.changed_text(
        rng, base("s.asm").decode()).encode(errors="replace")
    return Input(("asm", "s.asm", *rng.choice(((), ("--explain",), ("--no-check",)))), {"s.asm": content})


def taidl(rng: Random) -> Input:
    from archloom.oracle.taidl import available, load

    source = load(rng.choice(available())).definition.source or ""
    return Input(("isa", "x.taidl"), {"x.taidl": mutators.changed_text(rng, source).encode(errors="replace")})


def df(rng: Random) -> Input:
    words = rng.choice((("describe", "x.df"), ("map", "--gemm", "64x64x64", "-t", "x.df", "--top-k", "1")))
    return Input(words, {"x.df": mutators.changed_text(rng, base("x.df").decode()).encode(errors="replace")})


SPELLED = ("gemm(m=64,n=64,k=64)", "gemm(m=8,n=8,k=8,batch=2,bias=1,relu=1)", "add(size=64)",
           "conv2d(n=1,c=4,h=8,w=8,o=4,k=3,stride=1,pad=1,relu=1)", "vgg16(image=32)",
           "mobilenet_v2(image=32,width=25)")
SIZES = ("64x64x64", "2x64x64x64", "1x2x64x32", "64x64", "1x8x8x4x4x3x3")


def workload(rng: Random) -> Input:
    if rng.random() < 0.7:
        text = mutators.changed_text(rng, rng.choice(SPELLED)).replace("\0", "")
        return Input(("estimate", text or " ", "--no-cache", "-t", rng.choice(TARGETS)), {})
    kind = rng.choice(("gemm", "products", "attention", "chain", "softmax", "convolution", "layer-norm"))
    size = mutators.changed_text(rng, rng.choice(SIZES)).replace("\0", "")
    return Input(("map", f"--{kind}={size}", "-t", "mesh", "-O", "x=2", "-O", "y=2", "--top-k", "1"), {})


def options(rng: Random) -> Input:
    from archloom.tvm_backend.targets.registry import get

    target = rng.choice(TARGETS)
    known = [option.name for option in get(target).accelerator.options]
    given = [f"{rng.choice((*known, 'x', ''))}={rng.choice((*mutators.NUMBERS, *mutators.WORDS))}".replace("\0", "")
             for _ in range(rng.randint(1, 3))]
    return Input((*rng.choice((("estimate", "gemm(m=16,n=16,k=16)", "--no-cache", "-t"), ("describe",))), target,
                  *(word for pair in given for word in ("-O", pair))), {})


COMMANDS = ("targets", "describe", "networks", "isa", "compile", "run", "check", "estimate", "report", "trace", "asm",
            "map")
FLAGS = ("-t", "-O", "-o", "--json", "--layer", "--samples", "--calibrate", "--input-shape", "--symbol", "--csv", "-i",
         "--as-int8", "--coverage", "--explain", "--no-check", "--host", "--inputs", "--labels", "--gemm", "--rows",
         "--cycles")
ARGUMENTS = ("net.onnx", "x.npz", "gemmini", "mesh", "dim=16", "x:1x4", "n=4", "random:2", "digits:1", "1", "0", "-1",
             "/dev/null", "/dev/zero", ".", "/nonexistent/x", "gemm(m=4,n=4,k=4)", "", "\udcff", "9" * 5000)


def command(rng: Random) -> Input:
    words = [rng.choice(COMMANDS)]
    for _ in range(rng.randrange(6)):
        words.append(rng.choice(FLAGS if rng.random() < 0.4 else ARGUMENTS))
    return Input(tuple(words), {"net.onnx": product().SerializeToString(), "x.npz": base("x.npz")})


def numbers(rng: Random) -> Input:
    return Input((NUMBERS, str(rng.randrange(1 << 40))), {})


KINDS: Mapping[str, Callable[[Random], Input]] = {f.__name__: f for f in (
    onnx_bytes, onnx_structure, onnx_text, pt2, artifact, npz, kernel, stream, taidl, df, workload, options, command,
    numbers)}
RARE, ONE_IN = ("pt2", "numbers"), 50
"""Kinds that take tenths of a second where the others take hundredths, and how many inputs have one of them."""


def kind_of(number: int, kinds: Sequence[str]) -> str:
    """The kind of an input: the common ones take turns, now and then it is a rare one's."""
    rare, common = [k for k in kinds if k in RARE], [k for k in kinds if k not in RARE]
    if not common or (rare and number % ONE_IN == ONE_IN - 1):
        return rare[number // ONE_IN % len(rare)]
    return common[number % len(common)]
