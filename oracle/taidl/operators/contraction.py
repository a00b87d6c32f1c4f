"""Operators that multiply and add up: dot_general and convolution.

Operands are converted to the declared type, in which everything is computed: integers wrap, so their order does not
matter; of floats each product is rounded, and each sum, in the order of the contracted axes from the first product on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, TypeAlias

import numpy as np

from archloom.oracle import native
from archloom.oracle.late_jax import jnp, lax
from archloom.oracle.native import Rounding
from archloom.oracle.resolved import Dim, Shaped, TensorType
from archloom.oracle.taidl.operators import base, blocked, carriers, numbers
from archloom.oracle.taidl.operators.base import Attribute, Attributes, Opcode, Values, integer, integers, ints
from archloom.oracle.taidl.operators.conversion import converted
from archloom.oracle.taidl.operators.elementwise import SUBNORMALS
from archloom.oracle.taidl.operators.integer_dot import as_matrices, integer_dot
from archloom.oracle.taidl.types import Array, element_type, numpy_dtype


def _types_fault(x: Shaped, y: Shaped, result: Shaped) -> str | None:
    """Integers accumulate in integers, floats in floats, in no fewer bits than they have."""
    kinds = [element_type(t.dtype) for t in (x, y, result)]
    if any(k.kind == "quant" for k in kinds):
        return ("{} is not defined for quantized types: bitcast_convert them to their integers, and uniform_quantize "
                "what is accumulated")
    integral = [k.kind in ("int", "uint") for k in kinds]
    floating = [k.kind == "float" for k in kinds]
    if not (all(integral) or all(floating)) or max(k.bits for k in kinds[:2]) > kinds[2].bits:
        return f"{{}} of {x.dtype} and {y.dtype} cannot accumulate in {result.dtype}"
    return None


# --- products of matrices -----------------------------------------------------------------------------------------

_LARGE_DOT = 1 << 16
"""Multiply-accumulates from which NumPy's integer matrix product loses to BLAS in float64."""


def product(left: Array, right: Array, types: Sequence[str], dtype: str) -> Array:
    """[..., m, k] x [..., k, n] as elements of the type."""
    if not base.is_kind(dtype, "int", "uint"):
        left, right = (converted(numbers, x, t, dtype) for x, t in zip((left, right), types, strict=True))
        return numbers.element(_ordered(numbers.value(left, dtype), numbers.value(right, dtype), dtype), dtype)
    left, right = (numbers.value(x, t) for x, t in zip((left, right), types, strict=True))
    target = numbers.value(np.zeros(0, numpy_dtype(dtype)), dtype).dtype
    small = left.shape[-2] * left.shape[-1] * right.shape[-1] < _LARGE_DOT
    bound = 0.0 if small else float(_magnitude(left)) * float(_magnitude(right)) * left.shape[-1]
    if small or bound >= 2.0**53:
        return numbers.element(left.astype(target) @ right.astype(target), dtype)
    # every partial sum is an integer below 2**53, so float64 holds it exactly in any order
    return numbers.element((left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64).astype(target), dtype)


def _ordered(left: Array, right: Array, dtype: str) -> Array:
    def rounded(v: Array) -> Array:
        return v if v.dtype == numpy_dtype(dtype) else numbers.value(numbers.element(v, dtype), dtype)

    total = rounded(numbers.multiply(left[..., :1], right[..., :1, :]))
    for i in range(1, left.shape[-1]):
        term = rounded(numbers.multiply(left[..., i:i + 1], right[..., i:i + 1, :]))
        total = rounded(numbers.add(total, term))
    return total


def _magnitude(x: Array) -> int:
    return max(abs(int(x.min())), abs(int(x.max())))


def jax_product(left: Any, right: Any, types: Sequence[str], dtype: str) -> Any:
    """:func:`product` of carriers."""
    target = element_type(dtype)
    if target.kind == "float":
        left, right = (converted(carriers, x, t, dtype) for x, t in zip((left, right), types, strict=True))
        return ordered(left, right, dtype)
    wide = np.dtype(np.int32) if target.bits < 32 else carriers.carrier_dtype(dtype)
    if not (left.dtype == right.dtype and left.dtype.itemsize < wide.itemsize):
        left, right = left.astype(wide), right.astype(wide)
    lead = tuple(range(left.ndim - 2))
    dims = (((left.ndim - 1,), (left.ndim - 2,)), (lead, lead))
    return carriers.element(integer_dot(left, right, dims, wide), dtype)


