"""Affine maps for relations: which places of one set are joined with which of another, as few short maps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from archloom.mapper.spatial.affine_map import AffineMap, Expression, Operation

Point: TypeAlias = tuple[int, ...]
Pairs: TypeAlias = set[tuple[Point, Point]]

_FEW = 4
"""Constants that are tried for a coordinate."""


def fitted(
    pairs: Pairs, sources: Point, targets: Point, same: bool, symbols: bool = True
) -> list[AffineMap] | None:
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
