"""Converters of ONNX operators: for each the calls of Relax operators that TVM's importer makes of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir import nodes
from archloom.tvm_backend.ir.conversion import blank, clip_bounds, is_blank, padding
from archloom.tvm_backend.ir.operators import type_of_call


@dataclass(frozen=True)
class Node:
    """An ONNX node: its arguments (None where one is left out), attributes and number of results.

    ``unnamed`` binds an expression to a variable without a name, as TVM's converters do on their way.
    """

    inputs: Sequence[Any]
    attrs: Mapping[str, Any]
    opset: int
    outputs: int
    unnamed: Callable[[Any], nodes.Var]

    def at(self, index: int) -> Any:
        """An argument, or None."""
        return self.inputs[index] if len(self.inputs) > index else None

    def text(self, name: str, default: str) -> str:
        """An attribute that is a word."""
        value = self.attrs.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)


Converter: TypeAlias = Callable[[Node], Any]
LAYOUTS: Mapping[int, str] = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
"""Of tensors of rows, images and volumes, by the number of their axes behind the channels."""


def call(op: str, *args: Any, **attrs: Any) -> nodes.Call:
    """A call whose type is found when it is bound."""
    return nodes.Call(op, args, nodes.attributes(**attrs), None)


def typed(expr: Any) -> nodes.TensorType:
    """The type of a tensor expression, also of one that is not bound yet."""
    ty = expr.ty if expr is not None and expr.ty is not None else None
    if ty is None and isinstance(expr, nodes.Call):
        ty = expr.ty = type_of_call(expr)
    if not isinstance(ty, nodes.TensorType):
        raise nodes.Unsupported("an operand that is no tensor")
    return ty


def integers(expr: Any, what: str) -> list[int]:
    """The numbers of a constant or a shape."""
    if isinstance(expr, nodes.Shape):
        return list(expr.values)
    if not isinstance(expr, nodes.Constant):
        raise nodes.Unsupported(f"{what} that {'are' if what.endswith('s') else 'is'} not constant")
    return [int(v) for v in expr.value.reshape(-1).tolist()]


def scalar(value: float, like: Any) -> nodes.Constant:
    """A number as a tensor of the type of ``like``."""
    return nodes.Constant(np.asarray(value, typed(like).dtype))


def computed(function: Callable[..., Any], *arrays: np.ndarray) -> nodes.Constant:
    """``function`` of constants; of weights that were not read, only the shape and type are worked out."""
    result = np.asarray(function(*arrays))
    if any(is_blank(a) for a in arrays) and result.ndim:
        result = blank(result.shape, result.dtype)
    return nodes.Constant(result)


def reshaped(array: np.ndarray, shape: Sequence[int]) -> nodes.Constant:
    """A constant in another shape; a blank one stays blank."""
    if is_blank(array):
        if math.prod(shape) != array.size:
            raise nodes.Unsupported(f"a reshape of {array.shape} to {tuple(shape)}")
        return nodes.Constant(blank(shape, array.dtype))
    return nodes.Constant(array.reshape(tuple(shape)))


def constants(values: Sequence[Any]) -> list[np.ndarray] | None:
    """The arrays of values that are all constants."""
    return [v.value for v in values] if all(isinstance(v, nodes.Constant) for v in values) else None


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
    folded = isinstance(b, nodes.Constant)
    b = _scaled(b, alpha) if folded else b
    if node.attrs.get("transA", 0):
        a = call("permute_dims", a, axes=(1, 0))
    if node.attrs.get("transB", 0):
        b = call("permute_dims", b, axes=(1, 0))
    result = call("matmul", a, b, out_dtype=None)
    result = result if folded else _scaled(result, alpha)
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
    """As :func:`_elementwise`, of two; results have the type of their operands, but truth values."""

    def of_type(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if op == "divide" and a.dtype.kind in "iu" and b.dtype.kind in "iu":
            raise nodes.Unsupported("a division of integer constants")
        result = np.asarray(function(a, b))
        return result if a.dtype != b.dtype or result.dtype == bool else result.astype(a.dtype)

    return _elementwise(op, of_type)


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


def _trilu(node: Node) -> Any:
    """A triangle of a constant, such as a mask: of anything else Relax's plain operators have none."""
    known, upper = constants(node.inputs[:1]), bool(node.attrs.get("upper", 1))
    k = integers(node.inputs[1], "k")[0] if node.at(1) is not None else 0
    if known is None:
        raise nodes.Unsupported("Trilu of what is computed")
    return computed(lambda x: (np.triu if upper else np.tril)(x, k), *known)


