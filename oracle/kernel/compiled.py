"""Kernels compiled ahead of time, and their serialized form, which runs without the ISA."""

from __future__ import annotations

import json
import struct
import time
import zlib
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from archloom.oracle.errors import ArtifactError, InputError, suggest
from archloom.oracle.kernel.callable import Call, JaxProgram, KernelFunction
from archloom.oracle.late_jax import jax
from archloom.oracle.reading import data_bytes, read_bytes
from archloom.oracle.stream import HbmTensor
from archloom.oracle.xla.executables import needed

MAGIC = b"LOOMKERN"
VERSION = 1
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
_HEADER = struct.Struct("<8sHIII")


@dataclass(frozen=True)
class Cost:
    """XLA's own account of an executable: operations and bytes for one call; None where the backend gives none."""

    flops: float | None
    bytes_accessed: float | None
    argument_bytes: int | None
    result_bytes: int | None
    temporary_bytes: int | None


class CompiledKernel(KernelFunction):
    """An executable of a kernel: called as the kernel is, with the times that making it took, in seconds.

    ``resolve_seconds`` is that of resolving and raising the stream, ``lower_seconds`` that of tracing it with JAX,
    ``xla_seconds`` that of XLA; ``compile_seconds`` is their sum. What had been done before costs nothing again.
    """

    def __init__(self, whole: "Compilable") -> None:
        super().__init__(whole.name, whole.arguments, whole.results)
        self._whole = whole
        start = time.perf_counter()
        program = whole.program
        self.resolve_seconds = time.perf_counter() - start
        start = time.perf_counter()
        lowered = program.outermost.lower(*shapes(self.arguments), *program.bits)
        self.lower_seconds = time.perf_counter() - start
        start = time.perf_counter()
        self.executable = lowered.compile()
        needed(self.executable, f"kernel {self.name}")
        self.xla_seconds = time.perf_counter() - start

    @property
    def compile_seconds(self) -> float:
        return self.resolve_seconds + self.lower_seconds + self.xla_seconds

    @property
    def cost(self) -> Cost:
        """What one call takes, as XLA counts it."""
        counted = self.executable.cost_analysis() or {}
        memory = self.executable.memory_analysis()
        return Cost(counted.get("flops"), counted.get("bytes accessed"),
                    getattr(memory, "argument_size_in_bytes", None), getattr(memory, "output_size_in_bytes", None),
                    getattr(memory, "temp_size_in_bytes", None))

    def _prepare(self) -> Call:
        return self._whole._prepared()

    def serialize(self, platforms: tuple[str, ...] | None = None) -> bytes:
        """The kernel as bytes for :func:`load_kernel`, by ``jax.export``; debug points stay out.

        ``platforms``: for which of :data:`PLATFORMS`, by default for the present one; InputError for others.
        """
        for name in platforms or ():
            if name not in PLATFORMS:
                raise InputError(f"kernel {self.name} cannot be serialized for platform {name!r}"
                                 f"{suggest(str(name), list(PLATFORMS))}")
        program = self._whole.program
        try:
            made = jax.export.export(program.portable, platforms=platforms)(*shapes(self.arguments), *program.bits)
            body = bytes(made.serialize())
        except (NotImplementedError, ValueError) as error:
            raise InputError(f"kernel {self.name} cannot be serialized (a custom_call of a function in Python cannot, "
                             f"one in JAX can): {error}") from None
        head = json.dumps({
            "name": self.name, **self._whole._origin, "platforms": list(made.platforms), "jax": jax.__version__,
            "arguments": [_tensor(t) for t in self.arguments], "results": [_tensor(t) for t in self.results],
            "bits": [b.tolist() for b in program.bits],
        }).encode()
        payload = head + body
        return _HEADER.pack(MAGIC, VERSION, len(head), len(payload), zlib.crc32(payload)) + payload


class Compilable(KernelFunction):
    """What has a program that can be compiled ahead of time: kernels and batches of them.

    ``_origin`` says what it was written for.
    """

    _origin: dict[str, Any]

    @property
    @abstractmethod
    def program(self) -> JaxProgram:
        """The JAX function, jitted, without debug points."""

    def compile(self) -> CompiledKernel:
        """The executable for JAX's default device, with its cost and the times that making it took."""
        return CompiledKernel(self)


