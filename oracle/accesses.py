"""What an instruction touches, derived from its semantics: windows read, written and accumulated into.

Timing derives dependences, requests and bytes from these; nothing about them is written down a second time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from archloom.oracle.affine import Bounds
from archloom.oracle.resolved import Access, Buffer, Op, Read, ResolvedInstr, Window, Write
from archloom.oracle.taidl.types import element_type


def element_bits(dtype: str) -> int:
    """Bits that an element takes in a buffer (a truth value takes a byte)."""
    bits = element_type(dtype).bits
    return 8 if bits == 1 else bits


def accesses(instr: ResolvedInstr) -> tuple[Access, ...]:
    """The instruction's accesses in the order of its statements, without repetitions.

    A write that accumulates stands for its read of the old contents as well.
    """
    touching = [s for s in instr.statements if isinstance(s, (Read, Write))]
    targets = {s.src: s.window for s in touching if isinstance(s, Write) and s.kind == "accumulate"}
    swallowed = _old_contents(instr, targets) if targets else ()
    found: list[Access] = []
    windows: dict[tuple[str, str], list[Window]] = {}
    for s in touching:
        if isinstance(s, Write):
            kind: Literal["read", "write", "accumulate"] = s.kind
        elif s.dst not in swallowed:
            kind = "read"
        else:
            continue
        same = windows.setdefault((s.window.buffer, kind), [])
        if s.window not in same:
            same.append(s.window)
            found.append(Access(s.window, kind))
    return tuple(found)


def _old_contents(instr: ResolvedInstr, targets: Mapping[str, Window]) -> set[str]:
    """The tensors that hold what accumulating writes add to; ``targets`` are these writes, by what they write."""
    reads = {s.dst: s.window for s in instr.statements if isinstance(s, Read)}
    old: set[str] = set()
    for s in instr.statements:
        if isinstance(s, Op) and s.dst in targets:
            # one operand is the old contents, even where both were read from the window
            old.add(next(o for o in s.operands if reads.get(o) == targets[s.dst]))
    return old


def bytes_of(window: Window, buffer: Buffer) -> int:
    """Bytes of the distinct elements of the window, packed."""
    return -(-len(elements(window, buffer)) * element_bits(buffer.dtype) // 8)


def elements(window: Window, buffer: Buffer, values: Mapping[str, int] | None = None) -> np.ndarray:
    """The distinct elements of a window, int64 row-major positions in the buffer, in increasing order.

    With the loop variables' ``values`` they are absolute; without, relative to the window's first element.
    """
    base = [0 if values is None else o.evaluate(values) for o in window.offsets]
    position = np.zeros(window.shape, np.int64)
    strides = [math.prod(buffer.shape[a + 1:]) for a in range(len(buffer.shape))]
    for i, d in enumerate(window.dims):
        shape = [1] * len(window.dims)
        shape[i] = d.extent
        position = position + (np.arange(d.extent, dtype=np.int64) * (d.stride * strides[d.axis])).reshape(shape)
    origin = sum(b * s for b, s in zip(base, strides, strict=True))
    return np.unique(position) + origin


def words(window: Window) -> np.ndarray:
    """The distinct words of a window relative to its first: indices along axis 0 (rows; bytes of HBM), increasing."""
    return words_of_dims(tuple((d.extent, d.stride) for d in window.dims if d.axis == 0))


def words_of_dims(dims: Sequence[tuple[int, int]]) -> np.ndarray:
    """The distinct sums of ``stride * index`` over dims (extent, stride), increasing."""
    position = np.zeros(1, np.int64)
    for extent, stride in dims:
        position = np.unique(np.add.outer(position, np.arange(extent, dtype=np.int64) * stride))
    return position


def runs(window: Window, buffer: Buffer | None = None) -> tuple[tuple[int, int], ...]:
    """The maximal contiguous runs of words of a window as (first, count), first relative to the window's offset.

    A word is one index along axis 0 of the buffer: a row, or a byte of HBM; part of a row is a whole word. The runs do
    not depend on loop variables. ``buffer`` is only checked to be the window's.
    """
    if buffer is not None and buffer.name != window.buffer:
        raise ValueError(f"a window of ${window.buffer} has no runs in ${buffer.name}")
    w = words(window)
    starts = np.flatnonzero(np.diff(w, prepend=w[0] - 2) != 1)
    ends = np.append(starts[1:], len(w))
    return tuple((int(w[s]), int(e - s)) for s, e in zip(starts, ends, strict=True))


def span(window: Window, axis: int) -> tuple[int, int]:
    """The least and the greatest distance from the window's offset along an axis (inclusive)."""
    low = high = 0
    for d in window.dims:
        if d.axis == axis:
            reach = d.stride * (d.extent - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high


def footprint(window: Window, bounds: Bounds) -> tuple[tuple[int, int], ...]:
    """For each axis of the buffer the least and greatest index touched while the loop variables run (inclusive).

    Never too narrow; exact where offsets have no ``//`` and ``%``.
    """
    box: list[tuple[int, int]] = []
    for axis, offset in enumerate(window.offsets):
        low, high = offset.range(bounds)
        below, above = span(window, axis)
        box.append((low + below, high + above))
    return tuple(box)


def meet(a: Sequence[tuple[int, int]], b: Sequence[tuple[int, int]]) -> bool:
    """Whether two footprints of one buffer have a common box; where not, the windows never touch."""
    return all(low <= h and l <= high for (low, high), (l, h) in zip(a, b, strict=True))


def intersects(a: Window, at_a: Mapping[str, int], b: Window, at_b: Mapping[str, int]) -> bool:
    """Whether two windows have a common element, exactly, for concrete values of the loop variables.

    A window is a product over axes of sums of strides, so it is enough that the sets of indices meet on each axis.
    """
    if a.buffer != b.buffer:
        return False
    for axis in range(len(a.offsets)):
        first, second = a.offsets[axis].evaluate(at_a), b.offsets[axis].evaluate(at_b)
        if not _meet_on_axis(_dims(a, axis), first, _dims(b, axis), second):
            return False
    return True


def _dims(window: Window, axis: int) -> tuple[tuple[int, int], ...]:
    return tuple((d.extent, d.stride) for d in window.dims if d.axis == axis and d.extent > 1)


def _meet_on_axis(
    a: tuple[tuple[int, int], ...], first: int, b: tuple[tuple[int, int], ...], second: int
) -> bool:
    low_a, high_a = _reach(a, first)
    low_b, high_b = _reach(b, second)
    if high_a < low_b or high_b < low_a:
        return False
    dense = all(len(dims) <= 1 and all(abs(s) == 1 for _, s in dims) for dims in (a, b))
    return dense or bool(np.isin(words_of_dims(a) + first, words_of_dims(b) + second).any())


def _reach(dims: tuple[tuple[int, int], ...], first: int) -> tuple[int, int]:
    return (
        first + sum(min(0, s * (n - 1)) for n, s in dims),
        first + sum(max(0, s * (n - 1)) for n, s in dims),
    )
