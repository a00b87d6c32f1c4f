"""Unrolled repetitions become loops, and no instance, order or attribute changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.affine import Affine
from archloom.oracle.assembly import to_text
from archloom.oracle.rolling import roll
from archloom.oracle.stream import Instr, Loop, Node, Parallel, Stream
from tests.support.examples import examples
from tests.support.oracle.flat_trace import flat_trace
from tests.support.oracle.strategies import arbitrary_streams

V = Affine.variable


def stream(body: list[Node]) -> Stream:
    return Stream("x", (), (), (), 0, tuple(body))


def lines(body: list[Node]) -> list[str]:
    """The rolled body as text; the instances are those of ``body``."""
    rolled = roll(stream(body))
    assert list(flat_trace(rolled)) == list(flat_trace(stream(body)))
    return [line.strip() for line in to_text(rolled).splitlines()[3:]]


def op(name: str, **attributes: Affine | int) -> Instr:
    return Instr.make(name, **attributes)


def test_a_repeated_instruction() -> None:
    assert lines([op("a", x=4 * i + 1, y=7) for i in range(5)]) == ["loop u0 in 0..5 {", "a x=4*u0 + 1, y=7", "}"]


def test_a_nest() -> None:
    body = [node for i in range(4) for node in (op("row", r=i), *(op("cell", at=10 * i + 2 * j) for j in range(3)))]
    assert lines(body) == ["loop u1 in 0..4 {", "row r=u1", "loop u0 in 0..3 {", "cell at=2*u0 + 10*u1", "}", "}"]


def test_two_buffers_in_turn_are_a_loop_of_pairs() -> None:
    assert lines([op("a", at=i, buffer=16 * (i % 2)) for i in range(8)]) == [
        "loop u0 in 0..4 {", "a at=2*u0, buffer=0", "a at=2*u0 + 1, buffer=16", "}"]


def test_a_first_iteration_of_its_own() -> None:
    body = [node for i in range(3) for k in range(5) for node in (op("load", at=5 * i + k), op("mac", add=int(k > 0)))]
    assert len(roll(stream(body)).body) == 1
    assert "mac add=1" in lines(body) and "mac add=0" in lines(body)


def test_what_stands_around_stays() -> None:
    body = [op("begin"), *(op("a", x=i) for i in range(4)), op("end"), op("end")]
    assert lines(body) == ["begin", "loop u0 in 0..4 {", "a x=u0", "}", "end", "end"]


def test_loops_of_the_stream_are_rolled_inside_and_as_wholes() -> None:
    def loop(base: int) -> Loop:
        return Loop("i", 0, 2, 1, tuple(op("a", x=V("i") * 8 + base + k) for k in range(3)))

    body: list[Node] = [loop(100 * n) for n in range(3)]
    assert lines(body) == [
        "loop u1 in 0..3 {", "loop i in 0..2 {", "loop u0 in 0..3 {", "a x=8*i + u0 + 100*u1", "}", "}", "}"]


def test_cores_keep_to_themselves() -> None:
    rolled = roll(stream([Parallel("core", 2, "x", tuple(op("a", x=V("core") + n) for n in range(3)))]))
    assert rolled.body == (Parallel("core", 2, "x", (Loop("u0", 0, 3, 1, (op("a", x=V("core") + V("u0")),)),)),)


@pytest.mark.parametrize("body", [
    [], [op("a", x=0)], [op("a", x=0), op("a", x=1)], [op("a", x=i * i) for i in range(6)],
    [op("abcdefgh"[i], x=i) for i in range(8)], [op("a", x=0), op("a", y=1), op("a", z=2)],
    [Loop(f"v{n}", 0, n + 2, 1, (op("a", x=V(f"v{n}")),)) for n in range(4)],
])
def test_what_does_not_repeat_stays_as_it_is(body: list[Node]) -> None:
    whole = stream(body)
    assert roll(whole) is whole


def test_names_that_are_taken() -> None:
    body = [Loop("u0", 0, 2, 1, tuple(op("a", x=V("u0") + 9 * n) for n in range(3)))]
    assert lines(list(body))[1] == "loop uu0 in 0..3 {"


def test_long_sequences_take_little_time_and_space() -> None:
    body = [op("abcde"[k], x=5 * i + k, y=i // 100) for i in range(4000) for k in range(5)]
    rolled = roll(stream(body))
    assert rolled.count() == 20000 and len(to_text(rolled).splitlines()) < 200


@st.composite
def repetitive(draw: st.DrawFn, depth: int = 3) -> list[Instr]:
    """Python loops over instructions, some of whose attributes do not grow evenly."""
    def body(level: int) -> Callable[[int], list[Instr]]:
        makers = [maker(level) for _ in range(draw(st.integers(1, 3)))]
        return lambda base: [node for make in makers for node in make(base)]

    def maker(level: int) -> Callable[[int], list[Instr]]:
        if level and draw(st.booleans()):
            inner, count, step = body(level - 1), draw(st.integers(0, 5)), draw(st.integers(-9, 9))
            return lambda base: [node for i in range(count) for node in inner(base + step * i)]
        name, scale, modulus = draw(st.sampled_from("abc")), draw(st.integers(-2, 2)), draw(st.integers(1, 5))
        return lambda base: [op(name, x=base * scale, y=base % modulus)]

    return body(depth)(draw(st.integers(-99, 99)))


def test_pairs_are_loops_where_that_is_asked_for() -> None:
    body = [node for i in range(2) for node in (op("row", r=i * i), op("cell", at=i), op("cell", at=i + 4))]
    whole = stream(list(body))
    assert roll(whole) is whole
    assert [line.strip() for line in to_text(roll(whole, 2)).splitlines()[3:]] == [
        "loop u0 in 0..2 {", "row r=u0", "cell at=u0", "cell at=u0 + 4", "}"]


@examples(100, 1000)
@given(repetitive(), st.integers(2, 3))
def test_the_instances_stay_what_they_were(body: list[Instr], least: int) -> None:
    rolled = roll(stream(list(body)), least)
    assert list(flat_trace(rolled)) == list(flat_trace(stream(list(body))))
    assert roll(rolled).count() == rolled.count() == len(body)


@examples(50, 500)
@given(arbitrary_streams())
def test_any_stream_keeps_its_count(made: Stream) -> None:
    assert roll(made).count() == made.count()
