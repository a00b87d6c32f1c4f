"""Values that loops hand on from one iteration to the next, where no single instruction says what becomes of them.

A partial sum comes out of a buffer, goes into an array, up its columns and back: several instructions, each of which
only moves or adds, make the element's new value of its old one. Of one iteration, taken by itself, the search finds
that value as an expression in which :func:`held` stands for what the iteration has found. Where that is the element
itself, all iterations together are a sum, or a chain in their order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from archloom.oracle.affine import Affine
from archloom.oracle.windows import linear
from archloom.oracle.xla.notation import expr
from archloom.oracle.xla.notation.build import byte_of, from_bytes, guard_of, let_of, switch_of
from archloom.oracle.xla.notation.constraints import reach
from archloom.oracle.xla.notation.expr import ByteOf, Const, Expr, Guarded, Leaf, Let, Map, Ranges, Switch
from archloom.oracle.xla.notation.substitution import NORMAL, substitute
from archloom.oracle.xla.notation.sums import add_of, fold_of, sum_of
from archloom.oracle.xla.notation.variables import HELD, fresh
from archloom.oracle.xla.raising.places import Place
from archloom.oracle.xla.raising.query import Query
from archloom.oracle.xla.raising.updates import carried


def held(loop: str, q: Query, shape: tuple[int, ...], dtype: str) -> Leaf:
    """What elements of a buffer hold when an iteration of ``loop`` begins."""
    return Leaf(f"{_prefix(loop)}{q.buffer}", linear(q.address, shape).simplify(q.ranges), dtype)


def _prefix(loop: str) -> str:
    return f"{HELD} {loop} "


@dataclass(frozen=True)
class Recurrence:
    """What becomes of the elements of ``query`` in all iterations of ``loop`` together.

    ``shape`` is that of their buffer, ``variable`` stands for the iteration's number below ``extent``, and ``start``
    finds what elements hold before the loop.
    """

    loop: str
    query: Query
    shape: tuple[int, ...]
    variable: str
    extent: int
    start: Callable[[Query], Expr]
    _mentions: dict[int, tuple[Expr, bool]] = field(default_factory=dict)

    def after(self, e: Expr) -> Expr | None:
        """The elements after the last iteration, ``e`` being what one makes of them; None where that is no recurrence
        of single elements."""
        here = Place({**self.query.ranges, self.variable: (0, self.extent - 1)})
        return self._after(self._pruned(e, here), here)

    def mentions(self, e: Expr) -> bool:
        """Whether anything that the iteration has found occurs."""
        known = self._mentions.get(id(e))
        if known is None:
            parts = [o.body for o in e.whole.operands] if isinstance(e, expr.Element) else e.children
            found = (isinstance(e, Leaf) and e.name.startswith(_prefix(self.loop))) or any(map(self.mentions, parts))
            self._mentions[id(e)] = known = e, found  # the expression, too: its number is its own as long as it is kept
        return known[1]

    def _pruned(self, e: Expr, here: Place) -> Expr:
        """``e`` without the cases that mention what the iteration has found, and that no element falls in."""
        if not self.mentions(e):
            return e
        if not isinstance(e, Switch):
            inner = here.inside(e)
            if isinstance(e, Guarded) and inner.is_empty:
                return Const(e.fill, e.dtype)
            return _normal(e.rebuilt(e.forms, [self._pruned(c, inner) for c in e.children]), here.ranges)
        kept: list[tuple[int, int, Expr]] = []
        for first, last, body in reach(e.cases, *e.form.range(here.ranges)):
            inner = here.where(e.form, first, last)
            if not self.mentions(body) or not inner.is_empty:
                kept.append((kept[-1][1] + 1 if kept else first, last, self._pruned(body, inner)))
        return switch_of(e.form, tuple(kept), here.ranges) if kept else Const(0, e.dtype)

    def _after(self, e: Expr, here: Place) -> Expr | None:
        ranges = self._without(here.ranges)
        if not self.mentions(e):  # each iteration writes it anew
            return substitute(e, {self.variable: Affine(self.extent - 1)}, ranges)
        if any(self.variable in form.variables() for form in e.forms):
            return None
        if isinstance(e, ByteOf):
            body = self._updated(e.body, here, e.byte)
            return None if body is None else byte_of(body, e.byte)
        if isinstance(e, Guarded):
            body = self._after(e.body, here.inside(e))
            return None if body is None else guard_of(body, e.constraints, e.fill, ranges)
        found = self._updated(e, here, None)
        return found if found is not None or not isinstance(e, (Switch, Let)) else self._apart(e, here, self._after)

    def _apart(self, e: Switch | Let, here: Place, make: Callable[[Expr, Place], Expr | None]) -> Expr | None:
        """Each case by itself, or the body over variables of its own."""
        ranges = self._without(here.ranges)
        if isinstance(e, Switch):
            cases = [(first, last, make(body, here.where(e.form, first, last)))
                     for first, last, body in reach(e.cases, *e.form.range(here.ranges))]
            made = tuple((first, last, body) for first, last, body in cases if body is not None)
            return switch_of(e.form, made, ranges) if len(made) == len(cases) else None
        own = {name: fresh() for name, _ in e.variables}  # what becomes of the body binds names, too
        named = tuple((own[name], form) for name, form in e.variables)
        inner = here.named(named)
        body = make(substitute(e.body, {n: Affine.variable(v) for n, v in own.items()}, inner.ranges), inner)
        return None if body is None else let_of(named, body, ranges)

    # --- what one iteration makes of a single element, or of a word of bytes ----------------------------------------

    def _updated(self, e: Expr, here: Place, byte: Affine | None) -> Expr | None:
        """The element after all iterations where each makes ``e`` of it; or the word of which it is number ``byte``."""
        old: list[Expr] = []

        def is_old(x: Expr, here: Place) -> bool:
            first = self._first(x, byte)
            same = first is not None and here.is_zero(first + (byte or 0) - linear(self.query.address, self.shape))
            if same:
                old.append(x)
            return same

        ranges = self._without(here.ranges)
        added = self._added(e, here, is_old) if expr.is_integer(e.dtype) else None
        if added is not None and old:
            return add_of(self._start(old[0], here, byte), added, ranges)
        old.clear()
        body = carried(e, lambda x: is_old(x, here), self.mentions, ranges)
        if body is None or not old:
            return None
        return fold_of(((self.variable, self.extent),), self._start(old[0], here, byte), body, ranges)

    def _added(self, e: Expr, here: Place, is_old: Callable[[Expr, Place], bool]) -> Expr | None:
        """What all iterations together add to the old value, where ``e`` is that and what one iteration adds."""
        if is_old(e, here):
            return Const(0, e.dtype)
        if isinstance(e, Map) and e.opcode == "add":
            one, other = sorted(e.operands, key=self.mentions, reverse=True)
            if self.mentions(other):
                return None
            rest, ranges = self._added(one, here, is_old), self._without(here.ranges)
            return None if rest is None else add_of(
                rest, sum_of(((self.variable, self.extent),), other, ranges), ranges)
        if isinstance(e, (Switch, Let)) and not any(self.variable in form.variables() for form in e.forms):
            return self._apart(e, here, lambda body, inner: self._added(body, inner, is_old))
        return None

    def _first(self, e: Expr, byte: Affine | None) -> Affine | None:
        """Where the element, or the first byte of the word, lies that the iteration has found; None of what is none."""
        name = f"{_prefix(self.loop)}{self.query.buffer}"
        if byte is None:
            return e.index if isinstance(e, Leaf) and e.name == name else None
        if not isinstance(e, expr.FromBytes) or not isinstance(e.body, Leaf) or e.body.name != name:
            return None
        first = (e.body.index - Affine.variable(e.variable)).simplify(
            {**self.query.ranges, **e.bound_ranges(self.query.ranges)})
        return None if e.variable in first.variables() else first

    def _start(self, old: Expr, here: Place, byte: Affine | None) -> Expr:
        """What the element, or the word, holds before the loop."""
        ranges = self._without(here.ranges)
        index = linear(self.query.address, self.shape)
        if here.forms:  # by the variables that it has here
            found = self._first(old, byte)
            assert found is not None
            index = found + (byte or 0)
        if byte is None:
            return self.start(self._query(index, ranges))
        number = fresh()
        inner = {**ranges, number: (0, expr.width(old.dtype) - 1)}
        word = self._query(index - byte + Affine.variable(number), inner)
        return from_bytes(number, self.start(word), old.dtype, ranges)

    def _query(self, index: Affine, ranges: Ranges) -> Query:
        address: list[Affine] = []
        index = index.simplify(ranges)
        for extent in reversed(self.shape[1:]):
            address.append((index % extent).simplify(ranges))
            index = (index // extent).simplify(ranges)
        return Query(self.query.buffer, (index, *reversed(address)), ranges)

    def _without(self, ranges: Ranges) -> Ranges:
        return {name: limits for name, limits in ranges.items() if name != self.variable}


def _normal(e: Expr, ranges: Ranges) -> Expr:
    return NORMAL[type(e)](e, ranges) if type(e) in NORMAL else e
