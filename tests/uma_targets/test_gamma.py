"""Gamma: hand-written tensor kernels, random tiles, exact sums, and complexes that work side by side."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.gamma import gamma
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.reference import simulate_reference as step_by_step
from archloom.mapper.mapping import Mapping
from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, gemm
from archloom.oracle import interpreter, taidl
from archloom.oracle.assembly import parse
from archloom.oracle.errors import ArchloomError, MappingError, TargetError
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Stream
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.xla import compile_stream
from archloom.uma_targets.gamma import Gamma, emit
from archloom.uma_targets.kit.gemm import GemmEmitter
from tests.support.examples import examples

ONE = int(np.float32(1).view(np.uint32))
FUSED = f"""
.stream "product from scratchpad to scratchpad"
.isa gamma complexes=2
.hbm 1024
.arg A int16[8,8] @0x40
.arg B int16[8,8] @0xc0
.result C int16[8,8] @0x140
fetch16 dram=64, sp=0, rows=8, cols=8, stride=16
fetch16 dram=192, sp=8, rows=8, cols=8, stride=16
read sp=0, vd=128, rows=8, cols=8
read sp=8, vd=136, rows=8, cols=8
clear acc=16, rows=8, cols=8
gemm va=128, vb=136, acc=16, vd=144, rows=8, cols=8, depth=8, scale={ONE}, low=0, high=32767
write sp=16, vs=144, rows=8, cols=8
put16 dram=320, sp=16, rows=8, cols=8, stride=16
"""
"""As in the paper's fourth listing; the compute unit of complex 1 works on the scratchpad of its neighbour 0."""


@pytest.mark.slow
def test_a_fused_product_from_scratchpad_to_scratchpad() -> None:
    stream, isa = parse(FUSED), taidl.load("gamma", complexes=2)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-300, 300, (8, 8)).astype(np.int16) for _ in range(2))
    expected = np.clip(a.astype(np.int64) @ b, 0, 32767).astype(np.int16)
    assert 0 < np.count_nonzero(expected == 32767) < 64
    np.testing.assert_array_equal(interpreter.run(stream, isa, {"A": a, "B": b}, poison=3)["C"], expected)
    np.testing.assert_array_equal(np.asarray(compile_stream(stream, isa)(a, b)[0]), expected)
    graph = gamma(complexes=2)
    timing = simulate(graph, resolve(stream, isa))
    assert timing.cycles == step_by_step(graph, resolve(stream, isa)).cycles
    busy = {u.name for u in timing.units if u.instructions}
    assert busy == {"loadstore[0].unit", "compute[1].spFu", "compute[1].matAddFu", "compute[1].matMulFu"}


def test_scratchpads_are_shared_with_neighbours_only() -> None:
    graph, isa = gamma(complexes=3), taidl.load("gamma", complexes=3)

    def cycles(pad: int, registers: int) -> int:
        """A read from the scratchpad of one complex to the registers of another."""
        text = f".isa gamma complexes=3\n.hbm 64\nread sp={1024 * pad}, vd={128 * registers}, rows=8, cols=8\n"
        return simulate(graph, resolve(parse(text), isa)).cycles

    assert cycles(0, 1) == cycles(1, 0) == cycles(2, 1) == cycles(2, 2) > 0
    for pad, registers in ((0, 2), (2, 0)):
        with pytest.raises(ArchloomError, match="read"):
            cycles(pad, registers)


def test_sums_and_pooling() -> None:
    text = """
.stream "sum and pool"
.isa gamma complexes=1
.hbm 1024
.arg A int16[8,8] @0x40
.arg B int16[8,8] @0xc0
.result S int16[8,8] @0x140
.result P int16[4,3] @0x1c0
load16 dram=64, vd=0, rows=8, cols=8, stride=16
load16 dram=192, vd=8, rows=8, cols=8, stride=16
matadd va=0, vb=8, vd=16, rows=8, cols=8, low=-32768, high=32767
store16 dram=320, vs=16, rows=8, cols=8, stride=16
pool va=16, vd=24, rows=8, cols=7, size=2, stride=2
store16 dram=448, vs=24, rows=4, cols=3, stride=6
"""
    stream, isa = parse(text), taidl.load("gamma", complexes=1)
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-32768, 32768, (8, 8)).astype(np.int16) for _ in range(2))
    found = interpreter.run(stream, isa, {"A": a, "B": b}, poison=1)
    total = np.clip(a.astype(np.int64) + b, -32768, 32767).astype(np.int16)
    np.testing.assert_array_equal(found["S"], total)
    np.testing.assert_array_equal(found["P"], total[:, :6].reshape(4, 2, 3, 2).max((1, 3)))


