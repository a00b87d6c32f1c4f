"""The classes of ACADL (section 3 of the paper) with their attributes.

Objects are tables: they hold figures and no behaviour; :mod:`acadl_models.timing` gives the figures their meaning.
Attributes marked *added* are not in the paper, and their defaults give the paper's behaviour. An object made inside a
``@generate`` function joins the graph under construction, and its ``name`` becomes its path through the templates
around it. Times are clock cycles; ``latency`` attributes are integers or expressions (:mod:`.latency`).
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, TypeAlias, Union

from acadl_models.acadl import building
from acadl_models.acadl.latency import Expression, Latency, LatencyError, parse

UnitLatency: TypeAlias = Union[Latency, Mapping[str, Latency]]
"""One latency for all mnemonics that a unit processes, or (added) one for each of them."""


@dataclass(frozen=True)
class Data:
    """A value in a memory, a register or an immediate: ``size`` in bits and its ``payload``."""

    size: int
    payload: Any = None


@dataclass(frozen=True)
class Instruction:
    """An instruction instance with explicit register names and addresses, as in the paper.

    Programs are streams (:mod:`oracle.stream`), in which loops stay loops; this form is for models at the level of
    single instructions. ``function`` is what :meth:`execute` calls.
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
    """Turns wrong constructor arguments into a GraphError that names the object."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        where = building.path(str(args[0] if args else kwargs.get("name", "?")))
        if cls.virtual:  # type: ignore[attr-defined]
            building.refuse(f"{where}: {cls.__name__} is virtual; use one of its subclasses")
        try:
            return super().__call__(*args, **kwargs)
        except TypeError:
            signature = inspect.signature(cls.__init__)  # type: ignore[misc]
            try:
                signature.bind(None, *args, **kwargs)
            except TypeError as error:
                valid = ", ".join(list(signature.parameters)[1:])
                building.refuse(f"{where}: {cls.__name__}: {error} (attributes: {valid})")
            raise


@dataclass(frozen=True, eq=False)
class ACADLObject(metaclass=_ObjectType):
    """Virtual base: ``name`` is unique in a graph. The physical figures (*added*) flow through to reports untouched."""

    virtual: ClassVar[bool] = True

    name: str
    joules_per_access: float | None = field(default=None, kw_only=True)
    leakage_watts: float | None = field(default=None, kw_only=True)
    area_square_metres: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._set("name", building.path(self.name) if isinstance(self.name, str) else self.name)
        building.add_object(self)

    def _set(self, attribute: str, value: object) -> None:
        object.__setattr__(self, attribute, value)

    def faults(self) -> list[str]:
        """What is wrong with the object's own attributes, one message each, without the object's name."""
        faults = []
        if not isinstance(self.name, str) or not self.name.strip():
            faults.append(f"name must be a non-empty string, not {self.name!r}")
        for figure in ("joules_per_access", "leakage_watts", "area_square_metres"):
            value = getattr(self, figure)
            if value is not None and not (isinstance(value, (int, float)) and value >= 0):
                faults.append(f"{figure} must be a number of at least 0, not {value!r}")
        return faults

    def latencies(self) -> dict[str, Expression]:
        """The parsed latencies by attribute; KeyError-free only when :meth:`faults` is empty."""
        return {}

    def __str__(self) -> str:
        return f"{self.name} ({type(self).__name__})"


def _count(obj: ACADLObject, attribute: str, least: int = 1) -> list[str]:
    value = getattr(obj, attribute)
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return []
    return [f"{attribute} must be an integer of at least {least}, not {value!r}"]


def _latency(obj: ACADLObject, attribute: str, least: int) -> list[str]:
    """A latency must parse, and be at least ``least`` where that can be seen without an instruction."""
    return _latency_value(attribute, getattr(obj, attribute), least)


def _latency_value(attribute: str, value: object, least: int) -> list[str]:
    try:
        expression = parse(value)  # type: ignore[arg-type]
        number = expression.evaluate({}) if expression.is_constant else least
    except LatencyError as error:
        return [f"{attribute}: {error}"]
    return [] if number >= least else [f"{attribute} must be at least {least}, not {value!r}"]


@dataclass(frozen=True, eq=False)
class PipelineStage(ACADLObject):
    """Holds an instruction for ``latency`` cycles and forwards it; ``depth`` (*added*): how many it holds."""

    virtual: ClassVar[bool] = False

    latency: Latency = 1
    depth: int = 1

    def faults(self) -> list[str]:
        return super().faults() + _latency(self, "latency", 1) + _count(self, "depth")

    def latencies(self) -> dict[str, Expression]:
        return {"latency": parse(self.latency)}


@dataclass(frozen=True, eq=False)
class ExecuteStage(PipelineStage):
    """A stage that contains functional units and hands them the instructions that they process."""

    def faults(self) -> list[str]:
        extra = [] if self.depth == 1 else [f"depth must be 1, not {self.depth!r}: only a PipelineStage is a queue"]
        return super().faults() + extra


@dataclass(frozen=True, eq=False)
class InstructionFetchStage(ExecuteStage):
    """Fetches instructions into an issue buffer of ``issue_buffer_size`` and issues any of them in a cycle."""

    issue_buffer_size: int = 1

    def faults(self) -> list[str]:
        return super().faults() + _count(self, "issue_buffer_size")


@dataclass(frozen=True, eq=False)
class RegisterFile(ACADLObject):
    """Registers of ``data_width`` bits each; ``registers`` maps a register's name to its initial value."""

    virtual: ClassVar[bool] = False

    data_width: int = 32
    registers: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.registers, Mapping):
            self._set("registers", dict(self.registers))
        super().__post_init__()

    def faults(self) -> list[str]:
        faults = super().faults() + _count(self, "data_width")
        if not isinstance(self.registers, Mapping) or not self.registers:
            faults.append(f"registers must map at least one register name to a value, not {self.registers!r}")
        return faults


