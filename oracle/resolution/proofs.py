"""Exact checks over a loop nest: assertions of the ISA, and windows inside their buffers.

Ranges decide nearly everything; what they leave open is evaluated over the whole index grid of the loops concerned,
vectorized, so that nothing is refused that is right. A fault names the instruction, its loops' values and the values
that break the rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from archloom.oracle.affine import Affine, Bounds
from archloom.oracle.errors import StreamError
from archloom.oracle.resolution.specialize import Judge, Judgement, Open
from archloom.oracle.resolution.symbolic import Evaluator, Undecided, evaluate_grid, grid_size, whole_grid
from archloom.oracle.resolved import Buffer, Window
from archloom.oracle.taidl.printer import print_expr
from archloom.oracle.variables import unknowns
from archloom.oracle.windows import footprint, span

GRID_CAP = 1 << 22
"""The largest index grid that is evaluated for one question."""


@dataclass(frozen=True)
class Place(Judge):
    """Where an instruction stands: its textual path, and the loop variables of the stream in terms of the resolved."""

    path: str
    variables: tuple[str, ...]
    loops: Mapping[str, Affine]
    hbm_bytes: int

    def error(self, message: str, at: Mapping[str, int] | None = None) -> StreamError:
        """A StreamError that names the instruction and, with ``at``, the values of the loops around it."""
        values = {v: e.evaluate(at) for v, e in self.loops.items()} if at is not None else {}
        where = f" (for {', '.join(f'{k} = {v}' for k, v in values.items())})" if values else ""
        return StreamError(f"{self.path}: {message}{where}")

    def check(self, judgement: Judgement, bounds: Bounds) -> None:
        """The assertion holds in every iteration; StreamError with the first iteration in which it does not."""
        scope = {k: v.simplify(bounds) for k, v in judgement.scope}
        try:
            if Evaluator(scope, bounds).truth(judgement.condition):
                return
        except Undecided:
            pass
        text = f"assert({print_expr(judgement.condition)})"
        axes = self.axes(list(scope.values()), bounds, text)
        lookup = {k: np.asarray(v.evaluate(axes)) for k, v in scope.items()}
        with np.errstate(divide="ignore", invalid="ignore"):
            holds = np.asarray(evaluate_grid(judgement.condition, lookup.__getitem__), bool)
        if holds.all():
            return
        at = self.first(~holds, axes)
        shown = ", ".join(f"{k} = {v.evaluate(at)}" for k, v in scope.items())
        raise self.error(f"{text} is violated: {shown}", at)

    def axes(self, values: list[Affine], bounds: Bounds, what: str) -> dict[str, np.ndarray]:
        """The index grid of the loops that the values depend on; Open for values that are not known yet."""
        asked = {v for value in values for v in unknowns(value)}
        if asked:
            raise Open("int", min(asked).expression(), what)
        names = frozenset[str]().union(*(v.variables() for v in values))
        ordered = tuple(v for v in self.variables if v in names)
        if grid_size(ordered, bounds) > GRID_CAP:
            raise self.error(f"cannot decide {what}: expected at most {GRID_CAP} iterations of the loops it depends "
                             f"on, found {grid_size(ordered, bounds)}")
        return whole_grid(ordered, bounds)

    def first(self, bad: np.ndarray, axes: Mapping[str, np.ndarray]) -> dict[str, int]:
        """The values of the loop variables at the first bad point; those of other loops at their start."""
        full = np.broadcast_to(bad, np.broadcast_shapes(*(a.shape for a in axes.values()))) if axes else bad
        index = np.unravel_index(int(np.argmax(full)), full.shape) if axes else ()
        at = dict.fromkeys(self.variables, 0)
        at.update({v: int(axes[v].reshape(-1)[i]) for v, i in zip(axes, index, strict=True)})
        return at

    def inside(self, window: Window, buffer: Buffer, bounds: Bounds, verb: str) -> None:
        """Every element of the window lies in the buffer, in every iteration; StreamError otherwise."""
        for axis, ((low, high), extent) in enumerate(zip(footprint(window, bounds), buffer.shape, strict=True)):
            if low < 0 or high >= extent:
                self._outside(window, buffer, bounds, verb, axis)

    def _outside(self, window: Window, buffer: Buffer, bounds: Bounds, verb: str, axis: int) -> None:
        offset, (below, above) = window.offsets[axis], span(window, axis)
        axes = self.axes([offset], bounds, f"whether ${buffer.name} is {verb} inside its bounds")
        values = np.asarray(offset.evaluate(axes))
        bad = (values + below < 0) | (values + above >= buffer.shape[axis])
        if not bad.any():
            return
        at = self.first(bad, axes)
        first = offset.evaluate(at)
        low, high = first + below, first + above
        if buffer.name == "hbm":
            message = f"{verb} bytes {low}..{high} of HBM, outside its {self.hbm_bytes} bytes (hbm_bytes)"
        else:
            unit = "rows" if axis == 0 and len(buffer.shape) > 1 else f"axis {axis}:"
            message = f"{verb} {unit} {low}..{high} of ${buffer.name}, outside its extent {buffer.shape[axis]}"
        raise self.error(message, at)
