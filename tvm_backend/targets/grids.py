"""Which convolutions of a region hand each other images on a common grid, so that nothing is laid out between them.

Convolutions without a stride read and store the same grid, those with one store one. What reads or stores the same
tensor must agree, so that there is one grid for all that are connected so, large enough for each of them. It is taken
where fewer tensors are then laid out anew than without: operators that read plain rows of pixels are cut off.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from archloom.tvm_backend.targets.backend import Gridded, Lowered
from archloom.tvm_backend.targets.layouts import PIXELS, SIDE, PixelGrid


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator of a region: what it makes, and what it reads as the ``inputs`` of its ``lowered`` form."""

    result: Hashable
    reads: Mapping[str, Hashable]
    lowered: Lowered

    @property
    def on_grid(self) -> tuple[str, ...] | None:
        """The arguments that lie on the grid of the result; None for an operator whose result lies on none."""
        tiles = self.lowered.tiles
        if tiles.gridded is not None:
            reads = tiles.gridded.reads
            return tuple(a for a in self.reads if a == "residual" or (a == "A" and reads))
        if tiles.any_layout is not None and "columns" not in tiles.nonzero_edges:  # zeros between pixels stay zeros
            return tuple(self.reads)
        return None

    @property
    def plain(self) -> bool:
        """Whether it reads and stores rows of pixels without a grid, or whatever it finds."""
        gridded = self.lowered.tiles.gridded
        return gridded is None or gridded.plain


def agreed(operators: Sequence[Operator]) -> dict[Hashable, PixelGrid]:
    """The grid of each result that lies on one."""
    found: dict[Hashable, PixelGrid] = {}
    for members in _connected(operators):
        if _saved(members, operators) > 0:
            gridded = {p.result: p.lowered.tiles.gridded for p in members if p.lowered.tiles.gridded is not None}
            found.update(dict.fromkeys(gridded, common(list(gridded.values()))))
    return found


def common(able: Sequence[Gridded]) -> PixelGrid:
    """The smallest grid that suits all of ``able``."""
    rows, line = (max(one.least[axis] for one in able) for axis in (0, 1))
    pixels = max(down * line + across for one in able for down, across in one.margins)
    return PixelGrid(rows, line, max(0, -(-pixels // SIDE)))


def _connected(operators: Sequence[Operator]) -> list[list[Operator]]:
    """Operators that must agree."""
    above: dict[Hashable, Hashable] = {}

    def top(tensor: Hashable) -> Hashable:
        while above.setdefault(tensor, tensor) != tensor:
            tensor = above[tensor]
        return tensor

    able = [p for p in operators if p.on_grid is not None]
    for operator in able:
        for argument in operator.on_grid or ():
            above[top(operator.reads[argument])] = top(operator.result)
    groups: dict[Hashable, list[Operator]] = {}
    for operator in able:
        groups.setdefault(top(operator.result), []).append(operator)
    return [group for group in groups.values() if any(p.lowered.tiles.gridded is not None for p in group)]


def _saved(members: Sequence[Operator], operators: Sequence[Operator]) -> int:
    """How many tensors fewer are laid out anew if ``members`` agree on a grid."""
    makers = {p.result: p for p in operators}
    inside = {p.result for p in members}
    return sum(_difference(operator, argument, makers, inside) for operator in operators for argument in operator.reads)


def _difference(operator: Operator, argument: str, makers: Mapping[Hashable, Operator], inside: set[Hashable]) -> int:
    """1 where a tensor would no longer be laid out for an operator, -1 where it would only then be, else 0."""
    maker = makers.get(operator.reads[argument])
    if maker is None:
        return 0
    reads = operator.result in inside and argument in (operator.on_grid or ())
    if reads and maker.result in inside:
        return 0 if maker.plain and operator.plain else 1
    if reads:
        return -1 if operator.plain and maker.lowered.layout == PIXELS else 0
    return -1 if maker.result in inside and maker.plain and operator.lowered.layout_of(argument) == PIXELS else 0
