"""ONNX files in: read, checked, with every fault of the file reported as a :class:`~oracle.errors.ModelError`."""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx
from google.protobuf.message import EncodeError  # type: ignore[import-untyped,unused-ignore]

from archloom.oracle.errors import ModelError, nearest
from archloom.oracle.reading import JSON_BYTES, file_size, memory_bytes
from archloom.tvm_backend.frontends.onnx import skeleton
from archloom.tvm_backend.frontends.onnx.editor import within

PROTO_BYTES = (1 << 31) - 1
"""Protocol buffers have no larger messages."""
WRITTEN = (".onnxtxt", ".onnxtext")
"""Suffixes of ONNX's own syntax, whose parser calls itself for what is inside of brackets."""
TEXTS = (*WRITTEN, ".json", ".onnxjson", ".textproto", ".prototxt", ".pbtxt")
MAX_DEPTH = 64
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|([(\[{])|([)\]}])')


def _refuse_depth(path: Path) -> None:
    """ModelError for a text whose brackets nest so deeply that its parser would exhaust the stack."""
    depth = 0
    for match in _BRACKETS.finditer(path.read_text(errors="replace")):
        depth = max(0, depth + bool(match[1]) - bool(match[2]))
        if depth > MAX_DEPTH:
            raise ModelError(f"{path}: expected brackets within at most {MAX_DEPTH} others, found more")


def meant(path: Path) -> str:
    """Which networks there are by name, for a word that could be one."""
    if len(path.parts) != 1 or path.suffix:
        return ""
    from archloom.models import catalogue

    near = nearest(path.name, [*catalogue.BY_NAME, *catalogue.TRAINED])
    return f", and no network by that name{near} (archloom networks lists them)"


def skeleton_of(path: Path) -> bytes:
    """The skeleton of an ONNX file; NoSkeleton where it must be read as a whole, ModelError for what is no file."""
    if os.path.exists(path) and not path.is_dir():
        _refuse_size(path)
    return skeleton.of_file(path)


def _refuse_size(path: Path) -> None:
    file_size(path, JSON_BYTES if path.suffix in TEXTS else PROTO_BYTES, ModelError)


def read_onnx(path: Path) -> onnx.ModelProto:
    """Read and check an ONNX file with its external data."""
    if not os.path.exists(path):
        raise ModelError(f"{path}: no such file{meant(path)}")
    if path.is_dir():
        raise ModelError(f"{path}: expected an ONNX file, found a directory")
    _refuse_size(path)
    try:
        if path.suffix in WRITTEN:
            _refuse_depth(path)
        with warnings.catch_warnings(action="ignore"):  # of formats that onnx calls experimental
            proto = onnx.load(path, load_external_data=False)
        outside = [tensor for tensor in _tensors(proto.graph) if tensor.external_data]
        if outside:  # first looked at, then read
            _refuse_external(proto, path, outside)
            onnx.external_data_helper.load_external_data_for_model(proto, str(path.parent))
    except _parse_errors() as error:
        size = path.stat().st_size
        what = " ".join(str(error).split())
        raise ModelError(f"{path}: not an ONNX file, or cut short: {what} ({size} bytes read)") from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error}") from error
    except (ValueError, RuntimeError, LookupError, ArithmeticError, TypeError, onnx.checker.ValidationError) as error:
        raise ModelError(f"{path}: its data cannot be read: {type(error).__name__}: {error}") from error
    if not outside:
        check_onnx(proto, str(path))
    return proto


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """All constants of a graph, those of nodes and of graphs within included."""
    for found in within(graph):
        yield from found.initializer
        for node in found.node:
            for attribute in node.attribute:
                yield from (attribute.t, *attribute.tensors)


def _refuse_external(proto: onnx.ModelProto, path: Path, tensors: Sequence[onnx.TensorProto]) -> None:
    """Check a network by its file, and demand memory for its tensors; nothing of them has been read yet."""
    refuse_empty(proto, str(path))
    size = sum(math.prod(t.dims) for t in tensors)
    if size > memory_bytes():
        raise ModelError(f"{path}: its constants have at least {size} bytes; this machine has {memory_bytes()} of "
                         "memory")
    try:
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError as error:
        raise ModelError(f"{path}: not a valid ONNX network: {' '.join(str(error).split())}") from error


def refuse_empty(proto: onnx.ModelProto, label: str) -> None:
    """ModelError for what parses as a network but has none."""
    if not proto.graph.node:
        raise ModelError(f"{label}: expected an ONNX network, found no graph with operators in it")


def _parse_errors() -> tuple[type[Exception], ...]:
    """What onnx raises for a file that does not parse: it takes several forms, chosen by the file's suffix."""
    import onnx.parser
    from google.protobuf import json_format, message, text_format  # type: ignore[import-untyped,unused-ignore]

    return (message.DecodeError, json_format.Error, text_format.Error, onnx.parser.ParseError, UnicodeDecodeError,
            RecursionError)


def check_onnx(proto: onnx.ModelProto, label: str) -> None:
    """Refuse what onnx's checker refuses, in one sentence; it checks no network of 2 GB."""
    refuse_empty(proto, label)
    try:
        onnx.checker.check_model(proto)
    except EncodeError:
        return
    except ValueError as error:
        if "2GB" not in str(error) and "2GiB" not in str(error):
            raise ModelError(f"{label}: not a valid ONNX network: {error}") from error
    except onnx.checker.ValidationError as error:
        raise ModelError(f"{label}: not a valid ONNX network: {' '.join(str(error).split())}") from error
