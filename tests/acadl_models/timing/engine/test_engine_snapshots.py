"""A snapshot of the engine's state tells apart what the future may depend on: each live word of it, changed alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from tests.acadl_models.timing.engine.test_engine_plain import plain

SEEDS = (1, 9, 15, 23, 447, 1075, 2002, 2007, 2013, 2024)
"""Cases with latencies that vary, caches, and renamed registers."""
MOST_STATES = 4
"""Of a case that are looked at."""


def changes(t: Any, m: Any) -> Iterator[tuple[str, dict[int, int]]]:
    """For each live word of the state its kind and another value that it might have, with the words that follow."""
    from archloom.acadl_models.timing.engine.fields import FOREVER, NONE, places, until
    from archloom.acadl_models.timing.engine.layout import H, Instruction
    from archloom.acadl_models.timing.engine.state import Instance, M, Name, Phase, Request, Unit

    now = int(m[M.TIME])

    def later(place: int) -> dict[int, int]:
        return {place: now + 1 if m[place] == FOREVER else max(m[place], now) + 1}

    slots, slot = [], int(m[M.OLDEST])
    while slot != NONE:
        slots.append(slot)
        slot = int(m[slot + Instance.YOUNGER])
    for slot in slots:
        if Phase.READING <= m[slot + Instance.PHASE] < Phase.FINISHED:
            yield "Instance.PENDING", {slot + Instance.PENDING: m[slot + Instance.PENDING] + 1}
            for field in places(Instance, until):
                yield Instance.labels[field], later(slot + field)
        elif m[slot + Instance.PHASE] >= Phase.FINISHED and m[slot + Instance.PENDING] == 0:
            continue  # its requests and latencies are of no account any more
        for request in range(int(m[slot + Instance.REQUESTS])):
            at = slot + int(t[H.SLOT_REQUESTS]) + request * Request.SIZE
            yield "Request.FINISH", later(at + Request.FINISH)
            for field in (Request.STORE, Request.BEATS, Request.BYTES, Request.LATENCY):
                yield Request.labels[field], {at + field: m[at + field] + 1}
        for k in range(int(t[int(m[slot + Instance.STATIC]) + Instruction.LATENCY_COUNT])):
            at = slot + int(t[H.SLOT_LATENCIES]) + k
            yield "latency", {at: m[at] + 1}
    for unit in range(int(m[M.UNITS]), int(m[M.UNITS]) + int(t[H.UNITS]) * Unit.SIZE, Unit.SIZE):
        for other in slots:
            if m[unit + Unit.WAITING] not in (NONE, other):
                yield "Unit.WAITING", {unit + Unit.WAITING: other}
    for name in range(int(m[M.NAMES]), int(m[M.NAMES]) + int(t[H.NAMES]) * Name.SIZE, Name.SIZE):
        for other in slots:
            owner = int(m[name + Name.OWNER])
            if owner not in (NONE, other):
                yield "Name.OWNER", {name + Name.OWNER: other, name + Name.ENTRY: m[name + Name.ENTRY] - owner + other}


def unnoticed() -> tuple[Counter[str], Counter[str]]:
    """How many changes of each kind were tried, and how many a snapshot does not show."""
    from archloom.acadl_models.timing import simulate
    from archloom.acadl_models.timing.engine.skipping import snapshot, steady
    from archloom.oracle.errors import ArchloomError
    from tests.acadl_models.timing.engine.test_engine_plain import case

    tried: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    left = 0

    def state(t: Any, m: Any, h: Any, base: int) -> list[int]:
        length, _ = snapshot.describe(t, m, h, base)
        return list(h.words[base : base + length])

    def described(t: Any, m: Any, h: Any, base: int) -> tuple[int, int]:
        nonlocal left
        if left > 0 and m[steady.M.OLDEST] >= 0:
            left -= 1
            as_it_is = state(t, m, h, base)
            for kind, change in [*changes(t, m)]:
                before = {int(place): m.words[int(place)] for place in change}
                for place, value in change.items():
                    m.words[int(place)] = int(value)
                tried[kind] += 1
                missed[kind] += state(t, m, h, base) == as_it_is
                for place, value in before.items():
                    m.words[place] = value
        length: tuple[int, int] = snapshot.describe(t, m, h, base)
        return length

    steady.describe = described
    for seed in SEEDS:
        left = MOST_STATES
        graph, stream = case(seed)
        with suppress(ArchloomError):  # a deadlock, a latency that is no legal value: what came before was looked at
            simulate(graph, stream)
    return tried, missed


def test_every_live_word_is_in_the_snapshot() -> None:
    found = plain("""
import json, sys
sys.path.insert(0, ".")
from tests.acadl_models.timing.engine.test_engine_snapshots import unnoticed
print(json.dumps(unnoticed()))
""")
    tried, missed = json.loads(found)
    assert {kind: count for kind, count in missed.items() if count} == {}
    assert {"Instance.PENDING", "Instance.END", "Instance.LEAVE", "Request.FINISH", "Request.BYTES", "latency",
            "Unit.WAITING", "Name.OWNER"} <= {kind for kind, count in tried.items() if count}, tried  # fmt: skip
