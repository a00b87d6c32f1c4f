"""What is looked for, as users write it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.errors import InputError
from archloom.tvm_backend.search.objectives import Constraint, Missing, Objective, aims
from archloom.tvm_backend.search.sweep import values_of
from tests.support.examples import examples


def peak(report: Any) -> float:
    return float(report.peak_macs_per_cycle)


def test_objectives_are_names_functions_and_objects() -> None:
    found = aims(["seconds", "max:score", "utilization", "min:accuracy", peak, Objective("mine", True)])
    assert [str(o) for o in found.objectives] == [
        "min:seconds", "max:score", "max:utilization", "min:accuracy", "min:peak", "max:mine"]
    assert found.functions == {"peak": peak}
    assert aims("seconds, max:score").objectives == aims(("seconds", "max:score")).objectives
    assert aims("seconds", "area_mm2<=2,accuracy >= 0.97").constraints == (
        Constraint("area_mm2", 2.0), Constraint("accuracy", 0.97, -1))


@pytest.mark.parametrize("objectives, constraints, message", [
    ("", (), "expected at least one"), ("seconds,max:seconds", (), "'seconds' is named twice"),
    ("least:seconds", (), "'least:seconds': expected NAME, min:NAME or max:NAME"),
    ("a b", (), "'a b': expected a name of letters"), ([3], (), "objective 3: expected a name, a function"),
    ("seconds", "area_mm2<2", "'area_mm2<2': expected NAME<=NUMBER"),
    ("seconds", "area_mm2<=large", "expected NAME<=NUMBER"), ("seconds", ["area_mm2<=inf"], "expected NAME<=NUMBER")])
def test_what_is_wrong_is_said(objectives: Any, constraints: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        aims(objectives, constraints)


def test_a_figure_that_is_not_known_is_named() -> None:
    with pytest.raises(Missing, match="area_mm2: not known: areas of the target's graph are missing"):
        aims("area_mm2").values({"area_mm2": None})
    with pytest.raises(Missing, match="accuracy: not known: give it as a figure"):
        aims("seconds", "accuracy>=1").violations({"seconds": 1.0})
    with pytest.raises(Missing, match=r"secnds: neither a figure .* did you mean 'seconds'"):
        aims("secnds").values({"seconds": 1.0})
    for value in (math.nan, math.inf, -math.inf):
        with pytest.raises(InputError, match=f"score: expected a finite number, found {value}"):
            aims("score").values({"score": value})


numbers = st.floats(-9, 9)


@pytest.mark.slow
@examples(200, 5000)
@given(numbers, st.floats(0, 3), st.floats(0, 3), st.booleans(), numbers)
def test_bounds_of_figures_are_bounds_of_values(
    value: float, below: float, above: float, maximize: bool, limit: float
) -> None:
    wanted = aims([Objective("x", maximize)], [Constraint("x", limit, 1 if maximize else -1)])
    bounds = {"x": (value - below, value + above)}
    assert wanted.least_values(bounds) <= wanted.values({"x": value})
    assert wanted.least_violations(bounds) <= wanted.violations({"x": value})
    assert wanted.least_values({}) == (-math.inf,) == wanted.least_violations({})


@pytest.mark.parametrize("text, values", [
    ("4..64:x2", [4, 8, 16, 32, 64]), ("1..9:+4", [1, 5, 9]), ("1..3", [1, 2, 3]), ("64,128", ["64", "128"]),
    ("2..4,8", [2, 3, 4, "8"]), ("rtl", "rtl"), ("3..100:x5", [3, 15, 75])])
def test_ranges_of_options(text: str, values: Any) -> None:
    assert values_of(text) == values


@pytest.mark.parametrize("text", ["4..2", "0..8:x2", "1..8:x1", "1..2:+0", "0..999999"])
def test_ranges_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match=f"range {text!r}".replace("+", r"\+").replace(".", r"\.")):
        values_of(text)
