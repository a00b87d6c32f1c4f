"""ONNX networks in: files and protos as models, by TVM's importer, or without weights as plain expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from archloom.oracle.errors import InputError, ModelError, suggest
from archloom.oracle.fallbacks import Fallback
from archloom.tvm_backend.frontends.onnx import guard, rewrites
from archloom.tvm_backend.frontends.onnx import skeleton as bare
from archloom.tvm_backend.frontends.onnx.control_flow import straight
from archloom.tvm_backend.frontends.onnx.editor import copied, has_operators, inputs_of
from archloom.tvm_backend.frontends.onnx.einsum import einsum_as_products
from archloom.tvm_backend.frontends.onnx.files import check_onnx, read_onnx
from archloom.tvm_backend.frontends.onnx.importer import from_onnx
from archloom.tvm_backend.frontends.onnx.repairs import resized_by_pixels
from archloom.tvm_backend.frontends.onnx.versions import renewed
from archloom.tvm_backend.ir.nodes import Unsupported
from archloom.tvm_backend.model import Model, make_model

if TYPE_CHECKING:
    from archloom.tvm_backend.ir import compat
    from archloom.tvm_backend.ir.nodes import Module

Shapes = Mapping[str, Sequence[int]]
Fallbacks = tuple[Fallback, ...]
OWN_FAULTS = (AttributeError, NameError, AssertionError)
"""What is raised outside of a node's conversion by a mistake in a program: in ours, or in TVM's, but for what TVM
asserts of networks."""
TVM_ASSERTS = "Missing outputs during conversion"
"""Of a node that has more results than TVM's converter gives, such as the places of ``MaxPool``."""


def load_file(path: Path, name: str | None = None, input_shapes: Shapes | None = None) -> Model:
    """The network of an ONNX file, called as the file unless it has a ``name``."""
    return _load(read_onnx(path), str(path), name or path.stem, input_shapes)


def load_proto(proto: onnx.ModelProto, name: str, input_shapes: Shapes | None = None) -> Model:
    """A network in memory."""
    check_onnx(proto, name)
    return _load(proto, name, name, input_shapes)


def _load(proto: onnx.ModelProto, label: str, name: str, input_shapes: Shapes | None) -> Model:
    from archloom.tvm_backend.frontends.onnx.functions import HIDING_PRODUCTS, without_functions
    from archloom.tvm_backend.frontends.onnx.integers import INTEGER_PRODUCTS, integer_products, to_qdq
    from archloom.tvm_backend.frontends.onnx.narrow import widened
    from archloom.tvm_backend.frontends.onnx.recurrent import frame_by_frame, frames_first
    from archloom.tvm_backend.frontends.onnx.repairs import repaired

    proto = asked = frames_first(with_static_inputs(proto, label, input_shapes))
    guard.refuse_faults(proto, label)
    with guard.malformed(label, asked):
        proto = widened(straight(proto, label), label)
        proto = repaired(frame_by_frame(without_functions(to_qdq(proto), HIDING_PRODUCTS)))
        if has_operators(proto, INTEGER_PRODUCTS):
            proto = integer_products(_inferred(proto, label)[0])
        _refuse_unsupported(proto, label)
        is_asked, proto = proto is asked, plain_operators(proto)
        if is_asked:  # the same sums on both sides of a comparison
            asked = proto
        proto, fallbacks = rewritten(proto, label)
    module, tensors, more = _imported(proto, label)
    model = make_model(module, name, "onnx", asked, *_border(proto))
    return replace(model, fallbacks=(*fallbacks, *more), tensors=tensors)


