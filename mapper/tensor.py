"""Tensors of workloads: their elements, which of them an iteration touches, and how and where they lie in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from archloom.mapper.packing import Packing
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError


@dataclass(frozen=True)
class Tensor:
    """An operand and the element that an iteration touches; in HBM dense and row-major, or as ``packing`` has it.

    ``access`` has one expression over the dimension names for each axis; an index outside of the shape (padding of
    a convolution) reads as zero.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    access: tuple[Affine, ...]
    packing: Packing | None = None

    def __post_init__(self) -> None:
        if self.packing is not None and self.packing.rank != len(self.shape):
            raise MappingError(f"{self.name!r}: expected a packing of {len(self.shape)} axes, not {self.packing.rank}")

    @property
    def item_bytes(self) -> int:
        return np.dtype(self.dtype).itemsize

    @property
    def size_bytes(self) -> int:
        """Of its elements, without what pads them in memory."""
        return math.prod(self.shape) * self.item_bytes

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Of the array in HBM, which is dense and row-major."""
        return self.shape if self.packing is None else self.packing.shape(self.shape)

    @property
    def stored_bytes(self) -> int:
        return math.prod(self.stored_shape) * self.item_bytes

    @property
    def names(self) -> tuple[str, ...]:
        """The dimension that each axis is; an axis of several has the text of its access."""
        return tuple(map(str, self.access))

    def byte_at(self, **index: Affine | int) -> Affine:
        """How many bytes behind the first one of the tensor an element lies, by its dimensions; by default 0."""
        values = {name: Affine.of(index.get(name, 0)) for e in self.access for name in e.variables()}
        at = tuple(e.substitute(values) for e in self.access)
        return (self.packing or Packing.none(len(at))).offset(at, self.shape) * self.item_bytes

    def stored(self, array: np.ndarray) -> np.ndarray:
        """A constant as it lies in HBM."""
        return array if self.packing is None else self.packing.pack(array)

    def logical(self, stored: np.ndarray) -> np.ndarray:
        """What :meth:`stored` was made of."""
        return stored if self.packing is None else self.packing.unpack(stored, self.shape)


@dataclass(frozen=True)
class Place:
    """The bytes ``first .. end - 1`` of HBM, which lie in ``memory``."""

    memory: str
    first: int
    end: int

    @property
    def size_bytes(self) -> int:
        return self.end - self.first
