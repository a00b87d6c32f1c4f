"""Products and convolutions of random extents on every target: is each checked, or estimated, within time and memory?

A case is a command in a process of its own, with an empty cache and one process for its searches. It may answer, or
refuse with a message (exit status 2); anything else is a failure, and so is what the system stops when processors have
worked for it ``STOPPED`` times the seconds that it has. Seconds are of the whole command, memory is the most that it
held.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, child, finish

PRIMES = (2, 3, 31, 127, 509, 1021, 4093, 8191, 9973, 16381)
STOPPED = 5
"""How many times its seconds processors may work for a command."""


def extent(r: Random, most: int) -> int:
    """From 1 to ``most``, small ones as often as large ones; a third of them primes."""
    if r.random() < 1 / 3:
        return r.choice([p for p in PRIMES if p <= most])
    return min(most, int(2 ** r.uniform(0, most.bit_length())))


def product(r: Random, most: int) -> str:
    m, n, k = (extent(r, most) for _ in range(3))
    return f"gemm(m={m},n={n},k={k})"


def convolution(r: Random, most: int) -> str:
    """An image, kernels and channels of at most ``most`` each."""
    kernel, h, w = r.choice((1, 3, 5)), extent(r, most), extent(r, most)
    pad = kernel // 2
    return f"conv2d(c={extent(r, most)},h={h},w={w},o={extent(r, most)},k={kernel},pad={pad})"


def small_convolution(r: Random, most: int) -> str:
    """One that is a product of at most ``most`` in each of its three extents."""
    kernel, side = r.choice((1, 3, 5)), int(most**0.5)
    c = extent(r, most // kernel**2)
    return f"conv2d(c={c},h={extent(r, side)},w={extent(r, side)},o={extent(r, most)},k={kernel},pad={kernel // 2})"


@dataclass(frozen=True)
class Task:
    """A command, its cases up to an extent, and what it may take."""

    name: str
    words: tuple[str, ...]
    draws: tuple[Callable[[Random, int], str], ...]
    most: int
    seconds: int
    gib: float


TASKS = (
    Task("check", ("--samples", "1"), (product, small_convolution), 512, 60, 4),
    Task("estimate", ("--no-cache",), (product, convolution), 16_384, 10, 2),
)


@dataclass(frozen=True)
class Row:
    """How a command ended: ``answered``, ``refused`` or ``failed``. ``cpu_seconds``: those that processors worked for
    it, which are fewer than ``seconds`` on a machine that has other work."""

    task: str
    target: str
    case: str
    ended: str
    seconds: float
    gib: float
    cpu_seconds: float

    def within(self, task: Task, seconds: float) -> bool:
        """Whether it keeps the bounds of its task, where it took so many seconds."""
        return self.ended != "failed" and seconds <= task.seconds and self.gib <= task.gib


def measured(task: Task, target: str, case: str) -> Row:
    """A case in a process of its own; stopped when it has taken far too long."""
    limited = ["sh", "-c", f'ulimit -t {STOPPED * task.seconds}; exec "$@"', "sh"]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "archloom.tvm_backend.cli", task.name, case, "--target", target, *task.words]
        found = child([*limited, *command], {"ARCHLOOM_CACHE_DIR": folder, "ARCHLOOM_PROCESSES": "1"})
    ended = {0: "answered", 2: "refused"}.get(found.status, "failed")
    return Row(task.name, target, case, ended, found.seconds, found.peak_gib, found.cpu_seconds)


def summary(task: Task, rows: Sequence[Row]) -> dict[str, Any]:
    """The worst of a task's rows, and how many keep its bounds."""
    within = [row for row in rows if row.within(task, row.seconds)]
    ends = Counter(row.ended for row in rows)
    return {"slowest_s": max(row.seconds for row in rows), "most_gib": max(row.gib for row in rows),
            "failed": ends["failed"], "refused": ends["refused"], "cases": len(rows), "over": len(rows) - len(within)}


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cases", type=int, default=2, help="of each kind for each task and target (2)")
    parser.add_argument("--target", action="append", help="only this one; repeatable")
    parser.add_argument("--task", choices=[task.name for task in TASKS], help="only this one")


def main() -> None:
    args = arguments((__doc__ or "").split("\n", maxsplit=1)[0], _more, seeded=True)
    from archloom.tvm_backend.targets.registry import BUILT_IN

    tasks = [task for task in TASKS if args.task in (None, task.name)]
    rows: dict[str, list[Row]] = {task.name: [] for task in tasks}
    for task in tasks:
        for target in args.target or sorted(BUILT_IN):
            r = Random(f"{args.seed} {task.name} {target}")
            for case in [draw(r, task.most) for draw in task.draws for _ in range(args.cases)]:
                row = measured(task, target, case)
                print(f"{row.task:9}{row.target:15}{row.ended:9}{row.seconds:7.1f} s{row.cpu_seconds:7.1f} s of "
                      f"processors{row.gib:6.2f} GiB  {row.case}", flush=True)
                rows[task.name].append(row)
    finish(args, {**{task.name: summary(task, rows[task.name]) for task in tasks},
                  "rows": [asdict(row) for task in tasks for row in rows[task.name]]})


if __name__ == "__main__":
    main()
