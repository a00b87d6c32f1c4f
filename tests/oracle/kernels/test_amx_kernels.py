"""oneDNN's kernels: instructions as counted in the paper's table 2, results of scalar loops over the blocks."""

from __future__ import annotations

import numpy as np
import pytest

from archloom.oracle import interpreter, taidl
from archloom.oracle.kernel import isa
from archloom.oracle.xla import compile_stream
from examples.amx_kernels import KERNELS, random_arguments
from tests.support.examples import slow
from tests.support.oracle.flat_trace import flat_trace

AMX = taidl.load("amx")
COUNTED = {
    # per kernel: instructions and bytes of HBM at 4 and at 256 blocks
    "cnn_inference_amx": ((40, 14720), (2056, 563072)), "rnn_inference_amx": ((24, 11456), (1284, 543680)),
    "sgemm_avx": ((238, 5024), (9058, 53408)), "mem_format_prop_avx": ((232, 2784), (11320, 35040)),
    "cnn_inference_mix": ((157, 15888), (9229, 624720)),
}


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_instructions_are_those_of_the_paper(name: str) -> None:
    for blocks, (instructions, hbm) in zip((4, 256), COUNTED[name], strict=True):
        stream = KERNELS[name](blocks)
        assert (stream.count(), stream.hbm_bytes) == (instructions, hbm)
    small = [m for m, _ in flat_trace(KERNELS[name](4))]
    if name == "cnn_inference_mix":
        assert {m: small.count(m) for m in ("vmulps", "vmaxps_m", "tdpbusd", "tileloadd")} == {
            "vmulps": 24, "vmaxps_m": 12, "tdpbusd": 16, "tileloadd": 16}


@pytest.mark.first_case
@pytest.mark.parametrize("name", sorted(KERNELS))
@pytest.mark.parametrize("blocks", [3, slow(1), slow(2), slow(7)])
def test_oracles_agree_bit_for_bit(name: str, blocks: int) -> None:
    stream = KERNELS[name](blocks)
    arguments = random_arguments(stream, blocks)
    right = interpreter.run(stream, AMX, arguments, poison=blocks)
    found = compile_stream(stream, AMX)(*arguments.values())
    for tensor, x in zip(stream.results, found, strict=True):
        # rows 0 to 7 (or 3) of the float kernels are never stored
        stored = right[tensor.name].shape[0] if "avx" not in name else slice(8, None)
        want, got = right[tensor.name], np.asarray(x)
        if isinstance(stored, slice):
            want, got = want[stored], got[stored]
        assert want.tobytes() == got.tobytes()


def test_products_of_tiles_move_along_rows() -> None:
    blocks = 3
    stream = KERNELS["rnn_inference_amx"](blocks)
    arguments = random_arguments(stream, 5)
    a, b = arguments["in_t2"].view(np.uint8).astype(np.int64), arguments["in_t3"].astype(np.int64)
    want = np.zeros((2, 16, 16), np.int64)
    for block in range(blocks):
        for m in range(16):
            for k in range(16):
                for n in range(16):
                    for i in range(4):
                        left = a[64 * block + 64 * m + 4 * k + i]
                        for t in range(2):
                            want[t, m, n] += left * b[2048 * block + 64 * t + 64 * k + 4 * n + i]
    np.testing.assert_array_equal(interpreter.run(stream, AMX, arguments)["out"], want.reshape(2, 256))


FEW = {"sgemm_avx": 3}
"""Chains by kernel, if there is more than one: vectors of three places, with factors of their own."""


@pytest.mark.first_case
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_no_loop_over_the_instructions_is_left(name: str) -> None:
    report = compile_stream(KERNELS[name](8), taidl.load("amx")).report
    assert report.raised, str(report)
    products = [o for r in report.results for o in r.operations]
    assert len(products) == FEW.get(name, 1), str(report)


@pytest.mark.first_case
@pytest.mark.parametrize("name", sorted(KERNELS))
@pytest.mark.parametrize("seed", [slow(0), 1])
def test_compiled_ahead_of_time_every_bit_is_the_same(name: str, seed: int) -> None:
    """The options of programs compiled ahead of time change no bit, of subnormal numbers and infinities, too."""
    stream, rng = KERNELS[name](6), np.random.default_rng(seed)
    arguments = random_arguments(stream, seed)
    for tensor in stream.arguments:
        if tensor.dtype == "float32":
            wild = rng.integers(0, 1 << 32, tensor.shape, dtype=np.uint64).astype(np.uint32).view(np.float32)
            tiny = (rng.standard_normal(tensor.shape) * 2.0 ** rng.integers(-140, -60, tensor.shape)).astype(np.float32)
            mixed = np.stack([arguments[tensor.name], tiny, wild if seed else tiny])
            arguments[tensor.name] = np.take_along_axis(mixed, rng.integers(0, 3, (1, *tensor.shape)), 0)[0]
    right = interpreter.run(stream, AMX, arguments)
    made = compile_stream(stream, AMX).compile()(*arguments.values())
    for tensor, x in zip(stream.results, made, strict=True):
        x, want = np.asarray(x), right[tensor.name]
        if tensor.dtype == "float32":
            x, want = (np.where(np.isnan(v), np.uint32(0x7FC00000), v.view(np.uint32)) for v in (x, want))
        np.testing.assert_array_equal(x, want)


@pytest.mark.slow
@pytest.mark.parametrize("times", [0, slow(1), 2, slow(5)])
def test_negative_zeros_onto_registers_that_were_never_written(times: int) -> None:
    a = isa("amx")

    @a.kernel(arg={"addr": 0, "shape": (16,), "dtype": "float32", "name": "X"},
              res={"addr": 64, "shape": (16,), "dtype": "float32", "name": "Y"})
    def program() -> None:
        if times:
            with a.loop(times) as i:
                a.api.vfmadd231ps_m(0, i + 3, 0)
        else:
            a.api.vfmadd231ps_m(0, 3, 0)
        a.api.vmovups_store(64, 0)

    x = np.linspace(-8, 7, 16, dtype=np.float32)
    stream, taidl_isa = program.stream, AMX
    for raising in (True, False):
        (found,) = compile_stream(stream, taidl_isa, raising=raising)(x)
        assert not np.signbit(np.asarray(found)).any()
    assert not np.signbit(program.interpret(x)).any()
