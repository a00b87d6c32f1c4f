"""A report as text for people and as CSV for spreadsheets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from archloom.oracle import pages
from archloom.oracle.errors import counted
from archloom.oracle.fallbacks import titled
from archloom.tvm_backend.report import energy, table
from archloom.tvm_backend.report.headline import headline, warnings
from archloom.tvm_backend.report.memory import chart
from archloom.tvm_backend.report.repeats import Block, shortened
from archloom.tvm_backend.report.table import Column, as_block, count, duration, percent, render, size

if TYPE_CHECKING:
    from archloom.tvm_backend.report.data import Layer, Report

_LAYERS = (
    Column("layer", limit=36), Column("operator", limit=28), Column("where"), Column("shape", limit=18),
    Column("MACs", "right"), Column("cycles", "right"), Column("use", "right"), Column("stalled", "right"),
    Column("off-chip", "right"), Column("time", "right"),
)
_HOST = (Column("host operator", limit=44), Column("kind", limit=32), Column("by"), Column("MACs", "right"),
         Column("why", limit=80))


def layer_table(report: "Report") -> str:
    """One line for each layer, in long tables equal blocks once (:mod:`.repeats`); ``use`` is the utilization,
    ``stalled`` how long the unit that works most waits for operands and memories, ``off-chip`` what the main memory
    reads and writes; a dash stands for what is not timed."""
    return render(_LAYERS, _rows(report))


def _rows(report: "Report") -> list[list[str]]:
    several = len(report.targets) > 1
    return shortened(report.layers, lambda layer: _row(layer, several), _row_of_block)


def _row_of_block(layers: "Sequence[Layer]", block: Block) -> list[str]:
    """A line for layers that repeat, with their sums; a dash where one is not known."""
    def total(values: "Iterable[float | None]") -> Any:
        known = [value for value in values if value is not None]
        return sum(known) if len(known) == len(layers) else None

    return [block.heading("layer"), "", "", "", count(total(layer.macs for layer in layers)),
            count(total(layer.cycles for layer in layers)), "", "",
            size(total(layer.offchip_bytes for layer in layers)), duration(total(layer.seconds for layer in layers))]


def _row(layer: "Layer", several: bool) -> list[str]:
    return [
        layer.name, layer.op, (layer.target if several else None) or layer.where,
        "×".join(map(str, layer.shape)), count(layer.macs), count(layer.cycles),
        percent(layer.utilization), percent(_stalled(layer)), size(layer.offchip_bytes), duration(layer.seconds),
    ]


def _stalled(layer: "Layer") -> float | None:
    unit = layer.busiest
    return None if unit is None or not layer.cycles else unit.stall_cycles / layer.cycles


def host_table(report: "Report") -> str:
    """Each operator that stays on the host, and why."""
    return render(_HOST, _host_rows(report))


def _host_rows(report: "Report") -> list[list[str]]:
    return shortened(report.host, lambda h: [h.name, h.op, h.engine, count(h.macs), h.reason], lambda ops, block: [
        block.heading("operator"), "", "", count(sum(h.macs for h in ops)), ""])


def totals(report: "Report") -> str:
    """The latency of the network and what it hides, then what each side takes, the offloaded share, utilization, and
    energy and area where they are known."""
    return "\n".join([
        headline(report), *warnings(report),
        f"accelerator  {count(report.accelerator_cycles)} cycles = {duration(report.accelerator_seconds)} at"
        f" {report.clock_hz / 1e9:g} GHz ({report.timing})",
        *_host(report),
        f"offloaded    {percent(report.offloaded_macs_share)} of {count(report.macs)} MACs,"
        f" {counted(len(report.accelerator_layers), 'layer')};"
        f" {counted(len(report.host), 'operator stays', 'operators stay')} on the host",
        *_shares(report),
        f"utilization  {percent(report.utilization)} of {count(report.peak_macs_per_cycle)} MACs a cycle",
        *_stalls(report), *_moved(report), *_memory(report), *energy.lines(report),
    ])


def _stalls(report: "Report") -> list[str]:
    """How long the unit that works most in each layer waits, all layers together."""
    units = [(layer.cycles or 0, unit) for layer in report.accelerator_layers if (unit := layer.busiest) is not None]
    cycles = sum(c for c, _ in units)
    if not cycles:
        return []
    operands = sum(u.dependency_stall_cycles for _, u in units)
    memories = sum(u.storage_stall_cycles for _, u in units)
    return [f"stalls       {percent((operands + memories) / cycles)} of the cycles of each layer's busiest unit:"
            f" {percent(operands / cycles)} on operands, {percent(memories / cycles)} on memories"]


def _moved(report: "Report") -> list[str]:
    moved = [layer.offchip_bytes for layer in report.accelerator_layers if layer.offchip_bytes is not None]
    if not moved or not report.accelerator_cycles:
        return []
    total, cycles = sum(moved), report.accelerator_cycles
    return [f"off-chip     {size(total)} read and written, {total / cycles:.3g} bytes a cycle"]


def _memory(report: "Report") -> list[str]:
    memory = report.memory
    if memory is None or memory.peak is None:
        return []
    return [f"activations  {size(memory.peak_bytes)} at most, while {memory.layers[memory.peak]} runs"]


def _shares(report: "Report") -> list[str]:
    """Who took what, where there are several targets."""
    if len(report.targets) < 2:
        return []
    return [f"  {s.name:<10} {counted(s.layers, 'layer')}, "
            f"{percent(s.macs / report.macs if report.macs else None)} of the MACs, "
            f"{count(s.cycles)} cycles = {duration(s.seconds)} at {s.clock_hz / 1e9:g} GHz" for s in report.targets]


def _host(report: "Report") -> list[str]:
    if not report.host_seconds:
        return []
    whose = f"an estimate for {report.host_profile!r}" if report.host_profile else "measured"
    return [f"host         {duration(report.host_seconds)} for its operators, {whose}"]


def page(report: "Report") -> list[pages.Block]:
    """What matters first, then all layers: for a notebook's cell."""
    tables = [(_LAYERS, _rows(report)), (_HOST, _host_rows(report)),
              (energy.OBJECTS, energy.object_rows(report)), (energy.LAYERS, energy.layer_rows(report))]
    drawn = [] if report.memory is None or not report.memory.layers else [chart(report.memory)]
    return [pages.Code("\n".join(filter(None, [totals(report), titled(report.fallbacks)]))), *drawn, *(
        as_block(columns, rows) for columns, rows in tables if rows)]


def full_text(report: "Report") -> str:
    """What matters first; then all layers."""
    host = host_table(report) if report.host else ""
    return "\n\n".join(filter(None, [totals(report), titled(report.fallbacks), layer_table(report), host]))


def to_csv(report: "Report") -> str:
    """One row for each layer; the bytes of each storage in a column ``bytes_STORAGE``; empty where not timed."""
    storages = sorted({storage for layer in report.layers for storage in layer.bytes})
    header = ["name", "op", "where", "shape", "macs", "cycles", "seconds", "utilization", "instructions",
              *(f"bytes_{storage}" for storage in storages), "mapping", "note"]
    return table.to_csv(header, [
        [layer.name, layer.op, layer.where, "x".join(map(str, layer.shape)), layer.macs, layer.cycles, layer.seconds,
         layer.utilization, layer.instructions, *(layer.bytes.get(storage) for storage in storages), layer.mapping,
         layer.note] for layer in report.layers])
