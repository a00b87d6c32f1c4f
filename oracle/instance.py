"""Instances of a kept specialization: actual values for its symbols, and proofs of what is left to prove."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from archloom.oracle.affine import Affine
from archloom.oracle.nest import Scope
from archloom.oracle.proofs import OPAQUE, Place
from archloom.oracle.resolved import Buffer, Op, Read, Statement, Window, Write
from archloom.oracle.specialize import Effect, Judgement, Open


def known(value: Affine) -> bool:
    """Whether no unknown register value is in ``value``."""
    for atom, _ in value.terms:
        if atom.__class__ is not str:
            return not any(v.startswith(OPAQUE) for v in value.variables())
        if atom[0] == OPAQUE:  # type: ignore[index]
            return False
    return True


class Instance:
    """Puts actual values for the symbols of an effect and proves what is left to prove."""

    def __init__(
        self, symbols: Mapping[str, Affine], scope: Scope, place: Place, buffers: Mapping[str, Buffer], registers: bool
    ) -> None:
        """``registers``: there are any whose values may be unknown."""
        self.symbols = symbols
        self.registers = registers
        self.bounds = scope.bounds
        self.place = place
        self.buffers = buffers
        self.expressions: dict[Affine, Affine] = {}
        self.windows: dict[Window, Window] = {}

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
            if self.registers and not known(value):
                raise Open("int", value, "an operand")
            self.expressions[e] = value
        return value

    def statement(self, s: Statement) -> Statement:
        if isinstance(s, Op):
            if any(isinstance(v, Affine) for _, v in s.attributes):
                return replace(s, attributes=tuple((k, self.attribute(v)) for k, v in s.attributes))
            return s
        window = self.window(s.window, "reads" if isinstance(s, Read) else "writes")
        if isinstance(s, Read):
            return Read(s.dst, window, s.type)
        return Write(s.src, window, s.type, s.kind)

    def attribute(self, value: object) -> object:
        if not isinstance(value, Affine):
            return value
        e = self.expression(value)
        return e.constant if e.is_constant else e

    def window(self, w: Window, verb: str) -> Window:
        window = self.windows.get(w)
        if window is None:
            window = self.windows[w] = Window(w.buffer, tuple([self.expression(o) for o in w.offsets]), w.dims)
            self.place.inside(window, self.buffers[w.buffer], self.bounds, verb)
        return window
