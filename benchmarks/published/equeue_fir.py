"""The FIR study of the EQueue paper (section VII): cycles and warm-up of four machines, by simulation."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish

DATA = Path(__file__).resolve().parents[1] / "data" / "equeue.json"
"""What the paper states (null: it does not), and quotes of the vendor's simulator, which models loop control, too."""


def main(args: argparse.Namespace) -> None:
    from benchmarks.published.fir_study import CASES, measure

    published = json.loads(DATA.read_text(encoding="utf-8"))["fir"]
    start = time.perf_counter()
    found = [measure(case) for case in CASES]
    seconds = time.perf_counter() - start
    print(f"{'case':26} {'cycles':>7} {'EQueue':>7} {'vendor':>7} {'warm-up':>8} {'EQueue':>7} {'last core busy':>15}")
    for m, theirs in zip(found, published, strict=True):
        print(f"{m.case.name:26} {m.cycles:7} {theirs['cycles']:7} {theirs['vendor_cycles'] or '':>7} {m.warm_up:8} "
              f"{theirs['warm_up'] or '':7} {m.utilization:14.0%}")
    finish(args, {
        "cycles": [m.cycles for m in found],
        "warm_up": [m.warm_up for m in found],
        "equal": all(m.cycles == theirs["cycles"] and theirs["warm_up"] in (m.warm_up, None)
                     for m, theirs in zip(found, published)),
        "utilization": [round(m.utilization, 4) for m in found],
        "seconds": round(seconds, 3),
    })


if __name__ == "__main__":
    main(arguments(__doc__ or ""))
