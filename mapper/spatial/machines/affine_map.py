"""The affine maps of the ``df`` dialect: ``affine_map<(d0, d1) -> ((d0 + 1) mod 8, d1)>``, read, written, evaluated.

Symbols, ``affine_map<(d0, d1)[s0] -> (s0, d1)>``, stand for every value: a point has an image for each of them.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, Union

from archloom.oracle.errors import TargetError

MOST_DIGITS = 18
"""Of a number in a text."""

_DEEPEST = 64
"""Parentheses around an expression."""


class MapFault(TargetError):
    """A text that is no map; ``place``: of the character (from 0 on) at which it goes wrong."""

    def __init__(self, message: str, place: int) -> None:
        super().__init__(message)
        self.place = place


_WORD = re.compile(r"\s*(\d+|[A-Za-z_]\w*|->|[][()+*,-])")
_MOD, _FLOOR, _CEIL = "mod", "floordiv", "ceildiv"


@dataclass(frozen=True)
class Operation:
    """``left operator right`` with one of + - * mod floordiv ceildiv."""

    operator: str
    left: "Expression"
    right: "Expression"

    def __str__(self) -> str:
        sides = [f"({side})" if isinstance(side, Operation) else str(side) for side in (self.left, self.right)]
        return f"{sides[0]} {self.operator} {sides[1]}"


Expression: TypeAlias = Union[int, str, Operation]
"""A number, a dimension by name, or an operation."""


@dataclass(frozen=True)
class AffineMap:
    """From a point of ``dims`` to points with a coordinate for each of ``results``; ``symbols`` have any value."""

    dims: tuple[str, ...]
    results: tuple[Expression, ...]
    symbols: tuple[str, ...] = ()

    def __str__(self) -> str:
        free = f"[{', '.join(self.symbols)}]" if self.symbols else ""
        return f"affine_map<({', '.join(self.dims)}){free} -> ({', '.join(map(str, self.results))})>"

    def __call__(self, point: Sequence[int], free: Sequence[int] = ()) -> tuple[int, ...]:
        """The image of a point for values of the symbols; TargetError where it divides by what is not positive."""
        values = dict(zip((*self.dims, *self.symbols), (*point, *free)))
        return tuple(_evaluate(result, values) for result in self.results)

    def images(self, point: Sequence[int], extents: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """All images of a point among ``extents``: a symbol takes the values of the coordinates that it is."""
        for free in itertools.product(*map(range, self.freedom(extents))):
            yield self(point, free)

    def freedom(self, extents: Sequence[int]) -> list[int]:
        """How many values each symbol has where the images lie among ``extents``."""
        return [
            max([n for result, n in zip(self.results, extents) if result == symbol], default=1)
            for symbol in self.symbols
        ]


def parse_map(text: str) -> AffineMap:
    """Read ``(d0, d1) -> (...)``; MapFault that shows where it goes wrong."""
    return _Reader(text).map()


def _evaluate(expression: Expression, values: dict[str, int]) -> int:
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        return values[expression]
    left, right = _evaluate(expression.left, values), _evaluate(expression.right, values)
    if expression.operator in (_MOD, _FLOOR, _CEIL) and right < 1:
        raise TargetError(f"{expression} divides by {right}; it must be at least 1")
    if expression.operator == _MOD:
        return left % right
    if expression.operator == _FLOOR:
        return left // right
    if expression.operator == _CEIL:
        return -(-left // right)
    return left + right if expression.operator == "+" else left - right if expression.operator == "-" else left * right


class _Reader:
    """Recursive descent over the words of a map."""

    def __init__(self, text: str) -> None:
        self.text, self.words, self.places, place = text, list[str](), list[int](), 0
        while text[place:].strip():
            found = _WORD.match(text, place)
            if not found:
                rest = text[place:].strip()
                raise MapFault(f"affine map {text!r}: {rest[:10]!r} is no number, name or operator", text.rindex(rest))
            self.words.append(found[1])
            self.places.append(found.start(1))
            place = found.end()
        self.place = self.depth = 0
        self.dims: tuple[str, ...] = ()
        self.symbols: tuple[str, ...] = ()

    def map(self) -> AffineMap:
        self.dims = self._names("(", ")")
        self.symbols = self._names("[", "]") if self._peek() == "[" else ()
        self._take("->")
        self._take("(")
        results = [self._sum()]
        while self._peek() == ",":
            self._next()
            results.append(self._sum())
        self._take(")")
        if self.place < len(self.words):
            raise self._fault("the end")
        return AffineMap(self.dims, tuple(results), self.symbols)

    def _names(self, opening: str, closing: str) -> tuple[str, ...]:
        self._take(opening)
        found = []
        while self._peek() != closing:
            found.append(self._next())
            if self._peek() == ",":
                self._next()
        self._take(closing)
        return tuple(found)

    def _sum(self) -> Expression:
        left = self._product()
        while self._peek() in ("+", "-"):
            left = Operation(self._next(), left, self._product())
        return left

    def _product(self) -> Expression:
        left = self._atom()
        while self._peek() in ("*", _MOD, _FLOOR, _CEIL):
            left = Operation(self._next(), left, self._atom())
        return left

    def _atom(self) -> Expression:
        word = self._peek()
        if word == "(":
            self.depth += 1
            if self.depth > _DEEPEST:
                raise MapFault(f"affine map: parentheses lie deeper than {_DEEPEST}", self.places[self.place])
            self._next()
            inside = self._sum()
            self._take(")")
            self.depth -= 1
            return inside
        if word.isdigit():
            if len(word) > MOST_DIGITS:
                raise MapFault(f"affine map: {word[:9]}... is above 10^{MOST_DIGITS}", self.places[self.place])
            return int(self._next())
        if word in (*self.dims, *self.symbols):
            return self._next()
        raise self._fault(f"a number, a parenthesis or one of {', '.join((*self.dims, *self.symbols))}")

    def _peek(self) -> str:
        return self.words[self.place] if self.place < len(self.words) else ""

    def _next(self) -> str:
        word = self._peek()
        if not word:
            raise self._fault("more")
        self.place += 1
        return word

    def _take(self, word: str) -> None:
        if self._peek() != word:
            raise self._fault(repr(word))
        self.place += 1

    def _fault(self, expected: str) -> MapFault:
        found = repr(self._peek()) if self._peek() else "the end"
        place = self.places[self.place] if self.place < len(self.words) else len(self.text)
        return MapFault(f"affine map {self.text!r}: expected {expected}, found {found}", place)


Point: TypeAlias = tuple[int, ...]
Pairs: TypeAlias = set[tuple[Point, Point]]

_FEW = 4
"""Constants that are tried for a coordinate."""


def fitted(pairs: Pairs, sources: Point, targets: Point, same: bool, symbols: bool = True) -> list[AffineMap] | None:
    """Maps whose images are ``pairs`` and nothing else; None if there are no such maps of the forms that are tried.

    ``sources`` and ``targets``: extents. ``same``: both are one set, in which a place that is mapped to itself counts
    as not joined: so the ends of an open line are told. ``symbols``: whether maps may have them.
    """
    places = {i for _, i in pairs}
    if symbols and len(places) == math.prod(targets) > 1 and len(pairs) == math.prod(sources) * len(places):
        return [_named(len(sources), [_SYMBOL if n > 1 else 0 for n in targets])]  # everything with everything
    left, found = set(pairs), []
    points = list(itertools.product(*map(range, sources)))
    made: list[tuple[AffineMap, Pairs]] = []
    for results in _choices(pairs, sources, targets, symbols):
        map_ = _named(len(sources), results)
        images = _images(map_, points, targets, pairs, same)
        if images is not None and len(images & pairs) == len(pairs):
            return [map_]
        if images is not None:
            made.append((map_, images))
    while left:
        best = max(made, key=lambda m: len(m[1] & left), default=None)
        if best is None or not best[1] & left:
            return None
        found.append(best[0])
        left -= best[1]
    return found


def inside(point: Point, extents: Point) -> bool:
    """Whether ``point`` is one of ``extents``."""
    return all(0 <= i < n for i, n in zip(point, extents))


def _images(map_: AffineMap, points: Sequence[Point], targets: Point, pairs: Pairs, same: bool) -> Pairs | None:
    """What a map joins; None if it joins anything but ``pairs``."""
    found = set()
    for point in points:
        for image in map_.images(point, targets):
            if (point, image) not in pairs and not (same and point == image):
                return None
            found.add((point, image))
    return found


_SYMBOL = "s"


def _choices(pairs: Pairs, sources: Point, targets: Point, symbols: bool) -> Iterator[tuple[Expression, ...]]:
    """Expressions for all coordinates, simple ones first; a symbol is marked, and named later."""
    axes = []
    for j, extent in enumerate(targets):
        values = sorted({image[j] for _, image in pairs})
        options: list[Expression] = [f"d{j}"] if len(sources) == len(targets) else []
        options += values if len(values) <= _FEW else []
        options += [f"d{i}" for i in range(len(sources)) if f"d{i}" not in options]
        options += [_SYMBOL] if symbols and len(values) == extent > 1 else []
        for i, size in enumerate(sources):
            options += list(_steps(f"d{i}", size, extent))
            options += [o for k in range(len(sources)) if k != i for o in _checkers(f"d{i}", f"d{k}", size, extent)]
        axes.append(options)
    yield from itertools.product(*axes)


def _steps(name: str, size: int, extent: int) -> Iterator[Expression]:
    """To the next and to the one before, with and without a way around; to groups, and from groups."""
    if size == extent and size > 1:
        after = Operation("+", name, 1)
        yield Operation("mod", after, size)
        yield Operation("-", after, Operation("floordiv", after, size))
        before = Operation("+", name, size - 1)
        yield Operation("mod", before, size)
        yield Operation("-", name, Operation("floordiv", before, size))
    elif size > extent > 1:
        yield Operation("floordiv", name, -(-size // extent))
        yield Operation("mod", name, extent)
    elif extent > size > 1:
        yield Operation("*", name, (extent - 1) // (size - 1))


def _checkers(name: str, other: str, size: int, extent: int) -> Iterator[Expression]:
    """To the next and to the one before in every second line, none beyond the ends."""
    if size != extent or size < 2:
        return
    odd = Operation("mod", other, 2)
    for step in (odd, Operation("-", 1, odd)):
        after = Operation("+", name, step)
        yield Operation("-", after, Operation("floordiv", after, size))
        before = Operation("-", name, step)
        yield Operation("+", before, Operation("floordiv", Operation("-", size - 1, before), size))


def _named(count: int, results: Sequence[Expression]) -> AffineMap:
    symbols = tuple(f"s{n}" for n in range(sum(r == _SYMBOL for r in results)))
    names = iter(symbols)
    return AffineMap(
        tuple(f"d{i}" for i in range(count)), tuple(next(names) if r == _SYMBOL else r for r in results), symbols)