def ordered(left: Any, right: Any, dtype: str, *, exact: bool = False) -> Any:
    """[..., m, k] x [..., k, n], carriers of one floating-point type, added up in the order of k.

    ``exact`` says that no product of two of the elements is rounded in this type.
    """
    left, right = carriers.value(left, dtype), carriers.value(right, dtype)
    start = jnp.asarray(-0.0, left.dtype)  # the first product is added to it as it is
    return carriers.element(chain(left, right, start, dtype, "fused_flush" if exact else "each"), dtype)


def chain(left: Any, right: Any, start: Any, dtype: str, rounding: Rounding) -> Any:
    """``start`` [..., m, n], or one number, with the products of [..., m, k] and [..., k, n] added in the order of k.

    All are numbers of one floating-point type; fused operations are those of f32.
    """
    if dtype == "f32" and native.possible():
        return native.chain(left, right, start, rounding)
    step = _each_step(dtype) if rounding == "each" else _fused_step(flush=rounding == "fused_flush")

    def body(i: Any, total: Any) -> Any:
        a = lax.dynamic_slice_in_dim(left, i, 1, left.ndim - 1)
        return step(a, lax.dynamic_slice_in_dim(right, i, 1, right.ndim - 2), total)

    return lax.fori_loop(0, left.shape[-1], body, jnp.broadcast_to(start, (*left.shape[:-1], right.shape[-1])))


Step: TypeAlias = Callable[[Any, Any, Any], Any]
"""A sum and what is added to it, made of two factors."""


def _each_step(dtype: str) -> Step:
    def rounded(v: Any) -> Any:
        return carriers.value(carriers.element(v, dtype), dtype) if element_type(dtype).bits < 32 else v

    return lambda a, b, total: rounded(carriers.add(total, rounded(carriers.multiply(a, b))))


def _fused_step(*, flush: bool) -> Step:
    return lambda a, b, total: carriers.fma(a, b, total, flush=flush)


# --- dot_general --------------------------------------------------------------------------------------------------


def _dot_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    x, y = operands
    fault = _types_fault(x, y, result)
    if fault:
        return fault
    named = {k: integers(a, k) for k in ("lhs_batch", "rhs_batch", "lhs_contracting", "rhs_contracting")}
    extents: dict[str, list[Dim]] = {}
    for side, tensor in (("lhs", x), ("rhs", y)):
        axes = (*named[side + "_batch"], *named[side + "_contracting"])
        complaint = next(filter(None, (base.axis_fault(i, len(tensor.shape)) for i in axes)), None)
        if complaint or len(set(axes)) != len(axes):
            return complaint or "an axis is named twice in the batch and contracting axes"
        for part in ("_batch", "_contracting"):
            extents[side + part] = [tensor.shape[int(i)] for i in named[side + part]]
        extents[side] = [d for i, d in enumerate(tensor.shape) if i not in axes]
    for part in ("batch", "contracting"):
        left, right = extents["lhs_" + part], extents["rhs_" + part]
        if base.shapes_differ(left, right):
            return f"the {part} axes of {x} and {y} have the extents {base.show(left)} and {base.show(right)}"
    if (a["rounding"], a["subnormals"]) != ("each", "keep") and result.dtype != "f32":
        return f"rounding and subnormals of {{}} are for sums in f32, not in {result.dtype}"
    if (a["rounding"], a["subnormals"]) == ("each", "flush"):
        return "subnormals=flush of {} goes with rounding=fused"
    fault = blocked.algorithm_fault(result, a)
    if fault:
        return fault
    return base.wrong(result, extents["lhs_batch"] + extents["lhs"] + extents["rhs"], result.dtype)


