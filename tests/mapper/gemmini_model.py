"""A plain NumPy transcription of Gemmini's public functional behaviour, independent of the TAIDL description.

Memories start with recognizable garbage, so that a stream that reads what it never wrote gives wrong results.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oracle.stream import Stream, flat_trace

NONE = 0xFFFFFFFF


def _f32(bits: int) -> np.float32:
    return np.uint32(bits).view(np.float32)


class GemminiModel:
    """Executes one stream instruction by instruction."""

    def __init__(self, stream: Stream, inputs: Mapping[str, np.ndarray]) -> None:
        p = dict(stream.parameters)
        self.dim = p["dim"]
        rng = np.random.default_rng(1)
        self.spad = rng.integers(-128, 128, (p["spad_rows"], self.dim), dtype=np.int8)
        self.acc = rng.integers(-1000, 1000, (p["acc_rows"], self.dim), dtype=np.int32)
        self.hbm = rng.integers(0, 256, stream.hbm_bytes, dtype=np.uint8)
        self.pe = np.full((self.dim, self.dim), 77, np.int32)
        self.ld: dict[int, dict[str, int]] = {}
        for tensor in stream.arguments:
            value = np.ascontiguousarray(inputs[tensor.name])
            assert value.shape == tensor.shape and value.dtype == tensor.dtype
            self.hbm[tensor.address:tensor.address + value.nbytes] = value.reshape(-1).view(np.uint8)
        for mnemonic, attributes in flat_trace(stream):
            getattr(self, mnemonic)(**attributes)
        self.results = {}
        for tensor in stream.results:
            size = int(np.prod(tensor.shape)) * np.dtype(tensor.dtype).itemsize
            raw = self.hbm[tensor.address:tensor.address + size]
            self.results[tensor.name] = raw.view(tensor.dtype).reshape(tensor.shape)

    def config_ex(self, **attributes: int) -> None:
        self.ex = attributes

    def config_ld(self, channel: int, **attributes: int) -> None:
        self.ld[channel] = attributes

    def config_st(self, **attributes: int) -> None:
        self.st = attributes

    def mvin(self, **attributes: int) -> None:
        self.load(0, **attributes)

    def mvin2(self, **attributes: int) -> None:
        self.load(1, **attributes)

    def mvin3(self, **attributes: int) -> None:
        self.load(2, **attributes)

    def load(self, channel: int, dram: int, local: int, cols: int, rows: int) -> None:
        cfg = self.ld[channel]
        assert cfg["scale"] == 0x3F800000 and 1 <= rows <= self.dim
        to_acc = local >> 31
        wide = to_acc and not cfg["shrunk"]
        size = 4 if wide else 1
        assert 1 <= cols <= max(self.dim, 64 // size)
        row = local & 0x1FFFFFFF
        for r in range(rows):
            at = dram + r * cfg["stride"]
            assert dram == 0 or (dram >= 1 and at + cols * size <= len(self.hbm))
            raw = self.hbm[at:at + cols * size] if dram else np.zeros(cols * size, np.uint8)
            values = raw.view(np.int32 if wide else np.int8)
            for first in range(0, cols, self.dim):
                part = values[first:first + self.dim]
                target = row + r + first // self.dim * cfg["block_stride"]
                if not to_acc:
                    assert target < len(self.spad)
                    self.spad[target, :len(part)] = part
                elif local >> 30 & 1:
                    self.acc[target, :len(part)] += part
                else:
                    assert target < len(self.acc)
                    self.acc[target, :len(part)] = part

    def scaled(self, sums: np.ndarray) -> np.ndarray:
        y = np.rint(sums.astype(np.float32) * _f32(self.st["scale"])).clip(-128, 127).astype(np.int8)
        return np.maximum(y, 0) if self.st["act"] else y

    def mvout(self, dram: int, local: int, cols: int, rows: int) -> None:
        assert local >> 31 and 1 <= cols <= self.dim and 1 <= rows <= self.dim and dram > 0
        row = local & 0x3FFFFFF
        if self.st["pool_stride"]:
            self.pool(dram, row, cols)
            return
        sums = self.acc[row:row + rows, :cols]
        out = sums if local >> 29 & 1 else self.scaled(sums)
        for r in range(rows):
            raw = np.ascontiguousarray(out[r]).view(np.uint8)
            at = dram + r * self.st["stride"]
            assert at + len(raw) <= len(self.hbm)
            self.hbm[at:at + len(raw)] = raw

    def pool(self, dram: int, row: int, cols: int) -> None:
        s = self.st
        assert row + s["orows"] * s["ocols"] <= len(self.acc)
        assert max(s[f] for f in ("pool_out_dim", "porows", "pocols", "orows", "ocols")) <= 255
        assert max(s[f] for f in ("pool_size", "pool_stride", "pool_upad", "pool_lpad")) <= 3
        image = self.scaled(self.acc[row:row + s["orows"] * s["ocols"], :cols]).reshape(s["orows"], s["ocols"], cols)
        for pr in range(s["porows"]):
            for pc in range(s["pocols"]):
                best = np.full(cols, -128, np.int8)
                for wr in range(s["pool_size"]):
                    for wc in range(s["pool_size"]):
                        r = pr * s["pool_stride"] + wr - s["pool_upad"]
                        c = pc * s["pool_stride"] + wc - s["pool_lpad"]
                        inside = 0 <= r < s["orows"] and 0 <= c < s["ocols"]
                        best = np.maximum(best, image[r, c] if inside else 0)
                at = dram + (pr * s["pool_out_dim"] + pc) * s["stride"]
                self.hbm[at:at + cols] = best.view(np.uint8)

    def preload(self, **attributes: int) -> None:
        self.pre = attributes

    def compute_preloaded(self, **attributes: int) -> None:
        p = self.pre
        self.pe[:] = 0
        if p["bd"] != NONE:
            self.pe[:p["bd_rows"], :p["bd_cols"]] = self.spad[p["bd"]:p["bd"] + p["bd_rows"], :p["bd_cols"]]
        self.compute_accumulated(**attributes)

    def compute_accumulated(self, a: int, bd: int, a_cols: int, a_rows: int, bd_cols: int, bd_rows: int) -> None:
        assert max(a_cols, a_rows, bd_cols, bd_rows) <= self.dim
        left = np.zeros((self.dim, self.dim), np.int32)
        step = self.ex["a_stride"]
        assert a + step * (a_rows - 1) < len(self.spad)
        left[:a_rows, :a_cols] = self.spad[a:a + step * a_rows:step][:a_rows, :a_cols]
        right = np.zeros((self.dim, self.dim), np.int32)
        if bd != NONE:
            right[:bd_rows, :bd_cols] = self.spad[bd:bd + bd_rows, :bd_cols]
        if self.ex["dataflow"]:
            results = right + left @ self.pe
        else:
            self.pe += left @ right
            results = self.pe
        c, rows, cols = self.pre["c"], self.pre["c_rows"], self.pre["c_cols"]
        if c == NONE:
            return
        assert c >> 31 and self.ex["c_stride"] == 1
        row = c & 0x1FFFFFFF
        assert row + rows <= len(self.acc)
        if c >> 30 & 1:
            self.acc[row:row + rows, :cols] += results[:rows, :cols]
        else:
            self.acc[row:row + rows, :cols] = results[:rows, :cols]
