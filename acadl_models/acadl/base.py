"""What all ACADL objects share (section 3 of the paper): names, physical figures, and the checks of attributes.

Objects are tables: they hold figures and no behaviour; :mod:`archloom.acadl_models.timing` gives the figures their
meaning. Attributes marked *added* are not in the paper, and their defaults give the paper's behaviour. An object made
inside a ``@generate`` function joins the graph under construction, and its ``name`` becomes its path through the
templates around it. Times are clock cycles; ``latency`` attributes are integers or expressions (:mod:`.latency`).
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from archloom.acadl_models.acadl import building
from archloom.acadl_models.acadl.components import Component
from archloom.acadl_models.acadl.latency import Expression, LatencyError, parse
from archloom.oracle.errors import nearest


@dataclass(frozen=True)
class Data:
    """A value in a memory, a register or an immediate: ``size`` in bits and its ``payload``."""

    size: int
    payload: Any = None


@dataclass(frozen=True)
class Instruction:
    """An instruction instance with explicit register names and addresses, as in the paper.

    Programs are streams (:mod:`archloom.oracle.stream`), in which loops stay loops; this form is for models at the
    level of single instructions. ``function`` is what :meth:`execute` calls.
    """

    operation: str
    read_registers: tuple[str, ...] = ()
    write_registers: tuple[str, ...] = ()
    read_addresses: tuple[int, ...] = ()
    write_addresses: tuple[int, ...] = ()
    immediates: tuple[Data, ...] = ()
    function: Callable[["Instruction"], None] | None = None

    def execute(self) -> None:
        """Manipulate the data: what a functional unit does at the end of processing."""
        if self.function is not None:
            self.function(self)


class _ObjectType(type):
    """Turns wrong constructor arguments into faults that name the object."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls.virtual:  # type: ignore[attr-defined]
            where = building.path(str(args[0] if args else kwargs.get("name", "?")))
            building.fault(f"{where}: {cls.__name__} is virtual; use one of its subclasses")
        try:
            return super().__call__(*args, **kwargs)
        except TypeError:
            arguments = _usable(cls, args, kwargs)
            if arguments is None:
                raise
            return super().__call__(**arguments)


def _usable(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments that the class takes, after noting the others as a fault; None where all of them fit."""
    signature = inspect.signature(cls.__init__)  # type: ignore[misc]
    valid = list(signature.parameters)[1:]
    try:
        signature.bind(None, *args, **kwargs)
        return None
    except TypeError as error:
        where = building.path(str(args[0] if args else kwargs.get("name", "?")))
        near = "".join(nearest(name, valid) for name in kwargs if name not in valid)
        building.fault(f"{where}: {cls.__name__}: {error}{near} (attributes: {', '.join(valid)})")
    found = {**dict(zip(valid, args)), **{k: v for k, v in kwargs.items() if k in valid}}
    found.setdefault("name", "?")
    return found


@dataclass(frozen=True, eq=False)
class ACADLObject(metaclass=_ObjectType):
    """Virtual base: ``name`` is unique in a graph. *Added*, for reports: ``leakage_watts``, ``area_mm2``, and the
    ``component`` from which figures follow that are not stated."""

    virtual: ClassVar[bool] = True
    physical: ClassVar[tuple[str, ...]] = ("leakage_watts", "area_mm2")

    name: str
    leakage_watts: float | None = field(default=None, kw_only=True)
    area_mm2: float | None = field(default=None, kw_only=True)
    component: Component | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._set("name", building.path(self.name) if isinstance(self.name, str) else self.name)
        if (builder := building.active()) is not None:
            builder.objects.append(self)

    def _set(self, attribute: str, value: object) -> None:
        object.__setattr__(self, attribute, value)

    def faults(self) -> list[str]:
        """What is wrong with the object's own attributes, one message each, without the object's name."""
        faults = []
        if not isinstance(self.name, str) or not self.name.strip():
            faults.append(f"name must be a non-empty string, not {self.name!r}")
        for attribute in self.physical:
            value = getattr(self, attribute)
            if value is not None:
                faults += figure(attribute, value)
        if self.component is not None and not isinstance(self.component, Component):
            return [*faults, f"component must be a Component, not {self.component!r}"]
        return faults + [f"component: {fault}" for fault in self.component.faults()] if self.component else faults

    def latencies(self) -> dict[str, Expression]:
        """The parsed latencies by attribute; KeyError-free only when :meth:`faults` is empty."""
        return {}

    def __str__(self) -> str:
        return f"{self.name} ({type(self).__name__})"


def figure(attribute: str, value: object) -> list[str]:
    """A physical figure must be a finite number of at least 0."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and 0 <= value < math.inf:  # type: ignore[operator]
        return []
    return [f"{attribute} must be a number of at least 0, not {value!r}"]


def count(obj: ACADLObject, attribute: str, least: int = 1) -> list[str]:
    """The attribute must be an integer of at least ``least``."""
    value = getattr(obj, attribute)
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return []
    return [f"{attribute} must be an integer of at least {least}, not {value!r}"]


def flag(obj: ACADLObject, attribute: str) -> list[str]:
    """The attribute must be a truth value."""
    value = getattr(obj, attribute)
    return [] if isinstance(value, bool) else [f"{attribute} must be True or False, not {value!r}"]


def latency(attribute: str, value: object, least: int) -> list[str]:
    """A latency must parse, and be at least ``least`` where that can be seen without an instruction."""
    if type(value) is int and value >= least:
        return []
    try:
        expression = parse(value)  # type: ignore[arg-type]
        number = expression.evaluate({}) if expression.is_constant else least
    except LatencyError as error:
        return [f"{attribute}: {error}"]
    return [] if number >= least else [f"{attribute} must be at least {least}, not {value!r}"]


def word(obj: ACADLObject, attribute: str, valid: Sequence[str]) -> list[str]:
    """The attribute must be one of some words."""
    value = getattr(obj, attribute)
    return [] if value in valid else [f"{attribute} must be one of {', '.join(map(repr, valid))}, not {value!r}"]


def mapping(obj: ACADLObject, attribute: str) -> list[str]:
    """The attribute must be a mapping."""
    value = getattr(obj, attribute)
    return [] if isinstance(value, Mapping) else [f"{attribute} must be a mapping, not {value!r}"]


def tuples(ranges: object) -> object:
    """A list of lists as a tuple of tuples; anything else as it is, for the checks to name."""
    if not isinstance(ranges, Sequence) or isinstance(ranges, str):
        return ranges
    return tuple(tuple(r) if isinstance(r, Sequence) else r for r in ranges)


def range_faults(attribute: str, ranges: object, required: bool) -> list[str]:
    """Half-open ranges of addresses must be integers, ascending in themselves and apart from one another."""
    if not isinstance(ranges, tuple) or not all(_is_range(r) for r in ranges):
        return [f"{attribute} must be a list of (start, stop) with 0 <= start < stop, not {ranges!r}"]
    if required and not ranges:
        return [f"{attribute} is empty: state the word addresses [(start, stop), ...] that the storage holds"]
    ordered = sorted(ranges)
    clashes = [(a, b) for a, b in itertools.pairwise(ordered) if b[0] < a[1]]
    return [f"{attribute}: {a} and {b} overlap" for a, b in clashes]


def _is_range(value: object) -> bool:
    if not isinstance(value, tuple) or len(value) != 2:
        return False
    integers = all(isinstance(v, int) and not isinstance(v, bool) for v in value)
    return integers and 0 <= value[0] < value[1]