@dataclass(frozen=True, eq=False)
class FunctionalUnit(ACADLObject):
    """Processes the instructions whose mnemonic is in ``to_process``, each for ``latency`` cycles.

    *Added*: ``interval``, cycles from one start to the next, and ``in_flight``, how many instructions it processes at
    the same time. Without ``interval`` the unit takes the next instruction when it has finished the last. ``latency``
    and ``interval`` may be mappings with an entry for each mnemonic (or for ``"*"``, all others).
    """

    virtual: ClassVar[bool] = False

    to_process: Set[str] = frozenset()
    latency: UnitLatency = 1
    interval: UnitLatency | None = None
    in_flight: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.to_process, (Set, Sequence)) and all(isinstance(m, str) for m in self.to_process):
            single = isinstance(self.to_process, str)  # a string is a sequence of strings, too
            self._set("to_process", self.to_process if single else frozenset(self.to_process))
        super().__post_init__()

    def latency_of(self, mnemonic: str) -> Expression:
        """The latency of ``mnemonic``."""
        return parse(_of(self.latency, mnemonic))

    def interval_of(self, mnemonic: str) -> Expression | None:
        """The interval after ``mnemonic``; None: until it is finished."""
        return None if self.interval is None else parse(_of(self.interval, mnemonic))

    def latencies(self) -> dict[str, Expression]:
        found: dict[str, Expression] = {}
        for attribute in ("latency", "interval"):
            value = getattr(self, attribute)
            if isinstance(value, Mapping):
                found |= {f"{attribute}[{key}]": parse(v) for key, v in value.items()}
            elif value is not None:
                found[attribute] = parse(value)
        return found

    def faults(self) -> list[str]:
        faults = super().faults() + _count(self, "in_flight")
        if not isinstance(self.to_process, frozenset) or not all(isinstance(m, str) for m in self.to_process):
            return [*faults, f"to_process must be a set of mnemonics, not {self.to_process!r}"]
        if not self.to_process and not isinstance(self, InstructionMemoryAccessUnit):
            faults.append("to_process is empty: the unit would never work")
        faults += self._table_faults("latency", self.latency, 0)
        if self.interval is not None:
            faults += self._table_faults("interval", self.interval, 1)
        elif self.in_flight != 1:
            faults.append(f"in_flight is {self.in_flight!r} but there is no interval: state the interval, too")
        return faults

    def _table_faults(self, attribute: str, value: object, least: int) -> list[str]:
        if not isinstance(value, Mapping):
            return _latency_value(attribute, value, least)
        faults = [f for key, v in value.items() for f in _latency_value(f"{attribute}[{key}]", v, least)]
        unknown = sorted(str(k) for k in value if k != "*" and k not in self.to_process)
        missing = sorted(self.to_process - set(value)) if "*" not in value else []
        if unknown:
            faults.append(f"{attribute} names {', '.join(unknown)}, not in to_process")
        if missing:
            faults.append(f"{attribute} has no entry for {', '.join(missing)} (nor for '*')")
        return faults


def _of(value: UnitLatency, mnemonic: str) -> Latency:
    if not isinstance(value, Mapping):
        return value
    return value[mnemonic] if mnemonic in value else value["*"]


@dataclass(frozen=True, eq=False)
class MemoryAccessUnit(FunctionalUnit):
    """A functional unit that also reads and writes data storages."""


@dataclass(frozen=True, eq=False)
class InstructionMemoryAccessUnit(MemoryAccessUnit):
    """Fetches instructions from an instruction memory, for the fetch stage that contains it."""

    latency: UnitLatency = 0

    def faults(self) -> list[str]:
        if isinstance(self.latency, Mapping):
            return [*ACADLObject.faults(self), "latency must be one for all fetches, not a table by mnemonic"]
        return super().faults()


