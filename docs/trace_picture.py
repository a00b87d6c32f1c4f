"""Draws a trace of ``archloom trace`` as a picture, much as Perfetto shows it: a row for each thread, stalls in colour.

``python docs/trace_picture.py TRACE.json[.gz] PICTURE.png [COUNTER ...]``: rows, then the counters that are named.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

COLOURS = {
    "instruction": "#2d8a4b", "request": "#7f8fa6", "fetch": "#b0a08f", "queue": "#dde4ea",
    "stall,dependency": "#c0392b", "stall,storage": "#e08e0b", "stall,structural": "#e8c547", "stall,link": "#8e9a2f",
}
"""By category; steps are not drawn, the stalls in them are."""


def read(path: Path) -> dict[str, Any]:
    """The trace in a file."""
    data = path.read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return found


def draw(trace: dict[str, Any], picture: Path, counters: list[str]) -> None:
    """Draw all threads and the named counters."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    events = trace["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    templates = {pid: "" if name == trace["otherData"]["graph"] else f"{name}." for pid, name in processes.items()}
    threads = {e["tid"]: templates[e["pid"]] + e["args"]["name"] for e in events if e["name"] == "thread_name"}
    rows = {tid: k for k, tid in enumerate(threads)}
    window = trace["otherData"]["window"]
    figure, axes = pyplot.subplots(
        1 + len(counters), 1, sharex=True, figsize=(13, 0.22 * len(rows) + 1.1 * len(counters) + 1), squeeze=False,
        gridspec_kw={"height_ratios": [max(1, len(rows)), *[5] * len(counters)]},
    )
    top = axes[0][0]
    for category, colour in COLOURS.items():
        for tid, row in rows.items():
            bars = [(e["ts"], e["dur"]) for e in events if e["ph"] == "X" and e["tid"] == tid and e["cat"] == category]
            top.broken_barh(bars, (row - 0.4, 0.8), facecolors=colour, edgecolors="white", linewidth=0.3)
        top.broken_barh([], (0, 0), facecolors=colour, label=category.replace("stall,", "stall: "))
    top.set_yticks(list(rows.values()), list(threads.values()), fontsize=7)
    top.set_ylim(len(rows) - 0.5, -0.5)
    top.set_xlim(window["from"], window["to"])
    top.legend(ncols=len(COLOURS), fontsize=7, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
    for axis, name in zip(axes[1:, 0], counters):
        mine = (e for e in events if e["ph"] == "C" and templates[e["pid"]] + e["name"] == name)
        points = [(e["ts"], e["args"]["value"]) for e in mine]
        axis.step([t for t, _ in points] + [window["to"]], [v for _, v in points] + [points[-1][1]], where="post")
        axis.set_ylabel(name.replace(": ", "\n").replace(" per ", "\nper "), fontsize=6)
    axes[-1][0].set_xlabel(f"cycles of {trace['otherData']['stream']} on {trace['otherData']['graph']}")
    figure.tight_layout()
    figure.savefig(picture, dpi=90)


if __name__ == "__main__":
    draw(read(Path(sys.argv[1])), Path(sys.argv[2]), sys.argv[3:])
