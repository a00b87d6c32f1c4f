"""One instruction with its branches taken and its registers known: the inner half of :mod:`archloom.oracle.resolve`.

Since the streams of a network repeat few kinds of instructions at many addresses, a body is executed
(:mod:`.execution`) over variables (:class:`~.variables.Input`) whose ranges are widened to blocks of addresses, the
result is kept, and instances only substitute. Where widened ranges leave a decision open, the body is executed over the
actual expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from archloom.oracle.affine import Affine, Bounds
from archloom.oracle.errors import SourceError
from archloom.oracle.memory import Remembered
from archloom.oracle.resolution.execution import Effect, Execution, Judge, Open
from archloom.oracle.resolution.flow import flow_of
from archloom.oracle.resolution.symbolic import Ranges
from archloom.oracle.resolution.templates import Done, Span, Template
from archloom.oracle.taidl.isa import Instruction, Isa
from archloom.oracle.variables import Input

_BLOCK = 26
"""Bits of the blocks to which ranges are widened, so that most addresses of a stream share one execution.

A block is larger than any buffer so far, and its upper bits are fixed: there ISAs with 32-bit addresses keep flags on
which branches depend. Like the marks below it is a guess that only decides how much is shared: what a widened range
leaves open is executed over the actual values.
"""
_MARKS = (0, 0xFFFFFFFF)
"""Values that ISAs compare addresses with, such as "no address": no widened range mixes one with others."""
_EFFECTS, _INSTANCES = 512, 256
"""That are kept for one instruction of an ISA, more than the candidates for most layers have."""


_FIRST = 1, (1 << _BLOCK) - 1
"""What most ranges are widened to: the first block without the mark in it."""


def _widen(low: int, high: int) -> tuple[int, int]:
    """The range of addresses that ``low..high`` lies in: whole blocks, but without the marks."""
    if low == high and low in _MARKS:
        return low, high
    first = low >> _BLOCK << _BLOCK
    last = ((high >> _BLOCK) + 1 << _BLOCK) - 1
    return (1 if first == 0 < low else first), (last - 1 if last == _MARKS[1] > high else last)


class Special(NamedTuple):
    """An effect, what to put for the symbols in it, and the template of its instances with the ranges of its inputs
    that are symbols: of their ``spans``, and ``widened``. None where the effect is that of the actual expressions."""

    effect: Effect
    symbols: dict[str, Affine]
    template: Template | None = None
    spans: Mapping[str, Span] = {}
    widened: Mapping[str, Span] = {}


@dataclass
class Specializer:
    """The specializations of one instruction that were made so far."""

    isa: Isa
    instruction: Instruction
    kept: Remembered[tuple[Any, ...], tuple[Effect, Template | None] | None] = field(
        default_factory=lambda: Remembered(_EFFECTS))
    done: Remembered[tuple[Any, ...], Done] = field(default_factory=lambda: Remembered(_INSTANCES))
    """Instances that no template makes, by the bytes of HBM, the values of the inputs and the ranges of what these
    depend on, from which all else follows."""
    has_templates: bool = False
    """Whether any of the effects that were kept has a template."""

    def __post_init__(self) -> None:
        registers = {r.name: r.keys for r in self.isa.registers}
        self.flow = flow_of(self.instruction, registers)
        self.read = tuple([key for keys in registers.values() for key in keys if key in self.flow.read])
        self.inputs = (*self.instruction.attributes, *self.read)
        # inputs whose values decide branches or extents: found while specializing, kept for all ISAs of this text
        self.concrete: set[str] = self.instruction.derived.setdefault("concrete", set())

    def instance(self, values: Mapping[str, Affine], bounds: Bounds, hbm_bytes: int) -> Done | None:
        """The instance for inputs with these values by a template that is kept, if there is one that proves it."""
        if not self.has_templates:
            return None
        key, spans, ranges = self._key(values, bounds)
        kept = self.kept.get(key)
        if kept is None or kept[1] is None:
            return None
        return kept[1].instance(values, spans, ranges, bounds, hbm_bytes)

    def specialize(self, values: Mapping[str, Affine], bounds: Bounds, judge: Judge) -> Special:
        """The instruction's effect for inputs with these values.

        Raises :class:`Open` where not even the actual expressions decide a branch or an extent.
        """
        for _ in range(len(self.inputs) + 1):
            key, spans, ranges = self._key(values, bounds)
            symbols: dict[str, Affine] = {Input.of(name): values[name] for name in ranges}
            kept = self.kept.get(key)
            if kept is not None:
                return Special(kept[0], symbols, kept[1], spans, ranges)
            if key in self.kept:
                break
            try:
                known = {n: values[n] if n not in ranges else Input.of(n).expression() for n in self.inputs}
                named = Ranges({Input.of(n): r for n, r in ranges.items()})
                effect = Execution(self.isa, self.instruction, known, named, None).effect()
            except Open as o:
                asked = {v.name for v in o.quantity.variables() if isinstance(v, Input)}
                fixed = {n for n in asked if values[n].is_constant} - self.concrete
                if not fixed:
                    self.kept[key] = None
                    break
                self.concrete |= fixed
            except SourceError:
                # the widened ranges may allow what the actual values do not
                self.kept[key] = None
                break
            else:
                template = Template.of(effect, self.isa)
                self.kept[key] = effect, template
                self.has_templates |= template is not None
                return Special(effect, symbols, template, spans, ranges)
        actual = {n: values[n] for n in self.inputs}
        return Special(Execution(self.isa, self.instruction, actual, bounds, judge).effect(), {})

    def _key(
        self, values: Mapping[str, Affine], bounds: Bounds
    ) -> tuple[tuple[Any, ...], dict[str, Span], dict[str, Span]]:
        """By what effects are kept; the ranges of the inputs that are symbols in them, and these widened."""
        key: list[Any] = []
        spans: dict[str, Span] = {}
        ranges: dict[str, Span] = {}
        concrete = self.concrete
        for name in self.inputs:
            v = values[name]
            if v.terms:
                low, high = v.range(bounds)
            else:
                low = high = v.constant
                if name in concrete or low in _MARKS:
                    key.append(low)
                    continue
            spans[name] = low, high
            widened = ranges[name] = _FIRST if low > 0 and high <= _FIRST[1] else _widen(low, high)
            key.append(widened)
        return tuple(key), spans, ranges
