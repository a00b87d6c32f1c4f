"""Whether an instruction is legal where control registers stand, by its TAIDL statements; if not, who is to blame.

Integers alone are evaluated: rules, extents and windows. What operators ask of tensors is left to the interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

import numpy as np

from archloom.oracle.errors import TaidlError
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import COMPARISONS, evaluate, names, register_key
from archloom.oracle.taidl.isa import HBM, Instruction, Isa
from archloom.oracle.taidl.statements import every

MOST_ELEMENTS = 1 << 13
"""Of a tensor, so that programs stay small."""

MOST_REPEATS = 64


class Illegal(Exception):
    """A broken rule: the attributes on which it depends, how many statements came before it, and by how much numbers
    miss what would be legal."""

    def __init__(self, blame: frozenset[str], reached: int, gaps: Sequence[int] = ()) -> None:
        super().__init__(f"{', '.join(sorted(blame)) or 'no attribute'} after {reached} statements")
        self.blame, self.reached, self.gaps = blame, reached, tuple(gaps)


Touched: TypeAlias = tuple[str, bool, tuple[np.ndarray, ...]]
"""A buffer, whether it is written, and the indices of a window along each axis of it."""


@dataclass
class Walk:
    """One instruction with values for its attributes; ``registers`` are changed as it changes them, ``touched`` has the
    windows."""

    isa: Isa
    hbm_bytes: int
    registers: dict[str, int]
    touched: list[Touched] = field(default_factory=list)
    reached: int = 0
    scope: dict[str, int] = field(default_factory=dict)
    blame: dict[str, frozenset[str]] = field(default_factory=dict)
    path: list[frozenset[str]] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def run(self, instruction: Instruction, values: Mapping[str, int]) -> None:
        """Illegal for the first rule that is broken."""
        self.scope = {**self.isa.scope, **self.registers, **values}
        self.blame = {name: frozenset((name,)) for name in values}
        self.block(instruction.body)
        self.registers.update((key, self.scope[key]) for key in self.registers)

    def block(self, body: Sequence[ast.Statement]) -> None:
        for s in body:
            self.statement(s)
            self.reached += 1

    def statement(self, s: ast.Statement) -> None:
        match s:
            case ast.Let():
                self.scope[s.name], self.blame[s.name] = self.value(s.value), self.blamed(s.value)
            case ast.Assign():
                self.assign(s)
            case ast.Assert():
                for condition in _conjuncts(s.condition):
                    if not self.value(condition):
                        raise self.illegal([condition], self.gaps(condition))
            case ast.If():
                self.path.append(self.blamed(s.condition))
                self.block(s.then if self.value(s.condition) else s.otherwise)
                self.path.pop()
            case ast.Repeat():
                self.repeat(s)
            case ast.Read():
                self.shapes[s.dst] = self.window(s.source, writes=False)
                self.agree(self.shapes[s.dst], s.type)
            case ast.Write():
                self.written(s)
            case ast.Op():
                self.shapes[s.dst] = tuple(self.value(d) for d in s.type.dims)
                if prod(self.shapes[s.dst]) > MOST_ELEMENTS or min(self.shapes[s.dst], default=1) < 1:
                    raise self.illegal(s.type.dims)

    def value(self, e: ast.Expr) -> int:
        try:
            return evaluate(e, self.scope)
        except TaidlError:
            raise self.illegal([e]) from None

    def blamed(self, e: ast.Expr) -> frozenset[str]:
        """The attributes on which an expression depends."""
        found = frozenset[str]()
        for name in names(e):
            if isinstance(name, ast.Element):
                found |= self.blamed(name.index)
                keys = [k for k in self.blame if k.startswith(f"{name.name}[")]
            else:
                keys = [name.name]
            found = found.union(*(self.blame.get(key, frozenset()) for key in keys))
        return found

    def illegal(self, expressions: Sequence[ast.Expr], gaps: Sequence[int] = ()) -> Illegal:
        return Illegal(frozenset().union(*map(self.blamed, expressions), *self.path), self.reached, gaps)

    def gaps(self, condition: ast.Expr) -> list[int]:
        """What a comparison that fails lacks, in each way of looking at it."""
        if not isinstance(condition, ast.Binary) or condition.operator not in COMPARISONS:
            return [1, -1]
        missing = self.value(condition.right) - self.value(condition.left)
        return [missing, -missing, missing - 1, missing + 1]

    def assign(self, s: ast.Assign) -> None:
        value = self.value(s.value)
        key = register_key(s.register, None if s.index is None else self.value(s.index))
        if key not in self.registers:
            raise self.illegal([] if s.index is None else [s.index])
        self.scope[key], self.blame[key] = value, self.blamed(s.value)

    def repeat(self, s: ast.Repeat) -> None:
        times = self.value(s.count)
        if times > MOST_REPEATS:
            raise self.illegal([s.count])
        for i in range(times):
            self.scope[s.variable], self.blame[s.variable] = i, frozenset()
            self.block(s.body)

    # --- windows ---
    def written(self, s: ast.Write) -> None:
        shape = self.window(s.target, writes=True)
        if self.shapes[s.src] != shape:
            raise self.illegal(list(_expressions(s.target)))

    def agree(self, shape: tuple[int, ...], declared: ast.Type) -> None:
        if shape != tuple(self.value(d) for d in declared.dims):
            raise self.illegal(declared.dims)

    def window(self, piece: ast.Slice, writes: bool) -> tuple[int, ...]:
        """The shape of a window that lies inside of its buffer, and has each element once if it is written."""
        extents = self.isa.buffer(piece.buffer, self.hbm_bytes).shape
        axes = [self.axis(axis, extent) for axis, extent in zip(piece.axes, extents)]
        axes += [(0, [(extent, 1)]) for extent in extents[len(axes):]]
        for (first, entries), extent in zip(axes, extents):
            last = first + sum((n - 1) * stride for n, stride in entries)
            if any(n < 1 or stride < 0 for n, stride in entries) or first < 0 or last >= extent:
                raise self.illegal(list(_expressions(piece)), [-first, extent - 1 - last, first, last])
            if prod(n for n, _ in entries) > MOST_ELEMENTS or (writes and _meet(entries)):
                raise self.illegal(list(_expressions(piece)), [1])
        self.touched.append((piece.buffer, writes, tuple(first + _offsets(entries) for first, entries in axes)))
        return tuple(n for _, entries in axes for n, _ in entries)

    def axis(self, axis: ast.Axis, extent: int) -> tuple[int, list[tuple[int, int]]]:
        """Where it begins, and the extents and strides of the tensor's axes."""
        match axis:
            case ast.At():
                return self.value(axis.index), [(1, 1)]
            case ast.Walk():
                return self.value(axis.base), [(self.value(n), self.value(stride)) for n, stride in axis.entries]
            case ast.Range():
                start = 0 if axis.start is None else self.value(axis.start)
                stop = extent if axis.stop is None else self.value(axis.stop)
                step = 1 if axis.step is None else self.value(axis.step)
                if step < 1:
                    raise self.illegal([e for e in (axis.step,) if e is not None])
                return start, [(-(-(stop - start) // step), step)]


def _meet(entries: Sequence[tuple[int, int]]) -> bool:
    """Whether any element is met twice."""
    positions = _offsets(entries)
    return len(np.unique(positions)) < len(positions)


def _offsets(entries: Sequence[tuple[int, int]]) -> np.ndarray:
    positions = np.zeros(1, np.int64)
    for n, stride in entries:
        positions = np.add.outer(positions, np.arange(n) * stride).reshape(-1)
    return positions


def _conjuncts(e: ast.Expr) -> Iterator[ast.Expr]:
    if isinstance(e, ast.Binary) and e.operator == "&&":
        yield from _conjuncts(e.left)
        yield from _conjuncts(e.right)
    else:
        yield e


def _expressions(piece: ast.Slice) -> Iterator[ast.Expr]:
    yield from ast.parts(piece.axes)


def stores(instruction: Instruction) -> bool:
    """Whether it may write to HBM."""
    return any(isinstance(s, ast.Write) and s.target.buffer == HBM for s in every(instruction.body))
