"""Converters of ONNX operators: for each the calls of Relax operators that TVM's importer makes of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from archloom.tvm_backend.frontends.onnx.calls import (
    Converter,
    Node,
    call,
    computed,
    constants,
    integers,
    scalar,
    typed,
)
from archloom.tvm_backend.frontends.onnx.moving import MOVES
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir import nodes
from archloom.tvm_backend.ir.conversion import clip_bounds, padding
from archloom.tvm_backend.ir.infer import broadcast

LAYOUTS: Mapping[int, str] = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
"""Of tensors of rows, images and volumes, by the number of their axes behind the channels."""


def _quantization(op: str) -> Converter:
    def convert(node: Node) -> Any:
        x, scale, zero, attrs = node.inputs[0], node.inputs[1], node.at(2), node.attrs
        if any(attrs.get(name) for name in ("block_size", "output_dtype", "precision")) or zero is None:
            raise nodes.Unsupported(f"{op} with further attributes or without zero point")
        axis = attrs.get("axis", 1)
        extents = typed(x).shape
        axis = 0 if len(extents) <= 1 and axis == 1 else axis
        along = extents[axis:][:1] if -len(extents) <= axis < len(extents) else None
        if any(math.prod(shape) != 1 and shape != along for shape in (typed(scale).shape, typed(zero).shape)):
            raise nodes.Unsupported(f"{op} by other than one scale and zero point, or one for each along the axis")
        out = typed(zero).dtype if op == "quantize" else "float32"
        return call(op, x, scale, zero, axis=axis, out_dtype=out)

    return convert


def _conv(node: Node) -> Any:
    data, kernel, bias, attrs = node.inputs[0], node.inputs[1], node.at(2), node.attrs
    n = len(typed(data).shape) - 2
    if n not in (1, 2) or node.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise nodes.Unsupported("a convolution of this rank or padding")
    layout = LAYOUTS[n]
    result = call(
        f"nn.conv{n}d", data, kernel, strides=attrs.get("strides", (1,) * n), padding=attrs.get("pads", (0,) * (2 * n)),
        dilation=attrs.get("dilations", (1,) * n), groups=attrs.get("group", 1), data_layout=layout,
        kernel_layout="OIW" if n == 1 else "OIHW", out_layout=layout, out_dtype=None,
    )
    if bias is None:
        return result
    channels = typed(bias).shape[0]
    return call("add", result, call("reshape", bias, nodes.Shape((1, channels, *(1,) * n))))


def _pool(op: str) -> Converter:
    """Of rows, images or volumes."""

    def convert(node: Node) -> Any:
        attrs = node.attrs
        n = len(attrs.get("kernel_shape", ()))
        if n not in LAYOUTS or node.text("auto_pad", "NOTSET") != "NOTSET" or attrs.get("storage_order"):
            raise nodes.Unsupported("a pooling of this rank or padding")
        return call(
            f"{op}{n}d", node.inputs[0], pool_size=attrs["kernel_shape"], strides=attrs.get("strides", (1,) * n),
            padding=attrs.get("pads", (0,) * (2 * n)), dilation=attrs.get("dilations", (1,) * n),
            ceil_mode=bool(attrs.get("ceil_mode", 0)), count_include_pad=bool(attrs.get("count_include_pad", 0)),
            layout=LAYOUTS[n], out_layout=LAYOUTS[n],
        )

    return convert


def _pad(node: Node) -> Any:
    x = node.inputs[0]
    shape = typed(x).shape
    found = padding(node.inputs, node.attrs, len(shape), lambda given: given.value if isinstance(
        given, nodes.Constant) else np.asarray(given.values) if isinstance(given, nodes.Shape) else None)
    if found is None:
        raise nodes.Unsupported("Pad by widths that are not constant")
    kept = found.slices(shape)
    if kept is not None:
        x = call("strided_slice", x, *kept, assume_inbound=False)
    return call("nn.pad", x, pad_width=found.widths, **found.attrs)


def _gemm(node: Node) -> Any:
    a, b, c = node.inputs[0], node.inputs[1], node.at(2)
    alpha, beta = (node.attrs.get(name, 1.0) for name in ("alpha", "beta"))
    if isinstance(b, nodes.Constant):
        b = _scaled(b, alpha)
    else:
        a = _scaled(a, alpha)
    if node.attrs.get("transA", 0):
        a = call("permute_dims", a, axes=(1, 0))
    if node.attrs.get("transB", 0):
        b = call("permute_dims", b, axes=(1, 0))
    result = call("matmul", a, b, out_dtype=None)
    return result if c is None else call("add", result, _scaled(c, beta))


def _scaled(x: Any, factor: float) -> Any:
    """A tensor times a number; of a constant at once."""
    if factor == 1.0:
        return x
    if isinstance(x, nodes.Constant):
        return computed(lambda array: array * array.dtype.type(factor), x.value)
    return call("multiply", x, scalar(factor, x))


def _elementwise(op: str, function: Callable[..., Any] | None = None) -> Converter:
    """An operator that is worked out at once by ``function``, if there is one, where all operands are constant."""

    def convert(node: Node) -> Any:
        known = constants(node.inputs) if function else None
        return call(op, *node.inputs) if function is None or known is None else computed(function, *known)

    return convert


def _arithmetic(op: str, function: Callable[..., Any]) -> Converter:
    """As :func:`_elementwise`, of two of one type; results have it, too, but truth values."""

    def of_type(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if op == "divide" and a.dtype.kind in "iu" and b.dtype.kind in "iu":
            raise nodes.Unsupported("a division of integer constants")
        result = np.asarray(function(a, b))
        return result if result.dtype == bool else result.astype(a.dtype)

    plain = _elementwise(op, of_type)

    def convert(node: Node) -> Any:
        if len({operand.ty.dtype for operand in node.inputs if isinstance(operand.ty, nodes.TensorType)}) > 1:
            raise nodes.Unsupported(f"{op} of two types")
        return plain(node)

    return convert


def _extreme(op: str, function: Callable[..., Any]) -> Converter:
    """Of any number of tensors: TVM stacks them, broadcast, and reduces the new axis."""

    def convert(node: Node) -> Any:
        known = constants(node.inputs)
        if known is not None:
            return computed(lambda *arrays: function(np.stack(np.broadcast_arrays(*arrays)), axis=0), *known)
        shape = nodes.Shape(broadcast(*(typed(x).shape for x in node.inputs)))
        stacked = call("stack", nodes.Tuple(tuple(
            node.unnamed(call("broadcast_to", x, shape)) for x in node.inputs)), axis=0)
        return call(op, stacked, axis=(0,), keepdims=False)

    return convert


def _clip(node: Node) -> Any:
    if typed(node.inputs[0]).dtype != "float32":
        raise nodes.Unsupported("Clip of other numbers than float32")
    bounds = clip_bounds(node.inputs, node.attrs, "float32", ir.number_of)
    if bounds is None:
        raise nodes.Unsupported("Clip to bounds that are not constant")
    return call("clip", node.inputs[0], *bounds)


def _reduction(op: str, as_input: int) -> Converter:
    """``as_input``: the operator set since which axes are an argument."""

    def convert(node: Node) -> Any:
        keep = bool(node.attrs.get("keepdims", 1))
        if node.opset < as_input:
            axes = node.attrs.get("axes")
        else:
            axes = tuple(integers(node.inputs[1], "axes")) if node.at(1) is not None else ()
        if not axes:
            raise nodes.Unsupported(f"{op} over all axes")
        return call(op, node.inputs[0], axis=axes, keepdims=keep)

    return convert


def _hard_swish(node: Node) -> Any:
    x = node.inputs[0]
    if typed(x).dtype != "float32":
        raise nodes.Unsupported("HardSwish of other numbers than float32")
    return call("multiply", x, call("divide", call("clip", call("add", x, scalar(3, x)), 0.0, 6.0), scalar(6, x)))


def _hard_sigmoid(node: Node) -> Any:
    x = node.inputs[0]
    alpha, beta = scalar(node.attrs.get("alpha", 0.2), x), scalar(node.attrs.get("beta", 0.5), x)
    return call("clip", call("add", call("multiply", alpha, x), beta), 0.0, 1.0)


def _gelu(node: Node) -> Any:
    approximate = node.text("approximate", "none")
    if approximate not in ("none", "tanh"):
        raise nodes.Unsupported(f"Gelu by {approximate}")
    return call("nn.gelu_tanh" if approximate == "tanh" else "nn.gelu", node.inputs[0])


def _layer_norm(node: Node) -> Any:
    data, scale, bias = node.inputs[0], node.inputs[1], node.at(2)
    shape, axis = typed(scale).shape, node.attrs.get("axis", -1)
    axes = [axis, *range(axis + 1, axis + 1 + len(shape) - 1)]
    if bias is None:
        bias = nodes.Constant(np.zeros(shape, typed(scale).dtype))
    result = call("nn.layer_norm", data, scale, bias, axes=tuple(axes), epsilon=node.attrs.get("epsilon", 1e-5),
                  center=True, scale=True)
    return nodes.Tuple((node.unnamed(result), *(nodes.Constant(np.zeros((), np.float32)) for _ in range(2))))


def _instance_norm(node: Node) -> Any:
    x, scale, shift = node.inputs
    rank = len(typed(x).shape)
    axes, across = tuple(range(2, rank)), nodes.Shape((typed(scale).shape[0], *(1,) * (rank - 2)))
    mean = call("mean", x, axis=axes, keepdims=True)
    deviation = call("sqrt", call("add", call("variance", x, axis=axes, keepdims=True),
                                  scalar(node.attrs.get("epsilon", 1e-5), x)))
    out = call("divide", call("subtract", x, mean), deviation)
    return call("add", call("multiply", out, call("reshape", scale, across)), call("reshape", shift, across))


def _batch_norm(node: Node) -> Any:
    if node.attrs.get("training_mode", 0) or len({typed(i).dtype for i in node.inputs}) > 1:
        raise nodes.Unsupported("batch normalization in training or of several types")
    result = node.unnamed(call(
        "nn.batch_norm", *node.inputs, axis=1, epsilon=node.attrs.get("epsilon", 1e-5), center=True, scale=True,
        momentum=node.attrs.get("momentum", 0.9), training=False))
    return nodes.Tuple(tuple(node.unnamed(nodes.TupleGet(result, i)) for i in range(3)))


def _cumsum(node: Node) -> Any:
    axis = integers(node.inputs[1], "axes")
    if len(axis) != 1 or node.attrs.get("reverse") or node.attrs.get("exclusive"):
        raise nodes.Unsupported("CumSum with further attributes")
    return call("cumsum", node.inputs[0], axis=axis[0], exclusive=False, dtype=None)


CONVERTERS: Mapping[str, Converter] = {
    **MOVES,
    "QuantizeLinear": _quantization("quantize"), "DequantizeLinear": _quantization("dequantize"), "Conv": _conv,
    "MaxPool": _pool("nn.max_pool"), "AveragePool": _pool("nn.avg_pool"), "Pad": _pad,
    "GlobalAveragePool": lambda node: call(
        "mean", node.inputs[0], axis=tuple(range(2, len(typed(node.inputs[0]).shape))), keepdims=True),
    "Gemm": _gemm,
    "MatMul": lambda node: call("matmul", node.inputs[0], node.inputs[1], out_dtype=None),
    **{name: _arithmetic(op, function) for name, op, function in (
        ("Add", "add", np.add), ("Sub", "subtract", np.subtract), ("Mul", "multiply", np.multiply),
        ("Div", "divide", np.divide), ("Pow", "power", np.power), ("Less", "less", np.less),
        ("LessOrEqual", "less_equal", np.less_equal), ("Greater", "greater", np.greater),
        ("GreaterOrEqual", "greater_equal", np.greater_equal))},
    **{name: _elementwise(op, function) for name, op, function in (
        ("Equal", "equal", np.equal), ("And", "logical_and", np.logical_and), ("Or", "logical_or", np.logical_or),
        ("Neg", "negative", np.negative), ("Abs", "abs", np.abs), ("Where", "where", np.where))},
    **{name: _elementwise(op) for name, op in (
        ("Not", "logical_not"), ("IsNaN", "isnan"), ("Relu", "nn.relu"), ("Sigmoid", "sigmoid"), ("Tanh", "tanh"),
        ("Erf", "erf"), ("Sqrt", "sqrt"), ("Exp", "exp"), ("Log", "log"), ("Sin", "sin"), ("Cos", "cos"))},
    "Reciprocal": lambda node: call("divide", scalar(1, node.inputs[0]), node.inputs[0]),
    "LeakyRelu": lambda node: call("nn.leakyrelu", node.inputs[0], alpha=node.attrs.get("alpha", 0.01)),
    "Softmax": lambda node: call("nn.softmax", node.inputs[0], axis=node.attrs.get("axis", -1)), "Clip": _clip,
    "Max": _extreme("max", np.max), "Min": _extreme("min", np.min),
    "HardSwish": _hard_swish, "HardSigmoid": _hard_sigmoid, "Gelu": _gelu, "LayerNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm, "BatchNormalization": _batch_norm, "CumSum": _cumsum,
    "ReduceMean": _reduction("mean", 18), "ReduceSum": _reduction("sum", 13), "ReduceMax": _reduction("max", 18),
}
