"""Draws Figures 7, 9 and 10 of the MTE paper from what ``benchmarks/RESULTS.json`` keeps of the run ``mte``.

``python docs/mte_pictures.py``: after each recording of that run. The paper prints points without numbers: what its
text states of them is drawn beside ours. Each picture names the recorded numbers that it is of (:func:`digest`).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))  # its benchmarks and its archloom

from benchmarks.common import ROOT, refuse
from benchmarks.published.mte import NAMES, PAPER
from benchmarks.published.mte_kernels import CATEGORIES

IMAGES = ROOT / "docs" / "images"
RESULTS = ROOT / "benchmarks" / "RESULTS.json"
COLOURS = dict(zip(NAMES, ("#8c8c8c", "#4c72b0", "#937860", "#c44e52", "#55a868", "#dd8452"), strict=True))
STORE = ("mte8s", "mte32s", "mte32v")
"""Those of figure 10, the first of which the others are compared with."""

Kept = Mapping[str, Sequence[Any]]
Draw = Callable[[Any, Kept], None]


def recorded(path: Path = RESULTS) -> Kept:
    """What is kept of the run; ends the script where it keeps no cases."""
    kept: Kept = json.loads(path.read_text("utf-8"))["runs"].get("mte", {}).get("kept", {})
    if "cases.*.channels" not in kept:
        refuse(f"{path}: expected cases kept of the run mte, found none: benchmarks/run_all.py mte records them")
    return kept


def digest(kept: Kept) -> str:
    """Of what is drawn."""
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def efficiencies(kept: Kept, name: str, transformers: bool) -> list[tuple[int, float]]:
    """Channels (or columns of C) and percent of the peak, by channels, else as recorded; AMX by the name ``amx``."""
    values = kept["cases.*.amx" if name == "amx" else f"cases.*.{name}.efficiency"]
    rows = zip(kept["cases.*.channels"], kept["cases.*.transformer"], values, strict=True)
    points = [(channels, 100 * value) for channels, of, value in rows if of == transformers]
    return sorted(points, key=lambda point: point[0])


def figure7(axes: Any, kept: Kept) -> None:
    """Efficiency of each case, convolutions and products; and by category beside what the text states."""
    for axis, transformers in zip(axes, (False, True)):
        for paper, name in NAMES.items():
            points = efficiencies(kept, name, transformers)
            axis.plot(range(len(points)), [value for _, value in points], ".-", color=COLOURS[paper], label=paper,
                      linewidth=0.8, markersize=4)
        _by_channels(axis, [channels for channels, _ in points])
        axis.set_title("transformers" if transformers else "convolutions")
    axes[1].set_xlabel("columns of C")
    _above(axes[0])
    last = axes[2]
    bars = list(CATEGORIES)
    ours = kept["efficiency.*.ours"][:len(bars)]
    last.plot(bars, ours, "o-", color=COLOURS["SiFiveInt"], label="SiFiveInt")
    last.plot(bars, PAPER["efficiency_percent"]["SiFiveInt_by_category"], "x--", color=COLOURS["SiFiveInt"],
              label="SiFiveInt, paper")
    for paper in ("MTE32v", "MTE32s"):
        said = PAPER["efficiency_percent"][paper]
        last.plot(bars, [_mean(kept, NAMES[paper], of) for of in bars], "o-", color=COLOURS[paper], label=paper)
        last.plot(bars[:1], [said["I"]], "x", color=COLOURS[paper], label=f"{paper}, paper")
        last.fill_between(bars[1:], *said["II_to_VI_range"], color=COLOURS[paper], alpha=0.15)
    last.set_title("means of categories")
    last.set_xlabel("category; bands: the paper's range")
    _above(last)


def _mean(kept: Kept, name: str, category: str) -> float:
    """Mean efficiency in a category, in percent."""
    ends = [0, *CATEGORIES.values()]
    place = list(CATEGORIES).index(category)
    return 100 * statistics.mean(value for channels, value in zip(
        kept["cases.*.channels"], kept[f"cases.*.{name}.efficiency"], strict=True)
        if ends[place] < channels <= ends[place + 1])


def figure9(axes: Any, kept: Kept) -> None:
    """Convolutions on AMX and on MTE32v, with their means, ours and the paper's."""
    for name, paper, colour in (("amx", "AMX", "#4c72b0"), ("mte32v", "MTE32v", COLOURS["MTE32v"])):
        points = efficiencies(kept, name, transformers=False)
        axes.plot(range(len(points)), [value for _, value in points], ".-", color=colour, label=paper, linewidth=0.8)
        mean = statistics.mean(value for _, value in points)
        axes.axhline(mean, color=colour, linewidth=1, label=f"{paper}, mean {mean:.1f}")
        said = PAPER["efficiency_percent"]["fig9"][paper]
        axes.axhline(said, color=colour, linewidth=1, linestyle="--", label=f"{paper}, the paper's mean {said}")
    _by_channels(axes, [channels for channels, _ in points])
    _above(axes)


