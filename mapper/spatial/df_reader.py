"""Whole ``df`` texts: line by line, and whether the declarations fit each other."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping

from archloom.mapper.spatial.df import ComputeUnit, Cores, Description, Item, Links, Memories, Scalar, SpatialDim
from archloom.mapper.spatial.df_line import Declared, DfFault, declared
from archloom.mapper.spatial.fitting import inside
from archloom.oracle.errors import TargetError

_MODULE = re.compile(r"\s*module(?:\s+@(\w+))?(?:\s+attributes\s*\{\s*clock_hz\s*=\s*([^}]*?)\s*\})?\s*\{\s*$")

MOST_POINTS = 1 << 20

LONGEST = 300
"""Characters of what is wrong with a line that are told: a line may be of any length."""


def _points(extents: tuple[int, ...], images: int) -> Iterator[tuple[int, ...]]:
    if math.prod(extents) * images > MOST_POINTS:
        of_each = f" with {images} images each" if images > 1 else ""
        raise TargetError(f"{' x '.join(map(str, extents))} instances{of_each} are more than {MOST_POINTS}")
    return itertools.product(*map(range, extents))


def read_text(text: str, operations: bool) -> Description:
    """See :func:`archloom.mapper.spatial.df.read`; ``operations``: what ``throughput`` counts in a cycle."""
    items: dict[str, Item] = {}
    name: str | None = None
    clock: float | None = None
    begun = False
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("//")[0].rstrip()
        try:
            if re.match(r"\s*module\b", line):
                if begun:
                    raise DfFault("a second module: a text describes one machine", line.index("m") + 1)
                begun = True
                name, clock = _module(line)
            elif line.strip() not in ("", "}"):
                item = _item(line, items, operations)
                items[item.name] = item
        except DfFault as error:
            what = str(error) if len(str(error)) <= LONGEST else f"{str(error)[:LONGEST]}..."
            raise TargetError(f"df, line {number}, column {error.column}: {what}") from None
    return Description(tuple(items.values()), name, clock)


def _module(line: str) -> tuple[str | None, float | None]:
    """Name and clock."""
    found = _MODULE.match(line)
    if not found:
        raise DfFault("expected 'module @name attributes {clock_hz = number} {', the last three as they are wanted",
                      len(line) - len(line.lstrip()) + 1)
    return found[1], _clock(found[2], found.start(2) + 1) if found[2] is not None else None


def _clock(text: str, column: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise DfFault(f"clock_hz must be a positive number, not {text!r}", column)
    return value


def _item(line: str, before: Mapping[str, Item], operations: bool) -> Item:
    found = declared(line)
    item = found.item
    if isinstance(item, ComputeUnit) and operations:
        item = _by_operations(item, found.column("throughput"))
    _check(found, before)
    return item


def _by_operations(unit: ComputeUnit, column: int) -> ComputeUnit:
    cycles, rest = divmod(math.prod(unit.shape), unit.throughput)
    if rest:
        raise DfFault(
            f"%{unit.name} does {unit.throughput} operations in a cycle, which do not divide the "
            f"{math.prod(unit.shape)} of {list(unit.shape)}", column)
    return ComputeUnit(unit.name, unit.kind, unit.shape, cycles, unit.latency)


def _check(found: Declared, known: Mapping[str, Item]) -> None:
    """Whether a declaration goes with those before it."""
    item = found.item
    if item.name in known:
        raise DfFault(f"%{item.name} is declared a second time", found.column("name"))
    if isinstance(item, (Cores, Memories)):
        for name in item.scaleout:
            _require(found, known, name, SpatialDim, "a df.spatial_dim")
        if not item.scaleout:
            raise DfFault(f"%{item.name} is replicated over no dimension: scaleout is empty", found.column("scaleout"))
    if isinstance(item, Cores):
        for name, _ in item.units:
            _require(found, known, name, (ComputeUnit, Scalar), "a df.mat, df.vec or df.scalar")
    if isinstance(item, Links):
        for name in (item.source, item.target):
            _require(found, known, name, (Cores, Memories), "a df.core or df.memory")
        try:
            _check_map(item, Description(tuple(known.values())))
        except TargetError as error:
            raise DfFault(str(error), found.column("map")) from None


def _require(
    found: Declared, known: Mapping[str, Item], name: str, kinds: type[Item] | tuple[type[Item], ...], what: str
) -> None:
    if name not in known:
        raise DfFault(f"%{name} is not declared before it is used", found.column(f"%{name}"))
    if not isinstance(known[name], kinds):
        raise DfFault(f"%{name} must be {what}", found.column(f"%{name}"))


def _check_map(links: Links, description: Description) -> None:
    """Every point of the source has an image among the targets."""
    source, target = description.extents(links.source), description.extents(links.target)
    if len(links.map.dims) != len(source) or len(links.map.results) != len(target):
        raise TargetError(
            f"the map of %{links.name} goes from {len(links.map.dims)} to {len(links.map.results)} dimensions; "
            f"%{links.source} has {len(source)}, %{links.target} {len(target)}"
        )
    for point in _points(source, math.prod(links.map.freedom(target))):
        for image in links.map.images(point, target):
            if inside(image, target):
                continue
            raise TargetError(
                f"the map of %{links.name} takes {point} of %{links.source} to {image}, but %{links.target} has "
                f"{' x '.join(map(str, target))} instances"
            )
