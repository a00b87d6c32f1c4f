"""Random programs of TPU v1, QKV and AMX, with loops: the oracle equals the interpreter bit for bit."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from archloom.oracle.kernel import Kernel, KernelIsa, isa
from archloom.oracle.taidl.types import of_numpy
from tests.support.examples import every
from tests.support.oracle.operator_cases import equal

DIM = 3
TILE = DIM * DIM
TPU_BYTES = 64 * TILE
AMX_BYTES = 2048


class _Tpu:
    """Instructions drawn at random, of which the FIFO allows some."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.t = isa("tpu_v1", dim=DIM, ub_rows=64, acc_rows=32)
        self.full = 0
        """Tiles in the FIFO."""
        self.taken = False

    def at(self, index: Any, most: int, rows: int = 1) -> Any:
        """An address below ``most - rows`` that may move with the loop."""
        r = self.r
        step = r.randint(0, 2)
        return index * step + r.randint(0, most - rows - 2 * 5)

    def step(self, index: Any, allow: str) -> None:
        r, api = self.r, self.t.api
        rows = r.randint(1, 4)
        if allow == "push":
            self.full += 1
            if r.random() < 0.5:
                api.read_weights(addr=self.at(index, TPU_BYTES, TILE + 1))
            else:
                api.read_weights_strided(addr=self.at(index, TPU_BYTES, 5 * DIM), rows=r.randint(1, DIM),
                                         cols=r.randint(1, DIM), stride=DIM + r.randint(0, 1))
        elif allow == "take":
            self.full -= 1
            self.taken = True
            self.product(index, rows, 1)
        elif allow == "keep":
            self.product(index, rows, 0)
        elif allow == "host":
            api.read_host_memory(addr=self.at(index, TPU_BYTES, 4 * DIM + 4), ub=self.at(index, 40, 4), rows=rows,
                                 cols=r.randint(1, DIM), stride=DIM + r.randint(0, 1))
        elif allow == "bias":
            api.read_bias(addr=self.at(index, TPU_BYTES, 4 * DIM), acc=self.at(index, 32, 4), rows=rows,
                          cols=r.randint(1, DIM))
        elif r.random() < 0.7:
            api.activate(acc=self.at(index, 32, 4), ub=self.at(index, 40, 4), rows=rows, function=r.randint(0, 1),
                         scale=int(np.float32(r.choice([1, 0.3, 1 / 64])).view(np.uint32)))
        else:
            api.activate_pool(acc=self.at(index, 32, 9), ub=self.at(index, 40, 4), height=3, width=3, size=2, step=1,
                              function=1, scale=self.t.ONE)

    def product(self, index: Any, rows: int, take: int) -> None:
        r, api = self.r, self.t.api
        if r.random() < 0.7:
            api.matrix_multiply(ub=self.at(index, 64, 4), acc=self.at(index, 32, 4), rows=rows, take=take,
                                accumulate=r.randint(0, 1))
        else:
            api.convolve(ub=self.at(index, 40, 4), row_step=3, pixel_step=r.randint(1, 2), acc=self.at(index, 32, 4),
                         height=2, width=2, take=take, accumulate=r.randint(0, 1))

    def kinds(self, pushes: int, takes: int) -> list[str]:
        """An order in which the FIFO neither runs over nor empty."""
        r = self.r
        level, order = self.full, []
        while pushes or takes:
            if pushes and level < 4 and (not takes or level == 0 or r.random() < 0.5):
                order, level, pushes = [*order, "push"], level + 1, pushes - 1
            elif takes and level:
                order, level, takes = [*order, "take"], level - 1, takes - 1
            else:
                break
            if r.random() < 0.6:
                order.append(r.choice(["host", "bias", "activate"] + ["keep"] * (self.taken or "take" in order)))
        return order


def tpu_program(seed: int) -> Kernel:
    """Tiles pushed and taken in any order that the FIFO allows, products over and onto accumulators, activations."""
    drawn = _Tpu(seed)

    @drawn.t.kernel(
        arg={"addr": 0, "shape": (TPU_BYTES,), "dtype": "int8", "name": "X"},
        res={"addr": TPU_BYTES, "shape": (54, DIM), "dtype": "int8", "name": "Y"},
    )
    def program() -> None:
        for _ in range(drawn.r.randint(1, 4)):
            for kind in drawn.kinds(drawn.r.randint(0, 4 - drawn.full), 0):
                drawn.step(0, kind)
            balanced = drawn.r.randint(1, 2)
            order = drawn.kinds(balanced, balanced)
            if order.count("push") == order.count("take") > 0:
                with drawn.t.loop(drawn.r.randint(2, 5)) as i:
                    for kind in order:
                        drawn.step(i, kind)
            for kind in drawn.kinds(0, drawn.r.randint(0, drawn.full)):
                drawn.step(0, kind)
        drawn.t.api.write_host_memory(addr=TPU_BYTES, ub=0, rows=54, cols=DIM, stride=DIM)

    return program


