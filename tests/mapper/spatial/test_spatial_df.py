"""The df dialect: the paper's listings are read, their printing errors are told, and graphs are made from text."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.acadl import (
    ArchitectureGraph,
)
from archloom.acadl_models.mesh import mesh
from archloom.acadl_models.triple_ring import triple_ring
from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.spatial.machines.affine_map import AffineMap, Operation, parse_map
from archloom.mapper.spatial.machines.building import graph_of
from archloom.mapper.spatial.machines.df import Cores, Description, Links, Memories
from archloom.mapper.spatial.machines.df_text import read
from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.machines.view import described
from archloom.mapper.spatial.plan import TileGemm
from archloom.mapper.spatial.workloads import search
from archloom.oracle.errors import TargetError
from archloom.tvm_backend.targets.registry import get, names
from tests.support.examples import every, examples

REFERENCE = json.loads((Path(__file__).parents[3] / "benchmarks" / "data" / "tl_reference.json").read_text())
WORMHOLE = REFERENCE["wormhole"]
RINGS = REFERENCE["spyre_like_triple_ring"]["clean_listing_9"]


def listing(repaired: bool = True) -> str:
    """Listings 7 and 8 as one text."""
    seven, eight = list(WORMHOLE["clean_listing_7"]), WORMHOLE["clean_listing_8"]
    text = "\n".join([*seven[:2], *eight, *seven[3:]])
    return text.replace("ceildiv", "floordiv") if repaired else text


def test_the_listings_of_wormhole_make_a_graph() -> None:
    description = read(listing())
    cores = description.of(Cores)[0]
    assert isinstance(cores, Cores) and cores.units == (("FPU", 8), ("SFPU", 1))
    machine = Machine.of(graph_of(description))
    assert (machine.rows, machine.columns, machine.product_cycles, machine.ring_bytes) == (8, 8, 98, 28)
    assert machine.dram_bytes == 4 * 267  # the listing's figure, for each of its four memories


def test_the_printed_map_to_memories_is_refused() -> None:
    message = r"line 12, column 48: the map of %to_dram takes \(0, 5\) of %L1 to \(4,\), but %drams"
    with pytest.raises(TargetError, match=message):
        read(listing(repaired=False))


def test_listing_6_alone_has_no_memory() -> None:
    description = read("\n".join(WORMHOLE["clean_listing_6"]))
    with pytest.raises(TargetError, match="each core needs a memory of its own, by one df.mux from %cores; found 0"):
        graph_of(description)


def test_the_printing_errors_of_the_triple_ring() -> None:
    with pytest.raises(TargetError, match="%memories is not declared before it is used"):
        read("\n".join(RINGS))
    repaired = "\n".join(RINGS).replace("%memories", "%L1").replace("mod 8", "mod 32")
    assert Machine.of(graph_of(read(repaired, rates="operations"))) == Machine.of(triple_ring())
    with pytest.raises(TargetError, match="line 1, column 53: %PT does 16385 operations in a cycle, which"):
        read(repaired.replace("16384", "16385"), rates="operations")
    with pytest.raises(TargetError, match="rates must be one of cycles, operations, not 'flops'"):
        read(repaired, rates="flops")


@pytest.mark.slow
def test_a_view_is_written_and_read_and_makes_the_same_machine() -> None:
    graph = wormhole(rows=2, columns=4)
    view = described(graph)
    assert read(str(view)) == view
    again = graph_of(view)
    assert Machine.of(again) == Machine.of(graph)
    gemm = TileGemm(4, 4, 4)
    plans = [search(gemm, g, top_k=1, refine=False).best for g in (graph, again)]
    assert plans[0].plan == plans[1].plan and plans[0].cycles == plans[1].cycles


MACHINES: dict[str, Callable[[], ArchitectureGraph]] = {
    "wormhole": wormhole,
    "one row": lambda: wormhole(rows=1, columns=8),
    "mesh": lambda: mesh(4, 3, name="other"),
    "open": lambda: mesh(3, 2, torus=False),
    "one core": lambda: mesh(1, 1),
    "two": lambda: mesh(1, 2),
    "four": lambda: mesh(2, 2, l1_bytes_per_cycle=70),
    "figures": lambda: mesh(
        5, 3, l1_bytes_per_cycle=48, array=2, vector_width=48, vector_cycles=5, sums=7, stats=9, clock_hz=1.5e9,
        block_cycles=0),
    "semaphores": lambda: mesh(3, 2, semaphores=4, torus=False),
    "channels": lambda: mesh(2, 3, dram_channels=6, dram_bytes_per_cycle=100),
    "a core and channels": lambda: mesh(1, 1, dram_channels=3),
    "rings with semaphores": lambda: triple_ring(columns=3, semaphores=5),
    "triple ring": triple_ring,
    "square rings": lambda: triple_ring(columns=2, rows=2),
    "three rings": lambda: triple_ring(columns=5, rows=3, memories=1, sums=3),
}


ENERGY = {"component", "joules_per_access", "joules_per_byte", "joules_per_operation"}


def structure(graph: ArchitectureGraph) -> dict[str, Any]:
    """What a graph states, without energy."""
    facts = {key: value for key, value in graph.facts().items() if key not in ("name", "energy")}
    objects = [[kind, {key: value for key, value in each.items() if key not in ENERGY}]
               for kind, each in facts["objects"]]
    return {**facts, "objects": objects}


@pytest.mark.first_case
@pytest.mark.parametrize("name", every(6, MACHINES))
def test_graphs_are_described_and_built_again(name: str) -> None:
    """The same graph, in every figure but those of energy and its name, which the dialect has not."""
    graph = MACHINES[name]()
    text = str(described(graph))
    again = graph_of(read(text))
    assert str(described(again)) == text and Machine.of(again) == Machine.of(graph)
    assert structure(again) == structure(graph)


@pytest.mark.slow
@examples(2, 80)
@given(st.data())
def test_what_is_built_from_text_is_described_by_it(data: st.DataObject) -> None:
    """Text to graph to text: a fixed point, for listings and for machines of any figures."""
    draw = data.draw
    options = {
        "sums": draw(st.integers(1, 40)), "stats": draw(st.integers(1, 99)),
        "product_cycles": draw(st.integers(1, 500)),
        "vector_width": draw(st.sampled_from([1, 32, 100])), "block_cycles": draw(st.integers(0, 99)),
        "dram_bytes_per_cycle": draw(st.integers(1, 999)), "launch_cycles": draw(st.integers(1, 9999)),
        "array": draw(st.integers(1, 4)), "clock_hz": draw(st.sampled_from([1e9, 1.25e9, 0.5])),
        "semaphores": draw(st.sampled_from([0, 7])),
    }
    if draw(st.booleans()):
        graph = mesh(
            draw(st.integers(1, 4)), draw(st.integers(1, 4)), torus=draw(st.booleans()), l1_bytes=1 << 19,
            dram_channels=draw(st.integers(1, 7)), l1_bytes_per_cycle=draw(st.integers(0, 99)),
            noc_bytes_per_cycle=draw(st.integers(1, 99)), **options)  # type: ignore[arg-type]
    else:
        graph = triple_ring(columns=draw(st.integers(2, 4)), rows=draw(st.integers(2, 3)), **options)  # type: ignore[arg-type]
    built = graph_of(described(graph))
    text = str(described(built))
    again = graph_of(read(text))
    assert str(described(again)) == text and again.fingerprint == built.fingerprint
    assert text == str(described(graph))


@pytest.mark.slow
@pytest.mark.parametrize("text", [
    listing(), "\n".join(RINGS).replace("%memories", "%L1").replace("mod 8", "mod 32").replace("16384", "128").replace(
        "throughput = 128}\n%x", "throughput = 1}\n%x")], ids=["listings 7 and 8", "listing 9"])
def test_what_the_listings_say_is_a_fixed_point(text: str) -> None:
    built = graph_of(read(text))
    written = str(described(built))
    again = graph_of(read(written))
    assert str(described(again)) == written and again.fingerprint == built.fingerprint


@pytest.mark.first_case
@pytest.mark.parametrize("name", every(2, names()))
def test_every_target_has_a_view(name: str) -> None:
    accelerator = get(name).accelerator
    graph = accelerator.graph()
    view = described(graph, accelerator.isa())
    assert read(str(view)) == view and view.clock_hz == graph.clock_hz
    memory = next(m for m in view.items if isinstance(m, Memories) and m.name == "hbm")
    assert memory.size * math.prod(view.extents("hbm")) == graph.bytes_of("hbm")
    assert any(cores.units for cores in view.items if isinstance(cores, Cores))


@pytest.mark.first_case
@pytest.mark.parametrize(("name", "unit"), [
    ("gemmini", "%execute = df.mat {shape = [16, 16, 16], throughput = 15}"),
    ("gamma", "%matMulFu = df.mat {shape = [1, 8, 8], throughput = 1}"),
    ("amx", "%tmul = df.mat {shape = [16, 16, 64], throughput = 16}"),
    ("qkv", "%softmax = df.vec {shape = [16], throughput = 3}"),
    ("systolic_array", "%array = df.mat {shape = [16, 16, 1], throughput = 1}"),
    ("tpu_v1", "%matrix = df.mat {shape = [256, 256, 256], throughput = 256}"),
    ("ai_engine", "%vector = df.mat {shape = [4, 2, 4], throughput = 1}"),
    ("eyeriss", "%pe = df.core {scaleout = (%pe_0, %pe_1), scalein = (%mac, [1])}"),
    ("ultratrail", "%array = df.mat {shape = [1, 8, 8], throughput = 1}"),
    ("oma", "%fu0 = df.scalar {latency = 1}"),
    ("plasticine", "%pmu = df.memory {scaleout = (%pmu_0, %pmu_1), size = 262144, bandwidth = 64}"),
])
def test_units_are_read_off_graph_and_instructions(name: str, unit: str) -> None:
    accelerator = get(name).accelerator
    assert f"  {unit}\n" in str(described(accelerator.graph(), accelerator.isa()))


def test_a_ring_of_cores_has_one_row() -> None:
    lines = listing().splitlines()
    kept = [line for line in lines if "%y =" not in line and "noc_v" not in line]
    text = "\n".join(kept).replace("(%x, %y)", "(%x)").replace("(d0, d1) -> (d0, d1)", "(d0) -> (d0)")
    text = text.replace("(d0, d1) -> ((d0 + 1) mod 8, d1)", "(d0) -> ((d0 + 1) mod 8)")
    text = text.replace("(d0, d1) -> (d0 floordiv 4 + 2 * (d1 floordiv 4))", "(d0) -> (d0 floordiv 4)")
    machine = Machine.of(graph_of(read(text)))
    assert (machine.rows, machine.columns) == (1, 8)


@pytest.mark.parametrize(("old", "new", "message"), [
    ("(d0, (d1 + 1) mod 8)", "(d0, (d1 + 2) mod 8)", r"%noc_v leads from \(0, 0\) to \(0, 2\), which is no"),
    ("(d0, (d1 + 1) mod 8)", "(d0, d1 + 1 - (d1 + 1) floordiv 8)", "must be all rings or all open; found %noc_h: a"),
    ("((d0 + 1) mod 8, d1)", "(d0, (d1 + 1) mod 8)", "no df.interconnects joins the cores along %x"),
    ("shape = [32, 32, 32]", "shape = [32, 32, 16]", r"%FPU works on \[32, 32, 16\]; cores are built for products of"),
    ("bandwidth = 267", "latency = 3", "%drams states no bandwidth"),
    ("size = 1499136", "size = 14991", "mesh: l1_bytes must be an integer from 16384 .*size of %L1 and what lies"),
    ("throughput = 98", "throughput = 98765", r"not 98765 \(product_cycles is the throughput of %FPU\)$"),
    ("bandwidth = 267", "bandwidth = 26700", r"not 106800 \(dram_bytes_per_cycle is the bandwidth of %drams\)$"),
    ("%SFPU, [8, 1]", "[8]", "%cores has no df.vec"),
    ("df.vec {shape = [32]", "df.vec {shape = [32, 3]", r"line 4, column 25: shape of df.vec %SFPU must be 1 ext"),
])
def test_machines_that_are_not_built_name_what_is_to_blame(old: str, new: str, message: str) -> None:
    assert old in listing()
    with pytest.raises(TargetError, match=message):
        graph_of(read(listing().replace(old, new)))


def test_shared_memories_lie_on_rings() -> None:
    text = str(described(triple_ring(columns=4)))
    with pytest.raises(TargetError, match="%small_ring_2 is no ring: it does not lead from the last of %columns on"):
        graph_of(read(text.replace("(d1 + 1) mod 4)", "(d1 + 1) - ((d1 + 1) floordiv 4))")))
    with pytest.raises(TargetError, match="%l1 states no bandwidth"):
        graph_of(read(text.replace("size = 1507328, bandwidth = 128", "size = 1507328")))


def identity(count: int) -> AffineMap:
    """Every point to itself."""
    names = tuple(f"d{i}" for i in range(count))
    return AffineMap(names, names)


def shifted(count: int, axis: int, extent: int) -> AffineMap:
    """Every point to the next along ``axis``, the last to the first."""
    names = tuple(f"d{i}" for i in range(count))
    step = Operation("mod", Operation("+", names[axis], 1), extent)
    return AffineMap(names, tuple(step if i == axis else name for i, name in enumerate(names)))


@examples(25, 250)
@given(st.integers(1, 3), st.integers(0, 2), st.integers(1, 9), st.lists(st.integers(0, 8), min_size=3, max_size=3))
def test_maps_are_written_and_read(count: int, axis: int, extent: int, point: list[int]) -> None:
    for made in (identity(count), shifted(count, axis % count, extent)):
        text = str(made)
        assert parse_map(text.removeprefix("affine_map<").removesuffix(">")) == made
        image = made(point[:count])
        assert len(image) == count
        assert image[(axis + 1) % count] == point[(axis + 1) % count] or count == 1


def test_operators_bind_as_usual() -> None:
    assert parse_map("(d0, d1) -> (d0 floordiv 4 + 2 * (d1 ceildiv 4) - 1)")((7, 5)) == (1 + 4 - 1,)
    assert isinstance(parse_map("(d0) -> (d0)"), AffineMap)
    assert Description(()).of(Links) == []
