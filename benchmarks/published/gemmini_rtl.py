"""ResNet-50 on Gemmini: its own software on the graph with the preset ``rtl``, against published runs of its RTL.

Published are the cycles of one run and the utilization of five, each with a change of hardware or software between
(``benchmarks/data/gemmini_rtl.json``). A layer is a stream in the software's tiles and the state machines' order
(``gemmini_loops.py``); layers, and calls of one layer, follow one another, as the software waits for each
(``gemmini_fence``). Nothing is fitted. Not modelled: what the CPU does between calls and, before #90, the global
average on it; address translation (the runs are bare-metal); L2 and DRAM are the latency that the graph assumes.
``--shares`` adds what each part of the preset accounts for.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.acadl_models.gemmini import gemmini
from archloom.acadl_models.timing import simulate
from archloom.oracle import taidl
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Stream
from archloom.uma_targets.gemmini.target import RTL
from benchmarks.common import arguments, finish
from benchmarks.published.gemmini_loops import Conv, Machine, Matmul, Shape, resadd_stream

DATA = Path(__file__).resolve().parents[1] / "data" / "gemmini_rtl.json"
STAGES = ((56, 64, 64, 256, 3), (28, 256, 128, 512, 4), (14, 512, 256, 1024, 6), (7, 1024, 512, 2048, 3))
"""Side of the results, channels in, inside and out, and blocks, of ResNet-50's stages (strides in the 3 x 3)."""

MOST_INSTRUCTIONS = 1 << 18
"""Of a stream: tiles along an image are written one by one, as their zeros differ."""

PARTS = ("first", "conv", "matmul", "downsample", "resadd")

Layer = tuple[Any, ...]
"""A kind, its sizes, and last how often it is called."""


@dataclass(frozen=True)
class Run:
    """What a published run had: see the data."""

    stay: bool
    downsample: str
    graph: tuple[tuple[str, Any], ...]

    @staticmethod
    def of(entry: Mapping[str, Any]) -> "Run":
        return Run(entry["stay"], entry["downsample"], tuple(sorted({**RTL, **entry["graph"]}.items())))


def layers(batch: int, downsample: str) -> Iterator[Layer]:
    """All layers of ResNet-50 that run on Gemmini, in the forms in which the software calls them."""
    yield "conv", (batch, 224, 3, 64, 7, 2, 3, (3, 2, 1)), 1
    for side, c, inside, out, blocks in STAGES:
        for block in range(blocks):
            first, given = block == 0, c if block == 0 else out
            stride = 2 if first and side < 56 else 1
            yield "matmul", (batch * (side * stride) ** 2, inside, given), 1
            yield "conv", (batch, side * stride, inside, inside, 3, stride, 1, None), 1
            yield "matmul", (batch * side ** 2, out, inside), 1
            if first and stride == 1:
                yield "matmul", (batch * side ** 2, out, given), 1
            elif first and downsample == "rows":
                yield "matmul", (side, out, given), batch * side
            elif first:
                yield "conv", (batch, side, given, out, 1, 1, 0, None), 1
            yield "resadd", (batch * side ** 2, out), 1
    yield "matmul", (batch, 1000, 2048), 1


def macs(kind: str, sizes: tuple[Any, ...]) -> int:
    """Multiply-accumulates of a call."""
    if kind == "matmul":
        return int(sizes[0] * sizes[1] * sizes[2])
    if kind == "resadd":
        return 0
    shape = Shape(*sizes)
    return shape.batch * shape.sums ** 2 * shape.c * shape.o * shape.kernel ** 2


def stream_of(kind: str, sizes: tuple[Any, ...], machine: Machine, stay: bool) -> Stream:
    """A call in the software's tiles."""
    if kind == "matmul":
        return Matmul.of(*sizes, machine).stream()
    if kind == "resadd":
        return resadd_stream(*sizes, machine)
    return Conv.of(Shape(*sizes), machine, stay).stream()


