"""Tries inputs that nobody means well with, and faults of the system, and counts what comes of them (``tests/fuzz``).

``--inputs`` and ``--faults`` say how many; after ``--seconds`` no more are tried. What is done is written to
``--state`` after each part, with the commit that it was tried at: an interrupted run goes on there, whatever the
commit, and tells how many are of which; one that is whole begins anew where the code has changed since, or with
``--again``. What must not happen is told on stderr and kept under ``--keep``, a folder for each, with the words and the
files: in ``tests/data/fuzz`` the slow suite tries it again.

A hang takes more than 60 s of processors, its children's included, or does not end for five minutes
(``tests/support/limited.py``).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its tests and its archloom

from benchmarks import results
from benchmarks.common import BUILD, arguments, finish, refuse

if TYPE_CHECKING:
    from tests.fuzz.faults import Faults

FAULTS_OF_A_PART = 15


Counts: TypeAlias = dict[str, dict[str, int]]
"""By kind and by what came of it."""


@dataclass
class Tried:
    """What was tried of one commit, and the seconds that it took."""

    inputs: Counts = field(default_factory=dict)
    faults: Counts = field(default_factory=dict)
    seconds: float = 0


@dataclass
class State:
    """What was done of a seed's inputs and faults, by commits in their order."""

    seed: int
    tried: dict[str, Tried] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> "State | None":
        """What a file holds; None where it is of another form."""
        found = json.loads(path.read_text(encoding="utf-8"))
        if found.keys() != {"seed", "tried"}:
            return None
        return State(found["seed"], {commit: Tried(**tried) for commit, tried in found["tried"].items()})

    @property
    def inputs(self) -> Counts:
        return summed(tried.inputs for tried in self.tried.values())

    @property
    def faults(self) -> Counts:
        return summed(tried.faults for tried in self.tried.values())

    @property
    def seconds(self) -> float:
        return sum(tried.seconds for tried in self.tried.values())

    @property
    def inputs_done(self) -> int:
        return total(self.inputs)

    @property
    def faults_tried(self) -> int:
        return total(self.faults)

    @property
    def faults_done(self) -> int:
        """Those that met a command before it had ended."""
        return met(self.faults)

    def whole(self, args: argparse.Namespace) -> bool:
        return self.inputs_done >= args.inputs and self.faults_done >= args.faults

    def add(self, inputs: Counter[tuple[str, str]], faults: Counter[tuple[str, str]], seconds: float) -> None:
        """Of a part that is done: numbers by kind and outcome."""
        tried = self.tried.setdefault(results.commit(), Tried())
        for counts, found in (tried.inputs, inputs), (tried.faults, faults):
            for (kind, outcome), count in found.items():
                row = counts.setdefault(kind, {})
                row[outcome] = row.get(outcome, 0) + count
        tried.seconds += seconds


def summed(several: Iterable[Counts]) -> Counts:
    """The sums of some counts."""
    sums: dict[str, Counter[str]] = {}
    for counts in several:
        for kind, row in counts.items():
            sums.setdefault(kind, Counter()).update(row)
    return {kind: dict(row) for kind, row in sums.items()}


def total(counts: Counts) -> int:
    return sum(sum(row.values()) for row in counts.values())


def met(faults: Counts) -> int:
    """Faults that did not come too late."""
    return total(faults) - sum(row.get("late", 0) for row in faults.values())


def begun(args: argparse.Namespace) -> State:
    """What there is to go on with, or a new one."""
    if args.state.exists() and not args.again:
        found = State.read(args.state)
        if found is None:
            print(f"{args.state}: of another form, so all begins anew", file=sys.stderr)
        elif not found.whole(args) or [*found.tried][-1:] == [results.commit()]:
            return found
    return State(args.seed)


def inputs_of(state: State, args: argparse.Namespace, numbers: range) -> Counter[tuple[str, str]]:
    """Try these inputs."""
    from tests.fuzz import harness

    counts: Counter[tuple[str, str]] = Counter()
    for kind, found, outcome in harness.run(args.kinds, state.seed, numbers):
        counts[kind, outcome.kind] += 1
        if outcome.kind in harness.BAD:
            place = harness.keep(found, args.keep)
            print(f"{outcome.kind} ({outcome.status}): {kind} {place}: {' '.join(found.words)[:200]!r}: "
                  f"{outcome.printed.strip()[-1500:]}", file=sys.stderr, flush=True)
    return counts