# shapes, slices, gathers, concatenations ----------------------------------------------------------------------------


def _shape(node: Node) -> Any:
    shape = typed(node.inputs[0]).shape
    return nodes.Shape(shape[slice(node.attrs.get("start", 0), node.attrs.get("end"))])


def _flatten(node: Node) -> Any:
    shape, axis = typed(node.inputs[0]).shape, node.attrs.get("axis", 1)
    axis += len(shape) if axis < 0 else 0
    return call("reshape", node.inputs[0], nodes.Shape((math.prod(shape[:axis]), math.prod(shape[axis:]))))


def _reshape(node: Node) -> Any:
    data, exact = node.inputs[0], node.attrs.get("allowzero", 0)
    wanted = integers(node.inputs[1], "a shape")
    if isinstance(data, nodes.Shape):
        if wanted != [-1]:
            raise nodes.Unsupported("a reshape of a shape")
        return data
    if exact and 0 in wanted:
        raise nodes.Unsupported("an empty tensor")
    old = typed(data).shape
    shape = [old[i] if d == 0 else d for i, d in enumerate(wanted)]
    if -1 in shape:
        rest = math.prod(d for d in shape if d != -1)
        shape[shape.index(-1)] = math.prod(old) // max(rest, 1)
    if isinstance(data, nodes.Constant):
        return reshaped(data.value, shape)
    return call("reshape", data, nodes.Shape(tuple(shape)))


def _transpose(node: Node) -> Any:
    data, axes = node.inputs[0], node.attrs.get("perm")
    if isinstance(data, nodes.Constant):
        return nodes.Constant(np.transpose(data.value, axes))
    return call("permute_dims", data, axes=axes)


def _axes(node: Node, rank: int) -> list[int]:
    found = [axis + rank if axis < 0 else axis for axis in integers(node.inputs[1], "axes")]
    if len(set(found)) != len(found) or not all(0 <= axis < rank for axis in found):
        raise nodes.Unsupported(f"axes {found} of {rank}")
    return found


def _unsqueeze(node: Node) -> Any:
    data = node.inputs[0]
    if isinstance(data, nodes.Shape):
        raise nodes.Unsupported("Unsqueeze of a shape")
    old = typed(data).shape
    axes = sorted(_axes(node, len(old) + len(integers(node.inputs[1], "axes"))))
    if isinstance(data, nodes.Constant):
        shape = list(old)
        for axis in axes:
            shape.insert(axis, 1)
        return reshaped(data.value, shape)
    for axis in axes:
        data = call("expand_dims", data, axis=(axis,))
    return data


def _squeeze(node: Node) -> Any:
    data = node.inputs[0]
    if isinstance(data, nodes.Shape):
        raise nodes.Unsupported("Squeeze of a shape")
    old = typed(data).shape
    if node.at(1) is None:
        axes = [i for i, d in enumerate(old) if d == 1]
    else:
        axes = _axes(node, len(old))
        if any(old[axis] != 1 for axis in axes):
            raise nodes.Unsupported("Squeeze of more than one element")
    if isinstance(data, nodes.Constant):
        return reshaped(data.value, [d for i, d in enumerate(old) if i not in axes])
    return call("squeeze", data, axis=None if node.at(1) is None else tuple(integers(node.inputs[1], "axes")))


def _cast(node: Node) -> Any:
    from onnx import helper

    data, dtype = node.inputs[0], str(helper.tensor_dtype_to_np_dtype(node.attrs["to"]))
    if isinstance(data, nodes.Shape):
        return nodes.Constant(np.asarray(data.values, dtype))
    if isinstance(data, nodes.Constant):
        return computed(lambda a: a.astype(dtype), data.value)
    if np.dtype(dtype).kind in "iu" and np.dtype(typed(data).dtype).kind not in "iub":
        raise nodes.Unsupported("a cast of floats to integers")
    return call("astype", data, dtype=dtype)


