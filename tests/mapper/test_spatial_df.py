"""The df dialect: the paper's listings are read, their printing errors are told, and graphs are made from text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acadl_models.wormhole import wormhole
from mapper.spatial.affine_map import AffineMap, identity, parse_map, shifted
from mapper.spatial.df import Cores, Description, Links, read
from mapper.spatial.machine import Machine
from mapper.spatial.plan import TileGemm
from mapper.spatial.search import search
from mapper.spatial.view import described, graph_of
from oracle.errors import TargetError

REFERENCE = json.loads((Path(__file__).parents[2] / "benchmarks" / "data" / "tl_reference.json").read_text())
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
    with pytest.raises(TargetError, match=r"line 12: the map of %to_dram takes \(0, 5\) of %L1 to \(4,\), but %drams"):
        read(listing(repaired=False))


def test_listing_6_alone_has_no_memory() -> None:
    description = read("\n".join(WORMHOLE["clean_listing_6"]))
    with pytest.raises(TargetError, match="each core needs a memory of its own, by one df.mux from %cores; found 0"):
        graph_of(description)


def test_the_printing_errors_of_the_triple_ring() -> None:
    with pytest.raises(TargetError, match="%memories is not declared before it is used"):
        read("\n".join(RINGS))
    repaired = "\n".join(RINGS).replace("%memories", "%L1").replace("mod 8", "mod 32")
    with pytest.raises(TargetError, match="%L1 is shared by cores"):
        graph_of(read(repaired))


def test_a_view_is_written_and_read_and_makes_the_same_machine() -> None:
    graph = wormhole(rows=2, columns=4)
    view = described(graph)
    assert read(str(view)) == view
    again = graph_of(view)
    assert Machine.of(again) == Machine.of(graph)
    gemm = TileGemm(4, 4, 4)
    plans = [search(gemm, g, top_k=1, refine=False).best for g in (graph, again)]
    assert plans[0].plan == plans[1].plan and plans[0].cycles == plans[1].cycles


def test_a_ring_of_cores_has_one_row() -> None:
    text = str(described(wormhole(rows=1, columns=4))).replace("(%rows, %columns)", "(%columns)")
    text = text.replace("(d0, d1) -> (d0, d1)", "(d0) -> (d0)").replace("(d0, d1) -> (0)", "(d0) -> (0)")
    text = text.replace("(d0, d1) -> (d0, (d1 + 1) mod 4)", "(d0) -> ((d0 + 1) mod 4)")
    lines = [line for line in text.splitlines() if "noc_v" not in line]
    machine = Machine.of(graph_of(read("\n".join(lines))))
    assert (machine.rows, machine.columns) == (1, 4)


@pytest.mark.parametrize(("line", "message"), [
    ("%x = df.spatial_dim 0", "size must be an integer of at least 1, not '0'"),
    ("%x = df.spatial_dim", "size must be an integer of at least 1, not ''"),
    ("x = 3", "expected '%name = df.operation operands"),
    ("%x = df.thing 3", "df.thing is no operation of the dialect"),
    ("%y = df.spatial_dim 2", "%y is declared a second time"),
    ("%m = df.memory {scaleout = (%y), bandwidth = 2}", "the attribute size is missing"),
    ("%m = df.memory {scaleout = (%z), size = 2}", "%z is not declared before it is used"),
    ("%m = df.memory {scaleout = (), size = 2}", "%m is replicated over no dimension"),
    ("%m = df.memory {scaleout = (%f), size = 2}", "%f must be a df.spatial_dim"),
    ("%u = df.mat {shape = [2], throughput = -1}", "throughput must be an integer of at least 1, not '-1'"),
    ("%d = df.core {scaleout = (%y), scalein = (%f, [1, 2])}", "scalein names 1 units but 2 counts"),
    ("%l = df.interconnects %c {map = affine_map<(d0) -> (d0)>}", "joins two sets of components, found 1"),
    ("%l = df.interconnects %c, %c {bandwidth = 1}", "%l has no map"),
    ("%l = df.mux %c, %c {map = affine_map<(d0, d1) -> (d0)>}", "goes from 2 to 1 dimensions; %c has 1, %c 1"),
    ("%l = df.mux %c, %c {map = affine_map<(d0) -> (d0 + 1)>}", r"takes \(1,\) of %c to \(2,\), but %c has 2 inst"),
    ("%l = df.mux %c, %c {map = affine_map<(d0) -> (d0 mod 0)>}", "divides by 0"),
    ("%l = df.mux %c, %c {map = affine_map<(d0) -> (d9)>}", "a parenthesis or one of d0, found 'd9'"),
    ("%l = df.mux %c, %c {map = affine_map<(d0) -> (d0 ! 2)>}", "is no number, name or operator"),
    ("%l = df.mux %c, %c {map = affine_map<(d0) -> (d0) 3>}", "expected the end, found '3'"),
    ("%l = df.mux %c, %c {map = affine_map<(d0) -> (d0>}", r"expected '\)', found the end"),
])
def test_errors_name_the_line_and_what_is_wrong(line: str, message: str) -> None:
    units = "%f = df.vec {shape = [32], throughput = 3}\n"
    before = f"%y = df.spatial_dim 2 // along\n{units}%c = df.core {{scaleout = (%y)}}\n"
    with pytest.raises(TargetError, match="df, line 4: .*" + message):
        read(before + line)


def test_a_graph_that_is_no_mesh_has_no_view() -> None:
    from acadl_models.qkv import qkv

    with pytest.raises(TargetError, match="is no mesh of cores"):
        described(qkv())


@settings(max_examples=50, deadline=None)
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
