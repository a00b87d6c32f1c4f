"""What a newcomer waits for: whole commands on a terminal, with empty caches and again.

Each command runs in a pseudo-terminal, cold (a fresh home, no cache of archloom's or JAX's) and warm (again in the same
home). The first of all, an estimate, is also timed as after `pip install`, with a timing engine that is not compiled
(its machine code is removed beside this checkout's bytecode); for all others it is, as `make setup` leaves it.
``seconds`` are those of the whole process, ``silent_s`` the longest time without a character on the terminal,
``exit_s`` the time from the last one to the end of the process. Medians of ``--rounds``.

``--commands`` chooses by what their lines hold; ``--rounds 1`` is enough to look.
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.acadl_models.timing.engine import compiling, warmup
from archloom.models.networks.listing import NETWORKS
from benchmarks import common

ROUNDS = 5
LIMIT = 900
"""Seconds after which a command is ended, and its row says so."""

OTHERS = (
    "estimate unet -t eyeriss --int8",
    "estimate mobilenet_v2 -t amx",
    "check digits_vit -t gemmini",
    "map --attention 1x32x2048x128",
    "explain gemm(m=512,n=512,k=512) -t gemmini",
    "targets",
    "describe gemmini",
    "--version",
)
"""What is timed beside an estimate of each network by name."""

FIRST = "estimate resnet50"
"""What is timed with an engine that is not compiled, too."""

LEFT_OUT = ("ARCHLOOM_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR", "PYTHONDONTWRITEBYTECODE")
"""Variables that a newcomer does not have: caches of others, and modules compiled again by each process."""


@dataclass(frozen=True)
class Run:
    """A command on a terminal: its seconds, the longest silence, the end after the last character, its status."""

    seconds: float
    silent_s: float
    exit_s: float
    status: int


def on_terminal(command: Sequence[str], home: Path) -> Run:
    """Run a command as a terminal would, with everything that it keeps below ``home``."""
    kept = {name: value for name, value in os.environ.items() if name not in LEFT_OUT and not name.startswith("XDG_")}
    start = time.perf_counter()
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(command[0], list(command), {
            **kept, "HOME": str(home), "TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path[:2])})
    heard, silent = start, 0.0
    while time.perf_counter() - start < LIMIT:
        if not select.select([terminal], [], [], 0.05)[0]:
            continue
        try:
            text = os.read(terminal, 1 << 16)
        except OSError:  # so Linux tells that the other side is closed
            break
        if not text:
            break
        heard, silent = time.perf_counter(), max(silent, time.perf_counter() - heard)
    else:
        os.kill(child, 9)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    end = time.perf_counter()
    os.close(terminal)
    return Run(end - start, max(silent, end - heard), end - heard, status)


def command(line: str) -> list[str]:
    return [sys.executable, "-m", "archloom", *line.split(" ")]


def first(rounds: int) -> dict[str, Any]:
    """The first command of all."""
    runs = []
    for _ in range(rounds):
        for file in compiling.files("run"):
            file.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(prefix="archloom-first-hour-") as home:
            runs.append(on_terminal(command(FIRST), Path(home)))
    found = {"first_s": statistics.median(run.seconds for run in runs),
             "first_silent_s": statistics.median(run.silent_s for run in runs),
             "first_failed": sum(run.status != 0 for run in runs)}
    print(f"{'the first, ' + FIRST:60} cold {found['first_s']:7.2f}  silent {found['first_silent_s']:6.2f}", flush=True)
    return found


def row(line: str, rounds: int) -> dict[str, Any]:
    """A command, cold and warm."""
    cold, warm = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="archloom-first-hour-") as home:
            cold.append(on_terminal(command(line), Path(home)))
            warm.append(on_terminal(command(line), Path(home)))
    runs = [*cold, *warm]
    found = {
        "line": f"archloom {line}", "cold_s": statistics.median(run.seconds for run in cold),
        "warm_s": statistics.median(run.seconds for run in warm),
        "exit_s": statistics.median(run.exit_s for run in runs),
        "silent_s": statistics.median(run.silent_s for run in cold), "ok": all(run.status == 0 for run in runs)}
    print(f"{found['line']:60} cold {found['cold_s']:7.2f}  warm {found['warm_s']:6.2f}  silent "
          f"{found['silent_s']:6.2f}  exit {found['exit_s']:5.2f}  {'' if found['ok'] else 'FAILED'}", flush=True)
    return found


def more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"runs of each (default {ROUNDS})")
    parser.add_argument("--commands", default="", metavar="TEXT", help="only commands that hold this")


def main() -> None:
    args = common.arguments(__doc__ or "", more)
    estimates = tuple(f"estimate {network.name}" for network in NETWORKS)
    alone = first(args.rounds) if args.commands in FIRST else {}
    warmup()
    rows = [row(line, args.rounds) for line in (*estimates, *OTHERS) if args.commands in line]
    if not rows:
        common.refuse(f"--commands {args.commands!r}: no command holds this")
    named = [r for r in rows if r["line"].removeprefix("archloom ") in estimates]
    rest = [r for r in rows if r not in named]
    common.finish(args, {
        "commands": rows, **alone, "slowest_exit_s": max(r["exit_s"] for r in rows),
        "failed": sum(not r["ok"] for r in rows) + alone.get("first_failed", 0),
        "longest_silence_s": max(r["silent_s"] for r in rows),
        **_slowest("estimate", named), **_slowest("other", rest)})


def _slowest(what: str, rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    return {f"slowest_{what}_{kind}": max(row[kind] for row in rows) for kind in ("cold_s", "warm_s")} if rows else {}


if __name__ == "__main__":
    main()
