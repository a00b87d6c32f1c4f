"""Jitted: which passes of a loop are compared with earlier ones, and what is kept of them."""

from __future__ import annotations

from archloom.acadl_models.timing.engine import remembered, state
from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.jit import copy_words, jit
from archloom.acadl_models.timing.engine.layout import H, LoopSpec
from archloom.acadl_models.timing.engine.remembered import SNAPSHOTS, LoopMemory, Memory, Snapshot
from archloom.acadl_models.timing.engine.skipping import moving
from archloom.acadl_models.timing.engine.skipping.proportion import enough, taken_since
from archloom.acadl_models.timing.engine.skipping.snapshot import in_flight
from archloom.acadl_models.timing.engine.state import Instance, Loop, M

PATIENCE = 4
"""After so many states without a match, one more instance is stepped before the next is compared; where many are in
flight, as many more as cost as much as the comparison."""

MOST_MISSES = 16
"""Where many instances are in flight, so many states without a match make comparisons rarer."""

MOST_IN_VAIN = 8
"""So many transitions of a loop are remembered behind caches without one being recalled: each takes as long as stepping
some hundred instances."""

LONGEST_WAIT = 256
"""Most instances that are stepped between two comparisons at a loop."""


@jit
def is_due(t, m, h, loop, event):
    """Whether the state is compared at this event: the less often, the longer in vain."""
    record = t[H.LOOP_TABLE] + loop * LoopSpec.SIZE
    period = t[record + LoopSpec.PERIOD]
    iteration = m[m[M.LOOPS] + loop * Loop.SIZE + Loop.ITERATION]
    repeats = event & state.LoopEvent.CROSSED != 0 and period > 0 and iteration % period == 0
    if not (repeats and began_inside(m, loop)) and not is_watched(t, h, loop):
        return False
    memory = h[Memory.LOOPS] + loop * LoopMemory.SIZE
    wait = min(h[memory + LoopMemory.MISSES] // PATIENCE, LONGEST_WAIT)
    if in_flight(m) > remembered.MANY_IN_FLIGHT:
        often = 1 + min(h[memory + LoopMemory.MISSES], MOST_MISSES) // PATIENCE
        wait = max(wait, often * in_flight(m) // remembered.STATES_PER_STEP)
    if m[M.STEPPED] - h[memory + LoopMemory.SAMPLED] < wait:
        return False
    h[memory + LoopMemory.SAMPLED] = m[M.STEPPED]
    return True


@jit
def began_inside(m, loop):
    """Whether everything in flight was fetched inside of a loop since it was entered."""
    return m[M.OLDEST] == NONE or m[m[M.OLDEST] + Instance.SEQ] >= m[m[M.LOOPS] + loop * Loop.SIZE + Loop.ENTRY_SEQ]


@jit
def is_watched(t, h, loop):
    """Whether transitions of a loop are worth remembering: behind caches few are ever recalled."""
    record = t[H.LOOP_TABLE] + loop * LoopSpec.SIZE
    vain = h[h[Memory.LOOPS] + loop * LoopMemory.SIZE + LoopMemory.VAIN]
    return t[record + LoopSpec.WATCHED] == 1 and (t[H.CACHES] == 0 or vain < MOST_IN_VAIN)


@jit
def is_far(t, m, h, loop):
    """Whether enough was taken since the last snapshot of a loop to judge by it, or there is none."""
    record = t[H.LOOP_TABLE] + loop * LoopSpec.SIZE
    count = snapshots_of(t, m, h, loop, t[record + LoopSpec.REPEATS])
    if count == NONE or count == 0:
        return count == 0
    last = ring_of(t, h, record) + (count - 1) % SNAPSHOTS * Snapshot.SIZE
    room = moving.room_of(t, h, Memory.SNAPSHOTS, loop)
    if not moving.is_kept(h, room, h[last + Snapshot.PLACE]):
        return True
    return taken_since(m, h, moving.address(h, room, h[last + Snapshot.PLACE])) >= enough(m, m[M.SEEN])


@jit
def ring_of(t, h, record):
    """Where the snapshots of a loop are listed."""
    return h[Memory.RINGS] + t[record + LoopSpec.HISTORY] * SNAPSHOTS * Snapshot.SIZE


@jit
def snapshots_of(t, m, h, loop, every):
    """How many snapshots there are since a loop was entered, at a pass that is one of ``every`` so many, and may be
    compared with them; NONE at another."""
    state = m[M.LOOPS] + loop * Loop.SIZE
    memory = h[Memory.LOOPS] + loop * LoopMemory.SIZE
    if m[state + Loop.ITERATION] % every != 0 or not began_inside(m, loop):
        return NONE
    if h[memory + LoopMemory.ACTIVATION] != m[state + Loop.ENTRY_SEQ]:
        h[memory + LoopMemory.ACTIVATION] = m[state + Loop.ENTRY_SEQ]
        h[memory + LoopMemory.SNAPSHOTS] = 0
    return h[memory + LoopMemory.SNAPSHOTS]


@jit
def keep(t, m, h, loop, room, first, count, length, offsets, hashed):
    """A snapshot of a loop: of the machine up to M.REST, and of a state that was seen."""
    machine, seen = m[M.REST], max(length, 0) + offsets
    new = first + (count % SNAPSHOTS) * Snapshot.SIZE
    h[new + Snapshot.PLACE] = moving.reserve(h, room, machine + seen)
    place = moving.address(h, room, h[new + Snapshot.PLACE])
    h[new + Snapshot.HASH], h[new + Snapshot.LENGTH], h[new + Snapshot.OFFSETS] = hashed, length, offsets
    h[new + Snapshot.ITERATION] = m[m[M.LOOPS] + loop * Loop.SIZE + Loop.ITERATION]
    copy_words(h, place, m, 0, machine)
    copy_words(h, place + machine, h, h[Memory.SCRATCH], seen)
    h[h[Memory.LOOPS] + loop * LoopMemory.SIZE + LoopMemory.SNAPSHOTS] += 1
