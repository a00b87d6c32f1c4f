"""Reports from a partition and its plans."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.energy import area_of
from archloom.acadl_models.energy.figures import stored_share
from archloom.acadl_models.timing.result import EnergyUse, TimingResult
from archloom.mapper.accelerator import Configuration
from archloom.mapper.bounds import Least, least
from archloom.mapper.explore import ENVIRONMENT
from archloom.mapper.search import Plan, known_cycles
from archloom.mapper.workload import Workload, plain
from archloom.oracle.fallbacks import Fallback
from archloom.oracle.taidl.declarations import HBM
from archloom.tvm_backend.compiled import CompiledModel, HostOp, Partition, Region, Step
from archloom.tvm_backend.host import profile as hosts
from archloom.tvm_backend.host.conversions import conversions
from archloom.tvm_backend.host.profile import HostProfile
from archloom.tvm_backend.report.data import HOST_NOTE, HostLayer, Layer, Report, TargetShare
from archloom.tvm_backend.report.energy import energy_use, totals_of
from archloom.tvm_backend.report.uses import uses_of
from archloom.tvm_backend.targets.choice import Chosen, choose
from archloom.tvm_backend.version import VERSION


def of_compiled(compiled: CompiledModel) -> Report:
    """With the host's time by the profile that is taken where none is named."""
    chosen = choose(compiled.target, compiled.options) if compiled.target else ()
    return with_host(build(compiled, compiled.plans, chosen), hosts.default())


def build(
    partition: Partition, plans: Mapping[str, "Plan"], chosen: "Sequence[Chosen]", *, details: bool = True
) -> Report:
    """The report of a network, of the accelerator only; ``plans`` has one entry for each step of the partition.

    Without ``details`` the layers say nothing of units, stages, storages, links and loops.
    """
    made = _configured(chosen)
    uses = _Uses() if details else None
    layers = [
        _accelerated(step, region, plans[step.name], made[region.target], uses)
        for region in partition.regions for step in region.steps
    ]
    near = tuple(
        Fallback(step.name, "to simulate every cycle takes long", "the rest of its long loops is taken in proportion; "
                 f"with ${ENVIRONMENT} set none is")
        for step in partition.steps() if not plans[step.name].timing.exact)
    shown = replace(partition, fallbacks=(*partition.fallbacks, *near), memory=partition.memory if details else None)
    return _of_layers(shown, layers, chosen, "estimated" if near else "simulated")


def build_bound(partition: Partition, chosen: "Sequence[Chosen]", *, known: bool = False) -> Report:
    """The report of a network, of the accelerator only, as if each layer cost what no mapping is below
    (:mod:`archloom.mapper.bounds`), or what is ``known`` of its plan without a simulation."""
    made = _configured(chosen)

    @cache  # most of a network's are alike
    def found(target: str, workload: Workload) -> Least:
        return least(workload, made[target], (known_cycles(workload, made[target]) or 0) if known else 0)

    layers = [
        _bounded(step, region, made[region.target],
                 found(region.target, replace(plain(step.workload), constants=step.workload.constants)))
        for region in partition.regions for step in region.steps]
    return _of_layers(partition, layers, chosen, "bound")


def _configured(chosen: "Sequence[Chosen]") -> "dict[str, Configuration]":
    return {c.name: c.backend.accelerator.configure(c.accelerator_options) for c in chosen}


def _of_layers(
    partition: Partition, layers: Sequence[Layer], chosen: "Sequence[Chosen]",
    timing: Literal["simulated", "estimated", "bound"],
) -> Report:
    """The report of a network whose layers on accelerators are known."""
    made = _configured(chosen)
    peaks = {name: configuration.macs_per_cycle for name, configuration in made.items()}
    spared = {c.name: sum(_spared(step, made[c.name]) for region in partition.regions if region.target == c.name
                          for step in region.steps) for c in chosen}
    shares = tuple(_share(c, layers, peaks[c.name], made[c.name], spared[c.name]) for c in chosen)
    clock_hz = shares[0].clock_hz if shares else 0.0  # the host alone
    # in ticks of the first target's clock
    cycles = sum(s.cycles if s.clock_hz == clock_hz else math.ceil(s.seconds * clock_hz) for s in shares)
    seconds = cycles / clock_hz if clock_hz else 0.0
    offloaded, possible = partition.offloaded_macs, sum(s.cycles * s.peak_macs_per_cycle for s in shares)
    return Report(
        model=partition.name, source=partition.source, target=partition.target, options=dict(partition.options),
        clock_hz=clock_hz, cycles=cycles, seconds=seconds, accelerator_cycles=cycles, accelerator_seconds=seconds,
        macs=partition.macs, offloaded_macs=offloaded, offloaded_macs_share=partition.offloaded_macs_share,
        peak_macs_per_cycle=shares[0].peak_macs_per_cycle if shares else 0,
        utilization=(offloaded - sum(spared.values())) / possible if possible else None,
        timing=timing,
        layers=(*layers, *map(_hosted, partition.host.ops), *map(_hosted, conversions(partition))),
        host=tuple(HostLayer(op.name, op.op, op.engine, op.macs, op.reason) for op in partition.host.ops),
        version=VERSION, targets=shares, fallbacks=partition.fallbacks, unquantized=_is_unquantized(partition, chosen),
        memory=partition.memory, **vars(totals_of(layers, shares, made)),
    )


