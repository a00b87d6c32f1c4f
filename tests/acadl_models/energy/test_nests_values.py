"""Values that expressions over loops take together, and how often: as counted one instance after the other."""

from __future__ import annotations

import itertools
from collections import Counter
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.timing.nests import Nests
from archloom.acadl_models.timing.program import StaticLoop
from archloom.oracle.affine import Affine

VARIABLES = ("i", "j", "k")
steps = st.builds(lambda first, step, count: range(first, first + step * count, step),
                  st.integers(-3, 9), st.integers(1, 6), st.integers(0, 9))


@st.composite
def expressions(draw: st.DrawFn, depth: int = 2) -> Affine:
    found = Affine(draw(st.integers(-5, 5)))
    for _ in range(draw(st.integers(0, 3))):
        atom = Affine.variable(draw(st.sampled_from(VARIABLES)))
        if depth and draw(st.booleans()):
            inner, divisor = draw(expressions(depth - 1)), draw(st.integers(1, 6))
            atom = inner % divisor if draw(st.booleans()) else inner // divisor
        found = found + atom * draw(st.integers(-4, 4))
    return found


def nests(values: dict[str, range]) -> tuple[Nests, Any]:
    """An instruction in a loop for each variable."""
    found, static = Nests.__new__(Nests), SimpleNamespace(index=0)
    found.loops = {0: tuple(StaticLoop(var, each, (), n) for n, (var, each) in enumerate(values.items()))}
    return found, static


@given(st.fixed_dictionaries(dict.fromkeys(VARIABLES, steps)), st.lists(expressions(), max_size=2))
def test_they_are_counted_as_by_walking(values: dict[str, range], asked: list[Affine]) -> None:
    walked = Counter(
        tuple(e.evaluate(dict(zip(values, at))) for e in asked) for at in itertools.product(*values.values()))
    found, static = nests(values)
    rows, counts = found.values(static, *asked)
    assert dict(zip(map(tuple, rows.T.tolist()), counts.tolist(), strict=True)) == walked


def test_remainders_over_many_iterations_are_not_walked() -> None:
    found, static = nests(dict.fromkeys(VARIABLES, range(1 << 18)))
    i, j, k = map(Affine.variable, VARIABLES)
    ((rows,), counts) = found.values(static, 64 * ((i + 3 * j) % 2) + 8 * (k % 4) + 5)
    assert rows.tolist() == [5 + 64 * high + 8 * low for high in range(2) for low in range(4)]
    assert counts.tolist() == [(1 << 54) // 8] * 8
