"""OMA: exact integers for any tiles in any order, one operation at a time, and misses that follow the order."""

from __future__ import annotations

import itertools
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.oma import oma
from archloom.acadl_models.timing import simulate
from archloom.mapper.mapping import Mapping
from archloom.mapper.workload import Epilogue, Workload, gemm
from archloom.oracle import interpreter
from archloom.oracle.errors import MappingError, TargetError
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Stream
from archloom.uma_targets.oma import ORDERS, Oma
from tests.support.examples import examples
from tests.support.oracle.flat_trace import flat_trace

BYTES = {"load8": 1, "store8": 1, "load32": 4, "store32": 4}
CACHE = {"cache_sets": 4, "cache_ways": 2, "cache_line_bytes": 16}


def stream_of(workload: Workload, tile: tuple[int, int, int], order: str) -> Stream:
    mapping = Mapping("gemm", "", tuple(zip("mnk", tile, strict=True)), tuple(order))
    return Oma.kit.accelerator.emitter().emit(workload, mapping)


@examples(12, 125)
@given(st.data())
def test_any_tiles_in_any_order_give_the_exact_integers(data: st.DataObject) -> None:
    m, n, k = (data.draw(st.integers(1, 7)) for _ in range(3))
    epilogue = Epilogue(data.draw(st.booleans()), 0.02, data.draw(st.booleans()), "int8")
    workload = gemm(m, n, k, batch=data.draw(st.integers(1, 2)), epilogue=epilogue, shared_b=False)
    tile = tuple(data.draw(st.integers(1, 8)) for _ in range(3))
    stream = stream_of(workload, tile, "".join(data.draw(st.sampled_from(ORDERS))))  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    inputs = {t.name: rng.integers(*((-128, 128) if t.dtype == "int8" else (-5000, 5000)), t.shape).astype(t.dtype)
              for t in workload.inputs}
    sums = inputs["A"].astype(np.int64) @ inputs["B"] + inputs.get("bias", 0)
    expected = np.rint(sums.astype(np.float32) * np.float32(0.02)).clip(-128, 127).astype(np.int8)
    found = interpreter.run(stream, Oma.kit.accelerator.isa(), inputs, poison=1)["C"]
    np.testing.assert_array_equal(found, np.maximum(expected, 0) if epilogue.relu else expected)


def plain_misses(stream: Stream) -> int:
    """Misses of the addresses of the trace in an LRU cache, worked out by itself."""
    sets: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(CACHE["cache_sets"])]
    misses = 0
    for mnemonic, attributes in flat_trace(stream):
        if mnemonic not in BYTES:
            continue
        first, line = attributes["dram"], CACHE["cache_line_bytes"]
        for number in range(first // line, (first + BYTES[mnemonic] - 1) // line + 1):
            ways = sets[number % len(sets)]
            hit = number in ways
            misses += not hit
            ways[number] = None
            if mnemonic.startswith("load") or not hit:  # as in pycachesim, a write that hits does not count as a use
                ways.move_to_end(number)
            if len(ways) > CACHE["cache_ways"]:
                ways.popitem(last=False)
    return misses


def test_the_order_of_execution_changes_the_misses() -> None:
    """B is larger than the cache: tiles of it that stay while A goes by are worth their partial sums."""
    workload = gemm(12, 16, 20, epilogue=Epilogue(False, 0.01, False, "int8"))
    graph, isa = oma(**CACHE), Oma.kit.accelerator.isa()  # type: ignore[arg-type]
    found: dict[str, tuple[int, int]] = {}
    for name, tile, order in (
        ("whole", (12, 16, 20), "mnk"), ("columns first", (1, 1, 20), "nmk"), ("rows first", (1, 1, 20), "mnk"),
        ("tiles", (12, 16, 4), "nkm"),
    ):
        stream = stream_of(workload, tile, order)
        timing = simulate(graph, resolve(stream, isa))
        found[name] = timing.cache("dcache0").misses, timing.cycles
        assert found[name][0] == plain_misses(stream), name
    assert found["whole"][0] == found["rows first"][0]
    misses = {name: count for name, (count, _) in found.items()}
    assert misses["tiles"] < misses["columns first"] < misses["rows first"]
    assert found["columns first"][1] < found["rows first"][1]


def test_one_operation_at_a_time() -> None:
    workload = gemm(4, 4, 8, epilogue=Epilogue(False, 0.01, False, "int8"))
    timing = simulate(oma(mac_cycles=5), resolve(stream_of(workload, (4, 4, 8), "mnk"), Oma.kit.accelerator.isa()))
    units = {u.name: u for u in timing.units}
    assert units["fu0"].instructions + units["mau0"].instructions == timing.instructions
    assert sum(u.busy_cycles for u in units.values()) <= timing.cycles


def test_every_order_is_offered() -> None:
    assert set(ORDERS) == set(itertools.permutations("mnk"))
    from archloom.mapper.search import search

    workload = gemm(6, 5, 7, epilogue=Epilogue(False, 0.01, False, "int8"))
    plan = search(workload, Oma.kit.accelerator, {"order": "knm", "tile_m": 2, "tile_n": 5, "tile_k": 3})
    assert (plan.mapping.order, plan.mapping.tile) == (("k", "n", "m"), (("m", 2), ("n", 5), ("k", 3)))


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(TargetError, match="registers must be an integer from 4 to 256, not 3; replacement must be one"):
        oma(registers=3, replacement="oldest")
    with pytest.raises(MappingError, match="expected an order of m, n and k"):
        stream_of(gemm(1, 1, 1, epilogue=Epilogue(False, 1.0, False, "int8")), (1, 1, 1), "mn")