def _bounded(step: Step, region: Region, made: "Configuration", bound: Least) -> Layer:
    energy = None if bound.joules is None else EnergyUse(bound.joules, 0.0, 0.0, {})
    return Layer(
        name=step.name, op=step.op, where="accelerator", shape=step.shape, macs=step.macs, cycles=bound.cycles,
        seconds=bound.cycles / made.graph.clock_hz, region=region.symbol, target=region.target, energy=energy,
        note=step.choice or None, bound_cycles=bound.cycles)


def _is_unquantized(partition: Partition, chosen: "Sequence[Chosen]") -> bool:
    """Whether targets that take integers alone were given a network of floats."""
    kinds = {op.op for op in partition.host.ops}
    floats = any("float" in spec.dtype for spec in (*partition.inputs, *partition.outputs))
    return (floats and bool(kinds) and not partition.regions and kinds.isdisjoint(("quantize", "dequantize"))
            and bool(chosen) and all(c.backend.is_quantized for c in chosen))


def _spared(step: Step, made: "Configuration") -> float:
    """Products of a step less those of the numbers that the peak is of, which take as long."""
    peak = made.peak_of(step.workload)
    return 0 if peak == made.macs_per_cycle else step.macs * (1 - made.macs_per_cycle / peak)


def _share(
    target: "Chosen", layers: Sequence[Layer], peak: int, made: "Configuration", spared: float,
) -> TargetShare:
    """What one target took."""
    own = [layer for layer in layers if layer.target == target.name]
    cycles, macs = sum(layer.cycles or 0 for layer in own), sum(layer.macs for layer in own)
    return TargetShare(
        target.name, len(own), macs, cycles, cycles / made.graph.clock_hz, made.graph.clock_hz, peak,
        (macs - spared) / (cycles * peak) if cycles else None, area_of(made.graph)[0],
    )


class _Uses:
    """What units and memories did, once for all layers of one plan: their timings have the same parts."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, Any]] = {}

    def of(self, timing: "TimingResult") -> dict[str, Any]:
        key = id(timing.units)  # the plans keep them
        if key not in self._known:
            self._known[key] = uses_of(timing)
        return self._known[key]


def _accelerated(
    step: Step, region: Region, plan: "Plan", made: "Configuration", uses: _Uses | None,
) -> Layer:
    timing, graph, peak = plan.timing, made.graph, made.peak_of(step.workload)
    banks = {bank.storage for bank in graph.buffers.get(HBM, ())}
    main = {graph.path(storage)[-1].name for storage in graph.storages if storage.name in banks}
    moved = _moved(timing, graph)
    return Layer(
        name=step.name, op=step.op, where="accelerator", shape=step.shape, macs=step.macs, cycles=timing.cycles,
        seconds=timing.seconds, utilization=step.macs / (timing.cycles * peak) if timing.cycles else None,
        instructions=timing.instructions, bytes=moved,
        mapping=str(plan.mapping), region=region.symbol, target=region.target, energy=energy_use(plan, made),
        note=step.choice or None, offchip_bytes=sum(size for name, size in moved.items() if name in main),
        bound_cycles=plan.bound_cycles or None,
        packed={t.name: t.packing.text(t.names) for t in step.workload.inputs if t.packing is not None},
        **({} if uses is None else uses.of(timing)),
    )


def _moved(timing: "TimingResult", graph: ArchitectureGraph) -> dict[str, int]:
    """Bytes, as stored, that each storage read and wrote: for instructions, and for caches that it is behind."""
    moved = {s.name: round(stored_share(graph[s.name]) * (s.bytes_read + s.bytes_written)) for s in timing.storages}
    for place, lines in zip(graph.caches, timing.caches, strict=True):
        moved[graph.backing(place).name] += lines.bytes_from_backing + lines.bytes_to_backing
    return moved


def _hosted(op: HostOp) -> Layer:
    note = f"{HOST_NOTE}: {op.reason}" if op.reason else HOST_NOTE
    return Layer(op.name, op.op, "host", op.shape, op.macs, note=note)


def with_host(report: Report, profile: "HostProfile | None") -> Report:
    """A report of the accelerator only with the estimated time of its host layers; as it is for no host."""
    if profile is None:
        return report
    timed = cache(lambda note, *layer: _timed(profile, note, *layer))  # most of a network's are alike
    layers = tuple(layer if layer.where != "host" else replace(layer, **timed(
        layer.note, layer.op, layer.shape, layer.macs)) for layer in report.layers)
    scope = f"accelerator simulated; host layers estimated by the roofline of host {profile.name!r}"
    # calling a network that does nothing takes as long as an operator with nothing to do
    least = 0.0 if report.accelerator_layers else profile.overhead_s
    return replace(with_host_layers(report, layers, scope, least), host_profile=profile.name)


def with_host_layers(report: Report, layers: tuple[Layer, ...], scope: str, least: float = 0.0) -> Report:
    """A report of the accelerator only with ``layers``, of which those of the host have their seconds (together at
    ``least`` so many), and with the latency that follows."""
    host = max(math.fsum(layer.seconds or 0.0 for layer in layers if layer.where == "host"), least)
    return replace(
        report, layers=layers, scope=scope, host_seconds=host, seconds=report.accelerator_seconds + host,
        cycles=report.accelerator_cycles + math.ceil(host * report.clock_hz))


def _timed(
    profile: "HostProfile", note: str | None, op: str, shape: tuple[int, ...], macs: int
) -> dict[str, Any]:
    """What an operator of the host has more where its time is estimated, by the names of a layer's fields."""
    estimated = f"runs on the host; seconds are an estimate for host {profile.name!r}"
    return {"seconds": profile.seconds(op, shape, macs), "note": estimated + (note or "").removeprefix(HOST_NOTE)}
