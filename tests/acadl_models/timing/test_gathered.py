"""Reads of which only data say where they lie: as many places as elements, of which no two instances share any."""

from __future__ import annotations

import numpy as np
import pytest

from archloom.acadl_models.mte import mte
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.gathered import placed
from archloom.acadl_models.timing.reference.simulator import simulate_reference
from archloom.oracle import taidl
from archloom.oracle.accesses import accesses
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import Access, ResolvedLoop, ResolvedStream
from archloom.oracle.stream import Instr, Loop, Stream
from archloom.oracle.windows import positions

VLEN = 256
SIZES = {"vlen": VLEN, "rlen": 128, "registers": 32}


def stream_of(reach: int, lanes: int, turns: int, *, stored: bool = False) -> ResolvedStream:
    """Two gathers in each of so many turns from the ``reach`` bytes from 64 on; ``stored``: and a store into them."""
    gathers = [Instr.make("vluxei32_v", vd=vd, dram=64, vs2=0, vm=1, reach=reach) for vd in (8, 12)]
    store = [Instr.make("vse32_v", vs3=8, dram=64, vm=1)] if stored else []
    body = (Instr.make("vsetvli", rd=0, avl=lanes, vtypei=2 << 3), Loop("i", 0, turns, 1, (*gathers, *store)))
    stream = Stream("mte", tuple(SIZES.items()), (), (), 64 + reach, body)
    return resolve(stream, taidl.load("mte", **SIZES))


def read(stream: ResolvedStream) -> list[np.ndarray]:
    """The bytes of memory that each instance gathers."""
    (loop,) = (node for node in placed(stream).body if isinstance(node, ResolvedLoop))
    found = []
    for i in range(loop.extent):
        for node in loop.body:
            if node.mnemonic.startswith("vlux"):  # type: ignore[union-attr]
                (access,) = (a for a in accesses(node) if a.window.buffer == "hbm")  # type: ignore[arg-type]
                found.append(_bytes(access, i))
    return found


def _bytes(access: Access, i: int) -> np.ndarray:
    first = access.window.offsets[0].evaluate({"i": i})
    found: np.ndarray = positions(access.window.dims, (1 << 30,), 1) + first
    return found


@pytest.mark.parametrize("reach, lanes, turns", [(1 << 20, 8, 5), (5000, 7, 3), (4 * 8 * 10, 8, 5), (77, 3, 2)])
def test_places_are_as_many_as_elements_and_lie_apart(reach: int, lanes: int, turns: int) -> None:
    found = read(stream_of(reach, lanes, turns))
    assert all(len(each) == 4 * lanes and each.min() >= 64 and each.max() < 64 + reach for each in found)
    assert len(np.unique(np.concatenate(found))) == 4 * lanes * 2 * turns


def test_places_are_those_of_other_instances_where_there_are_no_more() -> None:
    found = read(stream_of(200, 8, 9))
    assert all(len(each) == 32 and each.min() >= 64 and each.max() < 264 for each in found)
    assert all(len(each) == 30 for each in read(stream_of(30, 8, 2)))  # more elements than there are: all of it


def test_all_is_read_where_the_stream_writes() -> None:
    assert {len(each) for each in read(stream_of(4096, 8, 3, stored=True))} == {4096}


@pytest.mark.parametrize("reach, stored", [(1 << 16, False), (2048, True)])
def test_simulators_agree(reach: int, stored: bool) -> None:
    graph, stream = mte(vlen=VLEN, rlen=128), stream_of(reach, 8, 6, stored=stored)
    assert simulate(graph, stream) == simulate_reference(graph, stream)


def test_lines_of_a_large_table_are_as_many_misses() -> None:
    """Each of 96 elements has a line of its own."""
    timing = simulate(mte(vlen=VLEN, rlen=128), stream_of(1 << 20, 8, 6))
    assert timing.cache("l2").misses == 96
