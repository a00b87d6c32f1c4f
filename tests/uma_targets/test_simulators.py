"""Both simulators find the same of what every target emits, in all that they tell."""

from __future__ import annotations

from typing import Any

import pytest

from archloom.acadl_models.timing import TimingResult, simulate
from archloom.acadl_models.timing.reference.simulator import simulate_reference
from archloom.mapper import workload as wl
from archloom.mapper.search import search
from archloom.oracle.resolve import resolve
from archloom.tvm_backend.targets import registry
from tests.support.examples import slow

BYTES, FLOATS = wl.Epilogue(True, 0.01, True, "int8"), wl.Epilogue(True, 1.0, True, "float32")
ONE, PRODUCT, LARGER = (wl.gemm(*sizes, epilogue=BYTES) for sizes in ((1, 1, 1), (13, 11, 17), (24, 16, 40)))
SUMS = wl.gemm(13, 11, 17, epilogue=wl.Epilogue(True, 1.0, False, "int32"))
OF_FLOATS = wl.gemm(13, 11, 17, epilogue=FLOATS, dtype="float32")
CONVOLUTION = wl.conv2d(1, 5, 10, 3, 12, 3, 3, padding=(1, 1, 1, 1), epilogue=BYTES)
ATTENTION = wl.attention(1, 2, 9, 10, 5, 6, epilogue=wl.Epilogue(True, 0.5, False, "float32"))


@pytest.mark.parametrize(("target", "options", "work"), [
    ("gamma", {"complexes": 3, "dram_cycles": 7, "queue": 2}, PRODUCT),
    ("oma", {"cache_sets": 4, "cache_ways": 2, "cache_line_bytes": 16, "replacement": "fifo"}, ONE),
    slow("oma", {"cache": False, "memory_cycles": 7, "mac_cycles": 3}, ONE),
    slow("oma", {}, PRODUCT),
    ("systolic_array", {"rows": 4, "columns": 3}, ONE),
    slow("systolic_array", {"rows": 4, "columns": 3}, LARGER),
    ("tpu_v1", {"dim": 4, "weight_bytes": 8, "host_bytes": 4}, ONE),
    slow("tpu_v1", {"dim": 4, "weight_bytes": 8, "host_bytes": 4}, PRODUCT),
    slow("tpu_v1", {"dim": 4}, CONVOLUTION),
    ("ultratrail", {"dim": 4, "features": 16, "weights": 16, "sums": 16}, ONE),
    slow("ultratrail", {"dim": 4, "features": 16, "weights": 16, "sums": 16}, LARGER),
    ("gemmini", {"dim": 4}, wl.add(70, epilogue=BYTES)),
    slow("gemmini", {"dim": 4, "page_cycles": 30, "least_rows": 16}, PRODUCT),
    slow("gemmini", {"dim": 4, "page_cycles": 30, "least_rows": 16}, CONVOLUTION),
    ("amx", {}, ONE), slow("amx", {}, LARGER),
    slow("ai_engine", {"rows": 2, "columns": 3, "tile": 8}, PRODUCT),
    slow("eyeriss", {"rows": 4, "cols": 3}, PRODUCT), slow("eyeriss", {"rows": 4, "cols": 3}, CONVOLUTION),
    slow("mte", {"architecture": "mte8s"}, OF_FLOATS), slow("mte", {"architecture": "mte32v"}, SUMS),
    slow("mte", {"architecture": "vector1kb"}, OF_FLOATS), slow("mte", {"architecture": "sifive_int"}, SUMS),
    slow("plasticine", {"rows": 2, "cols": 2, "lanes": 4}, OF_FLOATS),
    slow("qkv", {"dim": 4}, OF_FLOATS), slow("qkv", {"dim": 4}, ATTENTION),
])
def test_the_engine_equals_the_step_by_step_simulator(target: str, options: dict[str, Any], work: wl.Workload) -> None:
    accelerator = registry.get(target).accelerator
    stream = search(work, accelerator, options).stream
    graph, resolved = accelerator.graph(options), resolve(stream, accelerator.isa(options))
    found = simulate(graph, resolved)
    assert isinstance(found, TimingResult) and found == simulate_reference(graph, resolved)
