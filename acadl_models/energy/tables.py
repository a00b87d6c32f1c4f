"""The files of ``data``, read once."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from archloom.acadl_models.acadl.components import Technology

_DATA = files("archloom.acadl_models.energy").joinpath("data")


@dataclass(frozen=True)
class Rate:
    """A figure by itself, in SI units but for square millimetres, at the process where it was taken."""

    value: float
    process: Technology


@cache
def rows(name: str) -> tuple[Mapping[str, str], ...]:
    """The rows of ``data/NAME.csv`` by column."""
    return tuple(csv.DictReader(_DATA.joinpath(f"{name}.csv").read_text("utf-8").splitlines()))


@cache
def sources() -> Mapping[str, Mapping[str, str]]:
    """What the sources are, and how far off their figures may be, by the names that the tables use."""
    return tomllib.loads(_DATA.joinpath("sources.toml").read_text("utf-8"))


@cache
def rate(name: str) -> Rate:
    """A row of ``rates.csv``."""
    row = next(row for row in rows("rates") if row["rate"] == name)
    process = Technology(float(row["node_nm"] or 45), float(row["volts"] or 0.9))
    return Rate(float(row["value"]), process)


@cache
def dram_bits() -> Mapping[str, float]:
    """Joules of a bit by standard of memory."""
    return {row["standard"]: 1e-12 * float(row["picojoules_per_bit"]) for row in rows("dram")}
