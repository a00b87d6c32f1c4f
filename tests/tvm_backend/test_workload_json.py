"""Workloads survive JSON; what is none is refused."""

import json
from dataclasses import replace

import pytest

from archloom.mapper.packing import packed
from archloom.mapper.workload import Epilogue, Pool, Workload, add, conv2d, gemm
from archloom.oracle.affine import Affine
from archloom.oracle.errors import ArtifactError
from archloom.tvm_backend.artifact.workload_json import from_json, to_json

RELU = Epilogue(True, 0.0123, True, "int8")


@pytest.mark.parametrize("workload", [
    gemm(3, 5, 7, epilogue=Epilogue(False, 1.0, False, "int32"), name="a"),
    gemm(3, 5, 7, batch=4, shared_b=False, epilogue=RELU),
    conv2d(2, 9, 8, 3, 5, 3, 2, stride=(2, 1), padding=(1, 0, 2, 1), epilogue=RELU),
    conv2d(1, 9, 8, 4, 8, 3, 3, dilation=(2, 1), groups=6, blocks=4, epilogue=RELU),
    conv2d(1, 16, 16, 3, 5, 3, 3, epilogue=Epilogue(True, 0.5, True, "int8", Pool(3, 2, (1, 1, 1, 1)))),
    add(77, epilogue=Epilogue(False, 0.5, False, "int8"), name="layer/0 add"),
], ids=lambda w: w.kind)
def test_round_trip(workload: Workload) -> None:
    assert from_json(json.loads(json.dumps(to_json(workload)))) == workload


def test_packed_constants() -> None:
    c, o = Affine.variable("c"), Affine.variable("o")
    work = replace(conv2d(1, 9, 8, 4, 8, 3, 3, groups=6, epilogue=RELU), constants=("W", "bias"))
    work = packed(work, {"W": (o // 3, c, o % 3)})
    again = from_json(json.loads(json.dumps(to_json(work))))
    assert again == work and again.inputs[1].stored_shape == (6, 3, 3, 3, 4, 3)


@pytest.mark.parametrize("data", [{}, {"kind": "gemm"}, {**to_json(add(4, epilogue=RELU)), "kind": "sort"},
                                  {**to_json(add(4, epilogue=RELU)), "more": 1}])
def test_refuses_what_is_no_workload(data: dict[str, object]) -> None:
    with pytest.raises(ArtifactError, match="not a workload"):
        from_json(data)