class LoadedKernel(KernelFunction):
    """A kernel from :meth:`CompiledKernel.serialize`; ``isa`` and ``parameters`` tell what it was written for."""

    def __init__(self, head: dict[str, Any], exported: Any) -> None:
        super().__init__(head["name"], _tensors(head["arguments"]), _tensors(head["results"]))
        self.isa: str = head["isa"]
        self.parameters: dict[str, int] = dict(head["parameters"])
        self.platforms: tuple[str, ...] = tuple(head["platforms"])
        self._bits = tuple(np.array(b, np.uint32) for b in head["bits"])
        self._exported = exported

    def _prepare(self) -> Call:
        call = JaxProgram.of(self._exported.call, self._bits).call()

        def run(*arrays: Any) -> tuple[Any, ...]:
            try:
                return call.arrays(*arrays)
            except Exception as error:  # whatever XLA raises of a program that is not as JAX has written it
                raise ArtifactError(f"kernel {self.name}: JAX {jax.__version__} cannot run its program: "
                                    f"{type(error).__name__}: {' '.join(str(error).split())[:300]}") from error

        return Call(run, call.tracers)


def load_kernel(source: bytes | str | Path) -> LoadedKernel:
    """A serialized kernel, from bytes or a file; it needs JAX and neither the ISA nor the stream.

    ArtifactError for what is foreign, newer, truncated, corrupted, or for another platform than there is here.
    """
    name, data = _read(source)
    head, body = _unpack(data, name)
    try:
        exported = jax.export.deserialize(bytearray(body))
        loaded = LoadedKernel(head, exported)
    except Exception as error:  # whatever JAX's reader raises, it is about these bytes
        raise ArtifactError(f"{name}: JAX {jax.__version__} cannot read this kernel, which JAX "
                            f"{head.get('jax', '?')} wrote: {error}") from None
    found = [(tuple(a.shape), str(a.dtype)) for a in (*exported.in_avals, *exported.out_avals)]
    bits = [(b.shape, "uint32") for b in loaded._bits]
    stated = [[(t.shape, t.dtype) for t in side] for side in (loaded.arguments, loaded.results)]
    if found != [*stated[0], *bits, *stated[1]]:
        raise ArtifactError(f"{name}: the program's arguments and results are not those that its header states")
    here = jax.export.default_export_platform()
    if here not in loaded.platforms:
        raise ArtifactError(f"{name}: made for {', '.join(loaded.platforms)}, and JAX runs on {here} here")
    return loaded


def shapes(tensors: tuple[HbmTensor, ...]) -> list[Any]:
    return [jax.ShapeDtypeStruct(t.shape, t.dtype) for t in tensors]


def _read(source: bytes | str | Path) -> tuple[str, bytes]:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return "kernel", bytes(source)
    return str(source), read_bytes(source, data_bytes(), ArtifactError)


def _unpack(data: bytes, name: str) -> tuple[dict[str, Any], bytes]:
    if len(data) < _HEADER.size:
        raise ArtifactError(f"{name}: truncated: expected at least {_HEADER.size} bytes, found {len(data)}")
    magic, version, head, length, crc = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise ArtifactError(f"{name}: not a serialized kernel: expected the magic {MAGIC!r}, found {magic!r}")
    if version != VERSION:
        age = "newer" if version > VERSION else "older"
        raise ArtifactError(f"{name}: kernel format {version} is {age} than the format {VERSION} that is read here")
    payload = data[_HEADER.size:]
    if len(payload) != length or head > length:
        raise ArtifactError(f"{name}: truncated or followed by foreign bytes: expected {length} bytes of payload, "
                            f"found {len(payload)}")
    if zlib.crc32(payload) != crc:
        raise ArtifactError(f"{name}: corrupted: expected CRC-32 {crc:#010x}, found {zlib.crc32(payload):#010x}")
    try:
        made = json.loads(payload[:head])
    except ValueError as error:
        raise ArtifactError(f"{name}: malformed header: {error}") from None
    if not isinstance(made, dict):
        raise ArtifactError(f"{name}: malformed header: expected a mapping, found {type(made).__name__}")
    return made, payload[head:]


def _tensor(t: HbmTensor) -> list[Any]:
    return [t.name, t.address, list(t.shape), t.dtype]


def _tensors(made: list[list[Any]]) -> tuple[HbmTensor, ...]:
    return tuple(HbmTensor(name, address, tuple(shape), dtype) for name, address, shape, dtype in made)
