"""Compilation of the engine's inner loops, cached on disk as one piece."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

jit = numba.njit(nogil=True, error_model="numpy", boundscheck=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)
"""For functions that are compiled into the entry points."""


def entry(*signature: str) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function for one signature, cached on disk.

    Numba's cache looks at the file of the function alone; here the newest file of this folder counts, because all of
    its functions are compiled into the entry points.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(nogil=True, error_model="numpy", boundscheck=False)(function)
        dispatcher.enable_caching()
        _stamp_folder(dispatcher)
        return dispatcher

    return decorate


def _stamp_folder(dispatcher: Any) -> None:
    files = [p.stat() for p in Path(__file__).parent.glob("*.py")]
    cache_file = dispatcher._cache._cache_file
    cache_file._source_stamp = (max(f.st_mtime for f in files), sum(f.st_size for f in files))
