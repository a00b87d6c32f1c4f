"""Steady states with caches, DRAM banks and links: what is skipped equals what is stepped, and is found."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import given

from archloom.acadl_models.acadl import (
    BACKED_BY,
    DRAM,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    Link,
    MemoryAccessUnit,
    ReplacementPolicy,
    SetAssociativeCache,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.timing import TimingResult, simulate
from archloom.oracle.affine import Affine
from archloom.oracle.resolved import Buffer, ResolvedLoop, ResolvedNode, ResolvedStream, Window, WindowDim
from tests.support.acadl_models.simulators import agreed
from tests.support.acadl_models.timing_builders import after, front, instr
from tests.support.examples import every, examples, randoms, slow

BYTES = 1 << 16


def at(address: Affine | int, count: int = 4) -> Window:
    return Window("hbm", (Affine.of(address),), (WindowDim(0, count, 1),))


def loop(var: str, extent: int, *body: ResolvedNode) -> ResolvedLoop:
    return ResolvedLoop(var, extent, tuple(body))


def stream(*body: ResolvedNode) -> ResolvedStream:
    return ResolvedStream("steady", "hand", (), (Buffer("hbm", (BYTES,), "i8"),), (), (), BYTES, body)


def cached(
    levels: int = 1, policy: ReplacementPolicy = ReplacementPolicy.LRU, sets: int = 8, slots: int = 1, behind: int = 1,
    **options: object,
) -> ArchitectureGraph:
    """A unit before one or two caches before a memory, each with so many slots; ``behind``: those of the memory."""

    @generate
    def build() -> None:
        memory = SRAM("memory", address_ranges=[(0, BYTES)], max_concurrent_requests=behind)
        place: SRAM | SetAssociativeCache = memory
        for level in range(levels, 0, -1):
            cache = SetAssociativeCache(
                f"l{level}", port_width=4, sets=sets * level, ways=2, cache_line_size=16 * level, hit_latency=1,
                miss_latency=5 * level, replacement_policy=policy, max_concurrent_requests=slots,
                **options,  # type: ignore[arg-type]
            )
            ACADLEdge(cache, place, BACKED_BY)
            place = cache
        unit = MemoryAccessUnit("unit", to_process={"op"}, in_flight=slots, interval=1 if slots > 1 else None)
        after(front(), unit)
        ACADLEdge(place, unit, READ_DATA)
        ACADLEdge(unit, place, WRITE_DATA)
        architecture("cached", buffers={"hbm": memory})

    return create_ag(build())


def check(graph: ArchitectureGraph, work: ResolvedStream, least: float) -> TimingResult:
    """Reference, stepped and skipped agree, and at least a share of the instances is skipped."""
    skipped = agreed(graph, work)
    assert skipped.skipped_share >= least, skipped.skipped_share
    return skipped


i, j, k = (Affine.variable(v) for v in "ijk")


@pytest.mark.parametrize("policy", [p for p in ReplacementPolicy if p is not ReplacementPolicy.RANDOM])
def test_a_stream_of_reads_goes_round_the_sets(policy: ReplacementPolicy) -> None:
    result = check(cached(policy=policy), stream(loop("i", 2000, instr("op", reads=(at(i * 4),)))), 0.8)
    assert (result.cache("l1").read_misses, result.cache("l1").read_hits) == (500, 1500)


def test_what_fits_stays_and_what_streams_passes_by() -> None:
    """A table of 64 bytes is read again and again, beside a stream that moves by whole rounds of the sets."""
    body = loop("i", 300, instr("op", reads=(at(i * 128 + 4096),)), instr("op", reads=(at(64),)))
    result = check(cached(), stream(body), 0.8)
    assert result.cache("l1").read_misses == 301


@pytest.mark.parametrize(("levels", "back", "allocate"), every(3, product((2, 1), (True, False), (True, False))))
def test_writes_and_write_backs(levels: int, back: bool, allocate: bool) -> None:
    graph = cached(levels, write_back=back, write_allocate=allocate)
    body = loop("i", 900, instr("op", reads=(at(i * 16),)), instr("op", writes=(at(i * 16 + 8),)))
    result = check(graph, stream(body), 0.3)
    assert (result.cache("l1").write_backs > 800) == back


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize(("registers", "behind"), [(None, 4), slow(2, 4), (1, 4), slow(None, 2)])
def test_lines_on_their_way_move_with_the_stream(levels: int, registers: int | None, behind: int) -> None:
    """Six reads are under way, four of them in one line."""
    graph = cached(levels, slots=6, behind=behind, miss_registers=registers)
    result = check(graph, stream(loop("i", 1200, instr("op", reads=(at(i * 4),)))), 0.6)
    assert (result.cache("l1").read_misses, result.cache("l1").read_hits) == (300, 900)


def test_random_replacement_draws_on_while_periods_are_skipped() -> None:
    """Of a table and a stream that drives its lines out at random."""
    graph = cached(policy=ReplacementPolicy.RANDOM, seed=7)
    check(graph, stream(loop("i", 600, instr("op", reads=(at(i * 32),)))), 0.9)
    check(graph, stream(loop("i", 600, instr("op", reads=(at(64),)))), 0.9)
    body = loop("i", 2000, instr("op", reads=(at(i * 16 + 4096),)), instr("op", reads=(at(64),)))
    result = check(graph, stream(body), 0.3)
    assert 2001 < result.cache("l1").read_misses < 2600


def test_a_table_stays_while_a_stream_passes_through_its_sets() -> None:
    """One access stays, one moves on by a set: no state recurs before the stream is round all 256 of them."""
    body = loop("i", 900, instr("op", reads=(at(i * 16 + 4096),)), instr("op", reads=(at(64),)))
    result = check(cached(sets=256), stream(body), 0.95)
    assert result.cache("l1").read_misses == 901


@pytest.mark.parametrize(("line", "lines"), [((i + 1) % 500, 500), ((i + 200) % 480, 480)])
def test_a_loop_is_skipped_up_to_where_an_expression_turns(line: Affine, lines: int) -> None:
    """What is read ahead begins anew in the last iteration, or in the second half."""
    ahead = instr("op", reads=(at(line * 16 + 4096),))
    result = check(cached(sets=256), stream(loop("i", 500, ahead, instr("op", reads=(at(64),)))), 0.5)
    assert (result.cache("l1").read_misses, result.cache("l1").read_hits) == (lines + 1, 999 - lines)


def test_two_streams_ask_for_one_line_where_they_meet() -> None:
    """The faster one catches up while the line is on its way: they wait for each other there, and find three lines."""
    slow_one, fast_one = instr("op", reads=(at(i * 16 + 8896),)), instr("op", reads=(at(i * 48 + 4096),))
    result = check(cached(sets=1, slots=4, behind=4), stream(loop("i", 400, slow_one, fast_one)), 0.3)
    assert (result.cache("l1").read_misses, result.cache("l1").read_hits) == (797, 3)


def test_a_wait_that_is_new_where_two_streams_cross_shows_in_no_later_answer() -> None:
    """One asks for a line that is on its way for the other; as a miss of its own it would load it at the same time."""
    body = loop("i", 31, instr("op", reads=(at(i * 32 + 4096),)), instr("op", reads=(at(i * -16 + 5088),)))
    result = check(cached(sets=1, slots=2), stream(body), 0.0)
    assert (result.cache("l1").read_misses, result.cache("l1").read_hits) == (61, 1)


def test_a_wait_that_falls_away_shows_in_no_later_answer() -> None:
    """In a period that is replayed one waits for a line on its way; in the next one it need not."""
    places = (i * -16 + j * 32 + 8320, i * 64 - j * 16 + 8336, i * -16 + 8192)
    body = loop("i", 12, *(instr("op", reads=(at(place),)) for place in places))
    check(cached(sets=1, slots=6, behind=2, miss_registers=3), stream(loop("j", 7, body)), 0.0)


def test_a_stream_that_reaches_a_table_is_stepped_there() -> None:
    """From where it reads the table's lines, which are there, it is faster; and behind them as before."""
    table = [instr("op", reads=(at(16384 + 16 * k),)) for k in range(8)]
    body = loop("i", 600, instr("op", reads=(at(i * 16 + 12288),)), *table)
    result = check(cached(sets=512, slots=2), stream(body), 0.9)
    assert result.cache("l1").read_misses == 600


