"""Which convolutions of a region hand each other images on a common grid, so that nothing is laid out between them.

Convolutions without a stride read and store the same grid, those with one store one. What reads or stores the same
tensor must agree, so that there is one grid for all that are connected so, large enough for each of them. It is taken
where fewer tensors are then laid out anew than without: operators that read plain rows of pixels are cut off.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from archloom.tvm_backend.targets.backend import Gridded, Lowered
from archloom.tvm_backend.targets.tiles import SIDE

Grid = tuple[int, int, int]
PIXELS = "tile-pixels"


@dataclass(frozen=True, eq=False)
class Piece:
    """An operator of a region: what it makes, and what it reads as the ``inputs`` of its ``lowered`` form."""

    result: Hashable
    reads: Mapping[str, Hashable]
    lowered: Lowered

    @property
    def on_grid(self) -> tuple[str, ...] | None:
        """The arguments that lie on the grid of the result; None for an operator whose result lies on none."""
        gridded = self.lowered.gridded
        if gridded is not None:
            return tuple(a for a in self.reads if a == "residual" or (a == "A" and gridded.reads))
        if self.lowered.relaid is not None and "columns" not in self.lowered.beyond:  # zeros stay zeros
            return tuple(self.reads)
        return None

    @property
    def plain(self) -> bool:
        """Whether it reads and stores rows of pixels without a grid, or whatever it finds."""
        return self.lowered.gridded is None or self.lowered.gridded.plain

    def read_plainly(self, argument: str) -> bool:
        """Whether it reads rows of pixels."""
        return self.lowered.layouts.get(argument, self.lowered.layout) == PIXELS


def agreed(pieces: Sequence[Piece]) -> dict[Hashable, Grid]:
    """The grid of each result that lies on one."""
    found: dict[Hashable, Grid] = {}
    for members in _connected(pieces):
        if _saved(members, pieces) > 0:
            grid = common([p.lowered.gridded for p in members if p.lowered.gridded is not None])
            found.update((p.result, grid) for p in members if p.lowered.gridded is not None)
    return found


def common(forms: Sequence[Gridded]) -> Grid:
    """The smallest grid that suits all of ``forms``."""
    rows, line = (max(form.least[axis] for form in forms) for axis in (0, 1))
    pixels = max(down * line + across for form in forms for down, across in form.margins)
    return rows, line, max(0, -(-pixels // SIDE))


def _connected(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Operators that must agree."""
    above: dict[Hashable, Hashable] = {}

    def top(tensor: Hashable) -> Hashable:
        while above.setdefault(tensor, tensor) != tensor:
            tensor = above[tensor]
        return tensor

    able = [p for p in pieces if p.on_grid is not None]
    for piece in able:
        for argument in piece.on_grid or ():
            above[top(piece.reads[argument])] = top(piece.result)
    groups: dict[Hashable, list[Piece]] = {}
    for piece in able:
        groups.setdefault(top(piece.result), []).append(piece)
    return [group for group in groups.values() if any(p.lowered.gridded is not None for p in group)]


def _saved(members: Sequence[Piece], pieces: Sequence[Piece]) -> int:
    """How many tensors fewer are laid out anew if ``members`` agree on a grid."""
    makers = {p.result: p for p in pieces}
    inside = {p.result for p in members}
    return sum(_difference(piece, argument, makers, inside) for piece, argument in _uses(pieces))


def _uses(pieces: Sequence[Piece]) -> Iterator[tuple[Piece, str]]:
    for piece in pieces:
        for argument in piece.reads:
            yield piece, argument


def _difference(piece: Piece, argument: str, makers: Mapping[Hashable, Piece], inside: set[Hashable]) -> int:
    """1 where a tensor would no longer be laid out for an operator, -1 where it would only then be, else 0."""
    maker = makers.get(piece.reads[argument])
    if maker is None:
        return 0
    reads = piece.result in inside and argument in (piece.on_grid or ())
    if reads and maker.result in inside:
        return 0 if maker.plain and piece.plain else 1
    if reads:
        return -1 if piece.plain and maker.lowered.layout == PIXELS else 0
    return -1 if maker.result in inside and maker.plain and piece.read_plainly(argument) else 0
