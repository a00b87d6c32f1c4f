"""Less work never takes longer: random operators on every target, and the same with one extent made smaller.

Convolutions (image, channels, kernel of one of three sizes, stride) and products of matrices, of at most 2^24
multiply-accumulates each. Estimates are simulated, each operator is planned without any cache. A pair of which one
operator is refused, or is not taken by the target, is counted apart.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

import archloom
from archloom.mapper import disk
from archloom.oracle.errors import MappingError
from archloom.tvm_backend.targets.registry import BUILT_IN
from benchmarks.common import arguments, finish

ALLOWED = 1.01
MOST_MACS = 1 << 24
SIDES, CHANNELS, EXTENTS = (5, 64), (1, 256), (1, 1024)
"""From and to, both included: of images, of their channels, and of matrices."""

Sizes = dict[str, int]


def draw(rng: np.random.Generator) -> Sizes:
    """A convolution, or in one of three a product, that is small enough."""
    while True:
        if rng.random() < 1 / 3:
            found = {name: int(rng.integers(*EXTENTS, endpoint=True)) for name in "mnk"}
            macs = found["m"] * found["n"] * found["k"]
        else:
            found = {name: int(rng.integers(*SIDES, endpoint=True)) for name in "hw"}
            found |= {name: int(rng.integers(*CHANNELS, endpoint=True)) for name in "co"}
            found |= {"kernel": int(rng.choice((1, 3, 5))), "stride": int(rng.choice((1, 2)))}
            macs = found["h"] * found["w"] * found["c"] * found["o"] * found["kernel"]**2 // found["stride"]**2
        if macs <= MOST_MACS:
            return found


def less(sizes: Sizes, rng: np.random.Generator) -> Sizes:
    """The same with one of its extents smaller."""
    names = [name for name in sizes if name not in ("kernel", "stride")]
    name = str(rng.choice(names))
    least = SIDES[0] if name in "hw" else 1
    return {**sizes, name: int(rng.integers(min(least, sizes[name]), sizes[name], endpoint=True))}


def text(sizes: Sizes) -> str:
    """As an operator is written."""
    if "kernel" not in sizes:
        return "gemm(m={m},n={n},k={k})".format(**sizes)
    return ("conv2d(c={c},h={h},w={w},o={o},k={kernel},pad={pad},stride={stride})"
            .format(pad=sizes["kernel"] // 2, **sizes))


def cycles(sizes: Sizes, target: str) -> int | None:
    """None where the target does not take it, or it is refused."""
    try:
        report = archloom.estimate(text(sizes), target, host="none")
    except MappingError:
        return None
    return report.accelerator_cycles or None


def pairs(target: str, count: int, seed: int) -> Mapping[str, Any]:
    """Of a target: pairs that were compared, those in which less took longer, the worst ratio, and its operators."""
    rng = np.random.default_rng([seed, sorted(BUILT_IN).index(target)])
    worst, operators, violations, compared = 0.0, ("", ""), 0, 0
    for _ in range(count):
        whole = draw(rng)
        part = less(whole, rng)
        taken = cycles(whole, target), cycles(part, target)
        if taken[0] is None or taken[1] is None:
            continue
        ratio = taken[1] / taken[0]
        compared, violations = compared + 1, violations + (ratio > ALLOWED)
        if ratio > ALLOWED:
            print(f"{target}: {text(part)} over {text(whole)}: {ratio:.3f}", flush=True)
        if ratio > worst:
            worst, operators = ratio, (text(part), text(whole))
    return {"pairs": compared, "violations": violations, "worst": worst, "operators": operators}


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pairs", type=int, default=60, help="of each target (default 60)")
    parser.add_argument("--targets", default=",".join(sorted(BUILT_IN)), help="parted by commas (default: all)")


def main() -> None:
    args = arguments(__doc__ or "", _more, seeded=True)
    os.environ[disk.ENVIRONMENT] = ""
    found = {target: pairs(target, args.pairs, args.seed) for target in args.targets.split(",")}
    compared = sum(each["pairs"] for each in found.values())
    finish(args, {
        "narrow": found, "pairs": compared, "violations": sum(each["violations"] for each in found.values()),
        "worst": max(each["worst"] for each in found.values())})


if __name__ == "__main__":
    main()