def test_lines_that_are_written_back_at_odd_times_cost_no_time() -> None:
    """Every third line that a stream drives out is dirty: they are counted though they are skipped."""
    dirty = loop("j", 340, instr("op", writes=(at(j * 48),)))
    body = loop("i", 1500, instr("op", reads=(at(i * 16 + 20000),)), instr("op", reads=(at(65000),)))
    result = check(cached(sets=512), stream(dirty, body), 0.95)
    assert result.cache("l1").write_backs == 340


def test_lines_that_two_streams_share_are_not_skipped_wrongly() -> None:
    """One stream overtakes the other in the same memory: the map of places is not one map there."""
    body = loop("i", 500, instr("op", reads=(at(i * 64 + 8192),)), instr("op", reads=(at(i * -64 + 48000),)))
    check(cached(), stream(body), 0.0)


def test_nested_loops_of_a_matrix_product() -> None:
    reads = (at(i * 64 + k * 4 + 8192), at(k * 32 + j * 4))
    body = loop("i", 40, loop("j", 8, loop("k", 16, instr("op", reads=reads))))
    result = check(cached(sets=32), stream(body), 0.3)
    assert result.cache("l1").misses < result.cache("l1").hits


def banked(t_ras: int = 20) -> ArchitectureGraph:
    @generate
    def build() -> None:
        memory = DRAM(
            "dram", address_ranges=[(0, BYTES)], bank_address_ranges=[(0, BYTES // 2), (BYTES // 2, BYTES)],
            row_words=256, t_RCD=5, t_RP=4, t_RAS=t_ras, port_width=4, read_latency=6, write_latency=3,
        )
        unit = MemoryAccessUnit("unit", to_process={"op"})
        after(front(), unit)
        ACADLEdge(memory, unit, READ_DATA)
        ACADLEdge(unit, memory, WRITE_DATA)
        architecture("banked", buffers={"hbm": memory})

    return create_ag(build())


def test_rows_of_a_dram_move_with_the_stream() -> None:
    result = check(banked(), stream(loop("i", 4000, instr("op", reads=(at(i * 16, 16),)))), 0.8)
    assert (result.dram("dram").row_hits, result.dram("dram").row_misses) == (3750, 2)
    assert result.dram("dram").row_conflicts == 248


def test_two_streams_in_one_bank_of_a_dram() -> None:
    body = loop("i", 1000, instr("op", reads=(at(i * 16, 16),)), instr("op", writes=(at(i * 16 + 16384, 16),)))
    result = check(banked(), stream(body), 0.7)
    assert result.dram("dram").row_conflicts == 1999


@pytest.mark.parametrize("step", [16, slow(24), 5])
def test_streams_go_round_the_channels(step: int) -> None:
    """Reads and writes go over three channels of 8 words, at steps that begin anywhere in them."""

    @generate
    def build() -> None:
        memory = DRAM("dram", read_latency=3, write_latency=3, port_width=2, address_ranges=[(0, BYTES)],
                      max_concurrent_requests=4, shared_port=True, channels=3, channel_words=8)
        unit = MemoryAccessUnit("unit", to_process={"op"}, in_flight=4, interval=1)
        after(front(), unit)
        ACADLEdge(memory, unit, READ_DATA)
        ACADLEdge(unit, memory, WRITE_DATA)
        architecture("dealt", buffers={"hbm": memory})

    body = loop("i", 1500, instr("op", reads=(at(i * step, 11),)), instr("op", writes=(at(i * 8 + 40000, 8),)))
    check(create_ag(build()), stream(body), 0.6)


@pytest.mark.parametrize("mode", ["streaming", "window"])
def test_links_reach_a_steady_state(mode: str) -> None:
    @generate
    def build() -> None:
        memory = SRAM(
            "memory", address_ranges=[(0, BYTES)], max_concurrent_requests=4, port_width=16, read_write_ports=2
        )
        link = Link("link", bandwidth=3, mode=mode, latency=2)
        source = front()
        for name in ("a", "b"):
            unit = MemoryAccessUnit(name, to_process={name}, interval=1, in_flight=4)
            after(source, unit, name=f"ex_{name}")
            ACADLEdge(memory, unit, READ_DATA, link=link)
            ACADLEdge(unit, memory, WRITE_DATA, link=link)
        architecture("linked", buffers={"hbm": memory})

    other = instr("b", reads=(at(4, 8),), writes=(at(i * 8 + 32768, 8),))
    body = loop("i", 700, instr("a", reads=(at(i * 16, 16),)), other)
    result = check(create_ag(build()), stream(body), 0.8)
    assert result.link("link").read.bytes == 700 * 24 and result.link("link").write.bytes == 700 * 8


@examples(15, 300)
@given(randoms)
def test_skipping_equals_stepping_on_long_random_streams(r: Random) -> None:
    """Nests of up to three loops over several streams of any strides, on caches of any shape."""
    graph = cached(
        r.choice((1, 1, 2)), r.choice(list(ReplacementPolicy)), r.choice((1, 4, 8, 32)),
        r.choice((1, 3, 8)), r.randint(1, 4), write_back=r.random() < 0.5, write_allocate=r.random() < 0.5,
        miss_registers=r.choice((None, 1, 2)),
    ) if r.random() < 0.7 else banked(r.choice((0, 20, 60)))  # fmt: skip
    strides = (0, 0, 4, 16, 64, 128, 256, 512)
    accesses = []
    for _ in range(r.randint(1, 3)):
        address = Affine(r.randrange(0, 20000)) + i * r.choice(strides) + j * r.choice(strides) + k * r.choice(strides)
        window = at(address % (BYTES - 64), r.choice((4, 16, 40)))
        accesses.append(instr("op", reads=(window,)) if r.random() < 0.5 else instr("op", writes=(window,)))
    work = stream(loop("i", r.randint(2, 60), loop("j", r.randint(1, 40), loop("k", r.randint(1, 12), *accesses))))
    assert simulate(graph, work, skip=True) == simulate(graph, work, skip=False)


@examples(25, 400)
@given(randoms)
def test_replayed_periods_equal_stepped_ones(r: Random) -> None:
    """Tables that stay and streams that pass, near enough to meet and to drive each other out, and some that begin anew
    in the last iteration of a loop; also without caches, where transitions are recalled."""
    graph = cached(
        r.choice((0, 1, 1, 2, 2)), r.choice(list(ReplacementPolicy)), r.choice((4, 16, 64)), r.choice((1, 3, 8)),
        r.randint(1, 4), write_back=r.random() < 0.5, write_allocate=r.random() < 0.5,
        miss_registers=r.choice((None, 1, 2)), line_requests=r.random() < 0.5,
    )
    strides, extent = (0, 0, 16, 32, 32, 64, 96, 160, 8), r.randint(10, 90)
    turning = (i, i, (i + 1) % extent, (i + r.randint(0, 5)) % (extent + 2))
    accesses = []
    for _ in range(r.randint(2, 4)):
        address = Affine(r.randrange(0, 4096, r.choice((1, 16)))) + j * r.choice(strides)
        address += r.choice(turning) * r.choice(strides) + k * r.choice((0, 16, 32))
        window = at(address, r.choice((4, 16, 40)))
        accesses.append(instr("op", reads=(window,)) if r.random() < 0.7 else instr("op", writes=(window,)))
    body = loop("i", extent, loop("k", r.randint(1, 5), *accesses))
    work = stream(loop("j", r.randint(1, 12), body))
    assert simulate(graph, work, skip=True) == simulate(graph, work, skip=False)


@examples(40, 2000)
@given(randoms)
def test_streams_that_cross_are_stepped_where_one_waits_for_a_line_of_the_other(r: Random) -> None:
    """Two or three streams of one loop that move by different distances, and meet within it or just behind it."""
    graph = cached(
        r.choice((1, 1, 2)), sets=r.choice((1, 1, 4)), slots=r.randint(2, 4), behind=r.randint(1, 2),
        miss_registers=r.choice((None, 1, 2)),
    )
    extent = r.randint(20, 60)
    meet, strides = r.randrange(15, extent + 2), r.sample((-16, 0, 16, 32, 48, 64), r.randint(2, 3))
    body = []
    for stride in strides:
        window = at(i * stride + (16384 - stride * meet + r.choice((0, 0, 0, 16, 8))))
        body.append(instr("op", reads=(window,)) if r.random() < 0.9 else instr("op", writes=(window,)))
    work = stream(loop("i", extent, *body))
    assert simulate(graph, work, skip=True) == simulate(graph, work, skip=False)
