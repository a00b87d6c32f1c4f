"""Instruction streams: programs of an accelerator's own instructions in which loops stay loops.

A stream is immutable and hashable. Its size does not depend on the number of instruction instances, and nothing but
the reference interpreter ever enumerates them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias, Union

from archloom.oracle.affine import Affine
from archloom.oracle.errors import StreamError


@dataclass(frozen=True)
class HbmTensor:
    """An argument or result of a stream in HBM.

    ``address`` is in bytes; ``shape`` is dense and row-major in HBM (the caller brings a tensor into this layout);
    ``dtype`` is a NumPy name such as ``"int8"``.
    """

    name: str
    address: int
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Instr:
    """One instruction: attributes are expressions over the variables of the enclosing loops, in the ISA's order."""

    mnemonic: str
    attributes: tuple[tuple[str, Affine], ...]

    @staticmethod
    def make(mnemonic: str, **attributes: Affine | int) -> "Instr":
        return Instr(mnemonic, tuple((k, Affine.of(v)) for k, v in attributes.items()))

    def __getitem__(self, name: str) -> Affine:
        for key, value in self.attributes:
            if key == name:
                return value
        raise KeyError(name)


class Counted:
    """A loop of ``extent`` iterations whose variable counts from 0."""

    extent: int

    @property
    def values(self) -> range:
        return range(self.extent)

    @property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest value of the variable."""
        return 0, max(self.extent, 1) - 1


@dataclass(frozen=True)
class Loop:
    """``for var in range(start, stop, step)``: iterations run one after the other."""

    var: str
    start: int
    stop: int
    step: int
    body: tuple["Node", ...]

    def __post_init__(self) -> None:
        if not self.step:
            raise StreamError(f"loop {self.var}: step must not be 0 (for {self.var} in {self.start}..{self.stop})")

    @property
    def extent(self) -> int:
        return len(self.values)

    @property
    def values(self) -> range:
        return range(self.start, self.stop, self.step)

    @property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest value of the variable."""
        last = self.start + (max(self.extent, 1) - 1) * self.step
        return min(self.start, last), max(self.start, last)


@dataclass(frozen=True)
class Parallel(Counted):
    """One iteration on each core along the dimension ``dim`` of the architecture graph, at the same time."""

    var: str
    extent: int
    dim: str
    body: tuple["Node", ...]


Node: TypeAlias = Union[Instr, Loop, Parallel]


@dataclass(frozen=True)
class Stream:
    """A program: ISA and its parameters, HBM arguments and results, size of HBM in bytes, and a body of nodes."""

    isa: str
    parameters: tuple[tuple[str, int], ...]
    arguments: tuple[HbmTensor, ...]
    results: tuple[HbmTensor, ...]
    hbm_bytes: int
    body: tuple[Node, ...]
    name: str = field(default="stream", compare=True)

    def count(self) -> int:
        """Number of instruction instances (dynamic instructions)."""
        return _count(self.body)


def _count(nodes: tuple[Node, ...]) -> int:
    total = 0
    for node in nodes:
        total += 1 if isinstance(node, Instr) else node.extent * _count(node.body)
    return total
