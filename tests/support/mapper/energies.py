"""What products cost on machines of many cores: what they move and compute, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from archloom.acadl_models.acadl import (
    ArchitectureGraph,
    DataStorage,
    InstructionMemoryAccessUnit,
    PipelineStage,
)
from archloom.acadl_models.acadl.components import Overrides
from archloom.acadl_models.energy import figures_of
from archloom.acadl_models.mesh import mesh
from archloom.acadl_models.mesh.sizes import STAT_BYTES, TILE_BYTES
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.energy import Energy, energy
from archloom.acadl_models.timing.machine import bind
from archloom.acadl_models.timing.program import Program
from archloom.acadl_models.triple_ring import triple_ring
from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.spatial.machines.machine import Machine, isa_of
from archloom.mapper.spatial.plan import Plan, TileGemm
from archloom.mapper.spatial.space import space
from archloom.mapper.spatial.workloads import emitted
from archloom.oracle.resolve import resolve
from tests.support.acadl_models.energies import one_by_one

LEAKAGE_WATTS = 1e-3
"""Of each storage of a core."""

Make = Callable[..., ArchitectureGraph]


def _mesh(r: Random, **sizes: Any) -> ArchitectureGraph:
    return mesh(r.randint(1, 3), r.randint(1, 3), torus=r.random() < 0.5, dram_channels=r.choice((1, 1, 3)), **sizes)


def _wormhole(r: Random, **sizes: Any) -> ArchitectureGraph:
    return wormhole(rows=r.randint(1, 3), columns=r.randint(1, 3), **sizes)


def _triple_ring(r: Random, **sizes: Any) -> ArchitectureGraph:
    rows = r.randint(2, 3)
    return triple_ring(rows=rows, columns=r.randint(2, 3), **sizes | {"l1_bytes": rows * sizes["l1_bytes"]})


MACHINES: dict[str, Make] = {"mesh": _mesh, "wormhole": _wormhole, "triple_ring": _triple_ring}


def two_machines(name: str, r: Random) -> tuple[ArchitectureGraph, ArchitectureGraph]:
    """A random machine, and the same with more room in each core."""
    sums, tiles, more, state = r.randint(1, 8), r.randint(8, 40), r.randint(1, 20), r.getstate()
    made = []
    for room in (0, more):
        r.setstate(state)
        l1_bytes = TILE_BYTES * (2 * (sums + room) + tiles + room) + 16 * STAT_BYTES
        made.append(MACHINES[name](
            r, sums=sums + room, stats=16, l1_bytes=l1_bytes, launch_cycles=10, product_cycles=r.randint(1, 20),
            block_cycles=r.randint(0, 20), dram_latency_cycles=20, dram_bytes_per_cycle=r.choice((64, 512, 2048))))
    return made[0], made[1]


def check_joules(name: str, r: Random) -> bool:
    """The property for a random machine, product and plan; whether there was a plan."""
    graph, larger = two_machines(name, r)
    gemm = TileGemm(r.randint(1, 4), r.randint(1, 4), r.randint(1, 5))
    found = space(gemm, Machine.of(graph))
    if not len(found):
        return False
    plan = found.plan(r.randrange(len(found)))
    program, spent, seconds = _run(gemm, plan, graph)
    idle = {f"core[{n // _columns(graph)}][{n % _columns(graph)}]." for n in _idle(program)}
    for entry in spent.objects:
        if entry.name.startswith(tuple(idle)):
            assert entry.dynamic_joules == 0, f"{entry} is of an idle core"
    cores = [o.name for o in graph.objects.values() if o.name.startswith("core") and isinstance(o, DataStorage)]
    assert spent.leakage_joules == pytest.approx(len(cores) * LEAKAGE_WATTS * seconds)
    _, elsewhere, _ = _run(gemm, plan, larger)
    assert {o.name: o.events for o in elsewhere.objects} == {o.name: o.events for o in spent.objects}
    assert spent.dynamic_joules is not None and elsewhere.dynamic_joules is not None
    assert elsewhere.dynamic_joules >= spent.dynamic_joules * (1 - 1e-12), "more room never costs less"
    return True


def without_control(graph: ArchitectureGraph, watts: float = 0.0) -> ArchitectureGraph:
    """The graph as if it spent energy on moves and computations alone; storages of cores leak ``watts`` each."""
    nothing = {"leakage_watts": 0.0}
    handed = {pattern: nothing | {"joules_per_operation": 0.0} for pattern in ("fetch.*", "*.queue", "*.stage")}
    local = {f"core*.{name}": {"leakage_watts": watts} for name in ("l1", "acc", "stat")}
    return replace(graph, overrides=Overrides(objects={"*": nothing, **handed, **local}))


def _columns(graph: ArchitectureGraph) -> int:
    return graph.dims["columns"]


def _run(gemm: TileGemm, plan: Plan, graph: ArchitectureGraph) -> tuple[Program, Energy, float]:
    """The program, its energy, each object's equal to the sum over instances, and its seconds."""
    graph = without_control(graph, LEAKAGE_WATTS)
    resolved = resolve(emitted(gemm, plan, Machine.of(graph)), isa_of(graph))
    program, timing = bind(graph, resolved), simulate(graph, resolved)
    spent = energy(program, timing)
    takers = [static.takers for static, _ in program.instances()]
    events, joules = one_by_one(program, {n: unit.name for n, units in enumerate(takers) for unit in units.values()})
    assert all(len(units) == 1 for units in takers)
    for entry in spent.objects:
        figures = figures_of(graph)[entry.name]
        ways = {way: each for way in ("read", "write") if (each := figures.of(way)) is not None}
        moved = sum(events[f"{entry.name} {way}"] * each for way, each in ways.items())
        expected = moved if ways else joules[entry.name]
        if not isinstance(graph[entry.name], (PipelineStage, InstructionMemoryAccessUnit)):
            assert entry.dynamic_joules == pytest.approx(expected), entry
    return program, spent, timing.seconds


def _idle(program: Program) -> set[int]:
    """Cores whose storages no instruction touches but the launch."""
    tiles = {name: program.parameters[size] for name, size in (("l1", "tiles"), ("acc", "sums"), ("stat", "stats"))}
    found = set(range(program.parameters["cores"]))
    for static, values in program.instances():
        for plan in static.plans if static.node.mnemonic != "launch" else ():
            if plan.buffer.name in tiles:
                words = plan.words + plan.word_offset.evaluate(values)
                found -= set((words // tiles[plan.buffer.name]).tolist())
    return found
