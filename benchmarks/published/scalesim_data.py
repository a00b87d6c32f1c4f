"""SCALE-Sim's recorded layers and its network tables, as matrix products."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from archloom.acadl_models.options import Size, facts_of
from archloom.acadl_models.systolic_array import DATAFLOWS, Design
from benchmarks.common import refuse
from benchmarks.published.systolic import Problem


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
    """The product of a row: its M, N and K, or what its ``dims`` say; ValueError if it has neither."""
    if all(row.get(d) for d in "MNK"):
        return Problem(_size(row, "M"), _size(row, "N"), _size(row, "K"))
    dims = row.get("dims") or ""
    problem = _named(dims)
    if problem is None:
        raise ValueError(f"expected M, N and K, or dims like m1_n2_k3 or i8x8_f3x3_c3_n8_s1x1, found dims {dims!r}")
    return problem


def _named(dims: str) -> Problem | None:
    """The product that ``dims`` spells, None if it spells none or one without a size."""
    sizes = [int(text) for text in re.findall(r"\d+", dims)]
    if 0 in sizes:
        return None
    if re.fullmatch(r"m\d+_n\d+_k\d+", dims):
        return Problem(*sizes)
    if re.fullmatch(r"i\d+x\d+_f\d+x\d+_c\d+_n\d+_s\d+x\d+", dims):
        product = convolution(*sizes)
        return product if product.m > 0 else None
    return None


def _size(row: Mapping[str, str], column: str, least: int = 1) -> int:
    text = row.get(column) or ""
    if not text.strip().isdecimal() or int(text) < least:
        raise ValueError(f"{column} must be an integer of at least {least}, found {text!r}")
    return int(text)


def _layer(row: Mapping[str, str]) -> Layer:
    dataflow = (row.get("dataflow") or "").strip().lower()
    if dataflow not in DATAFLOWS:
        raise ValueError(f"dataflow must be one of {', '.join(DATAFLOWS)}, found {row.get('dataflow')!r}")
    for column in ("sram_ifmap_reads", "sram_filter_reads", "sram_ofmap_writes"):
        if row.get(column):
            _size(row, column, 0)
    for column in RATIOS:
        if row.get(column):
            float(row[column])
    _size(row, "compute_cycles", 0)
    rows, columns = _size(row, "rows"), _size(row, "cols")
    most = {name: fact.high for name, fact in facts_of(Design).items() if isinstance(fact, Size)}
    for name, value, largest in (("rows", rows, most["rows"]), ("cols", columns, most["columns"])):
        if value > largest:
            raise ValueError(f"{name} must be at most {largest}, found {value}")
    return Layer(problem_of(row), dataflow, rows, columns, row)


RATIOS = ("overall_util_pct", "mapping_eff_pct", "avg_ifmap_sram_bw", "avg_filter_sram_bw", "wall_s")
"""Columns with numbers that need not be integers; a table may lack them."""


def layers(directory: Path) -> list[Layer]:
    """The rows of ``cycles.csv`` in a directory; what cannot be read is refused with its line."""
    path = directory / "cycles.csv"
    if not path.is_file():
        refuse(f"{path}: no such file; --data names a directory with cycles.csv")
    found = []
    line = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            for row in reader:
                line = reader.line_num
                found.append(_layer(row))
    except (ValueError, csv.Error) as error:
        refuse(f"{path}:{line}: {error}")
    if not found:
        refuse(f"{path}:1: expected a line of column names and at least one row, found no row")
    return found


def _convolution(cells: list[int]) -> Problem:
    """A line of a table: height, width, filter height and width, channels, filters, and one stride or two."""
    h, w, fh, fw, channels, filters, stride, *other = cells
    return convolution(h, w, fh, fw, channels, filters, stride, other[0] if other else stride)


def networks(directory: Path) -> Iterator[tuple[str, list[Problem]]]:
    """The network tables of a directory: name and layers in order."""
    for path in sorted(directory.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            table = [[cell.strip() for cell in row if cell.strip()] for row in csv.reader(file)]
        problems = []
        for line, row in enumerate(table[1:], 2):
            if len(row) >= 8:
                if not all(cell.isdecimal() and int(cell) for cell in row[1:]):
                    refuse(f"{path}:{line}: expected a name and sizes of at least 1, found {', '.join(row)}")
                problems.append(_convolution([int(cell) for cell in row[1:]]))
        yield path.stem, problems