def _concat(node: Node) -> Any:
    axis, values = node.attrs.get("axis", 0), node.inputs
    if all(isinstance(v, nodes.Shape) or (
            isinstance(v, nodes.Constant) and v.ty == nodes.TensorType((v.value.size,), "int64")) for v in values):
        return nodes.Shape(tuple(d for v in values for d in integers(v, "a shape")))
    if any(isinstance(v, nodes.Shape) for v in values):
        raise nodes.Unsupported("a concatenation of shapes and tensors")
    known = constants(values)
    if known is not None:
        return computed(lambda *arrays: np.concatenate(arrays, axis), *known)
    return call("concat", nodes.Tuple(tuple(values)), axis=axis)


def _split(node: Node) -> Any:
    data, axis = node.inputs[0], node.attrs.get("axis", 0)
    sections: Any = node.outputs
    if node.at(1) is not None:
        sections = tuple(int(i) for i in np.cumsum(integers(node.inputs[1], "sizes")[:-1]))
    return call("split", data, indices_or_sections=sections, axis=axis)


def _slice(node: Node) -> Any:
    data = node.inputs[0]
    starts, ends = integers(node.inputs[1], "starts"), integers(node.inputs[2], "ends")
    axes = integers(node.inputs[3], "axes") if node.at(3) is not None else list(range(len(starts)))
    steps = integers(node.inputs[4], "steps") if node.at(4) is not None else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise nodes.Unsupported("a slice whose parts do not fit")
    if isinstance(data, nodes.Shape):
        return nodes.Constant(np.asarray(data.values[starts[0]:ends[0]:steps[0]], np.int64))
    rank = len(typed(data).shape)
    axes = [axis + rank if axis < 0 else axis for axis in axes]
    return call("strided_slice", data, tuple(axes), tuple(starts), tuple(ends), tuple(steps), assume_inbound=False)


def _gather(node: Node) -> Any:
    data, indices, axis = node.inputs[0], node.inputs[1], node.attrs.get("axis", 0)
    known = constants([data, indices])
    if known is not None:
        return computed(lambda a, i: np.take(a, i, axis), *known)
    if isinstance(data, nodes.Shape) or isinstance(indices, nodes.Shape):
        raise nodes.Unsupported("Gather of a shape")
    return call("take", data, _along(node, axis), axis=axis, mode="fast")


def _gather_nd(node: Node) -> Any:
    data, indices, batch = node.inputs[0], node.inputs[1], node.attrs.get("batch_dims", 0)
    _int64(indices)
    places = (batch,), (batch + typed(indices).shape[-1],), (1,)
    extents = call("strided_slice", _shape_tensor(node, data), (0,), *places, assume_inbound=False)
    return call("gather_nd", data, _from_the_front(node, indices, extents), batch_dims=batch)


def _int64(indices: Any) -> None:
    if typed(indices).dtype != "int64":
        raise nodes.Unsupported("indices of another type than int64")


def _shape_tensor(node: Node, data: Any) -> Any:
    return node.unnamed(call("shape_to_tensor", node.unnamed(call("shape_of", data))))


def _along(node: Node, axis: int) -> Any:
    """The second argument, indices of an axis of the first that may count from the end, as numbers from the front."""
    place = nodes.Constant(np.asarray(axis, np.int64))
    extent = call("take", _shape_tensor(node, node.inputs[0]), place, axis=0, mode="wrap")
    return _from_the_front(node, node.inputs[1], extent)


def _from_the_front(node: Node, indices: Any, extent: Any) -> Any:
    _int64(indices)
    negative = node.unnamed(call("less", indices, scalar(0, indices)))
    return call("where", negative, node.unnamed(call("add", indices, extent)), indices)


def _expand(node: Node) -> Any:
    data, wanted = node.inputs[0], integers(node.inputs[1], "a shape")
    old = typed(data).shape
    rank = max(len(old), len(wanted))
    old, wanted = (1,) * (rank - len(old)) + old, [1] * (rank - len(wanted)) + wanted
    shape = tuple(o if w in (-1, 1) and o != 1 else o if w == -1 else w for o, w in zip(old, wanted))
    if any(o not in (1, s) for o, s in zip(old, shape)):
        raise nodes.Unsupported(f"Expand of {old} to {wanted}")
    return call("broadcast_to", data, nodes.Shape(shape))


def _constant(node: Node) -> Any:
    from onnx import numpy_helper

    if "value" not in node.attrs:
        raise nodes.Unsupported("a constant that is no tensor")
    return nodes.Constant(numpy_helper.to_array(node.attrs["value"]))


