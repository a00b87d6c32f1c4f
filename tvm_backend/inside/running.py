"""``archloom.call``: what libraries of TVM call for the functions that archloom compiled.

A library hands over which artifact a function belongs to; artifacts are kept by their content. One that was compiled in
another process is read from the library at its first call.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tvm
from tvm import relax

from archloom.oracle.errors import ArchloomError, ArtifactError
from archloom.oracle.xla.executables import borrowed
from archloom.tvm_backend.artifact import files as artifact_files
from archloom.tvm_backend.dynamic.network import KEPT, DynamicNetwork
from archloom.tvm_backend.executable import CompiledNetwork, open_packed
from archloom.tvm_backend.ir import compat
from archloom.tvm_backend.sources.dynamic import load_dynamic
from archloom.tvm_backend.sources.source import Source
from archloom.tvm_backend.targets.choice import Chosen, choose, named_options

_OF_NUMPY = frozenset("biuf")
"""Kinds of types that NumPy has by itself."""
_OPEN, _PARTS = "open.json", "parts.json"

_lock = threading.RLock()
_kept: dict[str, "Callee"] = {}


class Callee(Protocol):
    """The functions of one artifact."""

    @property
    def symbols(self) -> Sequence[str]: ...

    def run(self, number: int, tensors: Sequence[Any]) -> Sequence[Any]:
        """The results of a function for ``tensors``, its inputs and then those for its results."""

    def networks(self) -> dict[str, CompiledNetwork]:
        """The compiled networks behind it, by what they are called in reports."""


class Functions:
    """Functions of static shapes: each is a call of one network."""

    def __init__(self, network: CompiledNetwork) -> None:
        network.prepare()
        self.network = network
        self.symbols = tuple(call.symbol for call in network.calls)
        self._arity = tuple((len(call.inputs), len(call.outputs)) for call in network.calls)

    def run(self, number: int, tensors: Sequence[Any]) -> Sequence[Any]:
        """See :class:`Callee`; ArtifactError for more or fewer tensors."""
        taken, given = self._arity[number]
        if len(tensors) != taken + given:
            raise ArtifactError(f"expected {taken} inputs and {given} results, found {len(tensors)} tensors")
        return self.network.call(number, [borrowed(t) for t in tensors[:taken]])

    def networks(self) -> dict[str, CompiledNetwork]:
        """The one network."""
        return {"": self.network}


class Parts:
    """Functions that are parts of a network as it was imported: each is a network."""

    def __init__(self, networks: Mapping[str, CompiledNetwork]) -> None:
        self.symbols = tuple(networks)
        self._networks = list(networks.values())
        for network in self._networks:
            network.prepare()

    def packed(self) -> bytes:
        """Them as data: a zip of their artifacts."""
        files = {f"parts/{i:04}.zip": network.packed() for i, network in enumerate(self._networks)}
        table = json.dumps({"functions": self.symbols}).encode()
        return artifact_files.archive(artifact_files.with_manifest({**files, _PARTS: table}))

    @classmethod
    def read(cls, files: Mapping[str, bytes], label: str) -> "Parts":
        """What :meth:`packed` wrote."""
        symbols = json.loads(files[_PARTS])["functions"]
        return cls({symbol: open_packed(files[f"parts/{i:04}.zip"], f"{label}: {symbol}")
                    for i, symbol in enumerate(symbols)})

    def run(self, number: int, tensors: Sequence[Any]) -> Sequence[Any]:
        """See :class:`Callee`."""
        network = self._networks[number]
        return _run(network, [spec.name for spec in network.compiled.inputs], tensors)

    def networks(self) -> dict[str, CompiledNetwork]:
        """All of them."""
        return dict(zip(self.symbols, self._networks, strict=True))


def _run(network: CompiledNetwork | DynamicNetwork, names: Sequence[str], tensors: Sequence[Any]) -> list[Any]:
    """The results of a network for tensors of TVM, its inputs first."""
    given = [np.asarray(borrowed(t)) for t in tensors[:len(names)]]
    return list(network.run(dict(zip(names, given, strict=True))).values())


def modules_of(functions: Sequence[relax.Function]) -> dict[str, Any]:
    """Functions that ``RunCodegen`` hands over as networks, by their symbols."""
    return {str(f.attrs["global_symbol"]): compat.ensure_dataflow(compat.module_of(f.without_attr("Codegen")))
            for f in functions}


class OpenFunctions:
    """Functions of open extents: each becomes a network at the extents that it is called with."""

    def __init__(self, modules: Mapping[str, Any], chosen: Sequence[Chosen]) -> None:
        self.symbols = tuple(modules)
        self._modules = list(modules.values())
        self._chosen = chosen
        self._networks = [DynamicNetwork(load_dynamic(Source.of(module, name=symbol)), chosen, KEPT)
                          for symbol, module in modules.items()]

    def packed(self) -> bytes:
        """Them as data: a zip of the functions as Relax modules, with the targets and their options."""
        table = {"targets": ",".join(c.name for c in self._chosen), "options": named_options(self._chosen)
                 if self._chosen else {}, "functions": self.symbols}
        files = {f"functions/{i:04}.json": compat.to_json(m).encode() for i, m in enumerate(self._modules)}
        return artifact_files.archive(artifact_files.with_manifest({**files, _OPEN: json.dumps(table).encode()}))

    @classmethod
    def read(cls, files: Mapping[str, bytes]) -> "OpenFunctions":
        """What :meth:`packed` wrote."""
        table = json.loads(files[_OPEN])
        modules = {symbol: compat.from_json(files[f"functions/{i:04}.json"].decode())
                   for i, symbol in enumerate(table["functions"])}
        return cls(modules, choose(table["targets"], table["options"]) if table["targets"] else ())

    def run(self, number: int, tensors: Sequence[Any]) -> Sequence[Any]:
        """See :class:`Callee`; InputError for tensors that the function does not take."""
        network = self._networks[number]
        return _run(network, [given.name for given in network.model.inputs], tensors)

    def networks(self) -> dict[str, CompiledNetwork]:
        """Those of the last call of each function that was called."""
        return {symbol: network.at(network.kept[-1])
                for symbol, network in zip(self.symbols, self._networks, strict=True) if network.kept}


def keep(data: bytes, callee: "Callee") -> str:
    """Keep what this process compiled, and name it by its content."""
    key = _name_of(data)
    with _lock:
        _kept[key] = callee
    return key


def _name_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def kept(key: str) -> Callee:
    """The functions of an artifact that a library has brought."""
    return _kept[key]


def _read(key: str, address: int, size: int) -> Callee:
    """The functions of an artifact, read from a library's data where this process has not compiled it."""
    with _lock:
        if key not in _kept:
            if not address:
                raise ArtifactError(f"the library has no data of artifact {key}, which another process compiled")
            data = ctypes.string_at(address, size)
            label = f"artifact {key} of the library"
            if _name_of(data) != key:
                raise ArtifactError(f"{label}: damaged: its content is another than it was saved with")
            files = artifact_files.read_archive(data, Path(label))
            _kept[key] = (OpenFunctions.read(files) if _OPEN in files else Parts.read(files, label) if _PARTS in files
                          else Functions(open_packed(data, label)))
        return _kept[key]


