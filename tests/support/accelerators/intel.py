"""Intel's pseudocode of the AMX dot products and of some AVX-512 operations, scalar by scalar and with exact fractions.

Transcribed from the operation sections of the Software Developer's Manual; nothing of archloom is used.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

LEAST_NORMAL = Fraction(1, 2**126)


def bits_of(x: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", x))[0])


def float_of(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def round32(x: Fraction, negative_zero: bool, flush: bool) -> float:
    """To float32, half to even; with ``flush``, what is tiny after rounding becomes a zero of its sign."""
    if x == 0:
        return -0.0 if negative_zero else 0.0
    exponent = abs(x.numerator).bit_length() - x.denominator.bit_length()
    if abs(x) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** ((exponent if flush else max(exponent, -126)) - 23)
    rounded = round(x / unit) * unit
    if flush and abs(rounded) < LEAST_NORMAL:
        return math.copysign(0.0, x)
    if abs(rounded) >= Fraction(2) ** 128:
        return math.copysign(math.inf, x)
    return math.copysign(float(abs(rounded)), x)


def fma32(a: float, b: float, c: float, flush: bool = False) -> float:
    """``a * b + c`` of float32 values with one rounding; ``flush``: DAZ and FTZ."""
    if flush:
        a, b, c = (math.copysign(0.0, v) if abs(v) < float(LEAST_NORMAL) else v for v in (a, b, c))
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    negative = math.copysign(1, a) * math.copysign(1, b) < 0 and math.copysign(1, c) < 0
    return round32(Fraction(a) * Fraction(b) + Fraction(c), negative, flush)


@dataclass
class Tile:
    """A tile register and its configuration."""

    rows: int
    colsb: int
    data: bytearray

    @staticmethod
    def load(rows: int, colsb: int, source: bytes) -> "Tile":
        """TILELOADD from dense rows: what the configuration leaves is zero."""
        data = bytearray(1024)
        for row in range(rows):
            data[64 * row:64 * row + colsb] = source[row * colsb:(row + 1) * colsb]
        return Tile(rows, colsb, data)

    def byte(self, row: int, index: int, signed: bool) -> int:
        value = self.data[64 * row + index]
        return value - 256 if signed and value >= 128 else value

    def dword(self, row: int, index: int) -> int:
        at = 64 * row + 4 * index
        return int.from_bytes(self.data[at:at + 4], "little")

    def bfloat16(self, row: int, index: int) -> float:
        at = 64 * row + 2 * index
        return float_of(int.from_bytes(self.data[at:at + 2], "little") << 16)

    def float16(self, row: int, index: int) -> float:
        at = 64 * row + 2 * index
        return float(struct.unpack("<e", self.data[at:at + 2])[0])

    def write(self, row: int, words: list[int]) -> None:
        """write_row_and_zero."""
        made = b"".join(w.to_bytes(4, "little") for w in words)
        self.data[64 * row:64 * row + 64] = made + bytes(64 - len(made))

    def array(self) -> np.ndarray:
        return np.frombuffer(bytes(self.data), np.int8).reshape(16, 64)


def dot_bytes(signed_a: bool, signed_b: bool) -> Callable[[Tile, Tile, Tile], None]:
    """TDPBSSD, TDPBSUD, TDPBUSD, TDPBUUD."""

    def run(dst: Tile, a: Tile, b: Tile) -> None:
        for m in range(dst.rows):
            words = [dst.dword(m, n) for n in range(dst.colsb // 4)]
            for k in range(a.colsb // 4):
                for n in range(dst.colsb // 4):
                    for i in range(4):
                        words[n] += a.byte(m, 4 * k + i, signed_a) * b.byte(k, 4 * n + i, signed_b)
            dst.write(m, [w % 2**32 for w in words])
        _zero_upper_rows(dst)

    return run


def dot_pairs(element: Callable[[Tile, int, int], float]) -> Callable[[Tile, Tile, Tile], None]:
    """TDPBF16PS, TDPFP16PS."""

    def run(dst: Tile, a: Tile, b: Tile) -> None:
        for m in range(dst.rows):
            sums = [0.0] * (dst.colsb // 2)
            for k in range(a.colsb // 4):
                for n in range(dst.colsb // 4):
                    for i in (0, 1):
                        at = 2 * n + i
                        sums[at] = fma32(element(a, m, 2 * k + i), element(b, k, at), sums[at], flush=True)
            words = []
            for n in range(dst.colsb // 4):
                pair = fma32(sums[2 * n], 1.0, sums[2 * n + 1], flush=True)
                words.append(bits_of(fma32(float_of(dst.dword(m, n)), 1.0, pair, flush=True)))
            dst.write(m, words)
        _zero_upper_rows(dst)

    return run


def _zero_upper_rows(tile: Tile) -> None:
    for row in range(tile.rows, 16):
        tile.data[64 * row:64 * row + 64] = bytes(64)


PRODUCTS: dict[str, Callable[[Tile, Tile, Tile], None]] = {
    "tdpbssd": dot_bytes(True, True), "tdpbsud": dot_bytes(True, False), "tdpbusd": dot_bytes(False, True),
    "tdpbuud": dot_bytes(False, False), "tdpbf16ps": dot_pairs(Tile.bfloat16),
    "tdpfp16ps": dot_pairs(Tile.float16),
}


def maximum(a: float, b: float) -> float:
    """MAX of MAXPS: the second where both are zeros or one is no number."""
    if (a == 0 and b == 0) or math.isnan(a) or math.isnan(b):
        return b
    return a if a > b else b


def minimum(a: float, b: float) -> float:
    if (a == 0 and b == 0) or math.isnan(a) or math.isnan(b):
        return b
    return a if a < b else b


def to_i32(x: float) -> int:
    """CVTPS2DQ as the word's bits, with rounding to even: the integer indefinite where it does not fit."""
    if not math.isfinite(x) or not -(2**31) <= round(Fraction(x)) < 2**31:
        return 0x80000000
    return round(Fraction(x)) % 2**32
