"""``@generate``, templates and ``create_ag()``: from a Python function to an architecture graph (section 4)."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ParamSpec

from archloom.acadl_models.acadl import building
from archloom.acadl_models.acadl.base import ACADLObject
from archloom.acadl_models.acadl.building import Builder
from archloom.acadl_models.acadl.components import Technology
from archloom.acadl_models.acadl.graph import ArchitectureGraph, Bank
from archloom.acadl_models.acadl.rules import check
from archloom.acadl_models.acadl.semantics import Semantics
from archloom.acadl_models.acadl.storages import BufferStorage, MemoryInterface, RegisterFile
from archloom.oracle.errors import GraphError
from archloom.oracle.taidl.isa import Isa

P = ParamSpec("P")


@dataclass(frozen=True)
class Generated:
    """A checked architecture, before :func:`create_ag` makes its graph; ``value`` is what the function returned."""

    graph: ArchitectureGraph
    value: Any


_last: ContextVar[Generated | None] = ContextVar("acadl_last_generated", default=None)


def generate(function: Callable[P, Any]) -> Callable[P, Generated]:
    """Decorator of a function that makes an architecture's objects and edges.

    Calling the function collects them and checks every validity rule; a GraphError lists all faults at once. Call
    :func:`architecture` inside to state clock, parameters and buffers; :func:`create_ag` makes the graph afterwards.
    """

    @functools.wraps(function)
    def generating(*args: P.args, **kwargs: P.kwargs) -> Generated:
        builder = Builder(function.__name__)
        with building.collecting(builder):
            try:
                value = function(*args, **kwargs)
            except Exception as error:  # after faults it may follow from them, and is listed behind them
                if not builder.faults:
                    raise
                stopped = f"then {builder.name}() stopped: {type(error).__name__}: {error}"
                faults = [*builder.faults, *check(builder.objects, builder.edges), stopped]
                raise GraphError(builder.name, faults) from error
        generated = Generated(_graph(builder), value)
        _last.set(generated)
        return generated

    return generating


def _graph(builder: Builder) -> ArchitectureGraph:
    own = {o.name: o for o in builder.objects if o.name in builder.named}
    buffers, faults = place_buffers({**builder.buffers, **own}, builder.objects)
    faults = builder.faults + check(builder.objects, builder.edges, list(builder.open_ports.values())) + faults
    if faults:
        raise GraphError(builder.name, faults)
    return ArchitectureGraph(
        name=builder.name, clock_hz=float(builder.clock_hz), parameters=dict(builder.parameters),
        objects={o.name: o for o in builder.objects}, edges=tuple(builder.edges), buffers=buffers,
        dims=dict(builder.dims), semantics=builder.semantics, technology=builder.technology,
    )


def create_ag(generated: Generated | None = None) -> ArchitectureGraph:
    """The architecture graph of ``generated``, by default of the last ``@generate`` function that was called."""
    found = generated if generated is not None else _last.get()
    if not isinstance(found, Generated):
        problem = "nothing was generated yet"
        if found is not None:
            problem = f"expected what a @generate function returns, not {found!r}"
        raise GraphError("(no graph)", [f"create_ag(): {problem}; call a function decorated with @generate first"])
    return found.graph


def architecture(
    name: str | None = None,
    *,
    clock_hz: float = 1e9,
    isa: Isa | None = None,
    parameters: Mapping[str, int] | None = None,
    buffers: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    semantics: Semantics | None = None,
    technology: Technology | None = None,
) -> None:
    """State, inside a ``@generate`` function, the facts that are not objects.

    ``buffers`` says where each tensor buffer of the ISA lies: a storage or register file, a list of banks (whose
    ``address_ranges`` tell which rows each holds), a list of ``(storage, start, stop)`` in rows, or a list of register
    files (each register is a row, and each file holds the next rows). ``parameters`` are those of the ISA that the
    structure fixes. With ``isa``, the ISA for these sizes, they are its own, and a buffer that is not in ``buffers``
    lies in the object of its name. ``dims`` names the dimensions of cores; ``semantics`` chooses among the readings of
    the paper. ``technology``: the process, from which energies and areas follow.
    """
    builder = building.active()
    if builder is None:
        raise GraphError(str(name), ["architecture() belongs inside a function decorated with @generate"])
    if isinstance(clock_hz, bool) or not isinstance(clock_hz, (int, float)) or not 0 < clock_hz < math.inf:
        building.fault(f"clock_hz must be a positive number, not {clock_hz!r}")
        clock_hz = 1e9
    builder.name = name or builder.name
    builder.clock_hz = clock_hz
    builder.parameters = (dict(isa.parameters) if isa else {}) | _integers("parameters", parameters)
    builder.buffers = _table("buffers", buffers)
    builder.named = tuple(b.name for b in isa.buffers if b.name not in builder.buffers) if isa else ()
    builder.dims = _integers("dims", dims)
    builder.semantics = _semantics(semantics)
    builder.technology = _technology(technology)


def _semantics(semantics: object) -> Semantics:
    """The semantics, or the default one after noting what is wrong."""
    if semantics is None:
        return Semantics()
    if not isinstance(semantics, Semantics):
        building.fault(f"semantics must be a Semantics, not {semantics!r}")
        return Semantics()
    faults = semantics.faults()
    for fault in faults:
        building.fault(fault)
    return Semantics() if faults else semantics


def _technology(technology: object) -> Technology | None:
    """The technology, or none after noting what is wrong."""
    if technology is None:
        return None
    if not isinstance(technology, Technology):
        building.fault(f"technology must be a Technology, not {technology!r}")
        return None
    for fault in technology.faults():
        building.fault(f"technology: {fault}")
    return technology


def _table(what: str, table: object) -> dict[str, Any]:
    """A copy of the table; a fault, and an empty one, if it is none."""
    if table is None:
        return {}
    if not isinstance(table, Mapping):
        building.fault(f"{what} must be a mapping by name, not {table!r}")
        return {}
    return dict(table)


def _integers(what: str, table: object) -> dict[str, int]:
    entries = _table(what, table)
    for key, value in entries.items():
        if isinstance(value, bool) or not isinstance(value, int):
            building.fault(f"{what}[{key!r}] must be an integer, not {value!r}")
    return entries


class _TemplateType(type):
    """Makes the objects of a template in the scope of its name. ``help`` shows what a template's ``__init__`` takes."""

    @property
    def __signature__(cls) -> inspect.Signature:
        return inspect.Signature(list(inspect.signature(cls.__init__).parameters.values())[1:])  # type: ignore[misc]

    def __call__(cls, name: str, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(name, str) or not name.strip():
            building.fault(f"{cls.__name__}: the name of a template must be a non-empty string, not {name!r}")
            name = "?"
        template: Any = cls.__new__(cls)  # type: ignore[call-overload]
        with building.scope(name) as path:
            template.name = path
            template.__init__(name, *args, **kwargs)
        return template


class Template(metaclass=_TemplateType):
    """Base of templates: a subclass makes objects, edges and dangling edges in its ``__init__(self, name, ...)``.

    The names of the objects are prefixed with the template's: ``PE("pe[0][1]")`` with a unit ``fu`` holds
    ``pe[0][1].fu``. Templates nest. ``name`` is the whole path.
    """

    name: str

    def __init__(self, name: str) -> None:
        """``name`` is already stored when a subclass runs; nothing is left to do."""


# --- where the tensor buffers of an ISA lie: the ``buffers`` table in canonical form ------------------------------
def place_buffers(
    places: Mapping[str, Any], objects: Sequence[ACADLObject]
) -> tuple[dict[str, tuple[Bank, ...]], list[str]]:
    """The banks of each buffer by ascending rows, and the faults of the table."""
    known = {id(o) for o in objects}
    table: dict[str, tuple[Bank, ...]] = {}
    faults: list[str] = []
    for buffer, place in places.items():
        items = list(place) if isinstance(place, (list, tuple)) else [place]
        if items and all(isinstance(i, RegisterFile) and id(i) in known for i in items):
            table[buffer], wrong = _registers(buffer, items)
        else:
            table[buffer], wrong = _memories(buffer, items, known)
        faults += wrong
    return table, faults


def _registers(buffer: str, files: Sequence[RegisterFile]) -> tuple[tuple[Bank, ...], list[str]]:
    """One file holds all rows; of several, each holds as many of the next rows as it has registers."""
    if len(files) == 1:
        return (Bank(files[0].name, 0, None),), []
    if any(f.faults() for f in files):
        return (), []
    faults = []
    if len({id(f) for f in files}) < len(files):
        faults.append(f"buffer {buffer!r}: a register file appears twice among {', '.join(f.name for f in files)}")
    widths = {f.data_width: f for f in files}
    if len(widths) > 1:
        found = ", ".join(f"{f.name}: {width} bits" for width, f in widths.items())
        faults.append(f"buffer {buffer!r}: its register files differ in data_width ({found})")
    faults += _hazard_faults(buffer, files)
    ends = list(itertools.accumulate(len(f.registers) for f in files))
    return tuple(Bank(f.name, end - len(f.registers), end) for f, end in zip(files, ends)), faults


def _memories(buffer: str, items: Iterable[Any], known: set[int]) -> tuple[tuple[Bank, ...], list[str]]:
    banks: list[Bank] = []
    faults: list[str] = []
    for item in items:
        obj, *rows = item if isinstance(item, tuple) and item else (item,)
        if isinstance(obj, RegisterFile) and id(obj) in known:
            faults.append(f"buffer {buffer!r}: the register file {obj.name} cannot hold rows beside other banks")
        elif not isinstance(obj, MemoryInterface) or id(obj) not in known:
            what = "a RegisterFile, SRAM or DRAM of the graph"
            faults.append(f"buffer {buffer!r} must lie in {what}, not in {obj!s}")
        elif rows and not (len(rows) == 2 and all(isinstance(r, int) for r in rows) and 0 <= rows[0] < rows[1]):
            what = "(start, stop) with 0 <= start < stop"
            faults.append(f"buffer {buffer!r}: rows in {obj.name} must be {what}, not {rows}")
        elif rows:
            banks.append(Bank(obj.name, rows[0], rows[1]))
        elif not obj.faults():
            banks += [Bank(obj.name, start, stop) for start, stop in obj.address_ranges]
    banks.sort(key=lambda b: b.start)
    held = [obj for obj in map(_storage_of, items) if isinstance(obj, MemoryInterface)]
    return tuple(banks), faults + _order_faults(buffer, banks) + _hazard_faults(buffer, held)


def _storage_of(item: Any) -> Any:
    return item[0] if isinstance(item, tuple) and item else item


def _hazard_faults(buffer: str, storages: Sequence[BufferStorage]) -> list[str]:
    """Accesses to a buffer wait for one another in one way, in whichever of its storages they meet."""
    faults = []
    for attribute, value in storages[0].hazards.items() if storages else ():
        other = next((s for s in storages if s.hazards[attribute] != value), None)
        if other is not None:
            faults.append(
                f"buffer {buffer!r}: {attribute} must be alike in all that hold it, but {storages[0].name} and "
                f"{other.name} differ"
            )
    return faults


def _order_faults(buffer: str, banks: Sequence[Bank]) -> list[str]:
    faults = []
    for a, b in itertools.pairwise(banks):
        if a.stop != b.start:
            what = "overlap" if (a.stop or 0) > b.start else "leave a gap"
            faults.append(
                f"buffer {buffer!r}: rows {a.start}..{a.stop} in {a.storage} "
                f"and {b.start}..{b.stop} in {b.storage} {what}"
            )
    if banks and banks[0].start != 0:
        faults.append(f"buffer {buffer!r}: its first row in {banks[0].storage} is {banks[0].start}, expected 0")
    return faults
