"""The FIR study of the EQueue paper (section VII): cycles and warm-up of four machines, by simulation."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish

EQUEUE = ((2048, 0), (143, 15), (588, 79), (538, 26))
"""Cycles and warm-up that the paper states (the warm-up of one core is 0, that of case 2 follows from its text)."""
VENDOR = (2276, None, None, 539)
"""Cycles of the vendor's simulator, as the paper quotes them; it models loop control and synchronization, too."""


def main(args: argparse.Namespace) -> None:
    from benchmarks.published.fir_study import CASES, measure

    start = time.perf_counter()
    found = [measure(case) for case in CASES]
    seconds = time.perf_counter() - start
    print(f"{'case':26} {'cycles':>7} {'EQueue':>7} {'vendor':>7} {'warm-up':>8} {'EQueue':>7} {'last core busy':>15}")
    for m, (cycles, warm_up), vendor in zip(found, EQUEUE, VENDOR):
        print(f"{m.case.name:26} {m.cycles:7} {cycles:7} {vendor or '':>7} {m.warm_up:8} {warm_up:7} "
              f"{m.utilization:14.0%}")
    finish(args, {
        "cycles": [m.cycles for m in found],
        "warm_up": [m.warm_up for m in found],
        "equal": [(m.cycles, m.warm_up) for m in found] == list(EQUEUE),
        "utilization": [round(m.utilization, 4) for m in found],
        "seconds": round(seconds, 3),
    })


if __name__ == "__main__":
    main(arguments(__doc__ or ""))
