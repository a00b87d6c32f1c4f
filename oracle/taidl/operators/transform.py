"""The Fourier transform: sums in f64 in the order of the axis, of factors that are the same everywhere, rounded once.

Twiddle factors are exact in their symmetries (a quarter turn is i), so that what cancels in a transform of real numbers
does. A sum of n terms in f64 is within n * 2^-52 of the sum of the magnitudes, before it is rounded to f32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from archloom.oracle.resolved import Dim, Shaped, TensorType
from archloom.oracle.taidl.operators import base, elementary, numbers
from archloom.oracle.taidl.operators.base import Attribute, Attributes, Opcode, integers, ints
from archloom.oracle.taidl.operators.complexes import parts
from archloom.oracle.taidl.types import Array

KINDS = {"fft": ("c64", "c64"), "ifft": ("c64", "c64"), "rfft": ("f32", "c64"), "irfft": ("c64", "f32")}
"""Element types of the operand and of the result."""


def _extents(kind: str, length: Sequence[Dim], given: bool) -> list[Dim]:
    """The transformed axes of the operand (``given``) or of the result; the real side has them whole."""
    half = (kind, given) in (("rfft", False), ("irfft", True))
    tail = length[-1]
    return [*length[:-1], (tail // 2 + 1 if isinstance(tail, int) else "?") if half else tail]


def _rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,), kind, length = operands, str(a["fft_type"]), integers(a, "fft_length")
    source, target = KINDS[kind]
    if x.dtype != source:
        return f"{{}} of type {kind} takes {source}, found {x}"
    if not 1 <= len(length) <= len(x.shape):
        return f"fft_length has an entry for each of the last axes of {x} that are transformed, found {len(length)}"
    lead = x.shape[:len(x.shape) - len(length)]
    wanted = Shaped((*lead, *_extents(kind, length, True)), source)
    if base.types_differ(x, wanted):
        return f"{{}} of type {kind} with fft_length={base.show(length)} takes {wanted}, found {x}"
    return base.wrong(result, [*lead, *_extents(kind, length, False)], target)


# --- one axis -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _twiddles(n: int) -> tuple[Array, Array]:
    """Cosine and sine of ``2 pi j k / n`` for j and k in 0 .. n - 1, of angles up to an eighth of a turn."""
    quarter, rest = np.divmod(4 * np.arange(n), n)
    far = 2 * rest > n
    angle = np.where(far, n - rest, rest) / n * (math.pi / 2)
    first, second = elementary.cosine(elementary.PLAIN, angle), elementary.sine(elementary.PLAIN, angle)
    cosine, sine = np.where(far, second, first), np.where(far, first, second)
    for turns in (1, 2, 3):
        cosine, sine = np.where(quarter >= turns, -sine, cosine), np.where(quarter >= turns, cosine, sine)
    places = np.outer(np.arange(n), np.arange(n)) % n
    return cosine[places], sine[places]


def _along(lib: Any, r: elementary.Reals, z: Any, axis: int, inverse: bool) -> Any:
    """The transform of z, whose axis 0 has the real and the imaginary part, along an axis."""
    z = lib.xp.moveaxis(z, axis, -1)
    n = z.shape[-1]
    cosine, sine = map(lib.xp.asarray, _twiddles(n))
    turned = -sine if inverse else sine

    def term(j: Any, total: Any) -> Any:
        a, b = (lib.at(z[i], j, z.ndim - 2)[..., None] for i in range(2))
        c, s = lib.at(cosine, j, 0), lib.at(turned, j, 0)
        real, imaginary = r.plus(r.times(a, c), r.times(b, s)), r.minus(r.times(b, c), r.times(a, s))
        return r.plus(total, lib.xp.stack([real, imaginary]))

    total = lib.repeat(0, n, term, lib.xp.zeros_like(z))
    return lib.xp.moveaxis(r.over(total, np.float64(n)) if inverse else total, -1, axis)


# --- all axes -----------------------------------------------------------------------------------------------------


def _mirrored(lib: Any, z: Any, n: int) -> Any:
    """The whole last axis of a transform of real numbers, of its half: what is missing is conjugate."""
    rest = lib.xp.flip(z[..., 1:(n + 1) // 2], -1)
    return lib.xp.concatenate([z, lib.xp.stack([rest[0], -rest[1]])], -1)


def _transformed(lib: Any, kind: str, length: Sequence[int], r: elementary.Reals, z: Any) -> Any:
    axes, inverse = range(z.ndim - len(length), z.ndim), kind in ("ifft", "irfft")
    for axis in axes[:-1] if kind == "irfft" else reversed(axes):
        z = _along(lib, r, z, axis, inverse)
        if kind == "rfft" and axis == z.ndim - 1:
            z = z[..., :length[-1] // 2 + 1]
    return _along(lib, r, _mirrored(lib, z, length[-1]), z.ndim - 1, True) if kind == "irfft" else z


def _fft(lib: Any, result: TensorType, x: Sequence[Any], a: Mapping[str, Any], types: Sequence[str]) -> Any:
    kind = a["fft_type"]
    both = (x[0], lib.xp.zeros_like(x[0])) if kind == "rfft" else parts(lib, x[0])
    around = elementary.in_numpy if lib is numbers else elementary.in_jax
    made = around(partial(_transformed, lib, kind, a["fft_length"]))(lib.xp.stack(both))
    return made[0] if kind == "irfft" else lib.pair(made[0], made[1])


ROWS: list[Opcode] = [
    Opcode("fft", 1, _rule, *base.in_both(_fft), "opaque",
           "the Fourier transform of the last axes, as long as `fft_length` says; inverse ones are divided by that; "
           "computed in f64, rounded once", (Attribute("fft_type", "word", tuple(KINDS)), ints("fft_length"))),
]
