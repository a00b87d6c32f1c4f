"""The loops of a program as sites of the stream's text, and their statistics from the counters of a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from archloom.acadl_models.timing.program import Program, StaticInstruction, StaticNode
from archloom.acadl_models.timing.result import LoopTiming

TOP = -1
"""The site of what lies in no loop."""


@dataclass
class LoopSite:
    """A loop of the stream's text; copies of it that the binder made count as one. ``parent``: the site around it."""

    source: int
    path: tuple[str, ...]
    parent: int
    executions: int = 0
    iterations: int = 0


class LoopSites:
    """The loops of ``program`` that have instances, in the order of the text."""

    def __init__(self, program: Program) -> None:
        self.sites: list[LoopSite] = []
        self.home = [TOP] * len(program.instructions)
        """The site of the innermost loop around each static instruction, by its index."""
        self.of_loop: dict[int, int] = {}
        """The site of each static loop, by its ``id``."""
        self._numbers: dict[tuple[int, int], int] = {}
        self._count = 0
        self._walk(program.body, TOP, (), 1)

    def _walk(self, body: tuple[StaticNode, ...], site: int, path: tuple[str, ...], times: int) -> None:
        for node in body:
            if isinstance(node, StaticInstruction):
                self.home[node.index] = site
                continue
            source = self._count if node.source < 0 else node.source
            self._count += 1
            if has_instances(node):
                times_inside = times * len(node.values)
                inner = self._enter(source, site, (*path, node.var), times, times_inside)
                self.of_loop[id(node)] = inner
                self._walk(node.body, inner, (*path, node.var), times_inside)

    def _enter(self, source: int, parent: int, path: tuple[str, ...], executions: int, iterations: int) -> int:
        number = self._numbers.setdefault((parent, source), len(self.sites))
        if number == len(self.sites):
            self.sites.append(LoopSite(source, path, parent))
        self.sites[number].executions += executions
        self.sites[number].iterations += iterations
        return number

    def timings(self, own_cycles: Sequence[int], stepped: Sequence[int]) -> tuple[LoopTiming, ...]:
        """Statistics from the cycles spent directly in each site and the iterations stepped one by one."""
        cycles = list(own_cycles)
        for number in range(len(self.sites) - 1, -1, -1):  # sites come after the site around them
            parent = self.sites[number].parent
            if parent != TOP:
                cycles[parent] += cycles[number]
        return tuple(
            LoopTiming(s.source, s.path, s.executions, s.iterations, cycles[k], stepped[k])
            for k, s in enumerate(self.sites)
        )


def has_instances(node: StaticNode) -> bool:
    """Whether a run contains an instance of the node."""
    return isinstance(node, StaticInstruction) or (len(node.values) > 0 and any(map(has_instances, node.body)))
