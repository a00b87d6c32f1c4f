"""Which axis of a nest is spread over the lanes of vectors: what there is to choose from, and what each costs.

A transpose is read with a stride or written with one. What is better depends on how many ports loads and stores have,
and on what caches keep, so that a search simulates what comes close.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TypeAlias

from archloom.mapper.nests import GATHER, ITEMS, LOAD, Axis, Nest, Pass
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Node
from archloom.uma_targets.kit.vectors.unit import Unit

Lane: TypeAlias = "Axis | None"
"""An axis of the nest; None: one of each pass's."""

Ports: TypeAlias = Callable[[Node], int]
"""How many units of a machine process an instruction."""


def one_port(node: Node) -> int:
    """Of a machine of which nothing is known."""
    return 1


def lanes_of(nest: Nest) -> tuple[Lane, ...]:
    """What there is to choose from: axes of the nest, from the innermost on, and of passes, where they have any. A nest
    without axes has none, too: it is one point."""
    inside = [None] if any(p.axes for p in nest.passes) or not nest.axes else []
    return (*reversed(nest.axes), *inside)


def cost(nest: Nest, lane: Lane, unit: Unit, ports: Ports = one_port) -> float:
    """About how many cycles the units take one after the other, where no cache misses."""
    return sum(_cost(nest, each, lane, unit, ports) for each in nest.passes)


def axis_along(each: Pass) -> Axis | None:
    """The axis of a pass along which most of its words lie together; the last of them."""
    def together(axis: Axis) -> tuple[int, int]:
        steps = [at.coefficient(axis.name) for at, _, _ in _accesses(each)]
        return sum(s in (0, 1) for s in steps), axis.extent

    return max(reversed(each.axes), key=together, default=None)


def _cost(nest: Nest, each: Pass, lane: Lane, unit: Unit, ports: Ports) -> float:
    axis = lane if lane is not None else axis_along(each)
    extent = 1 if axis is None else axis.extent
    points = math.prod(a.extent for a in (*nest.axes, *each.axes)) // extent
    strips = -(-extent // unit.lanes(1))
    width = extent / strips
    work = sum(max(1.0, width / (4 * unit.access_words)) for o in each.code if o.args)
    for at, item, is_store in _accesses(each):
        step = 0 if axis is None else at.coefficient(axis.name)
        access = (unit.store if is_store else unit.load)(0, Affine(0), step * ITEMS[item], item)
        work += _passing(unit, step, width, item) / max(1, ports(access))
    return points * strips * (work + len(each.folds) * (8 if lane is None else 1))


def _accesses(each: Pass) -> Iterator[tuple[Affine, str, bool]]:
    """Addresses of all elements that a pass reads and writes, their types in memory, and whether it writes them."""
    yield from ((o.at, o.item, False) for o in each.code if o.name in (LOAD, GATHER))
    yield from ((s.at, s.item, True) for s in each.stores)


def _passing(unit: Unit, step: int, width: float, item: str) -> float:
    """Cycles in which a port moves a vector."""
    together = unit.access_words * ITEMS[""] // ITEMS[item]
    return 1.0 if step == 0 else max(1.0, width / together) if step == 1 else width
