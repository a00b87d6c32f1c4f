"""What is written down of a run for traces, if it is asked for."""

from __future__ import annotations

from archloom.acadl_models.acadl import Link
from archloom.acadl_models.timing.log import CARRIED, Event
from archloom.acadl_models.timing.reference.state import Issued, Machine


def note(m: Machine, step: str, place: str, number: int, finish: int = -1, instructions: int = 0) -> None:
    """An instruction passes a step now."""
    if m.events is not None:
        m.events.append(Event(m.now, step, place, number, finish=finish, instructions=instructions))


def note_request(m: Machine, step: str, issued: Issued, finish: int = -1) -> None:
    """A request passes a step now."""
    if m.events is not None:
        r = issued.request
        number = issued.owner.number
        m.events.append(
            Event(m.now, step, r.storage, number, issued.number, finish, r.bytes, r.beats, r.is_read)
        )


def note_carried(m: Machine, link: Link, issued: Issued, start: int, waited: int) -> None:
    """It is known now that a link carries a request from ``start`` on."""
    if m.events is not None:
        r = issued.request
        m.events.append(
            Event(m.now, CARRIED, link.name, issued.owner.number, size=r.bytes, is_read=r.is_read, begin=start,
                  bandwidth=link.bandwidth, waited=waited)
        )
