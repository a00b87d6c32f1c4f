"""Instances of an effect by a template: what follows from its text alone is worked out once for all of them.

In most effects each offset is one symbol and a number. Their instances lie inside of the buffers where the symbols lie
in a range, touch what the effect touches, and are made by additions. Where that does not hold, or does not prove
something, there is no instance by template, and :class:`~archloom.oracle.resolution.proofs.Instance` makes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

from archloom.oracle.accesses import Kind, Touching, touched
from archloom.oracle.affine import Affine, Bounds
from archloom.oracle.resolution.symbolic import Evaluator, Ranges, Undecided
from archloom.oracle.resolved import Access, Op, Read, Statement, Window, WindowDim, Write
from archloom.oracle.taidl.isa import HBM, Isa
from archloom.oracle.variables import Input, is_known

if TYPE_CHECKING:
    from archloom.oracle.resolution.execution import Effect, Judgement

Span: TypeAlias = tuple[int, int]
"""The least and the greatest value (inclusive)."""

Done: TypeAlias = tuple[tuple[Statement, ...], tuple[tuple[str, Affine], ...]]
"""The statements of an instance, and the new values of the registers that it writes."""

_FREE: Span = -(1 << 62), 1 << 62
_MOST_MADE = 32
"""Instances whose statements a template remembers, more than most layers have of one form."""
_MOST_PROVEN = 1024
"""Combinations of ranges that an assertion remembers."""


@dataclass(eq=False)
class _Assertion:
    """An assertion over symbols, and for which ranges of them it is known to hold."""

    judgement: Judgement
    symbols: tuple[str, ...]
    proven: dict[tuple[Span, ...], bool] = field(default_factory=dict)

    def holds(self, spans: Mapping[str, Span], widened: Mapping[str, Span]) -> bool:
        """Whether ranges prove it, those of values that vary widened."""
        key = tuple([span if (span := spans[s])[0] == span[1] else widened[s] for s in self.symbols])
        found = self.proven.get(key)
        if found is None:
            if len(self.proven) >= _MOST_PROVEN:
                self.proven.clear()
            found = self.proven[key] = self._decided(Ranges(zip(map(Input.of, self.symbols), key, strict=True)))
        return found

    def _decided(self, ranges: Ranges) -> bool:
        try:
            return Evaluator(dict(self.judgement.scope), ranges).truth(self.judgement.condition)
        except Undecided:
            return False


@dataclass(eq=False)
class Template:
    """An effect whose windows are ``offsets`` (a symbol, None for none, and a number), by their numbers in ``windows``;
    each of the ``statements`` is through the window of a number, if it is through one.

    ``limits``: where each symbol must lie for windows inside of the buffers on chip; ``hbm``: how far from a symbol
    windows of HBM reach. ``touches``: window and kind of each access, where the windows ``apart`` are not equal.
    """

    statements: tuple[tuple[Statement, int | None], ...]
    updates: tuple[tuple[str, Affine], ...]
    asserts: tuple[_Assertion, ...]
    offsets: tuple[tuple[str | None, Affine], ...]
    windows: tuple[tuple[str, tuple[int, ...], tuple[WindowDim, ...]], ...]
    limits: tuple[tuple[str, Span], ...]
    hbm: tuple[tuple[str | None, Span], ...]
    touches: tuple[tuple[int, Kind], ...]
    apart: tuple[tuple[int, int], ...]
    alike: object = field(default_factory=object)
    """What the statements of its instances have in common, see :class:`~archloom.oracle.accesses.Touching`."""
    made: dict[tuple[Affine, ...], Touching] = field(default_factory=dict)
    """Statements by their offsets, which instructions that do the same share, in one stream and in others."""

    @staticmethod
    def of(effect: Effect, isa: Isa) -> Template | None:
        """The template of an effect over symbols; None where its instances have to be made one by one."""
        windows = {id(s.window): s.window for s in effect.statements if not isinstance(s, Op)}
        offsets = {o: _symbol(o) for w in windows.values() for o in w.offsets}
        constants = [v for s in effect.statements if isinstance(s, Op) for _, v in s.attributes]
        if not all(known for _, known in offsets.values()) or any(isinstance(v, Affine) for v in constants):
            return None
        limits = _limits(windows.values(), isa)
        least, most = limits.pop(None, _FREE)
        if not least <= 0 <= most:
            return None
        places, found = {o: k for k, o in enumerate(offsets)}, tuple(windows.values())
        numbers = {number: k for k, number in enumerate(windows)}
        pairs = combinations(range(len(found)), 2)
        return Template(
            tuple((s, None if isinstance(s, Op) else numbers[id(s.window)]) for s in effect.statements), effect.updates,
            tuple(map(_assertion, effect.asserts)),
            tuple((name, o) for o, (name, _) in offsets.items()),
            tuple((w.buffer, tuple(places[o] for o in w.offsets), w.dims) for w in found),
            tuple((name, span) for name, span in limits.items() if name is not None), _in_hbm(found),
            tuple((numbers[id(a.window)], a.kind) for a in touched(effect.statements)),
            tuple((i, j) for i, j in pairs if found[i].buffer == found[j].buffer and found[i].dims == found[j].dims))

    def instance(
        self, values: Mapping[str, Affine], spans: Mapping[str, Span], widened: Mapping[str, Span], bounds: Bounds,
        hbm_bytes: int,
    ) -> Done | None:
        """The instance for inputs with these values; None where this does not prove that it is right."""
        if not self._proven(spans, widened, hbm_bytes):
            return None
        at: list[Affine] = []
        for name, o in self.offsets:
            if name is not None:
                o = values[name] + o.constant
                if not o.is_linear:
                    o = o.simplify(bounds)
                if not is_known(o):
                    return None
            at.append(o)
        key = tuple(at)
        statements = self.made.get(key)
        if statements is None:
            statements = self._through(at)
            if statements is None:
                return None
            if len(self.made) >= _MOST_MADE:
                self.made.clear()
            self.made[key] = statements
        return statements, tuple([
            (register, self._update(v, values, bounds) if v.terms else v) for register, v in self.updates])

    def _through(self, at: list[Affine]) -> Touching | None:
        """The statements through windows at these offsets; None where windows are equal that are not in the effect."""
        windows = [Window(buffer, tuple([at[k] for k in places]), dims) for buffer, places, dims in self.windows]
        for i, j in self.apart:
            if windows[i].offsets == windows[j].offsets:
                return None
        statements = Touching([s if k is None else _moved(s, windows[k]) for s, k in self.statements])
        statements.alike = self.alike
        statements.accesses = tuple([Access(windows[k], kind) for k, kind in self.touches])
        return statements

    def _proven(self, spans: Mapping[str, Span], widened: Mapping[str, Span], hbm_bytes: int) -> bool:
        """Whether ranges prove that all windows lie inside of their buffers, and all assertions."""
        for name, (least, most) in self.limits:
            low, high = spans[name]
            if low < least or high > most:
                return False
        for symbol, (below, above) in self.hbm:
            low, high = _ZERO if symbol is None else spans[symbol]
            if low + below < 0 or high + above >= hbm_bytes:
                return False
        return all(assertion.holds(spans, widened) for assertion in self.asserts)

    def _update(self, value: Affine, values: Mapping[str, Affine], bounds: Bounds) -> Affine:
        """A register's new value; most are that of an input."""
        if not value.terms:
            return value
        name, simple = _symbol(value)
        if simple and name is not None:
            return (values[name] + value.constant).simplify(bounds)
        return value.substitute({a: values[a.name] for a in value.variables() if isinstance(a, Input)}).simplify(bounds)


