"""What is refused of an ONNX network before anything is computed from it: faults that would cost memory, or a crash.

ONNX's own checker sees most faults of a file. It does not see sizes that no machine holds, and networks without their
weights cannot be given to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter

import onnx
from google.protobuf.message import EncodeError  # type: ignore[import-untyped,unused-ignore]
from onnx import TensorProto, helper

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.frontends.onnx import skeleton
from archloom.tvm_backend.frontends.onnx.editor import every_node, within
from archloom.tvm_backend.frontends.onnx.training import refuse_training
from archloom.tvm_backend.ir.bounds import MAX_TENSOR_BYTES
from archloom.tvm_backend.ir.nodes import Unsupported

MAX_EXTENT = (1 << 31) - 1
"""Largest extent of a tensor along an axis: XLA and TVM count with 32 bits here and there."""
MAX_NODES = 1 << 20
"""A network of more operators is refused."""
MAX_FRAMES = 1 << 14
"""A recurrent layer is written out frame by frame: longer sequences are refused."""
RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
GROWING = frozenset({"ConstantOfShape", "Expand", "Pad", "Range", "Resize", "Tile", "Upsample"})
"""Operators of small tensors that make large ones: inference of shapes would make them to look at their values."""

KINDS = {number: name.lower() for name, number in TensorProto.DataType.items()}
"""Types by their numbers, and those of numbers."""
NUMBERS = frozenset(TensorProto.DataType.Value(name) for name in (
    "FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32",
    "UINT64"))
WINDOWED = frozenset({"AveragePool", "Conv", "ConvTranspose", "LpPool", "MaxPool"})
PADDINGS = (b"NOTSET", b"SAME_UPPER", b"SAME_LOWER", b"VALID")


STUMBLES = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError)
"""What rewrites raise where an operator is not as ONNX wants it, or where they are wrong themselves."""


class Stumbled(Unsupported):
    """What went wrong in a network without its weights: by whose fault, the whole network shows."""


@contextmanager
def malformed(label: str, proto: onnx.ModelProto) -> Iterator[None]:
    """What rewrites stumble over in a network with which something is wrong, as a ModelError."""
    try:
        yield
    except STUMBLES as error:
        if is_sound(proto):  # the fault is not the network's
            raise
        raise ModelError(f"{label}: not a valid ONNX network: {_shown(error)}") from error


@contextmanager
def without_weights() -> Iterator[None]:
    """What is stumbled over in a network without its weights, as :class:`Stumbled`."""
    try:
        yield
    except STUMBLES as error:
        raise Stumbled(_shown(error)) from error


def is_sound(proto: onnx.ModelProto) -> bool:
    """Whether onnx's checker finds nothing wrong with a network, its types and shapes included."""
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError, RuntimeError, EncodeError):
        return False
    return True


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def refuse_faults(proto: onnx.ModelProto, label: str) -> None:
    """ModelError for a network whose names are no text, that names tensors twice, has no outputs, is too new, or has
    inputs of no numbers."""
    graph = proto.graph
    for name in _names(proto):
        if isinstance(name, bytes):  # so protobuf gives what is not UTF-8
            raise ModelError(f"{label}: expected names in UTF-8, found {name[:100]!r}")
    newest = onnx.defs.onnx_opset_version()
    for opset in proto.opset_import:
        if opset.domain in ("", "ai.onnx") and not 1 <= opset.version <= newest:
            raise ModelError(f"{label}: expected an operator set from 1 to {newest}, found {opset.version}")
    if proto.ir_version > onnx.IR_VERSION:
        raise ModelError(f"{label}: expected a file of IR version {onnx.IR_VERSION} at most, found {proto.ir_version}")
    if not graph.output:
        raise ModelError(f"{label}: expected a network with outputs, found none")
    _refuse_twice((i.name for i in graph.input), "inputs are", label)
    _refuse_twice((t.name for t in graph.initializer), "constants are", label)
    _refuse_twice((o.name for o in graph.output), "outputs are", label)
    _refuse_twice((name for node in graph.node for name in node.output if name), "results are", label)
    for info in graph.input:
        kind = info.type.tensor_type.elem_type
        if info.type.WhichOneof("value") == "tensor_type" and kind not in NUMBERS:
            raise ModelError(f"{label}: input {info.name!r}: expected numbers, found "
                             f"{KINDS.get(kind, f'the unknown type {kind}')}")
    for node in every_node(graph.node):
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                raise ModelError(f"{label}: node {node.name!r} ({node.op_type}): {attribute.name}: expected a value, "
                                 f"found {attribute.ref_attr_name!r} of a function that it is not in")
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for name, shape in shapes.items():
        if any(extent < 0 for extent in shape):
            raise ModelError(f"{label}: constant {name!r}: expected extents of at least 0, found shape "
                             f"{'x'.join(map(str, shape))}")
        _refuse_size(shape, f"{label}: constant {name!r}")
    for node in graph.node:
        _refuse_window(node, shapes, label)
    _refuse_expansion(proto, label)
    refuse_training(proto, label)
    refuse_sizes(proto, label)
    _refuse_frames(proto, label)


