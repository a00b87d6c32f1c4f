"""The simulations of one search, and what an objective says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from archloom.acadl_models.timing import Heard, simulate_bound
from archloom.acadl_models.timing.result import EnergyUse, TimingResult
from archloom.mapper import known
from archloom.mapper.explore import Objective, Trial, fewest_cycles, is_time, patience
from archloom.mapper.mapping import Mapping
from archloom.oracle.errors import GraphError
from archloom.oracle.nests import size

if TYPE_CHECKING:
    from archloom.acadl_models.timing.program import Program
    from archloom.mapper.accelerator import Configuration
    from archloom.oracle.stream import Stream


@dataclass(eq=False)
class Simulation:
    """A simulation of a stream, in which so many instructions are ``written``, and ``bound`` in its ``program``, which
    is kept as long as its energy may be asked for. ``pieces``: of memory, where simulations are kept for other
    machines."""

    timing: TimingResult
    program: "Program | None"
    written: int
    bound: int
    pieces: tuple[int, ...] = ()

    def noted(self, kin: known.Kin) -> known.Run:
        """What of it is kept for machines that are alike."""
        timing = self.timing
        return known.Run(
            kin.rows, kin.ports, self.pieces, timing.cycles, timing.stepped_instructions, self.written, self.bound)

    @cached_property
    def energy(self) -> EnergyUse | None:
        """None where there is no program; GraphError where it is not determined."""
        from archloom.acadl_models.timing.energy import energy

        found = None if self.program is None else energy(self.program, self.timing).use
        self.program = None
        return found

    @property
    def energy_if_any(self) -> EnergyUse | None:
        """None, too, where it is not determined: whoever reports it hears why."""
        try:
            return self.energy
        except GraphError:
            return None


@dataclass(eq=False)
class Simulations:
    """The simulations of one search, by stream, as different mappings may be written alike.

    A program is dropped, where energies do not decide, as soon as there is a faster one.
    """

    configuration: "Configuration"
    heard: Heard
    energies_decide: bool
    by_stream: "dict[Stream, Simulation]" = field(default_factory=dict)
    fastest: Simulation | None = None

    @cached_property
    def kin(self) -> known.Kin | None:
        """The machines for which simulations are kept, if any are."""
        return self.configuration.kin if known.is_noting() else None

    def of(self, stream: "Stream") -> Simulation:
        """The simulation of a stream, with its energy where that decides."""
        run = self.by_stream.get(stream)
        if run is None:
            run = self.by_stream[stream] = self._new(stream)
        return run

    def _new(self, stream: "Stream") -> Simulation:
        from archloom.acadl_models.timing.machine import bind
        from archloom.oracle.resolve import resolve

        program = bind(self.configuration.graph, resolve(stream, self.configuration.isa, remember=False))
        timing = simulate_bound(program, heard=self.heard, patience=patience())
        run = Simulation(timing, program if self.configuration.has_energy else None, size(stream.body),
                         len(program.instructions), () if self.kin is None else known.pieces(program))
        if self.energies_decide:
            _ = run.energy
        elif self.fastest is None or run.timing.cycles < self.fastest.timing.cycles:
            self._drop(self.fastest)
            self.fastest = run
        else:
            self._drop(run)
        return run

    @staticmethod
    def _drop(run: Simulation | None) -> None:
        if run is not None:
            run.program = None


def score_of(
    configuration: "Configuration", objective: Objective, run_of: "dict[Mapping, Simulation]"
) -> Callable[[Trial[Mapping]], float]:
    """What the objective says of a trial: of its cycles, and of its energy where the graph states any."""
    if is_time(objective):
        return fewest_cycles
    from archloom.acadl_models.timing.energy import total_joules

    graph, scores = configuration.graph, dict[Mapping, float]()

    def score(trial: Trial[Mapping]) -> float:
        if trial.plan not in scores:
            energy = run_of[trial.plan].energy
            joules = None if energy is None else total_joules(energy, graph)
            scores[trial.plan] = float(objective(trial.cycles / graph.clock_hz, joules))
        return scores[trial.plan]

    return score
