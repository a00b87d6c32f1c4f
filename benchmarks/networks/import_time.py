"""Seconds that ``import archloom`` takes in a fresh interpreter, without the interpreter's own start."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, child, finish

TIMED = "import time; t = time.perf_counter(); import archloom; print(time.perf_counter() - t)"


def main() -> None:
    args = arguments(__doc__ or "")
    times = [float(child([sys.executable, "-c", TIMED]).stdout) for _ in range(9)]
    finish(args, {"import_s": statistics.median(times), "slowest_s": max(times)})


if __name__ == "__main__":
    main()
