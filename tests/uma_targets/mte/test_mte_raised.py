"""What the oracle makes of whole layers: raised, their sums one chain of machine code for each part of the result."""

from __future__ import annotations

import numpy as np
import pytest

from archloom.acadl_models.mte import ARCHITECTURES
from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, Workload, conv2d, gemm
from archloom.oracle import interpreter, native
from archloom.oracle.xla import compile_stream
from archloom.uma_targets.mte.target import Mte
from tests.support.examples import every

RELU = Epilogue(True, 1.0, True, "float32")
LAYERS: dict[str, Workload] = {
    "edges of tiles": gemm(37, 45, 70, epilogue=RELU, dtype="float32"),
    "rows of tiles": gemm(169, 100, 64, epilogue=RELU, dtype="float32"),
    "rows of an image in registers of their own": conv2d(1, 16, 16, 32, 64, 3, 3, epilogue=RELU, dtype="float32"),
    "tiles of rows that do not divide the image": conv2d(1, 37, 37, 16, 48, 3, 3, epilogue=RELU, dtype="float32"),
    "few channels": conv2d(1, 29, 29, 3, 20, 3, 3, stride=(2, 2), epilogue=RELU, dtype="float32"),
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("architecture", every(9, ["mte32s", *sorted(set(ARCHITECTURES) - {"mte32s"})]))
def test_layers_are_raised(architecture: str, layer: str) -> None:
    accelerator, work = Mte().accelerator, LAYERS[layer]
    options = {"architecture": architecture}
    stream, isa = search(work, accelerator, options).stream, accelerator.configure(options).isa
    oracle = compile_stream(stream, isa)
    report = oracle.report
    assert report.raised, str(report)
    if native.possible():
        assert not any("loops" in operation for operation in report.results[0].operations), str(report)
    rng = np.random.default_rng(3)
    given = {t.name: rng.standard_normal(t.shape).astype(t.dtype) for t in stream.arguments}
    (made,), (expected,) = oracle(*given.values()), interpreter.run(stream, isa, given).values()
    np.testing.assert_array_equal(np.asarray(made), expected)
