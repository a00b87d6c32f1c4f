"""A plain model of Gemmini, element by element, written from the ISA's description and not from the TAIDL text.

It is what the TAIDL description is compared with. Only sizes that the ISA allows are given to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tests.support.accelerators import ibert_model as ibert

NONE = 0xFFFFFFFF
RESET, SUM, MEAN, VARIANCE, INV_STDDEV, MAX, SUM_EXP, INV_SUM_EXP = range(8)
LAYERNORM, IGELU, SOFTMAX = 2, 3, 4


def _wrap(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _saturate(value: int) -> int:
    return max(-128, min(127, value))


def _round_half_even(value: np.float32) -> int:
    """To the nearest integer in -1000..1000 (all that saturation to int8 needs)."""
    return 0 if np.isnan(value) else round(max(-1000.0, min(1000.0, float(value))))


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
class Statistics:
    """What is known of a row."""

    total: int = 0
    count: int = 0
    top: int = -(2**31)
    most: int = 0
    mean: int = 0
    inv_stddev: np.float32 = field(default_factory=np.float32)
    inv_sum_exp: np.float32 = field(default_factory=np.float32)
    fresh: bool = True
    """Whether the next element is the first one."""


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
    statistics: list[Statistics] = field(default_factory=lambda: [Statistics() for _ in range(4)])
    stat_id: int = 0
    constants: ibert.Constants = field(default_factory=ibert.Constants)

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
        softmax = self.st.get("act") == SOFTMAX and fields["act"] == 0
        self.st = {**fields, "act": SOFTMAX} if softmax else fields

    def config_norm(self, *, q_const: int, q_const_type: int, set_stats_id_only: int, act_msb: int, stat_id: int,
                    igelu_qb: int, igelu_qc: int) -> None:
        self.stat_id = stat_id
        if not set_stats_id_only:
            name = "ln2_inv" if q_const_type else "ln2"
            self.constants = replace(self.constants, b=_wrap(igelu_qb), c=_wrap(igelu_qc), **{name: _wrap(q_const)})
            if act_msb:
                self.st["act"] = SOFTMAX

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
        value = scaled(self._activated(int(self.acc[row, col])), self.st["scale"])
        return max(value, 0) if self.st["act"] == 1 else value

    def mvout(self, *, dram: int, local: int, cols: int, rows: int) -> None:
        if self.st["pool_stride"]:
            self._pool(dram, local, cols)
            return
        base, command = local & 0x3FFFFFF, local >> 26 & 7
        if command:
            self._gather(command, [int(self.acc[base + (j // self.dim) * self.dim, j % self.dim]) for j in range(cols)])
            return
        if local >> 31 & 1:
            self.statistics[self.stat_id].fresh = True
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

    def _activated(self, value: int) -> int:
        """An int32 through what comes before the scale."""
        s, act, one = self.statistics[self.stat_id], self.st["act"], np.array([value], np.int64)
        if act == IGELU:
            return int(ibert.gelu(one, self.constants)[0])
        if act == SOFTMAX:
            power = ibert.exponential(ibert.wrap(one - s.most), self.constants)
            return int(ibert.to_int8(power, s.inv_sum_exp)[0])
        if act == LAYERNORM:
            with np.errstate(all="ignore"):
                return int(ibert.to_int32(np.float32(ibert.wrap(one - s.mean)) * s.inv_stddev)[0])
        return value

    def _gather(self, command: int, row: list[int]) -> None:
        """The statistics of ``row`` into those that were gathered before."""
        s = self.statistics[self.stat_id]
        if s.fresh:
            s.total, s.count, s.top = 0, 0, -(2**31)
        s.fresh = command in (MEAN, INV_STDDEV)
        if command in (SUM, MEAN, VARIANCE, INV_STDDEV):
            about = s.mean if command in (VARIANCE, INV_STDDEV) else None
            s.count += len(row)
            for x in row:
                s.total = _wrap(s.total + (x if about is None else _wrap(_wrap(x - about) ** 2)))
        elif command == MAX:
            s.top = max(s.top, *row)
        else:
            s.most = s.top
            powers = ibert.exponential(ibert.wrap(np.array(row) - s.most), self.constants)
            s.total = int(ibert.wrap(s.total + int(powers.sum())))
        if command == MEAN:
            s.mean = ibert.divide(s.total, s.count)
        if command == INV_STDDEV:
            variance = ibert.divide(s.total, s.count)
            deviation = int(np.sqrt(max(0, variance))) if variance else 1
            with np.errstate(all="ignore"):
                s.inv_stddev = np.float32(1) / np.float32(deviation)
        if command == INV_SUM_EXP:
            s.top = -(2**31)
            with np.errstate(all="ignore"):
                s.inv_sum_exp = np.float32(127) / np.float32(s.total)

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
