"""Address equations of the raiser against enumeration."""

from __future__ import annotations

from contextlib import suppress
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from archloom.oracle.affine import Affine
from archloom.oracle.resolved import Window, WindowDim
from archloom.oracle.xla.notation.limits import Unraisable
from archloom.oracle.xla.raising.match import exact_range, match
from tests.support.examples import examples


def window(offset: Affine, *dims: tuple[int, int]) -> Window:
    return Window("b", (offset,), tuple(WindowDim(0, extent, stride) for extent, stride in dims))


def v(name: str) -> Affine:
    return Affine.variable(name)


@st.composite
def problems(draw: st.DrawFn):
    """A write in mixed radix over two loops and two axes, and a read over two variables."""
    extents = [draw(st.integers(1, 4)) for _ in range(4)]
    strides, stride = [], 1
    for extent in extents:
        stride *= draw(st.integers(1, 2))
        strides.append(stride)
        stride *= extent
    order = draw(st.permutations(range(4)))
    size = stride
    i, j, a, b = (order.index(n) for n in range(4))
    offset = v("i") * strides[i] + v("j") * strides[j] + draw(st.integers(0, 3))
    write = window(offset, (extents[a], strides[a]), (extents[b], strides[b]))
    unknown = {"i": (0, extents[i] - 1), "j": (0, extents[j] - 1)}
    ranges = {"x": (0, draw(st.integers(0, 5))), "y": (0, draw(st.integers(0, 5)))}
    address = v("x") * draw(st.integers(1, size)) + v("y") * draw(st.integers(1, 5)) + draw(st.integers(-2, size))
    return write, unknown, address, ranges


def hits(write: Window, unknown: dict, address: int) -> list[dict[str, int]]:
    found = []
    (a, b) = write.dims
    for i, j in product(range(unknown["i"][1] + 1), range(unknown["j"][1] + 1)):
        for p, q in product(range(a.extent), range(b.extent)):
            if write.offsets[0].evaluate({"i": i, "j": j}) + p * a.stride + q * b.stride == address:
                found.append({"i": i, "j": j, 0: p, 1: q})
    return found


@examples(120, 1500)
@given(problems())
def test_solution_is_the_hit(problem):
    write, unknown, address, ranges = problem
    solved = match(write, {}, unknown, (address,), ranges)
    for x, y in product(*(range(low, high + 1) for low, high in ranges.values())):
        here = {"x": x, "y": y}
        found = hits(write, unknown, address.evaluate(here))
        assert len(found) <= 1
        if solved is None:
            assert not found
        elif solved.partial is not None:
            c = solved.partial
            if found:
                assert c.low <= c.form.evaluate(here) <= c.high
        else:
            assert found
            for name, digit in solved.digits.items():
                assert digit.evaluate(here) == found[0][name]


@st.composite
def overlapping(draw: st.DrawFn):
    """A write of any strides that hits no element twice, and a read over two variables."""
    extents = [draw(st.integers(1, 4)) for _ in range(4)]
    strides = [draw(st.integers(1, 30)) for _ in range(4)]
    places = [sum(x * s for x, s in zip(at, strides, strict=True)) for at in product(*map(range, extents))]
    assume(len(set(places)) == len(places))
    offset = v("i") * strides[0] + v("j") * strides[1]
    write = window(offset, (extents[2], strides[2]), (extents[3], strides[3]))
    unknown = {"i": (0, extents[0] - 1), "j": (0, extents[1] - 1)}
    ranges = {"x": (0, draw(st.integers(0, 5))), "y": (0, draw(st.integers(0, 5)))}
    address = v("x") * draw(st.sampled_from(strides)) + v("y") * draw(st.sampled_from(strides))
    return write, unknown, address + draw(st.integers(-2, 9)), ranges


