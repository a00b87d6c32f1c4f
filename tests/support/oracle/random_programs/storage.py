"""Random reads and writes of buffers and HBM: indices, ranges with steps, windows, reversed axes, whole axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from archloom.oracle.resolved import Dim, Shaped
from archloom.oracle.taidl.types import element_type, storage_bits
from tests.support.oracle.random_programs.scope import Scope, fixed, has_nan

if TYPE_CHECKING:
    from tests.support.oracle.random_programs.isas import Storage

# --- buffers ------------------------------------------------------------------------------------------------------


def _groups(b: Scope, rank: int, parts: int) -> list[int]:
    """So many axes, at least one each, for each of ``parts`` axes of a buffer."""
    cuts = sorted(b.r.sample(range(1, rank), parts - 1))
    return [y - x for x, y in zip([0, *cuts], [*cuts, rank], strict=True)]


def read(b: Scope, kind: Shaped) -> str | None:
    """A tensor of the type from a buffer that has it; extents that do not fit are met by strides of 0."""
    buffers = [s for s in b.isa.buffers if s.dtype == kind.dtype]
    if not buffers:
        return None
    buffer = b.r.choice(buffers)
    shape: tuple[Dim, ...] = kind.shape
    missing = len(buffer.shape) - len(shape)
    if missing > 0:
        shape = (*(1,) * missing, *shape)
    if missing > 0 and not fixed(shape):
        return None
    axes = []
    at = 0
    for extent, count in zip(buffer.shape, _groups(b, len(shape), len(buffer.shape)) if buffer.shape else [],
                             strict=True):
        axes.append(_axis(b, extent, shape[at:at + count], reading=True))
        at += count
    if not buffer.shape and shape:
        return None
    wide = Shaped(shape, kind.dtype)
    name = b.fresh()
    b.emit(f"%{name}:{wide} <- ${buffer.name}{_brackets(b, buffer, axes)};")
    b.define(name, wide)
    return b.op(kind, "reshape", name) if missing > 0 else name


def _brackets(b: Scope, buffer: Storage, axes: list[str]) -> str:
    """Trailing axes that are whole may be left out."""
    while axes and axes[-1] == ":" and b.chance(0.5):
        axes.pop()
    return f"[{', '.join(axes)}]" if axes else ""


def _axis(b: Scope, extent: int, wanted: Sequence[Dim], reading: bool) -> str:
    """The text of one axis of a slice that gives axes of the wanted extents."""
    r = b.r
    if len(wanted) == 1:
        (n,) = wanted
        most = b.most(n)
        if n == extent and b.chance(0.7):
            return r.choice([":", ":", f"0:{extent}", "::-1"])
        if isinstance(n, str):
            if most <= extent:
                start = b.expression(extent - most)
                return r.choice([f"{start} : {start} + {n}", f"{start} + {{{n} : 1}}"])
        elif n == 1 and b.chance(0.6):
            return r.choice([b.expression(extent - 1), b.expression(extent - 1), f"-{r.randint(1, extent)}"])
        elif most <= extent:
            step = r.randint(1, (extent - 1) // (n - 1)) if n > 1 and b.chance(0.3) else 1
            start = b.expression(extent - (n - 1) * step - 1)
            if step > 1:
                return r.choice([f"{start} : {start} + {(n - 1) * step + 1} : {step}", f"{start} + {{{n} : {step}}}"])
            if b.chance(0.1):
                return f"{extent - 1} : {extent - 1 - n} : -1" if extent > n else "::-1"
            return r.choice([f"{start} : {start} + {n}", f"{start} + {{{n} : 1}}"])
    reach, entries, inner = 0, [], 1
    for n in reversed(wanted):
        count = b.most(n)
        least = 0 if reading else inner
        room = (extent - 1 - reach) // (count - 1) if count > 1 else 4
        # what is written must leave room for the axes outside
        most_stride = room if reading or len(wanted) == 1 or entries else 1
        stride = r.randint(least, most_stride) if most_stride >= least and (not reading or b.chance(0.9)) else 0
        reach += stride * (count - 1)
        inner = max(inner, stride * (count - 1) + inner)
        entries.append(f"{n} : {stride}")
    return f"{b.expression(extent - 1 - reach)} + {{{', '.join(reversed(entries))}}}"


def write_shape(b: Scope, buffer: Storage) -> tuple[Dim, ...]:
    """Extents of a slice of a buffer: some axes whole, some a part."""
    shape: list[Dim] = []
    for extent in buffer.shape:
        if b.rows is not None and b.most("rows") <= extent and "rows" not in shape and b.chance(0.6):
            shape.append("rows")
        else:
            shape.append(b.r.choice([extent, extent, 1, b.r.randint(1, extent)]))
    return tuple(shape)


def write(b: Scope, buffer: Storage, name: str, kind: Shaped) -> None:
    """Write a tensor with one axis for each of the buffer, or, where one is split in two, one more."""
    axes, at = [], 0
    rank = len(buffer.shape)
    for extent in buffer.shape:
        count = 2 if len(kind.shape) > rank and at == 0 else 1
        axes.append(_axis(b, extent, kind.shape[at:at + count], reading=False))
        at += count
    typed = f":{kind}" if b.chance(0.2) else ""
    if buffer.name in b.isa.viewed:
        name = without_nan(b, name, kind)
    b.emit(f"%{name}{typed} -> ${buffer.name}{_brackets(b, buffer, axes)};")


def split(b: Scope, buffer: Storage, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape with its first axis as two, if that fits the buffer as a window whose elements are different."""
    first = shape[0] if shape else 1
    if isinstance(first, int) and first >= 4 and first % 2 == 0 and first <= buffer.shape[0] and b.chance(0.3):
        return (2, first // 2, *shape[1:])
    return shape


# --- HBM ----------------------------------------------------------------------------------------------------------


def _packing(dtype: str) -> tuple[int, int]:
    """Bytes of an element and elements of a byte; one of them is 1."""
    bits = storage_bits(element_type(dtype).bits)
    return max(1, bits // 8), max(1, 8 // bits)


def _places(
    b: Scope, dtype: str, shape: Sequence[Dim], reading: bool, dense: bool = False
) -> tuple[str, list[int]] | None:
    """Where a tensor of bytes of the region for a type lies: the address, and the strides of its axes in bytes."""
    region = b.isa.region(dtype)
    size, _ = _packing(dtype)
    strides, inner = [], size
    for n in reversed(shape):
        stride = inner * (1 if dense else b.r.choice([1, 1, 1, 2]))
        if reading and b.chance(0.2):
            stride = size * b.r.randint(0, 3)
        strides.append(stride)
        inner = max(inner, stride * (b.most(n) - 1) + inner)
    strides.reverse()
    reach = sum(s * (b.most(n) - 1) for s, n in zip(strides, shape, strict=True)) + size
    if reach > region.bytes:
        return None if reading or dense else _places(b, dtype, shape, reading, dense=True)
    high = (region.bytes - reach) // size
    if b.may_add and (not b.integers or b.chance(0.7)):
        return b.attribute(high, region.address, size), strides
    steady = b.expression(high)
    return f"{region.address} + {size} * ({steady})", strides


def load(b: Scope, kind: Shaped) -> str | None:
    """A tensor of the type from its region of HBM."""
    dtype, shape = kind.dtype, kind.shape
    if dtype not in b.isa.regions:
        return None
    size, per = _packing(dtype)
    if per > 1:
        if not shape or not isinstance(shape[-1], int) or shape[-1] % per:
            return None
        shape = (*shape[:-1], shape[-1] // per)
    place = _places(b, dtype, shape, reading=True)
    if place is None:
        return None
    address, strides = place
    entries = [f"{n} : {s}" for n, s in zip(shape, strides, strict=True)]
    bytes_shape: tuple[Dim, ...] = shape
    if size > 1 or not shape:
        entries.append(f"{size} : 1")
        bytes_shape = (*shape, size)
    name = b.fresh()
    held = Shaped(bytes_shape, "i8")
    b.emit(f"%{name}:{held} <- $hbm[{address} + {{{', '.join(entries)}}}];")
    b.define(name, held)
    if dtype == "i1":
        made = Shaped(bytes_shape, "i1")
        name = b.op(made, "convert", name)
        return name if made == kind else b.op(kind, "reshape", name)
    if per > 1:
        made = Shaped((*shape, per), dtype)
        return b.op(kind, "reshape", b.op(made, "bitcast_convert", name))
    if size == 1 and not kind.shape:
        name = b.op(Shaped((), "i8"), "reshape", name)
    return name if dtype == "i8" else b.op(kind, "bitcast_convert", name)


def store_shape(b: Scope, dtype: str) -> tuple[Dim, ...]:
    """Extents of what may be stored in the region for a type."""
    _, per = _packing(dtype)
    shape: list[Dim] = [b.r.randint(1, 4) for _ in range(b.r.randint(0 if per == 1 else 1, 2))]
    if per > 1:
        shape[-1] = per * b.r.randint(1, 2)
    elif b.rows is not None and shape and b.chance(0.4):
        shape[0] = "rows"
    return tuple(shape)


def store(b: Scope, name: str, kind: Shaped) -> None:
    """Write a tensor into its region of HBM; NaN without a place of its type there becomes a number first."""
    dtype, shape = kind.dtype, kind.shape
    size, per = _packing(dtype)
    if b.isa.regions[dtype].numpy == "int8":
        name = without_nan(b, name, kind)
    if per > 1:
        shape = (*shape[:-1], int(shape[-1]) // per)
    place = _places(b, dtype, shape, reading=False)
    assert place is not None, (kind, b.isa.regions[dtype])
    address, strides = place
    if dtype == "i1":
        name = b.op(Shaped(shape, "i8"), "convert", name)
    elif per > 1:
        name = b.op(Shaped(shape, "i8"), "bitcast_convert", b.op(Shaped((*shape, per), dtype), "reshape", name))
    elif dtype != "i8":
        name = b.op(Shaped((*shape, size) if size > 1 else shape, "i8"), "bitcast_convert", name)
    entries = [f"{n} : {s}" for n, s in zip(shape, strides, strict=True)]
    held: tuple[Dim, ...] = shape
    if size > 1:
        entries.append(f"{size} : 1")
        held = (*shape, size)
    if not entries:
        entries, held = ["1 : 1"], (1,)
        name = b.op(Shaped((1,), "i8"), "reshape", name)
    b.emit(f"%{name}:{Shaped(held, 'i8')} -> $hbm[{address} + {{{', '.join(entries)}}}];")


def without_nan(b: Scope, name: str, kind: Shaped) -> str:
    """The tensor with a number in place of NaN, whose bits then may be looked at."""
    if not has_nan(kind.dtype):
        return name
    same = b.op(Shaped(kind.shape, "i1"), "compare", name, name, direction="eq")
    return b.op(kind, "select", same, name, b.value(kind, b.r.choice(["0", "1", "1.5"])))


def count(shape: Sequence[int]) -> int:
    """Elements of a shape."""
    return math.prod(shape)
