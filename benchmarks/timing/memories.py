"""Caches against pycachesim and DRAM banks against a transcription of their state machine, on random address streams.

The plain models take streams of any addresses; the fast engine takes loops of loads and stores that walk through the
memory by random strides, modulo random numbers, so that a stream is long and its program short.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import cachesim

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.acadl_models.acadl import (
    BACKED_BY,
    CONTAINS,
    DRAM,
    FORWARD,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    DataStorage,
    ExecuteStage,
    InstructionFetchStage,
    InstructionMemoryAccessUnit,
    MemoryAccessUnit,
    ReplacementPolicy,
    SetAssociativeCache,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.timing import TimingResult, simulate
from archloom.acadl_models.timing.memories.cache import Cache
from archloom.acadl_models.timing.memories.dram import Banks
from archloom.oracle.affine import Affine
from archloom.oracle.resolved import (
    Buffer,
    Read,
    ResolvedInstr,
    ResolvedLoop,
    ResolvedStream,
    Statement,
    TensorType,
    Window,
    WindowDim,
    Write,
)
from benchmarks.common import arguments, finish
from benchmarks.timing.dram_state import Dram

SPACE = 1 << 14
"""Bytes of the memory."""

Access = tuple[int, int, bool]
"""Address, bytes, whether it reads."""

WRITES = ((True, True), (True, False), (False, False))
"""``write_back``, ``write_allocate``: the pairs that pycachesim takes."""


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--streams", type=int, default=60, help="random streams of each kind (default 60)")
    parser.add_argument("--accesses", type=int, default=2000, help="of a stream; 8 times as many in the engine (2000)")


def random_stream(r: Random, count: int) -> list[Access]:
    """Near addresses, strides and jumps, in a part of the memory."""
    space, at, reads = r.choice((256, 2048, SPACE - 64)), 0, r.choice((1.0, 0.7, 0.3))
    found = []
    for _ in range(count):
        at = r.choice((at + 1, at + r.choice((4, 16, 64)), r.randrange(space))) % space
        found.append((at, r.choice((1, 1, 1, 4, 20)), r.random() < reads))
    return found


def random_program(r: Random, count: int) -> tuple[ResolvedStream, list[Access]]:
    """A loop over six loads and stores with about so many accesses, and these accesses."""
    body, walks = [], []
    for number in range(6):
        space = r.choice((61, 256, 1021, 4099, SPACE - 64))
        stride, offset, size = r.randrange(1, space), r.randrange(space), r.choice((1, 1, 4, 20))
        is_read = r.random() < 0.7
        window = Window("hbm", ((Affine.variable("i") * stride + offset) % space,), (WindowDim(0, size, 1),))
        kind = TensorType((size,), "i8")
        statement: Statement = Read("%x", window, kind) if is_read else Write("%x", window, kind)
        body.append(ResolvedInstr("op", (), (), (statement,), number))
        walks.append((stride, offset, space, size, is_read))
    times = count // 6
    loop = ResolvedLoop("i", times, tuple(body))
    accesses = [((i * a + b) % m, size, is_read) for i in range(times) for a, b, m, size, is_read in walks]
    return ResolvedStream("walks", "none", (), (Buffer("hbm", (SPACE,), "i8"),), (), (), SPACE, (loop,)), accesses


def graph_of(front_of: Any) -> ArchitectureGraph:
    """One unit before what ``front_of`` makes: it returns the storage of the unit and the memory."""

    @generate
    def build() -> None:
        fetch, fetcher = InstructionFetchStage("fetch", issue_buffer_size=8), InstructionMemoryAccessUnit("imau")
        text = SRAM("text", data_width=32, port_width=4, address_ranges=[(0, 1 << 20)])
        stage, unit = ExecuteStage("execute"), MemoryAccessUnit("unit", to_process={"op"})
        ACADLEdge(fetch, fetcher, CONTAINS)
        ACADLEdge(text, fetcher, READ_DATA)
        ACADLEdge(fetch, stage, FORWARD)
        ACADLEdge(stage, unit, CONTAINS)
        front, memory = front_of()
        ACADLEdge(front, unit, READ_DATA)
        ACADLEdge(unit, front, WRITE_DATA)
        architecture("memories", buffers={"hbm": memory})

    return create_ag(build())


# --- caches ----------------------------------------------------------------------------------------------------
def random_levels(r: Random) -> list[dict[str, Any]]:
    """One to three caches; MRU alone, as pycachesim writes a wrong line back where another cache is behind it."""
    depth, line, levels = r.choice((1, 1, 2, 3)), 2 ** r.randint(0, 4), []
    for _ in range(depth):
        back, allocate = r.choice(WRITES)
        levels.append({
            "sets": r.choice((1, 2, 3, 4, 8, 16)), "ways": r.choice((1, 2, 3, 4, 8)), "line": line, "back": back,
            "allocate": allocate, "policy": r.choice(("LRU", "FIFO", "MRU") if depth == 1 else ("LRU", "FIFO")),
        })  # fmt: skip
        line *= r.choice((1, 2, 4))
    return levels


def pycachesim(levels: list[dict[str, Any]], accesses: list[Access]) -> list[tuple[int, int]]:
    """Hits and misses of each level."""
    caches: list[Any] = []
    for k, c in reversed(list(enumerate(levels))):
        behind = caches[0] if caches else None
        caches.insert(0, cachesim.Cache(
            f"L{k + 1}", c["sets"], c["ways"], c["line"], c["policy"], write_back=c["back"],
            write_allocate=c["allocate"], load_from=behind, store_to=behind,
        ))  # fmt: skip
    memory = cachesim.MainMemory()
    memory.load_to(caches[-1])
    memory.store_from(caches[-1])
    simulator = cachesim.CacheSimulator(caches[0], memory)
    for address, size, is_read in accesses:
        # as a list: of an address by itself pycachesim reads 32 bits, and leaves what was in the upper ones
        (simulator.load if is_read else simulator.store)([address], length=size)
    return [(c.HIT_count, c.MISS_count) for c in caches]


def cached_graph(levels: list[dict[str, Any]]) -> ArchitectureGraph:
    """The same caches in an architecture graph."""

    def front() -> tuple[DataStorage, SRAM]:
        memory = SRAM("memory", address_ranges=[(0, SPACE)])
        behind: DataStorage = memory
        for k, c in reversed(list(enumerate(levels))):
            cache = SetAssociativeCache(
                f"L{k + 1}", sets=c["sets"], ways=c["ways"], cache_line_size=c["line"], write_back=c["back"],
                write_allocate=c["allocate"], replacement_policy=ReplacementPolicy[c["policy"]], miss_latency=9,
            )
            ACADLEdge(cache, behind, BACKED_BY)
            behind = cache
        return behind, memory

    return graph_of(front)


def plain_caches(levels: list[dict[str, Any]], accesses: list[Access]) -> list[Cache]:
    """The plain models after the accesses."""
    found: list[Cache] = []
    for k, c in reversed(list(enumerate(levels))):
        behind = found[0] if found else None
        shape = c["sets"], c["ways"], c["line"], ReplacementPolicy[c["policy"]]
        found.insert(0, Cache(f"L{k + 1}", *shape, c["back"], c["allocate"], 0, behind))
    for access in accesses:
        found[0].access(*access)
    return found


def loads(c: dict[str, Any], timing: Any) -> tuple[int, int]:
    """What pycachesim counts: hits of reads, and misses that load a line."""
    return timing.read_hits, timing.read_misses + (timing.write_misses if c["allocate"] else 0)


# --- DRAM ------------------------------------------------------------------------------------------------------
def random_dram(r: Random) -> dict[str, Any]:
    cuts = sorted({0, SPACE, *(r.randrange(1, SPACE) for _ in range(r.randint(0, 7)))})
    return {
        "banks": list(itertools.pairwise(cuts)), "row_words": r.choice((16, 64, 100, 256)), "t_RCD": r.randint(0, 15),
        "t_RP": r.randint(1, 15), "t_RAS": r.choice((0, 20, 40)), "port": r.choice((1, 4, 16)),
    }  # fmt: skip


def dram_graph(d: dict[str, Any]) -> ArchitectureGraph:
    """The DRAM with a unit."""

    def front() -> tuple[DataStorage, DRAM]:
        memory = DRAM(
            "memory", address_ranges=[(0, SPACE)], bank_address_ranges=d["banks"], row_words=d["row_words"],
            t_RCD=d["t_RCD"], t_RP=d["t_RP"], t_RAS=d["t_RAS"], port_width=d["port"], read_latency=5, write_latency=5,
        )
        return memory, memory

    return graph_of(front)


Rows = tuple[int, int, int, int]
"""Row hits, misses and conflicts, and the cycle of the last word."""


def bank_models(d: dict[str, Any], accesses: list[Access]) -> tuple[Rows, Rows]:
    """The transcription and the plain model after the accesses, each granted when the one before has finished."""
    shape = d["banks"], d["row_words"], d["t_RCD"], d["t_RP"], d["t_RAS"], d["port"]
    slow, model = Dram(*shape), Banks("dram", *shape)
    a = b = 0
    for address, size, _ in accesses:
        a = slow.access(list(range(address, address + size)), 5, a)
        b = model.access([(address, address + size)], 5, b)
    return (slow.hits, slow.misses, slow.conflicts, a), (model.hits, model.misses, model.conflicts, b)


# --- the whole -------------------------------------------------------------------------------------------------
def measure(streams: int, accesses: int, seed: int) -> dict[str, Any]:
    """Rows and equal rows of models and engine, and accesses a second of the engine."""
    found = dict.fromkeys(("cache_rows", "cache_equal", "dram_rows", "dram_equal"), 0)
    seconds: list[float] = []
    for number in range(streams):
        r = Random(f"{seed} {number}")
        levels, dram, work = random_levels(r), random_dram(r), random_stream(r, accesses)
        text, walked = random_program(r, 8 * accesses)
        models = [loads(c, m.figures()) for c, m in zip(levels, plain_caches(levels, work))]
        cached = timed(cached_graph(levels), text, seconds)
        engine = [loads(c, cached.cache(f"L{k + 1}")) for k, c in enumerate(levels)]
        found["cache_rows"] += 2
        found["cache_equal"] += models == pycachesim(levels, work)
        found["cache_equal"] += engine == pycachesim(levels, walked)
        transcribed, modelled = bank_models(dram, work)
        rows = timed(dram_graph(dram), text, seconds).dram("memory")
        found["dram_rows"] += 2
        found["dram_equal"] += transcribed == modelled
        found["dram_equal"] += (rows.row_hits, rows.row_misses, rows.row_conflicts) == bank_models(dram, walked)[0][:3]
    return {**found, "cache_equal_share": found["cache_equal"] / found["cache_rows"],
            "dram_equal_share": found["dram_equal"] / found["dram_rows"],
            "accesses_per_second": 8 * accesses / statistics.median(seconds)}


def timed(graph: ArchitectureGraph, text: ResolvedStream, seconds: list[float]) -> TimingResult:
    """The result of the engine without skipping; appends the seconds that it took, binding and lowering included."""
    start = time.perf_counter()
    result = simulate(graph, text, skip=False)
    seconds.append(time.perf_counter() - start)
    return result


if __name__ == "__main__":
    args = arguments(__doc__ or "", _more, seeded=True)
    finish(args, measure(args.streams, args.accesses, args.seed))
