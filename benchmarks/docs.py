"""Figures in the pages: each stands between two comments that name it, and is written from ``RESULTS.json``.

``<!-- figure RUN: WAY -->1.77<!-- / -->`` is the value of the figure that the run has at that way into its JSON (as
``read`` in ``figures.toml``); ``WAY worst`` is its worst, and ``%`` behind it makes per cent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from benchmarks.common import ROOT
from benchmarks.figures import FigureError, Run, shown
from benchmarks.results import Results, values

MARK = re.compile(
    r"<!-- figure (?P<run>[^:]+): (?P<way>.+?)(?P<part> worst)?(?P<percent> %)? -->(?P<text>.*?)<!-- / -->")


def pages() -> list[Path]:
    """Where figures may stand."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def filled(text: str, results: Results, runs: Mapping[str, Run]) -> str:
    """The text of a page with the figures of the results; FigureError for one that is not registered."""
    def anew(mark: re.Match[str]) -> str:
        return mark[0].removesuffix(f"{mark['text']}<!-- / -->") + f"{_figure(mark, results, runs)}<!-- / -->"

    return MARK.sub(anew, text)


def write(results: Results, runs: Mapping[str, Run]) -> None:
    """All pages anew."""
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = filled(before, results, runs)
        if after != before:
            page.write_text(after, encoding="utf-8")


def _figure(mark: re.Match[str], results: Results, runs: Mapping[str, Run]) -> str:
    run = runs.get(mark["run"])
    if run is None or not any(figure.read == mark["way"] for figure in run.figures):
        raise FigureError(f"{mark[0]}: figures.toml has no such figure")
    found = values(results, run).get(mark["way"], {}).get("worst" if mark["part"] else "value")
    if found is None:
        return "not measured"
    return f"{shown(100 * found)} %" if mark["percent"] else shown(found)
