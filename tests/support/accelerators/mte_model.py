"""MTE in NumPy: the tiles of Figure 3, sizes by equations 1 to 3, products element by element."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from tests.support.accelerators.intel import fma32

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
TYPES = ((8, 8), (16, 16), (32, 32), (64, 64), (8, 16), (16, 32), (32, 64), (8, 32))
"""Bits of elements of A and B, and of C, by ttypeio."""


fused = np.vectorize(fma32, otypes=[np.float32])


def geometry(vlen: int, rlen: int, sewi: int, sewo: int) -> tuple[int, int, int]:
    """The largest M, N and K: equation 2 for equal widths, equation 3 for others; at most 4095."""
    rows = vlen // rlen
    if sewi == sewo:
        found = rows, rlen // sewo, min(rows, rlen // sewo)
    else:
        found = rows, min(rows, rlen // sewo), rlen // sewi
    return tuple(min(n, 4095) for n in found)  # type: ignore[return-value]


def dtype_of(bits: int, floats: bool, brain: bool = False) -> np.dtype[Any]:
    if not floats:
        return np.dtype(f"int{bits}")
    return np.dtype(ml_dtypes.bfloat16) if brain and bits == 16 else np.dtype(f"float{bits}")


@dataclass
class Machine:
    """Vector registers and memory as bytes, and the CSR."""

    vlen: int
    rlen: int
    memory: Array
    registers: int = 32
    v: Array = field(init=False)
    tm: int = 0
    tn: int = 0
    tk: int = 0
    types: tuple[int, int] = (32, 32)

    def __post_init__(self) -> None:
        self.v = np.zeros((self.registers, self.vlen // self.rlen, self.rlen // 8), np.uint8)

    def tss(self, which: str, request: int, ttypeio: int) -> int:
        """``tssm``, ``tssn`` or ``tssk``: what is granted."""
        self.types = TYPES[ttypeio]
        size = min(request, geometry(self.vlen, self.rlen, *self.types)["mnk".index(which)])
        setattr(self, f"t{which}", size)
        return size

    def shape(self, operand: str) -> tuple[int, int, int]:
        """Rows, columns and bits of an element of a tile: of ``a``, ``b``, ``c`` or ``bt``."""
        sewi, sewo = self.types
        return {"a": (self.tm, self.tk, sewi), "b": (self.tk, self.tn, sewi), "c": (self.tm, self.tn, sewo),
                "bt": (self.tn, self.tk, sewi)}[operand]

    def load(self, operand: str, vd: int, address: int, stride: int, transposed: bool) -> None:
        rows, columns, bits = self.shape(operand)
        size = bits // 8
        for r in range(rows):
            for c in range(columns):
                at = address + (c * stride + r * size if transposed else r * stride + c * size)
                self.v[vd, r, c * size:(c + 1) * size] = self.memory[at:at + size]

    def store(self, vd: int, address: int, stride: int, transposed: bool) -> None:
        rows, columns, bits = self.shape("c")
        size = bits // 8
        for r in range(rows):
            for c in range(columns):
                at = address + (c * stride + r * size if transposed else r * stride + c * size)
                self.memory[at:at + size] = self.v[vd, r, c * size:(c + 1) * size]

    def tile(self, register: int, operand: str, dtype: np.dtype[Any]) -> Array:
        rows, columns, _ = self.shape(operand)
        return np.ascontiguousarray(self.v[register, :rows]).view(dtype)[:, :columns]

    def multiply(self, vd: int, vs1: int, vs2: int, floats: bool, brain: bool = False) -> None:
        """C += A * B: a chain over k from zero on, then added to C; of f32 the steps of the chain are fused."""
        sewi, sewo = self.types
        wide, inner = dtype_of(sewo, floats), dtype_of(sewi, floats, brain)
        a, c = self.tile(vs1, "a", inner).astype(wide), self.tile(vd, "c", wide)
        b = self.tile(vs2, "b" if sewi == sewo else "bt", inner).astype(wide)
        b = b if sewi == sewo else b.T
        total = np.zeros_like(c)
        for k in range(self.tk):
            left, right = np.broadcast_arrays(a[:, k:k + 1], b[k:k + 1])
            total = fused(left, right, total) if wide == np.float32 else total + left * right
        new = fused(total, np.ones_like(c), c) if wide == np.float32 else c + total
        rows, columns, bits = self.shape("c")
        self.v[vd, :rows, :columns * bits // 8] = np.ascontiguousarray(new).view(np.uint8)

    def mask(self, operand: str, vd: int, count: int) -> None:
        _, columns, bits = self.shape(operand)
        flat = self.v[vd].reshape(-1)
        found = np.unpackbits(flat, bitorder="little")
        found[:count] = np.arange(count) % (self.rlen // bits) < columns
        flat[:] = np.packbits(found, bitorder="little")
