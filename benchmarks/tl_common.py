"""What the benchmarks of the TL paper share: its recorded figures, means of ratios, and rank correlations."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, refuse

DATA = ROOT / "benchmarks" / "data"
NAME = "tl_reference.json"


def data(parser: argparse.ArgumentParser) -> None:
    """Adds ``--data``."""
    parser.add_argument("--data", type=Path, default=DATA, help=f"the folder of {NAME}")


def reference(folder: Path) -> Any:
    """The figures of the paper."""
    path = folder / NAME if folder.is_dir() else folder
    if not path.is_file():
        refuse(f"{path} is missing: --data must be the folder of {NAME}")
    return json.loads(path.read_text())


def geometric_mean(values: Iterable[float]) -> float:
    """Of positive values."""
    found = list(values)
    return math.exp(sum(map(math.log, found)) / len(found))


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation of the ranks, equal values having their mean rank."""
    ranks = []
    for values in (a, b):
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        ends = np.cumsum(counts)
        ranks.append((ends - (counts - 1) / 2)[inverse])
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
