"""What a user asks of mappings: whole ones, or parts of which a search finds the rest.

As text, ``m=128,order=n>m,dataflow=ws``; as JSON, the fields of a mapping (:class:`~archloom.mapper.mapping.Mapping`),
all of them or some, where sizes of a tile may stand by themselves::

    {"tile": {"m": 128}, "order": ["n", "m"], "loads": {"B": "hoist"}, "buffers": {"A": 2}}

``{"layers": {"conv1": {...}, "fc*": {...}}}`` asks it of layers by name (``*`` and ``?`` as in a shell; the first that
matches), others are free. A size beyond the operator's extent means all of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any, Generic, TypeVar

import numpy as np

from archloom.mapper.mapping import Mapping
from archloom.mapper.workload import Workload
from archloom.oracle.errors import InputError, MappingError, suggest
from archloom.oracle.reading import TEXT_BYTES, read_bytes

P = TypeVar("P")

_FIELDS = tuple(f.name for f in fields(Mapping))
_TABLES = ("tile", "loads", "buffers")
_LISTS = ("order", "lanes")
_LOOKED_AT = 20_000
"""Candidates whose values are listed where none is as it was asked for."""


@dataclass(frozen=True)
class Part:
    """Fields of a mapping that are asked for: ``values`` by name, such as ``tile.m``, ``order`` or ``loads.A``."""

    values: tuple[tuple[str, Any], ...]

    def allows(self, mapping: Mapping, workload: Workload) -> bool:
        """Whether a mapping of a workload is as it is asked for."""
        return all(_agrees(name, asked, _value(mapping, name), workload) for name, asked in self.values)

    @property
    def whole(self) -> Mapping | None:
        """The mapping, where nothing is left open."""
        made = _nested(self.values)
        return Mapping.from_json(json.dumps(made)) if set(made) == set(_FIELDS) else None

    def __str__(self) -> str:
        return ", ".join(f"{name.removeprefix('tile.')}={_shown(value)}" for name, value in self.values)


@dataclass(frozen=True)
class Allowed(Generic[P]):
    """What is asked of plans of a workload: of the mappings that they are."""

    part: Part
    workload: Workload
    mapping: Callable[[P], Mapping]

    def __call__(self, plan: P) -> bool:
        return self.part.allows(self.mapping(plan), self.workload)

    def among(self, numbers: np.ndarray, plan: Callable[[int], P]) -> np.ndarray:
        """The numbers of candidates that are as it is asked for; InputError that says what there is where none is."""
        found = [i for i in numbers.tolist() if self(plan(i))]
        if not found:
            raise InputError(self._refusal([self.mapping(plan(i)) for i in numbers[:_LOOKED_AT].tolist()]))
        return np.array(found, np.int64)

    def _refusal(self, mappings: Iterable[Mapping]) -> str:
        there: dict[str, dict[Any, None]] = {name: {} for name, _ in self.part.values}
        for mapping in mappings:
            for name, values in there.items():
                values[_value(mapping, name)] = None
        wrong = [name for name, asked in self.part.values
                 if not any(_agrees(name, asked, value, self.workload) for value in there[name])]
        listed = "; ".join(f"{name} may be {_listed(there[name])}" for name in wrong)
        return f"{self.workload.name}: no mapping has {self.part}: {listed or 'each has a part of it alone'}"


@dataclass(frozen=True)
class Asked:
    """Parts of mappings by patterns of names of layers."""

    layers: tuple[tuple[str, Part], ...]

    def of(self, workload: Workload) -> Part | None:
        """What is asked of a layer's mapping, if anything."""
        return next((part for pattern, part in self.layers if fnmatchcase(workload.name, pattern)), None)


def read_asked(text: str) -> Asked:
    """What a text, JSON or the file of that name asks for; InputError that names what is wrong in it."""
    where = f"mapping {text if len(text) <= 60 else text[:60] + '...'}"
    if text.lstrip().startswith("{"):
        return _asked(_json(text, where), where)
    if "=" in text:
        return _asked(_pairs(text, where), where)
    try:
        content = read_bytes(text, TEXT_BYTES)
    except InputError as error:
        raise InputError(f"{where}: expected a JSON file, JSON, or fields as m=128,order=n>m: {error}") from error
    return _asked(_json(content, where), where)


