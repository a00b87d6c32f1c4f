"""Runs the tests that are marked slow, folder after folder, and counts what comes of them.

A part is a folder of tests without the folders below it; a process of pytest runs it, with many examples of each
property, and is interrupted after ``--limit`` seconds: what it has counted by then stays, and the part is cut off,
which is no success. What is done is written to ``--state`` after each part. An interrupted run goes on there with the
same seed: parts of the present commit are not run again, parts of other commits are, but for ``--older``; then
``commits`` names them all. Begins anew where nothing is left, or with ``--again``. Failures are told on stderr and
named in the JSON.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its tests and its archloom

from benchmarks import results
from benchmarks.common import BUILD, ROOT, arguments, finish, refuse

TESTS = ROOT / "tests"
PROFILE = "thorough"
GRACE = 120
"""Seconds that an interrupted pytest has to write what it has counted."""

_NONE_COLLECTED = 5
"""Exit status of pytest for a folder without slow tests."""


@dataclass
class Part:
    """How the slow tests of a folder ended: counts, seconds of the clock, and of which commit. ``ended``: ``whole``,
    ``cut off`` after the limit, or ``broken`` where pytest itself ended otherwise (its status)."""

    commit: str
    seconds: float
    ended: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)


@dataclass
class State:
    """What was done with a seed: parts by their folders, relative to the checkout."""

    seed: int
    parts: dict[str, Part] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> "State":
        found = json.loads(path.read_text(encoding="utf-8"))
        return State(found["seed"], {name: Part(**part) for name, part in found["parts"].items()})

    def write(self, path: Path) -> None:
        """A reader sees the old one or the new one."""
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")
        part.replace(path)

    def left(self, names: list[str], commit: str, *, older: bool) -> list[str]:
        """The folders that are still to be run: without a part that is whole, of this commit or of any."""
        return [name for name in names if not (
            (part := self.parts.get(name)) and part.ended == "whole" and (older or part.commit == commit))]


def folders(below: Path = TESTS) -> list[str]:
    """Folders with test files of their own, by their ways from the checkout."""
    return sorted({str(path.parent.relative_to(ROOT)) for path in below.rglob("test_*.py")})


def run(folder: str, seed: int, limit: float, processes: int) -> Part:
    """The slow tests of a folder, of the present commit."""
    files = [str(path.relative_to(ROOT)) for path in sorted((ROOT / folder).glob("test_*.py"))]
    commit, start = results.commit(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="archloom-slow-") as place:
        counts = Path(place) / "counts.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "slow", f"--hypothesis-profile={PROFILE}",
                   f"--hypothesis-seed={seed}", f"--junitxml={counts}",
                   *(["-n", str(processes), "--dist", "worksteal"] if processes > 1 else []), *files]
        process = subprocess.Popen(command, cwd=ROOT, stdout=sys.stderr)
        ended = _ended(process, limit)
        part = Part(commit, round(time.monotonic() - start, 1), ended)
        return _counted(part, counts) if counts.exists() else part


def _ended(process: "subprocess.Popen[bytes]", limit: float) -> str:
    """Wait for pytest, interrupt it after the limit, and say how it ended."""
    try:
        status = process.wait(limit)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return "cut off"
    return "whole" if status in (0, 1, _NONE_COLLECTED) else f"broken ({status})"


def _counted(part: Part, counts: Path) -> Part:
    """The part with what pytest has written of its tests."""
    for case in ET.parse(counts).iter("testcase"):
        found = {child.tag for child in case}
        if found & {"failure", "error"}:
            part.failures.append(f"{case.get('classname')}::{case.get('name')}")
        elif "skipped" in found:
            part.skipped += 1
        else:
            part.passed += 1
    part.failures = sorted(set(part.failures))  # one may fail and then fail to be taken down
    part.failed = len(part.failures)
    return part


def go_on(state: State, args: argparse.Namespace, names: list[str]) -> None:
    """Part after part, until nothing is left or the time is up."""
    end = time.monotonic() + args.seconds
    for name in state.left(names, results.commit(), older=args.older):
        if time.monotonic() >= end:
            return
        state.parts[name] = part = run(name, state.seed, args.limit, args.processes)
        state.write(args.state)
        print(f"{name}: {part.ended}, {part.passed} passed, {part.failed} failed, {part.skipped} skipped, "
              f"{part.seconds:.0f} s", *part.failures, sep="\n  ", file=sys.stderr, flush=True)


def told(state: State, args: argparse.Namespace, names: list[str]) -> dict[str, Any]:
    """Sums over the parts that count, and the parts."""
    commit = results.commit()
    left = state.left(names, commit, older=args.older)
    there = {name: part for name in names
             if (part := state.parts.get(name)) and (args.older or part.commit == commit)}
    sums = {key: sum(getattr(part, key) for part in there.values()) for key in ("passed", "failed", "skipped")}
    commits = list(dict.fromkeys(part.commit for part in there.values()))
    return {"seed": state.seed, "profile": PROFILE, **sums, "parts_left": len(left),
            "seconds": round(sum(part.seconds for part in there.values())), "commits": commits, "left": left,
            "parts": {name: asdict(part) for name, part in there.items()},
            "origin": {**results.here(), **({"commit": commits[0]} if commits else {})}}  # of the first part


def begun(args: argparse.Namespace, names: list[str]) -> State:
    """What there is to go on with, or a new one."""
    if args.state.exists() and not args.again:
        found = State.read(args.state)
        if found.left(names, results.commit(), older=args.older):
            return found
    return State(args.seed)


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", action="append", help="this folder, from the checkout (tests/fuzz); repeatable")
    parser.add_argument("--limit", type=float, default=7200, help="seconds of a part (7200)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after these no further part is begun")
    parser.add_argument("--processes", type=int, default=2, help="of pytest (2)")
    parser.add_argument("--state", type=Path, default=BUILD / "slow_suites.json")
    parser.add_argument("--older", action="store_true", help="parts of other commits count, too")
    parser.add_argument("--again", action="store_true", help="begin anew")


def main() -> None:
    args = arguments((__doc__ or "").partition("\n")[0], _more, seeded=True)
    names = folders()
    if unknown := set(args.only or ()) - set(names):
        refuse(f"no folder of tests {', '.join(sorted(unknown))}: there are {', '.join(names)}")
    names = args.only or names
    args.state.parent.mkdir(parents=True, exist_ok=True)
    state = begun(args, names)
    go_on(state, args, names)
    counts = told(state, args, names)
    del args.seed  # the state's is told
    finish(args, counts)
    raise SystemExit(bool(counts["failed"] or counts["parts_left"]))


if __name__ == "__main__":
    main()
