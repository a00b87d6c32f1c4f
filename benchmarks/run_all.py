"""Runs every benchmark, or those that are named, prints each figure beside its target, and writes their rows of
``benchmarks/RESULTS.md``."""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import platform
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import child
from benchmarks.figures import Figure, Figures
from benchmarks.run import find, scripts

RESULTS = Path(__file__).with_name("RESULTS.md")

Row = tuple[str, str, str, str]
"""Figure, value, target, verdict."""


def suite() -> Figures:
    """The figures that the scripts of the folders declare, by script and arguments: ``networks.py --size tiny``."""
    found: Figures = {}
    for name, path in scripts().items():
        if path.parent == RESULTS.parent:
            continue  # it measures nothing of its own
        declared: Figures = importlib.import_module(f"benchmarks.{path.parent.name}.{name}").FIGURES
        found |= {f"{name}.py {arguments}".rstrip(): figures for arguments, figures in declared.items()}
    return found


def measure(script: str, figures: tuple[Figure, ...]) -> list[Row]:
    """Rows (figure, value, target, verdict) of one benchmark; a benchmark that fails gives failed rows."""
    name, *arguments = script.split()
    run = child([sys.executable, str(find(name)), *arguments, "--json"])
    if run.status:
        return [(figure.name, f"failed, status {run.status}", figure.demand, "MISSED") for figure in figures]
    result = run.last_json
    rows = []
    for figure in figures:
        value = figure.read(result)
        verdict = "" if figure.holds is None else "met" if figure.holds(value) else "MISSED"
        rows.append((figure.name, figure.shown.format(value), figure.demand, verdict))
    return rows


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def read_results() -> dict[str, list[Row]]:
    """The tables of ``RESULTS.md`` by script; none where it is missing."""
    tables: dict[str, list[Row]] = {}
    for line in RESULTS.read_text().splitlines() if RESULTS.exists() else []:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[4].startswith("`"):
            tables.setdefault(cells[4].strip("`"), []).append((cells[0], cells[1], cells[2], cells[3]))
    return tables


def write_results(tables: dict[str, list[Row]]) -> None:
    lines = [
        "# Results", "",
        f"Written by `make bench`, last on {datetime.date.today()}: {os.cpu_count()} cores of {_cpu()},"
        f" Python {platform.python_version()}. Times on a shared machine vary; ratios vary less.", "",
        "| figure | measured | target | | by |", "|---|---|---|---|---|",
    ]
    for script, rows in tables.items():
        lines += [f"| {name} | {value} | {demand} | {verdict} | `{script}` |" for name, value, demand, verdict in rows]
    RESULTS.write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="scripts whose rows of RESULTS.md to measure anew (default: all)")
    asked = parser.parse_args().only
    declared = suite()
    unknown = [name for name in asked if not any(name in (key, key.split()[0]) for key in declared)]
    if unknown:
        there = ", ".join(dict.fromkeys(key.split()[0] for key in declared))
        parser.error(f"no benchmark {', '.join(unknown)}; there are {there}")
    chosen = [key for key in declared if not asked or key in asked or key.split()[0] in asked]
    tables = {}
    for script in chosen:
        tables[script] = measure(script, declared[script])
        for name, value, demand, verdict in tables[script]:
            print(f"{name:58} {value:>14}  target {demand:12} {verdict}", flush=True)
    known = read_results() | tables
    write_results({script: known[script] for script in declared if script in known})
    print(f"written to {RESULTS}")
    if any(row[3] == "MISSED" for rows in tables.values() for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
