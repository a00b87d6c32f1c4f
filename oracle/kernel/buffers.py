"""Buffers and control registers as debug points name them."""

from __future__ import annotations

from typing import Any

from archloom.oracle.affine import Affine
from archloom.oracle.kernel.index import Index, call_site, constant, fault
from archloom.oracle.kernel.recording import Part, Point, Registers, recorder
from archloom.oracle.resolved import Buffer
from archloom.oracle.taidl.evaluate import register_key
from archloom.oracle.taidl.isa import HBM, Isa, Register


class BufferView:
    """A tensor buffer; an index or slices, as of NumPy, give the part of it that is printed."""

    def __init__(self, isa: Isa, buffer: Buffer) -> None:
        self._isa = isa
        self._buffer = buffer

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, then the base type; HBM's is that of the kernel."""
        return self._buffer.shape

    def __getitem__(self, key: Any) -> Part:
        name, shape = self._buffer.name, self._buffer.shape
        keys = list(key) if isinstance(key, tuple) else [key]
        dots = [n for n, k in enumerate(keys) if k is Ellipsis]
        if len(dots) > 1 or len(keys) - len(dots) > len(shape):
            raise fault(f"{name} has {len(shape)} axes, found {len(keys)} indices")
        at = dots[0] if dots else len(keys)
        missing = len(shape) - (len(keys) - len(dots))
        keys[at:at + len(dots)] = [slice(None)] * missing
        # the extent of HBM is not known here
        limits = (None,) if name == HBM else shape
        axes = [_axis(name, n, k, size) for n, (k, size) in enumerate(zip(keys, limits, strict=True))]
        return Part(name, tuple(a[0] for a in axes), tuple(a[1] for a in axes), tuple(a[2] for a in axes),
                    tuple(a[3] for a in axes))

    def __repr__(self) -> str:
        return f"{self._isa.name}.{self._buffer.name}"


def _axis(name: str, axis: int, key: Any, size: int | None) -> tuple[Affine, int, int, bool]:
    """Start, extent, stride of one axis, and whether it is kept."""
    what = f"axis {axis} of {name}"
    if not isinstance(key, slice):
        start = _bound(key, what, size)
        extent, step, stop = 1, 1, start + 1
    else:
        step = 1 if key.step is None else constant(key.step, f"the step along {what}")
        if step < 1:
            raise fault(f"{what}: expected a step of at least 1, found {step}")
        start = Affine(0) if key.start is None else _bound(key.start, what, size)
        if key.stop is None and size is None:
            raise fault(f"{what}: expected where the slice ends")
        stop = Affine(size or 0) if key.stop is None else _bound(key.stop, what, size)
        length = stop - start
        if not length.is_constant:
            raise fault(f"{what}: expected a slice of constant length, found {start}:{stop}")
        extent = -(-length.constant // step)
    if extent < 1:
        raise fault(f"{what}: expected at least one element, found {start}:{stop}")
    if size is not None and start.is_constant and not 0 <= start.constant <= size - (extent - 1) * step - 1:
        raise fault(f"{what}: expected elements in 0..{size}, found {start}:{stop}")
    return start, extent, step, isinstance(key, slice)


def _bound(key: Any, what: str, size: int | None) -> Affine:
    if isinstance(key, Index):
        return recorder("a debug point").expression(key, what)
    value = constant(key, what)
    return Affine(value + size if value < 0 and size is not None else value)


class RegisterView:
    """A control register, or an array of them, of which an index gives one."""

    def __init__(self, isa: Isa, register: Register) -> None:
        self._isa = isa
        self._register = register

    def __getitem__(self, key: int) -> Registers:
        r = self._register
        number = constant(key, f"an index of register {r.name}")
        if r.size is None or not 0 <= number < r.size:
            raise fault(f"{r.name} is no array of registers" if r.size is None else
                        f"register {r.name}: expected an index in 0..{r.size - 1}, found {number}")
        return Registers((register_key(r.name, number),), True)

    @property
    def whole(self) -> Registers:
        """The register, or all of the array."""
        return Registers(self._register.keys, self._register.size is None)

    def __repr__(self) -> str:
        return f"{self._isa.name}.{self._register.name}"


def point(prefix: str, data: Any) -> Point:
    """What ``debug(prefix, data)`` asks for; StreamError for data that is no buffer, slice of one or register."""
    if not isinstance(prefix, str):
        raise fault(f"debug: expected a text as prefix, found {prefix!r}")
    if isinstance(data, BufferView):
        data = data[...]
    elif isinstance(data, RegisterView):
        data = data.whole
    elif isinstance(data, Index):
        data = recorder("debug").expression(data, "data")
    if data is not None and not isinstance(data, (Part, Registers, Affine)):
        raise fault(f"debug: expected a buffer, a slice of one, a register or a loop variable, found {data!r}")
    return Point(prefix, data, call_site())
