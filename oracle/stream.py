"""Instruction streams: programs of an accelerator's own instructions in which loops stay loops.

A stream is immutable and hashable. Its size does not depend on the number of instruction instances, and nothing but
the reference interpreter ever enumerates them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias, Union

from archloom.oracle.affine import Affine
from archloom.oracle.errors import InputError, StreamError


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

    @property
    def type(self) -> str:
        """``int8[16, 64]``."""
        return shown(self.shape, self.dtype)


def shown(shape: Sequence[int], dtype: object) -> str:
    """``int8[16, 64]``."""
    return f"{dtype}[{', '.join(map(str, shape))}]"


def check_count(callee: str, tensors: Sequence[HbmTensor], arrays: Sequence[Any]) -> None:
    """InputError unless ``callee`` (``kernel matmul``) is given as many arrays as it has tensors."""
    if len(arrays) != len(tensors):
        names = ", ".join(t.name for t in tensors) or "none"
        raise InputError(f"{callee} takes {len(tensors)} argument{'s' if len(tensors) != 1 else ''} ({names}), "
                         f"found {len(arrays)}")


def check_arrays(callee: str, tensors: Sequence[HbmTensor], arrays: Sequence[Any]) -> None:
    """InputError unless there is one array for each of the tensors, of its shape and type."""
    check_count(callee, tensors, arrays)
    for tensor, value in zip(tensors, arrays, strict=True):
        check_array(callee, tensor, value)


def check_array(callee: str, tensor: HbmTensor, value: Any) -> None:
    """InputError unless ``value`` is an array of the tensor's shape and type."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        raise InputError(f"argument {tensor.name} of {callee} must be an array of {tensor.type}, "
                         f"found {type(value).__name__}")
    if tuple(shape) != tensor.shape or str(dtype) != tensor.dtype:
        raise InputError(f"argument {tensor.name} of {callee} must be {tensor.type}, found {shown(shape, dtype)}")


class Ordering(Protocol):
    """An ISA, as far as instructions need one to be made."""

    def ordered(self, mnemonic: str, attributes: tuple[str, ...]) -> tuple[str, ...]: ...


_emitted_for: ContextVar[Ordering | None] = ContextVar("emitted_for", default=None)


@contextmanager
def emitted_for(isa: Ordering) -> Iterator[None]:
    """Instructions that are made within are those of an ISA: StreamError, where they are made, for others."""
    token = _emitted_for.set(isa)
    try:
        yield
    finally:
        _emitted_for.reset(token)


@dataclass(frozen=True)
class Instr:
    """One instruction: attributes are expressions over the variables of the enclosing loops, in the ISA's order."""

    mnemonic: str
    attributes: tuple[tuple[str, Affine], ...]

    @staticmethod
    def make(mnemonic: str, **attributes: Affine | int) -> "Instr":
        """With attributes in any order where an ISA is being emitted for (:func:`emitted_for`)."""
        isa = _emitted_for.get()
        names = attributes if isa is None else isa.ordered(mnemonic, tuple(attributes))
        return Instr(mnemonic, tuple((k, Affine.of(attributes[k])) for k in names))

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
        values = self.values
        return (values[-1] - self.start) // self.step + 1 if values else 0  # len() ends at 63 bits

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

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Found once, as a search asks for it again and again, and of the nest alone, as few streams have the same."""
        return hash((self.isa, self.parameters, self.hbm_bytes, _outline(self.body), self.name))

    def __getstate__(self) -> dict[str, Any]:
        """Without the hash, which is another one in another process."""
        return {name: value for name, value in vars(self).items() if name != "_hash"}

    def count(self) -> int:
        """Number of instruction instances (dynamic instructions)."""
        return _count(self.body)


def _outline(nodes: tuple[Node, ...]) -> tuple[object, ...]:
    """Mnemonics and extents of a nest."""
    return tuple([n.mnemonic if isinstance(n, Instr) else (n.extent, _outline(n.body)) for n in nodes])


def _count(nodes: tuple[Node, ...]) -> int:
    total = 0
    for node in nodes:
        total += 1 if isinstance(node, Instr) else node.extent * _count(node.body)
    return total
