"""Where the answer to a question changes along a loop, so that the loop can be divided there."""

from __future__ import annotations

import numpy as np

from archloom.oracle.resolution.numbering import Scope
from archloom.oracle.resolution.proofs import GRID_CAP, Place
from archloom.oracle.resolution.specialize import Open
from archloom.oracle.resolution.symbolic import GRID, evaluate_grid, grid_size, whole_grid

_MAX_PIECES = 16
_MAX_PERIOD = 16


class Split(Exception):
    """The answer to a question changes along ``variable``: at ``cuts``, with ``period``, or (neither) irregularly."""

    def __init__(self, variable: str, what: str, cuts: tuple[int, ...] = (), period: int = 0) -> None:
        self.variable = variable
        self.what = what
        self.cuts = cuts
        self.period = period
        super().__init__(what)


def partition(o: Open, scope: Scope, place: Place) -> Exception:
    """Along which loop, and where, the answer to an open question changes: the outermost that helps."""
    what = f"{o.what} in {place.path}"
    values = dict(o.scope) if o.condition is not None else {"quantity": o.quantity}
    names = frozenset().union(*(v.variables() for v in values.values()))
    variables = tuple(v for v in scope.variables if v in names)
    if not variables:
        return place.error(f"cannot decide {o.what}")
    if grid_size(variables, scope.bounds) > GRID_CAP:
        return Split(variables[0], what)
    axes = whole_grid(variables, scope.bounds)
    arrays = {k: np.asarray(v.evaluate(axes)) for k, v in values.items()}
    if o.condition is not None:
        answer = np.asarray(evaluate_grid(o.condition, arrays.__getitem__))
    else:
        answer = arrays["quantity"] if o.operator == "int" else GRID[o.operator](arrays["quantity"], 0)
    answer = np.broadcast_to(answer, tuple(axes[v].size for v in variables)).astype(np.int64)
    for axis, variable in enumerate(variables):
        summary = _summary(np.moveaxis(answer, axis, 0).reshape(answer.shape[axis], -1))
        changes = np.flatnonzero(np.any(summary[1:] != summary[:-1], axis=1)) + 1
        if not len(changes):
            continue
        if len(changes) < _MAX_PIECES:
            return Split(variable, what, cuts=tuple(int(c) for c in changes))
        return Split(variable, what, period=_period(summary))
    return Split(min(variables, key=lambda v: scope.bounds[v][1]), what)


def _summary(answer: np.ndarray) -> np.ndarray:
    """For each row its least and greatest answer, so that rows of one answer and mixed rows are told apart."""
    mixed = answer.min(axis=1) != answer.max(axis=1)
    return np.stack([mixed, np.where(mixed, 0, answer[:, 0])], axis=1)


def _period(summary: np.ndarray) -> int:
    """The smallest period of the rows, 0 if there is none that is small."""
    for p in range(2, _MAX_PERIOD + 1):
        if np.array_equal(summary[p:], summary[:-p]):
            return p
    return 0
