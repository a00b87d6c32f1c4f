"""AlexNet's convolutions on the model of Eyeriss, against the processing latencies measured on the chip.

Chen et al., JSSC 52(1), 2017, report for a batch of four at 200 MHz the latency of each layer with its mapping
parameters; the same mappings are emitted here and simulated. Processing latency is the time in which the array works;
the total latency, with what DRAM adds, is printed beside it. Groups of a layer run one after the other.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.acadl_models.eyeriss import eyeriss, isa_parameters
from archloom.acadl_models.timing import simulate
from archloom.oracle import taidl
from archloom.oracle.resolve import resolve
from archloom.uma_targets.eyeriss.plan import Machine, RowStationary
from archloom.uma_targets.eyeriss.problem import Shape, conv_shape
from benchmarks.common import arguments, finish
from benchmarks.published.eyeriss_kernels import conv_stream

BATCH = 4


@dataclass(frozen=True)
class Layer:
    """A layer of AlexNet as it runs on Eyeriss, and the published milliseconds for the batch."""

    name: str
    groups: int
    shape: Shape
    mapping: RowStationary
    processing_ms: float
    total_ms: float


def _rs(p: int, q: int, r: int, t: tuple[int, int], e: tuple[int, int], n: int, m: int, f: int) -> RowStationary:
    return RowStationary(p, q, r, *t, *e, n, m, f)


SAME3, SAME5 = (1, 1, 1, 1), (2, 2, 2, 2)
LAYERS = (
    Layer("CONV1", 1, conv_shape(BATCH, 3, 227, 227, 96, 11, 11, 4), _rs(16, 1, 1, (1, 2), (1, 7), 1, 96, 55),
          16.5, 20.9),
    Layer("CONV2", 2, conv_shape(BATCH, 48, 27, 27, 128, 5, 5, 1, SAME5), _rs(16, 2, 1, (1, 1), (2, 14), 1, 64, 27),
          39.2, 41.9),
    Layer("CONV3", 1, conv_shape(BATCH, 256, 13, 13, 384, 3, 3, 1, SAME3), _rs(16, 4, 1, (4, 1), (1, 13), 4, 64, 13),
          21.8, 23.6),
    Layer("CONV4", 2, conv_shape(BATCH, 192, 13, 13, 192, 3, 3, 1, SAME3), _rs(16, 3, 2, (2, 1), (1, 13), 4, 64, 13),
          16.0, 18.4),
    Layer("CONV5", 2, conv_shape(BATCH, 192, 13, 13, 128, 3, 3, 1, SAME3), _rs(16, 3, 2, (2, 1), (1, 13), 4, 64, 13),
          10.0, 10.5),
)
"""Mapping parameters and latencies as published; 27 rows of CONV2 are 14 and 13 columns of the array."""


def simulated_ms(layer: Layer) -> float:
    """Milliseconds of the layer on the model with the chip's configuration."""
    graph = eyeriss()
    isa = taidl.load("eyeriss", **isa_parameters(graph))
    stream = conv_stream(layer.shape, Machine.of(graph), dict(isa.parameters), mapping=layer.mapping, name=layer.name)
    return layer.groups * simulate(graph, resolve(stream, isa)).cycles / graph.clock_hz * 1e3


def measure() -> dict[str, Any]:
    """Milliseconds of each layer and of all, simulated and published."""
    rows: list[dict[str, Any]] = []
    for layer in LAYERS:
        found = simulated_ms(layer)
        rows.append({
            "layer": layer.name, "simulated_ms": round(found, 2), "processing_ms": layer.processing_ms,
            "total_ms": layer.total_ms, "ratio": round(found / layer.processing_ms, 3),
        })
    simulated, published = (sum(row[key] for row in rows) for key in ("simulated_ms", "processing_ms"))
    return {
        "layers": rows, "simulated_ms": round(simulated, 1), "published_processing_ms": round(published, 1),
        "ratio": round(simulated / published, 3),
        "worst_layer_error": round(max(abs(row["ratio"] - 1) for row in rows), 3),
    }


def main() -> None:
    args = arguments("AlexNet on Eyeriss against the measured chip")
    result = measure()
    for row in result["layers"]:
        print(f"{row['layer']:8} {row['simulated_ms']:8.2f} ms   chip: {row['processing_ms']:5.1f} ms processing, "
              f"{row['total_ms']:5.1f} ms in all   ratio {row['ratio']:.3f}")
    finish(args, result)


if __name__ == "__main__":
    main()
