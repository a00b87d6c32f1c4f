"""The AVX-512 instructions of the amx ISA lane by lane against Intel's pseudocode, in the interpreter and in XLA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from archloom.oracle import taidl
from archloom.oracle.interpreter import run
from archloom.oracle.stream import HbmTensor, Instr, Node, Stream
from archloom.oracle.xla import compile_stream
from tests.support.accelerators.intel import bits_of, float_of, fma32, maximum, minimum, to_i32
from tests.support.examples import every

AMX = taidl.load("amx")
make = Instr.make
SPECIAL = np.array([0x0, 0x80000000, 0x1, 0x80000001, 0x7FFFFF, 0x800000, 0x80800001, 0x3F800000, 0x7F7FFFFF,
                    0x7F800000, 0xFF800000, 0x7FC00000, 0x4F000000, 0xCF000000, 0x4EFFFFFF, 0x40200000], np.uint32)

LANES: dict[str, Callable[[float, float, float], int]] = {
    "vaddps": lambda d, x, y: bits_of(fma32(x, 1.0, y)),
    "vsubps": lambda d, x, y: bits_of(fma32(x, 1.0, -y)),
    "vmulps": lambda d, x, y: bits_of(fma32(x, y, -0.0)),
    "vfmadd231ps": lambda d, x, y: bits_of(fma32(x, y, d)),
    "vmaxps": lambda d, x, y: bits_of(maximum(x, y)),
    "vminps": lambda d, x, y: bits_of(minimum(x, y)),
    "vpxord": lambda d, x, y: bits_of(x) ^ bits_of(y),
}


def with_bodies(body: list[Node], result: HbmTensor) -> Stream:
    arguments = tuple(HbmTensor(name, 64 * i, (16,), "float32") for i, name in enumerate("dxy"))
    loads: list[Node] = [make("vmovups_load", dst=i, dram=64 * i) for i in range(3)]
    return Stream("amx", (), arguments, (result,), 512, (*loads, *body), "s")


def lanes(seed: int) -> dict[str, np.ndarray]:
    """Any bits, special numbers and ordinary ones of all magnitudes, each in some lanes."""
    rng = np.random.default_rng(seed)
    kinds = [rng.integers(0, 2**32, (3, 16), dtype=np.uint32), rng.choice(SPECIAL, (3, 16)),
             (rng.standard_normal((3, 16)) * 2.0 ** rng.integers(-75, -60, (3, 16))).astype(np.float32).view(np.uint32)]
    picked = kinds[seed % 3] if seed < 9 else np.choose(rng.integers(0, 3, (3, 16)), kinds)
    return {name: row.view(np.float32) for name, row in zip("dxy", picked, strict=True)}


def assert_lanes(found: np.ndarray, want: list[int]) -> None:
    """Bit for bit; where a float is no number, another one will do."""
    x, y = found.view(np.float32), np.array(want, np.uint32).view(np.float32)
    both = np.isnan(x) & np.isnan(y)
    np.testing.assert_array_equal(np.where(both, 0, x.view(np.uint32)), np.where(both, 0, y.view(np.uint32)))


@pytest.mark.first_case
@pytest.mark.parametrize("mnemonic", every(2, sorted(LANES)))
def test_arithmetic(mnemonic: str) -> None:
    result = HbmTensor("out", 256, (16,), "float32")
    store = make("vmovups_store", dram=256, src=0)
    streams = [with_bodies([make(mnemonic, dst=0, src1=1, src2=2), store], result)]
    if mnemonic + "_m" in AMX.instructions:
        streams.append(with_bodies([make(mnemonic + "_m", dst=0, src1=1, dram=128), store], result))
    for stream in streams:
        oracles = [compile_stream(stream, AMX, raising=raising) for raising in (True, False)]
        for seed in range(10):
            values = lanes(seed)
            want = [LANES[mnemonic](*map(float, lane)) for lane in zip(values["d"], values["x"], values["y"])]
            assert_lanes(run(stream, AMX, values)["out"], want)
            for oracle in oracles:
                assert_lanes(np.asarray(oracle(*values.values())[0]), want)


def test_conversion_to_integers_rounds_half_to_even() -> None:
    """TAIDL's own oracle rounds half away from zero."""
    body: list[Node] = [make("vcvtps2dq", dst=0, src=1), make("vmovups_store", dram=256, src=0)]
    stream = with_bodies(body, HbmTensor("out", 256, (16,), "float32"))
    oracle = compile_stream(stream, AMX)
    ties = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 8388609.0, 4194304.5, 0.49999997, -0.49999997, 2147483520.0,
                     -2147483648.0, 2147483648.0, np.nan, np.inf, 3.5], np.float32)
    rows = [ties, *(lanes(seed)["x"] for seed in range(12))]
    for x in rows:
        values = {"d": x, "x": x, "y": x}
        want = np.array([to_i32(float(v)) for v in x], np.uint32)
        np.testing.assert_array_equal(run(stream, AMX, values)["out"].view(np.uint32), want)
        np.testing.assert_array_equal(np.asarray(oracle(*values.values())[0]).view(np.uint32), want)
    assert [to_i32(float(v)) for v in ties[:4]] == [0, 2, 2, 0]


