"""Merging cases: two expressions on neighbouring ranges of a form as one expression on both.

Loops are peeled where tiles end, where a reduction begins, where padding begins; the pieces are the same function of
the absolute index. A candidate for that function counts only if its restriction to each piece *is* the piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from archloom.oracle.affine import Affine
from archloom.oracle.xla.notation import expr, traits
from archloom.oracle.xla.notation.constraints import Case, conjunction, inside, narrow, within
from archloom.oracle.xla.notation.expr import Const, Constraint, Expr, Guarded, Ranges, Sum, Switch
from archloom.oracle.xla.notation.substitution import substitute


def one_function(form: Affine, a: Case, b: Case, ranges: Ranges) -> Expr | None:
    """The expression that is ``a``'s where form is in a's range and ``b``'s in b's, or None if none is found."""
    if a[2] == b[2]:
        return a[2]
    variable = traits.axis_of(form)
    if variable is None or isinstance(a[2], Const) or isinstance(b[2], Const):
        return None
    in_a, in_b = narrow(form, a[0], a[1], ranges), narrow(form, b[0], b[1], ranges)
    if substitute(a[2], {}, in_b) == b[2]:
        return a[2]
    if substitute(b[2], {}, in_a) == a[2]:
        return b[2]
    joined = _Join(variable, in_a, in_b).join(a[2], b[2])
    return joined and _verified(joined, form, a, b, ranges)


def _verified(e: Expr, form: Affine, a: Case, b: Case, ranges: Ranges) -> Expr | None:
    """``e`` in normal form if its restrictions are the pieces."""
    e = substitute(e, {}, narrow(form, a[0], b[1], ranges))
    fits = all(substitute(e, {}, narrow(form, first, last, ranges)) == piece for first, last, piece in (a, b))
    return e if fits else None


@dataclass(frozen=True)
class _Join:
    """Looks for a function of which two expressions are restrictions; ``in_a`` and ``in_b`` are their ranges."""

    variable: str
    in_a: Ranges
    in_b: Ranges
    made: dict[tuple[int, int], Expr | None] = field(default_factory=dict)
    """By the identity of two expressions: operations share operands."""

    def join(self, a: Expr, b: Expr) -> Expr | None:
        key = (id(a), id(b))
        if key not in self.made:
            self.made[key] = self._join(a, b)
        return self.made[key]

    def _join(self, a: Expr, b: Expr) -> Expr | None:
        if a == b:
            return a
        if isinstance(a, Guarded) or isinstance(b, Guarded):
            return self._guards(a, b)
        if isinstance(a, Sum) and isinstance(b, Sum) and a.variables != b.variables:
            refined = _refine(a, b)
            return refined and self.join(*refined)
        if isinstance(a, Switch) and isinstance(b, Switch):
            return self._cases(a, b)
        if isinstance(a, Switch) or not traits.same_kind(a, b):
            return None
        own = [self._form(f, g) for f, g in zip(a.forms, b.forms, strict=True)]
        if None in own:
            return None
        inner = self.inside(inside(a, self.in_a), inside(b, self.in_b))
        parts = [inner.join(c, d) for c, d in zip(a.children, b.children, strict=True)]
        return None if None in parts else a.rebuilt([f for f in own if f], [p for p in parts if p is not None])

    def inside(self, in_a: Ranges, in_b: Ranges) -> "_Join":
        """The same under other ranges."""
        return self if in_a is self.in_a and in_b is self.in_b else _Join(self.variable, in_a, in_b)

    def _cases(self, a: Switch, b: Switch) -> Expr | None:
        """Distinctions of the same cases of the same form."""
        if a.form != b.form or self.variable in a.form.variables() or len(a.cases) != len(b.cases):
            return None
        cases = []
        for (low, high, x), (first, last, y) in zip(a.cases, b.cases, strict=True):
            inner = self.inside(narrow(a.form, low, high, self.in_a), narrow(a.form, low, high, self.in_b))
            joined = inner.join(x, y)
            if joined is None or (low, high) != (first, last):
                return None
            cases.append((low, high, joined))
        return replace(a, cases=tuple(cases))

    def _form(self, f: Affine, g: Affine) -> Affine | None:
        """A form that is ``f`` in a's range and ``g`` in b's; the variable is missing where it has one value."""
        for one in (f, g, self._line(f, g), self._extended(f, g), self._extended(g, f), self._strip(f, g)):
            if one.simplify(self.in_a) == f.simplify(self.in_a) and one.simplify(self.in_b) == g.simplify(self.in_b):
                return one
        return None

    def _line(self, f: Affine, g: Affine) -> Affine:
        """The form that is ``f`` at the variable's only value in a and ``g`` at the next, its only one in b."""
        (low, high), (first, last) = self.in_a[self.variable], self.in_b[self.variable]
        step = g - f
        if low != high or first != last or first != low + 1 or not step.is_constant:
            return f
        return f + (Affine.variable(self.variable) - low) * step

    def _strip(self, f: Affine, g: Affine) -> Affine:
        """``f`` again and again, each time moved by as much as ``g`` is, where b is as long as a."""
        (low, high), (first, last) = self.in_a[self.variable], self.in_b[self.variable]
        size = high - low + 1
        if size == 1 or first != high + 1 or last - first + 1 != size or low % size:
            return f
        x = Affine.variable(self.variable)
        step = g.substitute({self.variable: x + size}) - f
        if not step.is_constant:
            return f
        return f.substitute({self.variable: x % size + low}) + (x // size - low // size) * step

    def _extended(self, f: Affine, g: Affine) -> Affine:
        """``f`` plus the variable's term in ``g``, adjusted to vanish at the variable's only value."""
        for at in (self.in_a[self.variable], self.in_b[self.variable]):
            if at[0] == at[1] and self.variable not in f.variables():
                return f + (Affine.variable(self.variable) - at[0]) * g.coefficient(self.variable)
        return f

    def _guards(self, a: Expr, b: Expr) -> Expr | None:
        """Both guards around the joined cores: a constraint that one piece lacks holds in all of it."""
        in_a = within(a.constraints, self.in_a) if isinstance(a, Guarded) else self.in_a
        in_b = within(b.constraints, self.in_b) if isinstance(b, Guarded) else self.in_b
        core = self.inside(in_a, in_b).join(
            a.body if isinstance(a, Guarded) else a, b.body if isinstance(b, Guarded) else b)
        fills = {e.fill for e in (a, b) if isinstance(e, Guarded)}
        if core is None or len(fills) != 1:
            return None
        found: list[Constraint] = []
        for e, other, here in ((a, b, self.in_a), (b, a, self.in_b)):
            if isinstance(e, Guarded):
                known = {c[0]: c for c in other.constraints} if isinstance(other, Guarded) else {}
                found += [c if _agree(c, known.get(c[0])) else self._absolute(c, core, here) for c in e.constraints]
        return Guarded(core, conjunction(tuple(found), {}), fills.pop(), core.dtype)

    def _absolute(self, c: Constraint, core: Expr, here: Ranges) -> Constraint:
        """A constraint of a piece in which the variable has one value, with the variable put back.

        ``u`` in the constraint stands for the axis that ``k*u`` runs along in a leaf; so does ``m/k`` times a variable
        of stride m in the same leaf.
        """
        form, low, high = c
        value, end = here[self.variable]
        if value != end or self.variable in form.variables():
            return c
        for times in _strides(form, core, self.variable):
            shift = times * value
            return (form + Affine.variable(self.variable) * times,
                    None if low is None else low + shift, None if high is None else high + shift)
        return c


def _agree(c: Constraint, other: Constraint | None) -> bool:
    """Whether the other piece has the same form without another bound."""
    return other is not None and all(x is None or y is None or x == y for x, y in zip(c[1:], other[1:], strict=True))


def _strides(form: Affine, core: Expr, variable: str) -> Iterator[int]:
    for leaf in traits.walk(core):
        if isinstance(leaf, expr.Leaf):
            for atom, unit in form.terms:
                stride = leaf.index.coefficient(atom) if isinstance(atom, str) else 0
                other = leaf.index.coefficient(variable) * unit
                if stride and other and other % stride == 0:
                    yield other // stride


def _refine(a: Sum, b: Sum) -> tuple[Sum, Sum] | None:
    """The two sums over the same variables, where one has several for a mixed-radix one of the other."""
    fine, coarse = (a, b) if len(a.variables) > len(b.variables) else (b, a)
    rest, mapping = list(fine.variables), {}
    for name, extent in coarse.variables:
        form, size = Affine(0), 1
        while size < extent and rest:
            inner, count = rest.pop(0)
            form, size = form * count + Affine.variable(inner), size * count
        if size != extent:
            return None
        mapping[name] = form
    if rest:
        return None
    # only forms are rewritten: normalizing would merge the variables again
    split = replace(coarse, variables=fine.variables, body=_rewritten(coarse.body, mapping))
    return (fine, split) if fine is a else (split, fine)


def _rewritten(e: Expr, mapping: dict[str, Affine]) -> Expr:
    return e.rebuilt([f.substitute(mapping) for f in e.forms], [_rewritten(c, mapping) for c in e.children])
