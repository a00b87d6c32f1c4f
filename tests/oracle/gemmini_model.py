"""A plain model of Gemmini, element by element, written from the ISA's description and not from the TAIDL text.

It is what the TAIDL description is compared with. Only sizes that the ISA allows are given to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

NONE = 0xFFFFFFFF


def _wrap(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _saturate(value: int) -> int:
    return max(-128, min(127, value))


def _round_half_even(value: np.float32) -> int:
    """To the nearest integer in -1000..1000 (all that saturation to int8 needs)."""
    return round(max(-1000.0, min(1000.0, float(value))))


def scaled(value: int, bits: int) -> int:
    """An int32 times a float32, rounded, saturated to int8."""
    scale = np.array([bits], np.uint32).view(np.float32)[0]
    return _saturate(_round_half_even(np.float32(value) * scale))


def rounding_shift(value: int, amount: int) -> int:
    """``value / 2**amount`` to the nearest integer, ties to even."""
    if amount == 0:
        return value
    low, rest = value >> amount, value & ((1 << amount) - 1)
    half = 1 << (amount - 1)
    return low + (1 if rest > half or (rest == half and low % 2) else 0)


@dataclass
class Model:
    """Memories as lists of rows of Python integers; ``hbm`` as bytes."""

    dim: int
    hbm: np.ndarray
    spad: np.ndarray
    acc: np.ndarray
    pe: list[list[int]] = field(default_factory=list)
    ex: dict[str, int] = field(default_factory=lambda: {
        "dataflow": 0, "act": 0, "sys_shift": 0, "a_transpose": 0, "b_transpose": 0, "a_stride": 1, "c_stride": 1})
    ld: dict[int, dict[str, int]] = field(default_factory=dict)
    st: dict[str, int] = field(default_factory=dict)
    pre: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pe = [[0] * self.dim for _ in range(self.dim)]

    def step(self, mnemonic: str, a: dict[str, int]) -> None:
        getattr(self, mnemonic)(**a)

    def config_ex(self, *, set_only_strides: int, **fields: int) -> None:
        kept = ("a_stride", "c_stride") if set_only_strides else tuple(fields)
        self.ex.update({k: fields[k] for k in kept})

    def config_ld(self, *, channel: int, **fields: int) -> None:
        self.ld[channel] = fields

    def config_st(self, **fields: int) -> None:
        self.st = fields

    def preload(self, **fields: int) -> None:
        self.pre = fields

    def flush(self, skip: int) -> None:
        pass

    def fence(self) -> None:
        pass

    # --- moves ---

    def mvin(self, **a: int) -> None:
        self._load(0, **a)

    def mvin2(self, **a: int) -> None:
        self._load(1, **a)

    def mvin3(self, **a: int) -> None:
        self._load(2, **a)

    def _word(self, address: int, size: int) -> int:
        return int.from_bytes(self.hbm[address:address + size].tobytes(), "little", signed=True)

    def _load(self, channel: int, *, dram: int, local: int, cols: int, rows: int) -> None:
        c, base = self.ld[channel], local & 0x1FFFFFFF
        to_acc, add = local >> 31 & 1, local >> 30 & 1
        for i in range(rows):
            for j in range(cols):
                row, col = base + i + (j // self.dim) * c["block_stride"], j % self.dim
                size = 4 if to_acc and not c["shrunk"] else 1
                value = self._word(dram + i * c["stride"] + j * size, size) if dram else 0
                if size == 1:
                    value = scaled(value, c["scale"])
                if to_acc:
                    self.acc[row, col] = _wrap(value + (int(self.acc[row, col]) if add else 0))
                else:
                    self.spad[row, col] = value

    def _out(self, local: int, row: int, col: int) -> int:
        if not local >> 31 & 1:
            return int(self.spad[row, col])
        value = scaled(int(self.acc[row, col]), self.st["scale"])
        return max(value, 0) if self.st["act"] == 1 else value

    def mvout(self, *, dram: int, local: int, cols: int, rows: int) -> None:
        if self.st["pool_stride"]:
            self._pool(dram, local, cols)
            return
        base = local & 0x3FFFFFF
        whole = (local >> 31 & 1) and (local >> 29 & 1)
        for i in range(rows):
            for j in range(cols):
                row, col = base + i + (j // self.dim) * self.dim, j % self.dim
                if whole:
                    at = dram + i * self.st["stride"] + 4 * j
                    word = int(self.acc[row, col]).to_bytes(4, "little", signed=True)
                    self.hbm[at:at + 4] = np.frombuffer(word, np.int8)
                else:
                    self.hbm[dram + i * self.st["stride"] + j] = self._out(local, row, col)

    def _pool(self, dram: int, local: int, channels: int) -> None:
        s, base = self.st, local & 0x3FFFFFF
        for pr in range(s["porows"]):
            for pc in range(s["pocols"]):
                for ch in range(channels):
                    best = -128
                    for wr in range(s["pool_size"]):
                        for wc in range(s["pool_size"]):
                            r = pr * s["pool_stride"] + wr - s["pool_upad"]
                            c = pc * s["pool_stride"] + wc - s["pool_lpad"]
                            inside = 0 <= r < s["orows"] and 0 <= c < s["ocols"]
                            best = max(best, self._out(local, base + r * s["ocols"] + c, ch) if inside else 0)
                    self.hbm[dram + (pr * s["pool_out_dim"] + pc) * s["stride"] + ch] = best

    # --- the array ---

    def compute_preloaded(self, **a: int) -> None:
        p, n = self.pre, self.dim
        turned = self.ex["dataflow"] == 1 and self.ex["b_transpose"]
        for i in range(n):
            for j in range(n):
                value = 0
                if p["bd"] != NONE and i < p["bd_rows"] and j < p["bd_cols"]:
                    value = int(self.spad[p["bd"] + j, i] if turned else self.spad[p["bd"] + i, j])
                self.pe[i][j] = value
        self.compute_accumulated(**a)

    def _a(self, i: int, k: int, a: int, a_rows: int, a_cols: int) -> int:
        if a == NONE or i >= a_rows or k >= a_cols:
            return 0
        step = self.ex["a_stride"]
        return int(self.spad[a + step * k, i] if self.ex["a_transpose"] else self.spad[a + step * i, k])

    def compute_accumulated(self, *, a: int, bd: int, a_cols: int, a_rows: int, bd_cols: int, bd_rows: int) -> None:
        n, stationary = self.dim, self.ex["dataflow"] == 0
        left = np.array([[self._a(i, k, a, a_rows, a_cols) for k in range(n)] for i in range(n)], object)
        moving = np.zeros((n, n), object)
        for i in range(min(n, bd_rows)):
            for j in range(min(n, bd_cols)):
                if bd != NONE:
                    turned = stationary and self.ex["b_transpose"]
                    moving[i, j] = int(self.spad[bd + j, i] if turned else self.spad[bd + i, j])
        pe = np.array(self.pe, object)
        if stationary:
            pe = pe + left.dot(moving)
            self.pe = [[_wrap(x) for x in row] for row in pe]
            result = self.pe
        else:
            result = [[_wrap(x) for x in row] for row in moving + left.dot(pe)]
        if self.pre["c"] != NONE:
            self._put(result)

    def _put(self, result: list[list[int]]) -> None:
        c = self.pre["c"]
        for i in range(self.pre["c_rows"]):
            for j in range(self.pre["c_cols"]):
                row, value = (c & 0x1FFFFFFF) + self.ex["c_stride"] * i, result[i][j]
                if c >> 31 & 1:
                    old = int(self.acc[row, j]) if c >> 30 & 1 else 0
                    self.acc[row, j] = _wrap(old + value)
                else:
                    shift = self.ex["sys_shift"] if self.ex["dataflow"] == 0 else 0
                    small = _saturate(rounding_shift(value, shift))
                    self.spad[row, j] = max(small, 0) if self.ex["act"] == 1 else small
