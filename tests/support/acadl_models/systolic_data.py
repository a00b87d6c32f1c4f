"""Recorded and derived cycle counts of systolic arrays, to check simulations against."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from archloom.acadl_models.systolic_array import Design
from benchmarks.published.systolic import Problem

DATA = Path(__file__).parents[2] / "data" / "systolic"


def scale_sim_rows() -> Iterator[tuple[Design, Problem, int, int, int]]:
    """Array, product, cycles, ifmap reads and filter reads of SCALE-Sim's layers."""
    with (DATA / "scalesim.csv").open(encoding="utf-8") as file:
        for r in csv.DictReader(file):
            design = Design(
                int(r["rows"]), int(r["cols"]), r["dataflow"], convention="scalesim", left_kib=1 << 20,
                top_kib=1 << 20, out_kib=1 << 20)
            problem = Problem(int(r["M"]), int(r["N"]), int(r["K"]))
            yield design, problem, *(int(r[c]) for c in ("compute_cycles", "sram_ifmap_reads", "sram_filter_reads"))  # type: ignore[misc]


def equeue_rows() -> Iterator[tuple[Design, Problem, int]]:
    """Array, product and cycles of EQueue's convolutions (stride 1, no padding)."""
    with (DATA / "equeue.csv").open(encoding="utf-8") as file:
        for r in csv.DictReader(file):
            h, f, c, n = (int(r[k]) for k in ("H", "F", "C", "N"))
            design = Design(int(r["Ah"]), int(r["Aw"]), r["dataflow"], convention="equeue")
            yield design, Problem((h - f + 1) ** 2, n, f * f * c), int(r["cycles"])


def expected(design: Design, problem: Problem) -> int:
    """The count in closed form, for both conventions.

    SCALE-Sim: every fold costs the vectors and the way through the whole array (twice the rows where an operand stays,
    since it has to come in), and the count starts at zero. EQueue: each fold costs the way through what it uses, and a
    cycle from and one to memory; sums that stay overlap, and only the last fold's way counts.
    """
    over_rows = _tiles(problem.over_rows(design), design.rows)
    over_columns = _tiles(problem.over_columns(design), design.columns)
    steps = {"os": problem.k, "ws": problem.m, "is": problem.n}[design.dataflow]
    fill = 0 if design.dataflow == "os" else 1
    if design.convention == "scalesim":
        fold = steps + (1 + fill) * design.rows + design.columns - 2
        return len(over_rows) * len(over_columns) * fold - 1
    if design.dataflow == "os":
        return len(over_rows) * len(over_columns) * steps + over_rows[-1] + over_columns[-1]
    return sum(2 * r + steps + c for r in over_rows for c in over_columns)


def _tiles(extent: int, tile: int) -> list[int]:
    whole, rest = divmod(extent, tile)
    return [tile] * whole + ([rest] if rest else [])