def figure10(axes: Any, kept: Kept) -> None:
    """Energies over those of MTE8s by category, geometric means, register files and all else; the paper's of VI."""
    width = 0.8 / len(STORE)
    ends = [0, *CATEGORIES.values()]
    papers = {ours: paper for paper, ours in NAMES.items()}
    for number, name in enumerate(STORE):
        heights, shares = [], []
        for first, last in itertools.pairwise(ends):
            mine = [i for i, channels in enumerate(kept["cases.*.channels"]) if first < channels <= last]
            joules, base, registers = ([kept[way][i] for i in mine] for way in (
                f"cases.*.{name}.joules", f"cases.*.{STORE[0]}.joules", f"cases.*.{name}.registers"))
            heights.append(statistics.geometric_mean(a / b for a, b in zip(joules, base, strict=True)))
            shares.append(statistics.mean(a / b for a, b in zip(registers, joules, strict=True)))
        places = [k + (number - 1) * width for k in range(len(heights))]
        paper = papers[name]
        axes.bar(places, heights, width * 0.9, color=COLOURS[paper], label=paper)
        axes.bar(places, [h * s for h, s in zip(heights, shares)], width * 0.9, color="black", alpha=0.6)
        if name != STORE[0]:
            said = 1 - PAPER["energy"]["category_VI_improvement_over_MTE8s_percent"][paper] / 100
            axes.plot(places[-1:], [said], "x", color="black", label="paper, VI" if name == STORE[1] else None)
    axes.bar([0], [0], color="black", alpha=0.6, label="of it vector registers")
    axes.set_xticks(range(len(CATEGORIES)), list(CATEGORIES))
    axes.set_ylabel("energy over MTE8s")
    axes.set_xlabel("category")
    _above(axes)


def _above(axis: Any) -> None:
    """The legend above the axes, where it hides nothing."""
    axis.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0, 1.08), ncols=3, frameon=False, borderaxespad=0)


def _by_channels(axis: Any, channels: Sequence[int]) -> None:
    """Cases in the order of their channels, marked where a power of two is passed."""
    marks = {size: sum(c <= size for c in channels) - 1 for size in (32, 64, 128, 256, 512, 2048)}
    there = {size: place for size, place in marks.items() if place >= 0 and size in channels}
    axis.set_xticks(list(there.values()), [f"{size}" for size in there], fontsize=7)
    axis.set_ylim(bottom=0)  # a point above the peak would be a fault, and is to be seen
    axis.set_xlabel("output channels")
    axis.set_ylabel("% of the peak")


PICTURES: Mapping[str, tuple[Draw, int, tuple[float, float]]] = {
    "mte_figure7.svg": (figure7, 3, (12, 4)), "mte_figure9.svg": (figure9, 1, (8, 3.6)),
    "mte_figure10.svg": (figure10, 1, (8, 3.6)),
}
"""By file: what draws it, how many axes lie beside one another, and inches."""


def draw(kept: Kept, folder: Path) -> None:
    """All pictures into a folder; the same bytes for the same numbers."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "archloom"
    from matplotlib import pyplot

    for name, (of, count, size) in PICTURES.items():
        figure, axes = pyplot.subplots(1, count, figsize=size)
        of(axes, kept)
        figure.tight_layout()
        figure.savefig(folder / name, metadata={"Date": None, "Description": digest(kept)})
        pyplot.close(figure)


if __name__ == "__main__":
    draw(recorded(), IMAGES)