_ZERO = 0, 0


def _moved(s: Statement, window: Window) -> Statement:
    """A read or write through another window."""
    if isinstance(s, Read):
        return Read(s.dst, window, s.type)
    assert isinstance(s, Write)
    return Write(s.src, window, s.type, s.kind)


def _symbol(e: Affine) -> tuple[str | None, bool]:
    """The input to which an expression adds a number, if any, and whether it is such an expression."""
    if not e.terms:
        return None, True
    (atom, coefficient), *more = e.terms
    return (atom.name, True) if coefficient == 1 and not more and isinstance(atom, Input) else (None, False)


def _limits(windows: Iterable[Window], isa: Isa) -> dict[str | None, Span]:
    """The values of each symbol with which all windows lie inside of the buffers on chip; for None: of zero."""
    found: dict[str | None, Span] = {}
    for w in windows:
        if w.buffer == HBM:
            continue
        for o, (below, above), extent in zip(w.offsets, w.spans, isa.buffer(w.buffer).shape, strict=True):
            symbol, _ = _symbol(o)
            least, most = found.get(symbol, _FREE)
            found[symbol] = max(least, -o.constant - below), min(most, extent - 1 - o.constant - above)
    return found


def _in_hbm(windows: Iterable[Window]) -> tuple[tuple[str | None, Span], ...]:
    """How far from symbols windows of HBM reach."""
    return tuple(
        (_symbol(o)[0], (o.constant + below, o.constant + above))
        for w in windows if w.buffer == HBM for o, (below, above) in zip(w.offsets, w.spans, strict=True))


def _assertion(judgement: Judgement) -> _Assertion:
    names = {v.name for _, value in judgement.scope for v in value.variables() if isinstance(v, Input)}
    return _Assertion(judgement, tuple(sorted(names)))