SIZES = st.sampled_from([1, 2, 7, 8, 9, 16, 17, 23, 40])


@examples(14, 200)
@given(st.data())
def test_any_tiles_give_the_exact_integers(data: st.DataObject) -> None:
    m, n, k = (data.draw(SIZES) for _ in range(3))
    isa = taidl.load("gamma", complexes=data.draw(st.integers(1, 3)), scratchpad_rows=128)
    workload = gemm(m, n, k, batch=data.draw(st.sampled_from([1, 2])), shared_b=data.draw(st.booleans()),
                    epilogue=Epilogue(data.draw(st.booleans()), 0.01, data.draw(st.booleans()), "int8"))
    tile = tuple((d, data.draw(st.sampled_from([8, 16, 24]))) for d in "mnk")
    mapping = Mapping("gemm", "", tile, data.draw(st.sampled_from([("m", "n", "k"), ("n", "m", "k")])))
    try:
        stream = GemmEmitter("gamma", isa.parameters, emit).emit(workload, mapping)
    except MappingError as error:
        assert "of a complex, which has" in str(error)
        return
    _check(stream, isa, workload.epilogue)


def _check(stream: Stream, isa: Isa, epilogue: Epilogue) -> None:
    rng = np.random.default_rng(0)
    inputs = {t.name: rng.integers(*((-128, 128) if t.dtype == "int8" else (-5000, 5000)), t.shape).astype(t.dtype)
              for t in stream.arguments}
    sums = inputs["A"].astype(np.int64) @ inputs["B"] + inputs.get("bias", 0)
    expected = np.rint(sums.astype(np.float32) * np.float32(epilogue.scale)).clip(-128, 127).astype(np.int8)
    found = interpreter.run(stream, isa, inputs, poison=2)["C"]
    np.testing.assert_array_equal(found, np.maximum(expected, 0) if epilogue.relu else expected)


def test_sums_beyond_16_bits_are_exact() -> None:
    """1,000 products of -128 and -128 need 24 bits."""
    workload = gemm(2, 3, 1000, epilogue=Epilogue(False, 2.0**-17, False, "int8"))
    stream = search(workload, Gamma.kit.accelerator).stream
    inputs = {t.name: np.full(t.shape, -128, np.int8) for t in workload.inputs}
    found = interpreter.run(stream, Gamma.kit.accelerator.isa(), inputs)["C"]
    assert (found == np.rint(np.float32(1000 * 128 * 128) * np.float32(2.0**-17))).all() and found[0, 0, 0] == 125


def test_complexes_work_at_the_same_time() -> None:
    workload = gemm(64, 64, 64, epilogue=Epilogue(True, 0.01, True, "int8"))
    alone, four = (search(workload, Gamma.kit.accelerator, {"complexes": c}) for c in (1, 4))
    assert four.timing.cycles * 3 < alone.timing.cycles
    products = [u.instructions for u in four.timing.units if u.name.endswith("matMulFu")]
    assert products == [128] * 4
    assert 64**3 / (64 * alone.timing.cycles) > 0.6


def test_options_out_of_range_are_listed() -> None:
    with pytest.raises(TargetError, match="complexes must be an integer from 1 to 64, not 0; queue must"):
        gamma(complexes=0, queue=-1)
    with pytest.raises(TargetError, match=r"issue_entries \(8\) must hold a fetch of fetch_width \(16\)"):
        gamma(issue_entries=8, fetch_width=16)
    with pytest.raises(MappingError, match=r"none of \d+ mappings fits; the smallest needs 40 registers, of which"):
        search(gemm(8, 8, 8, epilogue=Epilogue(False, 1.0, False, "int8")), Gamma.kit.accelerator, {"registers": 32})


def test_the_isa_takes_its_sizes_from_the_graph() -> None:
    graph = gamma(complexes=3, registers=64, scratchpad_kib=4)
    assert graph.parameters == {"complexes": 3, "registers": 64, "accumulators": 16, "scratchpad_rows": 256}
