"""What jitted functions use, as plain Python with every access to arrays checked: see :mod:`.jit`.

An index must lie in its array. Where it is a field of a record (``unit + Unit.READY``), that field must lie there;
where it is counted from the begin of a part (``m[M.WORK] + k``), it must lie in that part. A value must be a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.timing.engine.fields import Field
from archloom.acadl_models.timing.engine.state import M

JITTED: dict[Any, str] = {}
"""All jitted functions, with their attributes in LLVM."""


class Machine(np.ndarray[Any, np.dtype[np.int64]]):
    """The array of a machine that knows what its words are; ``parts``: begin and end by the field with the begin."""

    labels: Sequence[str]
    parts: dict[int, tuple[int, int]]


class Place(int):
    """An index into one part of the machine, of which ``words`` is the array."""

    words: memoryview
    part: tuple[int, int]

    def __new__(cls, index: int, words: memoryview, part: tuple[int, int]) -> Place:
        place = super().__new__(cls, index)
        place.words, place.part = words, part
        return place

    def __add__(self, other: int) -> int:
        if isinstance(other, Field):
            return other.__radd__(self)
        return Place(int(self) + int(other), self.words, self.part)

    __radd__ = __add__


class Words:
    """An array behind a checked pointer."""

    def __init__(self, array: NDArray[np.int64], home: str) -> None:
        self.words = array.data
        self.home = home
        self.labels, self.parts = getattr(array, "labels", None), getattr(array, "parts", {})

    def __getitem__(self, index: int) -> int:
        self._check(index)
        value: int = self.words[index]
        if type(index) is Field and index < M.SIZE and index in self.parts:
            return Place(value, self.words, self.parts[index])
        return value

    def __setitem__(self, index: int, value: int) -> None:
        if self.home == "layout":
            raise TypeError(f"the tables do not change, but word {index} is set to {value}")
        self._check(index)
        self.words[index] = value

    def _check(self, index: int) -> None:
        if not 0 <= index < len(self.words):
            raise IndexError(f"word {index} of an array of {len(self.words)}")
        if isinstance(index, Field):
            if index.home != self.home:
                raise IndexError(f"{index.label} lies in {index.home}, not in {self.home}")
            if self.labels is not None and self.labels[index] != index.label:
                raise IndexError(f"{index.label} at word {index}, where {self.labels[index] or 'no field'} lies")
        elif isinstance(index, Place) and index.words is self.words and not index.part[0] <= index < index.part[1]:
            raise IndexError(f"word {index} of a part from {index.part[0]} to {index.part[1]}")


def pointer(array: NDArray[np.int64]) -> Words:
    """An array that may be written."""
    return Words(array, "state")


def constant_pointer(array: NDArray[np.int64]) -> Words:
    """The tables."""
    return Words(array, "layout")


def copy_words(target: Words, to: int, source: Words, begin: int, count: int) -> None:
    """``target[to + k] = source[begin + k]`` for each ``k < count``; the two places have nothing in common."""
    for words, first in ((target, to), (source, begin)):
        if not 0 <= first <= first + count <= len(words.words):
            raise IndexError(f"words {first} .. {first + count - 1} of an array of {len(words.words)}")
    if target is source and to < begin + count and begin < to + count:
        raise IndexError(f"{count} words are copied from {begin} to {to}, over themselves")
    target.words[to : to + count] = source.words[begin : begin + count]


def word(value: int) -> int:
    """The lowest 64 bits of an integer, with a sign."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def trailing_zeros(value: int) -> int:
    """The number of the lowest bit that is one."""
    return (value & -value).bit_length() - 1