@dataclass(frozen=True, eq=False)
class DataStorage(ACADLObject):
    """Virtual: words of ``data_width`` bits, ``max_concurrent_requests`` request slots and a FIFO before them.

    ``read_write_ports``: how many memory access units may be attached. ``port_width``: words in a transaction.
    ``shared_port`` (*added*): the beats of all slots follow one another on one port (a bus).
    """

    virtual: ClassVar[bool] = True
    latency_attributes: ClassVar[tuple[str, ...]] = ()

    data_width: int = 8
    max_concurrent_requests: int = 1
    read_write_ports: int = 1
    port_width: int = 1
    data: Mapping[int, Any] = field(default_factory=dict)
    shared_port: bool = False

    def latencies(self) -> dict[str, Expression]:
        return {a: parse(getattr(self, a)) for a in self.latency_attributes}

    def faults(self) -> list[str]:
        counts = ("data_width", "max_concurrent_requests", "read_write_ports", "port_width")
        faults = super().faults() + [f for c in counts for f in _count(self, c)]
        if not isinstance(self.shared_port, bool):
            faults.append(f"shared_port must be True or False, not {self.shared_port!r}")
        return faults + [f for a in self.latency_attributes for f in _latency(self, a, 1)]


@dataclass(frozen=True, eq=False)
class MemoryInterface(DataStorage):
    """Virtual: latencies of a transaction, and ``address_ranges``: half-open ranges of word addresses held here."""

    virtual: ClassVar[bool] = True
    latency_attributes: ClassVar[tuple[str, ...]] = ("read_latency", "write_latency")

    read_latency: Latency = 1
    write_latency: Latency = 1
    address_ranges: Sequence[tuple[int, int]] = ()

    def __post_init__(self) -> None:
        self._set("address_ranges", _tuples(self.address_ranges))
        super().__post_init__()

    @property
    def words(self) -> int:
        """How many words the address ranges hold."""
        return sum(stop - start for start, stop in self.address_ranges)

    @property
    def size_bytes(self) -> int:
        return self.words * self.data_width // 8

    def faults(self) -> list[str]:
        return super().faults() + _range_faults("address_ranges", self.address_ranges, required=True)


def _tuples(ranges: object) -> object:
    """A list of lists as a tuple of tuples; anything else as it is, for the checks to name."""
    if not isinstance(ranges, Sequence) or isinstance(ranges, str):
        return ranges
    return tuple(tuple(r) if isinstance(r, Sequence) else r for r in ranges)


def _range_faults(attribute: str, ranges: object, required: bool) -> list[str]:
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


@dataclass(frozen=True, eq=False)
class SRAM(MemoryInterface):
    """On-chip memory with constant latencies."""

    virtual: ClassVar[bool] = False


@dataclass(frozen=True, eq=False)
class DRAM(MemoryInterface):
    """Off-chip memory; non-zero ``t_RCD``, ``t_RP`` and ``t_RAS`` (cycles) ask for timing by the state of its banks."""

    virtual: ClassVar[bool] = False

    bank_address_ranges: Sequence[tuple[int, int]] = ()
    t_RCD: int = 0
    t_RP: int = 0
    t_RAS: int = 0

    def __post_init__(self) -> None:
        self._set("bank_address_ranges", _tuples(self.bank_address_ranges))
        super().__post_init__()

    def faults(self) -> list[str]:
        times = [f for t in ("t_RCD", "t_RP", "t_RAS") for f in _count(self, t, 0)]
        return super().faults() + times + _range_faults("bank_address_ranges", self.bank_address_ranges, False)


class ReplacementPolicy(Enum):
    """Which line of a set a cache gives up."""

    LRU = "least recently used"
    FIFO = "first in, first out"
    RANDOM = "random"


@dataclass(frozen=True, eq=False)
class CacheInterface(DataStorage):
    """Virtual: the attributes that caches share; ``cache_line_size`` is in words."""

    virtual: ClassVar[bool] = True
    latency_attributes: ClassVar[tuple[str, ...]] = ("miss_latency", "hit_latency")

    write_allocate: bool = True
    write_back: bool = True
    miss_latency: Latency = 1
    hit_latency: Latency = 1
    cache_line_size: int = 1
    replacement_policy: ReplacementPolicy = ReplacementPolicy.LRU

    def faults(self) -> list[str]:
        faults = super().faults() + _count(self, "cache_line_size")
        for flag in ("write_allocate", "write_back"):
            if not isinstance(getattr(self, flag), bool):
                faults.append(f"{flag} must be True or False, not {getattr(self, flag)!r}")
        if not isinstance(self.replacement_policy, ReplacementPolicy):
            valid = ", ".join(f"ReplacementPolicy.{p.name}" for p in ReplacementPolicy)
            faults.append(f"replacement_policy must be one of {valid}, not {self.replacement_policy!r}")
        return faults


@dataclass(frozen=True, eq=False)
class SetAssociativeCache(CacheInterface):
    """A cache of ``sets`` sets with ``ways`` lines each."""

    virtual: ClassVar[bool] = False

    sets: int = 1
    ways: int = 1

    def faults(self) -> list[str]:
        return super().faults() + _count(self, "sets") + _count(self, "ways")


__all__ = [
    "ACADLObject", "CacheInterface", "DRAM", "Data", "DataStorage", "ExecuteStage", "FunctionalUnit", "Instruction",
    "InstructionFetchStage", "InstructionMemoryAccessUnit", "MemoryAccessUnit", "MemoryInterface",
    "PipelineStage", "RegisterFile", "ReplacementPolicy", "SRAM", "SetAssociativeCache", "UnitLatency",
]