@cache
def call_cycles(kind: str, sizes: tuple[Any, ...], stay: bool, options: tuple[tuple[str, Any], ...]) -> int:
    """Cycles of a call on the graph with these options."""
    graph = gemmini(**dict(options))
    parameters = tuple(graph.parameters.items())
    stream = stream_of(kind, sizes, Machine(parameters), stay)
    isa = taidl.load("gemmini", **dict(parameters))
    return simulate(graph, resolve(stream, isa, max_instructions=MOST_INSTRUCTIONS)).cycles


def network(run: Run, batch: int, kinds: Sequence[str] = ("conv", "matmul", "resadd")) -> dict[str, int]:
    """Cycles of all layers of these ``kinds``, by what they are: first layer, 3 x 3, products, down-sampling,
    additions."""
    found = dict.fromkeys(PARTS, 0)
    for kind, sizes, calls in layers(batch, run.downsample):
        if kind not in kinds:
            continue
        part = kind
        if kind == "conv" and sizes[4] == 7:
            part = "first"
        elif calls > 1 or (kind == "conv" and sizes[4] == 1):
            part = "downsample"
        stay = run.stay or kind != "conv"
        found[part] += calls * call_cycles(kind, sizes, stay, run.graph)
    return found


def compared(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every published run with ours; published cycles follow from those of the reference and the utilizations."""
    ideal = data["cycles"] * next(e["utilization"] for e in data["runs"] if e["name"] == data["reference"])
    rows = []
    for entry in data["runs"]:
        parts = network(Run.of(entry), data["batch"])
        theirs, ours = ideal / entry["utilization"], sum(parts.values())
        rows.append({"run": entry["name"], "theirs": theirs, "ours": ours, "ratio": ours / theirs, "parts": parts})
        print(f"{entry['name']:16} {theirs:12,.0f} {ours:12,} {ours / theirs:6.2f}   "
              + " ".join(f"{cycles:11,}" for cycles in parts.values()), flush=True)
    return rows


CHANGES: dict[str, dict[str, Any]] = {
    "rows of the DMA are not requests of their own": {"row_requests": False},
    "two ports of each scratchpad bank": {"scratchpad_single_ported": False},
    "no state machines for loops": {"loop_entries": 0},
    "memory of 40 cycles (L2), not 100": {"dram_latency_cycles": 40},
    "40 cycles for the address of each page": {"page_cycles": 40},
}
"""What is changed in the preset for a share."""


def shares(data: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """By how much each change alters the cycles of the newest run.

    Over matrix products and additions, which wait for the DMA: convolutions of 3 x 3 with stride 1 keep the array busy
    98 % of the time whatever the memory does.
    """
    last = Run.of(data["runs"][0])

    def cycles(change: Mapping[str, Any]) -> int:
        graph = tuple(sorted({**dict(last.graph), **change}.items()))
        return sum(network(Run(last.stay, last.downsample, graph), data["batch"], ("matmul", "resadd")).values())

    whole = cycles({})
    for name, change in CHANGES.items():
        yield name, cycles(change) / whole - 1


def more(parser: ArgumentParser) -> None:
    parser.add_argument("--shares", action="store_true", help="what each part of the preset accounts for")


def main() -> None:
    args = arguments(__doc__.splitlines()[0], more)
    data = json.loads(DATA.read_text())
    print(f"{'run':16} {'theirs':>12} {'ours':>12} {'ratio':>6}   " + " ".join(f"{part:>11}" for part in PARTS))
    rows = compared(data)
    found = {}
    for name, share in shares(data) if args.shares else ():
        found[name] = share
        print(f"{name:48} {share:+6.1%}", flush=True)
    ratios = [row["ratio"] for row in rows]
    finish(args, {"runs": rows, "shares": found, "least": min(ratios), "most": max(ratios), "last": ratios[0]})


if __name__ == "__main__":
    main()
