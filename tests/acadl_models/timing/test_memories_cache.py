"""The plain cache model equals pycachesim, and does what its policies say on hand-worked streams."""

from __future__ import annotations

from random import Random

import cachesim
from hypothesis import given

from archloom.acadl_models.acadl import ReplacementPolicy
from archloom.acadl_models.timing.memories.cache import Cache, Wait
from tests.support.examples import examples, randoms

BOTH = (ReplacementPolicy.LRU, ReplacementPolicy.FIFO, ReplacementPolicy.MRU)
"""Policies that pycachesim has, too; its random one draws from the C library."""

WRITES = ((True, True), (True, False), (False, False))
"""``write_back``, ``write_allocate``: the pairs that pycachesim takes."""


def ours(levels: list[dict[str, object]]) -> list[Cache]:
    """Caches from the first level on; the last one is in front of the memory."""
    found: list[Cache] = []
    for level in reversed(levels):
        found.insert(0, Cache(backing=found[0] if found else None, **level))  # type: ignore[arg-type]
    return found


def theirs(levels: list[dict[str, object]]):  # type: ignore[no-untyped-def]
    """The same caches of pycachesim."""
    found: list[object] = []
    behind = None
    for level in reversed(levels):
        behind = cachesim.Cache(
            level["name"], level["sets"], level["ways"], level["line_bytes"], level["policy"].name,  # type: ignore[attr-defined]
            write_back=level["write_back"], write_allocate=level["write_allocate"], load_from=behind, store_to=behind,
        )
        found.insert(0, behind)
    memory = cachesim.MainMemory()
    memory.load_to(found[-1])
    memory.store_from(found[-1])
    return cachesim.CacheSimulator(found[0], memory), found


def random_levels(r: Random, depth: int) -> list[dict[str, object]]:
    line = 2 ** r.randint(0, 4)
    levels = []
    for k in range(depth):
        policy = r.choice(BOTH if depth == 1 else BOTH[:2])
        write_back, write_allocate = r.choice(WRITES)
        levels.append({
            "name": f"L{k + 1}", "sets": r.choice((1, 2, 3, 4, 8, 16)), "ways": r.choice((1, 2, 3, 4, 8)),
            "line_bytes": line, "policy": policy, "write_back": write_back, "write_allocate": write_allocate,
        })  # fmt: skip
        line *= r.choice((1, 2, 4))
    return levels


def random_accesses(r: Random, count: int) -> list[tuple[int, int, bool]]:
    """Addresses, sizes and whether they are read: near ones, strides and jumps."""
    space, at = r.choice((64, 300, 2000)), 0
    reads = r.choice((1.0, 0.7, 0.3))
    found = []
    for _ in range(count):
        at = r.choice((at + 1, at + r.choice((4, 16, 64)), r.randrange(space))) % space
        found.append((at, r.choice((1, 1, 1, 4, 20)), r.random() < reads))
    return found


