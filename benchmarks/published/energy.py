"""Energies and areas of published machines and memories, beside those that the tables give; nothing is fitted to them.

Errors in both directions: ours over theirs, less one; ``checked``: whether a second place was found that states theirs.
Layers of AlexNet run on Eyeriss as the chip ran them; the power of the chip is without DRAM. UltraTrail's power is one
inference of TC-ResNet8, with weights and input in place, in each 100 ms. TPU v1 streams rows through its whole array;
where it is idle, it leaks and its clocks run. Of dies, the parts that graphs have are compared. Of Wormhole only the
limit of a board is published, beside which a product stands that keeps its cores busy. Levels of memory are compared as
Eyeriss' authors state them, in multiply-accumulates. Why those that miss do is said in docs/energy.md.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.acadl_models.acadl import ArchitectureGraph, Technology
from archloom.acadl_models.energy import arithmetic, figures_of, memories, tables, wires
from archloom.acadl_models.energy.figures import area_of
from archloom.acadl_models.eyeriss import eyeriss, mac_of
from archloom.acadl_models.gemmini import gemmini
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.energy import Energy, energy
from archloom.acadl_models.timing.machine import bind
from archloom.acadl_models.tpu_v1 import tpu_v1
from archloom.acadl_models.ultratrail import ultratrail
from archloom.oracle import taidl
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import ResolvedStream
from archloom.tvm_backend.report.energy import summed_by_array
from archloom.tvm_backend.targets import registry
from archloom.uma_targets.eyeriss.plan import Machine
from benchmarks.common import arguments, finish
from benchmarks.published import dsd22, eyeriss_chip, tpu_v1_networks
from benchmarks.published.eyeriss_kernels import Apart, conv_stream
from benchmarks.published.temporal_networks import inference

PUBLISHED: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[1] / "data" / "energy.json").read_text("utf-8"))

WAYS = ("read", "write")
MACHINES = ("eyeriss", "tpu_v1", "gemmini", "ultratrail", "wormhole")
BUSY = "gemm(m=4096,n=4096,k=4096)"

Row = dict[str, Any]


def row(source: str, item: str, theirs: float, ours: float) -> Row:
    """A comparison; ``error``: ours over theirs, less one."""
    checked = not any(item.startswith(what) for what in PUBLISHED[source]["unchecked"])
    return {"source": source, "item": item, "theirs": theirs, "ours": ours, "error": ours / theirs - 1,
            "checked": checked}


def shares(source: str, item: str, theirs: Mapping[str, float], ours: Mapping[str, float]) -> Iterator[Row]:
    """Of each part in the sum of all, in percent."""
    whole, sum_of_ours = sum(theirs.values()), sum(ours[name] for name in theirs)
    for name, part in theirs.items():
        yield row(source, f"share of {name} in the {item}, %", 100 * part / whole, 100 * ours[name] / sum_of_ours)


def spent(graph: ArchitectureGraph, stream: ResolvedStream) -> tuple[Energy, float]:
    """The energy of a stream, and its seconds."""
    timing = simulate(graph, stream)
    return energy(bind(graph, stream), timing), timing.seconds


def on_eyeriss() -> Iterator[Row]:
    """Power of AlexNet's layers, each over the time that it takes here, their shares in its energy, and area of the
    core."""
    graph, known = eyeriss(), PUBLISHED["eyeriss"]
    isa = taidl.load("eyeriss", **graph.parameters)
    joules, theirs, seconds = dict[str, float](), dict[str, float](), 0.0
    for layer in eyeriss_chip.layers(json.loads(eyeriss_chip.DATA.read_text())["networks"]["AlexNet"]):
        stream = conv_stream(layer.shape, Machine.of(graph), dict(isa.parameters), mapping=layer.mapping,
                             name=layer.name, emission=Apart)
        found, time = spent(graph, resolve(stream, isa))
        of_chip = found.known_joules - (found.of("dram").joules or 0.0)
        joules[layer.name], seconds = layer.groups * of_chip, seconds + layer.groups * time
        theirs[layer.name] = known["power_mw"][layer.name] * layer.total_ms
        yield row("eyeriss", f"power of {layer.name}, mW", known["power_mw"][layer.name], 1e3 * of_chip / time)
    yield row("eyeriss", "power of AlexNet, mW", known["total_mw"], 1e3 * sum(joules.values()) / seconds)
    yield row("eyeriss", "area of the core, mm2", known["core_mm2"], _area(graph))
    yield from shares("eyeriss", "energy", theirs, joules)


def on_tpu() -> Iterator[Row]:
    """Busy and idle power, and areas of parts."""
    graph, known = tpu_v1(), PUBLISHED["tpu_v1"]
    large = tpu_v1_networks.LARGE
    kernel = tpu_v1_networks.mlp(large["batch"], [large["width"]] * (large["layers"] + 1), [1.0] * large["layers"])
    found, seconds = spent(graph, kernel.resolved)
    of_chip = found.known_joules - (found.of("memory").joules or 0.0)
    yield row("tpu_v1", "power of large products, W", known["busy_watts"], of_chip / seconds)
    idle = (found.leakage_joules or 0.0) + found.clock_joules
    yield row("tpu_v1", "idle power, W", known["idle_watts"], idle / seconds)
    parts = {name: share * known["die_mm2"] for name, share in known["area_share"].items()}
    yield from of_parts("tpu_v1", graph, parts)


def of_parts(source: str, graph: ArchitectureGraph, known: Mapping[str, float]) -> Iterator[Row]:
    """Square millimetres of parts, of all of them, and their shares."""
    parts = _areas(graph)
    for name, size in known.items():
        yield row(source, f"area of {name}, mm2", size, parts[name])
    yield row(source, "area of these, mm2", sum(known.values()), sum(parts[name] for name in known))
    yield from shares(source, "area", known, parts)


def on_gemmini() -> Iterator[Row]:
    """Areas of the parts, and of all."""
    known = PUBLISHED["gemmini"]["area_um2"]
    return of_parts("gemmini", gemmini(), {name: 1e-6 * size for name, size in known.items()})


def on_ultratrail() -> Row:
    """Power of keyword spotting, with memories that hold the network and little more (the chip's are not published)."""
    known = PUBLISHED["ultratrail"]
    machine = ultratrail(dim=8, features=512, weights=1024, clock_hz=dsd22.CLOCK_HZ)
    isa = taidl.load("ultratrail", **machine.parameters)
    found, _ = spent(machine, resolve(inference(dsd22.TC_RESNET8, machine.parameters, resident=True), isa))
    watts = (found.known_joules - (found.of("memory").joules or 0.0)) / known["period_s"]
    return row("ultratrail", "power of TC-ResNet8, uW", known["microwatts"], 1e6 * watts)


def on_wormhole() -> Row:
    """Power of a large product beside the most that a board takes."""
    import archloom

    report = archloom.estimate(BUSY, "wormhole", host="none")
    assert report.joules is not None, f"energy is not known of {report.energy_missing}"
    return row("wormhole", "power of a board, W", PUBLISHED["wormhole"]["watts"], report.joules / report.seconds)


def of_levels() -> Iterator[Row]:
    """Accesses of 16 bits at 65 nm, in multiply-accumulates."""
    process = Technology(65)
    levels = {"register file of 512 bytes": memories.memory(512, 16, 1, process).joules,
              "1.5 mm between PEs": 16 * wires.bit_joules(1.5, process),
              "buffer of 108 KiB": memories.memory(108 << 10, 16, 1, process).joules}
    for name, theirs in PUBLISHED["eyeriss2016"]["over_mac"].items():
        yield row("eyeriss2016", f"{name}, over a multiply-accumulate", theirs, levels[name] / mac_of(process))


def of_operations() -> Iterator[Row]:
    """Scalar operations at 7 nm, scaled from the table at 45 nm."""
    for name, theirs in PUBLISHED["jouppi2021"]["picojoules"].items():
        operation, dtype = name.split()
        ours = arithmetic.known_joules(operation, dtype, Technology(7))
        yield row("jouppi2021", f"{name} at 7 nm, pJ", theirs, 1e12 * ours)


def of_memories(use: str) -> list[Row]:
    """Joules of an access, the mean of a read and a write, of points that nothing was fitted to."""
    found = []
    for point in memories.points(use):
        process = Technology(float(point["node_nm"]), float(point["volts"]), point["devices"])
        size, width, ports = (int(point[name]) for name in ("size_bytes", "width_bits", "ports"))
        item = f"{size} bytes, {width} bits, {ports} ports, {process.node_nm:g} nm {process.devices}, pJ"
        ours = memories.memory(size, width, ports, process)
        theirs = {way: memories.measured(point, way) for way in WAYS}
        mean = sum(theirs.values()) / 2
        found.append({"source": point["source"], "item": item, "theirs": 1e12 * mean, "ours": 1e12 * ours.joules,
                      "error": ours.joules / mean - 1, "checked": point["checked"] == "true",
                      **{way: getattr(ours, way) / theirs[way] - 1 for way in WAYS}})
    return found


def of_targets() -> list[dict[str, Any]]:
    """Joules of a product of 64 x 64 x 64, areas, and what is not known, of every target."""
    import archloom

    reports = {name: archloom.estimate("gemm(m=64,n=64,k=64)", name) for name in registry.names()}
    return [{"name": name, "joules": report.joules, "area_mm2": report.area_mm2, "missing": report.energy_missing}
            for name, report in reports.items()]


def _areas(graph: ArchitectureGraph) -> dict[str, float]:
    return summed_by_array((name, found.area_mm2 or 0.0) for name, found in figures_of(graph).items())


def _area(graph: ArchitectureGraph) -> float:
    area, missing = area_of(graph)
    assert area is not None, f"area is not known of {missing}"
    return area


def summary(rows: list[Row], error: str = "error") -> dict[str, float]:
    """How many, the mean error without its sign, and the largest."""
    errors = [abs(entry[error]) for entry in rows]
    return {"points": len(errors), "mean_error": sum(errors) / len(errors), "worst": max(errors)}


def main() -> None:
    args = arguments(__doc__.splitlines()[0])
    rows = [*on_eyeriss(), *on_tpu(), *on_gemmini(), on_ultratrail(), on_wormhole(), *of_levels(), *of_operations()]
    points = of_memories("published")
    cacti = [entry for entry in points if entry["source"] == "zigzag"]
    rows += [entry for entry in points if entry["source"] != "zigzag"]
    for entry in rows:
        print(f"{entry['source']:14} {entry['item']:48} {entry['theirs']:10.4g} {entry['ours']:10.4g} "
              f"{entry['error']:+8.0%}{'' if entry['checked'] else '  not checked'}")
    print("tables, not checked:", *tables.unchecked(), sep="\n  ")
    of_machines = [entry for entry in rows if entry["source"] in MACHINES]
    of_shares = [entry for entry in of_machines if entry["item"].startswith("share")]
    factors = [math.exp(abs(math.log(1 + entry["error"]))) for entry in of_machines if entry not in of_shares]
    targets = of_targets()
    powers = {entry["item"].split()[2].rstrip(","): entry["ours"] for entry in rows
              if entry["item"].startswith("power of CONV")}
    finish(args, {
        "rows": rows, "sram": summary(cacti), "sram_checked": summary(of_memories("check")), "targets": targets,
        "sram_ways": {way: summary(cacti, way) for way in WAYS}, "tables_unchecked": tables.unchecked(),
        "within_two": sum(factor <= 2 for factor in factors) / len(factors), "totals": len(factors),
        "worst_factor": max(factors), "sram_mean_error": summary(cacti)["mean_error"],
        "shares_within_quarter": sum(abs(entry["error"]) <= 0.25 for entry in of_shares) / len(of_shares),
        "rows_unchecked": sum(not entry["checked"] for entry in rows),
        "unknown": sum(bool(t["missing"]) for t in targets), "eyeriss_power_mw": powers})


if __name__ == "__main__":
    main()
