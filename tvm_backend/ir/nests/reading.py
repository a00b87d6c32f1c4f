"""Reading a piece: numbers of expressions at places, operands, axes and their cuts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from archloom.mapper.nests import Axis, Code, Nest, Pass, Store
from archloom.oracle.affine import Affine
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.nests.scalars import OF_WHOLE, apply
from archloom.tvm_backend.ir.operators import operator
from archloom.tvm_backend.ir.sweeps import NotQuantized

Index: TypeAlias = tuple[Affine, ...]
NEST = "nest"
"""The anchor of such pieces."""
RESULT = "Y"
WORDS = ("float32", "int32")
"""What tensors in memory may be of."""
NARROWED = {"bool": "float32", "int64": "int32"}
"""What constants are kept as. Whole numbers are places in other tensors."""
WHOLE_NUMBERS = ("int32", "int64")


@dataclass(frozen=True)
class Piece:
    """Nests in order, the expressions of what they read, X0, X1, ..., the operators, and names of variables on the way,
    the last ones first."""

    nests: tuple[Nest, ...]
    operands: tuple[Any, ...]
    operators: tuple[str, ...]
    names: tuple[str, ...] = ()

    @staticmethod
    def operand(number: int) -> str:
        return f"X{number}"


class Cut(Exception):
    """An axis that has to be cut into parts of ``extents``, the outermost first."""

    def __init__(self, axis: str, extents: tuple[int, ...]) -> None:
        self.axis, self.extents = axis, extents


@dataclass
class Reading:
    """What is read so far; ``cuts`` has the parts of axes by name, ``placed`` the operators that read elsewhere."""

    lookup: ir.Lookup
    cuts: Mapping[str, tuple[int, ...]]
    placed: "Mapping[str, Callable[[Reading, ir.Call, Code, Index], int]]"
    operands: list[Any] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    extents: dict[str, int] = field(default_factory=dict)

    def each(self, expr: Any, into: Callable[[Index], Affine] | None = None) -> Nest:
        """Every number of an expression, stored where ``into`` says (by default as its shape has it)."""
        axes, index = self.axes("i", shape := ir.shape_of(expr))
        code = Code()
        found = self.at(expr, code, index)
        place = dense(shape, index) if into is None else into(index)
        return Nest(axes, (Pass((), tuple(code.operations), (Store(RESULT, place, found),)),))

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

    def _read(self, expr: Any, code: Code, index: Index) -> int:
        """A number of what comes from outside."""
        if not ir.is_tensor(expr):
            raise NotQuantized("an operand is no tensor")
        number = ir.number_of(expr) if ir.is_constant(expr) else None
        if number is not None:
            if ir.dtype_of(expr) not in WHOLE_NUMBERS:
                return code.number(number)
            _check_words(np.array(int(number)))
            return code.whole(int(number))
        return code.load(*self.place(expr, index))

    def place(self, expr: Any, index: Index) -> tuple[str, Affine]:
        """The operand that an expression is, and the word that an element begins with."""
        if ir.dtype_of(expr) not in (*WORDS, *(NARROWED if ir.is_constant(expr) else ())):
            raise NotQuantized(f"an operand is {ir.dtype_of(expr)}")
        if ir.dtype_of(expr) == "int64":
            _check_words(ir.const_value(expr))
        number = next((i for i, known in enumerate(self.operands) if ir.same(known, expr)), len(self.operands))
        if number == len(self.operands):
            self.operands.append(expr)
        return Piece.operand(number), dense(ir.shape_of(expr), index)

    def broadcast(self, expr: Any, code: Code, index: Index) -> int:
        """The number of an expression that is spread to the shape that the place is of."""
        if not ir.is_tensor(expr):
            return code.number(float(ir.scalar_of(expr)))
        shape = ir.shape_of(expr)
        mine = index[len(index) - len(shape):]
        return self.at(expr, code, tuple(Affine(0) if n == 1 else i for n, i in zip(shape, mine, strict=True)))

    def _elementwise(self, name: str, call: ir.Call, code: Code, index: Index) -> int:
        functions: tuple[str, ...] = operator(name).scalar or operator(name).vector
        whole = any(ir.is_tensor(a) and ir.dtype_of(a) in WHOLE_NUMBERS for a in call.args)
        if whole:
            functions = tuple(OF_WHOLE.get(f, "") for f in functions)
        if ir.dtype_of(call) == "int64" and {"whole_add", "whole_subtract", "whole_multiply"} & {*functions}:
            raise NotQuantized(f"{name} of int64 may have more than the 32 bits of the vector unit's numbers")
        if not all(functions) or not functions:
            raise NotQuantized(f"{name}{' of whole numbers' if whole else ''} is none of the vector unit's operators")
        self.note(name)
        first, *others = (self.broadcast(a, code, index) for a in call.args)
        for function in functions:
            first, others = apply(code, function, first, *others), []
        return first

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


def _check_words(numbers: np.ndarray) -> None:
    """NotQuantized for whole numbers that have more than 32 bits."""
    if numbers.size and not -(1 << 31) <= int(numbers.min()) <= int(numbers.max()) < 1 << 31:
        raise NotQuantized("a constant has whole numbers of more than 32 bits")


def dense(shape: Sequence[int], index: Index) -> Affine:
    """The number of an element, row by row."""
    at = Affine(0)
    for extent, place in zip(shape, index, strict=True):
        at = at * extent + place
    return at
