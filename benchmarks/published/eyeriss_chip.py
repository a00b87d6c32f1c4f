"""AlexNet's and VGG-16's convolutions on the model of Eyeriss, against the latencies measured on the chip.

Chen et al., JSSC 52(1), 2017, report for batches at 200 MHz the processing latency of each layer, in which the array
works, and the total one, with what DRAM adds. So each layer is simulated with a DRAM that is never waited for, and with
the chip's. Mappings are those of ``benchmarks/data/eyeriss_chip.json``: published for AlexNet, and for VGG-16 inferred
from what else is published of each layer (docs/eyeriss.md); none of it is a time. Groups run one after the other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.eyeriss import eyeriss
from archloom.acadl_models.timing import TimingResult, simulate
from archloom.oracle import taidl
from archloom.oracle.resolve import resolve
from archloom.uma_targets.eyeriss.plan import Machine, RowStationary
from archloom.uma_targets.eyeriss.problem import Shape, conv_shape
from benchmarks.common import arguments, finish
from benchmarks.published.eyeriss_kernels import Apart, conv_stream

DATA = Path(__file__).resolve().parents[1] / "data" / "eyeriss_chip.json"
NO_WAITING = {"dram_bytes_per_cycle": 4096, "dram_latency_cycles": 1}
"""A DRAM that is never waited for."""


@dataclass(frozen=True)
class Layer:
    """A layer as it runs on Eyeriss: one of ``groups`` convolutions; and what is published of all of them for the
    batch, in milliseconds, PEs and megabytes to and from the global buffer."""

    name: str
    groups: int
    shape: Shape
    mapping: RowStationary
    processing_ms: float
    total_ms: float
    active_pes: int
    buffer_mb: float


def layers(network: Mapping[str, Any]) -> list[Layer]:
    """The layers of a network of the data."""
    return [_layer(network["batch"], **entry) for entry in network["layers"]]


def _layer(batch: int, shape: list[int], mapping: list[int], **rest: Any) -> Layer:
    c, h, m, r, stride, padding = shape
    return Layer(shape=conv_shape(batch, c, h, h, m, r, r, stride, (padding,) * 4), mapping=RowStationary(*mapping),
                 **rest)


def simulated(layer: Layer, graph: ArchitectureGraph) -> TimingResult:
    """One group of the layer on ``graph`` with the chip's configuration."""
    isa = taidl.load("eyeriss", **graph.parameters)
    stream = conv_stream(layer.shape, Machine.of(graph), dict(isa.parameters), mapping=layer.mapping, name=layer.name,
                         emission=Apart)
    return simulate(graph, resolve(stream, isa))


def compared(layer: Layer) -> dict[str, Any]:
    """The layer's figures, and each of ours over theirs."""
    busy, whole = (simulated(layer, graph) for graph in (eyeriss(**NO_WAITING), eyeriss()))
    buffer = busy.storage("glb")
    ours = {"processing_ms": layer.groups * 1e3 * busy.seconds, "total_ms": layer.groups * 1e3 * whole.seconds,
            "buffer_mb": layer.groups * (buffer.bytes_read + buffer.bytes_written) / 1e6}
    return {
        "layer": layer.name, "theirs": {"processing_ms": layer.processing_ms, "total_ms": layer.total_ms},
        "ours": ours, "ratio": ours["processing_ms"] / layer.processing_ms,
        "total_ratio": ours["total_ms"] / layer.total_ms,
    }


def measure(network: Mapping[str, Any]) -> dict[str, Any]:
    """Every layer of a network, their sum over the published one, and the layers furthest below and above."""
    rows = [compared(layer) for layer in layers(network)]
    ratios = [row["ratio"] for row in rows]
    return {
        "layers": rows, "ratio": sum(row["ours"]["processing_ms"] for row in rows) / network["processing_ms"],
        "total_ratio": sum(row["ours"]["total_ms"] for row in rows) / network["total_ms"],
        "least": min(ratios), "most": max(ratios), "worst_layer_error": max(abs(ratio - 1) for ratio in ratios),
    }


def show(name: str, result: Mapping[str, Any]) -> None:
    """A row for each layer."""
    print(f"{name:10} {'processing ms':>14} {'chip':>8} {'ratio':>6} {'total ms':>10} {'chip':>8} {'ratio':>6}")
    for row in result["layers"]:
        ours, theirs = row["ours"], row["theirs"]
        print(f"{row['layer']:10} {ours['processing_ms']:14.1f} {theirs['processing_ms']:8.1f} {row['ratio']:6.3f} "
              f"{ours['total_ms']:10.1f} {theirs['total_ms']:8.1f} {row['total_ratio']:6.3f}")


def main() -> None:
    args = arguments("AlexNet and VGG-16 on Eyeriss against the measured chip")
    found = {name: measure(network) for name, network in json.loads(DATA.read_text())["networks"].items()}
    for name, result in found.items():
        show(name, result)
    finish(args, {**found, **{
        f"{name}: {key}": result[key] for name, result in found.items()
        for key in ("ratio", "least", "most", "total_ratio")}})


if __name__ == "__main__":
    main()
