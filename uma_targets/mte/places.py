"""Where blocks of C and their operands lie: rows of A and C, tiles of them, and the taps of a convolution's window.

Rows are pixels of images, or those of a matrix. A tile has rows that follow one another at one distance: of a matrix
all, of an image those of one row of pixels, as the next begins elsewhere. So a block of a narrow image has tiles from
several rows of pixels, and each tile of B is loaded once for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from archloom.oracle.affine import Affine
from archloom.uma_targets.kit import Nodes, ceil_div, pieces, repeat


class Spot(NamedTuple):
    """Bytes of A and of C before a row."""

    a: Affine
    c: Affine

    def further(self, a: Affine | int, c: Affine | int) -> "Spot":
        return Spot(self.a + a, self.c + c)


class Level(NamedTuple):
    """So many places, and bytes of A and of C from one to the next."""

    extent: int
    a: int
    c: int


@dataclass(frozen=True)
class Run:
    """``count`` blocks along an axis from the element ``first`` on, each of ``tiles`` tiles of ``size`` elements."""

    first: int
    count: int
    tiles: int
    size: int

    @property
    def span(self) -> int:
        """Elements of a block."""
        return self.tiles * self.size


def runs(extent: int, tile: int, tiles: int) -> list[Run]:
    """Blocks of so many whole tiles, then one of what is left of them, then the tile at the edge."""
    whole, rest = divmod(extent, tile)
    found = [Run(p.first * tiles * tile, p.count, p.size, tile) for p in pieces(whole, tiles)] if whole else []
    return found + ([Run(whole * tile, 1, 1, rest)] if rest else [])


@dataclass(frozen=True)
class Strip:
    """Blocks of C that are alike: ``pieces`` pieces of ``across`` tiles of ``size`` rows. Rows of a piece lie ``row``
    apart, ``pieces`` has how far from one to the next. The first block begins at ``first``, the others follow in
    ``loops``, outermost first."""

    size: int
    across: int
    pieces: Level
    row: Level
    first: Level
    loops: tuple[Level, ...]

    @property
    def tiles(self) -> int:
        return self.pieces.extent * self.across

    @property
    def span(self) -> int:
        """Rows of a block."""
        return self.tiles * self.size

    @property
    def along(self) -> int:
        """Rows of a piece."""
        return self.across * self.size

    @property
    def blocks(self) -> int:
        return math.prod(level.extent for level in self.loops)

    def spots(self, block: Spot) -> Iterator[Spot]:
        """Those of the tiles of a block."""
        for piece in range(self.pieces.extent):
            for tile in range(self.across):
                far = tile * self.size
                yield block.further(piece * self.pieces.a + far * self.row.a, piece * self.pieces.c + far * self.row.c)

    def nodes(self, body: Callable[[Spot, Spot], Nodes]) -> Nodes:
        """``body`` of each block and of the one that follows it in the innermost loop."""
        def nest(number: int, at: Spot) -> Nodes:
            if number == len(self.loops):
                return body(at, at)
            count, a, c = self.loops[number]
            name = "mb" + str(number) * (number + 1 < len(self.loops))

            def one(i: Affine) -> Nodes:
                here = at.further(i * a, i * c)
                if number + 1 < len(self.loops):
                    return nest(number + 1, here)
                later = (i + 1) % count
                return body(here, at.further(later * a, later * c))

            return repeat(name, count, one)

        return nest(0, Spot(Affine(self.first.a), Affine(self.first.c)))


@dataclass(frozen=True)
class Rows:
    """All rows of A and C as nested ``levels``, outermost first: of images, rows and columns of each. Tiles have rows
    of the last one."""

    levels: tuple[Level, ...]

    @staticmethod
    def of(*levels: Level, size: int) -> "Rows":
        """Levels that go on where the one inside ends are one. Of those that are left tiles of ``size`` rows have rows
        of the one of which the fewest are needed: where images are small and many, of one pixel of each."""
        found: list[Level] = []
        for level in levels:
            if found and (found[-1].a, found[-1].c) == (level.extent * level.a, level.extent * level.c):
                found[-1] = level._replace(extent=found[-1].extent * level.extent)
            elif found and found[-1].extent == 1:
                found[-1] = level
            elif not found or level.extent > 1:
                found.append(level)
        best = min(reversed(found), key=lambda level: ceil_div(level.extent, size) / level.extent)
        found.remove(best)
        return Rows((*found, best))

    @property
    def row(self) -> Level:
        return self.levels[-1]

    def strips(self, size: int, tall: int) -> list[Strip]:
        """All of C in blocks of ``tall`` tiles of ``size`` rows, as far as there are such."""
        return list(self._strips(size, tall))

    def _strips(self, size: int, tall: int) -> Iterator[Strip]:
        *outer, lines = self.levels[:-1] if len(self.levels) > 1 else (Level(1, 0, 0),)
        row = self.row
        for along in runs(row.extent, size, min(tall, max(1, row.extent // size))):
            for down in pieces(lines.extent, tall // along.tiles):
                high = tall // along.tiles
                loops = (*outer, Level(down.count, high * lines.a, high * lines.c),
                         Level(along.count, along.span * row.a, along.span * row.c))
                first = down.first * high, along.first
                yield Strip(
                    along.size, along.tiles, lines._replace(extent=down.size), row,
                    Level(1, first[0] * lines.a + first[1] * row.a, first[0] * lines.c + first[1] * row.c),
                    tuple(level for level in loops if level.extent > 1))


@dataclass(frozen=True)
class Taps:
    """Bytes by which A and B of products lie behind the first: ``a`` and ``b``, and so much more in each iteration of
    ``loops`` (how many, bytes of A, bytes of B), outermost first."""

    a: int
    b: int
    loops: tuple[tuple[int, int, int], ...] = ()

    def nodes(self, body: Callable[[Affine, Affine], Nodes]) -> Nodes:
        """``body`` of the bytes, for each of the products."""
        def nest(number: int, a: Affine, b: Affine) -> Nodes:
            if number == len(self.loops):
                return body(a, b)
            count, down, across = self.loops[number]
            return repeat(f"tap{number}", count, lambda i: nest(number + 1, a + i * down, b + i * across))

        return nest(0, Affine(self.a), Affine(self.b))
