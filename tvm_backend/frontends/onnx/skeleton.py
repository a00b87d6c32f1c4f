"""ONNX networks without their weights: what an estimate reads of them, and a name for it.

A weight is a tensor of more than :data:`~archloom.tvm_backend.ir.conversion.WEIGHT_ELEMENTS` floats or bytes. Its name,
type and shape stay, its numbers go; so two networks that differ in weights alone have one skeleton. A file's is cut out
of its bytes without reading the weights: the protocol-buffer wire format says how long each field is. Of files with
data beside them, small tensors are read there; where such a file is absent, floats are ones.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx

from archloom.oracle.errors import ModelError
from archloom.oracle.fallbacks import Fallback
from archloom.tvm_backend.ir.conversion import WEIGHT_ELEMENTS

NARROW_TYPES = frozenset({17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28})
"""Those of ``onnx.TensorProto`` that came with operator set 19 and later, of 2 to 8 bits; NumPy has none of them."""
WEIGHT_TYPES = frozenset({1, 2, 3, 10, 11, 16}) | NARROW_TYPES
"""FLOAT, UINT8, INT8, FLOAT16, DOUBLE, BFLOAT16, and the narrow ones"""
FLOAT_TYPES = frozenset({1, 10, 11, 16})

Bytes: TypeAlias = "bytes | mmap.mmap"
Field: TypeAlias = tuple[int, int, int, int]
"""number, first byte of the whole field, first byte of its content (of a varint: its value), byte after it"""

# numbers of fields in onnx.proto
_MODEL_GRAPH, _GRAPH_INITIALIZER, _GRAPH_DOC, _GRAPH_SPARSE = 7, 5, 10, 15
_DIMS, _TYPE, _FLOATS, _INTS, _RAW, _DOUBLES, _EXTERNAL, _LOCATION = 1, 2, 4, 5, 9, 10, 13, 14
_NUMBERS = frozenset({_FLOATS, _INTS, _RAW, _DOUBLES, _EXTERNAL, _LOCATION})
_MODEL_KEPT = frozenset({1, 5, 7, 8})
"""ir_version, model_version, graph, opset_import; a model with functions or training is not taken"""
_MODEL_IGNORED = frozenset({2, 3, 4, 6, 14})
"""producer, domain, documentation, metadata"""


class NoSkeleton(Exception):
    """The network has a part that cannot be left out or does not parse."""


@dataclass(frozen=True)
class Skeleton:
    """A network without its weights, and what was done in another way than meant to get it."""

    content: bytes
    fallbacks: tuple[Fallback, ...] = ()


def of_file(path: Path) -> bytes:
    """The skeleton of an ONNX file; NoSkeleton where the file must be read as a whole, ModelError where a file beside
    it is absent that has to be read."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _model(data, path)
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise NoSkeleton(str(error)) from error


def of_proto(proto: "onnx.ModelProto") -> bytes:
    """The skeleton of a network in memory."""
    if proto.functions or proto.training_info or proto.graph.sparse_initializer:
        raise NoSkeleton("functions, training or sparse tensors")
    result = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import)
    graph, target = proto.graph, result.graph
    for field in ("node", "input", "output", "value_info"):
        getattr(target, field).extend(getattr(graph, field))
    target.name = graph.name
    for tensor in graph.initializer:
        if is_weight(tensor.data_type, tuple(tensor.dims)):
            target.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        elif tensor.external_data:
            raise NoSkeleton("a small tensor in an external file")
        else:
            target.initializer.append(tensor)
    return result.SerializeToString(deterministic=True)


