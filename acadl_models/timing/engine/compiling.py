"""Machine code of the engine's entry points, each compiled as a whole with all that it calls, and kept on disk.

It lies beside the bytecode of this folder's modules, or among the user's caches where that folder cannot be written.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import logging
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from archloom.acadl_models.timing.engine.lowering.tables import Array
from archloom.acadl_models.timing.engine.translation import Module
from archloom.oracle.atomic import replacing
from archloom.oracle.native import processor

_DIGEST = hashlib.sha256().digest_size
_lock = threading.Lock()
_log = logging.getLogger("archloom")


class Entry:
    """An entry point, which is compiled, or loaded from disk, when it is first called."""

    def __init__(self, function: Any) -> None:
        self.function, self.__doc__ = function, function.__doc__
        self._call: Any = None
        self._engine: Any = None

    def __call__(self, *arrays: Array) -> int | None:
        words: list[int] = []
        for array in arrays:
            if array.dtype != "int64" or array.ndim != 1 or not array.flags.c_contiguous:
                raise TypeError(f"{self.function.__name__}: expected an array [n] int64, found {array.dtype} "
                                f"{list(array.shape)}, strides {array.strides}")
            words += (array.ctypes.data, len(array))
        if self._call is None:
            self.prepare()
        found: int | None = self._call(*words)
        return found

    def prepare(self) -> None:
        """Compile the function, or load it from disk."""
        with _lock:
            if self._call is None:
                name = self.function.__name__
                self._engine = processor.loaded(self.code())
                kinds = [ctypes.c_int64] * 2 * self.function.__code__.co_argcount
                result = None if self.function.__annotations__["return"] == "None" else ctypes.c_int64
                self._call = ctypes.CFUNCTYPE(result, *kinds)(self._engine.get_function_address(name))

    def code(self) -> bytes:
        """Its machine code, from disk, or compiled and kept there."""
        name = self.function.__name__
        code = kept(name)
        if code is None:
            tell()
            code = self.compiled()
            keep(name, code)
        return code

    def compiled(self) -> bytes:
        return processor.machine_code(Module(self.function).text, optimized=True)


@cache
def tell() -> None:
    """Say, once in a process, why it takes some seconds; the command line shows it."""
    _log.info("compiling the timing engine for this processor, which happens once")


def kept(name: str) -> bytes | None:
    """Machine code on disk that belongs to the present sources; a damaged file counts as absent."""
    for file in files(name):
        with suppress(OSError):
            data = file.read_bytes()
            code = data[2 * _DIGEST :]
            if data[: 2 * _DIGEST] == _sources() + hashlib.sha256(code).digest():
                return code
    return None


def keep(name: str, code: bytes) -> None:
    """Write machine code to the first place that can be written; without one each process compiles."""
    for file in files(name):
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(file) as fresh:
                fresh.write_bytes(_sources() + hashlib.sha256(code).digest() + code)
            return


def files(name: str) -> Iterator[Path]:
    """Where the machine code of an entry point may lie; processors that share a folder have files of their own."""
    import platformdirs

    own = hashlib.sha256(processor.name().encode()).hexdigest()[:12]
    for folder in (Path(importlib.util.cache_from_source(__file__)).parent,
                   Path(platformdirs.user_cache_dir("archloom")) / "engine"):
        yield folder / f"{name}.{own}.machine"


@cache
def _sources() -> bytes:
    """Changes with whatever the engine is compiled from: the modules of this folder and what they import."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for file in (*sorted(folder.rglob("*.py")), *sorted((folder.parent / "memories").glob("*.py"))):
        digest.update(file.read_bytes())
    return digest.digest()
