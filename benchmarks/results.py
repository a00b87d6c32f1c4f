"""``RESULTS.json``: what was measured, when, where, of which commit; and ``RESULTS.md``, made of it.

``runs`` has, by the keys of ``figures.toml``, an object with ``commit``, ``date``, ``machine``, ``python``, ``seed``
(null where nothing is drawn), ``seconds``, ``definition`` (:attr:`benchmarks.figures.Run.definition`) and
``figures``: by its way into the script's JSON each figure's ``value``, with ``worst`` and ``beside`` where it has
them; in ``kept``, by the ways that the run names, lists of numbers (null: not published). A run that failed has
``failed`` in place of figures. ``commit`` is null where it is not known, and ends in ``+`` where the tree had changes.
``unmeasured`` lists every figure that has no value by its present definition.
Thresholds stand in ``figures.toml`` alone: nothing here says what is met.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.common import ROOT
from benchmarks.figures import Figure, FigureError, Run, Value, checked, every, number, shown

JSON, MARKDOWN = (Path(__file__).with_name(f"RESULTS.{kind}") for kind in ("json", "md"))
NO_CODE = ("benchmarks/RESULTS.*", "docs", "*.md")
"""What may change without a measurement being of another commit."""

Results: TypeAlias = dict[str, Any]


def read(path: Path = JSON) -> Results:
    """What is kept; an empty one if nothing is."""
    found: Results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"commit": None, "runs": {}}
    return found


def commit() -> str:
    """The last commit that changed code, with ``+`` if the tree has changes."""
    paths = ["--", ".", *(f":(exclude){path}" for path in NO_CODE)]
    changed = _git("status", "--porcelain", *paths)
    return _git("log", "-1", "--format=%h", *paths) + ("+" if changed else "")


def _git(*words: str) -> str:
    run = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return run.stdout.strip()


def here() -> dict[str, str | None]:
    """Commit, date and machine of what is measured now."""
    return {"commit": commit(), "date": str(datetime.date.today()), "machine": f"{os.cpu_count()} cores of {_cpu()}",
            "python": platform.python_version()}


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def row(run: Run, result: Mapping[str, Any]) -> dict[str, dict[str, Value]]:
    """The figures of a run, read from what its script ended with; FigureError where one is not there."""
    return {figure.read: {"value": number(result, figure.read), **{
        part: number(result, way) for part, way in parts(figure).items()}} for figure in run.figures}


def kept(run: Run, result: Mapping[str, Any]) -> dict[str, list[Value | None]]:
    """The numbers of single cases that a run keeps; FigureError where one is not there."""
    return {way: [None if found is None else checked(found, way) for found in every(result, way)] for way in run.keep}


def parts(figure: Figure) -> dict[str, str]:
    """What stands beside a figure's value: the ways to it."""
    return {part: way for part, way in (("worst", figure.worst), ("beside", figure.beside)) if way}


def values(results: Results, run: Run) -> dict[str, dict[str, Value]]:
    """The figures of a run that were measured by its present definition, by their ways."""
    found: dict[str, dict[str, Value]] = _of(results, run).get("figures", {})
    return {figure.read: found[figure.read] for figure in run.figures
            if {"value", *parts(figure)} <= found.get(figure.read, {}).keys()}


def cases(results: Results, run: Run, way: str) -> list[Value | None]:
    """What was measured by the present definition at a way that the run keeps, or that a figure has; none if nothing.

    FigureError for a way that is neither."""
    for figure in run.figures:
        if part := {figure.read: "value", **{way: part for part, way in parts(figure).items()}}.get(way):
            found = values(results, run).get(figure.read)
            return [found[part]] if found else []
    if way not in run.keep:
        raise FigureError(f"{run.key}: expected a way of one of its figures or that it keeps, found {way!r}")
    numbers: list[Value | None] = _of(results, run).get("kept", {}).get(way, [])
    return numbers


def _of(results: Results, run: Run) -> dict[str, Any]:
    """What is kept of a run by its present definition."""
    kept: dict[str, Any] = results["runs"].get(run.key, {})
    return kept if kept.get("definition") == run.definition else {}