def _dot(lib: Any, result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    left = as_matrices(x[0], a["lhs_batch"], a["lhs_contracting"], contracting_last=True)
    right = as_matrices(x[1], a["rhs_batch"], a["rhs_contracting"], contracting_last=False)
    if blocked.has_components(a):
        return _of_components(lib, left, right, a, types).reshape(result.shape)
    if a["rounding"] != "fused":
        return multiplied(lib, left, right, types, result.dtype).reshape(result.shape)
    left, right = (converted(lib, v, t, "f32") for v, t in zip((left, right), types, strict=True))
    fused = _fused if lib is numbers else _jax_fused
    return fused(left, right, flush=a["subnormals"] == "flush").reshape(result.shape)


def multiplied(lib: Any, left: Any, right: Any, types: Sequence[str], dtype: str) -> Any:
    """[..., m, k] x [..., k, n] by the library of NumPy or of JAX."""
    return (product if lib is numbers else jax_product)(left, right, types, dtype)


def _of_components(lib: Any, left: Any, right: Any, a: Values, types: Sequence[str]) -> Any:
    """The products of components, added up in f32 from those of the highest order on."""
    parts = [blocked.components(lib, converted(lib, x, t, "f32"), a, side)
             for x, t, side in zip((left, right), types, ("lhs", "rhs"), strict=True)]
    pairs = blocked.orders(*map(len, parts))[:a["num_primitive_operations"]]
    made = [multiplied(lib, parts[0][i], parts[1][j], ("f32", "f32"), "f32") for i, j in reversed(pairs)]
    return reduce(lib.add, made)


def _scaled_dot(lib: Any, result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    operands = [blocked.scaled(lib, x[i], x[i + 2], (types[i], types[i + 2]), result.dtype) for i in (0, 1)]
    return _dot(lib, result, operands, a, [result.dtype] * 2)


def _fused(left: Array, right: Array, *, flush: bool) -> Array:
    """In the order of the contracted axis, from zero on, one rounding for each product that is added."""
    total = np.zeros((*left.shape[:-1], right.shape[-1]), np.float32)
    for i in range(left.shape[-1]):
        total = numbers.fma(*np.broadcast_arrays(left[..., i:i + 1], right[..., i:i + 1, :], total), flush=flush)
    return total


def _jax_fused(left: Any, right: Any, *, flush: bool) -> Any:
    return chain(left, right, jnp.zeros((), jnp.float32), "f32", "fused_flush" if flush else "fused_keep")


# --- convolution --------------------------------------------------------------------------------------------------


def window_extent(extent: Dim, low: Dim, high: Dim, base: Dim, size: Dim, dilation: Dim, stride: Dim) -> Dim | None:
    """How many windows lie along an axis; None if there is none, or a number is impossible."""
    every = (extent, low, high, base, size, dilation, stride)
    if not all(isinstance(n, int) for n in every):
        return "?"
    extent, low, high, base, size, dilation, stride = (int(n) for n in every)
    if min(base, size, dilation, stride) < 1:
        return None
    whole, reach = (extent - 1) * base + 1 + low + high, (size - 1) * dilation + 1
    return (whole - reach) // stride + 1 if whole >= reach else None


def windows(x: Any, offsets: Sequence[int], shape: Sequence[int], stride: Sequence[int]) -> Any:
    """The elements of a tensor (NumPy's or JAX's) at the same place of every window."""
    return x[tuple(slice(o, o + (n - 1) * s + 1, s) for o, n, s in zip(offsets, shape, stride, strict=True))]


def _layout(a: Attributes, name: str, rank: int) -> tuple[Any, ...]:
    return integers(a, name) or tuple(range(rank))


def _lists(a: Attributes, spatial: int) -> dict[str, tuple[Any, ...]]:
    """The window's attributes with their defaults."""
    fill = {"stride": 1, "low": 0, "high": 0, "lhs_dilation": 1, "rhs_dilation": 1}
    return {name: integers(a, name) or (value,) * spatial for name, value in fill.items()}


def _convolution_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    x, w = operands
    rank, groups = len(x.shape), a["groups"]
    if not len(w.shape) == len(result.shape) == rank or rank < 2:
        return f"{{}} needs tensors of one rank, at least 2, found {x}, {w} and {result}"
    fault = _types_fault(x, w, result)
    if fault:
        return fault
    layouts = [_layout(a, name, rank) for name in ("lhs_dims", "rhs_dims", "out_dims")]
    for axes in layouts:
        if sorted(map(str, axes)) != sorted(map(str, range(rank))):
            return f"{base.show(axes)} is no permutation of the {rank} axes"
    lists = _lists(a, rank - 2)
    if any(len(v) != rank - 2 for v in lists.values()):
        return f"{', '.join(lists)} need one entry for each of the {rank - 2} spatial axes"
    (batch, features, *extents), (outs, ins, *sizes) = (
        [t.shape[int(i)] for i in axes] for t, axes in zip((x, w), layouts, strict=False))
    if isinstance(groups, int) and all(isinstance(d, int) for d in (features, outs, ins)) and (
            groups < 1 or int(ins) * groups != features or int(outs) % groups):
        return (f"{{}} with {groups} groups needs a kernel of so many input features that {groups} times as many are "
                f"the {features} of {x}, and a multiple of {groups} output features, found {ins} and {outs}")
    shape: list[Dim] = [batch, outs]
    for i, (extent, size) in enumerate(zip(extents, sizes, strict=True)):
        count = window_extent(extent, lists["low"][i], lists["high"][i], lists["lhs_dilation"][i], size,
                              lists["rhs_dilation"][i], lists["stride"][i])
        if count is None:
            return f"a kernel of {size} does not fit spatial axis {i} of extent {extent}"
        shape.append(count)
    placed: list[Dim] = [0] * rank
    for axis, extent in zip(layouts[2], shape, strict=True):
        placed[int(axis)] = extent
    return base.wrong(result, placed, result.dtype)


def _convolution(lib: Any, result: TensorType, operands: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    """The convolution as one product for each group; sums run over places of the kernel, then over features."""
    rank = operands[0].ndim
    lhs, rhs, out = (_layout(a, name, rank) for name in ("lhs_dims", "rhs_dims", "out_dims"))
    x, w, lists, groups = operands[0].transpose(lhs), operands[1].transpose(rhs), _lists(a, rank - 2), a["groups"]
    x = lib.padded(x, np.zeros((), x.dtype), *(
        (*lead, *lists[name]) for lead, name in (((0, 0), "low"), ((0, 0), "high"), ((1, 1), "lhs_dilation"))))
    batch, features, outs, sizes = x.shape[0], x.shape[1], w.shape[0], w.shape[2:]
    spatial = [result.shape[i] for i in out[2:]]
    places = []
    for place in np.ndindex(*sizes):
        offsets = (0, 0, *(p * d for p, d in zip(place, lists["rhs_dilation"], strict=True)))
        places.append(windows(x, offsets, (batch, features, *spatial), (1, 1, *lists["stride"])))
    points, kernel, each = math.prod(spatial), len(places), features // groups
    patches = lib.xp.stack(places).reshape(kernel, batch, groups, each, points).transpose(2, 1, 4, 0, 3)
    weights = w.reshape(groups, outs // groups, each, kernel).transpose(0, 3, 2, 1)
    made = multiplied(lib, patches.reshape(groups, batch * points, kernel * each),
                    weights.reshape(groups, kernel * each, outs // groups), types, result.dtype)
    made = made.reshape(groups, batch, points, outs // groups).transpose(1, 0, 3, 2)
    return made.reshape(batch, outs, *spatial).transpose([out.index(i) for i in range(rank)])


DIMS = tuple(
    ints(f"{side}_{part}", () if part == "batch" else None, f"{side}_{part}_dims", f"{side}_{long}_dimensions")
    for part, long in (("contracting", "contracting"), ("batch", "batching")) for side in ("lhs", "rhs"))
ALGORITHM = (Attribute("rounding", "word", ("each", "fused"), "each"), SUBNORMALS, *blocked.ALGORITHM)

ROWS: list[Opcode] = [
    Opcode("dot_general", 2, _dot_rule, *base.in_both(_dot), "contraction",
           "the declared type accumulates, floats in the order of the contracted axes; integers may be mixed; "
           "`rounding` is each (by default), or fused: a chain of `fma` in f32 from zero on; with component counts "
           "each operand is so many numbers of its `precision_type`, largest first, of whose products the "
           "`num_primitive_operations` largest are added up, smallest first",
           (*DIMS, *ALGORITHM), spelled=("dot",)),
    Opcode("scaled_dot", 4, blocked.scaled_rule(_dot_rule), *base.in_both(_scaled_dot), "opaque",
           "as `dot_general` of x and y, whose elements are multiplied by scales before, operands 3 and 4: along each "
           "axis one for as many elements as it is shorter", (*DIMS, *ALGORITHM)),
    Opcode("ragged_dot", 3, blocked.ragged_rule(_types_fault), *base.in_both(
        lambda lib, result, x, a, types: blocked.ragged(lib, partial(multiplied, lib), result, x, types)), "opaque",
           "mxk by gxkxn, and g sizes: so many rows, one group after the other, are multiplied by its matrix; zeros "
           "below them"),
    Opcode("convolution", 2, _convolution_rule, *base.in_both(_convolution), "opaque",
           "accumulates as `dot_general`, over places of the kernel, then input features; `lhs_dims` and `out_dims` "
           "are the axes of batch, feature and space, `rhs_dims` those of output feature, input feature and space "
           "(by default in this order)",
           (ints("stride", ()), ints("low", ()), ints("high", ()), ints("lhs_dilation", ()), ints("rhs_dilation", ()),
            integer("groups", 1), ints("lhs_dims", ()), ints("rhs_dims", ()), ints("out_dims", ()))),
]