def faults_of(state: State, faults: Faults) -> Counter[tuple[str, str]]:
    """Try some faults more."""
    first, counts = state.faults_tried, Counter[tuple[str, str]]()
    for number, (kind, reason) in enumerate(faults.run(state.seed, range(first, first + FAULTS_OF_A_PART)), first):
        counts[kind, {"": "survived", "late": "late"}.get(reason, "bad")] += 1
        if reason not in ("", "late"):
            print(f"fault {number} ({kind}): {reason[-1500:]}", file=sys.stderr, flush=True)
    return counts


def go_on(state: State, args: argparse.Namespace) -> None:
    """Part after part, of what is behind, until all is done or the time is up."""
    from tests.fuzz import harness
    from tests.fuzz.faults import Faults

    end = time.monotonic() + args.seconds
    harness.prepared()
    faults = Faults()
    while not state.whole(args) and time.monotonic() < end:
        start, nothing = time.monotonic(), Counter[tuple[str, str]]()
        done, behind = state.inputs_done, state.inputs_done * args.faults <= state.faults_done * args.inputs
        if done < args.inputs and (behind or state.faults_done >= args.faults):
            found = inputs_of(state, args, range(done, min(done + harness.TOGETHER, args.inputs))), nothing
        else:
            found = nothing, faults_of(state, faults)
        state.add(*found, time.monotonic() - start)
        written = args.state.with_suffix(".part")
        written.write_text(json.dumps(asdict(state)))
        written.replace(args.state)
        print(f"{state.inputs_done} inputs, {state.faults_done} faults, {state.seconds:.0f} s", file=sys.stderr,
              flush=True)
    faults.close()


def told(state: State) -> dict[str, Any]:
    """The counts."""
    from tests.fuzz.harness import BAD

    counts: Counter[str] = Counter()
    for found in state.inputs.values():
        counts.update(found)
    commits = {commit: {"inputs": total(tried.inputs), "faults": met(tried.faults), "seconds": round(tried.seconds)}
               for commit, tried in state.tried.items()}
    first = next(iter(commits), results.commit())
    return {"seed": state.seed, "inputs": state.inputs_done, "faults": state.faults_done,
            **{kind: counts[kind] for kind in ("refused", "accepted", *BAD)},
            "faults_bad": sum(found.get("bad", 0) for found in state.faults.values()),
            "seconds": round(state.seconds), "kinds": state.inputs, "fault_kinds": state.faults,
            "commits": commits, "inputs_of_commit": total(state.tried.get(first, Tried()).inputs),
            "origin": {**results.here(), "commit": first}}


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--faults", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--kinds", default=None, help="of tests/fuzz/inputs.py, with commas between (all)")
    parser.add_argument("--state", type=Path, default=BUILD / "fuzz.json")
    parser.add_argument("--keep", type=Path, default=BUILD / "fuzz")
    parser.add_argument("--again", action="store_true", help="begin anew")


def main() -> None:
    args = arguments((__doc__ or "").partition("\n")[0], _more, seeded=True)
    from tests.fuzz.inputs import KINDS

    args.kinds = args.kinds.split(",") if args.kinds else list(KINDS)
    if unknown := set(args.kinds) - set(KINDS):
        refuse(f"no kind {', '.join(sorted(unknown))}: there are {', '.join(KINDS)}")
    args.state.parent.mkdir(parents=True, exist_ok=True)
    state = begun(args)
    with tempfile.TemporaryDirectory(prefix="archloom-fuzz-cache-") as cache:
        os.environ["ARCHLOOM_CACHE_DIR"] = cache
        go_on(state, args)
    counts = told(state)
    del args.seed  # the state's is told
    finish(args, counts)
    raise SystemExit(any(counts[kind] for kind in ("traceback", "abort", "hang", "over_memory", "wrong", "faults_bad")))


if __name__ == "__main__":
    main()
