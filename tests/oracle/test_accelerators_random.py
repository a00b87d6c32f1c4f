"""Random programs of TPU v1, QKV and AMX, with loops: the oracle equals the interpreter bit for bit."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from oracle.kernel import Kernel, KernelIsa, isa
from oracle.taidl.types import of_numpy
from tests.oracle.operator_cases import equal

DIM = 3
TILE = DIM * DIM


def tpu_program(seed: int) -> Kernel:
    """Tiles pushed and taken in any order that the FIFO allows, products over and onto accumulators, activations."""
    r = random.Random(seed)
    t = isa("tpu_v1", dim=DIM, ub_rows=64, acc_rows=32)
    size = 64 * TILE
    full = 0  # tiles in the FIFO
    taken = False

    def at(index: Any, most: int, rows: int = 1) -> Any:
        """An address below ``most - rows`` that may move with the loop."""
        step = r.randint(0, 2)
        return index * step + r.randint(0, most - rows - 2 * 5)

    def step(index: Any, allow: str) -> None:
        nonlocal full, taken
        rows = r.randint(1, 4)
        if allow == "push":
            full += 1
            if r.random() < 0.5:
                t.api.read_weights(addr=at(index, size, TILE + 1))
            else:
                t.api.read_weights_strided(addr=at(index, size, 5 * DIM), rows=r.randint(1, DIM),
                                           cols=r.randint(1, DIM), stride=DIM + r.randint(0, 1))
        elif allow == "take":
            full -= 1
            taken = True
            product(index, rows, 1)
        elif allow == "keep":
            product(index, rows, 0)
        elif allow == "host":
            t.api.read_host_memory(addr=at(index, size, 4 * DIM + 4), ub=at(index, 40, 4), rows=rows,
                                   cols=r.randint(1, DIM), stride=DIM + r.randint(0, 1))
        elif allow == "bias":
            t.api.read_bias(addr=at(index, size, 4 * DIM), acc=at(index, 32, 4), rows=rows, cols=r.randint(1, DIM))
        elif r.random() < 0.7:
            t.api.activate(acc=at(index, 32, 4), ub=at(index, 40, 4), rows=rows, function=r.randint(0, 1),
                           scale=int(np.float32(r.choice([1, 0.3, 1 / 64])).view(np.uint32)))
        else:
            t.api.activate_pool(acc=at(index, 32, 9), ub=at(index, 40, 4), height=3, width=3, size=2, step=1,
                                function=1, scale=t.ONE)

    def product(index: Any, rows: int, take: int) -> None:
        if r.random() < 0.7:
            t.api.matrix_multiply(ub=at(index, 64, 4), acc=at(index, 32, 4), rows=rows, take=take,
                                  accumulate=r.randint(0, 1))
        else:
            t.api.convolve(ub=at(index, 40, 4), row_step=3, pixel_step=r.randint(1, 2), acc=at(index, 32, 4), height=2,
                           width=2, take=take, accumulate=r.randint(0, 1))

    def kinds(pushes: int, takes: int) -> list[str]:
        """An order in which the FIFO neither runs over nor empty."""
        level, order = full, []
        while pushes or takes:
            if pushes and level < 4 and (not takes or level == 0 or r.random() < 0.5):
                order, level, pushes = [*order, "push"], level + 1, pushes - 1
            elif takes and level:
                order, level, takes = [*order, "take"], level - 1, takes - 1
            else:
                break
            if r.random() < 0.6:
                order.append(r.choice(["host", "bias", "activate"] + ["keep"] * (taken or "take" in order)))
        return order

    @t.kernel(
        arg={"addr": 0, "shape": (size,), "dtype": "int8", "name": "X"},
        res={"addr": size, "shape": (54, DIM), "dtype": "int8", "name": "Y"},
    )
    def program() -> None:
        for _ in range(r.randint(1, 4)):
            for kind in kinds(r.randint(0, 4 - full), 0):
                step(0, kind)
            balanced = r.randint(1, 2)
            order = kinds(balanced, balanced)
            if order.count("push") == order.count("take") > 0:
                with t.loop(r.randint(2, 5)) as i:
                    for kind in order:
                        step(i, kind)
            for kind in kinds(0, r.randint(0, full)):
                step(0, kind)
        t.api.write_host_memory(addr=size, ub=0, rows=54, cols=DIM, stride=DIM)

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


def amx_program(seed: int, floats: bool) -> Kernel:
    """Tiles of random configurations and vectors: loads, products, stores, in nested loops.

    Floats and operations on the bits of vectors are kept apart: a NaN that is computed has no particular bits.
    """
    r = random.Random(seed)
    a = isa("amx")
    size = 2048
    m, n, k = (r.choice([1, 2, 3, 5, 16]) for _ in range(3))
    shapes = [(m, 4 * n)] * 2 + [(m, 4 * k)] * 2 + [(k, 4 * n)] * 2

    def at(index: Any, reach: int, grain: int = 4) -> Any:
        """An address from which ``reach`` bytes are there, in all iterations."""
        return grain * (index * r.choice([0, 1, 2, 4]) + r.randint(0, (size - reach) // grain - 4 * 9))

    def zmm(index: Any) -> Any:
        return r.choice([r.randint(0, 31), index + r.randint(0, 16), index % 2 + r.randint(0, 3)])

    def tiles(index: Any) -> None:
        kind = r.choice(["load", "load", "product", "product", "store", "zero"])
        if kind == "product":
            name = "tdpbf16ps" if floats else r.choice(["tdpbssd", "tdpbsud", "tdpbusd", "tdpbuud"])
            first, second, third = (r.choice([base, base + 1, base + index % 2]) for base in (0, 2, 4))
            getattr(a.api, name)(first, second, third)
        elif kind == "zero":
            a.api.tilezero(r.choice([0, 1, index % 2]))
        else:
            tile = r.choice([0, 1]) if kind == "store" else r.randrange(6)
            stride = 64 if kind == "store" or r.random() < 0.7 else 4 * r.randint(0, 20)
            address = at(index, 16 * 80 + 64)
            if kind == "store":
                a.api.tilestored(tile, size + address, stride)
            else:
                getattr(a.api, r.choice(["tileloadd", "tileloaddt1"]))(tile, address, stride)

    def vectors(index: Any) -> None:
        x, y, z = zmm(index), zmm(index), zmm(index)
        kind = r.choice(["load", "load", "store", "binary", "binary", "memory", "own"])
        if kind == "load":
            name = r.choice(["vmovups_load", "vbroadcastss_m"])
            getattr(a.api, name)(x, at(index, 64))
        elif kind == "store":
            a.api.vmovups_store(size + at(index, 64), x)
        elif kind == "binary":
            names = (["vaddps", "vsubps", "vmulps", "vmaxps", "vminps", "vfmadd231ps"] if floats
                     else ["vpxord", "vpord", "vpaddd"])
            getattr(a.api, r.choice(names))(x, y, z)
        elif kind == "memory" and floats:
            getattr(a.api, r.choice(["vaddps_m", "vmulps_m", "vmaxps_m", "vfmadd231ps_m"]))(x, y, at(index, 64))
        elif kind == "memory":
            a.api.kmovw(1, r.choice([0xFFFF, 0x00FF, 0x5A5A, 1, 0]))
            name = r.choice(["vmovdqu32_m", "vpmovzxbd_m", "vpmovusdb_m", "vpmovsdb_m"])
            if name.startswith(("vpmovs", "vpmovu")):
                getattr(a.api, name)(size + at(index, 64), x, 1)
            else:
                getattr(a.api, name)(x, at(index, 64), 1)
        elif floats:
            a.api.vcvtps2dq(x, y) if r.random() < 0.3 else a.api.vbroadcastss(x, y)
        else:
            r.choice([lambda: a.api.vpslld(x, y, r.choice([1, 7, 31, 40])), lambda: a.api.vmovups(x, y),
                      lambda: a.api.vmovd(x, r.getrandbits(32)), lambda: a.api.vcvtdq2ps(x, y)])()

    def steps(count: int, index: Any, depth: int) -> None:
        step = r.choice([tiles, vectors])
        for _ in range(count):
            if depth and r.random() < 0.35:
                with a.loop(r.randint(2, 4)) as i:
                    steps(r.randint(1, 3), i, depth - 1)
            else:
                (step if r.random() < 0.7 else r.choice([tiles, vectors]))(index)

    dtype, width = ("float32", 4) if floats else ("int8", 1)

    @a.kernel(arg={"addr": 0, "shape": (size // width,), "dtype": dtype, "name": "X"},
              res={"addr": size, "shape": (size // width,), "dtype": dtype, "name": "Y"})
    def program() -> None:
        a.api.ldtilecfg(1)
        for tile, (height, width) in enumerate(shapes):
            a.api.tilecfg(tile, height, width)
        steps(r.randint(2, 6), 0, 2)
        with a.loop(2) as i:
            a.api.tilestored(i, size + 1024 * i, 64)
        a.api.vmovups_store(2 * size - 64, r.randint(0, 31))

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


@pytest.mark.parametrize("seed", range(6))
def test_programs_of_tpu_v1(seed: int) -> None:
    check(tpu_program(seed), seed)


@pytest.mark.parametrize("seed", range(4))
def test_programs_of_qkv(seed: int) -> None:
    check(qkv_program(seed), seed)


@pytest.mark.parametrize("seed", range(6))
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
