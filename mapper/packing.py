"""Constants as a target wants them in memory: in blocks, padded with zeros, laid out when a network is compiled.

A target says where an element lies by an expression for each axis of the packed array, slowest first, over the names
of the tensor's own dimensions: ``(n // 16, k // 4, n % 16, k % 4)`` are panels of 16 columns in which four rows lie
byte by byte in turn. Each expression is a *digit* of one dimension, ``n``, ``n // a``, ``n % b`` or ``n % b // a``;
those of a dimension are all of its number, as hours and minutes are of a time, so that each element has a place of its
own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from operator import add
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from archloom.oracle.affine import Affine, Div, Mod
from archloom.oracle.errors import MappingError

if TYPE_CHECKING:
    from archloom.mapper.workload import Workload

Shape: TypeAlias = tuple[int, ...]
Place: TypeAlias = Sequence[Affine]
"""Where an element lies: for each axis of the packed array, slowest first, a digit of a dimension by its name."""


@dataclass(frozen=True, order=True)
class Digit:
    """``index // step % (radix // step)`` of an axis; without ``radix`` (0) all of ``index // step``."""

    axis: int
    step: int = 1
    radix: int = 0

    def of(self, index: Affine) -> Affine:
        return (index % self.radix if self.radix else index) // self.step

    def text(self, index: str) -> str:
        return index + (f" % {self.radix}" if self.radix else "") + (f" // {self.step}" if self.step != 1 else "")

    def count(self, extent: int) -> int:
        """How many values it takes for an axis of ``extent`` elements, those of a whole block beyond included."""
        return self.radix // self.step if self.radix else -(-extent // self.step)


@dataclass(frozen=True)
class Packing:
    """The order of a packed array: its axes, slowest first, as digits of the tensor's."""

    digits: tuple[Digit, ...]

    def __post_init__(self) -> None:
        for axis in range(self.rank):
            mine = self._of_axis(axis)
            if not mine:
                raise MappingError(f"expected digits of axis {axis}, found those of {sorted(self.digits)}")
            steps = [d.step for d in mine]
            if steps[0] != 1 or min(steps) < 1 or [d.radix for d in mine] != [*steps[1:], 0] or any(
                    high % low for low, high in pairwise(steps)):
                raise MappingError(f"expected digits that are all of axis {axis}, such as i // 4 and i % 4, found "
                                   f"{', '.join(d.text('i') for d in mine)}")

    @staticmethod
    def none(rank: int) -> "Packing":
        """Row by row."""
        return Packing(tuple(map(Digit, range(rank))))

    @staticmethod
    def of(place: Place, names: Sequence[str]) -> "Packing":
        """Of expressions over the ``names`` of a tensor's axes. Axes that no expression has lead, in their order.

        MappingError where an expression is no digit, or where those of an axis do not tell its elements apart.
        """
        found = [_digit(Affine.of(e), names) for e in place if e != Affine(0)]  # n % 1 takes no axis,
        digits = [d for d in found if d.radix != d.step]  # nor does n % 4 // 4
        lead = [Digit(axis) for axis in range(len(names)) if all(d.axis != axis for d in digits)]
        return Packing((*lead, *digits))

    @property
    def rank(self) -> int:
        """Axes of the tensor."""
        return len({d.axis for d in self.digits})

    def shape(self, logical: Shape) -> Shape:
        """Of the packed array, for a tensor's."""
        return tuple(d.count(logical[d.axis]) for d in self.digits)

    def offset(self, index: Sequence[Affine], logical: Shape) -> Affine:
        """How many elements lie before that of an index in the tensor. Digits that follow each other are taken as one,
        so that it is affine where it can be."""
        strides: list[tuple[Digit, int]] = []
        stride = 1
        for d in reversed(self.digits):
            last = strides[-1][0] if strides else None
            if last is not None and (last.axis, last.radix) == (d.axis, d.step):
                strides[-1] = replace(last, radix=d.radix), strides[-1][1]
            else:
                strides.append((d, stride))
            stride *= d.count(logical[d.axis])
        return reduce(add, (d.of(index[d.axis]) * each for d, each in strides), Affine(0))

    def text(self, names: Sequence[str]) -> str:
        """The place of an element, by the ``names`` of the tensor's axes."""
        return ", ".join(d.text(names[d.axis]) for d in self.digits)

    def pack(self, array: np.ndarray) -> np.ndarray:
        """The packed array, C-contiguous, zeros where the tensor has no element. One without numbers (a zero seen in
        its shape, as estimates have it) takes no memory here either."""
        if array.size > 1 and not any(array.strides) and not array.flat[0]:
            return np.broadcast_to(array[(0,) * array.ndim], self.shape(array.shape))
        whole, split, order = self._split(array.shape)
        padded = np.pad(array, [(0, w - e) for w, e in zip(whole, array.shape, strict=True)])
        return np.ascontiguousarray(padded.reshape(split).transpose(order))

    def unpack(self, packed: np.ndarray, logical: Shape) -> np.ndarray:
        """The tensor of a packed array."""
        whole, _, order = self._split(logical)
        return packed.transpose(np.argsort(order)).reshape(whole)[tuple(map(slice, logical))]

    def _of_axis(self, axis: int) -> list[Digit]:
        """The lowest digit first."""
        return sorted(d for d in self.digits if d.axis == axis)

    def _split(self, logical: Shape) -> tuple[Shape, Shape, list[int]]:
        """The tensor's padded shape, the same with each axis taken apart into digits, the highest first, and the order
        of these when packed."""
        ordered = sorted(self.digits, key=lambda d: (d.axis, -d.step))
        split = tuple(d.count(logical[d.axis]) for d in ordered)
        whole = tuple(math.prod(n for n, d in zip(split, ordered, strict=True) if d.axis == axis)
                      for axis in range(len(logical)))
        return whole, split, [ordered.index(d) for d in self.digits]


def _digit(e: Affine, names: Sequence[str]) -> Digit:
    """What an expression takes of an axis."""
    if len(e.terms) == 1 and e.terms[0][1] == 1 and not e.constant:
        (atom, _), = e.terms
        if isinstance(atom, str) and atom in names:
            return Digit(names.index(atom))
        if isinstance(atom, Div | Mod):
            inner = _digit(atom.numerator, names)
            end = inner.step * atom.divisor
            if not inner.radix % end:  # else its values are no part of the number
                return replace(inner, step=end) if isinstance(atom, Div) else replace(inner, radix=end)
    raise MappingError(f"expected a digit of {', '.join(names)}, such as {names[-1]}, {names[-1]} // 4 or "
                       f"{names[-1]} % 64 // 4, found {e}")


def packed(workload: "Workload", places: Mapping[str, Place]) -> "Workload":
    """The workload with its constants where ``places`` has them; what is no constant stays as it is.

    MappingError for a place that is none, or of a tensor that the workload has not.
    """
    known = {t.name: t for t in workload.inputs}
    for name in places:
        if name not in known:
            raise MappingError(f"{workload.name}: a place for {name!r}: it has {', '.join(known)}")
    made = {}
    for name in places.keys() & set(workload.constants):
        try:
            made[name] = replace(known[name], packing=Packing.of(places[name], known[name].names))
        except MappingError as error:
            raise MappingError(f"{workload.name}: the place of {name!r}: {error}") from None
    return replace(workload, inputs=tuple(made.get(t.name, t) for t in workload.inputs))
