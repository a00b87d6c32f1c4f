"""Converters of ONNX operators that move elements: shapes, slices, gathers, concatenations, and constants."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from archloom.tvm_backend.frontends.onnx.calls import (
    Converter,
    Node,
    call,
    computed,
    constants,
    integers,
    reshaped,
    scalar,
    typed,
)
from archloom.tvm_backend.ir import nodes


def _trilu(node: Node) -> Any:
    """A triangle of a constant, such as a mask: of anything else Relax's plain operators have none."""
    known, upper = constants(node.inputs[:1]), bool(node.attrs.get("upper", 1))
    k = integers(node.inputs[1], "k")[0] if node.at(1) is not None else 0
    if known is None:
        raise nodes.Unsupported("Trilu of what is computed")
    return computed(lambda x: (np.triu if upper else np.tril)(x, k), *known)


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


def _tile(node: Node) -> Any:
    repeats = integers(node.inputs[1], "repeats")
    if min(repeats, default=1) < 1:
        raise nodes.Unsupported("an empty tensor")
    return call("tile", node.inputs[0], repeats=tuple(repeats))


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
    mode, mapping = node.text("mode", "nearest"), node.text("coordinate_transformation_mode", "half_pixel")
    if mode == "cubic" or mapping == "half_pixel_symmetric":  # written out where sizes are constants
        raise nodes.Unsupported("Resize by computed sizes with weights that TVM's operator has not")
    return call(
        "image.resize2d", x, nodes.Shape(tuple(sizes)), roi=(0.0,) * 4, layout="NCHW", out_layout="NCHW",
        out_dtype=None, method="nearest_neighbor" if mode == "nearest" else mode,
        coordinate_transformation_mode=mapping,
        rounding_method=node.text("nearest_mode", "round_prefer_floor"),
        cubic_alpha=node.attrs.get("cubic_coeff_a", -0.75), cubic_exclude=node.attrs.get("exclude_outside", 0),
        extrapolation_value=node.attrs.get("extrapolation_value", 0.0))


MOVES: Mapping[str, Converter] = {
    "Shape": _shape, "Flatten": _flatten, "Reshape": _reshape, "Transpose": _transpose, "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze, "Cast": _cast, "Concat": _concat, "Split": _split, "Slice": _slice, "Gather": _gather,
    "GatherElements": lambda node: call(
        "gather_elements", node.inputs[0], _along(node, node.attrs.get("axis", 0)), axis=node.attrs.get("axis", 0)),
    "GatherND": _gather_nd, "Expand": _expand, "Tile": _tile,
    "ConstantOfShape": _constant_of_shape, "DepthToSpace": _depth_to_space, "Resize": _resize,
    "Trilu": _trilu, "Identity": lambda node: node.inputs[0], "Constant": _constant,
}
