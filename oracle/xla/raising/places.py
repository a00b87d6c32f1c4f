"""Where in an expression one is: which elements get there, and what the variables there stand for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from archloom.oracle.affine import Affine
from archloom.oracle.xla.notation.constraints import inside, narrow
from archloom.oracle.xla.notation.expr import Constraint, Expr, Guarded, Let, Ranges

_COUNTED = 1 << 14
"""Up to how many values of variables together it is tried out which elements get there."""


@dataclass(frozen=True)
class Place:
    """A place in an expression: the ``ranges`` of all variables there, ``conditions`` that hold, and ``forms`` that
    variables stand for, both over the variables of the whole."""

    ranges: Ranges
    conditions: tuple[Constraint, ...] = ()
    forms: Mapping[str, Affine] = field(default_factory=dict)

    def where(self, form: Affine, low: int, high: int) -> "Place":
        """The place in the case of a distinction."""
        condition = form.substitute(self.forms), low, high
        return replace(self, ranges=narrow(form, low, high, self.ranges), conditions=(*self.conditions, condition))

    def named(self, variables: tuple[tuple[str, Affine], ...]) -> "Place":
        """The place where further variables stand for forms."""
        return replace(
            self, ranges={**self.ranges, **{name: form.range(self.ranges) for name, form in variables}},
            forms={**self.forms, **{name: form.substitute(self.forms) for name, form in variables}})

    def inside(self, e: Expr) -> "Place":
        """The place of the sub-expressions of a node, whichever of them."""
        if isinstance(e, Let):
            return self.named(e.variables)
        ranges = inside(e, self.ranges)
        if not isinstance(e, Guarded):
            return replace(self, ranges=ranges)
        found = tuple((form.substitute(self.forms), low, high) for form, low, high in e.constraints)
        return replace(self, ranges=ranges, conditions=(*self.conditions, *found))

    @property
    def is_empty(self) -> bool:
        """Whether no element gets there, as far as that can be tried out."""
        points = self._points(())
        return points is not None and not bool(self._meet(points).any())

    def is_zero(self, form: Affine) -> bool:
        """Whether a form is 0 of all elements that get there, as far as that can be tried out."""
        form = form.substitute(self.forms).simplify(self.ranges)
        if not form.terms:
            return not form.constant
        points = self._points((form,))
        return points is not None and not bool(np.any(form.evaluate(points) != 0, where=self._meet(points)))

    def _points(self, forms: Iterable[Affine]) -> dict[str, NDArray[np.int64]] | None:
        """All values of the variables of some forms and of the conditions, an axis for each; None if they are many."""
        names = sorted(frozenset[str]().union(*(f.variables() for f in (*forms, *(c[0] for c in self.conditions)))))
        spans = [self.ranges[name] for name in names]
        if math.prod(high - low + 1 for low, high in spans) > _COUNTED:
            return None
        grids = np.meshgrid(*(np.arange(low, high + 1) for low, high in spans), indexing="ij")
        return dict(zip(names, grids, strict=True))

    def _meet(self, points: Mapping[str, NDArray[np.int64]]) -> NDArray[np.bool_]:
        """At which points all conditions hold."""
        shape = next(iter(points.values())).shape if points else ()
        met = np.ones(shape, bool)
        for form, low, high in self.conditions:
            values = np.asarray(form.evaluate(points))
            met &= (low is None or values >= low) & (high is None or values <= high)
        return met
