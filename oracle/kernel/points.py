"""Debug points of kernels: what is printed where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, Union

from archloom.oracle.affine import Affine
from archloom.oracle.kernel.index import Site


@dataclass(frozen=True)
class Part:
    """Elements of a tensor buffer: for each axis where they begin, how many they are, and their stride.

    ``kept`` tells the axes that the printed array has: those that were given as slices and not as an index.
    """

    buffer: str
    starts: tuple[Affine, ...]
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    kept: tuple[bool, ...]


@dataclass(frozen=True)
class Registers:
    """Control registers by key (``name`` or ``name[i]``); with ``single``, the value alone is printed."""

    keys: tuple[str, ...]
    single: bool


Data: TypeAlias = Union[Part, Registers, Affine]
"""What a point shows: a part of a buffer, registers, or an expression over loop variables."""


@dataclass(frozen=True, eq=False)
class Point:
    """``debug(prefix, data)`` at a place of a kernel."""

    prefix: str
    data: Data | None
    site: Site