def _imported(proto: onnx.ModelProto, label: str) -> "tuple[compat.IRModule, dict[str, str], Fallbacks]":
    """By TVM's importer, with the tensors that variables hold. Where it fails and shapes are computed, they are
    computed first: TVM 0.27 takes shapes for a type of their own, with which most operators cannot compute."""
    from archloom.tvm_backend.frontends.onnx import by_tvm
    from archloom.tvm_backend.frontends.onnx.functions import with_known_shapes

    fallbacks: Fallbacks = ()
    while True:
        try:
            return *by_tvm.from_onnx(proto), fallbacks
        except by_tvm.IMPORT_ERRORS as error:
            if not fallbacks and any(node.op_type in ("Shape", "Size") for node in proto.graph.node):
                why = f"TVM's importer failed: {_first_line(error)}"
                fallbacks = (Fallback("import", why, "shapes are computed before it, and it runs again"),)
                with guard.malformed(label, proto):
                    proto = with_known_shapes(proto)
                continue
            if isinstance(error, OWN_FAULTS) and TVM_ASSERTS not in str(error) and guard.is_sound(proto):
                raise
            if isinstance(error, by_tvm.ConversionError):
                raise ModelError(f"{label}: node {error.node!r} ({error.operator}) cannot be imported: "
                                 f"{_first_line(error)}") from error
            raise ModelError(f"{label}: cannot be imported: {_first_line(error)}") from error


def load_skeleton(skeleton: onnx.ModelProto, label: str, name: str, input_shapes: Shapes | None) -> Model:
    """A network whose weights may be missing, as plain expressions: enough to partition it, not to build it.

    Raises :class:`~archloom.tvm_backend.ir.nodes.Unsupported` for one that only TVM's importer reads.
    """
    module, proto, fallbacks = read_skeleton(skeleton, label, input_shapes)
    return replace(make_model(module, name, "onnx", None, *_border(proto)), fallbacks=fallbacks)


def read_skeleton(
    skeleton: onnx.ModelProto, label: str, input_shapes: Shapes | None
) -> tuple[Module, onnx.ModelProto, Fallbacks]:
    """See :func:`load_skeleton`: expressions as they are read, the network they were read from, and fallbacks."""
    proto = with_static_inputs(skeleton, label, input_shapes)
    guard.refuse_faults(proto, label)
    try:
        with guard.without_weights():
            proto = resized_by_pixels(renewed(straight(proto, label), label))
            proto, fallbacks = rewritten(plain_operators(proto), label)
    except ModelError as error:  # TVM's way says it of the whole network
        raise Unsupported(str(error)) from error
    return from_onnx(proto), proto, fallbacks


