"""What a newcomer waits for and reads: whole commands on a terminal, with empty caches and again; the documentation.

Three parts (``--parts``). **commands**: each runs in a pseudo-terminal, cold (a fresh home, no cache of archloom's or
JAX's) and warm (again in the same home). The first of all, an estimate, is also timed as after `pip install`, with a
timing engine that is not compiled (its machine code is removed beside this checkout's bytecode); for all others it
is, as `make setup` leaves it. ``seconds`` are those of the whole process, ``silent_s`` the longest time without a
character on the terminal, ``exit_s`` the time from the last one to the end of the process. Medians of ``--rounds``.
Beside estimates of networks by name there are one of an ``.onnx`` file of ResNet-50's size (float, made before with
random weights), and what `make demo` runs where `make setup` has been: ``demo_compile_s`` are the seconds in which it
plans and compiles its network in a fresh home, as it writes them into its summary.

**docs**: every block of the documentation's pages, notebooks among them, is run in order as a reader would
(`tests/support/pages.py`), as many pages at a time as there are cores, with plans kept where tests keep them.
``docs_blocks`` were run, ``docs_failed`` failed or printed what their page does not show; of a page whose run ends
before its last block that is all of them.

**pages**: the site is opened in Chromium, 1280 and 390 pixels wide, dark and light (`tests/support/site.py`):
``pages`` there are; ``pages_failed`` counts faults, said on the console or by their width.

``--commands`` chooses commands by what their lines hold, and no other part; ``--rounds 1`` is enough to look.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import select
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.acadl_models.timing.engine import compiling, warmup
from archloom.models.networks.listing import NETWORKS
from benchmarks import common

PARTS = ("commands", "docs", "pages")
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

ONNX = "resnet50.onnx"
DEMO = "examples/demo.py"

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


@dataclass(frozen=True)
class Command:
    """What is typed, the program with its arguments (``{home}``: the fresh home), and the kind of its figures."""

    line: str
    words: tuple[str, ...]
    kind: str = "other"
    summary: str = ""
    """a file of JSON in the home that it writes, with its ``compile_seconds``"""

    def run(self, home: Path) -> Run:
        return on_terminal([word.replace("{home}", str(home)) for word in self.words], home)


def typed(line: str, kind: str = "other") -> Command:
    return Command(f"archloom {line}", (sys.executable, "-m", "archloom", *line.split(" ")), kind)


def commands() -> list[Command]:
    """Those that are timed cold and warm."""
    file = common.BUILD / ONNX
    return [*(typed(f"estimate {network.name}", "estimate") for network in NETWORKS),
            Command(f"archloom estimate {ONNX} --int8", typed(f"estimate {file} --int8").words, "onnx"),
            Command(f"python {DEMO}", (sys.executable, str(common.ROOT / DEMO), "--output", "{home}/demo"), "demo",
                    "demo/summary.json"),
            *map(typed, OTHERS)]


def make_onnx() -> None:
    """Write the ``.onnx`` file, float32 with 25.6 million random weights, if it is not there."""
    path = common.BUILD / ONNX
    if not path.exists():
        import onnx

        from examples import resnet_onnx

        common.BUILD.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        onnx.save(resnet_onnx.onnx_model(resnet_onnx.resnet50()), part)
        part.rename(path)


def first(rounds: int) -> dict[str, Any]:
    """The first command of all."""
    runs = []
    for _ in range(rounds):
        for file in compiling.kept("run").files():
            file.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(prefix="archloom-first-hour-") as home:
            runs.append(typed(FIRST).run(Path(home)))
    found = {"first_s": statistics.median(run.seconds for run in runs),
             "first_silent_s": statistics.median(run.silent_s for run in runs),
             "first_failed": sum(run.status != 0 for run in runs)}
    print(f"{'the first, ' + FIRST:60} cold {found['first_s']:7.2f}  silent {found['first_silent_s']:6.2f}", flush=True)
    return found


def row(command: Command, rounds: int) -> dict[str, Any]:
    """A command, cold and warm."""
    cold, warm, compiling = [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="archloom-first-hour-") as home:
            cold.append(command.run(Path(home)))
            if command.summary and (written := Path(home) / command.summary).exists():  # else it says FAILED
                compiling.append(float(json.loads(written.read_text())["compile_seconds"]))
            warm.append(command.run(Path(home)))
    runs = [*cold, *warm]
    found = {
        "line": command.line, "cold_s": statistics.median(run.seconds for run in cold),
        "warm_s": statistics.median(run.seconds for run in warm),
        "exit_s": statistics.median(run.exit_s for run in runs),
        "silent_s": statistics.median(run.silent_s for run in cold), "ok": all(run.status == 0 for run in runs)}
    if compiling:
        found["compile_s"] = statistics.median(compiling)
    print(f"{found['line']:60} cold {found['cold_s']:7.2f}  warm {found['warm_s']:6.2f}  silent "
          f"{found['silent_s']:6.2f}  exit {found['exit_s']:5.2f}  {'' if found['ok'] else 'FAILED'}", flush=True)
    return found


def timed(holding: str, rounds: int) -> dict[str, Any]:
    """The commands whose lines hold a text, the slowest of each kind, and the first of all."""
    chosen = [command for command in commands() if holding in command.line]
    if not chosen:
        common.refuse(f"--commands {holding!r}: no command holds this")
    if any(command.kind == "onnx" for command in chosen):
        make_onnx()
    alone = first(rounds) if holding in typed(FIRST).line else {}
    warmup()
    rows = [(command.kind, row(command, rounds)) for command in chosen]
    return {
        "commands": [found for _, found in rows], **alone,
        "slowest_exit_s": max(found["exit_s"] for _, found in rows),
        "failed": sum(not found["ok"] for _, found in rows) + alone.get("first_failed", 0),
        "longest_silence_s": max(found["silent_s"] for _, found in rows),
        **{f"{kind}_compile_s": found["compile_s"] for kind, found in rows if "compile_s" in found},
        **{f"slowest_{kind}_{state}": max(found[state] for other, found in rows if other == kind)
           for kind in dict(rows) for state in ("cold_s", "warm_s")}}


def docs() -> dict[str, int]:
    """The blocks of the documentation's pages."""
    from tests.support import pages

    os.environ.setdefault("ARCHLOOM_CACHE_DIR", str(common.ROOT / "build" / "test-cache"))
    with tempfile.TemporaryDirectory(prefix="archloom-docs-") as parent:
        earlier = Path(parent) / "earlier"
        earlier.mkdir()
        pages.make_earlier(earlier)

        def faults(page: Path) -> list[str]:
            found = pages.faults(page, Path(tempfile.mkdtemp(dir=parent)), lambda: earlier)
            wrong = [*filter(None, found)]
            print(f"{page.name:60} {len(found):3} blocks, {len(wrong)} failed", flush=True)
            print(*dict.fromkeys(wrong), sep="\n", end="", flush=True)
            return found

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = [fault for page in pool.map(faults, pages.with_blocks()) for fault in page]
    return {"docs_blocks": len(found), "docs_failed": sum(map(bool, found))}


def site() -> dict[str, int]:
    """The pages of the documentation's site."""
    import pytest

    from tests.support import browser, site

    try:
        with site.served() as address, browser.chromium() as chromium:
            found = [fault for width in site.WIDTHS for scheme in site.SCHEMES
                     for fault in site.faults(chromium, address, width, scheme)]
    except pytest.skip.Exception as missing:
        common.refuse(f"--parts pages: {missing}")
    print(*found, sep="\n")
    return {"pages": len(site.files()), "pages_failed": len(found)}


def more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"runs of each command (default {ROUNDS})")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what is looked at (default: all)")
    parser.add_argument("--commands", default="", metavar="TEXT", help="only commands that hold this")


def main() -> None:
    args = common.arguments(__doc__ or "", more)
    parts = ("commands",) if args.commands else args.parts
    found: dict[str, Any] = {}
    if "commands" in parts:
        found |= timed(args.commands, args.rounds)
    if "docs" in parts:
        found |= docs()
    if "pages" in parts:
        found |= site()
    common.finish(args, found)


if __name__ == "__main__":
    main()
