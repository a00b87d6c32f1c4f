"""What is written down of a run for traces and tests, if it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from archloom.acadl_models.acadl import Link
from archloom.acadl_models.timing.log import CARRIED, Event
from archloom.acadl_models.timing.reference.state import Instance, Issued, Machine


@dataclass(frozen=True)
class InstanceLog:
    """When an instruction instance passed each step, in cycles."""

    number: int
    mnemonic: str
    values: Mapping[str, int]
    unit: str
    fetched: int
    received: int
    started: int
    processing: int
    written: int
    finished: int


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


def note_finished(m: Machine, i: Instance) -> None:
    """An instruction is finished now."""
    if m.log is not None:
        unit = i.unit.spec.name
        m.log.append(
            InstanceLog(i.number, i.mnemonic, i.values, unit, i.fetched, i.received, i.started, i.processing, i.written,
                        m.now)
        )
