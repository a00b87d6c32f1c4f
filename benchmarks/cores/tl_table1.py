"""Table 1 of the TL paper: products of M=N=K=1024...6144 on Wormhole with and without spatial reuse.

Simulated TFLOP/s beside what the paper measured on hardware, of plans as the paper's: steps that are all alike, and one
block of sums in a core. Both columns leave temporal reuse (hoisting) out: the
table is about spatial reuse alone. *DRAM only* is the plan that was found with spatial reuse, with every broadcast
replaced by a load of each core, as when the pass is switched off; beside it, for comparison, the best plan without
broadcasts.

``--fit`` shows where the three fitted numbers come from: for every pair of ``sums`` and ``block_cycles`` of a grid the
plans are searched anew, ``launch_cycles`` (which only shifts all plans alike) is chosen for them, and the triple with
the least squared error is taken. The error is the sum of squared logarithms of simulated over measured: of the table's
ten figures and of its five speedups. Nothing but this table enters, so that the errors above are of a fit.
``held_out`` are those of figures that were not fitted to: for each size the triple that fits the other four best.
``--channels`` shows the same table with the memory in several channels.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish
from benchmarks.cores.tl_common import data, reference

if TYPE_CHECKING:
    from archloom.acadl_models.acadl import ArchitectureGraph
    from archloom.mapper.spatial.plan import Plan
    from archloom.mapper.spatial.space import Rules

CHANNELS = (4, 6, 12)
FIT_SUMS = (32, 40, 48, 50, 56, 64)
FIT_BLOCK_CYCLES = (0, 250, 500, 750, 1000, 1250, 1500, 2000)
FIT_LAUNCH_CYCLES = range(20_000, 40_001, 500)


@dataclass(frozen=True)
class Measured:
    """A row of the table: its extent, and TFLOP/s with and without spatial reuse."""

    size: int
    shared: float
    dram_only: float

    @property
    def speedup(self) -> float:
        return self.shared / self.dram_only


@dataclass(frozen=True)
class Simulated:
    """Cycles of a product with and without spatial reuse, the plan with it, and the share of the bytes to and from DRAM
    that it saves."""

    shared: int
    dram_only: int
    plan: "Plan"
    saved: float


def simulated_row(size: int, graph: "ArchitectureGraph") -> Simulated:
    """The plan found with spatial reuse, and the same with a load of each core in place of every broadcast."""
    from archloom.mapper.spatial.machines.machine import Machine
    from archloom.mapper.spatial.plan import TileGemm
    from archloom.mapper.spatial.programs.timing import simulated
    from archloom.mapper.spatial.workloads import emitted, search

    gemm = TileGemm.of(size, size, size)
    best = search(gemm, graph, rules=_rules(), refine=False).best
    apart = replace(best.plan, a=("none", best.plan.a[1]), b=("none", best.plan.b[1]))
    alone = simulated(emitted(gemm, apart, Machine.of(graph)), graph)
    near, far = (timing.storage("dram") for timing in (best.timing, alone))
    moved = (near.bytes_read + near.bytes_written) / (far.bytes_read + far.bytes_written)
    return Simulated(best.cycles, alone.cycles, best.plan, 1 - moved)


def main() -> None:
    args = arguments(__doc__ or "", _options)
    table = [
        Measured(int(row["config"].rsplit("=", 1)[1]), row["TL"], row["dram_only"])
        for row in reference(args.data)["results"]["table1_tflops"]
    ]
    from archloom.acadl_models.wormhole import wormhole

    rows = _table(table)
    errors = [abs(r[name] / r[f"{name}_measured"] - 1) for r in rows for name in ("tl", "dram_only")]
    finish(args, {
        "mean_error": sum(errors) / len(errors), "worst_error": max(errors),
        "worst_speedup_error": max(abs(r["speedup"] / r["speedup_measured"] - 1) for r in rows),
        "mean_speedup_error": sum(abs(r["speedup"] / r["speedup_measured"] - 1) for r in rows) / len(rows),
        "dram_saved": sum(r["dram_saved"] for r in rows) / len(rows), "same_order": _same_order(rows), "fitted": {
            name: inspect.signature(wormhole).parameters[name].default
            for name in ("launch_cycles", "sums", "block_cycles")
        }, **(_fit(table) if args.fit else {}), "rows": rows,
        **({"channels": {str(n): _in_channels(table, n) for n in CHANNELS}} if args.channels else {}),
    })


def _options(parser: argparse.ArgumentParser) -> None:
    data(parser)
    parser.add_argument("--fit", action="store_true", help="fit the three numbers anew (minutes)")
    parser.add_argument("--channels", action="store_true", help="with the memory in several channels, too")


def _in_channels(table: list[Measured], channels: int) -> dict[str, float]:
    """The errors with so many channels of memory."""
    from archloom.acadl_models.wormhole import wormhole

    graph = wormhole(dram_channels=channels)
    errors, speedups = [], []
    for row in table:
        found = simulated_row(row.size, graph)
        errors += [abs(error) for error in _errors(row, found, 0, graph.clock_hz)]
        speedups.append(abs(found.dram_only / found.shared / row.speedup - 1))
    return {"mean_error": sum(errors) / len(errors), "worst_error": max(errors), "worst_speedup_error": max(speedups)}


def _table(table: list[Measured]) -> list[dict[str, Any]]:
    from archloom.acadl_models.wormhole import wormhole
    from archloom.mapper.spatial.plan import TileGemm
    from archloom.mapper.spatial.workloads import search

    graph = wormhole()
    rows: list[dict[str, Any]] = []
    print(" M=N=K     TL  paper   DRAM  paper speedup  paper best alone  plan")
    for row in table:
        gemm = TileGemm.of(row.size, row.size, row.size)
        found = simulated_row(row.size, graph)
        alone = replace(_rules(), a=("none",), b=("none",))
        other = search(gemm, graph, rules=alone, refine=False).best.cycles
        ours, theirs, best_alone = (_tflops(row.size, c, graph.clock_hz) for c in (
            found.shared, found.dram_only, other))
        r = {
            "size": row.size, "tl": ours, "tl_measured": row.shared, "dram_only": theirs,
            "dram_only_measured": row.dram_only, "speedup": ours / theirs, "speedup_measured": row.speedup,
            "best_without_broadcasts": best_alone, "dram_saved": found.saved, "plan": str(found.plan),
        }
        rows.append(r)
        print(f"{row.size:6} {ours:6.2f} {row.shared:6.2f} {theirs:6.2f} {row.dram_only:6.2f} {r['speedup']:7.2f} "
              f"{row.speedup:6.2f} {best_alone:10.2f}  {found.plan}", flush=True)
    return rows


def _tflops(size: int, cycles: float, clock_hz: float) -> float:
    return 2 * size**3 * clock_hz / cycles / 1e12


def _rules() -> "Rules":
    from benchmarks.cores.templates import PAPER

    return PAPER


Grid = dict[tuple[int, int], list[Simulated]]
"""The rows of the table, with a launch of one cycle, by sums and cycles of a block."""


def _fit(table: list[Measured]) -> dict[str, Any]:
    """For each pair of sums and cycles of a block the launch that fits best, the best triple first; and the errors of
    each size by the triple that fits the others best."""
    from archloom.acadl_models.wormhole import wormhole

    grid: Grid = {}
    for sums, block in itertools.product(FIT_SUMS, FIT_BLOCK_CYCLES):
        graph = wormhole(sums=sums, block_cycles=block, launch_cycles=1)
        grid[sums, block] = [simulated_row(row.size, graph) for row in table]
        print(f"sums {sums:3} block {block:5}", file=sys.stderr, flush=True)
    clock_hz, found = wormhole().clock_hz, []
    for (sums, block), rows in grid.items():
        loss, launch = _launch(table, rows, clock_hz)
        found.append({"sums": sums, "block_cycles": block, "launch_cycles": launch, "loss": loss})
    found.sort(key=lambda f: (f["loss"], f["sums"]))
    print("the least sums of squared logarithms of errors:")
    for f in found[:8]:
        print("  sums {sums:3} block {block_cycles:5} launch {launch_cycles:6}: {loss:.4f}".format(**f))
    errors = [abs(error) for number in range(len(table)) for error in _held_out(table, grid, number, clock_hz)]
    return {"fit": found, "held_out": {"mean_error": sum(errors) / len(errors), "worst_error": max(errors)}}


def _held_out(table: list[Measured], grid: Grid, number: int, clock_hz: float) -> tuple[float, float]:
    """The errors of a row by the triple that fits the others best."""
    def but(rows: list[Any]) -> list[Any]:
        return rows[:number] + rows[number + 1:]

    (_, launch), pair = min((_launch(but(table), but(rows), clock_hz), pair) for pair, rows in grid.items())
    print(f"without {table[number].size}: sums {pair[0]} block {pair[1]} launch {launch}")
    return _errors(table[number], grid[pair][number], launch - 1, clock_hz)


def _launch(table: list[Measured], rows: list[Simulated], clock_hz: float) -> tuple[float, int]:
    """The least loss, and the launch that has it."""
    return min((_loss(table, rows, launch - 1, clock_hz), launch) for launch in FIT_LAUNCH_CYCLES)


def _loss(table: list[Measured], rows: list[Simulated], launch: int, clock_hz: float) -> float:
    """Sum of squared logarithms of simulated over measured, of the figures and the speedups of the rows."""
    total = 0.0
    for row, found in zip(table, rows):
        shared, alone = (math.log1p(error) for error in _errors(row, found, launch, clock_hz))
        total += shared**2 + alone**2 + (shared - alone)**2
    return total


def _errors(row: Measured, found: Simulated, launch: int, clock_hz: float) -> tuple[float, float]:
    """Simulated over measured TFLOP/s, less one, with and without spatial reuse; ``launch`` cycles are added."""
    return (_tflops(row.size, found.shared + launch, clock_hz) / row.shared - 1,
            _tflops(row.size, found.dram_only + launch, clock_hz) / row.dram_only - 1)


def _same_order(rows: list[dict[str, Any]]) -> float:
    """Share of the pairs of figures of the table that lie in the measured order."""
    pairs = [(r[n], r[f"{n}_measured"]) for r in rows for n in ("tl", "dram_only")]
    both = [(x, y) for i, x in enumerate(pairs) for y in pairs[:i]]
    return sum((x[0] - y[0]) * (x[1] - y[1]) > 0 for x, y in both) / len(both)


if __name__ == "__main__":
    main()
