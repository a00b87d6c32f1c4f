"""Streams after their control registers are resolved: what each instruction moves and computes, as affine windows.

This is the one form from which the XLA oracle raises, the timing derives dependences and bytes, and the checks
derive bounds. :func:`~.resolve.resolve` makes it from a stream and its ISA.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, Union, cast

from archloom.oracle.affine import Affine
from archloom.oracle.stream import Counted, HbmTensor


class Real(float):
    """A float that equals numbers of its sign alone: streams that differ in 0.0 and -0.0 are different ones."""

    def __eq__(self, other: object) -> bool:
        return float.__eq__(self, other) is True and math.copysign(1, self) == math.copysign(1, cast(float, other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = float.__hash__


Dim: TypeAlias = Union[int, str]


@dataclass(frozen=True)
class Shaped:
    """Shape and element type (``"i8"``, ``"i32"``, ``"f32"``, ``"i1"`` ...: TAIDL's names).

    A dimension whose value is not known yet is the text of its expression.
    """

    shape: tuple[Dim, ...]
    dtype: str

    def __str__(self) -> str:
        return "".join(f"{d if isinstance(d, int) else '{' + d + '}'}x" for d in self.shape) + self.dtype


@dataclass(frozen=True)
class TensorType(Shaped):
    """A tensor type with all dimensions known."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class Buffer:
    """A tensor buffer as one array: rows first, then the base type (``[spad] (rows) (dim x i8)`` → rows × dim).

    HBM is the buffer ``"hbm"`` of shape ``(bytes,)`` and type ``i8``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class WindowDim:
    """One axis of a window: it walks ``extent`` steps of ``stride`` along the buffer's axis ``axis``."""

    axis: int
    extent: int
    stride: int


@dataclass(frozen=True)
class Window:
    """The elements ``buffer[offsets[a] + sum(stride_d * index_d over dims d with axis a) for each axis a]``.

    ``offsets`` has one expression over loop variables for each axis of the buffer; ``dims`` has one entry for each
    axis of the tensor that is moved, in order. Several dims may walk the same axis (a 2-D window of 1-D HBM).
    Extents are at least 1, strides are constants and may be 0 for extent 1 only in writes.
    """

    buffer: str
    offsets: tuple[Affine, ...]
    dims: tuple[WindowDim, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(d.extent for d in self.dims)

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """For each axis the least and the greatest distance from the offset (inclusive)."""
        found = [[0, 0] for _ in self.offsets]
        for d in self.dims:
            last = d.stride * (d.extent - 1)
            found[d.axis][last > 0] += last
        return tuple([(low, high) for low, high in found])

    def with_offsets(self, form: Callable[[Affine], Affine]) -> "Window":
        return Window(self.buffer, tuple([form(o) for o in self.offsets]), self.dims)


@dataclass(frozen=True)
class Read:
    """``%dst <- window``."""

    dst: str
    window: Window
    type: TensorType


@dataclass(frozen=True)
class Write:
    """``%src -> window``; ``kind`` is ``"accumulate"`` where the value is one ``add`` to the old contents, of which
    raising makes sums (timing goes by the equation: :func:`archloom.oracle.accesses.accumulations`)."""

    src: str
    window: Window
    type: TensorType
    kind: Literal["write", "accumulate"] = "write"


@dataclass(frozen=True)
class ResolvedRegion:
    """A ``def`` that an operator applies to tensors: operators alone, from the tensors ``inputs`` to ``results``."""

    name: str
    inputs: tuple[tuple[str, TensorType], ...]
    results: tuple[str, ...]
    statements: tuple["Op", ...]


@dataclass(frozen=True)
class Op:
    """``%dst = opcode(operands, attributes)`` with XLA-HLO meaning; attributes are sorted (name, value) pairs.

    Values are ints, strings, tuples of them, :class:`Real`, :class:`ResolvedRegion`, or, for ``constant``,
    :class:`Affine`.
    """

    dst: str
    opcode: str
    operands: tuple[str, ...]
    attributes: tuple[tuple[str, object], ...]
    type: TensorType

    def attribute(self, name: str, default: object = None) -> object:
        return next((v for k, v in self.attributes if k == name), default)


Statement: TypeAlias = Union[Read, Write, Op]


@dataclass(frozen=True)
class ResolvedInstr:
    """An instruction with every branch taken and every register known.

    ``attributes`` are the instruction's own; ``registers`` are the values of all control registers at its start (both
    as expressions over the loop variables; latencies may name either). An element of an array of registers goes by
    ``name[i]``. A register that the instruction does not read is left out where its value at that place is not
    worked out (every iteration assigns it before it is read) or has no one form for all iterations. ``statements``
    define each tensor once. ``source`` numbers the :class:`Instr` nodes of the stream in textual order, so that
    several resolved instructions may come from one.
    """

    mnemonic: str
    attributes: tuple[tuple[str, Affine], ...]
    registers: tuple[tuple[str, Affine], ...]
    statements: tuple[Statement, ...]
    source: int

    def touching(self, buffer: str | None = None) -> Iterator[Read | Write]:
        """The reads and writes (of ``buffer``, where one is given) in their order."""
        for statement in self.statements:
            if not isinstance(statement, Op) and buffer in (None, statement.window.buffer):
                yield statement


@dataclass(frozen=True)
class ResolvedLoop(Counted):
    """``for var in range(extent)``; a loop of the stream may become several where a branch depends on it.

    What :func:`~.resolve.resolve` makes has at least two iterations and a body that is not empty. The variables of the
    stream's loops are replaced accordingly everywhere.
    """

    var: str
    extent: int
    body: tuple["ResolvedNode", ...]


ResolvedNode: TypeAlias = Union[ResolvedInstr, ResolvedLoop]


@dataclass(frozen=True)
class ResolvedStream:
    """A stream resolved against its ISA: loop variables are unique in the whole of it (``i``, ``i.1``, ``i.2``, ...).

    ``buffers`` are those of the ISA, and ``hbm`` of the stream's size as the first.
    """

    name: str
    isa: str
    parameters: tuple[tuple[str, int], ...]
    buffers: tuple[Buffer, ...]
    arguments: tuple[HbmTensor, ...]
    results: tuple[HbmTensor, ...]
    hbm_bytes: int
    body: tuple[ResolvedNode, ...]

    def buffer(self, name: str) -> Buffer:
        return next(b for b in self.buffers if b.name == name)


@dataclass(frozen=True)
class Access:
    """What one instruction touches: a window of a buffer and how."""

    window: Window
    kind: Literal["read", "write", "accumulate"]
