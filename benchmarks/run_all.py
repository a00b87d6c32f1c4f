"""Measures what ``figures.toml`` defines and writes ``RESULTS.json`` and ``RESULTS.md``, each run's rows as they come.

Without arguments all runs that are not measured of the present commit and definition: what was interrupted goes on
where it stopped. Names of scripts, or whole keys, choose; ``--again`` measures anew whatever is there. ``--write``
measures nothing and writes the files anew. Exit status 1 where a figure is missed, failed or not measured. Docs take
their figures from RESULTS.json (``benchmarks/docs.py``, ``fidelity.py``), which is done here, too.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks import docs, fidelity, results
from benchmarks.common import child
from benchmarks.figures import FigureError, Run, load, shown
from benchmarks.run import find


def measured(run: Run) -> dict[str, object]:
    """What is kept of a run: its figures, or why there are none."""
    origin = {**results.here(), "definition": run.definition}
    found = child([sys.executable, str(find(run.script)), *run.arguments.split(), "--json"])
    kept = {**origin, "seconds": round(found.seconds), "seed": None}
    try:  # a script that finds its figures wrong ends with status 1, after its JSON
        result = found.last_json
        origin |= result.get("origin", {})  # what was measured on another machine, and kept
        return {**kept, **origin, "seed": result.get("seed"), "figures": results.row(run, result),
                **({"kept": results.kept(run, result)} if run.keep else {})}
    except (IndexError, json.JSONDecodeError):
        return {**kept, "failed": f"status {found.status}"}
    except FigureError as error:
        return {**kept, "failed": str(error)}


def tell(run: Run, kept: Mapping[str, object], state: results.Results) -> None:
    """The rows of a run for people."""
    if "failed" in kept:
        print(f"{run.key}: failed: {kept['failed']}", flush=True)
    for figure in run.figures:
        if found := results.values(state, run).get(figure.read):
            print(f"{figure.name:70} {shown(found['value']):>12}  target {figure.demand:14} "
                  f"{figure.verdict(found['value'])}", flush=True)


def chosen(runs: Mapping[str, Run], asked: list[str], parser: argparse.ArgumentParser) -> list[Run]:
    """The runs that are asked for by script or key; all if none is."""
    unknown = [name for name in asked if not any(name in (run.key, run.script) for run in runs.values())]
    if unknown:
        parser.error(f"no run {', '.join(unknown)}; there are {', '.join(runs)}")
    return [run for run in runs.values() if not asked or run.key in asked or run.script in asked]


def current(state: results.Results, run: Run, commit: str) -> bool:
    """Whether a run has all its figures of this commit, whose tree has no changes."""
    kept = state["runs"].get(run.key, {})
    same = kept.get("commit") == commit and not commit.endswith("+")
    return same and len(results.values(state, run)) == len(run.figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", help="scripts, or scripts with their arguments (default: all)")
    parser.add_argument("--again", action="store_true", help="measure what is measured of this commit, too")
    parser.add_argument("--write", action="store_true", help="measure nothing: write the files from what is kept")
    args = parser.parse_args()
    runs, state = load(), results.read()
    for run in [] if args.write else chosen(runs, args.only, parser):
        origin = results.here()
        if not args.again and current(state, run, str(origin["commit"])):
            continue
        state["runs"][run.key] = kept = measured(run)
        state = results.write({**state, **{key: origin[key] for key in ("commit", "date", "machine")}}, runs)
        tell(run, kept, state)
    results.write(state, runs)
    docs.write(state, runs)
    fidelity.write(state, runs)
    left, wrong = results.unmeasured(state, runs), results.missed(state, runs)
    print(f"{len(wrong)} missed, {len(left)} not measured: {results.MARKDOWN}")
    print(*(f"not measured: {name}" for name in left), sep="\n")
    raise SystemExit(1 if left or wrong else 0)


if __name__ == "__main__":
    main()
