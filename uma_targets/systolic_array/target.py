"""The UMA target ``systolic_array``: matrix products on an array of any shape, in one of three dataflows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from acadl_models.systolic_array import Design, graph_of
from acadl_models.systolic_array.design import CHOICES, RANGES
from mapper.options import Option
from uma_targets.kit import GemmKit, KitTarget, Tiling, divided
from uma_targets.systolic_array.emit import emit

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph
    from mapper.hardware import Hardware
    from uma_targets.kit import Shape

_DEFAULTS: dict[str, Any] = {"rows": 16, "columns": 16} | {
    f.name: f.default for f in fields(Design) if f.name not in ("rows", "columns")
}


def _size(name: str, about: str, unit: str = "") -> Option:
    """An integer of the design: its default and its range are the design's own."""
    low, high = RANGES[name]
    return Option(name, int, _DEFAULTS[name], about, low, high, unit=unit)


OPTIONS = (
    _size("rows", "rows of the array"),
    _size("columns", "columns of the array"),
    Option("dataflow", str, "ws", "what stays in the PEs: sums (os), weights (ws) or inputs (is)",
           choices=CHOICES["dataflow"]),
    Option("convention", str, "equeue", "what a fold is charged: the whole array (scalesim) or what it uses (equeue)",
           choices=CHOICES["convention"]),
    _size("left_kib", "memory on the left", "KiB"),
    _size("top_kib", "memory on the top", "KiB"),
    _size("out_kib", "memory of the sums", "KiB"),
    _size("dma_bytes", "to and from memory in a cycle", "bytes"),
    _size("dram_latency", "from request to first data", "cycles"),
    Option("clock_mhz", float, _DEFAULTS["clock_hz"] / 1e6, "clock of the accelerator", 0.001, 1e6, unit="MHz"),
)


def _graph(options: Mapping[str, Any]) -> "ArchitectureGraph":
    structure = {k: v for k, v in options.items() if k != "clock_mhz"}
    return graph_of(Design.of(clock_hz=options["clock_mhz"] * 1e6, **structure))


def _tiling(shape: "Shape", hardware: "Hardware", options: Mapping[str, Any]) -> Tiling:
    """Whole folds; two tiles of each operand and of the sums fit into their memories."""
    rows, columns, dataflow = options["rows"], options["columns"], options["dataflow"]
    units = {
        "os": {"m": rows, "n": columns, "k": 1}, "ws": {"m": 1, "n": columns, "k": rows},
        "is": {"m": columns, "n": 1, "k": rows},
    }[dataflow]  # fmt: skip
    sizes = {d: divided(e, units[d]) for d, e in (("m", shape.m), ("n", shape.n), ("k", shape.k))}
    a, b = ("top", "left") if dataflow == "is" else ("left", "top")
    return Tiling(
        sizes,
        demand={
            a: lambda c: 2 * c["m"] * c["k"], b: lambda c: 2 * c["k"] * c["n"], "out": lambda c: 2 * c["m"] * c["n"],
        },
        room={name: hardware.memory(name).rows for name in ("left", "top", "out")},
        help="larger left_kib, top_kib or out_kib",
    )


SYSTOLIC_ARRAY = GemmKit(
    name="systolic_array",
    description="systolic array of any shape: output-, weight- or input-stationary, int8 (ACADL paper)",
    options=OPTIONS,
    isa="systolic_array",
    graph=_graph,
    isa_parameters=lambda graph: graph.parameters,
    emit=emit,
    tiling=_tiling,
    macs_per_cycle=lambda graph: graph.parameters["rows"] * graph.parameters["columns"],
)


class SystolicArray(KitTarget):
    """A systolic array of any shape in one of three dataflows."""

    kit = SYSTOLIC_ARRAY
