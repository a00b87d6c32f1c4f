"""Which Gemmini for a mix of networks? All sizes of its array, scratchpad and bus, and what each buys.

    python examples/sweep_gemmini.py --workers 2

Every combination is bounded first, and simulated unless its bounds show that another one is better. Results are kept
in a folder: a sweep that was ended goes on where it was.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import archloom

if TYPE_CHECKING:
    from archloom.tvm_backend.search.result import SearchResult

MIX = {"mobilenet_v2(image=96)": 10.0, "resnet18(image=64)": 1.0}
"""How often each network runs."""
OPTIONS: Mapping[str, Sequence[int]] = {
    "dim": (4, 8, 16, 32), "scratchpad_kib": (64, 128, 256), "dma_bus_bits": (64, 128)}


def sweep(
    folder: Path | None = None, *, mix: Mapping[str, float] = MIX, options: Mapping[str, Sequence[int]] = OPTIONS,
    workers: int = 1,
) -> "SearchResult":
    """Latency and energy of the mix against the area of the machine."""
    return archloom.sweep(list(mix), "gemmini", options, weights=list(mix.values()), workers=workers, output=folder,
                          objectives="seconds,joules,area_mm2")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("build/sweep_gemmini"), help="where results are kept")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    args = parser.parse_args()
    print(sweep(args.folder, workers=args.workers))


if __name__ == "__main__":
    main()