def test_words_become_floats() -> None:
    body: list[Node] = [make("vcvtdq2ps", dst=0, src=1), make("vmovups_store", dram=256, src=0)]
    stream = with_bodies(body, HbmTensor("out", 256, (16,), "float32"))
    words = np.array([0, 1, -1, 2**31 - 1, -(2**31), 16777217, 16777219, -16777217, 33554435, 5, 6, 7, 8, 9, 10, 11],
                     np.int32)
    values = {name: words.view(np.float32) for name in "dxy"}
    want = words.astype(np.float32)
    np.testing.assert_array_equal(run(stream, AMX, values)["out"], want)
    np.testing.assert_array_equal(np.asarray(compile_stream(stream, AMX)(*values.values())[0]), want)


@pytest.mark.parametrize(("mnemonic", "dtype"), [("vpmovusdb_m", "uint8"), ("vpmovsdb_m", "int8")])
@pytest.mark.parametrize("mask", every(4, [0xFFFF, 0x0, 0x7F, 0x8421]))
def test_words_saturate_to_bytes_under_a_mask(mnemonic: str, dtype: str, mask: int) -> None:
    body: list[Node] = [make("kmovw", dst=1, value=mask), make(mnemonic, dram=128, src=1, mask=1)]
    stream = with_bodies(body, HbmTensor("y", 128, (16,), dtype))
    words = np.array([0, 126, 127, 128, 254, 255, 256, -1, -128, -129, 2**31 - 1, -2**31, 9, 300, -1000, 77], np.int32)
    old = np.arange(16, dtype=dtype)
    values = {"d": words.view(np.float32), "x": words.view(np.float32), "y": np.tile(old, 4).view(np.float32)}
    limits = np.iinfo(dtype)
    lane = (mask >> np.arange(16)) & 1
    want = np.where(lane, np.clip(words if limits.min else words.view(np.uint32), limits.min, limits.max), old)
    np.testing.assert_array_equal(run(stream, AMX, values)["y"], want)
    np.testing.assert_array_equal(np.asarray(compile_stream(stream, AMX)(*values.values())[0]), want)


def test_moves() -> None:
    body: list[Node] = [
        make("vmovd", dst=5, value=0x437F0000), make("vmovups_store", dram=256, src=5),
        make("vbroadcastss", dst=6, src=5), make("vmovups", dst=7, src=6), make("vmovups_store", dram=320, src=7),
        make("vbroadcastss_m", dst=8, dram=68), make("vmovups_store", dram=384, src=8),
    ]
    stream = with_bodies(body, HbmTensor("out", 256, (3, 16), "float32"))
    values = lanes(30)
    want = np.array([[float_of(0x437F0000)] + [0.0] * 15, [255.0] * 16, [values["x"][1]] * 16], np.float32)
    np.testing.assert_array_equal(run(stream, AMX, values)["out"], want)
    np.testing.assert_array_equal(np.asarray(compile_stream(stream, AMX)(*values.values())[0]), want)


@pytest.mark.slow
def test_integers_and_masked_loads() -> None:
    body: list[Node] = [
        make("kmovw", dst=1, value=0x1F), make("kmovw", dst=2, value=0x8005),
        make("vpmovzxbd_m", dst=3, dram=64, mask=1), make("vpmovzxbd_m", dst=4, dram=64, mask=2),
        make("vmovdqu32_m", dst=5, dram=128, mask=1), make("vmovdqu32_m", dst=6, dram=128, mask=2),
        make("vpslld", dst=7, src=5, count=9), make("vpslld", dst=8, src=5, count=40),
        make("vpord", dst=9, src1=3, src2=7), make("vpaddd", dst=10, src1=5, src2=6),
    ]
    body += [make("vmovups_store", dram=256 + 64 * i, src=3 + i) for i in range(8)]
    stream = replace(with_bodies(body, HbmTensor("out", 256, (8, 16), "uint32")), hbm_bytes=768)
    values = lanes(0)
    data, words = values["x"].view(np.uint8)[:16].astype(np.uint32), values["y"].view(np.uint32)
    first, picked = np.arange(16) < 5, (0x8005 >> np.arange(16)) & 1 == 1
    low, some = np.where(first, data, 0), np.where(first, words, 0)
    want = [low, np.where(picked, data, 0), some, np.where(picked, words, 0), some << np.uint32(9), 0 * some,
            low | (some << np.uint32(9)), some + np.where(picked, words, 0)]
    np.testing.assert_array_equal(run(stream, AMX, values)["out"], np.array(want, np.uint32))
    found = compile_stream(stream, AMX)(*values.values())[0]
    np.testing.assert_array_equal(np.asarray(found), np.array(want, np.uint32))
