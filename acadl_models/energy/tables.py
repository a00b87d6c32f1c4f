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


TABLES = {"arithmetic": 3, "operations": 1, "memories": 6, "cells": 1, "dram": 1, "rates": 1, "nodes": 1}
"""The files, and how many columns name a row."""


def unchecked() -> list[str]:
    """The figures that were found stated at no second place, as ``TABLE: ROW[, COLUMN]``;
    ``sources.toml`` says where those of ``checked`` rows were found."""
    found = []
    for table, names in TABLES.items():
        for row in rows(table):
            what = f"{table}: {' '.join(list(row.values())[:names])}"
            found += [what + (f", {column.removesuffix('_checked')}" if "_" in column else "")
                      for column, value in row.items() if column.endswith("checked") and value != "true"]
    return found


@cache
def rate(name: str) -> Rate:
    """A row of ``rates.csv``."""
    row = next(row for row in rows("rates") if row["rate"] == name)
    process = Technology(float(row["node_nm"] or 45), float(row["volts"] or 0.9))
    return Rate(float(row["value"]), process)


@cache
def dram() -> Mapping[str, tuple[float, float | None]]:
    """Joules of a bit and of the activation of a row, by standard of memory."""
    return {row["standard"]: (1e-12 * float(row["picojoules_per_bit"]),
                              1e-12 * float(row["activation_picojoules"]) if row["activation_picojoules"] else None)
            for row in rows("dram")}