def plain_operators(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The network with additions for sums, means for normalization over channels, products for ``Einsum``, factors of
    products in their constants, and convolutions of images alone."""
    for rewrite in (rewrites.sums_to_additions, rewrites.without_dropout, rewrites.normalization_over_channels,
                    einsum_as_products, rewrites.plain_gemms, rewrites.plain_convolutions):
        proto = rewrite(proto)
    return proto


def rewritten(proto: onnx.ModelProto, label: str) -> tuple[onnx.ModelProto, Fallbacks]:
    """The network in the form that importers take: with shapes, and without what they would scatter over several
    operators; with what could not be done."""
    proto, fallbacks = _inferred(proto, label)
    return rewrites.axes_within(rewrites.explicit_padding(proto)), fallbacks


def _border(proto: onnx.ModelProto) -> tuple[list[str], list[str]]:
    """Names of the inputs and outputs."""
    return [i.name for i in inputs_of(proto.graph)], [o.name for o in proto.graph.output]


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:400]


def with_static_inputs(proto: onnx.ModelProto, label: str, input_shapes: Shapes | None) -> onnx.ModelProto:
    """A copy of the network whose inputs have the shapes asked for; refuses dimensions that stay open."""
    copy = copied(proto)
    inputs = inputs_of(copy.graph)
    wanted = dict(input_shapes or {})
    names = [i.name for i in inputs]
    for key in wanted:
        if key not in names:
            raise InputError(f"{label}: no input is named {key!r}{suggest(key, names)}")
    open_dims = []
    for info in inputs:
        if info.type.WhichOneof("value") != "tensor_type":
            raise ModelError(f"{label}: input {info.name!r}: expected a tensor, found {info.type.WhichOneof('value')}")
        if info.name in wanted:
            _set_shape(info, tuple(wanted[info.name]), label)
        elif not info.type.tensor_type.HasField("shape"):
            open_dims.append(f"{info.name!r} has no shape")
        else:
            dims = info.type.tensor_type.shape.dim
            shown = [str(d.dim_value) if d.WhichOneof("value") == "dim_value" else d.dim_param or "?" for d in dims]
            unknown = [text for text, d in zip(shown, dims, strict=True) if d.dim_value < 1]
            if unknown:
                open_dims.append(f"{info.name!r} is {'x'.join(shown)} with open dimension{'s' * (len(unknown) > 1)} "
                                 f"{', '.join(unknown)}")
    if open_dims:
        first = next(i.name for i in inputs if i.name not in wanted)
        raise ModelError(
            f"{label}: expected static input shapes, found: {'; '.join(open_dims)}. Give them a shape with "
            f"--input-shape {first}:1x3x224x224 (input_shapes={{{first!r}: (1, 3, 224, 224)}} in Python), or leave "
            "them open with dynamic=True (an estimate: give extents with --symbol NAME=EXTENT)"
        )
    if wanted:
        del copy.graph.value_info[:]
        for output in copy.graph.output:
            output.type.tensor_type.ClearField("shape")
    return copy


def _set_shape(info: onnx.ValueInfoProto, shape: tuple[int, ...], label: str) -> None:
    if not all(isinstance(d, int) and d > 0 for d in shape):
        raise InputError(f"{label}: shape of input {info.name!r}: expected positive integers, found {shape}")
    dims = info.type.tensor_type.shape.dim
    if info.type.tensor_type.HasField("shape"):
        if len(dims) != len(shape):
            raise InputError(
                f"{label}: shape of input {info.name!r}: expected {len(dims)} dimensions, found {len(shape)} {shape}"
            )
        for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
            if dim.WhichOneof("value") == "dim_value" and dim.dim_value > 0 and dim.dim_value != size:
                raise InputError(
                    f"{label}: shape of input {info.name!r}: dimension {axis} is {dim.dim_value} in the network, "
                    f"found {size}"
                )
    del dims[:]
    for size in shape:
        dims.add().dim_value = size


def _refuse_unsupported(proto: onnx.ModelProto, label: str) -> None:
    from archloom.tvm_backend.frontends.onnx import by_tvm

    missing = by_tvm.unsupported_onnx_operators(proto.graph)
    if not missing:
        return
    domain, operator, node = missing[0]
    others = sorted({op for _, op, _ in missing} - {operator})
    also = f" (also unsupported: {', '.join(others)})" if others else ""
    hint = ""
    if operator.startswith("QLinear") or operator in ("QGemm", "ConvInteger"):
        hint = "; this is the operator form of quantization: export the network in QDQ form (QuantFormat.QDQ) instead"
    origin = f" of domain {domain!r}" if domain else ""
    raise ModelError(f"{label}: node {node!r}: operator {operator!r}{origin} is not supported{also}{hint}")


def _inferred(proto: onnx.ModelProto, label: str) -> tuple[onnx.ModelProto, Fallbacks]:
    """The network with shapes, or without and why."""
    try:
        if has_operators(proto, guard.GROWING):  # propagated values would be computed before their number is known
            guard.refuse_sizes(bare.inferred(proto, strict_mode=True), label)
        inferred = bare.inferred(proto, strict_mode=True, data_prop=True)
        guard.refuse_sizes(inferred, label)
        return inferred, ()
    except onnx.shape_inference.InferenceError as error:
        raise ModelError(f"{label}: shapes do not fit: {' '.join(str(error).split())[:400]}") from error
    except (ValueError, RuntimeError) as error:  # over 2 GB, or a domain without inference
        return proto, (Fallback("shapes", _first_line(error), "they are left to the importer to infer"),)
