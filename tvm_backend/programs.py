"""Programs of XLA for a network's streams and its host: compiled once, kept in memory, in artifacts and on disk.

What a stream or a piece of the host computes follows from its content; the machine code for it also from XLA and the
processor (:func:`archloom.oracle.xla.executables.platform`). Streams that differ in scales alone share a program.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from archloom.mapper.cache import code_fingerprint, key_of
from archloom.tvm_backend import cache

if TYPE_CHECKING:
    from archloom.oracle.stream import Stream
    from archloom.oracle.taidl.isa import Isa
    from archloom.oracle.xla.executables import Called, Executable

    Program: TypeAlias = Executable | Called

KIND, STREAMS = "programs", "streams"
"""Of files in the cache: machine code by its content; programs of streams by theirs."""
KEPT = 1024

_loaded: cache.Memory[Any] = cache.Memory(KEPT)
_of_streams: cache.Memory["StreamProgram"] = cache.Memory(KEPT)
_lock = threading.Lock()


@dataclass(frozen=True)
class StreamProgram:
    """Which program a stream has: its ``name``, and the bit patterns that it takes as its last argument."""

    name: str
    bits: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Stored:
    """Programs as an artifact has them: names of programs by stream and by piece of the host, machine code by name."""

    platform: str
    streams: Mapping[str, StreamProgram]
    host: Mapping[str, str]
    code: Mapping[str, bytes]


def forget() -> None:
    """Drop what this process remembers; programs on disk stay."""
    _loaded.clear()
    _of_streams.clear()


def stream_key(stream: "Stream", isa: "Isa") -> str:
    """The name of what a stream computes, here."""
    from archloom.oracle.binary import encode
    from archloom.oracle.xla.executables import platform

    content = hashlib.sha256(encode(stream)).hexdigest()
    return key_of([content, isa.definition.source or "", repr(isa.parameters), code_fingerprint("oracle"), platform()])


def host_key(key: str) -> str:
    """The name of what a piece of the host computes, here."""
    from archloom.oracle.xla.executables import platform

    return key_of([key, code_fingerprint("oracle", "tvm_backend"), platform()])


class Programs:
    """The programs of one network: those at hand, those that its artifact brought, and those on disk."""

    def __init__(self, given: Stored | None = None) -> None:
        from archloom.oracle.xla.executables import platform

        self._given = given if given is not None and given.platform == platform() else None
        self._streams: dict[str, StreamProgram] = {}
        self._host: dict[str, str] = {}
        self._code: dict[str, bytes] = {}
        self.recompiled: dict[str, str] = {}
        """Stored programs that are compiled again, and why."""

    def of_stream(self, key: str) -> "tuple[Program, np.ndarray] | None":
        """The program of a stream and its bit patterns, if it has been compiled before."""
        found = self._streams.get(key) or _of_streams.get(key)
        if found is None and self._given is not None:
            found = self._given.streams.get(key)
        if found is None:
            found = _stream_program(cache.load(STREAMS, key))
        program = self._program(found.name) if found is not None else None
        if found is None or program is None:
            return None
        self._streams[key] = found
        _of_streams.put(key, found)
        return program, np.array(found.bits, np.uint32)

    def of_host(self, key: str) -> "Program | None":
        """The program of a piece of the host, if it has been compiled before."""
        name = self._host.get(key) or (self._given.host.get(key) if self._given is not None else None)
        if name is None:
            value = cache.load(STREAMS, key)
            name = value.get("name") if isinstance(value, dict) else None
        program = self._program(name) if isinstance(name, str) else None
        if program is not None:
            self._host[key] = str(name)
        return program

    def keep_stream(self, key: str, program: "Program", bits: np.ndarray) -> None:
        """Keep what was compiled for a stream."""
        name = self._keep(program)
        if name is not None:
            self._streams[key] = found = StreamProgram(name, tuple(int(b) for b in bits))
            _of_streams.put(key, found)
            cache.store(STREAMS, key, {"name": name, "bits": found.bits})

    def keep_host(self, key: str, program: "Program") -> None:
        """Keep what was compiled for a piece of the host."""
        name = self._keep(program)
        if name is not None:
            self._host[key] = name
            cache.store(STREAMS, key, {"name": name})

    def stored(self) -> Stored:
        """Everything that was used, for an artifact."""
        from archloom.oracle.xla.executables import platform

        code: dict[str, bytes] = {}
        for name in {p.name for p in self._streams.values()} | set(self._host.values()):
            data = self._code.get(name) or self._read(name)
            if data is not None:
                code[name] = data
        return Stored(platform(), dict(self._streams), dict(self._host), code)

    def _keep(self, program: "Program") -> str | None:
        data = program.serialize()
        if data is None:
            return None
        name = hashlib.sha256(data).hexdigest()
        self._code[name] = data
        _loaded.put(name, program)
        cache.store_bytes(KIND, name, data)
        return name

    def _read(self, name: str) -> bytes | None:
        given = self._given.code.get(name) if self._given is not None else None
        return given if given is not None else cache.load_bytes(KIND, name)

    def _program(self, name: str) -> "Program | None":
        from archloom.oracle.xla import executables

        with _lock:
            program: Program | None = _loaded.get(name)
        if program is None:
            data = self._read(name)
            loaded = executables.load(data) if data is not None else None
            if isinstance(loaded, executables.Unloadable):
                self.recompiled[name] = loaded.reason
            elif loaded is not None:
                program = loaded
                with _lock:
                    _loaded.put(name, program)
        return program


def _stream_program(value: Any) -> StreamProgram | None:
    if not isinstance(value, dict):
        return None
    name, bits = value.get("name"), value.get("bits")
    if not isinstance(name, str) or not isinstance(bits, list) or not all(isinstance(b, int) for b in bits):
        return None
    return StreamProgram(name, tuple(bits))
