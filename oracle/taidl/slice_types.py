"""Slices as the checks see them: the types of what they name, and whether that lies within a buffer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from archloom.oracle.affine import Affine
from archloom.oracle.errors import suggest
from archloom.oracle.resolved import Buffer, Dim, Shaped
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.canonical import canonical
from archloom.oracle.taidl.declarations import HBM, fault_at
from archloom.oracle.taidl.inline import plain
from archloom.oracle.taidl.printer import print_slice


def dim(value: Affine) -> Dim:
    """A dimension: a number, or the text of a form that is not known yet."""
    return value.constant if value.is_constant else plain(str(value))


@dataclass(frozen=True)
class SliceTypes:
    """Slices of an ISA's buffers; ``known`` has its parameters and constants."""

    isa: ast.IsaDef
    known: Mapping[str, int]
    buffers: Mapping[str, Buffer]

    def type_of(self, piece: ast.Slice) -> Shaped:
        """The type of what a slice names."""
        if piece.buffer not in self.buffers:
            choices = suggest(piece.buffer, list(self.buffers))
            raise fault_at(f"unknown buffer ${piece.buffer}{choices}", piece, self.isa)
        buffer = self.buffers[piece.buffer]
        hbm = piece.buffer == HBM
        if len(piece.axes) > len(buffer.shape) or (hbm and not piece.axes):
            raise fault_at(f"${piece.buffer} has {len(buffer.shape)} axes, {len(piece.axes)} given", piece, self.isa)
        shape: list[Dim] = []
        for axis, size in zip(piece.over(len(buffer.shape)), buffer.shape, strict=True):
            shape += self.axis(axis, None if hbm else size, piece)
        return Shaped(tuple(shape), buffer.dtype)

    def axis(self, axis: ast.Axis, size: int | None, piece: ast.Slice) -> list[Dim]:
        if isinstance(axis, ast.At):
            base, entries = canonical(axis.index, self.known), [(Affine(1), Affine(1))]
        elif isinstance(axis, ast.Walk):
            base = canonical(axis.base, self.known)
            entries = [(canonical(e, self.known), canonical(s, self.known)) for e, s in axis.entries]
        else:
            base, entries = self.range(axis, size, piece)
        last = base
        for extent, stride in entries:
            if (extent.is_constant and extent.constant < 1) or (stride.is_constant and stride.constant < 0):
                raise fault_at(f"extent {extent} and stride {stride} of {plain(print_slice(piece))}: an extent is at "
                               "least 1, a stride at least 0", piece, self.isa)
            last = last + (extent - 1) * stride if extent.is_constant or stride.is_constant else Affine.variable("?")
        low = base.constant if base.is_constant else 0
        high = last.constant if last.is_constant else 0
        if low < 0 or (size is not None and high >= size):
            raise fault_at(f"{plain(print_slice(piece))} spans {base}..{last}, outside of an axis of extent {size}",
                           piece, self.isa)
        return [dim(extent) for extent, _ in entries]

    def range(self, axis: ast.Range, size: int | None, piece: ast.Slice) -> tuple[Affine, list[tuple[Affine, Affine]]]:
        if size is None and axis.stop is None:
            raise fault_at(f"{plain(print_slice(piece))} needs an end: the size of HBM is not known here", piece,
                           self.isa)
        start = canonical(axis.start, self.known) if axis.start is not None else Affine(0)
        stop = canonical(axis.stop, self.known) if axis.stop is not None else Affine(size or 0)
        step = canonical(axis.step, self.known) if axis.step is not None else Affine(1)
        if not step.is_constant:
            return start, [(Affine.variable("?"), step)]
        if step.constant < 1:
            raise fault_at(f"the step of {plain(print_slice(piece))} must be at least 1", piece, self.isa)
        return start, [(-((start - stop) // step.constant), step)]
