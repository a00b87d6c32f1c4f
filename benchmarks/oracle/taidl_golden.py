"""Recorded inputs and outputs of real accelerators, and the oracles' outputs for the same inputs.

The vectors are ``.npz`` files; a file's name tells its kernel and sizes, and any size goes:
``gemmini_tiled_matmul_dim{D}_i{I}_set{S}`` and ``gemmini_exo_{N}x{M}x{K}_set{S}`` come from Gemmini's functional
model Spike, ``amx_{kernel}_blocks{n}`` from Intel SDE. All 27 lie beside the repository
(``tests/data/taidl/README.md`` says where they come from); ``--data DIR`` reads another directory, such as that one
with the smaller ones. A file is equal if all of its outputs are, in every way of computing them. Status 1 if any is
not, 2 if a name is not known or a file not readable.
"""

from __future__ import annotations

import argparse
import re
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.oracle.errors import ArchloomError
from benchmarks.common import ROOT, arguments, finish, refuse
from benchmarks.oracle import golden_amx, golden_gemmini
from benchmarks.oracle.golden_runner import Runner, difference

MODULES = (golden_gemmini, golden_amx)
RECORDED = ROOT.parent / "shared" / "reference" / "taidl" / "golden"


def all_runners() -> list[Runner]:
    """The runners of every module of runners."""
    return [r for module in MODULES for r in module.runners()]


def check(path: Path, runners: Sequence[Runner]) -> dict[str, Any]:
    """The row of a file: ``equal``, or what is ``unequal``, or an ``error``."""
    row: dict[str, Any] = {"name": path.stem}
    found = [(r, m) for r in runners if (m := re.fullmatch(r.pattern, path.stem))]
    if not found:
        return {**row, "error": "no kernel goes by this name; names are " + ", ".join(r.names for r in runners)}
    runner, match = found[0]
    arrays: dict[str, np.ndarray] = {}
    try:
        with np.load(path, allow_pickle=False) as data:
            arrays = {k: data[k] for k in data.files}
        unequal = []
        for way, results in runner.run(match, arrays):
            for name, got in results.items():
                if what := difference(got, arrays[name], runner.tolerance):
                    unequal.append(f"{way} {name}: {what}")
    except KeyError as error:
        return {**row, "error": f"there is no array {error}, only {', '.join(arrays) or 'none'}"}
    except (OSError, ValueError, zipfile.BadZipFile, ArchloomError) as error:
        return {**row, "error": f"{type(error).__name__}: {error}"}
    return {**row, "equal": True} if not unequal else {**row, "equal": False, "unequal": unequal}


def main() -> None:
    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--data", type=Path, default=RECORDED, help="directory of .npz files (default: all)")

    args = arguments(__doc__ or "", more)
    files = sorted(args.data.glob("*.npz"))
    if not files:
        refuse(f"there are no .npz files in {args.data}; --data names a directory of recorded vectors")
    runners = all_runners()
    rows = []
    for path in files:
        row = check(path, runners)
        rows.append(row)
        print(f"{row['name']:48} {row.get('error') or ('equal' if row['equal'] else 'NOT EQUAL')}", flush=True)
        for what in row.get("unequal", ()):
            print(f"    {what}")
    unequal = [r["name"] for r in rows if r.get("equal") is False]
    errors = [r["name"] for r in rows if "error" in r]
    finish(args, {"vectors": len(rows), "equal": sum(bool(r.get("equal")) for r in rows), "unequal": len(unequal),
                  "equal_share": sum(bool(r.get("equal")) for r in rows) / len(rows),
                  "errors": len(errors), "unequal_names": unequal, "error_names": errors, "rows": rows})
    raise SystemExit(2 if errors else 1 if unequal else 0)


if __name__ == "__main__":
    main()