def parse(skeleton: bytes) -> "onnx.ModelProto":
    """The network that a skeleton stands for; its weights have no data."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped,unused-ignore]

    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(skeleton)
    except DecodeError as error:
        raise NoSkeleton(str(error)) from error
    if not proto.graph.node:
        raise NoSkeleton("no operators")
    return proto


def is_weight(data_type: int, dims: tuple[int, ...]) -> bool:
    """Whether a tensor of this type and shape is left out."""
    return data_type in WEIGHT_TYPES and math.prod(dims) > WEIGHT_ELEMENTS


def is_blank(tensor: "onnx.TensorProto") -> bool:
    """Whether ``tensor`` is a weight whose numbers were left out."""
    return is_weight(tensor.data_type, tuple(tensor.dims)) and not (
        tensor.raw_data or tensor.float_data or tensor.int32_data or tensor.external_data)


def inferred(model: "onnx.ModelProto", **options: bool) -> "onnx.ModelProto":
    """The network with shapes, as :func:`onnx.shape_inference.infer_shapes` finds them without its weights."""
    return apart(model, lambda bare: onnx.shape_inference.infer_shapes(bare, **options))


def apart(model: "onnx.ModelProto", tool: "Callable[[onnx.ModelProto], onnx.ModelProto]") -> "onnx.ModelProto":
    """What a tool makes of a network that takes it as bytes, of which there may be 2 GB: it gets it without the numbers
    of large constants, which are put back by name."""
    weights = {t.name: t for t in model.graph.initializer if math.prod(t.dims) > WEIGHT_ELEMENTS}
    if not weights:
        return tool(model)
    made = tool(_bare(model, weights))
    for tensor in made.graph.initializer:
        if tensor.name in weights:
            tensor.CopyFrom(weights[tensor.name])
    return made


def _bare(model: "onnx.ModelProto", weights: Container[str]) -> "onnx.ModelProto":
    bare = onnx.ModelProto()
    _copy(model, bare, "graph")
    _copy(model.graph, bare.graph, "initializer")
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            bare.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        else:
            bare.graph.initializer.append(tensor)
    return bare


def _copy(source: Any, target: Any, without: str) -> None:
    """Copy all fields of a message but one."""
    for field, value in source.ListFields():
        if field.name == without:
            continue
        if isinstance(value, int | str | bytes):
            setattr(target, field.name, value)
        else:
            getattr(target, field.name).MergeFrom(value)


def _model(data: Bytes, path: Path) -> bytes:
    parts = []
    for number, first, begin, end in _fields(data, 0, len(data)):
        if number not in _MODEL_KEPT:
            if number not in _MODEL_IGNORED:
                raise NoSkeleton(f"field {number} of the model")
        elif number == _MODEL_GRAPH:
            graph = _graph(data, begin, end, path)
            parts.append(_delimited(_MODEL_GRAPH, graph))
        else:
            parts.append(data[first:end])
    return b"".join(parts)


def _graph(data: Bytes, start: int, stop: int, path: Path) -> bytes:
    parts = []
    for number, first, begin, end in _fields(data, start, stop):
        if number == _GRAPH_SPARSE:
            raise NoSkeleton("a sparse tensor")
        if number == _GRAPH_INITIALIZER:
            parts.append(_delimited(_GRAPH_INITIALIZER, _tensor(data, begin, end, path)))
        elif number != _GRAPH_DOC:
            parts.append(data[first:end])
    return b"".join(parts)


def _tensor(data: Bytes, start: int, stop: int, path: Path) -> bytes:
    kept: list[tuple[int, int]] = []
    dims, kind, external = list[int](), 0, False
    for number, first, begin, end in _fields(data, start, stop):
        if number == _DIMS:
            dims += list(_varints(data, begin, end)) if data[first] & 7 == 2 else [begin]
        elif number == _TYPE:
            kind = begin
        external |= number == _EXTERNAL
        if number not in _NUMBERS:
            kept.append((first, end))
    if not is_weight(kind, tuple(dims)):
        return _with_data(data[start:stop], path) if external else data[start:stop]
    return b"".join(data[first:end] for first, end in kept)


def _with_data(tensor: bytes, path: Path) -> bytes:
    """A small tensor with its numbers, which are in a file beside that of the network."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped,unused-ignore]
    from onnx.external_data_helper import load_external_data_for_tensor

    proto = onnx.TensorProto()
    try:
        proto.ParseFromString(tensor)
        place = path.parent / next((e.value for e in proto.external_data if e.key == "location"), "")
        if place.exists():
            load_external_data_for_tensor(proto, str(path.parent))
        else:
            proto.raw_data = _stand_in(proto, path, place)
    except (DecodeError, OSError, ValueError, onnx.checker.ValidationError) as error:
        raise NoSkeleton(str(error)) from error
    proto.ClearField("external_data")
    proto.ClearField("data_location")
    return proto.SerializeToString(deterministic=True)


def _stand_in(tensor: "onnx.TensorProto", path: Path, place: Path) -> bytes:
    """Ones for floats, such as a bias; shapes depend on integers, and operators on single numbers."""
    if tensor.data_type not in FLOAT_TYPES or math.prod(tensor.dims) < 2:
        raise ModelError(f"{path}: constant {tensor.name!r}: expected its numbers in {place}, found no such file; "
                         "without it only floats may be missing")
    return np.ones(tuple(tensor.dims), onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)).tobytes()


def _fields(data: Bytes, start: int, stop: int) -> Iterator[Field]:
    at = start
    while at < stop:
        first = at
        key, at = _varint(data, at, stop)
        wire = key & 7
        if wire == 0:
            value, at = _varint(data, at, stop)
            yield key >> 3, first, value, at
            continue
        if wire == 2:
            size, at = _varint(data, at, stop)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise NoSkeleton(f"wire type {wire}")
        if at + size > stop:
            raise NoSkeleton("cut short")
        yield key >> 3, first, at, at + size
        at += size


def _varint(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    value = shift = 0
    while at < stop and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise NoSkeleton("cut short")


def _varints(data: Bytes, at: int, stop: int) -> Iterator[int]:
    while at < stop:
        value, at = _varint(data, at, stop)
        yield value


def _delimited(number: int, content: bytes) -> bytes:
    """A field of bytes with its key and length."""
    return _encoded(number << 3 | 2) + _encoded(len(content)) + content


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
