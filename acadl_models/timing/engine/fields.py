"""How the records of the engine's integer arrays are declared: fields in order, each with a kind.

A record is a class whose fields are class attributes, ``READY = until``; several fields of one kind may stand in one
line, ``IDLE = BUSY = counter``. The metaclass makes an integer of each, its place in the record, so that
``m[unit + Unit.READY]`` is the field ``READY`` of the unit at ``unit``; jitted code sees the integers alone. The kind
says what a skip of periods does to a field and how the field enters the relative state of the machine: see
docs/timing_semantics.md, "Steady state".
"""

from __future__ import annotations

import os
from typing import Any

from archloom.oracle.errors import ArchloomError

_engine = os.environ.get("ARCHLOOM_ENGINE", "")
if _engine not in ("", "plain"):
    raise ArchloomError(f"ARCHLOOM_ENGINE is {_engine!r}: expected 'plain' (slow, every access checked) or nothing")
PLAIN_MODE = _engine == "plain"
"""Whether the engine runs as plain Python, each access to its arrays checked (``ARCHLOOM_ENGINE=plain``)."""

FOREVER = 1 << 62
"""A time that never comes."""

NONE = -1
"""No record: the end of a list, a missing link."""


class Kind(int):
    """What a field means; ``initial`` is its value before the first cycle.

    ``words``: how many it has; ``record``: the class of the records that they make up, if any. As an integer it has no
    meaning: fields are declared with kinds and are integers afterwards.
    """

    name: str
    initial: int
    words: int
    record: type[Record] | None

    def __new__(cls, name: str, initial: int = 0, words: int = 1, record: type[Record] | None = None) -> Kind:
        kind = super().__new__(cls)
        kind.name, kind.initial, kind.words, kind.record = name, initial, words, record
        return kind

    def __repr__(self) -> str:
        return self.name

    def times(self, words: int) -> int:
        """The kind of a field of several words; of none for what follows the record."""
        return Kind(self.name, self.initial, words)


constant = Kind("constant")
"""Never changes during a run: all fields of the tables, positions of records and parts."""
time = Kind("time")
"""A cycle that is past or only counted from: moves with a skip. ``FOREVER`` stays, here and in the next two."""
until = Kind("until")
"""The cycle up to which something lasts: moves with a skip; the state has how many cycles are left, at least 0."""
arrival = Kind("arrival")
"""The cycle from which something is free for requests that are granted later: the same, less the cycles that such a
request needs to get there (``skipping.snapshot.to_the_port``)."""
sequence = Kind("sequence")
"""A number in program order: moves by the instances that a skip leaves out; ``NONE`` stays."""
counter = Kind("counter")
"""A sum over what happened: a skip adds what its periods contribute."""
peak = Kind("peak")
"""Of the bytes at a port: a skip repeats or joins them (``phases.transfers``)."""
effort = Kind("effort")
"""Counts what was simulated one by one: a skip does not add to it."""
state = Kind("state")
"""A part of the state as it is."""
linked = Kind("linked", NONE)
"""The position of a record in a list or ``NONE``: in the state by the numbers of its instances in program order."""
shaped = Kind("shaped")
"""A part of the state in a form of its own (``skipping.snapshot``)."""
place = Kind("place")
"""Where a loop stands, or an address: compared and moved along the loop (``skipping``)."""
derived = Kind("derived")
"""Follows from the rest of the state: stays over a skip."""
scratch = Kind("scratch")
"""Of no meaning from one cycle to the next."""
control = Kind("control")
"""How the run stands towards its caller: status, errors, the log."""
code = Kind("code")
"""Not a field, but a number with a name."""


def starting(kind: int, initial: int) -> int:
    """A kind whose fields have another value before the first cycle."""
    assert isinstance(kind, Kind)
    return Kind(kind.name, initial)


def records(record: type[Record], count: int) -> int:
    """The kind of a field that holds so many records."""
    return Kind("records", 0, count * record.SIZE, record)


class RecordType(type):
    """Makes integers of the fields of a record."""

    SIZE: int
    kinds: tuple[Kind, ...]
    labels: tuple[str, ...]
    initial: tuple[int, ...]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> RecordType:
        kinds: list[Kind] = []
        labels: list[str] = []
        for field, kind in namespace.items():
            if not isinstance(kind, Kind):
                continue
            label = f"{name}.{field}"
            namespace[field] = len(kinds)
            if PLAIN_MODE and kind.words and kind is not code:
                home = namespace["__module__"].rpartition(".")[2]
                namespace[field] = Field(len(kinds), label, home if home == "layout" else "state")
            if kind.record is None:
                kinds += [kind] * kind.words
                labels += [label] * kind.words
            else:
                count = kind.words // kind.record.SIZE
                kinds += kind.record.kinds * count
                labels += kind.record.labels * count
        namespace.update(SIZE=len(kinds), kinds=tuple(kinds), labels=tuple(labels))
        namespace["initial"] = tuple(kind.initial for kind in kinds)
        return super().__new__(mcs, name, bases, namespace)


class Record(metaclass=RecordType):
    """A record of fields; ``SIZE`` words with a kind, a label and an initial value each."""


class Field(int):
    """A field in the plain mode: what is added to the position of a record knows which field it must be.

    ``home``: ``layout`` where it lies in the tables, ``state`` in what changes.
    """

    label: str
    home: str

    def __new__(cls, place: int, label: str, home: str) -> Field:
        field = super().__new__(cls, place)
        field.label, field.home = label, home
        return field

    def __radd__(self, position: int) -> Field:
        return Field(int(position) + int(self), self.label, self.home)


def places(record: type[Record], *kinds: Kind) -> tuple[int, ...]:
    """Where in a record the words of some kinds are."""
    names = {kind.name for kind in kinds}
    return tuple(place for place, kind in enumerate(record.kinds) if kind.name in names)
