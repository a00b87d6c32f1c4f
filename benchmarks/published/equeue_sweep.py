"""EQueue's design space: 4,050 combinations of array and convolution, simulated, and the plots of its Figure 12.

The combinations are array height (the width is 64 / height), image size, filter size, channels, number of filters and
dataflow. A filter larger than its image has no output: such a point is counted as void and takes no cycles. Every other
point is simulated vector by vector, in two processes.

Plotted are, against cycles: the time that a simulation takes, what the memories deliver at their peak (bytes a cycle at
the peak times the cycles spent there, both ports), and for each dataflow the loop iterations (folds).
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import BUILD, arguments, finish
from benchmarks.published.equeue_systolic import convolution, machine_of

HEIGHTS = (2, 4, 8, 16, 32)
PES = 64
IMAGES = (2, 4, 8, 16, 32)
FILTERS = (1, 2, 4)
CHANNELS = (1, 2, 4)
COUNTS = (1, 2, 4, 8, 16, 32)
DATAFLOWS = ("ws", "is", "os")
PROCESSES = 2


@dataclass(frozen=True)
class Point:
    """One combination."""

    dataflow: str
    height: int
    image: int
    filter: int
    channels: int
    filters: int


@dataclass(frozen=True)
class Result:
    """A simulated point, with the bytes that the memories deliver in cycles at their peaks."""

    point: Point
    cycles: int
    folds: int
    bytes_at_peak: int
    seconds: float


def points() -> list[Point]:
    """The whole space, arrays outermost."""
    space = itertools.product(DATAFLOWS, HEIGHTS, IMAGES, FILTERS, CHANNELS, COUNTS)
    return [Point(*p) for p in space]


def simulate(point: Point) -> Result | None:
    """None for a filter that does not fit."""
    problem = convolution(point.image, point.filter, point.channels, point.filters)
    if problem is None:
        return None
    start = time.perf_counter()
    machine = machine_of(point.height, PES // point.height, point.dataflow)
    found = machine.run(problem)
    left, top = (found.timing.storage(f"memory.{side}").read for side in ("left", "top"))
    return Result(
        point, found.cycles, problem.folds(machine.design),
        sum(port.peak_bytes_per_cycle * port.peak_cycles for port in (left, top)), time.perf_counter() - start,
    )  # fmt: skip


def sweep(part: Sequence[Point]) -> list[Result | None]:
    """A process's share; nothing that lives on is collected again and again."""
    from archloom.oracle.memory import paused

    with paused():
        return [simulate(p) for p in part]


def correlation(results: Sequence[Result]) -> float:
    """Of cycles with loop iterations, over the logarithms."""
    xs, ys = [math.log(r.folds) for r in results], [math.log(r.cycles) for r in results]
    return statistics.correlation(xs, ys)


def plot(results: Sequence[Result], path: Path) -> None:
    """The panels of Figure 12: time and bytes at the peak against cycles, then loop iterations for each dataflow."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, grid = pyplot.subplots(2, 3, figsize=(14, 8), constrained_layout=True)
    grid[0, 2].remove()
    axes = [grid[0, 0], grid[0, 1], *grid[1]]
    colours = {"ws": "tab:blue", "is": "tab:green", "os": "tab:red"}
    for axis, title, value in (
        (axes[0], "simulation time [ms]", lambda r: 1e3 * r.seconds),
        (axes[1], "SRAM read at peak [bytes]", lambda r: r.bytes_at_peak),
    ):
        for dataflow, colour in colours.items():
            chosen = [r for r in results if r.point.dataflow == dataflow]
            axis.scatter([r.cycles for r in chosen], [value(r) for r in chosen], s=6, c=colour, label=dataflow.upper())
        axis.set(xscale="log", yscale="log", xlabel="cycles", ylabel=title, title=f"{title} against cycles")
        axis.legend()
    for axis, dataflow in zip(axes[2:], DATAFLOWS):
        for height in HEIGHTS:
            chosen = [r for r in results if r.point.dataflow == dataflow and r.point.height == height]
            axis.scatter([r.folds for r in chosen], [r.cycles for r in chosen], s=6, label=f"{height}×{PES // height}")
        axis.set(
            xscale="log", yscale="log", xlabel="loop iterations", ylabel="cycles",
            title=f"cycles against loop iterations, {dataflow.upper()}",
        )
        axis.legend(title="array")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plot", type=Path, default=BUILD / "equeue_sweep.png", help="where the plots go (.png, .svg)")


def main() -> int:
    args = arguments(__doc__ or "", options)
    from archloom.acadl_models.timing.engine import warmup

    warmup()
    space = points()
    start = time.perf_counter()
    # every process takes whole arrays, so that each graph is made in one of them only
    size = len(space) // (len(DATAFLOWS) * len(HEIGHTS))
    shares = [space[i:i + size] for i in range(0, len(space), size)]
    with ProcessPoolExecutor(PROCESSES) as pool:
        found = [result for share in pool.map(sweep, shares) for result in share]
    seconds = time.perf_counter() - start
    results = [r for r in found if r is not None]
    plot(results, args.plot)
    best = {d: min(r.cycles for r in results if r.point.dataflow == d) for d in DATAFLOWS}
    finish(args, {
        "points": len(space),
        "simulated": len(results),
        "void": len(found) - len(results),
        "seconds": round(seconds, 2),
        "cycles": sum(r.cycles for r in results),
        **{f"fewest_cycles_{d}": n for d, n in best.items()},
        **{f"median_bytes_at_peak_{d}": statistics.median(r.bytes_at_peak for r in results if r.point.dataflow == d)
           for d in DATAFLOWS},
        **{f"correlation_{d}": round(correlation([r for r in results if r.point.dataflow == d]), 4) for d in DATAFLOWS},
        "plot": str(args.plot),
    })  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
