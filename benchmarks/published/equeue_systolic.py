"""EQueue's recorded convolutions on the systolic array: cycles by simulation beside those of its result tables."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import ROOT, arguments, finish, refuse

DATA = ROOT.parent / "shared" / "reference"


def convolution(h: int, f: int, c: int, n: int) -> Any:
    """A square convolution of stride 1 without padding, as a matrix product; None where the filter does not fit."""
    from benchmarks.published.systolic import Problem

    return Problem((h - f + 1) ** 2, n, f * f * c) if f <= h else None


def recorded(directory: Path) -> Iterator[tuple[str, str, int, int, Any, int]]:
    """Name, dataflow, rows, columns, product and cycles of every row."""
    path = directory / "equeue_reference.json"
    if not path.is_file():
        refuse(f"{path}: no such file; --data names a directory with equeue_reference.json")
    try:
        yield from _rows(json.loads(path.read_text(encoding="utf-8"))["systolic"])
    except json.JSONDecodeError as error:
        refuse(f"{path}:{error.lineno}: {error.msg}")
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        refuse(f"{path}: not of the form of equeue_reference.json: {type(error).__name__} {error}")


def _rows(data: Any) -> Iterator[tuple[str, str, int, int, Any, int]]:
    for r in data["closed_forms"]["verified_rows"]:
        yield r["id"], r["dataflow"], r["Ah"], r["Aw"], convolution(*(r[k] for k in "HFCN")), r["cycles_repo"]
    comparison = data["scale_sim_comparison"]["authors_repository"]
    rows, columns = comparison["settings"]["array"]
    for table, cycles in comparison["cycles"].items():
        varied, dataflow = table.split("_")
        fixed = comparison["settings"][f"diff_{varied}"]
        for size, count in cycles.items():
            h, f = (int(size), fixed["F"]) if varied == "ifmap" else (fixed["H"], int(size))
            product = convolution(h, f, fixed["C"], fixed["N"])
            yield f"{table} {size}", dataflow.lower(), rows, columns, product, count


def machine_of(rows: int, columns: int, dataflow: str) -> Any:
    from archloom.acadl_models.systolic_array import Design
    from benchmarks.published.systolic import machine

    return machine(Design(rows, columns, dataflow, convention="equeue"))


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, default=DATA, help="directory with equeue_reference.json")


def main() -> int:
    args = arguments(__doc__ or "", options)
    rows, equal = 0, 0
    for name, dataflow, height, width, problem, cycles in list(recorded(args.data)):
        found = machine_of(height, width, dataflow).run(problem).cycles
        rows, equal = rows + 1, equal + (found == cycles)
        if found != cycles:
            print(f"differs: {name}: {found} cycles, recorded {cycles}", file=sys.stderr)
    finish(args, {"rows": rows, "equal": equal, "equal_share": equal / rows})
    return 0 if rows == equal else 1


if __name__ == "__main__":
    sys.exit(main())