def qkv_program(seed: int) -> Kernel:
    """Loads, products, softmax and stores at random places, in nested loops."""
    r = random.Random(seed)
    q = isa("qkv", dim=DIM, operand_rows=40, sum_rows=40)
    size = 4 * 16 * TILE

    def at(index: Any, rows: int = DIM) -> Any:
        return index * r.choice([0, 1, DIM]) + r.randint(0, 40 - rows - 3 * DIM)

    def step(index: Any) -> None:
        kind = r.choice(["load", "load_sums", "gemm", "gemm", "softmax"])
        if kind.startswith("load"):
            getattr(q.api, kind)(dram=4 * (index * r.randint(0, 4) + r.randint(0, 80)), row=at(index),
                                 rows=r.randint(1, DIM), cols=r.randint(1, DIM), stride=4 * r.randint(0, 5))
        elif kind == "gemm":
            q.api.gemm(a=at(index), b=at(index), c=at(index), transpose=r.randint(0, 1), accumulate=r.randint(0, 1))
        else:
            keys = r.randint(1, 2 * DIM)
            q.api.softmax(row=at(index, 2 * DIM), to=at(index, 2 * DIM), keys=keys,
                          scale=int(np.float32(r.choice([1.0, 0.1])).view(np.uint32)))

    def steps(q_: KernelIsa, count: int, index: Any) -> None:
        for _ in range(count):
            if r.random() < 0.3:
                with q_.loop(r.randint(2, 4)) as i:
                    for _ in range(r.randint(1, 3)):
                        step(i)
            else:
                step(index)

    @q.kernel(arg={"addr": 0, "shape": (16 * TILE,), "dtype": "float32", "name": "X"},
              res={"addr": size, "shape": (39, DIM), "dtype": "float32", "name": "Y"})
    def program() -> None:
        q.api.load(dram=0, row=0, rows=DIM, cols=DIM, stride=4 * DIM)
        steps(q, r.randint(2, 6), 0)
        with q.loop(13) as i:
            q.api.store(dram=size + 4 * TILE * i, row=DIM * i, rows=DIM, cols=DIM, stride=4 * DIM, relu=r.randint(0, 1))

    return program


