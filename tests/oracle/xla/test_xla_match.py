"""Address equations of the raiser against enumeration."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
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