def _constant_of_shape(node: Node) -> Any:
    from onnx import numpy_helper

    shape = integers(node.inputs[0], "a shape")
    value = node.attrs.get("value")
    filling = numpy_helper.to_array(value) if value is not None else np.zeros(1, np.float32)
    if len(shape) == 1:
        return nodes.Constant(np.full(shape, filling, filling.dtype))
    if filling.size != 1:
        raise nodes.Unsupported("a filling of more than one element")
    return call("broadcast_to", nodes.Constant(filling), nodes.Shape(tuple(shape)))


def _depth_to_space(node: Node) -> Any:
    x, s = node.inputs[0], int(node.attrs["blocksize"])
    b, c, h, w = typed(x).shape
    if node.text("mode", "DCR") == "DCR":
        split, axes = (b, s, s, c // s**2, h, w), (0, 3, 4, 1, 5, 2)
    else:
        split, axes = (b, c // s**2, s, s, h, w), (0, 1, 4, 2, 5, 3)
    apart = call("permute_dims", call("reshape", x, nodes.Shape(split)), axes=axes)
    return call("reshape", apart, nodes.Shape((b, c // s**2, h * s, w * s)))


def _resize(node: Node) -> Any:
    x = node.inputs[0]
    shape = typed(x).shape
    roi = node.at(1)
    if len(shape) != 4 or (roi is not None and not (isinstance(roi, nodes.Constant) and roi.value.size == 0)):
        raise nodes.Unsupported("Resize of this rank or of a region")
    if any(node.attrs.get(name) for name in ("antialias", "axes")) or node.text(
            "keep_aspect_ratio_policy", "stretch") != "stretch":
        raise nodes.Unsupported("Resize with further attributes")
    scales = node.at(2)
    if scales is not None and isinstance(scales, nodes.Constant) and scales.value.size:
        sizes = [int(np.int64(s * d)) for s, d in zip(scales.value, shape)][2:]
    else:
        sizes = integers(node.at(3), "sizes")[2:]
    mode = node.text("mode", "nearest")
    return call(
        "image.resize2d", x, nodes.Shape(tuple(sizes)), roi=(0.0,) * 4, layout="NCHW", out_layout="NCHW",
        out_dtype=None, method="nearest_neighbor" if mode == "nearest" else mode,
        coordinate_transformation_mode=node.text("coordinate_transformation_mode", "half_pixel"),
        rounding_method=node.text("nearest_mode", "round_prefer_floor"),
        cubic_alpha=node.attrs.get("cubic_coeff_a", -0.75), cubic_exclude=node.attrs.get("exclude_outside", 0),
        extrapolation_value=node.attrs.get("extrapolation_value", 0.0))


CONVERTERS: Mapping[str, Converter] = {
    "Shape": _shape, "Flatten": _flatten, "Reshape": _reshape, "Transpose": _transpose, "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze, "Cast": _cast, "Concat": _concat, "Split": _split, "Slice": _slice, "Gather": _gather,
    "GatherElements": lambda node: call(
        "gather_elements", node.inputs[0], _along(node, node.attrs.get("axis", 0)), axis=node.attrs.get("axis", 0)),
    "GatherND": _gather_nd, "Expand": _expand,
    "ConstantOfShape": _constant_of_shape, "DepthToSpace": _depth_to_space, "Resize": _resize,
    "QuantizeLinear": _quantization("quantize"), "DequantizeLinear": _quantization("dequantize"), "Conv": _conv,
    "MaxPool": _pool("nn.max_pool"), "AveragePool": _pool("nn.avg_pool"), "Pad": _pad,
    "GlobalAveragePool": lambda node: call(
        "mean", node.inputs[0], axis=tuple(range(2, len(typed(node.inputs[0]).shape))), keepdims=True),
    "Trilu": _trilu, "Gemm": _gemm,
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
    "HardSwish": _hard_swish, "HardSigmoid": _hard_sigmoid, "Gelu": _gelu, "LayerNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm, "BatchNormalization": _batch_norm, "CumSum": _cumsum,
    "ReduceMean": _reduction("mean", 18), "ReduceSum": _reduction("sum", 13), "ReduceMax": _reduction("max", 18),
    "Identity": lambda node: node.inputs[0],
    "Constant": _constant,
}
