"""What lies where in what skipping remembers of a run (``h``)."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import Record, control, linked

# --- h: what is remembered of the run --------------------------------------------------------------------------
SNAPSHOTS = 16
"""Snapshots of each loop that are compared with the present state."""

TRANSITIONS = 96
"""Transitions from one loop event to the next that are remembered of the loops of one depth."""

LEAST_RUN = 24
"""Loops of fewer instances, all iterations together, are not compared with earlier passes: stepping is as fast."""

LEAST_BODY = 48
"""A transition takes as long as stepping some dozen instances: loops with shorter iterations are not remembered."""

LEAST_STATE_WORDS, MOST_STATE_WORDS = 4096, 1 << 21
"""Room for a relative state: what the graph may need, within these bounds. Longer states are not compared."""

MANY_IN_FLIGHT = 256
"""Where more instances are in flight, comparisons are so far apart that most of the time is spent on stepping."""

STATES_PER_STEP = 8
"""Instances in flight that are compared in less time than one is stepped."""

MOST_MACHINE_WORDS = 1 << 18
"""Largest machine that is remembered as the end of a transition."""

SNAPSHOT_WORDS, TRANSITION_WORDS = 1 << 21, 1 << 21
"""Room for the contents of snapshots and of transitions of the loops of one depth; the oldest give way.

Each depth has its own, as inner loops pass many times until an outer one is at its next pass.
"""


class Room(Record):
    """Room for contents: where it begins, words given away so far, its size."""

    BEGIN = USED = WORDS = control


class Memory(Record):
    """Header of what is remembered."""

    LOOPS = control  # LoopMemory records
    SCRATCH = STATE_SIZE = control  # the state at hand, and the room for it
    ADDRESSES = control  # words of addresses behind the state at hand
    RINGS = control  # Snapshot records of each loop that may repeat
    INDEX = control  # Transition records, so many for each depth of loops
    NEXT = control  # for each depth the next of them to be used
    MACHINE = control  # a copy of the machine up to M.REST
    SNAPSHOTS = TRANSITIONS = control  # Room records, one for each depth of loops


class LoopMemory(Record):
    """Loop: snapshots since its entry, the sequence number of that entry, snapshots without a match, instances stepped
    at the last one, transitions that were remembered since one was recalled, the one that begins at its last event."""

    SNAPSHOTS = ACTIVATION = MISSES = SAMPLED = VAIN = control
    PENDING = linked


class Transition(Record):
    """Transition: complete or not, of which loop, hash and size of its first state, and the places of the machine up to
    M.REST with that state, and of the whole machine at its end."""

    VALID = LOOP = HASH = LENGTH = OFFSETS = BEGIN = END = control


class Snapshot(Record):
    """Snapshot: hash and length of the relative state, number of offsets after it, iteration, and the place of the
    machine up to M.REST, the state and the offsets of the accesses in flight."""

    HASH = LENGTH = OFFSETS = ITERATION = PLACE = control
