"""Lowering chains: values that are computed one from the other, in the order that the stream states.

All that does not depend on the chain is computed before it, for every step and element at once. What is left is a
loop of a few element-wise operations on one vector, which XLA compiles to a single kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from archloom.oracle import native
from archloom.oracle.affine import Affine
from archloom.oracle.late_jax import jnp, lax
from archloom.oracle.native import Rounding
from archloom.oracle.native import chain as summed
from archloom.oracle.xla.lowering.ops import elementwise
from archloom.oracle.xla.lowering.steps import in_turn, one_by_one, with_operand
from archloom.oracle.xla.lowering.views import Spread, Spreading, extent, names_of
from archloom.oracle.xla.notation import expr, traits
from archloom.oracle.xla.notation.constraints import Cases, case_begins
from archloom.oracle.xla.notation.expr import Expr, Fold, Map, Ranges, Switch
from archloom.oracle.xla.notation.substitution import substitute
from archloom.oracle.xla.notation.sums import plug

UNROLLED = 8
"""Up to how many steps a chain is written out."""

Step = Callable[[Any, Any], Any]
"""The next value for the number of the step and the value so far."""


def fold(lowering: Spreading, e: Fold, ranges: Ranges) -> Spread:
    """The array of a chain over its free variables."""
    e = _begun(e, ranges)
    names = names_of(e, ranges)
    inner = {**ranges, **e.bound_ranges(ranges)}
    shape, steps = tuple(extent(ranges[n]) for n in names), math.prod(x for _, x in e.variables)
    if native.possible() and (added := _added(one_by_one(e).body)):
        made = _as_product(lowering, one_by_one(e), added, names, ranges)
        if made is not None:
            return made
    lowering.record.operations.append(f"chain of {steps} over {math.prod(shape)}")
    step = _step(lowering, e, e.body, names, inner)
    start = jnp.broadcast_to(lowering.spread(e.start, ranges).expand(names), shape)

    def body(i: Any, value: Any) -> Any:
        return jnp.broadcast_to(step(i, value), shape)

    if steps <= UNROLLED:
        for i in range(steps):
            start = body(i, start)
        return Spread(start, names)
    return Spread(lax.fori_loop(0, steps, body, start), names)


def _begun(e: Fold, ranges: Ranges) -> Fold:
    """The chain without its first step, where that is a case of its own and of single numbers, such as the one that a
    register begins with: what the others add is an array without it."""
    (name, extent), *others = e.variables
    if others or 1 not in case_begins(e.body, name):
        return e
    start = plug(substitute(e.body, {name: Affine(0)}, ranges), e.start, ranges)
    if extent < 2 or expr.free(start):
        return e
    body = substitute(e.body, {name: Affine.variable(name) + 1}, {**ranges, name: (0, extent - 2)})
    return replace(e, variables=((name, extent - 1),), start=start, body=body)


class Added(NamedTuple):
    """What each step of a chain of f32 adds to the value so far: a product and how it is rounded, or over ``variables``
    a chain of products, which begins with ``zero``."""

    a: Expr
    b: Expr
    rounding: Rounding
    variables: expr.Variables = ()
    zero: float = -0.0


def _added(body: Expr) -> Added | None:
    """The factors that a step multiplies and adds; None where it does something else."""
    if not isinstance(body, Map) or body.dtype != "f32":
        return None
    if body.opcode == "fma":
        a, b, total = body.operands
        rounding: Rounding = "fused_keep" if dict(body.attributes).get("subnormals") == "keep" else "fused_flush"
        inner = _inner(a if b == ONE else b, rounding) if ONE in (a, b) else None
        found: Added | None = inner or Added(a, b, rounding)
    elif body.opcode == "add":
        total, term = sorted(body.operands, key=lambda o: not isinstance(o, expr.Carry))
        found = _products(term.body, term.variables) if isinstance(term, expr.Sum) else (
            _inner(term, "each") or _inner(term, "fused_flush") or _products(term))
    else:
        return None
    return found if isinstance(total, expr.Carry) and found and not any(map(traits.carries, found[:2])) else None


ONE = expr.Const(1.0, "f32")
"""What is multiplied by it is added as it is, rounded once."""


def _inner(term: Expr, rounding: Rounding) -> Added | None:
    """What each step adds where it is a chain of products itself, which begins with a zero and rounds like the sum of
    the chains."""
    if not isinstance(term, Fold) or not isinstance(term.start, expr.Const) or term.start.value != 0:
        return None
    found = _added(term.body)
    if found is None or found.variables or found.rounding != rounding:
        return None
    return found._replace(variables=term.variables, zero=float(term.start.value))


def _products(term: Expr, variables: expr.Variables = ()) -> Added | None:
    if not isinstance(term, Map) or term.opcode != "multiply":
        return None
    a, b = term.operands
    return Added(a, b, "fused_flush" if widened(a) and widened(b) else "each", variables)


def widened(e: Expr) -> bool:
    """Whether the value is an f16 that was only widened: f32 holds each product of two, none of them subnormal."""
    return isinstance(e, Map) and e.opcode == "convert" and e.operands[0].dtype == "f16" and e.dtype == "f32"


def _as_product(
    lowering: Spreading, e: Fold, added: Added, names: tuple[str, ...], ranges: Ranges
) -> Spread | None:
    """The chain as a product of matrices, one for each value of what both factors depend on.

    None where no variable is the second factor's alone: machine code takes a row of columns at once.
    """
    parts = tuple(n for n, _ in e.variables) if added.variables else ()
    own = tuple(n for n, _ in added.variables or e.variables)
    ranges = expr.over((*e.variables, *added.variables), ranges)
    size = {n: extent(r) for n, r in ranges.items()}
    first, second = (lowering.spread(o, ranges) for o in (added.a, added.b))
    alone = [_count(tuple(n for n in names if n in x.names and n not in y.names), size)
             for x, y in ((first, second), (second, first))]
    if alone[1] < min(native.LANES, alone[0]):  # the longer one fills vectors
        first, second = second, first
    columns = tuple(n for n in names if n in second.names and n not in first.names)
    batch = tuple(n for n in names if n in second.names and n in first.names)
    rows = tuple(n for n in names if n not in second.names)
    if not columns:
        return None
    lowering.record.operations.append(f"chain of {_count(parts or own, size)} over {_count(names, size)}")
    if parts:
        sizes = "x".join(str(_count(group, size)) for group in (rows, columns, own))
        lowering.record.operations.append(f"dot {_count((*batch, *parts), size)} x {sizes} f32, in order")

    def matrices(side: Spread, *groups: tuple[str, ...]) -> Any:
        axes = tuple(v for group in groups for v in group)
        array = jnp.broadcast_to(side.expand(axes), tuple(size[v] for v in axes))
        return array.reshape([_count(group, size) for group in groups])

    lead = (batch, parts) if parts else (batch,)
    begin = lowering.spread(e.start, {v: r for v, r in ranges.items() if v not in (*parts, *own)})
    start = matrices(begin, batch, rows, columns) if begin.names else begin.array.reshape(())
    made = summed(matrices(first, *lead, rows, own), matrices(second, *lead, own, columns), start, added.rounding,
                  parts=added.zero if parts else None)
    axes = (*batch, *rows, *columns)
    return Spread(made.reshape(tuple(size[v] for v in axes)), axes)


def _count(names: tuple[str, ...], size: dict[str, int]) -> int:
    return math.prod(size[n] for n in names)


def one_chain(e: Switch) -> Expr | None:
    """The cases as one chain of operations on distinctions, where they are chains of the same operations.

    Chains that machine code computes are joined where they share a factor, which stays a matrix then.
    """
    if not all(_chained(body) for _, _, body in e.cases):
        return None
    if native.possible() and all(_of_products(body) for _, _, body in e.cases):
        return _joined(replace(e, cases=tuple((low, high, _one_by_one(body)) for low, high, body in e.cases)))
    found = _merged(e.form, e.cases)
    return None if isinstance(found, Switch) else found


def with_last_steps(e: Expr, ranges: Ranges) -> Expr:
    """Operations on a chain that are what its next steps would be as steps of it; others as they are."""
    if not isinstance(e, Map) or expr.is_integer(e.dtype):
        return e
    for place in range(len(e.operands)):
        operations, chain = _on_a_chain(e, place)
        if isinstance(chain, Fold) and len(chain.variables) == 1:
            step = in_turn(chain.body)
            left = len(operations)
            while len(step) <= left and (longer := _longer(chain, operations[left - len(step):left], place, ranges)):
                chain, left = longer, left - len(step)
            if left < len(operations):
                return _over(operations[:left], place, chain)
    return e


def _on_a_chain(e: Expr, place: int) -> tuple[list[Map], Expr]:
    """Operations of one kind on each other, the last one first, and what the first is an operation on."""
    found: list[Map] = []
    while isinstance(e, Map) and (not found or (e.opcode, e.attributes) == (found[0].opcode, found[0].attributes)):
        found.append(e)
        e = e.operands[place]
    return found, e


def _over(operations: list[Map], place: int, e: Expr) -> Expr:
    for operation in reversed(operations):
        e = replace(operation, operands=with_operand(operation, place, e))
    return e


def _longer(chain: Fold, operations: list[Map], place: int, ranges: Ranges) -> Fold | None:
    """The chain with one step more, if the operations are that."""
    (first, extent), = chain.variables
    step = substitute(chain.body, {first: Affine(extent)}, ranges)
    if not operations or plug(step, chain, ranges) != _over(operations, place, chain):
        return None
    return replace(chain, variables=((first, extent + 1),))


def _one_by_one(e: Expr) -> Expr:
    """Chains, or those in the same operations, with one operation a step."""
    if isinstance(e, Fold):
        return one_by_one(e)
    if isinstance(e, Map) and _chained(e):
        return replace(e, operands=tuple(map(_one_by_one, e.operands)))
    return e


def _joined(e: Switch) -> Expr | None:
    """Chains of products with neighbours that share a factor made one; None where no two do."""
    groups: list[list[tuple[int, int, Expr]]] = []
    for case in e.cases:
        if groups and _share_a_factor(groups[-1][-1][2], case[2]):
            groups[-1].append(case)
        else:
            groups.append([case])
    if len(groups) == len(e.cases):
        return None
    cases = []
    for group in groups:
        body = group[0][2] if len(group) == 1 else _merged(e.form, tuple(group))
        if body is None:
            return None
        cases.append((group[0][0], group[-1][1], body))
    return cases[0][2] if len(cases) == 1 else replace(e, cases=tuple(cases))


def _share_a_factor(a: Expr, b: Expr) -> bool:
    """Whether two chains of products, or those in the same operations, have a factor in common, each pair of them."""
    if isinstance(a, Fold) and isinstance(b, Fold):
        left, right = _added(a.body), _added(b.body)
        return bool(left and right and (left.a == right.a or left.b == right.b))
    return isinstance(a, Map) and isinstance(b, Map) and len(a.operands) == len(b.operands) and all(
        _share_a_factor(x, y) for x, y in zip(a.operands, b.operands, strict=True) if _chained(x) or _chained(y))


@expr.once
def _chained(e: Expr) -> bool:
    return isinstance(e, Fold) or (isinstance(e, Map) and any(_chained(o) for o in e.operands))


@expr.once
def _of_products(e: Expr) -> bool:
    """Whether each of the chains in operations adds up products."""
    if isinstance(e, Fold):
        return _added(one_by_one(e).body) is not None
    return isinstance(e, Map) and all(_of_products(o) for o in e.operands if _chained(o))


def _merged(form: Affine, cases: Cases) -> Expr | None:
    """The same operations on what is different; None where the carried value is used in different ways."""
    bodies = [body for _, _, body in cases]
    first = bodies[0]
    if all(body == first for body in bodies):
        return first
    if isinstance(first, Fold):
        if any(not isinstance(b, Fold) or b.variables != first.variables for b in bodies):
            return Switch(form, cases, first.dtype)
        start, body = (_merged(form, tuple((low, high, getattr(b, part)) for low, high, b in cases))
                       for part in ("start", "body"))
        return None if start is None or body is None else replace(first, start=start, body=body)
    if (isinstance(first, Map) and any(traits.carries(b) or _chained(b) for b in bodies)
            and all(traits.same_kind(b, replace(first, operands=b.children)) for b in bodies)):
        parts = [_merged(form, tuple((low, high, b.children[i]) for low, high, b in cases))
                 for i in range(len(first.operands))]
        return None if None in parts else replace(first, operands=tuple(p for p in parts if p is not None))
    return None if any(traits.carries(b) for b in bodies) else Switch(form, cases, first.dtype)


def _step(lowering: Spreading, e: Fold, body: Expr, names: tuple[str, ...], ranges: Ranges) -> Step:
    """What a sub-expression of the chain's body is in each step."""
    if isinstance(body, expr.Carry):
        return lambda i, value: value
    if not traits.carries(body):
        return _given(lowering, e, body, names, ranges)
    assert isinstance(body, Map)
    operands = [_step(lowering, e, o, names, ranges) for o in body.operands]
    opcode, attributes, dtype, types = body.opcode, body.attributes, body.dtype, [o.dtype for o in body.operands]
    return lambda i, value: elementwise(opcode, [o(i, value) for o in operands], attributes, dtype, types)


def _given(lowering: Spreading, e: Fold, part: Expr, names: tuple[str, ...], ranges: Ranges) -> Step:
    """A part that does not depend on the chain: computed for all steps, a row for each."""
    found = lowering.spread(part, ranges)
    own = [n for n, _ in e.variables]
    if not any(n in found.names for n in own):
        array = found.expand(names)
        return lambda i, value: array
    array = found.expand((*own, *names))
    array = jnp.broadcast_to(array, (*(x for _, x in e.variables), *array.shape[len(own):]))
    rows = array.reshape(-1, *array.shape[len(own):])
    return lambda i, value: lax.dynamic_index_in_dim(rows, i, 0, keepdims=False)
