"""``archloom.call``: what libraries of TVM call for the functions that archloom compiled.

A library hands over which artifact a function belongs to; artifacts are kept by their content. One that was compiled in
another process is read from the library at its first call.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm

from archloom.oracle.errors import ArchloomError, ArtifactError
from archloom.oracle.xla.executables import borrowed
from archloom.tvm_backend.executable import CompiledNetwork, open_packed

_OF_NUMPY = frozenset("biuf")
"""Kinds of types that NumPy has by itself."""

_lock = threading.RLock()
_kept: dict[str, "Functions"] = {}


class Functions:
    """The functions of one artifact, by their numbers."""

    def __init__(self, network: CompiledNetwork) -> None:
        network.prepare()
        self.network = network
        self.symbols = tuple(call.symbol for call in network.calls)
        self.arity = tuple((len(call.inputs), len(call.outputs)) for call in network.calls)

    def run(self, number: int, tensors: Sequence[Any]) -> None:
        """Call a function on its inputs and the tensors for its results, which come last."""
        taken, given = self.arity[number]
        if len(tensors) != taken + given:
            raise ArtifactError(f"{self.symbols[number]}: expected {taken} inputs and {given} results, found "
                                f"{len(tensors)} tensors")
        try:
            results = self.network.call(number, [borrowed(t) for t in tensors[:taken]])
            for result, out in zip(results, tensors[taken:], strict=True):
                _write(result, out)
        except ArchloomError as error:
            error.args = (f"{self.symbols[number]}: {error}",)
            raise


def keep(key: str, network: CompiledNetwork) -> None:
    """Keep what this process compiled."""
    with _lock:
        _kept[key] = Functions(network)


def functions(key: str, address: int, size: int) -> Functions:
    """The functions of an artifact, read from a library's data where this process has not compiled it."""
    with _lock:
        if key not in _kept:
            if not address:
                raise ArtifactError(f"the library has no data of artifact {key}, which another process compiled")
            _kept[key] = Functions(open_packed(ctypes.string_at(address, size), f"artifact {key} of the library"))
        return _kept[key]


def kept(key: str) -> Functions:
    """An artifact that a library has brought."""
    return _kept[key]


def call(key: str, number: int, address: int, size: int, *tensors: Any) -> str:
    """What a library calls. Without a number (:data:`~stubs.ABOUT`), says which artifact there is."""
    key = str(key)
    found = _kept.get(key) or functions(key, address, size)
    if number >= 0:
        found.run(number, tensors)
    return key


def _write(result: Any, out: tvm.runtime.Tensor) -> None:
    """A result where TVM wants it, when it is there."""
    array = np.asarray(result)
    if array.dtype.kind in _OF_NUMPY:
        np.copyto(np.from_dlpack(out), array)
    else:  # bfloat16 and its like, which NumPy does not exchange
        out.copyfrom(array)
