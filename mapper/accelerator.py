"""An accelerator as the compiler sees it: options, architecture graph, ISA, mapping space and emission."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any, Protocol

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.energy import read_overrides
from archloom.acadl_models.timing import Heard
from archloom.mapper.asked import Asked, Part, read_asked
from archloom.mapper.cache import Entry, code_fingerprint, key_of, origin_fingerprint
from archloom.mapper.costs.compute import peak
from archloom.mapper.explore import Objective
from archloom.mapper.hardware import Hardware
from archloom.mapper.known import Kin, Touched, digest, spread
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.options import Option, OptionValue, resolve_options
from archloom.mapper.packing import Place, packed
from archloom.mapper.places import check_places, placed, rooms
from archloom.mapper.space import Space
from archloom.mapper.workload import Workload, plain
from archloom.oracle import taidl
from archloom.oracle.errors import StreamError
from archloom.oracle.memory import Remembered
from archloom.oracle.stream import Stream, emitted_for
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.user_code import called, in_user_code

Options = Mapping[str, Any]


PACKAGES = ("mapper", "oracle", "acadl_models", "uma_targets")
"""Packages whose code decides what a search finds."""


class Emitter(Protocol):
    """Turns a mapped workload into a stream of the accelerator's instructions."""

    def emit(self, workload: "Workload", mapping: "TileMapping") -> "Stream":
        """MappingError if the mapping does not fit."""


class Planner(Emitter, Protocol):
    """An emitter that finds its mappings itself."""

    def find(
        self, workload: "Workload", top_k: int, objective: Objective, heard: Heard | None = None,
        asked: Part | None = None,
    ) -> "Entry":
        """By an objective the best mapping of those that were simulated, of which ``heard`` is told how far they are,
        with its timing; MappingError where none fits, or none is as it is ``asked`` for."""


@dataclass(frozen=True)
class Accelerator:
    """The description of an accelerator; everything that depends on options takes them as a mapping.

    ``make_graph`` builds the architecture graph from resolved options; ``isa_name`` names the TAIDL description, whose
    parameters are those of the graph; ``make_emitter`` gets the ISA and the options;
    ``make_space`` says which mappings a workload may have on the hardware; ``macs_per_cycle`` is the peak of a graph,
    against which utilization is counted (by default what the products of its units make), of operands of some types
    so many times as many (``rates``). ``planner``: for machines
    that are planned in a way of their own, such as many cores: for a graph what finds mappings and emits them, in place
    of emitter and space. ``patience``: how many times as many instructions the simulations of a search may step through
    as those of others, and how many times as far from the best estimates may be, where its instructions are simulated
    fast. ``top_k``: how many of the candidates that the cost model ranks first a search simulates where nothing else is
    asked for. ``is_bounded``: its spaces say what their mappings take at least, for workloads of some kinds.
    ``touched``: which rows of each buffer the stream of a mapping touches, where nothing in the stream but the first
    rows of these stretches depends on how many rows the buffers have, and by what mapping of as many places as are used
    it could be written, too (:mod:`archloom.mapper.known`).
    ``layouts``: where constants of a workload are to lie in memory, by name, if not row by row
    (:mod:`archloom.mapper.packing`). ``calls``: functions of the target's that these call.
    """

    name: str
    description: str
    options: tuple[Option, ...]
    isa_name: str
    make_graph: Callable[[Options], "ArchitectureGraph"] = field(repr=False)
    make_emitter: Callable[[Isa, Options], Emitter] = field(repr=False)
    make_space: Callable[["Workload", Hardware, Options], "Space"] = field(repr=False)
    macs_per_cycle: "Callable[[ArchitectureGraph], int] | None" = field(default=None, repr=False)
    planner: "Callable[[ArchitectureGraph], Planner] | None" = field(default=None, repr=False)
    patience: int = 1
    top_k: int = 5
    is_bounded: bool = False
    touched: "Callable[[Workload, TileMapping, Isa], Touched] | None" = field(default=None, repr=False)
    layouts: "Callable[[Workload, Isa, Options], Mapping[str, Place]] | None" = field(default=None, repr=False)
    rates: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    calls: tuple[Callable[..., Any], ...] = field(default=(), repr=False)

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """Whose code decides what a search finds."""
        own = (self.make_graph, self.make_emitter, self.make_space, self.macs_per_cycle, self.planner, self.layouts,
               self.touched)
        return tuple(function for function in (*own, *self.calls) if function is not None)

    @property
    def code(self) -> str:
        """Changes whenever code does that decides what a search finds: ours, or that of a target of other packages."""
        return key_of([code_fingerprint(*PACKAGES), origin_fingerprint(self.functions, PACKAGES)])

    def resolve_options(self, values: Options | None = None) -> dict[str, OptionValue]:
        """All options with defaults filled in, and ``energy`` and ``mapping`` where they are given; TargetError naming
        target, option, expectation and finding."""
        found = resolve_options(self.name, (*self.options, *OF_ALL), values or {})
        return {name: value for name, value in found.items() if value is not None or name not in _NAMES}

    def configure(self, values: Options | None = None) -> "Configuration":
        """The accelerator with these options; checked to fit together when first made, and kept."""
        asked = tuple((name, type(value), value) for name, value in (values or {}).items())
        known = self._asked.get(asked)
        if known is not None:
            return known
        resolved = self.resolve_options(values)
        key = tuple(resolved.items())
        if not _NAMES.isdisjoint(resolved):  # the file may be another one the next time
            fresh = Configuration(self, key)
            fresh.check()
            return fresh
        made = self._made.get(key)
        if made is None:
            made = Configuration(self, key)
            made.check()
            self._made[key] = made
        self._asked[asked] = made
        return made

    @cached_property
    def _asked(self) -> Remembered[tuple[Any, ...], "Configuration"]:
        """Configurations by what was asked for, as it was spelled."""
        return Remembered(_KEPT)

    @cached_property
    def _made(self) -> Remembered[tuple[tuple[str, OptionValue], ...], "Configuration"]:
        return Remembered(_KEPT)

    def graph(self, values: Options | None = None) -> "ArchitectureGraph":
        return self.configure(values).graph

    def isa(self, values: Options | None = None) -> "Isa":
        """The ISA with the parameters of the graph."""
        return self.configure(values).isa

    def hardware(self, values: Options | None = None) -> Hardware:
        return self.configure(values).hardware

    def emitter(self, values: Options | None = None) -> Emitter:
        return self.configure(values).emitter