def checked(write: Window, unknown: dict, address: Affine, ranges: dict) -> int:
    """How many elements are solved for, condition by condition along single variables; each as by enumeration."""
    solved = match(write, {}, unknown, (address,), ranges)
    condition = solved.partial if solved is not None else None
    if condition is not None:
        name = exact_axis(condition.form)
        if name is None:
            return 0
        low, high = ranges[name]
        shift, count = condition.form.constant, 0
        first, last = max(low, condition.low - shift), min(high, condition.high - shift)
        assert (first, last) != (low, high)
        for a, b in ((low, first - 1), (first, last), (last + 1, high)):
            if a <= b:
                count += checked(write, unknown, address.simplify({**ranges, name: (a, b)}), {**ranges, name: (a, b)})
        return count
    count = 0
    for x, y in product(*(range(low, high + 1) for low, high in ranges.values())):
        here = {"x": x, "y": y}
        found = hits(write, unknown, address.evaluate(here))
        assert bool(found) == (solved is not None)
        if solved is not None:
            assert {name: digit.evaluate(here) for name, digit in solved.digits.items()} == found[0]
        count += 1
    return count


def exact_axis(form: Affine) -> str | None:
    """The variable of a form that is one and a constant."""
    (*terms,) = form.terms
    return terms[0][0] if len(terms) == 1 and isinstance(terms[0][0], str) and terms[0][1] == 1 else None


@examples(60, 1500)
@given(overlapping())
def test_strides_that_overlap_are_solved_or_refused(problem):
    with suppress(Unraisable):
        checked(*problem)


@pytest.mark.parametrize("dims", [((2, 28), (2, 26), (4, 6)), ((2, 28), (2, 26), (7, 4))])
def test_diagonals_of_an_array_are_solved(dims):
    """Rows that are handed on along a diagonal: one row up is one column less."""
    (loop, stride), *rest = dims
    for j in range(2):  # the second where the column is told from the row
        ranges = {"x": (0, loop - 1), "y": (0, rest[1][0] - 1)}
        address = v("x") * stride + v("y") * rest[1][1] + 26 * j
        write = window(v("i") * stride, *rest)
        assert checked(write, {"i": (0, loop - 1), "j": (0, 0)}, address, ranges) == loop * rest[1][0]


def test_double_buffering_cancels():
    slot = (v("k") % 2) * 64
    found = match(window(slot + v("i") * 16, (16, 1)), {}, {"i": (0, 3)}, (slot + v("r"),), {"k": (0, 9), "r": (0, 63)})
    assert found is not None and found.partial is None
    assert found.digits == {"i": v("r") // 16, 0: v("r") % 16}


def test_edge_tile_is_a_condition_on_the_axis():
    ranges = {"m": (0, 99), "n": (0, 69)}
    found = match(window(v("i") * 70 + 64, (6, 1)), {}, {"i": (0, 99)}, (v("m") * 70 + v("n"),), ranges)
    assert found is not None and found.partial is not None
    assert (found.partial.form, found.partial.low, found.partial.high) == (v("n") - 64, 0, 5)


def test_variable_that_the_address_lacks_stays_free():
    found = match(window(v("i") * 4, (4, 1)), {}, {"i": (0, 3), "k": (0, 7)}, (v("x"),), {"x": (0, 15)})
    assert found is not None and "k" not in found.digits


def test_other_slots_are_out_of_reach():
    assert match(window((v("k") % 2) * 64 + 256, (64, 1)), {}, {}, (v("x"),), {"x": (0, 63), "k": (0, 9)}) is None


def test_known_loops_are_substituted():
    found = match(window(v("i") * 4, (4, 1)), {"i": v("x") // 4}, {}, (v("x"),), {"x": (0, 15)})
    assert found is not None and found.partial is None and found.digits[0] == v("x") % 4


def test_overlapping_writes_are_refused():
    with pytest.raises(Unraisable, match="hits elements more than once"):
        match(window(v("i") * 2, (4, 1)), {}, {"i": (0, 3)}, (v("x"),), {"x": (0, 9)})


def test_slots_of_the_write_alone_are_refused():
    with pytest.raises(Unraisable, match="not affine in its loop"):
        match(window((v("k") % 2) * 4, (4, 1)), {}, {"k": (0, 3)}, (v("x"),), {"x": (0, 3)})


@given(st.integers(-9, 9), st.integers(1, 9), st.integers(-30, 30), st.integers(0, 40))
def test_exact_range(factor, divisor, constant, last):
    form = (v("x") * factor + constant) % divisor + v("x") // 3
    values = [form.evaluate({"x": x}) for x in range(last + 1)]
    low, high = exact_range(form, {"x": (0, last)})
    assert low <= min(values) and high >= max(values)
    if not form.is_linear:
        assert (low, high) == (min(values), max(values))
