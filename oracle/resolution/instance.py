"""Instances of a kept specialization: actual values for its symbols, and proofs of what is left to prove."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from archloom.oracle.affine import Affine, Bounds
from archloom.oracle.nests import with_values, with_window
from archloom.oracle.resolution.proofs import Place
from archloom.oracle.resolution.specialize import Effect, Judgement, Open
from archloom.oracle.resolved import Buffer, Op, Read, Statement, Window, Write
from archloom.oracle.variables import is_known


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
    windows: dict[Window, Window] = field(default_factory=dict)

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
        window = self.windows.get(s.window)
        if window is None:
            window = self.windows[s.window] = s.window.with_offsets(self.expression)
            verb = "reads" if isinstance(s, Read) else "writes"
            self.place.inside(window, self.buffers[window.buffer], self.bounds, verb)
        return window
