"""SCALE-Sim's recorded layers and its network tables, as matrix products."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from uma_targets.systolic_array.folds import Problem


@dataclass(frozen=True)
class Layer:
    """A recorded row: the product, the array, and what SCALE-Sim gave."""

    problem: Problem
    dataflow: str
    rows: int
    columns: int
    record: Mapping[str, str]

    @property
    def cycles(self) -> int:
        return int(self.record["compute_cycles"])

    @property
    def wall_s(self) -> float:
        return float(self.record.get("wall_s") or 0)


def convolution(h: int, w: int, fh: int, fw: int, channels: int, filters: int, sh: int, sw: int) -> Problem:
    """A convolution as SCALE-Sim sees it: no padding, and ``ceil((size - filter + stride) / stride)`` outputs."""
    out_h, out_w = -(-(h - fh + sh) // sh), -(-(w - fw + sw) // sw)
    return Problem(out_h * out_w, filters, fh * fw * channels)


def problem_of(row: Mapping[str, str]) -> Problem:
    """The product of a row: its M, N and K, or what its ``dims`` say."""
    if all(row.get(d) for d in "MNK"):
        return Problem(int(row["M"]), int(row["N"]), int(row["K"]))
    dims = row["dims"]
    if found := re.fullmatch(r"m(\d+)_n(\d+)_k(\d+)", dims):
        return Problem(*map(int, found.groups()))
    if found := re.fullmatch(r"i(\d+)x(\d+)_f(\d+)x(\d+)_c(\d+)_n(\d+)_s(\d+)x(\d+)", dims):
        return convolution(*map(int, found.groups()))
    raise SystemExit(f"{row}: neither M, N, K nor dims like m1_n2_k3 or i8x8_f3x3_c3_n8_s1x1")


def layers(directory: Path) -> list[Layer]:
    """The rows of ``cycles.csv`` in a directory."""
    path = directory / "cycles.csv"
    if not path.is_file():
        raise SystemExit(f"{path}: no such file; --data names a directory with cycles.csv")
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Layer(problem_of(r), r["dataflow"].lower(), int(r["rows"]), int(r["cols"]), r) for r in csv.DictReader(file)
        ]


def _convolution(cells: list[int]) -> Problem:
    """A line of a table: height, width, filter height and width, channels, filters, and one stride or two."""
    h, w, fh, fw, channels, filters, stride, *other = cells
    return convolution(h, w, fh, fw, channels, filters, stride, other[0] if other else stride)


def networks(directory: Path) -> Iterator[tuple[str, list[Problem]]]:
    """The network tables of a directory: name and layers in order."""
    for path in sorted(directory.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            table = [[cell.strip() for cell in row if cell.strip()] for row in csv.reader(file)]
        rows = [row for row in table[1:] if len(row) >= 8]
        yield path.stem, [_convolution([int(cell) for cell in row[1:]]) for row in rows]
