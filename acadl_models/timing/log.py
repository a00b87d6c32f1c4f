"""The log of a run or of a window of it: what happened in each cycle, in the same form from both simulators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from archloom.acadl_models.timing.program import Program

FETCH = "fetch"
"""A fetch of so many ``instructions`` begins and ends at ``finish``."""
FETCHED = "fetched"
"""An instruction enters the issue buffer."""
ENTERED = "entered"
"""A stage buffers an instruction, at least until ``finish``."""
RECEIVED, STARTED, PROCESSING, WRITING, FINISHED = "received", "started", "processing", "writing", "finished"
"""Steps of an instruction in a unit."""
QUEUED, GRANTED, TRANSFER = "queued", "granted", "transfer"
"""A request waits for a slot; gets it; its finish becomes known."""
CARRIED = "carried"
"""A link carries a request from ``begin`` on, ``bandwidth`` bytes in a cycle; it ``waited`` so many cycles for that."""


class Event(NamedTuple):
    """What happened at ``time`` in the object ``place`` to the instruction ``number`` (in program order).

    ``request`` numbers the requests of an instruction, reads first; ``size`` is in bytes. Of the fields with a value by
    default, a step has those that its name above, or that of a request, asks for.
    """

    time: int
    step: str
    place: str
    number: int
    request: int = -1
    finish: int = -1
    size: int = 0
    beats: int = 0
    is_read: bool = False
    begin: int = -1
    bandwidth: int = 0
    waited: int = 0
    instructions: int = 0


@dataclass(frozen=True)
class RunLog:
    """The events of the cycles ``begin <= time < end`` in the order of time, and what a window needs of before it.

    Where ``begin`` is not 0, events at ``begin`` stand for the state of everything in flight then. ``fetched`` is how
    many instructions had arrived by then. ``cycles`` is the makespan if the run was seen to
    end, and None otherwise.
    """

    program: Program
    begin: int
    end: int
    events: tuple[Event, ...]
    fetched: int
    cycles: int | None