def unmeasured(results: Results, runs: Mapping[str, Run]) -> list[str]:
    """The figures without a value, as ``run: name``."""
    return [f"{run.key}: {figure.name}" for run in runs.values() for figure in run.figures
            if figure.read not in values(results, run)]


def missed(results: Results, runs: Mapping[str, Run]) -> list[str]:
    """The figures that do not meet their thresholds, as ``run: name``."""
    return [f"{run.key}: {figure.name}" for run in runs.values() for figure in run.figures
            if (found := values(results, run).get(figure.read)) and figure.holds(found["value"]) is False]


def written(results: Results, runs: Mapping[str, Run]) -> Results:
    """What goes into ``RESULTS.json``: the registered runs in their order, and what is not measured."""
    return {**results, "unmeasured": unmeasured(results, runs),
            "runs": {key: results["runs"][key] for key in runs if key in results["runs"]}}


def write(results: Results, runs: Mapping[str, Run]) -> Results:
    """Writes both files; a reader sees the old ones or the new ones."""
    kept = written(results, runs)
    for path, text in ((JSON, json.dumps(kept, indent=1) + "\n"), (MARKDOWN, markdown(kept, runs))):
        part = path.with_suffix(path.suffix + ".part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    return kept


def markdown(results: Results, runs: Mapping[str, Run]) -> str:
    """``RESULTS.md``."""
    lines = ["# Results", "", *_head(results, runs)]
    for run in runs.values():
        lines += ["", f"## `{run.key}`", "", *_definition(run), "", _origin(results, run), "",
                  "| figure | measured | beside | target | |", "|---|---|---|---|---|",
                  *(_line(figure, values(results, run).get(figure.read)) for figure in run.figures)]
    return "\n".join(lines) + "\n"


def _head(results: Results, runs: Mapping[str, Run]) -> Iterator[str]:
    count = sum(len(run.figures) for run in runs.values())
    yield (f"Written by `make bench` from `figures.toml` and `RESULTS.json`, never by hand. {count} figures; the run "
           f"is of commit {_named(results.get('commit'))}. Times on a shared machine vary; ratios vary less.")
    for what, found in (("Missed", missed(results, runs)), ("Not measured", unmeasured(results, runs))):
        yield from ("", f"{what} ({len(found)}):", "", *(f"- {name}" for name in found or ("none",)))


def _definition(run: Run) -> Iterator[str]:
    for part in ("work", "baseline", "cases", "samples"):
        yield f"- {part}: {getattr(run, part)}"


def _origin(results: Results, run: Run) -> str:
    """Where the rows of a run come from, and whether that is another commit or definition than the present one."""
    kept = results["runs"].get(run.key)
    if kept is None:
        return "**Not measured.**"
    said = [f"{_named(kept['commit'])}, {kept['date']}, {kept['machine']}"]
    said += [f"{name} {kept[key]:,}{unit}" for name, key, unit in (("seed", "seed", ""), ("took", "seconds", " s"))
             if kept.get(key) is not None]
    if kept["commit"] != results["commit"] or kept["commit"] is None:
        said.append("**of another commit than the run's**")
    if kept["definition"] != run.definition:
        said.append("**by another definition: not shown**")
    if "failed" in kept:
        said.append(f"**failed: {kept['failed']}**")
    return "Measured at " + "; ".join(said) + "."


def _named(commit: str | None) -> str:
    return f"`{commit}`" if commit else "unknown"


def _line(figure: Figure, found: Mapping[str, Value] | None) -> str:
    if found is None:
        return f"| {figure.name} | not measured | | {figure.demand} | NOT MEASURED |"
    beside = ", ".join(f"{part if part == 'worst' else way} {shown(found[part])}"
                       for part, way in parts(figure).items())
    return (f"| {figure.name} ({figure.aggregate}) | {shown(found['value'])} | {beside} | {figure.demand} | "
            f"{figure.verdict(found['value'])} |")
