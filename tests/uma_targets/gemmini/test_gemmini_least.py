"""No stream of Gemmini takes fewer cycles than are proven of its mapping, nor than of what a search makes of that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from archloom.acadl_models.timing import simulate
from archloom.mapper.accelerator import Configuration
from archloom.mapper.mapping import Mapping
from archloom.mapper.space import Table
from archloom.mapper.workload import Epilogue, Pool, Workload, conv2d, gemm
from archloom.oracle.errors import MappingError
from archloom.oracle.resolve import resolve
from archloom.uma_targets.gemmini.target import GEMMINI
from tests.support.examples import examples

few, several = st.integers(1, 3), st.integers(1, 40)


@st.composite
def machines(draw: st.DrawFn) -> Configuration:
    """Small ones, so that blocks lie across borders of banks, with whatever makes them slower."""
    dim = draw(st.sampled_from((4, 5, 8)))
    options = {
        "dim": dim, "scratchpad_banks": draw(st.sampled_from((1, 2, 3, 4, 16))),
        "accumulator_banks": draw(st.sampled_from((1, 2, 5))), "scratchpad_kib": draw(st.sampled_from((1, 2, 5, 16))),
        "accumulator_kib": draw(st.sampled_from((1, 3, 8))), "dma_bus_bits": draw(st.sampled_from((8, 32, 128, 512))),
        "least_rows": draw(st.sampled_from((2, 4, 6))), "dram_latency_cycles": draw(st.sampled_from((1, 20, 100))),
        "scratchpad_single_ported": draw(st.booleans())}
    options |= {name: draw(st.sampled_from(values)) for name, values in (
        ("ld_queue", (1, 8)), ("st_queue", (1, 2)), ("ex_queue", (1, 8)), ("rs_ld", (1, 2, 8)), ("rs_st", (1, 4)),
        ("rs_ex", (2, 16)), ("max_in_flight", (1, 4, 16)), ("loop_entries", (0, 64)), ("page_cycles", (0, 0, 7)),
        ("row_requests", (False, False, True)))}
    return GEMMINI.configure(options)


def epilogue(draw: st.DrawFn, pool: Pool | None = None) -> Epilogue:
    out = "int8" if pool else draw(st.sampled_from(("int8", "int32")))
    return Epilogue(draw(st.booleans()), 1.0, pool is not None, out, pool)


@st.composite
def products(draw: st.DrawFn) -> Workload:
    m, n, k = draw(several), draw(several), draw(several)
    return gemm(m, n, k, batch=draw(few), shared_b=draw(st.booleans()), epilogue=epilogue(draw))


@st.composite
def convolutions(draw: st.DrawFn) -> Workload:
    h, w, kh, kw = draw(st.integers(1, 12)), draw(st.integers(1, 20)), draw(few), draw(few)
    stride, dilation = (draw(few), draw(few)), draw(st.sampled_from(((1, 1), (1, 1), (2, 1))))
    padding = tuple(draw(st.integers(0, 2)) for _ in range(4))
    assume(h + padding[0] + padding[2] > (kh - 1) * dilation[0])
    assume(w + padding[1] + padding[3] > (kw - 1) * dilation[1])
    groups, pool = draw(st.sampled_from((1, 1, 2))), draw(st.sampled_from((None, None, Pool(2, 2, (0, 0, 0, 0)))))
    work = conv2d(draw(st.integers(1, 2)), h, w, draw(st.integers(1, 40)), draw(st.integers(1, 20)), kh, kw,
                  stride=stride, dilation=dilation, groups=groups, padding=padding,  # type: ignore[arg-type]
                  epilogue=epilogue(draw, pool))
    assume(pool is None or min(work.output.shape[1:3]) > 0)
    return work


def made_of(mapping: Mapping) -> list[Mapping]:
    """What a search tries of the best: other places of stores, and half of those for sums."""
    slots = dict(mapping.buffers)
    found = [mapping, replace(mapping, buffers=tuple((slots | {"C": max(1, slots["C"] // 2)}).items()))]
    return [*found, replace(mapping, store="interleave")] if mapping.kind == "gemm" else found


def proven(table: Table) -> np.ndarray:
    assert table.least is not None
    return np.broadcast_to(table.least(table.columns), len(table))


@examples(25, 1500)
@given(products() | convolutions(), machines(), st.randoms(use_true_random=False))
def test_nothing_takes_less_than_is_proven(work: Workload, machine: Configuration, random: object) -> None:
    try:
        space = machine.space(work)
    except MappingError:
        return
    for table in space.tables:
        least = proven(table)
        for i in {int(np.argmin(least)), int(np.argmax(least)), random.randrange(len(table))}:  # type: ignore[attr-defined]
            for mapping in made_of(table.mapping(table.columns, i)):
                found = simulate(machine.graph, resolve(machine.emit(work, mapping), machine.isa)).cycles
                assert 0 < least[i] <= found, mapping


def test_no_product_waits_for_rows_between_those_of_a_dilated_kernel() -> None:
    """The last row that is loaded lies between two rows of the kernel: the last store need not wait for it."""
    work = conv2d(1, 12, 11, 6, 1, 2, 3, stride=(1, 3), padding=(0, 1, 1, 2), dilation=(2, 1),
                  epilogue=Epilogue(False, 1.0, False, "int8"))
    machine = GEMMINI.configure({"dim": 5, "scratchpad_kib": 1, "dma_bus_bits": 8, "rs_ld": 1, "least_rows": 6})
    for table in machine.space(work).tables:
        i = int(np.argmax(proven(table)))
        stream = machine.emit(work, table.mapping(table.columns, i))
        assert proven(table)[i] <= simulate(machine.graph, resolve(stream, machine.isa)).cycles


@examples(10, 300)
@given(*2 * [st.integers(3, 6)], st.integers(9, 33), st.sampled_from((1, 3, 9)), st.integers(1, 3), st.booleans(),
       st.sampled_from((128, 512)), st.sampled_from((1, 5)), st.randoms(use_true_random=False))
def test_no_product_waits_for_chunks_that_it_does_not_read(
    h: int, w: int, c: int, o: int, kernel: int, bias: bool, bus: int, latency: int, random: object
) -> None:
    """Where the whole input is loaded first, by a fast memory, the first product needs one chunk of many."""
    work = conv2d(1, h, w, c, o, kernel, kernel, epilogue=Epilogue(bias, 1.0, False, "int32"))
    machine = GEMMINI.configure({"dim": 4, "dma_bus_bits": bus, "dram_latency_cycles": latency, "least_rows": 4})
    for table in machine.space(work).tables:
        least = proven(table)
        mappings = [table.mapping(table.columns, i) for i in range(len(table))]
        stay = [i for i, mapping in enumerate(mappings) if ("X", "hoist") in mapping.loads]
        for i in random.sample(stay, min(2, len(stay))):  # type: ignore[attr-defined]
            stream = machine.emit(work, mappings[i])
            assert least[i] <= simulate(machine.graph, resolve(stream, machine.isa)).cycles, mappings[i]
