"""The report of a compiled or estimated network, and its public JSON schema.

``seconds`` is the latency of the network, accelerator and host, and ``cycles`` the same in ticks of the accelerator's
clock. Layers run one after the other, each from an idle machine, so the totals are sums. ``bytes`` counts what each
storage reads and writes together. Host work is not simulated: its cycles are ``null``, never zero; its seconds are an
estimate for a host, or ``null`` where the accelerator alone was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias

from archloom.acadl_models.timing.result import EnergyUse
from archloom.oracle.errors import ArtifactError
from archloom.oracle.fallbacks import Fallback
from archloom.oracle.records import plain, typed
from archloom.tvm_backend.memory import Memory
from archloom.tvm_backend.report.uses import LinkUse, LoopUse, StageUse, StorageUse, UnitUse

SCHEMA = "archloom.report/2"
"""Name and version of the schema: the number changes when a field changes its meaning or disappears."""

HOST_NOTE = "runs on the host; host work is not timed"
SCOPE = "accelerator only: host layers are listed, not timed"

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Layer:
    """One operator of the network.

    ``shape`` is that of its output in the network's axes. ``utilization`` is MACs over cycles times the peak MACs of
    a cycle. ``mapping`` is the chosen mapping in one line. Fields that do not apply to host layers are ``None`` or
    empty there, and ``note`` says why. Of layers of an accelerator it says what was weighed, where operators could be
    taken as one layer or as several. ``offchip_bytes``: what the accelerator's main memory read and wrote.
    ``packed``: for constants that are laid out when the network is compiled, where an element lies. ``bound_cycles``:
    no mapping takes fewer (:mod:`archloom.mapper.bounds`).
    """

    name: str
    op: str
    where: Literal["accelerator", "host"]
    shape: tuple[int, ...]
    macs: int
    cycles: int | None = None
    seconds: float | None = None
    utilization: float | None = None
    instructions: int | None = None
    bytes: Mapping[str, int] = field(default_factory=dict)
    mapping: str | None = None
    region: str | None = None
    units: Mapping[str, UnitUse] = field(default_factory=dict)
    stages: Mapping[str, StageUse] = field(default_factory=dict)
    storages: Mapping[str, StorageUse] = field(default_factory=dict)
    links: Mapping[str, LinkUse] = field(default_factory=dict)
    loops: tuple[LoopUse, ...] = ()
    energy: EnergyUse | None = None
    note: str | None = None
    target: str | None = None
    offchip_bytes: int | None = None
    packed: Mapping[str, str] = field(default_factory=dict)
    bound_cycles: int | None = None

    @property
    def gap(self) -> float | None:
        """Cycles over those that no mapping is below: nothing that a longer search finds is faster by more."""
        return self.cycles / self.bound_cycles if self.cycles and self.bound_cycles else None

    @property
    def busiest(self) -> UnitUse | None:
        """The unit that works for the most cycles; None where nothing is said of units."""
        return max(self.units.values(), key=lambda unit: unit.busy_cycles, default=None)


@dataclass(frozen=True)
class HostLayer:
    """Why an operator is on the host and what runs it there."""

    name: str
    op: str
    engine: str
    macs: int
    reason: str


@dataclass(frozen=True)
class TargetShare:
    """What one of the targets took: layers, multiply-accumulates, and cycles of its own clock.

    ``utilization`` is MACs over cycles times the peak MACs of a cycle, None for a target that took nothing; of numbers
    of which more are begun a cycle than the peak says, each counts as so much less.
    """

    name: str
    layers: int
    macs: int
    cycles: int
    seconds: float
    clock_hz: float
    peak_macs_per_cycle: int
    utilization: float | None
    area_mm2: float | None = None


@dataclass(frozen=True)
class Report:
    """The whole network on its target, or on several, parted by commas in ``target``.

    ``targets`` has the share of each. With several targets ``clock_hz`` and ``peak_macs_per_cycle`` are those of the
    first, cycles are counted in its clock, and ``utilization`` is against the peak of whoever was at work.

    ``seconds`` and ``cycles`` are the latency of the whole network, ``accelerator_cycles`` and ``accelerator_seconds``
    those of the accelerator's layers: the same where the accelerator alone was asked for, as ``scope`` then says.

    ``timing`` is ``"simulated"`` when all cycles come from the simulation of the instruction streams (exact for the
    graph), ``"estimated"`` when of some the rest of long loops was taken in proportion
    (:class:`archloom.acadl_models.timing.Patience`), ``"bound"`` where cycles and joules are those that no mapping is
    below (:mod:`archloom.mapper.bounds`). ``joules`` is the energy of the accelerator's
    layers, ``watts`` that over their seconds, ``area_mm2`` its area, and ``areas`` that by object; None where anything
    of it is not known: ``energy_missing`` says what.
    ``host_seconds``: what host layers take together by the roofline of the host called ``host_profile``, an estimate;
    None where the accelerator alone was asked for. ``unquantized``: a float network, and no target takes floats.
    ``memory``: the live ranges of activations, by the network's own shapes; None where they are not known.
    """

    model: str
    source: str
    target: str
    options: Mapping[str, Any]
    clock_hz: float
    cycles: int
    seconds: float
    accelerator_cycles: int
    accelerator_seconds: float
    macs: int
    offloaded_macs: int
    offloaded_macs_share: float
    peak_macs_per_cycle: int
    utilization: float | None
    timing: Literal["simulated", "estimated", "bound"]
    layers: tuple[Layer, ...]
    host: tuple[HostLayer, ...]
    version: str
    joules: float | None = None
    area_mm2: float | None = None
    targets: tuple[TargetShare, ...] = ()
    host_profile: str | None = None
    host_seconds: float | None = None
    scope: str = SCOPE
    schema: str = SCHEMA
    fallbacks: tuple[Fallback, ...] = ()
    """what was done in another way than meant"""
    unquantized: bool = False
    memory: Memory | None = None
    watts: float | None = None
    picojoules_per_mac: float | None = None
    areas: Mapping[str, float] = field(default_factory=dict)
    energy_missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        from archloom.tvm_backend.report.text import full_text

        return full_text(self)

    def _repr_html_(self) -> str:
        from archloom.oracle.pages import fragment
        from archloom.tvm_backend.report.text import page

        return fragment(page(self))

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with the columns of :func:`~archloom.tvm_backend.report.text.to_csv`, a row for each
        layer; InputError where pandas is not installed."""
        from archloom.tvm_backend.report.frames import frame
        from archloom.tvm_backend.report.text import to_csv

        return frame(to_csv(self))

    @property
    def accelerator_layers(self) -> tuple[Layer, ...]:
        return tuple(layer for layer in self.layers if layer.where == "accelerator")

    def to_json(self) -> Json:
        """A JSON object with the fields of this class; ``layers`` and ``host`` are lists of objects; ``fallbacks`` is
        only there where it has some."""
        data: Json = plain(replace(self, memory=None))
        data["memory"] = None if self.memory is None else self.memory.to_json()
        if not self.fallbacks:
            del data["fallbacks"]
        return data

    @staticmethod
    def from_json(data: Any, origin: str = "report") -> "Report":
        """The report that ``data`` holds; :class:`ArtifactError` naming ``origin`` if it is of another schema."""
        schema = data.get("schema") if isinstance(data, dict) else None
        if schema != SCHEMA:
            raise ArtifactError(f"{origin}: expected a report of schema {SCHEMA!r}, found {schema!r}")
        try:
            memory = None if data.get("memory") is None else Memory.from_json(data["memory"])
            _only_fields(data, Report)
            for item in data["layers"]:
                _only_fields(item, Layer)
            found: Report = typed({**data, "memory": None}, Report)
            return replace(found, memory=memory)
        except (KeyError, TypeError, AttributeError) as error:
            raise ArtifactError(f"{origin}: not a complete report of schema {SCHEMA!r}: {error}") from error


def _only_fields(item: Mapping[str, Any], kind: type[Report] | type[Layer]) -> None:
    if unknown := item.keys() - {f.name for f in fields(kind)}:
        raise TypeError(f"a {kind.__name__.lower()} has unknown fields {', '.join(sorted(unknown))}")
