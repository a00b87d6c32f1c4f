"""Joules and areas of scalar operations, by operator and element type."""

from __future__ import annotations

import math
from functools import lru_cache

from archloom.acadl_models.acadl.components import Technology
from archloom.acadl_models.energy import hwcomponents, scaling, tables
from archloom.oracle.taidl.types import element_type

BASE = Technology(45, 0.9)
"""The process of ``data/arithmetic.csv``."""

ADD, MULTIPLY = "add", "multiply"


@lru_cache(maxsize=1024)
def joules(operation: str, dtype: str, technology: Technology) -> float | None:
    """Of one ``operation`` on numbers of type ``dtype``; None where no table has it."""
    if operation in (ADD, MULTIPLY):
        if _is_of_hwcomponents(dtype, technology):
            return _by_hwcomponents(operation, dtype, technology)[0]
        found = _figure(operation, dtype, "picojoules")
        return None if found is None else scaling.energy(1e-12 * found, BASE, technology)
    row = next((row for row in tables.rows("operations") if operation in row["operations"].split()), None)
    if row is None:
        return None
    parts = [(int(row["adds"]), joules(ADD, dtype, technology)),
             (int(row["multiplies"]), joules(MULTIPLY, dtype, technology))]
    if int(row["divides"]):
        product = joules(MULTIPLY, dtype, technology)
        parts.append((int(row["divides"]), None if product is None else tables.rate("division").value * product))
    if int(row["exponentials"]):
        parts.append((int(row["exponentials"]), joules("exp", dtype, technology)))
    return None if any(each is None for _, each in parts) else sum(count * (each or 0.0) for count, each in parts)


def known_joules(operation: str, dtype: str, technology: Technology) -> float:
    """Of an operation that the tables have."""
    found = joules(operation, dtype, technology)
    assert found is not None, f"no table has {operation} {dtype}"
    return found


def area_mm2(operation: str, dtype: str, technology: Technology) -> float | None:
    """Of a unit for one ``operation``, ``add`` or ``multiply``."""
    if _is_of_hwcomponents(dtype, technology):
        return _by_hwcomponents(operation, dtype, technology)[1]
    found = _figure(operation, dtype, "square_micrometres")
    return None if found is None else scaling.area(1e-6 * found, BASE, technology)


def _is_of_hwcomponents(dtype: str, technology: Technology) -> bool:
    return technology.library == hwcomponents.NAME and element_type(dtype).kind in ("int", "uint")


def _by_hwcomponents(operation: str, dtype: str, technology: Technology) -> tuple[float, float]:
    """Joules and square millimetres, which it scales to the node itself, and which are scaled to the supply here."""
    known = Technology(technology.node_nm, devices=technology.devices)
    joules, area = {ADD: hwcomponents.add, MULTIPLY: hwcomponents.multiply}[operation](
        element_type(dtype).bits, known.node_nm)
    return scaling.energy(joules, known, technology), area


def _figure(operation: str, dtype: str, column: str) -> float | None:
    """A column of the table for a type: of a width between two of the table, or beyond, on the power law through the
    two that are nearest."""
    kind, bits = element_type(dtype).kind, element_type(dtype).bits
    if kind not in ("bool", "int", "uint", "float"):
        return None
    if dtype == "bf16":
        whole = _figure(operation, "f16", column)
        return None if whole is None else tables.rate(f"bf16_{operation}").value * whole
    table = sorted((int(row["bits"]), float(row[column])) for row in tables.rows("arithmetic")
                   if row["operation"] == operation and row["kind"] == ("float" if kind == "float" else "int"))
    if len(table) < 2:
        return None
    (few, low), (many, high) = sorted(sorted(table, key=lambda entry: abs(math.log(entry[0] / bits)))[:2])
    exponent = math.log(high / low) / math.log(many / few)
    return low * (bits / few) ** exponent
