"""Cores hold no more than they can: found in the stream that is simulated, whatever the plan was thought to need."""

from __future__ import annotations

import pytest

from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.spatial.attention.space import Attention
from archloom.mapper.spatial.machines.machine import Machine, isa_of
from archloom.mapper.spatial.plan import Pattern, Plan, TileGemm
from archloom.mapper.spatial.programs.timing import check_capacity, parts, simulated
from archloom.mapper.spatial.space import footprint
from archloom.mapper.spatial.workloads import emitted, search_workload
from archloom.oracle.errors import StreamError
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Instr, Stream

GRAPH = wormhole(rows=2, columns=2, sums=4, stats=8, l1_bytes=2048 * (2 * 4 + 8 + 1))
MACHINE = Machine.of(GRAPH)


@pytest.mark.parametrize("pattern", ["none", "row", "wave"])
def test_a_plan_that_is_too_large_is_found_in_the_simulation(
    pattern: Pattern, monkeypatch: pytest.MonkeyPatch
) -> None:
    gemm = TileGemm(2, 4, 8)  # the last row of cores has no work: beyond its memories there would be none at all
    plan = Plan((2, 2, 1), (2, 1, 1), (1, 2, 1), "rows", "mn", (pattern, "stream"), ("none", "stream"), 3)
    assert footprint(gemm, plan)[0] > MACHINE.tiles
    monkeypatch.setattr("archloom.mapper.spatial.plan.Plan.check", lambda *_: None)
    with pytest.raises(StreamError, match=r"gemm: instruction \d+ \w+ \(.*\) writes l1 \d+ to \d+.*: "
                       r"places \d+ to \d+ of core\[\d\]\[\d\]\.l1, which has 8"):
        simulated(emitted(gemm, plan, MACHINE), GRAPH)


@pytest.mark.parametrize(("instruction", "what"), [
    (Instr.make("clear", acc=2, count=3),
     r"1 clear writes acc 2 to 4: places 2 to 4 of core\[0\]\[0\].acc, which has 4"),
    (Instr.make("reduce", source=7, target=0, count=2),
     r"reduce reads acc 7 to 8: places 3 to 4 of core\[0\]\[1\].acc"),
    (Instr.make("begin", out=0, stat=13, m=2, d=1),
     r"begin writes stat 15 to 16: places 7 to 8 of core\[0\]\[1\].stat"),
    (Instr.make("multicast_row", dram=64, l1=6, rows=1, cols=3, h0=0, n0=2, s0=8), "writes l1 6 to 8 and copies"),
])
def test_every_memory_of_a_core_is_looked_at(instruction: Instr, what: str) -> None:
    stream = Stream("wormhole", MACHINE.isa_parameters, (), (), 1 << 20, (instruction,))
    with pytest.raises(StreamError, match=what):
        check_capacity(resolve(stream, isa_of(GRAPH)), GRAPH)


def test_what_fits_exactly_passes() -> None:
    gemm = TileGemm(4, 4, 4)
    plan = Plan((2, 2, 1), (2, 1, 1), (1, 2, 1), "rows", "mn", ("row", "stream"), ("column", "stream"))
    assert footprint(gemm, plan) == (8, 4)
    check_capacity(resolve(emitted(gemm, plan, MACHINE), isa_of(GRAPH)), GRAPH)
    assert {p.buffer: p.size for p in parts(GRAPH).values()} == {"l1": 8, "acc": 4, "stat": 8}


@pytest.mark.slow
def test_plans_of_attention_fit() -> None:
    graph = wormhole(rows=2, columns=2, sums=16, stats=16, l1_bytes=2048 * (2 * 16 + 32 + 1))
    attention = Attention.of(1, 2, 96, 64)
    plan = search_workload(attention, graph).best.plan
    check_capacity(resolve(emitted(attention, plan, Machine.of(graph)), isa_of(graph)), graph)