@examples(25, 2000)
@given(randoms)
def test_hits_misses_and_contents_equal_pycachesim(r: Random) -> None:
    levels = random_levels(r, r.choice((1, 1, 2, 3)))
    mine, (simulator, caches) = ours(levels), theirs(levels)
    for address, size, is_read in random_accesses(r, r.choice((20, 100, 300))):
        mine[0].access(address, size, is_read)
        # as a list: of an address by itself pycachesim reads 32 bits, and leaves what was in the upper ones
        (simulator.load if is_read else simulator.store)([address], length=size)
    for level, model, cache in zip(levels, mine, caches):
        figures, expected = model.figures(), cache.stats()
        # pycachesim counts what it loads: hits of reads, misses of reads and of the writes that load their line
        loaded = figures.read_misses + (figures.write_misses if level["write_allocate"] else 0)
        found = (figures.read_hits, loaded)
        assert found == (expected["HIT_count"], expected["MISS_count"]), level
        if level["write_back"] and level["policy"] is not ReplacementPolicy.MRU:
            assert figures.write_backs == expected["EVICT_count"], level
        held = {line.number for places in model.lines for line in places if line is not None}
        assert held == {address // cache.cl_size for address in cache.backend.cached}


def lookups(policy: ReplacementPolicy, numbers: list[int], ways: int = 2, **options: object) -> str:
    """``h`` for each read that hits and ``m`` for each that misses; lines of one byte in one set."""
    cache = Cache("c", 1, ways, 1, policy, **options)  # type: ignore[arg-type]
    found = ""
    for number in numbers:
        before = cache.read_hits
        cache.access(number, 1, True)
        found += "h" if cache.read_hits > before else "m"
    return found


def test_what_each_policy_gives_up() -> None:
    stream = [1, 2, 1, 3, 1, 2]
    assert lookups(ReplacementPolicy.LRU, stream) == "mmhmhm"  # 3 takes the place of 2
    assert lookups(ReplacementPolicy.FIFO, stream) == "mmhmmm"  # 3 takes the place of 1, 1 that of 2
    # MRU: a line that is loaded goes to the last place, and only a hit saves it from the next one
    assert lookups(ReplacementPolicy.MRU, [1, 1, 2, 3, 1, 3, 2]) == "mhmmhhm"


def test_random_choices_depend_on_the_seed_alone() -> None:
    stream = [n * n % 7 for n in range(60)]
    found = {lookups(ReplacementPolicy.RANDOM, stream, 3, seed=seed) for seed in (1, 1, 2, 3, 4)}
    assert 1 < len(found) <= 4
    assert lookups(ReplacementPolicy.RANDOM, [1, 2, 3, 1, 2, 3], 3) == "mmmhhh"  # free places first


def test_what_a_request_waits_for() -> None:
    behind = Cache("l2", 4, 1, 8)
    cache = Cache("l1", 4, 1, 4, backing=behind)
    waits = [(c.name, w) for c, w in cache.serve([(0, 8)], is_read=True)]
    # both lines miss; the line of l2 that the first one loads serves the second, too
    first = [("l2", Wait.SLOT), ("l2", Wait.MISS), ("l2", Wait.ARRIVED), ("l2", Wait.HIT)]
    assert waits == [
        ("l1", Wait.MISS), ("l1", Wait.SLOT), *first, ("l1", Wait.ARRIVED),
        ("l1", Wait.MISS), ("l1", Wait.SLOT), ("l2", Wait.HIT), ("l1", Wait.ARRIVED), ("l1", Wait.HIT),
    ]  # fmt: skip
    assert [w for _, w in cache.serve([(0, 8)], is_read=True)] == [Wait.HIT]
    cache.hit_after_miss = False
    passed = [w for _, w in cache.serve([(16, 17)], is_read=True) if w in (Wait.HIT, Wait.MISS)]
    assert passed == [Wait.MISS, Wait.MISS, Wait.HIT]


def test_who_waits_for_a_line_or_a_register() -> None:
    cache = Cache("l1", 4, 1, 4, registers=1)
    first, same, other = (cache.serve([(at, at + 1)], is_read=True) for at in (0, 2, 4))
    assert [next(first)[1], next(first)[1]] == [Wait.SLOT, Wait.MISS]
    assert next(same)[1] is next(other)[1] is Wait.REGISTER
    assert next(first)[1] is Wait.ARRIVED
    assert [next(same)[1], next(other)[1]] == [Wait.HIT, Wait.SLOT]
    assert (cache.read_misses, cache.read_hits) == (2, 1)


def test_traffic_of_write_back_and_write_through() -> None:
    back, through = Cache("back", 1, 1, 16), Cache("through", 1, 1, 16, write_back=False)
    for cache in (back, through):
        cache.access(0, 4, False)
        cache.access(4, 4, False)
        cache.access(16, 4, True)
    assert (back.bytes_from_backing, back.bytes_to_backing, back.write_backs) == (32, 16, 1)
    assert (through.bytes_from_backing, through.bytes_to_backing, through.evictions) == (32, 8, 1)


def test_a_write_over_two_lines_reaches_the_cache_behind_in_its_parts() -> None:
    behind = Cache("l2", 4, 1, 4)
    Cache("l1", 4, 1, 4, backing=behind, write_back=False, write_allocate=False).access(2, 4, False)
    assert (behind.write_misses, behind.write_hits) == (2, 0)