def _refuse_frames(proto: onnx.ModelProto, label: str) -> None:
    """ModelError for sequences of recurrent layers that are too many operators when they are written out."""
    layers = [node for node in proto.graph.node if node.op_type in RECURRENT and node.input]
    if not layers:
        return
    try:
        inferred = skeleton.inferred(proto)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):  # said where shapes have to be known
        return
    infos = {info.name: info for info in (*inferred.graph.input, *inferred.graph.value_info)}
    for node in layers:
        dims = infos[node.input[0]].type.tensor_type.shape.dim if node.input[0] in infos else ()
        frames = max((d.dim_value for d in dims[:2]), default=0)  # or of batches, by the layout
        if frames > MAX_FRAMES:
            raise ModelError(f"{label}: node {node.name!r} ({node.op_type}): expected at most {MAX_FRAMES} frames, "
                             f"found {frames}")


def _refuse_expansion(proto: onnx.ModelProto, label: str) -> None:
    """ModelError for functions of the network's own that are too many operators when they are written out, or that are
    called with more operands than they take."""
    taken = {(f.domain, f.name): len(f.input) for f in proto.functions}
    for node in every_node([*proto.graph.node, *(n for f in proto.functions for n in f.node)]):
        most = taken.get((node.domain, node.op_type), len(node.input))
        if len(node.input) > most:
            raise ModelError(f"{label}: node {node.name!r}: function {node.op_type!r} takes {most} operands, found "
                             f"{len(node.input)}")
    bodies = {(f.domain, f.name): [(n.domain, n.op_type) for n in every_node(f.node)] for f in proto.functions}
    sizes: dict[tuple[str, str], int] = {}
    try:
        for key in TopologicalSorter(bodies).static_order():  # callees before callers
            sizes[key] = sum(sizes[inner] for inner in bodies[key]) if key in bodies else 1
    except CycleError as error:
        domain, name = error.args[1][0]
        raise ModelError(f"{label}: function {name!r} of domain {domain!r} calls itself") from None
    count = sum(sizes.get((n.domain, n.op_type), 1) for n in every_node(proto.graph.node))
    if count > MAX_NODES:
        raise ModelError(f"{label}: expected at most {MAX_NODES} operators, found {count} when its functions are "
                         "written out")


def refuse_sizes(proto: onnx.ModelProto, label: str) -> None:
    """ModelError for a tensor of known shape that no machine holds."""
    graph = proto.graph
    makers = {name: node for node in graph.node for name in node.output}
    for info in (*graph.input, *graph.output, *graph.value_info):
        shape = tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
        if info.type.WhichOneof("value") == "tensor_type":
            maker = makers.get(info.name)
            whose = f"input {info.name!r}" if maker is None else f"node {maker.name or maker.output[0]!r}: its result"
            _refuse_size(shape, f"{label}: {whose}")


def _refuse_window(node: onnx.NodeProto, shapes: Mapping[str, tuple[int, ...]], label: str) -> None:
    """ModelError for a window whose attributes say what its weights do not, or what ONNX does not know."""
    if node.op_type not in WINDOWED or node.domain not in ("", "ai.onnx"):
        return
    for attribute in node.attribute:
        if attribute.name == "auto_pad" and attribute.s not in PADDINGS:
            raise ModelError(f"{label}: node {node.name!r} ({node.op_type}): auto_pad: expected one of "
                             f"{', '.join(p.decode() for p in PADDINGS)}, found {attribute.s!r}")
        if attribute.name == "kernel_shape" and node.op_type.startswith("Conv") and len(node.input) > 1:
            stated, given = tuple(helper.get_attribute_value(attribute)), shapes.get(node.input[1])
            if given is not None and stated != given[2:]:
                raise ModelError(f"{label}: node {node.name!r} ({node.op_type}): expected weights of kernel "
                                 f"{'x'.join(map(str, stated))}, found {'x'.join(map(str, given))}")
        if attribute.name in ("strides", "dilations") and any(i > MAX_EXTENT for i in attribute.ints):
            raise ModelError(f"{label}: node {node.name!r} ({node.op_type}): {attribute.name}: expected at most "
                             f"{MAX_EXTENT}, found {max(attribute.ints)}")


def _refuse_size(shape: tuple[int, ...], what: str) -> None:
    """Extents that are not known count as 1; elements as 1 byte."""
    size = math.prod(max(1, extent) for extent in shape)
    if size > MAX_TENSOR_BYTES or any(extent > MAX_EXTENT for extent in shape):
        raise ModelError(f"{what}: expected a tensor of at most {MAX_TENSOR_BYTES} elements, {MAX_EXTENT} along an "
                         f"axis, found shape {'x'.join(map(str, shape))}")


def _names(proto: onnx.ModelProto) -> Iterator[str | bytes]:
    """Of operators, tensors, dimensions, attributes and domains, in graphs within graphs, too."""
    yield from (opset.domain for opset in proto.opset_import)
    for graph in within(proto.graph):
        yield from (tensor.name for tensor in graph.initializer)
        for info in (*graph.input, *graph.output, *graph.value_info):
            yield info.name
            yield from (d.dim_param for d in info.type.tensor_type.shape.dim)
        for node in graph.node:
            yield from (node.op_type, node.domain, node.name, *node.input, *node.output)
            yield from (attribute.name for attribute in node.attribute)


def _refuse_twice(names: Iterable[str], what: str, label: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ModelError(f"{label}: not a valid ONNX network: two {what} named {name!r}")
        seen.add(name)
