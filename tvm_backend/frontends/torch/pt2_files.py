"""``.pt2`` files in: exported programs, read without running anything that the file brings along.

``torch.export.load`` unpickles sample inputs and custom objects, evaluates symbolic sizes and looks functions up by
name. So a file is first rewritten: only its graph of torch operators with plain tensors is left, and sizes that are
static or, where open ones are asked for, sums, products and the like of symbols, with comparisons between them.
Weights that torchao has quantized, which ``torch.export.save`` pickles, are read by torch's restricted loader: it makes
nothing but tensors, numbers and the classes that torchao declares safe, and calls no other function.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import pickle
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from archloom.models.quiet import TORCHAO, quiet
from archloom.oracle.errors import ModelError
from archloom.oracle.reading import BROKEN_ZIP, data_bytes, file_size
from archloom.tvm_backend.frontends.torch import pt2_sizes

WEIGHTS, CONSTANTS, GRAPH = "data/weights/", "data/constants/", "models/"
KEPT = (WEIGHTS, CONSTANTS, GRAPH, "archive_format", "archive_version", ".data/", "byteorder", "version")
BYTE = 1
"""uint8 among the types of an archive."""
OPERATORS = ("torch.ops.", "_operator.getitem")
LARGEST_GRAPH = 1 << 28
"""Bytes of a graph in JSON; networks have a few hundred kilobytes."""
MAKER = b"torchao"
MALFORMED = (*BROKEN_ZIP, TypeError, AttributeError)
"""What reading an archive, and JSON of other fields than ``torch.export.save`` writes, ends in."""


def read_program(path: Path, open_sizes: bool = False) -> torch.export.ExportedProgram:
    """The program in a ``.pt2`` file.

    Raises :class:`~archloom.oracle.errors.ModelError` for anything else, and for programs with pickled or custom
    objects, or (unless they are asked for) with sizes that are not static.
    """
    if not os.path.exists(path):
        raise ModelError(f"{path}: no such file")
    if path.is_dir():
        raise ModelError(f"{path}: expected a .pt2 file, found a directory")
    file_size(path, data_bytes(), ModelError)
    quantized: dict[str, bytes] = {}
    try:
        plain = _plain(path, quantized, open_sizes)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error}") from error
    except MALFORMED as error:
        raise ModelError(f"{path}: not a .pt2 file, or cut short: {type(error).__name__}: {error}") from error
    _register_operators(b"torch.ops.transformers." in plain)
    tensors = {name: _read_tensor(f"{path}: weight {name!r}", data) for name, data in quantized.items()}
    try:
        with quiet("torch"), warnings.catch_warnings(action="ignore"):
            program = torch.export.load(io.BytesIO(plain))
        program.state_dict.update({name: torch.nn.Parameter(t, requires_grad=False) for name, t in tensors.items()})
        return program
    except Exception as error:  # torch raises whatever its parts raise
        raise ModelError(f"{path}: torch cannot load it: {summary(error, 300)}") from error


def summary(error: BaseException, most: int = 400) -> str:
    """The lines of an exception of torch that say something: of its ONNX exporter, which tells its users what to do
    next, those of the innermost cause."""
    while type(error).__module__.startswith("torch.onnx") and error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines)[:most]}"


def _register_operators(of_transformers: bool) -> None:
    """Operators of quantized programs and of transformers are known to torch once their modules are imported."""
    importlib.import_module("torch.ao.quantization.fx._decomposed")
    if of_transformers:
        with contextlib.suppress(ImportError):  # torch then says which operator it does not know
            importlib.import_module("transformers.integrations.moe")


def _plain(path: Path, quantized: dict[str, bytes], open_sizes: bool) -> bytes:
    """The archive with nothing in it but graph and plain tensors; ``quantized`` gets the records of other weights."""
    into = io.BytesIO()
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(into, "w", zipfile.ZIP_STORED) as target:
        names = source.namelist()
        if len(set(names)) != len(names):
            raise ModelError(f"{path}: two parts of the archive have the same name")
        if not any(GRAPH in name for name in names):
            raise ModelError(f"{path}: no exported program in it; expected a file that torch.export.save has written")
        for info in source.infolist():
            _, _, inner = info.filename.partition("/")
            if info.compress_type != zipfile.ZIP_STORED:
                raise ModelError(f"{path}: {info.filename} is compressed, which torch.export.save does not do")
            if inner.startswith("data/sample_inputs/"):
                target.writestr(info.filename, b"")
            elif inner.startswith(KEPT):
                where, data = f"{path}: {info.filename}", source.read(info)
                if inner.startswith((WEIGHTS, CONSTANTS)) and inner.endswith(".json"):
                    data = _checked_weights(where, inner, data, source, quantized)
                elif inner.startswith(GRAPH) and inner.endswith(".json"):
                    data = _checked_graph(where, data, open_sizes)
                target.writestr(info.filename, data)
    return into.getvalue()


def _checked_weights(
    where: str, inner: str, data: bytes, archive: zipfile.ZipFile, quantized: dict[str, bytes]
) -> bytes:
    """The list of weights or constants, of plain tensors: the first byte of its record stands for any other weight."""
    found = json.loads(data)
    folder = where.rpartition(": ")[2].rpartition("/")[0]
    for name, entry in found["config"].items():
        record, meta = entry["path_name"], entry["tensor_meta"]
        if not record.startswith(("weight_", "tensor_")) or (entry["use_pickle"] and not inner.startswith(WEIGHTS)):
            raise ModelError(f"{where}: {name!r} is an object of Python's, expected plain tensors only")
        if entry["use_pickle"]:
            quantized[name] = archive.read(f"{folder}/{record}")
            entry["use_pickle"] = False
            meta.update(dtype=BYTE, sizes=[], strides=[], storage_offset={"as_int": 0}, requires_grad=False)
        elif not archive.getinfo(f"{folder}/{record}").file_size and 0 not in [d["as_int"] for d in meta["sizes"]]:
            raise ModelError(f"{where}: {name!r} has no data")
    return json.dumps(found).encode()


def _checked_graph(where: str, data: bytes, open_sizes: bool) -> bytes:
    """A graph without what is not needed to compute it."""
    if len(data) > LARGEST_GRAPH:
        raise ModelError(f"{where}: a graph of {len(data):,} bytes is larger than {LARGEST_GRAPH:,}")
    graph = json.loads(data)
    if not open_sizes:
        if graph.get("range_constraints"):
            raise ModelError(f"{where}: sizes that are open ({', '.join(sorted(graph['range_constraints']))}); "
                             "expected a program that was exported with static shapes, or dynamic=True")
        graph["guards_code"] = []
    for guard in graph.get("guards_code", ()):
        pt2_sizes.check_guard(guard, where)
    for entry in _dictionaries(graph):
        if "expr_str" in entry:
            if not open_sizes:
                raise ModelError(f"{where}: a size is {str(entry['expr_str'])[:60]!r}; expected a program that was "
                                 "exported with static shapes, or dynamic=True")
            pt2_sizes.check_size(entry["expr_str"], where)
        if isinstance(entry.get("target"), str) and "inputs" in entry:
            if not (entry["target"].startswith(OPERATORS)
                    or (open_sizes and entry["target"] in pt2_sizes.OPERATORS)):
                raise ModelError(f"{where}: operator {entry['target']!r} is none of torch's")
            entry["metadata"] = {}
    return json.dumps(graph).encode()


def _dictionaries(value: Any) -> Iterator[dict[str, Any]]:
    """All JSON objects inside of ``value``."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            yield found
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)


