"""Which cores take part in which steps of attention, and which keys they see: counted before anything is emitted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from archloom.mapper.spatial.attention.space import Attention
from archloom.mapper.spatial.machines.machine import SIDE
from archloom.mapper.spatial.plan import AttentionPlan
from archloom.mapper.spatial.programs.waves import Wave, Zone, waves


@dataclass(frozen=True)
class Part:
    """Cores that do alike in a step: their places along the queries, what they see of the step's keys, and the places
    ``over`` which keys are dealt out (a zone's ``size`` is how many keys each has)."""

    zone: Zone
    tiles: int
    keys: int
    masked: bool
    over: Zone


@dataclass(frozen=True)
class Run:
    """``count`` steps from number ``first`` on that are alike."""

    first: int
    count: int
    parts: tuple[Part, ...]

    @property
    def loads(self) -> tuple[tuple[Zone, int], ...]:
        """The cores over which keys are dealt out, and how many tiles any of them needs in a step."""
        found: dict[Zone, int] = {}
        for part in self.parts:
            found[part.over] = max(part.tiles, found.get(part.over, 0))
        return tuple(found.items())


@dataclass(frozen=True)
class Turn:
    """``count`` waves from number ``first`` on with the same steps, ``before`` of which come in earlier waves.

    ``turned``: whether blocks are dealt out the other way round.
    """

    first: int
    count: int
    zones: tuple[Zone, ...]
    runs: tuple[Run, ...]
    before: int
    turned: bool = False

    @property
    def steps(self) -> int:
        """Of a wave."""
        return sum(run.count for run in self.runs)

    @property
    def places(self) -> int:
        """How many places along the queries have a block."""
        return _places(self.zones)


def turns(attention: Attention, plan: AttentionPlan, grain: int = 1) -> tuple[Turn, ...]:
    """All waves of queries, in order; under a causal mask ``grain`` blocks one after the other end at the same key."""
    found: list[Turn] = []
    rows, together = attention.tiles[0], max(1, grain // plan.spread(1))
    for wave in waves(rows, plan.block[0], plan.rows[1], plan.columns[1]):
        if attention.past is None:
            runs = tuple(_runs(attention, plan, wave, range(1), False, 1))
            found.append(Turn(wave.first, wave.count, wave.zones, runs, _steps(found)))
            continue
        every = range(wave.first, wave.first + wave.count)
        for first in range(0, wave.count, together):
            these = every[first:first + together]
            turned = first // together % 2 == 1 and _places(wave.zones) == plan.spread(1) > 1 and wave.whole
            runs = tuple(_runs(attention, plan, wave, these, turned, grain))
            last = found[-1] if found else None
            if last and (last.zones, last.runs, last.turned) == (wave.zones, runs, turned):
                found[-1] = replace(last, count=last.count + len(these))
            else:
                found.append(Turn(these.start, len(these), wave.zones, runs, _steps(found), turned))
    return tuple(found)


def _places(zones: tuple[Zone, ...]) -> int:
    return sum(len(zone.slow) * len(zone.fast) for zone in zones)


def _steps(found: list[Turn]) -> int:
    return found[-1].before + found[-1].count * found[-1].steps if found else 0


def _runs(
    attention: Attention, plan: AttentionPlan, wave: Wave, numbers: range, turned: bool, grain: int
) -> Iterator[Run]:
    """Steps of each of the waves ``numbers``, those one after the other that are alike as one run."""
    depth = min(plan.block[1], share(attention, plan))
    ends = [(zone, over, _together(list(_ends(attention, plan, zone, over, numbers, turned)), grain))
            for zone in wave.zones for over in shares(attention, plan)]
    seen = [keys for _, _, places in ends for _, keys in places]
    steps, open_steps = -(-max(some for _, some in seen) // (depth * SIDE)), min(all_ for all_, _ in seen) // (
        depth * SIDE)
    # all queries see all keys of the first steps, which are alike: one stands for them
    lone = range(max(0, open_steps - 1), steps)
    first = 0
    for parts, alike in groupby(lone, lambda step: tuple(
            part for zone, over, places in ends for part in _parts(zone, over, places, step * depth * SIDE, depth))):
        count = list(alike)[-1] + 1 - first
        yield Run(first, count, parts)
        first += count


def share(attention: Attention, plan: AttentionPlan) -> int:
    """Tiles of keys of a core."""
    return -(-attention.tiles[1] // plan.spread(2))


def shares(attention: Attention, plan: AttentionPlan) -> tuple[Zone, ...]:
    """The cores to which the keys of a block are dealt out, and how many each has: the last may have fewer."""
    return waves(attention.keys, share(attention, plan) * SIDE, *plan.parts)[-1].zones


def _ends(
    attention: Attention, plan: AttentionPlan, zone: Zone, over: Zone, numbers: range, turned: bool
) -> Iterator[tuple[Zone, tuple[int, int]]]:
    """Of each place of a zone how many keys all, and any, of its queries see in the waves ``numbers``."""
    bq, cores, fast = plan.block[0], plan.spread(1), plan.columns[1]
    for i in zone.slow:
        for j in zone.fast:
            place = cores - 1 - (i * fast + j) if turned else i * fast + j
            first, last = ((number * cores + place) * bq for number in (numbers[0], numbers[-1]))
            seen = over.size, over.size
            if attention.past is not None:
                seen = attention.seen(first, first)[0], attention.seen(last, last + zone.size - 1)[1]
            yield Zone(range(i, i + 1), range(j, j + 1), zone.size), seen


def _together(places: list[tuple[Zone, tuple[int, int]]], grain: int) -> list[tuple[Zone, tuple[int, int]]]:
    """Places of which ``grain`` one after the other count as if each saw what any of them does."""
    found = []
    for first in range(0, len(places), grain):
        these = places[first:first + grain]
        seen = min(every for _, (every, _) in these), max(some for _, (_, some) in these)
        found += [(place, seen) for place, _ in these]
    return found


def _parts(
    zone: Zone, over: Zone, places: list[tuple[Zone, tuple[int, int]]], start: int, depth: int
) -> Iterator[Part]:
    """What the places of a zone do in the step from key ``start`` on; those that see nothing do nothing."""
    found = []
    for place, (every, some) in places:
        keys = min(some - start, depth * SIDE)
        found.append(Part(place, -(-keys // SIDE), keys, start + keys > every, over))
    yield from (part for part in _alike(zone, found) if part.keys > 0)


def without(parts: Sequence[Part], zones: Sequence[Zone]) -> Sequence[Part]:
    """The parts without the places of some zones."""
    places = {(i, j) for zone in zones for i in zone.slow for j in zone.fast}
    return parts if not places else [kept for part in parts for kept in _alike(part.zone, [
        replace(part, zone=Zone(range(i, i + 1), range(j, j + 1), part.zone.size))
        for i in part.zone.slow for j in part.zone.fast if (i, j) not in places])]


def _alike(zone: Zone, places: list[Part]) -> list[Part]:
    """Places, which come row by row, together: those one after the other that do alike, of one row or of whole rows."""
    runs: list[Part] = []
    for part in places:
        last = runs[-1] if runs else None
        if last is not None and last.zone.slow == part.zone.slow and replace(last, zone=part.zone) == part:
            runs[-1] = replace(last, zone=replace(part.zone, fast=range(last.zone.fast.start, part.zone.fast.stop)))
        else:
            runs.append(part)
    found: list[Part] = []
    for part in runs:
        last = found[-1] if found else None
        whole = last is not None and last.zone.fast == part.zone.fast == zone.fast
        if last is not None and whole and replace(last, zone=part.zone) == part:
            found[-1] = replace(last, zone=replace(part.zone, slow=range(last.zone.slow.start, part.zone.slow.stop)))
        else:
            found.append(part)
    return found
