"""Exact answers over a loop nest: assertions of the ISA, windows inside their buffers, where a loop is to be divided.

Ranges decide nearly everything; what they leave open is evaluated over the whole index grid of the loops concerned,
vectorized, so that nothing is refused that is right. A fault names the instruction, its loops' values and the values
that break the rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from archloom.oracle.affine import Affine, Bounds
from archloom.oracle.errors import StreamError
from archloom.oracle.nests import with_values, with_window
from archloom.oracle.resolution import symbolic
from archloom.oracle.resolution.execution import Effect, Judgement, Open
from archloom.oracle.resolution.numbering import Scope
from archloom.oracle.resolved import Buffer, Op, Read, Statement, Window, Write
from archloom.oracle.taidl.printer import print_expr
from archloom.oracle.variables import is_known, unknowns
from archloom.oracle.windows import span

GRID_CAP = 1 << 22
"""The largest index grid that is evaluated for one question."""


@dataclass(frozen=True)
class Place:
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
            if symbolic.Evaluator(scope, bounds).truth(judgement.condition):
                return
        except symbolic.Undecided:
            pass
        text = f"assert({print_expr(judgement.condition)})"
        axes = self.axes(list(scope.values()), bounds, text)
        lookup = {k: np.asarray(v.evaluate(axes)) for k, v in scope.items()}
        with np.errstate(divide="ignore", invalid="ignore"):
            holds = np.asarray(symbolic.evaluate_grid(judgement.condition, lookup.__getitem__), bool)
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
        if any(symbolic.reach(v, bounds) >= symbolic.WHOLE for v in values):
            raise self.error(f"cannot decide {what}: expected numbers of less than 63 bits")
        names = frozenset[str]().union(*(v.variables() for v in values))
        ordered = tuple(v for v in self.variables if v in names)
        if symbolic.grid_size(ordered, bounds) > GRID_CAP:
            raise self.error(f"cannot decide {what}: expected at most {GRID_CAP} iterations of the loops it depends "
                             f"on, found {symbolic.grid_size(ordered, bounds)}")
        return symbolic.whole_grid(ordered, bounds)

    def first(self, bad: np.ndarray, axes: Mapping[str, np.ndarray]) -> dict[str, int]:
        """The values of the loop variables at the first bad point; those of other loops at their start."""
        full = np.broadcast_to(bad, np.broadcast_shapes(*(a.shape for a in axes.values()))) if axes else bad
        index = np.unravel_index(int(np.argmax(full)), full.shape) if axes else ()
        at = dict.fromkeys(self.variables, 0)
        at.update({v: int(axes[v].reshape(-1)[i]) for v, i in zip(axes, index, strict=True)})
        return at

    def inside(
        self, window: Window, spans: tuple[tuple[int, int], ...], buffer: Buffer, bounds: Bounds, verb: str
    ) -> None:
        """Every element of the window, which has these ``spans``, lies in the buffer, in every iteration; StreamError
        otherwise."""
        for axis, (offset, (below, above), extent) in enumerate(zip(window.offsets, spans, buffer.shape, strict=True)):
            low, high = offset.range(bounds) if offset.terms else (offset.constant, offset.constant)
            if low + below < 0 or high + above >= extent:
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


# --- instances ----------------------------------------------------------------------------------------------------


@dataclass
class Instance:
    """Puts actual values for the symbols of an effect and proves what is left to prove.

    ``registers``: there are any whose values may be unknown.
    """

    symbols: Mapping[str, Affine]
    bounds: Bounds
    place: Place
    buffers: Mapping[str, Buffer]
    registers: bool
    expressions: dict[Affine, Affine] = field(default_factory=dict)
    windows: dict[int, Window] = field(default_factory=dict)
    """By the identity of an effect's window, which is one object where it is read and written."""

    def statements(self, effect: Effect) -> tuple[Statement, ...]:
        for judgement in effect.asserts:
            scope = tuple((k, self.expression(v)) for k, v in judgement.scope)
            self.place.check(Judgement(judgement.condition, scope), self.bounds)
        return tuple([self.statement(s) for s in effect.statements])

    def expression(self, e: Affine) -> Affine:
        if not e.terms:
            return e
        value = self.expressions.get(e)
        if value is None:
            (atom, coefficient), *more = e.terms
            if coefficient == 1 and not more and atom in self.symbols:
                value = self.symbols[atom] + e.constant  # type: ignore[index]  # nearly all: an address, or beyond it
            else:
                value = e.substitute(self.symbols)
            if not value.is_linear:
                value = value.simplify(self.bounds)
            if self.registers and not is_known(value):
                raise Open("int", value, "an operand")
            self.expressions[e] = value
        return value

    def statement(self, s: Statement) -> Statement:
        return with_values(s, self.number) if isinstance(s, Op) else with_window(s, self.window)

    def number(self, value: Affine) -> Affine | int:
        e = self.expression(value)
        return e.constant if e.is_constant else e

    def window(self, s: Read | Write) -> Window:
        window = self.windows.get(id(s.window))
        if window is None:
            window = self.windows[id(s.window)] = s.window.with_offsets(self.expression)
            verb = "reads" if isinstance(s, Read) else "writes"
            self.place.inside(window, s.window.spans, self.buffers[window.buffer], self.bounds, verb)
        return window


# --- where answers change -----------------------------------------------------------------------------------------

_MAX_PIECES = 16
_MAX_PERIOD = 16


@dataclass(eq=False)
class Split(Exception):
    """The answer to a question changes along ``variable``: at ``cuts``, with ``period``, or (neither) irregularly."""

    variable: str
    what: str
    cuts: tuple[int, ...] = ()
    period: int = 0


def partition(o: Open, scope: Scope, place: Place) -> Exception:
    """Along which loop, and where, the answer to an open question changes: the outermost that helps."""
    what = f"{o.what} in {place.path}"
    values = dict(o.scope) if o.condition is not None else {"quantity": o.quantity}
    names = frozenset().union(*(v.variables() for v in values.values()))
    variables = tuple(v for v in scope.variables if v in names)
    if not variables:
        return place.error(f"cannot decide {o.what}")
    if symbolic.grid_size(variables, scope.bounds) > GRID_CAP:
        return Split(variables[0], what)
    if any(symbolic.reach(v, scope.bounds) >= symbolic.WHOLE for v in values.values()):
        return place.error(f"cannot decide {o.what}: expected numbers of less than 63 bits")
    axes = symbolic.whole_grid(variables, scope.bounds)
    arrays = {k: np.asarray(v.evaluate(axes)) for k, v in values.items()}
    if o.condition is not None:
        answer = np.asarray(symbolic.evaluate_grid(o.condition, arrays.__getitem__))
    else:
        answer = arrays["quantity"] if o.operator == "int" else symbolic.GRID[o.operator](arrays["quantity"], 0)
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