class _Amx:
    """Instructions drawn at random, on tiles of random configurations."""

    def __init__(self, seed: int, floats: bool) -> None:
        self.r, self.a, self.floats = random.Random(seed), isa("amx"), floats
        m, n, k = (self.r.choice([1, 2, 3, 5, 16]) for _ in range(3))
        self.shapes = [(m, 4 * n)] * 2 + [(m, 4 * k)] * 2 + [(k, 4 * n)] * 2

    def at(self, index: Any, reach: int, grain: int = 4) -> Any:
        """An address from which ``reach`` bytes are there, in all iterations."""
        r = self.r
        return grain * (index * r.choice([0, 1, 2, 4]) + r.randint(0, (AMX_BYTES - reach) // grain - 4 * 9))

    def zmm(self, index: Any) -> Any:
        r = self.r
        return r.choice([r.randint(0, 31), index + r.randint(0, 16), index % 2 + r.randint(0, 3)])

    def tiles(self, index: Any) -> None:
        r, api = self.r, self.a.api
        kind = r.choice(["load", "load", "product", "product", "store", "zero"])
        if kind == "product":
            name = "tdpbf16ps" if self.floats else r.choice(["tdpbssd", "tdpbsud", "tdpbusd", "tdpbuud"])
            first, second, third = (r.choice([base, base + 1, base + index % 2]) for base in (0, 2, 4))
            getattr(api, name)(first, second, third)
        elif kind == "zero":
            api.tilezero(r.choice([0, 1, index % 2]))
        else:
            tile = r.choice([0, 1]) if kind == "store" else r.randrange(6)
            stride = 64 if kind == "store" or r.random() < 0.7 else 4 * r.randint(0, 20)
            address = self.at(index, 16 * 80 + 64)
            if kind == "store":
                api.tilestored(tile, AMX_BYTES + address, stride)
            else:
                getattr(api, r.choice(["tileloadd", "tileloaddt1"]))(tile, address, stride)

    def vectors(self, index: Any) -> None:
        r, api = self.r, self.a.api
        x, y, z = self.zmm(index), self.zmm(index), self.zmm(index)
        kind = r.choice(["load", "load", "store", "binary", "binary", "memory", "own"])
        if kind == "load":
            name = r.choice(["vmovups_load", "vbroadcastss_m"])
            getattr(api, name)(x, self.at(index, 64))
        elif kind == "store":
            api.vmovups_store(AMX_BYTES + self.at(index, 64), x)
        elif kind == "binary":
            names = (["vaddps", "vsubps", "vmulps", "vmaxps", "vminps", "vfmadd231ps"] if self.floats
                     else ["vpxord", "vpord", "vpaddd"])
            getattr(api, r.choice(names))(x, y, z)
        elif kind == "memory" and self.floats:
            getattr(api, r.choice(["vaddps_m", "vmulps_m", "vmaxps_m", "vfmadd231ps_m"]))(x, y, self.at(index, 64))
        elif kind == "memory":
            api.kmovw(1, r.choice([0xFFFF, 0x00FF, 0x5A5A, 1, 0]))
            name = r.choice(["vmovdqu32_m", "vpmovzxbd_m", "vpmovusdb_m", "vpmovsdb_m"])
            if name.startswith(("vpmovs", "vpmovu")):
                getattr(api, name)(AMX_BYTES + self.at(index, 64), x, 1)
            else:
                getattr(api, name)(x, self.at(index, 64), 1)
        elif self.floats:
            api.vcvtps2dq(x, y) if r.random() < 0.3 else api.vbroadcastss(x, y)
        else:
            r.choice([lambda: api.vpslld(x, y, r.choice([1, 7, 31, 40])), lambda: api.vmovups(x, y),
                      lambda: api.vmovd(x, r.getrandbits(32)), lambda: api.vcvtdq2ps(x, y)])()

    def steps(self, count: int, index: Any, depth: int) -> None:
        r = self.r
        step = r.choice([self.tiles, self.vectors])
        for _ in range(count):
            if depth and r.random() < 0.35:
                with self.a.loop(r.randint(2, 4)) as i:
                    self.steps(r.randint(1, 3), i, depth - 1)
            else:
                (step if r.random() < 0.7 else r.choice([self.tiles, self.vectors]))(index)


def amx_program(seed: int, floats: bool) -> Kernel:
    """Tiles of random configurations and vectors: loads, products, stores, in nested loops.

    Floats and operations on the bits of vectors are kept apart: a NaN that is computed has no particular bits.
    """
    drawn = _Amx(seed, floats)
    dtype, width = ("float32", 4) if floats else ("int8", 1)

    @drawn.a.kernel(arg={"addr": 0, "shape": (AMX_BYTES // width,), "dtype": dtype, "name": "X"},
                    res={"addr": AMX_BYTES, "shape": (AMX_BYTES // width,), "dtype": dtype, "name": "Y"})
    def program() -> None:
        drawn.a.api.ldtilecfg(1)
        for tile, (height, width) in enumerate(drawn.shapes):
            drawn.a.api.tilecfg(tile, height, width)
        drawn.steps(drawn.r.randint(2, 6), 0, 2)
        with drawn.a.loop(2) as i:
            drawn.a.api.tilestored(i, AMX_BYTES + 1024 * i, 64)
        drawn.a.api.vmovups_store(2 * AMX_BYTES - 64, drawn.r.randint(0, 31))

    return program


def check(kernel: Kernel, seed: int) -> bool:
    """Compare; whether the program was raised."""
    rng = np.random.default_rng(seed)
    (x,) = kernel.arguments
    given: np.ndarray = (rng.integers(-128, 128, x.shape).astype(np.int8) if x.dtype == "int8"
                         else rng.standard_normal(x.shape).astype(np.float32))
    found, want = kernel.run(given), kernel.interpret(given)
    wrong = np.flatnonzero(~equal(want, found, of_numpy(x.dtype)))
    assert not wrong.size, f"seed {seed}: {found.ravel()[wrong[:5]]} at {wrong[:5]}, not {want.ravel()[wrong[:5]]}"
    return kernel.report.raised


@pytest.mark.parametrize("seed", every(6, range(6)))
def test_programs_of_tpu_v1(seed: int) -> None:
    check(tpu_program(seed), seed)


@pytest.mark.parametrize("seed", every(2, range(4)))
def test_programs_of_qkv(seed: int) -> None:
    check(qkv_program(seed), seed)


@pytest.mark.parametrize("seed", every(3, range(6)))
def test_programs_of_amx(seed: int) -> None:
    check(amx_program(seed, floats=seed % 2 == 1), seed)


@pytest.mark.slow
def test_many_programs_of_amx() -> None:
    raised = [check(amx_program(seed, floats=seed % 2 == 1), seed) for seed in range(6, 200)]
    assert any(raised)


@pytest.mark.slow
def test_many_programs() -> None:
    raised = [check(tpu_program(seed), seed) for seed in range(6, 200)]
    assert any(raised) and not all(raised)
    for seed in range(4, 100):
        check(qkv_program(seed), seed)
