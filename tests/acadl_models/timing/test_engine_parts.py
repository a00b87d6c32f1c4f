"""The pieces of the fast engine against plain enumeration: patterns, intersections, periods, latencies."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from archloom.acadl_models.acadl.latency import Num, parse
from archloom.acadl_models.timing.engine.jit import entry, pointer
from archloom.acadl_models.timing.engine.layout import MAX_DIMS
from archloom.acadl_models.timing.engine.lowering.expressions import Periods
from archloom.acadl_models.timing.engine.lowering.latencies import arguments, simplify
from archloom.acadl_models.timing.engine.lowering.patterns import beats, pattern, runs, words
from archloom.acadl_models.timing.engine.phases import conflicts
from archloom.acadl_models.timing.engine.state import M
from archloom.oracle.affine import Affine

progressions = st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 4)), max_size=3).map(tuple)


def values_of(dims: tuple[tuple[int, int], ...]) -> set[int]:
    """Every sum of the progressions."""
    found = {0}
    for stride, extent in dims:
        found = {v + stride * i for v in found for i in range(extent)}
    return found


@given(progressions, st.integers(1, 5))
def test_patterns_have_the_runs_of_their_values(dims: tuple[tuple[int, int], ...], port: int) -> None:
    expected = sorted(values_of(dims))
    found = pattern(dims)
    assert found.origin == expected[0]
    assert found.span == expected[-1] - expected[0]
    assert found.dense == (len(expected) == found.span + 1)
    relative = [v - expected[0] for v in expected]
    assert [v for first, n in runs(found) for v in range(first, first + n)] == relative
    assert all(a + n < b for (a, n), (b, _) in zip(runs(found), runs(found)[1:]))
    assert words(found) == len(expected)
    assert beats(found, port) == sum(-(-n // port) for _, n in runs(found))


@entry
def meets(tables, machine, p, q, target):  # type: ignore[no-untyped-def]
    return conflicts.is_sum(pointer(tables), pointer(machine), p, q, target)


@settings(deadline=None)
@given(progressions, progressions)
def test_accesses_meet_where_their_values_do(a: tuple[tuple[int, int], ...], b: tuple[tuple[int, int], ...]) -> None:
    first, second = pattern(a), pattern(b)
    tables = np.array([*first.flat(), *second.flat()], dtype=np.int64)
    machine = np.zeros(M.SIZE + 5 * MAX_DIMS, np.int64)
    machine[M.WORK] = M.SIZE
    mine = {v - first.origin for v in values_of(a)}
    theirs = {v - second.origin for v in values_of(b)}
    for shift in range(-second.span, first.span + 1):
        expected = not mine.isdisjoint(v + shift for v in theirs)
        assert meets(tables, machine, 0, len(first.flat()), shift + second.span) == expected, shift


def random_affine(r: Random, depth: int = 2) -> Affine:
    total = Affine(r.randint(-5, 5))
    for name in ("i", "j"):
        total = total + Affine.variable(name) * r.randint(-3, 3)
    if depth and r.random() < 0.8:
        inner = random_affine(r, depth - 1)
        part = inner % r.randint(2, 6) if r.random() < 0.5 else inner // r.randint(2, 4)
        total = total + part * r.randint(-2, 2)
    return total


@given(st.randoms(use_true_random=False), st.sampled_from((1, 2, 3, -1)))
def test_an_expression_moves_by_its_shift_after_its_period(r: Random, step: int) -> None:
    e = random_affine(r)
    iterations, shift = Periods({"i": step, "j": 1}).moves(e).get("i", (1, 0))
    for i in range(-3 * abs(step), 12, abs(step)):
        for j in range(-2, 5):
            here = e.evaluate({"i": i, "j": j})
            assert e.evaluate({"i": i + iterations * step, "j": j}) == here + shift


def random_latency(r: Random, depth: int = 3) -> str:
    if depth == 0 or r.random() < 0.2:
        return r.choice(("a", "b", "c", "words", str(r.randint(0, 4))))
    one, two = random_latency(r, depth - 1), random_latency(r, depth - 1)
    kind = r.choice(("op", "op", "if", "call", "not", "divide"))
    if kind == "op":
        return f"({one} {r.choice(('+', '-', '*', '<', '<=', '==', '!=', '>', '>=', 'and', 'or'))} {two})"
    if kind == "divide":
        return f"({one} {r.choice(('//', '%'))} {r.randint(1, 4)})"
    if kind == "if":
        return f"({one} if {random_latency(r, depth - 1)} else {two})"
    return f"(not {one})" if kind == "not" else f"{r.choice(('min', 'max'))}({one}, {two})"


@settings(max_examples=300)
@given(st.randoms(use_true_random=False))
def test_simplified_latencies_have_the_same_values(r: Random) -> None:
    """What ranges decide may go, but no value may change; what is left names what it depends on."""
    i = Affine.variable("i")
    names = {"a": i, "b": Affine(r.randint(0, 3)), "c": i % 3 + 5}
    expression = parse(random_latency(r))
    left = simplify(expression, names, {"i": (2, 9)})
    for value in range(2, 10):
        for count in (1, 7):
            given_values = {"a": value, "b": names["b"].constant, "c": value % 3 + 5, "words": count}
            expected = expression.evaluate({n: given_values[n] for n in expression.names})
            again = expression.__class__("", left, frozenset(given_values)).evaluate(given_values)
            assert again == expected
    if isinstance(left, Num):
        assert not arguments(left, names)


def test_a_register_that_is_never_none_is_decided() -> None:
    names = {"pre_addr": Affine.variable("k") * 16 + 256, "dim": Affine(16)}
    left = simplify(parse("dim if pre_addr != 4294967295 else 4"), names, {"k": (0, 1000)})
    assert left == Num(16)