def _read_tensor(where: str, data: bytes) -> torch.Tensor:
    """The tensor in a record of an archive; raises :class:`~archloom.oracle.errors.ModelError` for anything else."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as record:
            if any(info.compress_type != zipfile.ZIP_STORED for info in record.infolist()):
                raise ModelError(f"{where} is compressed, which torch.save does not do")
            made_by_torchao = any(MAKER in record.read(n) for n in record.namelist() if n.endswith("data.pkl"))
        if made_by_torchao:
            _import_torchao(where)
        with warnings.catch_warnings(action="ignore"):
            tensor = torch.load(io.BytesIO(data), weights_only=True)
    except (pickle.UnpicklingError, *MALFORMED) as error:
        raise ModelError(
            f"{where} is an object of Python's, expected a plain tensor or one that torchao has quantized") from error
    if not isinstance(tensor, torch.Tensor):
        raise ModelError(f"{where}: expected a tensor, found {type(tensor).__name__}")
    return tensor


def _import_torchao(where: str) -> None:
    try:
        with quiet(*TORCHAO), warnings.catch_warnings(action="ignore"):
            importlib.import_module("torchao.quantization")
    except ImportError as error:
        raise ModelError(f"{where} has been quantized by torchao, which is not installed: pip install torchao"
                         ) from error
