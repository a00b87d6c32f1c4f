"""AMX's emission: products with edges of every kind are raised, and give the interpreter's bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, Workload, gemm
from archloom.oracle import interpreter, taidl
from archloom.oracle.stream import Stream
from archloom.oracle.xla import compile_stream
from archloom.uma_targets.amx import Amx, emit
from archloom.uma_targets.kit.gemm import GemmEmitter
from tests.support.examples import slow


def product(m: int, n: int, k: int, constants: tuple[str, ...]) -> tuple[Workload, Stream]:
    plain = replace(gemm(m, n, k, epilogue=Epilogue(True, 0.0123, False, "int8")), constants=constants)
    workload = Amx.kit.accelerator.configure({}).packed(plain)
    mapping = search(workload, Amx.kit.accelerator, {}).mapping
    return workload, GemmEmitter("amx", (), emit, Amx.kit.workspace_bytes).emit(workload, mapping)


@pytest.mark.slow
@pytest.mark.parametrize("constants", [(), ("B", "bias")], ids=["computed", "constant"])
@pytest.mark.parametrize("size", [
    (20, 20, 70), *map(slow, [(1, 40, 5), (16, 16, 64), (16, 20, 64), (16, 16, 50)])])
def test_edges_are_raised(size: tuple[int, int, int], constants: tuple[str, ...]) -> None:
    """No loop over instructions is left whatever n and k leave over, and raising ends soon."""
    (workload, stream), rng = product(*size, constants), np.random.default_rng(0)
    inputs = {t.name: rng.integers(-128, 128, t.shape, dtype=np.int8) if t.dtype == "int8"
              else rng.integers(-3000, 3000, t.shape).astype(t.dtype) for t in workload.inputs}
    stored = {t.name: t.stored(inputs[t.name]) for t in workload.inputs}
    oracle = compile_stream(stream, taidl.load("amx"))
    assert oracle.raised, str(oracle.report)
    made = np.asarray(oracle(*stored.values())[0])
    np.testing.assert_array_equal(made, interpreter.run(stream, taidl.load("amx"), stored)["C"])
    sums = inputs["A"].astype(np.int64) @ inputs["B"].astype(np.int64) + inputs["bias"]
    np.testing.assert_array_equal(made, np.clip(np.rint(sums.astype(np.float32) * np.float32(0.0123)), -128, 127))