def call(key: str, number: int, address: int, size: int, *tensors: Any) -> str:
    """What a library calls. Without a number (:data:`~stubs.ABOUT`), says which artifact there is."""
    key = str(key)
    found = _kept.get(key) or _read(key, address, size)
    if number < 0:
        return key
    try:
        results = found.run(number, [t if t.__chandle__() else _copied(t) for t in tensors])
        for result, out in zip(results, tensors[len(tensors) - len(results):], strict=True):
            _write(result, out)
    except ArchloomError as error:
        error.args = (f"{found.symbols[number]}: {error}",)
        raise
    return key


def _copied(shown: tvm.runtime.Tensor) -> tvm.runtime.Tensor:
    """A tensor that a caller only shows, as a server of RPC does, as one that can be handed on."""
    tensor = tvm.runtime.empty(shown.shape, shown.dtype)
    shown.copyto(tensor)
    return tensor


def _write(result: Any, out: tvm.runtime.Tensor) -> None:
    """A result where TVM wants it, when it is there; regions may have it under another shape."""
    array = np.asarray(result).reshape(out.shape)
    if not out.__chandle__():
        tvm.runtime.tensor(array).copyto(out)
    elif array.dtype.kind in _OF_NUMPY:
        np.copyto(np.from_dlpack(out), array)
    else:  # bfloat16 and its like, which NumPy does not exchange
        out.copyfrom(array)
