"""Programs of XLA for a network's streams and its host: compiled once, kept in memory, in artifacts and on disk.

What a stream or a piece of the host computes follows from its content; the machine code for it also from XLA and the
processor (:func:`archloom.oracle.xla.executables.platform`). Streams that differ in scales alone share a program.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from archloom.mapper import disk
from archloom.mapper.cache import code_fingerprint, key_of
from archloom.oracle.fallbacks import Fallback
from archloom.oracle.memory import Remembered
from archloom.tvm_backend import cache

if TYPE_CHECKING:
    from archloom.oracle.stream import Stream
    from archloom.oracle.taidl.isa import Isa
    from archloom.oracle.xla.executables import Called, Executable

    Program: TypeAlias = Executable | Called

CODE, NAMES = "programs", "streams"
"""Kinds of results on disk: machine code by its content; which program a stream or a piece of the host has."""
KEPT = 1024
COMPILED = "compiled again when it is first run"

_loaded: Remembered[str, Any] = Remembered(KEPT)
_named: Remembered[str, "Named"] = Remembered(KEPT)
_lock = threading.Lock()


@dataclass(frozen=True)
class Named:
    """Which program a stream or a piece of the host has: its ``name``, the bit patterns that a stream's takes as its
    last argument, and what it does in another way than meant."""

    name: str
    bits: tuple[int, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()


@dataclass(frozen=True, eq=False)
class Stored:
    """Programs as an artifact has them: by the keys of streams and of pieces of the host, and machine code by name.

    What is not the user's ``own`` is left aside.
    """

    platform: str
    programs: Mapping[str, Named]
    code: Mapping[str, bytes]
    own: bool = True


def forget() -> None:
    """Drop what this process remembers; programs on disk stay."""
    _loaded.clear()
    _named.clear()


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
        self._brought = given
        self._fallbacks: dict[Fallback, None] = {}
        self._used: dict[str, Named] = {}
        self._code: dict[str, bytes] = {}

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """Why programs were, or will be, compiled again."""
        return tuple(self._fallbacks)

    @cached_property
    def _given(self) -> Stored | None:
        """What the artifact brought, if it is this user's and for machines like this one."""
        from archloom.oracle.xla.executables import platform

        if self._brought is not None and not self._brought.own:
            self._note("machine code of the artifact", "it is not signed with this user's key", COMPILED)
            return None
        if self._brought is None or self._brought.platform == platform():
            return self._brought
        self._note("machine code of the artifact", "it was made by another JAX, or for another processor", COMPILED)
        return None

    def _note(self, where: str, why: str, cost: str) -> None:
        self._fallbacks[Fallback(where, why, cost)] = None

    def find(self, key: str) -> "tuple[Program, np.ndarray] | None":
        """The program of a stream or of a piece of the host, and its bit patterns, if it has been compiled before."""
        found = self._used.get(key) or _named.get(key)
        if found is None and self._given is not None:
            found = self._given.programs.get(key)
        if found is None:
            found = _read_named(cache.load(NAMES, key))
        program = self._program(found.name) if found is not None else None
        if found is None or program is None:
            return None
        self._use(key, found)
        return program, np.array(found.bits, np.uint32)

    def fallbacks_of(self, key: str) -> tuple[Fallback, ...]:
        """What the program of a stream does in another way than meant."""
        return self._used[key].fallbacks if key in self._used else ()

    def keep(self, key: str, program: "Program", bits: Iterable[int] = (), fallbacks: Iterable[Fallback] = ()) -> None:
        """Keep what was compiled for a stream or a piece of the host."""
        name = self._keep(program)
        if name is not None:
            plain = tuple(Fallback(f.where, f.why, f.cost) for f in fallbacks)
            self._use(key, Named(name, tuple(int(b) for b in bits), plain))
            self._failed(cache.store(NAMES, key, asdict(self._used[key])))

    def _use(self, key: str, found: Named) -> None:
        self._used[key] = found
        _named[key] = found

    def stored(self) -> Stored:
        """Everything that was used, for an artifact."""
        from archloom.oracle.xla.executables import platform

        known = {}
        for name in {found.name for found in self._used.values()}:
            data = self._code.get(name) or self._read(name)
            if data is None and (program := _loaded.get(name)) is not None:  # this process has it, but no file
                data = program.serialize()
            if data is not None:
                known[name] = data
        return Stored(platform(), {key: found for key, found in self._used.items() if found.name in known}, known)

    def _keep(self, program: "Program") -> str | None:
        data = program.serialize()
        if data is None:
            self._note("programs of XLA", "this JAX gives no machine code", "every process compiles them again")
            return None
        name = hashlib.sha256(data).hexdigest()
        self._code[name] = data
        _loaded[name] = program
        self._failed(disk.store(CODE, name, data))
        return name

    def _failed(self, failure: Fallback | None) -> None:
        if failure is not None:
            self._fallbacks[failure] = None

    def _read(self, name: str) -> bytes | None:
        given = self._given.code.get(name) if self._given is not None else None
        return given if given is not None else disk.load(CODE, name)

    def _program(self, name: str) -> "Program | None":
        from archloom.oracle.xla import executables

        with _lock:
            program: Program | None = _loaded.get(name)
        if program is None:
            data = self._read(name)
            loaded = executables.load(data) if data is not None else None
            if isinstance(loaded, executables.Unloadable):
                self._note("stored machine code", loaded.reason, COMPILED)
            elif loaded is not None:
                program = loaded
                with _lock:
                    _loaded[name] = program
        return program


def _read_named(value: Any) -> Named | None:
    """What the cache holds, unless it is something else."""
    try:
        bits = tuple(int(b) for b in value["bits"])
        return Named(str(value["name"]), bits, tuple(Fallback(**f) for f in value["fallbacks"]))
    except (KeyError, TypeError, ValueError):
        return None
