"""Machine code of the engine's entry points, each compiled as a whole with all that it calls, and kept on disk.

It lies beside the bytecode of this folder's modules, or among the user's caches where that folder cannot be written.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import threading
from functools import cache
from pathlib import Path
from typing import Any

from archloom.acadl_models.timing.engine.lowering.tables import Array
from archloom.acadl_models.timing.engine.translation import Module
from archloom.oracle.atomic import Kept, digest_of
from archloom.oracle.native import processor

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
        file = kept(self.function.__name__)
        code = file.read()
        if code is None:
            tell()
            code = self.compiled()
            file.write(code)
        return code

    def compiled(self) -> bytes:
        return processor.machine_code(Module(self.function).text, optimized=True)


@cache
def tell() -> None:
    """Say, once in a process, why it takes some seconds; the command line shows it."""
    _log.info("compiling the timing engine for this processor, which happens once")


def kept(name: str) -> Kept:
    """The file of an entry point's machine code; processors that share a folder have files of their own."""
    own = hashlib.sha256(processor.name().encode()).hexdigest()[:12]
    return Kept(__file__, "engine", f"{name}.{own}.machine", _sources())


@cache
def _sources() -> bytes:
    """Changes with whatever the engine is compiled from: the modules of this folder and what they import."""
    folder = Path(__file__).parent
    return digest_of((*folder.rglob("*.py"), *(folder.parent / "memories").glob("*.py")))
