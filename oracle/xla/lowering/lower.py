"""Expressions to JAX: free variables become axes, sums of products ``dot_general``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count, product
from typing import Any

from archloom.oracle.affine import Affine
from archloom.oracle.late_jax import jnp, lax
from archloom.oracle.taidl.operators.carriers import element, flush, value
from archloom.oracle.taidl.operators.contraction import ordered
from archloom.oracle.taidl.operators.integer_dot import integer_dot
from archloom.oracle.taidl.operators.reduction import jax_combined as combined
from archloom.oracle.xla.lowering.axes import Divided, by_digits, one_contraction
from archloom.oracle.xla.lowering.folds import fold, one_chain, widened
from archloom.oracle.xla.lowering.ops import bitcast, constant, convert, elementwise, jax_dtype, known
from archloom.oracle.xla.lowering.views import Spread, extent, grid, overlapping, view
from archloom.oracle.xla.lowering.wholes import computed
from archloom.oracle.xla.notation import expr
from archloom.oracle.xla.notation.constraints import reach
from archloom.oracle.xla.notation.expr import Expr, Extreme, Fold, Guarded, Map, Ranges, Sum
from archloom.oracle.xla.notation.fallbacks import How, Record
from archloom.oracle.xla.notation.limits import Unraisable
from archloom.oracle.xla.notation.substitution import substitute
from archloom.oracle.xla.notation.variables import GuardedAxis

UNROLL = 64
"""Up to how many elements a window is unrolled, where no element takes a sum (see :func:`unrolled`)."""

DEEP = 32
"""Expressions within one another from which on operations are not lowered in calls within calls."""


def _key(e: Expr, ranges: Ranges) -> tuple[object, ...]:
    """What an array of ``e`` over its free variables is known by."""
    return e, tuple(sorted((n, ranges[n]) for n in expr.free(e)))


def unrolled(e: Extreme) -> bool:
    """Whether a maximum is one of slices, one for each element of the window, rather than of the elements in turn."""
    small = math.prod(n for _, n in e.variables) <= UNROLL
    return small and not _sums_along(e.body, frozenset(n for n, _ in e.variables), set())


def _sums_along(e: Expr, names: frozenset[str], seen: set[int]) -> bool:
    """Whether sums or chains differ with ``names``, so that each value would be a contraction of its own."""
    if id(e) in seen or not expr.is_heavy(e) or names.isdisjoint(expr.free(e)):
        return False
    seen.add(id(e))
    return isinstance(e, (Sum, Fold)) or any(_sums_along(c, names, seen) for c in e.children)


@dataclass
class Lowering:
    """Lowers expressions over ``arguments`` (arrays by name, in their shapes); equal ones once.

    The order of ``ranges`` is the preferred order of axes.
    """

    arguments: Mapping[str, Any]
    record: Record = field(default_factory=Record)
    """What was made, for the report."""

    reassociate: bool = False
    """Whether floating-point sums may be added up in any order."""

    most_elements: int | None = None
    """Elements that no tensor on the way may have more of."""

    _made: dict[tuple[object, ...], Spread] = field(default_factory=dict)
    _wholes: dict[expr.Whole, tuple[Any, ...]] = field(default_factory=dict)

    def tensor(self, e: Expr, axes: tuple[str, ...], ranges: Ranges) -> Any:
        """The array of ``e`` over ``axes``."""
        shape = tuple(extent(ranges[a]) for a in axes)
        return jnp.broadcast_to(self.spread(e, ranges).expand(axes), shape)

    def spread(self, e: Expr, ranges: Ranges) -> Spread:
        """The array of ``e`` over its free variables (those with more than one value)."""
        points = {n: Affine(ranges[n][0]) for n in expr.free(e) if ranges[n][0] == ranges[n][1]}
        if points:
            e = substitute(e, points, ranges)
        key = _key(e, ranges)
        if key not in self._made:
            if expr.depth(e) > DEEP:
                self._operands_first(e, ranges)
            self._made[key] = self._bounded(self._lower(e, ranges))
        return self._made[key]

    def _operands_first(self, e: Expr, ranges: Ranges) -> None:
        """Lower operations within operations in a loop, the deepest first: they may be deeper than calls may be."""
        waiting = [e]
        while waiting:
            inner = [o for o in waiting[-1].children if isinstance(waiting[-1], Map) and isinstance(o, Map)
                     and _key(o, ranges) not in self._made]
            if inner:
                waiting += inner
            elif (done := waiting.pop()) is not e:
                self.spread(done, ranges)

    def _bounded(self, found: Spread) -> Spread:
        """Unraisable for a tensor that is too large."""
        if self.most_elements is not None and found.array.size > self.most_elements:
            raise Unraisable(f"a tensor on the way would have {found.array.size} elements, more than "
                             f"{self.most_elements}")
        return found

    def _lower(self, e: Expr, ranges: Ranges) -> Spread:
        if isinstance(e, (Sum, Fold)):
            divided = by_digits(e, ranges)
            if divided is not None:
                return self._divided(divided)
        return _LOWERINGS[type(e)](self, e, ranges)

    def _const(self, e: expr.Const, ranges: Ranges) -> Spread:
        return Spread(jnp.asarray(constant(e.value, e.dtype)), ())

    def _index(self, e: expr.Index, ranges: Ranges) -> Spread:
        names = _names(e, ranges)
        return Spread(convert(grid(e.index, ranges, names), "i32", e.dtype), names)

    def _element(self, e: expr.Element, ranges: Ranges) -> Spread:
        if e.whole not in self._wholes:
            self._wholes[e.whole] = computed(self, e.whole)
        return self._view(self._wholes[e.whole][e.number], e.index, ranges, e.whole.function.title)

    def _byte_of(self, e: expr.ByteOf, ranges: Ranges) -> Spread:
        whole = self.spread(e.body, ranges)
        array = bitcast(whole.array, "i8").reshape(*whole.array.shape, expr.width(e.body.dtype))
        index = (*(Affine.variable(n) - ranges[n][0] for n in whole.names), e.byte)
        return self._view(array, index, ranges, f"bytes of {e.body.dtype}")

    def _from_bytes(self, e: expr.FromBytes, ranges: Ranges) -> Spread:
        names = _names(e, ranges)
        array = self.spread(e.body, {**ranges, **e.bound_ranges(ranges)}).expand((*names, e.variable))
        array = jnp.broadcast_to(array, (*array.shape[:-1], expr.width(e.dtype)))
        return Spread(bitcast(array if expr.width(e.dtype) > 1 else array[..., 0], e.dtype), names)

    def _view(self, array: Any, forms: tuple[Affine, ...], ranges: Ranges, where: str) -> Spread:
        """The elements ``array[forms]`` of what ``where`` names."""

        def note(why: str, elements: int) -> None:
            self.record.add(How.GATHER, where, why, elements)

        return view(array, forms, ranges, note)

    def _map(self, e: Map, ranges: Ranges) -> Spread:
        number = known(e)
        if number is not None:
            return Spread(jnp.asarray(number), ())
        names = _names(e, ranges)
        # a fused multiply-add takes less where an operand is known
        given = [known(o) if e.opcode == "fma" else None for o in e.operands]
        arrays = [self.spread(o, ranges).expand(names) if x is None else x.reshape((1,) * len(names))
                  for o, x in zip(e.operands, given, strict=True)]
        types = [o.dtype for o in e.operands]
        return Spread(elementwise(e.opcode, arrays, e.attributes, e.dtype, types), names)

    def _divided(self, divided: Divided) -> Spread:
        """The axes of the two variables as one."""
        minor = divided.outer, divided.inner
        found = self.spread(divided.e, divided.ranges)
        names = tuple(n for n in found.names if n not in minor)
        array = found.expand((*names, *minor))
        shape = array.shape[:len(names)]
        array = jnp.broadcast_to(array, (*shape, *(extent(divided.ranges[n]) for n in minor)))
        return Spread(array.reshape(*shape, -1), (*names, divided.variable))

    def _leaf(self, e: expr.Leaf, ranges: Ranges) -> Spread:
        """An argument in its own shape if each of its axes has a linear index, else flat, else in two steps."""
        array = self.arguments[e.name]
        flat, digits = e.index.simplify(ranges), []
        rest = flat
        for size in reversed(array.shape[1:]):
            digits.append((rest % size).simplify(ranges))
            rest = (rest // size).simplify(ranges)
        if array.shape:
            digits.append(rest)
        own = tuple(reversed(digits))
        if all(d.is_linear for d in own):
            return self._view(array, own, ranges, e.name)
        if flat.is_linear and all(c > 0 for _, c in flat.terms) and overlapping(flat, ranges) is None:
            return self._view(array.reshape(-1), (flat,), ranges, e.name)
        return self._view(array, own, ranges, e.name)

    def _switch(self, e: expr.Switch, ranges: Ranges) -> Spread:
        name = expr.axis_of(e.form)
        chain = one_chain(e) if name is not None else None
        if chain is not None:
            return self.spread(chain, ranges)
        names = _names(e, ranges)
        shape = {n: extent(ranges[n]) for n in names}
        if name is not None:
            low, high = ranges[name]
            batched = one_contraction(e, name, ranges)
            if batched is not None:
                return self._divided(batched)
            parts = []
            shift = e.form.constant
            for first, last, body in reach(e.cases, low + shift, high + shift):
                a, b = first - shift, last - shift
                part = self.spread(body, {**ranges, name: (a, b)}).expand(names)
                parts.append(jnp.broadcast_to(part, tuple(b - a + 1 if n == name else shape[n] for n in names)))
            return Spread(jnp.concatenate(parts, names.index(name)) if len(parts) > 1 else parts[0], names)
        form = grid(e.form, ranges, names)
        result = self.spread(e.cases[-1][2], ranges).expand(names)
        for _, last, body in reversed(e.cases[:-1]):
            result = jnp.where(form <= last, self.spread(body, ranges).expand(names), result)
        return Spread(result, names)

    def _guarded(self, e: Guarded, ranges: Ranges) -> Spread:
        """Pad along the axes that the constraints run along; forms of several variables become axes for that."""
        core: Expr | None = e.body
        inner, full = dict(ranges), dict(ranges)
        named: dict[str, Affine] = {}
        free = (name for number in count() if (name := f"#{number}") not in ranges)  # a guard may be inside of another
        for form, low, high in e.constraints:
            axis = expr.axis_of(form)
            if axis is None:
                axis = GuardedAxis(next(free))
                named[axis] = form
                full[axis] = form.range(ranges)
                core = core and _renamed(core, form, axis)
            a, b = full[axis]
            inner[axis] = (a if low is None else max(a, low), b if high is None else min(b, high))
        if core is None or any(not expr.free(core).isdisjoint(form.variables()) for form in named.values()):
            return self._masked(e, ranges)
        found = self.spread(core, inner)
        # in the order in which the elements lie: channels stay the last axis of an image
        names = (*(n for n in inner if n not in found.names and inner[n] != full[n]), *found.names)
        array = jnp.broadcast_to(found.expand(names), tuple(extent(inner[n]) for n in names))
        pads = [(inner[n][0] - full[n][0], full[n][1] - inner[n][1]) for n in names]
        array = jnp.pad(array, pads, constant_values=constant(e.fill, e.dtype))
        index = tuple(named.get(n, Affine.variable(n)) - full[n][0] for n in names)
        return self._view(array, index, ranges, "a padded tensor")

    def _masked(self, e: Guarded, ranges: Ranges) -> Spread:
        names = _names(e, ranges)
        self.record.add(How.MASK, "a padded tensor", "its elements do not follow the forms that bound it",
                        math.prod(extent(ranges[n]) for n in names))
        result = self.spread(e.body, ranges).expand(names)
        for form, low, high in e.constraints:
            values = grid(form, ranges, names)
            for fails in ([values < low] if low is not None else []) + ([values > high] if high is not None else []):
                result = jnp.where(fails, constant(e.fill, e.dtype), result)
        return Spread(result, names)

    def _let(self, e: expr.Let, ranges: Ranges) -> Spread:
        inner = dict(ranges)
        offsets: dict[str, Affine] = {}
        for name, form in e.variables:
            inner[name] = form.range(ranges)
            offsets[name] = form - inner[name][0]
        body = self.spread(e.body, inner)
        index = tuple(offsets[n] if n in offsets else Affine.variable(n) - inner[n][0] for n in body.names)
        return self._view(body.array, index, ranges, "an intermediate tensor")

    def _extreme(self, e: Extreme, ranges: Ranges) -> Spread:
        names = _names(e, ranges)
        combine = jnp.maximum if e.kind == "max" else jnp.minimum
        if unrolled(e):
            result = None
            for point in product(*(range(n) for _, n in e.variables)):
                values = {v: Affine(x) for (v, _), x in zip(e.variables, point, strict=True)}
                part = flush(value(self.spread(substitute(e.body, values, ranges), ranges).expand(names), e.dtype))
                result = part if result is None else combine(result, part)
            return Spread(element(result, e.dtype), names)
        inner = {**ranges, **e.bound_ranges(ranges)}
        axes = (*names, *(n for n, _ in e.variables))
        array = flush(value(self.spread(e.body, inner).expand(axes), e.dtype))
        reduce = jnp.max if e.kind == "max" else jnp.min
        return Spread(element(reduce(array, axis=tuple(range(len(names), len(axes)))), e.dtype), names)

    def _sum(self, e: Sum, ranges: Ranges) -> Spread:
        while self.reassociate and isinstance(e.body, Sum):  # blocks of a sum: one product instead of many to be added
            e = Sum((*e.variables, *e.body.variables), e.body.body, e.dtype)
        inner = {**ranges, **e.bound_ranges(ranges)}
        bound = {n for n, _ in e.variables}
        if isinstance(e.body, Map) and e.body.opcode == "multiply":
            a, b = e.body.operands
            if all((bound & expr.free(o)) == bound for o in (a, b)):
                return self._dot(e, a, b, inner)
        return self._plain_sum(e, inner)

    def _plain_sum(self, e: Sum, ranges: Ranges) -> Spread:
        names = _names(e, ranges)
        body = self.spread(e.body, ranges)
        if not expr.is_integer(e.dtype) and not self.reassociate:
            return Spread(self._ordered_sum(e, body, names), names)
        axes = tuple(i for i, n in enumerate(body.names) if n not in names)
        times = math.prod(x for n, x in e.variables if n not in body.names)
        self.record.operations.append(f"sum over {math.prod(x for _, x in e.variables)}")
        carrier = value(body.array, e.dtype)
        total = jnp.sum(carrier, axis=axes, dtype=carrier.dtype) * jnp.asarray(times).astype(carrier.dtype)
        return Spread(element(total, e.dtype), tuple(n for n in body.names if n in names))

    def _ordered_sum(self, e: Sum, body: Spread, names: tuple[str, ...]) -> Any:
        """The sum over all of the variables, one after the other in row-major order."""
        extents = [x for _, x in e.variables]
        array = body.expand((*names, *(n for n, _ in e.variables)))
        array = jnp.broadcast_to(array, (*array.shape[:len(names)], *extents))
        return combined(array.reshape(*array.shape[:len(names)], -1), "add", e.dtype)

    def _dot(self, e: Sum, a: Expr, b: Expr, ranges: Ranges) -> Spread:
        """One ``dot_general``: variables of both sides are batch axes, bound ones are contracted."""
        bound = {n for n, _ in e.variables}
        narrow = all(_narrow(o) for o in (a, b))
        sides = [self.spread(o.operands[0] if narrow and isinstance(o, Map) else o, ranges) for o in (a, b)]
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
            return self._plain_sum(e, ranges)
        size = {n: extent(ranges[n]) for n in order}
        sizes = [tuple(size[n] for n in names) for names in (batch, alone[0], alone[1], summed)]
        exact = e.dtype == "f32" and widened(a) and widened(b)
        result = self._product(sides, batch, alone, summed, sizes, e.dtype, exact=exact)
        names = (*batch, *alone[0], *alone[1])
        return Spread(result.reshape(*sizes[0], *sizes[1], *sizes[2]), names)

    def _product(
        self, sides: list[Spread], batch: tuple[str, ...], alone: list[tuple[str, ...]], summed: tuple[str, ...],
        sizes: list[tuple[int, ...]], dtype: str, *, exact: bool,
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
        self.record.operations.append(f"dot {times}{m}x{n}x{k} {left.dtype} x {right.dtype} -> {dtype}")

        def multiply(a: Any, b: Any) -> Any:
            return integer_dot(a, b, dims, carrier)

        if expr.is_integer(dtype):
            carrier = jax_dtype(dtype)
            unsigned = "uint8" in (left.dtype, right.dtype) and carrier.itemsize > 1
            return element(_signed_product(left, right, multiply) if unsigned else multiply(left, right), dtype)
        if not self.reassociate:
            return ordered(left, right, dtype, exact=exact)
        left, right = value(left, dtype), value(right, dtype)
        return element(lax.dot_general(left, right, dims, precision=lax.Precision.HIGHEST,
                                       preferred_element_type=left.dtype), dtype)


_LOWERINGS: dict[type[Expr], Callable[[Lowering, Any, Ranges], Spread]] = {
    expr.Const: Lowering._const,
    expr.Index: Lowering._index,
    expr.Leaf: Lowering._leaf,
    expr.Element: Lowering._element,
    Map: Lowering._map,
    expr.Switch: Lowering._switch,
    Guarded: Lowering._guarded,
    Sum: Lowering._sum,
    Fold: fold,
    Extreme: Lowering._extreme,
    expr.Let: Lowering._let,
    expr.ByteOf: Lowering._byte_of,
    expr.FromBytes: Lowering._from_bytes,
}
"""What computes each kind of node; a carry is the state of the chain around it."""


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


def _names(e: Expr, ranges: Ranges) -> tuple[str, ...]:
    """The free variables that have more than one value, in the order of ``ranges``."""
    mine = expr.free(e)
    return tuple(n for n, (low, high) in ranges.items() if n in mine and low != high)


def _renamed(e: Expr, form: Affine, axis: str) -> Expr | None:
    """``e`` with ``axis`` for ``form`` wherever its variables occur; None where they occur in another way."""
    known: dict[int, Expr | None] = {}  # an operation may be an operand of many

    def renamed(e: Expr) -> Expr | None:
        if id(e) not in known:
            known[id(e)] = anew(e)
        return known[id(e)]

    def anew(e: Expr) -> Expr | None:
        if isinstance(e, (Sum, Fold, Extreme, expr.Let, expr.FromBytes)):
            return e if expr.free(e).isdisjoint(form.variables()) else None
        forms = [_form_renamed(f, form, axis) for f in e.forms]
        parts = [renamed(c) for c in e.children]
        if None in forms or None in parts:
            return None
        return e.rebuilt([f for f in forms if f is not None], [p for p in parts if p is not None])

    return renamed(e)


def _form_renamed(f: Affine, form: Affine, axis: str) -> Affine | None:
    """``f`` with ``axis`` for ``form``, of which it has a multiple; None where it has not."""
    if f.variables().isdisjoint(form.variables()):
        return f
    atom, unit = form.terms[0]
    times, left = divmod(next((c for a, c in f.terms if a == atom), 0), unit)
    f = f - form * times + Affine.variable(axis) * times
    return None if left or not f.variables().isdisjoint(form.variables()) else f


def _narrow(e: Expr) -> bool:
    """Whether the value is a byte that was only widened."""
    return isinstance(e, Map) and e.opcode == "convert" and e.operands[0].dtype in ("i8", "u8") and e.dtype == "i32"


def _stride(e: Expr, name: str) -> int:
    """The stride of a variable where it first occurs."""
    for node in expr.walk(e):
        for form in node.forms:
            if name in form.variables():
                return form.coefficient(name)
    return 0