ENERGY = Option("energy", str, None, "a TOML file with energies, leakages and areas of one's own (docs/energy.md)")
MAPPING = Option("mapping", str, None, "what mappings have to be, as m=128,order=n>m or a JSON file (docs/mapper.md)")
OF_ALL = ENERGY, MAPPING
"""Options of every target, in files of one's own."""

_NAMES = frozenset(option.name for option in OF_ALL)
_KEPT, _PROVEN = 64, 1 << 12
"""Configurations that an accelerator remembers, and workloads whose bounds a configuration does."""


@dataclass(frozen=True)
class Configuration:
    """An accelerator with all options fixed; its parts are made when first used."""

    accelerator: Accelerator
    values: tuple[tuple[str, OptionValue], ...]

    @property
    def options(self) -> dict[str, OptionValue]:
        return dict(self.values)

    @cached_property
    def graph(self) -> "ArchitectureGraph":
        options = self.options
        figures = options.pop(ENERGY.name, None)
        options.pop(MAPPING.name, None)
        with in_user_code(lambda: f"target {self.accelerator.name!r}, its graph at {self._shown}"):
            graph = called(self.accelerator.make_graph, options, gives=ArchitectureGraph)
        return graph if figures is None else replace(graph, overrides=read_overrides(str(figures)))

    @cached_property
    def isa(self) -> "Isa":
        return taidl.load(self.accelerator.isa_name, **self.graph.parameters)

    @cached_property
    def hardware(self) -> Hardware:
        return Hardware.from_graph(self.graph)

    @cached_property
    def fingerprint(self) -> str:
        """The graph, the ISA and the options as one word; what is asked of mappings is not part of it."""
        isa = self.isa
        values = tuple(pair for pair in self.values if pair[0] != MAPPING.name)
        return key_of([self.graph.fingerprint, isa.definition.source or "", repr(isa.parameters), repr(values)])

    @cached_property
    def kin(self) -> Kin | None:
        """The machines that differ from it by the room in some memories alone; None where there are none."""
        return Kin.of(self.graph, self.isa, "" if self.accelerator.touched is None else self.accelerator.code)

    def told_apart(self, workload: "Workload", mapping: "TileMapping", emit: "Callable[[], Stream]") -> str:
        """Of the streams of a workload on machines that are alike (:attr:`kin`), those by the same name take as long.
        ``emit``: makes that of the mapping, if it is needed."""
        if self.accelerator.touched is None:
            return digest(emit())
        return spread(self.accelerator.touched(placed(workload, self.graph), mapping, self.isa), self.graph)

    @cached_property
    def asked(self) -> Asked | None:
        """What the user asks of mappings; InputError for what is none."""
        text = self.options.get(MAPPING.name)
        return None if text is None else read_asked(str(text))

    @cached_property
    def has_energy(self) -> bool:
        """Whether the graph has figures of energy."""
        from archloom.acadl_models.timing.energy import has_energy

        return has_energy(self.graph)

    @cached_property
    def planner(self) -> Planner | None:
        """What plans for the graph, where the accelerator has a planner of its own."""
        return None if self.accelerator.planner is None else self.accelerator.planner(self.graph)

    @cached_property
    def emitter(self) -> Emitter:
        return self.planner or self.accelerator.make_emitter(self.isa, self.options)

    @cached_property
    def macs_per_cycle(self) -> int:
        """The peak, as the accelerator states it or as its graph and ISA have it."""
        stated = self.accelerator.macs_per_cycle
        if stated is None:
            return peak(self.graph, self.isa)
        with in_user_code(lambda: f"target {self.accelerator.name!r}, its macs_per_cycle"):
            return int(called(stated, self.graph, gives=Integral))

    def peak_of(self, workload: "Workload") -> int:
        """The peak in products of a workload's operands."""
        return self.macs_per_cycle * self.accelerator.rates.get(workload.inputs[0].dtype, 1)

    def packed(self, workload: "Workload") -> "Workload":
        """The workload with its constants as the accelerator wants them in memory; MappingError for no layout."""
        if self.accelerator.layouts is None or not workload.constants:
            return workload
        with self._emitting(workload, "the layouts of its constants"):
            return packed(workload, self.accelerator.layouts(workload, self.isa, self.options))

    def emit(self, workload: "Workload", mapping: "TileMapping") -> "Stream":
        """The instructions of a mapped workload; MappingError if the mapping does not fit."""
        workload = placed(workload, self.graph)
        with self._emitting(workload, f"the instructions of {mapping}"), emitted_for(self.isa):
            stream = self.emitter.emit(workload, mapping)
        check_places(workload, stream)
        return stream

    @contextmanager
    def running(self, workload: "Workload", mapping: "TileMapping") -> Iterator[None]:
        """Around what is made of emitted instructions: their faults are told with target, layer and mapping."""
        try:
            yield
        except StreamError as error:
            named = StreamError(f"target {self.accelerator.name!r}, {workload.title}, the instructions of {mapping}: "
                                f"{error}")
            named.instruction = error.instruction
            raise named from error

    def space(self, workload: "Workload") -> "Space":
        """The mappings that ``workload`` may have."""
        with self._emitting(workload, "its mappings"):
            return self.accelerator.make_space(placed(workload, self.graph), self.hardware, self.options)

    def least_of_mappings(self, workload: "Workload", space: "Space | None" = None) -> int:
        """Cycles that no mapping of a workload takes fewer than, as the target proves it: 0 where it proves nothing,
        MappingError where there is no mapping. ``space``: all mappings, if they are at hand."""
        key = key_of([repr(plain(workload)), *(workload.constants if rooms(self.graph) else ())])
        return self._proven.once(key, lambda: (self.space(workload) if space is None else space).least())

    @cached_property
    def _proven(self) -> "Remembered[str, int]":
        return Remembered(_PROVEN)

    def _emitting(self, workload: "Workload", what: str) -> "AbstractContextManager[None]":
        return in_user_code(lambda: f"target {self.accelerator.name!r}, {workload.title}, {what}")

    @property
    def _shown(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.values) or "no options"

    def check(self) -> None:
        """TargetError with all misfits if graph and ISA do not fit."""
        from archloom.acadl_models.fit import check_fit

        check_fit(self.graph, self.isa, self.accelerator.name)
