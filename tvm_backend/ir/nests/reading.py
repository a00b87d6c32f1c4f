"""Reading a piece: numbers of expressions at places, operands, axes and their cuts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from archloom.mapper.nests import COMPARISONS, HALVES, ITEMS, Axis, Code, Nest, Pass, Store
from archloom.oracle.affine import Affine
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.nests.scalars import OF_WHOLE, apply
from archloom.tvm_backend.ir.nests.wide import OF_WIDE, Wide, wide
from archloom.tvm_backend.ir.operators import operator
from archloom.tvm_backend.ir.sweeps import NotQuantized

Index: TypeAlias = tuple[Affine, ...]
NEST = "nest"
"""The anchor of such pieces."""
RESULT = "Y"
WIDE = "int64"
"""Numbers of two words, the low one first."""
BYTES = ("int8", "uint8")
INTEGERS = ("int32", *BYTES)
"""What is computed as int32."""
FLOATS = ("float32", *HALVES)
"""What is computed as float32."""
IN_MEMORY = (*FLOATS, *INTEGERS, WIDE)
"""What tensors in memory may be of."""
WHOLE_NUMBERS = (*INTEGERS, WIDE)
OF_BYTES = frozenset({"maximum", "minimum", "choose", "less", "less_equal", "greater", "greater_equal", "equal",
                      "not_equal"})
"""Operators of bytes whose results are bytes, or truths."""


@dataclass(frozen=True)
class Piece:
    """Nests in order, the expressions of what they read, X0, X1, ..., the operators, and names of variables on the way,
    the last ones first."""

    nests: tuple[Nest, ...]
    operands: tuple[Any, ...]
    operators: tuple[str, ...]
    names: tuple[str, ...] = ()
    dtype: str = "float32"

    @staticmethod
    def operand(number: int) -> str:
        return f"X{number}"


class Cut(Exception):
    """An axis that has to be cut into parts of ``extents``, the outermost first."""

    def __init__(self, axis: str, extents: tuple[int, ...]) -> None:
        self.axis, self.extents = axis, extents


@dataclass
class Reading:
    """What is read so far; ``cuts`` has the parts of axes by name, ``placed`` the operators that read elsewhere;
    ``half``: which word of numbers of two is read; ``stored``: the call whose numbers are stored as they are."""

    lookup: ir.Lookup
    cuts: Mapping[str, tuple[int, ...]]
    placed: "Mapping[str, Callable[[Reading, ir.Call, Code, Index], int]]"
    operands: list[Any] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    extents: dict[str, int] = field(default_factory=dict)
    half: int = 0
    stored: Any = None

    def each(self, expr: Any, into: Callable[[Index], Affine] | None = None) -> Nest:
        """Every number of an expression, stored where ``into`` says (by default as its shape has it)."""
        axes, index = self.axes("i", shape := ir.shape_of(expr))
        self.stored = self.lookup(expr) if ir.is_var(expr) else expr
        code = Code()
        place = dense(shape, index) if into is None else into(index)
        if ir.dtype_of(expr) == WIDE:
            stores = tuple(Store(RESULT, place * 2 + half, self.word(half, expr, code, index)) for half in (0, 1))
        else:
            stores = (Store(RESULT, place, self.at(expr, code, index), item_of(ir.dtype_of(expr))),)
        if code.operations[stores[0].value].name in COMPARISONS:
            raise NotQuantized("truths have no words")
        return Nest(axes, (Pass((), tuple(code.operations), stores),))

    def axes(self, prefix: str, shape: Sequence[int]) -> tuple[tuple[Axis, ...], Index]:
        """Axes for a shape, cut where they must be, and the place along each extent."""
        made: list[Axis] = []
        index = []
        for number, extent in enumerate(shape):
            place = Affine(0)
            parts = self._parts(f"{prefix}{number}", extent)
            for axis in parts:
                place = place * axis.extent + Affine.variable(axis.name)
            self.extents |= {a.name: a.extent for a in parts}
            made += parts
            index.append(place)
        return tuple(made), tuple(index)

    def _parts(self, name: str, extent: int) -> list[Axis]:
        if name not in self.cuts:
            return [Axis(name, extent)]
        return [part for k, n in enumerate(self.cuts[name]) for part in self._parts(f"{name}_{k}", n)]

    def note(self, name: str) -> None:
        """Remember an operator."""
        self.operators.append(name.removeprefix("nn."))

    # numbers ----------------------------------------------------------------------------------------------------------

    def at(self, expr: Any, code: Code, index: Index) -> int:
        """The number of an expression at a place."""
        inner = self.lookup(expr) if ir.is_var(expr) else expr
        name = ir.op_name(inner)
        if name is None:
            return self._read(expr, code, index)
        if ir.is_var(expr):
            self.names.insert(0, expr.name)
        if name in self.placed:
            self.note(name)
            return self.placed[name](self, inner, code, index)
        return self._elementwise(name, inner, code, index)

    def word(self, half: int, expr: Any, code: Code, index: Index) -> int:
        """A word of the number of an expression at a place: the low one (0) or the high one, of int64."""
        before, self.half = self.half, half
        try:
            return self.at(expr, code, index)
        finally:
            self.half = before

    def wide(self, expr: Any, code: Code, index: Index) -> Wide:
        """Both words of an int64 that is spread to the shape that the place is of."""
        mine = spread_place(expr, index)
        return Wide(lambda: self.word(0, expr, code, mine), lambda: self.word(1, expr, code, mine))

    def _read(self, expr: Any, code: Code, index: Index) -> int:
        """A number of what comes from outside."""
        if not ir.is_tensor(expr):
            raise NotQuantized("an operand is no tensor")
        if ir.is_constant(expr) and (array := ir.const_value(expr)).size == 1:
            if ir.dtype_of(expr) not in WHOLE_NUMBERS:
                return code.number(float(array.reshape(())))
            number = int(array.reshape(())) >> 32 * self.half
            return code.whole((number + (1 << 31)) % (1 << 32) - (1 << 31))
        if self.words_of(expr) == 2:
            of, at = self.place(expr, index)
            return code.load(of, at * 2 + self.half)
        found = code.load(*self.place(expr, index), item_of(ir.dtype_of(expr)))
        return code.apply("shift_right", found, code.whole(31)) if self.half else found

    @staticmethod
    def words_of(expr: Any) -> int:
        """Of an element in memory."""
        if not ir.is_constant(expr):
            return 2 if ir.dtype_of(expr) == WIDE else 1
        return 2 if str(kept(ir.const_value(expr)).dtype) == WIDE else 1

    def place(self, expr: Any, index: Index) -> tuple[str, Affine]:
        """The operand that an expression is, and the number of an element."""
        if ir.dtype_of(expr) not in IN_MEMORY and not (ir.is_constant(expr) and ir.dtype_of(expr) == "bool"):
            raise NotQuantized(f"an operand is {ir.dtype_of(expr)}")
        number = next((i for i, known in enumerate(self.operands) if ir.same(known, expr)), len(self.operands))
        if number == len(self.operands):
            self.operands.append(expr)
        return Piece.operand(number), dense(ir.shape_of(expr), index)

    def broadcast(self, expr: Any, code: Code, index: Index) -> int:
        """The number of an expression that is spread to the shape that the place is of."""
        if not ir.is_tensor(expr):
            return code.number(float(ir.scalar_of(expr)))
        return self.at(expr, code, spread_place(expr, index))

    def _elementwise(self, name: str, call: ir.Call, code: Code, index: Index) -> int:
        functions: tuple[str, ...] = operator(name).scalar or operator(name).vector
        kinds = [ir.dtype_of(a) for a in call.args if ir.is_tensor(a)]
        whole = not {*kinds}.isdisjoint(WHOLE_NUMBERS)
        if WIDE in kinds:
            return self._of_wide(name, functions, call, code, index)
        if whole and not (OF_BYTES.issuperset(functions) or {*kinds}.isdisjoint(BYTES)):
            raise NotQuantized(f"{name} of bytes is none of the vector unit's operators")
        if whole:
            functions = tuple(OF_WHOLE.get(f, "") for f in functions)
        if not all(functions) or not functions:
            raise NotQuantized(f"{name}{' of whole numbers' if whole else ''} is none of the vector unit's operators")
        self.note(name)
        first, *others = (self.broadcast(a, code, index) for a in call.args)
        for function in functions:
            first, others = apply(code, function, first, *others), []
        return first

    def _of_wide(self, name: str, functions: Sequence[str], call: ir.Call, code: Code, index: Index) -> int:
        """An operator of int64: of a word of its result, or of a truth."""
        if len(functions) != 1 or functions[0] not in OF_WIDE:
            raise NotQuantized(f"{name} of int64 is none of the vector unit's operators")
        self.note(name)
        half, first = self.half, []
        if functions[0] == "choose":
            self.half = 0
            first, self.half = [self.broadcast(call.args[0], code, index)], half
        numbers = [self.wide(a, code, index) for a in call.args[len(first):]]
        return wide(code, functions[0], half, *first, *numbers)

    # cuts -------------------------------------------------------------------------------------------------------------

    def cut(self, place: Affine, strides: Sequence[int]) -> None:
        """Have the axes of a place cut so that none of them crosses a multiple of one of ``strides``."""
        for name, step in place.terms:
            assert isinstance(name, str)
            extent, parts, rest = self.extents[name], [], self.extents[name]
            for stride in sorted(set(strides), reverse=True):
                part = stride // step if step > 0 and stride % step == 0 else 0
                if 1 < part < rest and rest % part == 0:
                    parts.append(rest // part)
                    rest = part
            if parts:
                raise Cut(name, (*parts, rest))
            assert extent == rest

    def largest(self, place: Affine) -> int:
        """The greatest value of a place."""
        return place.constant + sum(c * (self.extents[str(a)] - 1) for a, c in place.terms if c > 0)


def item_of(dtype: str) -> str:
    """What elements of a type are in memory (:data:`archloom.mapper.nests.ITEMS`)."""
    return dtype if dtype in ITEMS else ""


def kept(array: np.ndarray) -> np.ndarray:
    """A constant as it lies in memory: truths as float32, int64 as int32 where that has all of its numbers."""
    if array.dtype == bool:
        return array.astype(np.float32)
    if str(array.dtype) == WIDE and (
            not array.size or -(1 << 31) <= int(array.min()) <= int(array.max()) < 1 << 31):
        return array.astype(np.int32)
    return array


def spread_place(expr: Any, index: Index) -> Index:
    """The place in a tensor that is spread to the shape that a place is of."""
    shape = ir.shape_of(expr)
    mine = index[len(index) - len(shape):]
    return tuple(Affine(0) if n == 1 else i for n, i in zip(shape, mine, strict=True))


def dense(shape: Sequence[int], index: Index) -> Affine:
    """The number of an element, row by row."""
    at = Affine(0)
    for extent, place in zip(shape, index, strict=True):
        at = at * extent + place
    return at
