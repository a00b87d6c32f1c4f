"""SCALE-Sim's layers on the systolic array: cycles by simulation beside those that SCALE-Sim recorded.

Every row of ``cycles.csv`` is simulated at tensor level, vector by vector; equal products on equal arrays once.
Compared are the cycles, the elements read and written at the memories and the utilizations. ``speed_up`` is SCALE-Sim's
recorded time over ours, each product that is simulated counting once on both sides. Then whole networks on a 32 × 32
array, one stream each, timed from the table of layers to the cycles in processor time, each in a process in which the
engine is compiled and nothing else is known: ``ms`` is the first pass over a network, ``ms_again`` the median of those
after it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import ROOT, arguments, finish, forked, refuse

DATA = ROOT.parent / "shared" / "reference" / "scalesim"

WHOLE_CYCLES = {("Resnet50", "os"): 4_434_168, ("Resnet50", "ws"): 5_753_486}
"""What SCALE-Sim reports for whole networks on 32 × 32 (README.md beside the data)."""

DATAFLOWS = ("os", "ws", "is")


def machine_of(rows: int, columns: int, dataflow: str) -> Any:
    """An array whose memories hold any layer: SCALE-Sim's stall-free count presumes them full."""
    from archloom.acadl_models.systolic_array import Design
    from benchmarks.published.systolic import machine

    whole = 1 << 30
    return machine(Design(rows, columns, dataflow, convention="scalesim", left_kib=whole, top_kib=whole, out_kib=whole))


def close(value: float, recorded: str) -> bool:
    """Equal to the four decimals that SCALE-Sim prints."""
    return abs(value - float(recorded)) <= 0.000_051


def differences(found: Any, record: Any) -> list[str]:
    """The figures in which a simulated layer differs from a record; what a record lacks is not compared."""
    exact = {
        "compute_cycles": found.cycles, "sram_ifmap_reads": found.ifmap_reads, "sram_filter_reads": found.filter_reads,
    }
    ratios = {
        "overall_util_pct": 100 * found.utilization, "mapping_eff_pct": 100 * found.mapping_efficiency,
        "avg_ifmap_sram_bw": found.ifmap_reads / found.cycles if found.cycles else None,
        "avg_filter_sram_bw": found.filter_reads / found.cycles if found.cycles else None,
    }
    writes = found.ofmap_writes
    if found.design.dataflow == "os":  # a stray rows + columns for each fold is a defect of SCALE-Sim's source
        writes += found.problem.folds(found.design) * (found.design.rows + found.design.columns)
    exact["sram_ofmap_writes"] = writes
    return [
        *(k for k, v in exact.items() if record.get(k) and v != int(record[k])),
        *(k for k, v in ratios.items() if record.get(k) and v is not None and not close(v, record[k])),
    ]


def compare(rows: list[Any]) -> dict[str, Any]:
    """All rows of a table."""
    for r in rows:
        machine_of(r.rows, r.columns, r.dataflow).prepare()
    start = time.perf_counter()
    found: dict[Any, Any] = {}
    recorded = 0.0
    for r in rows:
        key = r.problem, r.dataflow, r.rows, r.columns
        if key not in found:
            found[key] = machine_of(r.rows, r.columns, r.dataflow).run(r.problem)
            recorded += r.wall_s
    seconds = time.perf_counter() - start
    measured = [found[r.problem, r.dataflow, r.rows, r.columns] for r in rows]
    wrong = [d for r, m in zip(rows, measured) if (d := differences(m, r.record))]
    for r, m in zip(rows, measured):
        if m.cycles != r.cycles:
            print(f"differs: {dict(r.record)}: {m.cycles} cycles", file=sys.stderr)
    return {
        "rows": len(rows),
        "equal": sum(m.cycles == r.cycles for r, m in zip(rows, measured)),
        "equal_in_all_figures": len(rows) - len(wrong),
        "equal_share": sum(m.cycles == r.cycles for r, m in zip(rows, measured)) / len(rows),
        "equal_in_all_figures_share": 1 - len(wrong) / len(rows),
        "different_figures": sorted({name for names in wrong for name in names}),
        "simulated": len(found),
        "seconds": round(seconds, 3),
        "scale_sim_seconds": round(recorded, 1),
        "speed_up": round(recorded / seconds, 1),
        "instructions": sum(m.timing.instructions for m in found.values()),
        "stepped_instructions": sum(m.timing.stepped_instructions for m in found.values()),
    }


def whole_networks(tables: Iterable[tuple[str, list[Any]]]) -> dict[str, Any]:
    """Cycles and milliseconds of each network in each dataflow on 32 × 32."""
    result: dict[str, Any] = {}
    for name, problems in tables:
        for dataflow in DATAFLOWS:
            run = forked(lambda p=problems, d=dataflow: _passes(p, d))  # type: ignore[misc]
            if run.status:
                refuse(f"{name} {dataflow}: its process ended with status {run.status}")
            (cycles, first), *again = run.last_json
            result[f"{name} {dataflow}"] = {
                "layers": len(problems), "cycles": cycles, "ms": round(1e3 * first, 2),
                "ms_again": round(1e3 * statistics.median(t for _, t in again), 2),
            }
            known = WHOLE_CYCLES.get((name, dataflow))
            if known is not None:
                result[f"{name} {dataflow}"] |= {"recorded": known, "equal": known == cycles}
    return result


def _passes(problems: list[Any], dataflow: str) -> list[tuple[int, float]]:
    """Cycles and seconds of five passes over a network on a new array."""
    machine = machine_of(32, 32, dataflow)
    machine.prepare()
    return [_timed(machine, problems) for _ in range(5)]


def _timed(machine: Any, problems: list[Any]) -> tuple[int, float]:
    """Cycles of a network and the processor time of finding them."""
    start = time.process_time()
    cycles = machine.run_network(problems)
    return cycles, time.process_time() - start


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, default=DATA, help="directory with cycles.csv and topologies/")


def main() -> int:
    args = arguments(__doc__ or "", options)
    from archloom.acadl_models.timing.engine import warmup
    from benchmarks.published.scalesim_data import layers, networks

    rows = layers(args.data)
    warmup()
    found = list(networks(args.data / "topologies"))
    if not found:
        refuse(f"{args.data / 'topologies'}: expected network tables (*.csv), found none")
    # the code of a first layer is loaded and compiled before anything is timed
    for dataflow in DATAFLOWS:
        machine_of(3, 5, dataflow).run(rows[0].problem)
    whole = whole_networks(found)
    result = compare(rows)
    resnet = [whole[f"Resnet50 {dataflow}"] for dataflow in DATAFLOWS if f"Resnet50 {dataflow}" in whole]
    finish(args, {**result, "networks": whole, **({} if not resnet else {
        "resnet50_ms_again": max(row["ms_again"] for row in resnet),
        "resnet50_equal": all(row["equal"] for row in resnet if "equal" in row)})})
    for name, row in whole.items():
        print(f"{name:16} {row}", file=sys.stderr)
    return 0 if result["equal"] == result["rows"] else 1


if __name__ == "__main__":
    sys.exit(main())
