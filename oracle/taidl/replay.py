"""Repeats instructions whose integers have been seen before, without evaluating them again.

What an instruction does to buffers and registers depends on its attributes and on the registers it reads alone. The
first time that these have certain values, its closures check everything and note each read, operation, write and
update on a :class:`Tape`; from then on the tape is played. An attribute that only places windows of HBM (the address
of a load) is left out of what must be equal: the tape is played with those windows moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from archloom.oracle.affine import Affine
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.canonical import canonical
from archloom.oracle.taidl.evaluate import names
from archloom.oracle.taidl.inline import rename
from archloom.oracle.taidl.isa import HBM, Isa
from archloom.oracle.taidl.statements import statement_expressions
from archloom.oracle.taidl.types import Array

Played: TypeAlias = Callable[[dict[str, Any], int], None]
"""A step of a tape, given the tensors and by how many bytes windows of HBM are moved."""


@dataclass(frozen=True)
class Place:
    """A window of a buffer in bytes; in HBM, ``last`` is the last element that it touches, elsewhere None."""

    buffer: Array
    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]
    last: int | None

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.buffer.dtype

    def view(self) -> Array:
        """The elements, in place."""
        return np.ndarray(self.shape, self.buffer.dtype, self.buffer, self.offset, self.strides)


@dataclass
class Tape:
    """What one execution of an instruction did; ``on`` while it is noted."""

    on: bool = False
    steps: list[Played] = field(default_factory=list)
    updates: dict[int, int] = field(default_factory=dict)
    low: int = 0
    """How far the windows of HBM may move down and up."""
    high: int = 0
    _constant: dict[str, Any] = field(default_factory=dict)

    def start(self) -> None:
        """Note what follows, on a fresh tape."""
        self.on = True
        self.steps, self.updates, self._constant = [], {}, {}
        self.low, self.high = -(1 << 62), 1 << 62

    def stop(self) -> Recording:
        self.on = False
        return Recording(tuple(self.steps), tuple(self.updates.items()), self.low, self.high)

    def update(self, slot: int, value: int) -> None:
        if self.on:
            self.updates[slot] = value

    def read(self, dst: str, place: Place) -> None:
        if not self.on:
            return
        self._constant.pop(dst, None)
        if place.last is None:
            view = place.view()
            self.steps.append(lambda t, shift: t.__setitem__(dst, view.copy()))
        else:
            moved = self._moved(place)
            self.steps.append(lambda t, shift: t.__setitem__(dst, moved(shift).copy()))

    def write(self, src: str, place: Place) -> None:
        if not self.on:
            return
        constant = self._constant.get(src)
        if place.last is not None:
            moved = self._moved(place)
            if constant is not None:
                self.steps.append(lambda t, shift: moved(shift).__setitem__(..., constant))
            else:
                self.steps.append(lambda t, shift: moved(shift).__setitem__(..., t[src]))
            return
        view = place.view()
        if constant is not None:
            self.steps.append(lambda t, shift: view.__setitem__(..., constant))
        else:
            self.steps.append(lambda t, shift: view.__setitem__(..., t[src]))

    def _moved(self, place: Place) -> Callable[[int], Array]:
        assert place.last is not None
        self.low = max(self.low, -place.offset)
        self.high = min(self.high, place.buffer.shape[0] - 1 - place.last)
        shape, dtype, buffer, offset, strides = place.shape, place.dtype, place.buffer, place.offset, place.strides
        return lambda shift: np.ndarray(shape, dtype, buffer, offset + shift, strides)

    def operation(
        self, dst: str, sources: tuple[str, ...], compute: Callable[[Sequence[Any]], Any], result: Any
    ) -> None:
        """An operator was applied; one of nothing but constants has the same result every time."""
        if not self.on:
            return
        if all(name in self._constant for name in sources):
            self._constant[dst] = result
            self.steps.append(lambda t, shift: t.__setitem__(dst, result))
            return
        self._constant.pop(dst, None)
        pick = _picker(sources)
        self.steps.append(lambda t, shift: t.__setitem__(dst, compute(pick(t))))


def _picker(names: tuple[str, ...]) -> Callable[[dict[str, Any]], Sequence[Any]]:
    if len(names) > 1:
        return itemgetter(*names)
    (one,) = names
    return lambda t: (t[one],)


@dataclass(frozen=True)
class Recording:
    """A tape to be played: steps, new register values by slot, and how far windows of HBM may move."""

    steps: tuple[Played, ...]
    updates: tuple[tuple[int, int], ...]
    low: int
    high: int

    def play(self, frame: list[int], shift: int) -> None:
        """Repeat the instruction with its windows of HBM ``shift`` bytes further on."""
        tensors: dict[str, Any] = {}
        for step in self.steps:
            step(tensors, shift)
        for slot, value in self.updates:
            frame[slot] = value


# --- what must be equal -------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def address_attribute(isa: Isa, mnemonic: str) -> tuple[str, frozenset[int]] | None:
    """An attribute that does nothing but place windows of HBM, and the values that conditions compare it with.

    For all its other values, two executions that differ in this attribute alone differ by where their windows of HBM
    are, by the same number of bytes. None if there is no such attribute.
    """
    instruction = isa.instruction(mnemonic)
    for attribute in instruction.attributes:
        scan = _Scan(attribute, isa.scope)
        if scan.block(instruction.body, {}) and scan.places:
            return attribute, frozenset(scan.compared)
    return None


@dataclass
class _Scan:
    """Looks for uses of an attribute that do more than place windows of HBM."""

    attribute: str
    known: Mapping[str, int]
    compared: set[int] = field(default_factory=set)
    places: int = 0

    def block(self, body: Sequence[ast.Statement], bound: dict[str, ast.Expr]) -> bool:
        return all(self.statement(s, bound) for s in body)

    def statement(self, s: ast.Statement, bound: dict[str, ast.Expr]) -> bool:
        if isinstance(s, ast.Let):
            value = rename(s.value, bound)
            # both branches of an IF may bind a name: what it stands for must not matter here
            if bound.get(s.name, value) != value and (self.uses(value) or self.uses(bound[s.name])):
                return False
            bound[s.name] = value
            return True
        if isinstance(s, ast.If):
            condition = self.condition(rename(s.condition, bound))
            return condition and self.block(s.then, bound) and self.block(s.otherwise, bound)
        if isinstance(s, (ast.Read, ast.Write)):
            piece = s.source if isinstance(s, ast.Read) else s.target
            if piece.buffer == HBM:
                return not any(self.uses(rename(e, bound)) for e in ast.parts(s.type)) and self.window(piece, bound)
        if isinstance(s, ast.Repeat):
            return not self.uses(rename(s.count, bound)) and self.block(s.body, bound)
        return not any(self.uses(rename(e, bound)) for e in statement_expressions(s))

    def uses(self, expr: ast.Expr) -> bool:
        return any(n.name == self.attribute for n in names(expr))

    def condition(self, expr: ast.Expr) -> bool:
        if not self.uses(expr):
            return True
        if isinstance(expr, ast.Unary):
            return self.condition(expr.operand)
        if isinstance(expr, ast.Binary) and expr.operator in ("&&", "||"):
            return self.condition(expr.left) and self.condition(expr.right)
        if not isinstance(expr, ast.Binary) or expr.operator not in ("==", "!="):
            return False
        difference = canonical(expr.left, self.known) - canonical(expr.right, self.known)
        step = difference.coefficient(self.attribute)
        if difference - Affine.variable(self.attribute) * step != Affine(difference.constant) or step not in (1, -1):
            return False
        self.compared.add(-difference.constant * step)
        return True

    def window(self, piece: ast.Slice, bound: dict[str, ast.Expr]) -> bool:
        """Whether the window moves by what the attribute changes by, and keeps its form."""
        (axis,) = piece.axes
        parts: list[ast.Expr | None]
        if isinstance(axis, ast.Walk):
            parts, rest = [axis.base], [e for entry in axis.entries for e in entry]
        elif isinstance(axis, ast.At):
            parts, rest = [axis.index], []
        else:
            parts, rest = [axis.start, axis.stop], [axis.step] if axis.step is not None else []
        if any(self.uses(rename(e, bound)) for e in rest):
            return False
        moves = [part is not None and self.moves(rename(part, bound)) for part in parts]
        if any(moves):
            self.places += 1
        return all(moves)

    def moves(self, expr: ast.Expr) -> bool:
        """Whether the expression is the attribute plus something without it."""
        further = rename(expr, {self.attribute: ast.Binary("+", ast.Name(self.attribute), ast.Number(1))})
        return canonical(further, self.known) - canonical(expr, self.known) == Affine(1)
