"""What the generator asks of a vector unit: lengths, loads and stores, arithmetic by name, folds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from archloom.oracle.affine import Affine
from archloom.oracle.stream import Node

Kind: TypeAlias = Literal["v", "f", "x", "i"]
"""Where an operand is: in a group of vector registers, in a scalar register of floats or of integers, or in the
instruction."""


@dataclass(frozen=True)
class Operand:
    """A vector register (the first of its group), a scalar one, or (``i``) a number."""

    kind: Kind
    number: int


class Unit(Protocol):
    """A vector unit with registers in groups, whose elements have 32 bits.

    Addresses and strides are in bytes. Where an operation takes fewer elements than a group has, the others keep their
    values. Elements that are narrower in memory (``item``: a type of :data:`archloom.mapper.nests.ITEMS`) are loaded
    and stored as they are, in the lower part of a group.
    """

    @property
    def registers(self) -> int:
        """Vector registers; masks are in the first, which is the first of its group."""
        ...

    @property
    def scalars(self) -> int:
        """Scalar registers of floats, and of integers, that the generator may use."""
        ...

    @property
    def access_words(self) -> int:
        """Words that are loaded or stored at a time where they lie together."""
        ...

    def lanes(self, group: int) -> int:
        """Elements of ``group`` registers."""
        ...

    def length(self, count: int, group: int) -> Node:
        """From now on ``count`` elements in groups of so many registers."""
        ...

    def has(self, name: str, kinds: Sequence[Kind]) -> bool:
        """Whether there is an instruction for an operation of :data:`archloom.mapper.nests.SCALAR` on such operands.

        ``select`` takes the two that it chooses from, by the mask that the comparison before it has left. ``copy`` and
        ``splat`` fill a vector from one operand, ``lane`` with the number of each element.
        """
        ...

    def fits(self, name: str, value: int) -> bool:
        """Whether an int32 is an operand of kind ``i``, the last of an operation."""
        ...

    def apply(self, name: str, into: int, operands: Sequence[Operand]) -> Node:
        """The instruction; ``multiply_add`` has the sum in ``into`` already, ``multiply_into`` the first factor: of
        their operands that one is left out."""
        ...

    def load(self, into: int, at: Affine, stride: int, item: str) -> Node: ...

    def store(self, register: int, at: Affine, stride: int, item: str) -> Node: ...

    def gather(
        self, into: int, at: Affine, offsets: int, reach: int, item: str, count: int, group: int,
    ) -> Iterable[Node]:
        """Elements that lie so many bytes behind ``at`` as the elements of ``offsets`` say, less than ``reach``; so
        many of them, of groups of so many registers."""
        ...

    def widen(self, into: int, register: int, item: str, count: int, group: int) -> Iterable[Node]:
        """So many elements of a type in memory as numbers, in groups of so many registers, which are not one."""
        ...

    def narrow(self, into: int, register: int, item: str, count: int, group: int) -> Iterable[Node]:
        """So many numbers as elements of a type in memory, next to what they are, in groups of so many registers;
        ``into`` may be the register."""
        ...

    def number(self, kind: Kind, register: int, bits: int) -> Iterable[Node]:
        """A scalar register gets 32 bits."""
        ...

    def scalar(self, register: int, at: Affine) -> Node:
        """A scalar register of floats gets a word of memory."""
        ...

    def fold(self, kind: str, into: int, register: int, zero: int, scratch: int) -> Iterable[Node]:
        """A scalar register gets the fold of all elements; ``zero`` is a scalar register with 0, ``scratch`` a vector
        register."""
        ...

    def first(self, into: int, register: int) -> Node:
        """A scalar register gets the first element."""
        ...