def _json(text: str | bytes, where: str) -> MappingABC[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: {error}") from error
    if not isinstance(found, dict):
        raise InputError(f"{where}: expected fields of a mapping, found {text[:40]!r}")
    return found


def _pairs(text: str, where: str) -> MappingABC[str, Any]:
    found: dict[str, Any] = {}
    for pair in text.split(","):
        name, equals, value = (word.strip() for word in pair.partition("="))
        if not (name and equals and value):
            raise InputError(f"{where}: expected NAME=VALUE, found {pair!r}")
        found[name] = int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else value
    return found


def _asked(found: MappingABC[str, Any], where: str) -> Asked:
    if "layers" not in found:
        return Asked((("*", _part(found, where)),))
    layers = found["layers"]
    if len(found) > 1 or not isinstance(layers, dict) or not all(isinstance(part, dict) for part in layers.values()):
        raise InputError(f"{where}: expected layers alone, each with fields of a mapping")
    return Asked(tuple((name, _part(part, f"{where}: {name}")) for name, part in layers.items()))


def _part(found: MappingABC[str, Any], where: str) -> Part:
    values: dict[str, Any] = {}
    for name, value in found.items():
        table, _, key = name.partition(".")
        if name in _TABLES:
            if not isinstance(value, dict):
                raise InputError(f"{where}: {name} must be a table, not {value!r}")
            values |= {f"{name}.{each}": _checked(name, each, size, where) for each, size in value.items()}
        elif table in _TABLES:
            values[name] = _checked(table, key, value, where)
        elif name in _FIELDS:
            values[name] = _plain(name, value, where)
        else:
            values[f"tile.{name}"] = _checked("tile", name, value, where)
    if set(_FIELDS) <= {*found}:
        values |= {name: () for name in _TABLES if not found[name]}
    made = Part(tuple(values.items()))
    try:
        _ = made.whole
    except MappingError as error:
        raise InputError(f"{where}: {error}") from error
    return made


def _checked(table: str, name: str, value: Any, where: str) -> Any:
    if table == "loads":
        if not isinstance(value, str):
            raise InputError(f"{where}: {table}.{name} must be a word, not {value!r}")
    elif type(value) is not int or value < 1:
        advice = suggest(name, list(_FIELDS)) if table == "tile" else ""
        raise InputError(f"{where}: {table}.{name} must be a number of at least 1, not {value!r}{advice}")
    return value


def _plain(name: str, value: Any, where: str) -> Any:
    if name == "order":
        words = value.split(">") if isinstance(value, str) else value
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise InputError(f"{where}: order must be loops, outermost first, as n>m, not {value!r}")
        return tuple(word.strip() for word in words)
    if name == "lanes":
        numbers = [value] if type(value) is int else value
        if not isinstance(numbers, list) or not all(type(number) is int and number >= 0 for number in numbers):
            raise InputError(f"{where}: lanes must be numbers from 0 on, one for each nest of loops, not {value!r}")
        return tuple(numbers)
    if not isinstance(value, str):
        raise InputError(f"{where}: {name} must be a word, not {value!r}")
    return value


def _nested(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of a mapping's JSON form."""
    made: dict[str, Any] = {}
    for name, value in values:
        table, _, key = name.partition(".")
        if key:
            made.setdefault(table, {})[key] = value
        else:
            made[name] = {} if value == () and name in _TABLES else list(value) if name in _LISTS else value
    return made


def _agrees(name: str, asked: Any, found: Any, workload: Workload) -> bool:
    """Whether a field is as it is asked for, or all of an extent that is smaller."""
    if asked == found or found is None or not name.startswith("tile."):
        return bool(asked == found)
    extents = [d.extent for d in workload.dims if d.name == name.removeprefix("tile.")]
    return any(asked >= extent <= found for extent in extents)


def _value(mapping: Mapping, name: str) -> Any:
    """What a mapping has for a field; None where it has no such field."""
    table, _, key = name.partition(".")
    found = getattr(mapping, table)
    return dict(found).get(key) if key else found


def _shown(value: Any) -> str:
    if not isinstance(value, tuple):
        return str(value)
    return ">".join(value) if all(isinstance(each, str) for each in value) else ",".join(map(str, value))


def _listed(values: Iterable[Any]) -> str:
    known = [v for v in values if v is not None]
    return ", ".join(map(_shown, sorted(known))) if known else "nothing: it has no such field"
