"""QKV's graph and emission: cycles step by step, both ways with A, blocks of any size."""

from __future__ import annotations

import numpy as np
import pytest

from archloom.acadl_models.qkv import qkv
from archloom.acadl_models.timing import simulate
from archloom.mapper.mapping import Mapping
from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, gemm
from archloom.oracle import interpreter, taidl
from archloom.oracle.errors import MappingError, TargetError
from archloom.oracle.stream import Stream
from archloom.oracle.xla import compile_stream
from archloom.uma_targets.kit.gemm import GemmEmitter
from archloom.uma_targets.qkv import FLOWS, Qkv, emit
from examples.qkv_kernels import attention

PARAMETERS = {"dim": 4, "operand_rows": 64, "sum_rows": 32}


def product(m: int, n: int, k: int, bias: bool, block: int, flow: str) -> Stream:
    workload = gemm(m, n, k, epilogue=Epilogue(bias, 1.0, True, "float32"), dtype="float32")
    mapping = Mapping("gemm", flow, (("m", block), ("n", 4), ("k", 4)), ("m", "n", "k"))
    return GemmEmitter("qkv", tuple(PARAMETERS.items()), emit).emit(workload, mapping)


@pytest.mark.first_case
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("block", [4, 16, 24])
def test_products_by_blocks(block: int, bias: bool, flow: str) -> None:
    stream, isa = product(21, 10, 7, bias, block, flow), taidl.load("qkv", **PARAMETERS)
    rng = np.random.default_rng(block)
    inputs = {t.name: rng.standard_normal(t.shape).astype(np.float32) for t in stream.arguments}
    found = interpreter.run(stream, isa, inputs, poison=2)["C"]
    sums = inputs["A"].astype(np.float64) @ inputs["B"] + (inputs["bias"] if bias else 0)
    np.testing.assert_allclose(found, np.maximum(sums, 0), rtol=1e-5, atol=1e-5)
    if block == 16:
        oracle = np.asarray(compile_stream(stream, isa)(*inputs.values())[0])
        np.testing.assert_array_equal(oracle.view(np.uint32), found.view(np.uint32))


def test_softmax_works_beside_the_array() -> None:
    """All four units are busy at once: the whole takes less than they take together."""
    timing = simulate(qkv(), attention(256, 256, 64).resolved)
    busy = {unit.name: unit.busy_cycles for unit in timing.units}
    assert all(busy[f"{name}.unit"] for name in ("load", "array", "softmax", "store"))
    assert max(busy.values()) < timing.cycles < sum(busy.values())


def test_a_stays_where_it_fits() -> None:
    def flow(**options: int) -> str:
        workload = gemm(128, 256, 128, epilogue=Epilogue(False, 1.0, False, "float32"), dtype="float32")
        return search(workload, Qkv.kit.accelerator, {"bus_bytes": 16, **options}).mapping.dataflow

    assert flow() == "resident" and flow(operand_rows=64) == "streamed"


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(MappingError, match="blocks of 7 tiles need 288 operand_rows, of 64, and 28 sum_rows, of 32"):
        product(28, 4, 40, False, 28, "resident")
    with pytest.raises(TargetError, match=r"operand_rows \(32\) must hold four tiles of dim \(16\) rows"):
        qkv(operand_rows=32)
    with pytest.raises(TargetError, match="dim must be an integer from 2 to 256"):
        qkv(dim=1)
