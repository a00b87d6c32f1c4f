"""Open dimensions: symbols, sums of them, and the extents that they have.

An extent is the number of places along a dimension. A dimension is a number or a sum of multiples of symbols.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from archloom.oracle.errors import InputError, suggest

LONGEST = 200
"""Characters of a dimension that is read."""


@dataclass(frozen=True)
class Symbol:
    """The name of an open dimension, and the extents that the network states for it, both ends included.

    ``high``: None where the network states none.
    """

    name: str
    low: int = 1
    high: int | None = None

    def __str__(self) -> str:
        return f"{self.name} ({self.range})"

    @property
    def range(self) -> str:
        """As text: ``2 to 512``, ``at least 1``."""
        if self.high is None:
            return f"at least {self.low}"
        return f"{self.low} to {self.high}" if self.low < self.high else str(self.low)


@dataclass(frozen=True)
class Extent:
    """An open dimension: ``offset`` and multiples of symbols, ``2*n + 1``."""

    factors: tuple[tuple[str, int], ...]
    offset: int = 0

    @staticmethod
    def symbol(name: str) -> "Extent":
        return Extent(((name, 1),))

    @staticmethod
    def parse(text: str) -> "Extent | int":
        """Of ``+``, ``-`` and ``*`` between names and numbers; ValueError for anything else."""
        if len(text) > LONGEST:
            raise ValueError(f"{len(text)} characters, at most {LONGEST} are read")
        try:
            terms = _terms(ast.parse(text.strip(), mode="eval").body)
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError(f"{text!r} is no sum of multiples of names") from error
        factors = tuple((name, factor) for name, factor in terms.items() if name and factor)
        offset = terms.get("", 0)
        return Extent(factors, offset) if factors else offset

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.factors)

    @property
    def is_symbol(self) -> bool:
        return not self.offset and len(self.factors) == 1 and self.factors[0][1] == 1

    def renamed(self, names: Mapping[str, str]) -> "Extent":
        return Extent(tuple((names.get(name, name), factor) for name, factor in self.factors), self.offset)

    def at(self, extents: Mapping[str, int]) -> int:
        return self.offset + sum(factor * extents[name] for name, factor in self.factors)

    def __str__(self) -> str:
        signed = [(factor, name if abs(factor) == 1 else f"{abs(factor)}*{name}") for name, factor in self.factors]
        signed += [(self.offset, str(abs(self.offset)))] * bool(self.offset)
        text = " ".join(f"{'-' if sign < 0 else '+'} {shown}" for sign, shown in signed)
        return f"-{text[2:]}" if text.startswith("- ") else text.removeprefix("+ ")


def _terms(node: ast.expr) -> dict[str, int]:
    """Factors by name, the number that is added under ``""``."""
    match node:
        case ast.Name(id=name):
            return {name: 1}
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return {"": value}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return {name: -factor for name, factor in _terms(operand).items()}
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            terms, sign = _terms(left), 1 if isinstance(op, ast.Add) else -1
            for name, factor in _terms(right).items():
                terms[name] = terms.get(name, 0) + sign * factor
            return terms
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            a, b = _terms(left), _terms(right)
            if set(a) <= {""}:
                a, b = b, a
            if set(b) <= {""}:
                return {name: factor * b.get("", 0) for name, factor in a.items()}
    raise ValueError(f"{ast.unparse(node)!r} is no sum of multiples of names")


@dataclass(frozen=True)
class OpenInput:
    """An input of a network with open dimensions."""

    name: str
    dtype: str
    dims: "tuple[int | Extent, ...]"

    @property
    def shape(self) -> "tuple[int | str, ...]":
        """Open dimensions by name: ``("batch", 3, "2*n")``."""
        return tuple(dim if isinstance(dim, int) else str(dim) for dim in self.dims)

    @property
    def kind(self) -> str:
        """As text: ``float32 of shape (batch, 3)``."""
        return f"{self.dtype} of shape ({', '.join(map(str, self.shape))})"

    def __str__(self) -> str:
        return f"{self.name}: {self.kind}"


@dataclass(frozen=True)
class OpenShapes:
    """The inputs of a network and the symbols of their open dimensions; ``label`` is what messages call it."""

    label: str
    inputs: tuple[OpenInput, ...]
    symbols: tuple[Symbol, ...]

    @cached_property
    def names(self) -> list[str]:
        return [symbol.name for symbol in self.symbols]

    def checked(self, given: Mapping[str, Any]) -> dict[str, int]:
        """An extent for each symbol; InputError for what is missing, unknown, no positive integer or out of bounds."""
        for name in given:
            if name not in self.names:
                raise InputError(f"{self.label}: no symbol is named {name!r}"
                                 + (suggest(str(name), self.names) if self.names else "; no dimension is open"))
        found = {}
        for symbol in self.symbols:
            where = f"{self.label}: symbol {symbol.name!r}: expected {symbol.range}"
            if symbol.name not in given:
                raise InputError(f"{where}, found no extent (given: {', '.join(given) or 'none'})")
            value = given[symbol.name]
            try:
                extent = operator.index(value)
            except TypeError:
                extent = None
            if extent is None or isinstance(value, bool):
                raise InputError(f"{self.label}: symbol {symbol.name!r}: expected a positive integer, found {value!r}")
            if extent < symbol.low or (symbol.high is not None and extent > symbol.high):
                raise InputError(f"{where}, found {extent}")
            found[symbol.name] = extent
        return found

    def at(self, extents: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """The shape of each input; InputError where a dimension would have no place."""
        return {i.name: tuple(self._size(i, axis, extents) for axis in range(len(i.dims))) for i in self.inputs}

    def _size(self, tensor: OpenInput, axis: int, extents: Mapping[str, int]) -> int:
        dim = tensor.dims[axis]
        size = dim if isinstance(dim, int) else dim.at(extents)
        if size < 1 and not isinstance(dim, int):
            values = ", ".join(f"{name}={extents[name]}" for name in dim.names)
            raise InputError(f"{self.label}: input {tensor.name!r}: dimension {axis} is {dim}, expected at least 1, "
                             f"found {size} ({values})")
        return size

    def read(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """The extents of inputs of these shapes; InputError for a shape that is not the network's, and where inputs
        do not agree."""
        found: dict[str, tuple[int, str]] = {}
        waiting = [(tensor, axis, size) for tensor in self.inputs for axis, size in enumerate(self._of(tensor, shapes))]
        while waiting:
            left = [place for place in waiting if not self._take(*place, found)]
            if len(left) == len(waiting):
                tensor, axis, _ = left[0]
                names = [n for n in self.names if n not in found]
                raise InputError(f"{self.label}: input {tensor.name!r}: dimension {axis} is {tensor.shape[axis]}, "
                                 f"which does not say what {', '.join(names)} are; state them with at()")
            waiting = left
        return self.checked({name: found[name][0] for name in self.names if name in found})

    def _of(self, tensor: OpenInput, shapes: Mapping[str, Sequence[int]]) -> Sequence[int]:
        if tensor.name not in shapes:
            raise InputError(f"{self.label}: input {tensor.name!r} is missing; expected {tensor.kind}")
        shape = shapes[tensor.name]
        if len(shape) != len(tensor.dims):
            raise InputError(f"{self.label}: input {tensor.name!r}: expected {tensor.kind}, found shape "
                             f"({', '.join(map(str, shape))})")
        return shape

    def _take(self, tensor: OpenInput, axis: int, size: int, found: dict[str, tuple[int, str]]) -> bool:
        """Note or compare what a dimension says; False where more than one of its symbols is unknown yet."""
        dim, here = tensor.dims[axis], f"dimension {axis} of input {tensor.name!r}"
        if isinstance(dim, int):
            if size != dim:
                raise InputError(f"{self.label}: {here}: expected {dim}, found {size}")
            return True
        unknown = [(name, factor) for name, factor in dim.factors if name not in found]
        if len(unknown) > 1:
            return False
        known = {name: found[name][0] for name in dim.names if name in found}
        if not unknown:
            if dim.at(known) != size:
                origins = ", ".join(f"{n} = {found[n][0]} by {found[n][1]}" for n in dim.names)
                raise InputError(f"{self.label}: {here} is {dim}: expected {dim.at(known)}, found {size} ({origins})")
            return True
        (name, factor), = unknown
        extent, rest = divmod(size - dim.at({**known, name: 0}), factor)
        if rest:
            raise InputError(f"{self.label}: {here}: expected {dim}, found {size}, which no whole number {name} gives")
        found[name] = (extent, here)
        return True


def symbols_of(inputs: Sequence[OpenInput], bounds: Callable[[str], Symbol] = Symbol) -> tuple[Symbol, ...]:
    """The symbols of inputs in the order in which they are first met; ``bounds`` makes one of a name."""
    names = [name for tensor in inputs for dim in tensor.dims if isinstance(dim, Extent) for name in dim.names]
    return tuple(bounds(name) for name in dict.fromkeys(names))
