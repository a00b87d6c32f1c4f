"""Lowering sums: of products of two expressions one ``dot_general``, of others a sum of an array.

Without leave to reassociate, floats are added in the order that the stream states.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from archloom.oracle.late_jax import jnp, lax
from archloom.oracle.taidl.operators.carriers import element, value
from archloom.oracle.taidl.operators.contraction import ordered
from archloom.oracle.taidl.operators.integer_dot import integer_dot
from archloom.oracle.taidl.operators.reduction import jax_combined as combined
from archloom.oracle.xla.lowering.folds import widened
from archloom.oracle.xla.lowering.ops import bitcast, jax_dtype
from archloom.oracle.xla.lowering.views import Spread, Spreading, extent, names_of
from archloom.oracle.xla.notation import expr, traits
from archloom.oracle.xla.notation.expr import Expr, Map, Ranges, Sum


def summed(lowering: Spreading, e: Sum, ranges: Ranges) -> Spread:
    """The array of a sum over its free variables."""
    while lowering.reassociate and isinstance(e.body, Sum):  # blocks of a sum: one product instead of many to be added
        e = Sum((*e.variables, *e.body.variables), e.body.body, e.dtype)
    inner = {**ranges, **e.bound_ranges(ranges)}
    bound = {n for n, _ in e.variables}
    if isinstance(e.body, Map) and e.body.opcode == "multiply":
        a, b = e.body.operands
        if all((bound & expr.free(o)) == bound for o in (a, b)):
            return _dot(lowering, e, a, b, inner)
    return _plain_sum(lowering, e, inner)


def _plain_sum(lowering: Spreading, e: Sum, ranges: Ranges) -> Spread:
    names = names_of(e, ranges)
    body = lowering.spread(e.body, ranges)
    if not expr.is_integer(e.dtype) and not lowering.reassociate:
        return Spread(_ordered_sum(e, body, names), names)
    axes = tuple(i for i, n in enumerate(body.names) if n not in names)
    times = math.prod(x for n, x in e.variables if n not in body.names)
    lowering.record.operations.append(f"sum over {math.prod(x for _, x in e.variables)}")
    carrier = value(body.array, e.dtype)
    total = jnp.sum(carrier, axis=axes, dtype=carrier.dtype) * jnp.asarray(times).astype(carrier.dtype)
    return Spread(element(total, e.dtype), tuple(n for n in body.names if n in names))


def _ordered_sum(e: Sum, body: Spread, names: tuple[str, ...]) -> Any:
    """The sum over all of the variables, one after the other in row-major order."""
    extents = [x for _, x in e.variables]
    array = body.expand((*names, *(n for n, _ in e.variables)))
    array = jnp.broadcast_to(array, (*array.shape[:len(names)], *extents))
    return combined(array.reshape(*array.shape[:len(names)], -1), "add", e.dtype)


def _dot(lowering: Spreading, e: Sum, a: Expr, b: Expr, ranges: Ranges) -> Spread:
    """One ``dot_general``: variables of both sides are batch axes, bound ones are contracted."""
    bound = {n for n, _ in e.variables}
    narrow = all(_narrow(o) for o in (a, b))
    sides = [lowering.spread(o.operands[0] if narrow and isinstance(o, Map) else o, ranges) for o in (a, b)]
    order = {n: i for i, n in enumerate(ranges)}
    both = set(sides[0].names) & set(sides[1].names)
    batch = tuple(sorted(both - bound, key=order.__getitem__))
    alone = [tuple(sorted(set(s.names) - both, key=order.__getitem__)) for s in sides]
    if _exchanged(sides, alone, order):
        sides.reverse()
        alone.reverse()
        a, b = b, a
    if not expr.is_integer(e.dtype):  # the order of the sum matters
        summed = tuple(n for n, _ in e.variables if n in both)
    else:
        summed = tuple(sorted(bound & both, key=lambda n: -_stride(b, n)))
    lost = bound - both
    if lost:  # a variable of one value on both sides, or substituted away
        return _plain_sum(lowering, e, ranges)
    size = {n: extent(ranges[n]) for n in order}
    sizes = [tuple(size[n] for n in names) for names in (batch, alone[0], alone[1], summed)]
    exact = e.dtype == "f32" and widened(a) and widened(b)
    result = _product(lowering, sides, batch, alone, summed, sizes, e.dtype, exact=exact)
    names = (*batch, *alone[0], *alone[1])
    return Spread(result.reshape(*sizes[0], *sizes[1], *sizes[2]), names)


def _product(
    lowering: Spreading, sides: list[Spread], batch: tuple[str, ...], alone: list[tuple[str, ...]],
    summed: tuple[str, ...], sizes: list[tuple[int, ...]], dtype: str, *, exact: bool,
) -> Any:
    m, n, k = (math.prod(s) for s in (sizes[1], sizes[2], sizes[3]))
    left, right = (s.array for s in sides)
    dims: Any
    plain = expr.is_integer(dtype) and "uint8" not in (left.dtype, right.dtype) and len(batch) <= 1
    if plain and all(len(names) == 1 for names in (*alone, summed)):
        # operands as they lie: XLA's fast kernels take none that was transposed, but any numbers of axes
        dims = tuple(tuple(tuple(s.names.index(n) for n in names) for s in sides) for names in (summed, batch))
    else:
        left = sides[0].order((*batch, *alone[0], *summed)).array.reshape(*sizes[0], m, k)
        right = sides[1].order((*batch, *summed, *alone[1])).array.reshape(*sizes[0], k, n)
        d = len(batch)
        dims = (((d + 1,), (d,)), (tuple(range(d)), tuple(range(d))))
    times = f"{math.prod(sizes[0])} x " if batch else ""
    lowering.record.operations.append(f"dot {times}{m}x{n}x{k} {left.dtype} x {right.dtype} -> {dtype}")

    def multiply(a: Any, b: Any) -> Any:
        return integer_dot(a, b, dims, carrier)

    if expr.is_integer(dtype):
        carrier = jax_dtype(dtype)
        unsigned = "uint8" in (left.dtype, right.dtype) and carrier.itemsize > 1
        return element(_signed_product(left, right, multiply) if unsigned else multiply(left, right), dtype)
    if not lowering.reassociate:
        return ordered(left, right, dtype, exact=exact)
    left, right = value(left, dtype), value(right, dtype)
    return element(lax.dot_general(left, right, dims, precision=lax.Precision.HIGHEST,
                                   preferred_element_type=left.dtype), dtype)


def _signed_product(left: Any, right: Any, multiply: Callable[[Any, Any], Any]) -> Any:
    """A product of which a side is of unsigned bytes, by one of signed bytes, for which machines have instructions.

    An unsigned byte is a signed one and 128: (a + 128) (b + 128) = a b + 128 a + 128 b + 128 * 128.
    """
    def signed(x: Any) -> Any:
        return bitcast(x ^ jnp.uint8(128), "i8") if x.dtype == jnp.uint8 else x

    # one row or column of ones more, and the product makes the sums as well
    m, n, a, b = left.shape[-2], right.shape[-1], signed(left), signed(right)
    if left.dtype == jnp.uint8:
        a = jnp.concatenate([a, jnp.ones((*a.shape[:-2], 1, a.shape[-1]), jnp.int8)], -2)
    if right.dtype == jnp.uint8:
        b = jnp.concatenate([b, jnp.ones((*b.shape[:-1], 1), jnp.int8)], -1)
    total = multiply(a, b)
    made = total[..., :m, :n]
    if left.dtype == jnp.uint8:
        made = made + total[..., m:, :n] * jnp.int32(128)
    if right.dtype == jnp.uint8:
        made = made + total[..., :m, n:] * jnp.int32(128)
    if left.dtype == right.dtype:
        made = made + jnp.asarray(left.shape[-1] << 14 & 0xFFFFFFFF, jnp.uint32).astype(jnp.int32)
    return made


def _exchanged(sides: list[Spread], alone: list[tuple[str, ...]], order: Mapping[str, int]) -> bool:
    """Whether the second side is to be the left one: by the order of the result's axes, or, of a matrix and a vector,
    by how the matrix lies."""
    if bool(alone[0]) != bool(alone[1]):
        matrix = 0 if alone[0] else 1
        on_the_right = sides[matrix].names[-1] in alone[matrix]
        return on_the_right != bool(matrix)
    return min((order[n] for n in alone[1]), default=0) < min((order[n] for n in alone[0]), default=len(order))


def _narrow(e: Expr) -> bool:
    """Whether the value is a byte that was only widened."""
    return isinstance(e, Map) and e.opcode == "convert" and e.operands[0].dtype in ("i8", "u8") and e.dtype == "i32"


def _stride(e: Expr, name: str) -> int:
    """The stride of a variable where it first occurs."""
    for node in traits.walk(e):
        for form in node.forms:
            if name in form.variables():
                return form.coefficient(name)
    return 0
