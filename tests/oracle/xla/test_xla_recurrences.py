"""Sums that several instructions hand on, from one iteration of a loop to the next, are sums over the loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.assembly import parse
from archloom.oracle.xla import compile_stream
from tests.support.examples import examples
from tests.support.oracle.agreement import agree, isa_of

ISA = isa_of("""
[memory] (128) (2 x i8);       # a word takes two rows of two bytes
[data] (32) (4 x i32);
[line] (64) (4 x i32);

[load](dram, at) {
    %Bytes:1x4x4xi8 <- $hbm[dram + {1 : 0, 4 : 4, 4 : 1}];
    %Words:1x4xi32 = bitcast_convert(%Bytes);
    %Words -> $data[at : at + 1];
}
[begin](word, from) {
    %Words:1x4xi32 <- $data[from : from + 1];
    %Bytes:1x4x4xi8 = bitcast_convert(%Words);
    %Rows:4x2x2xi8 = reshape(%Bytes);
    %Rows -> $memory[word + {4 : 2, 2 : 1}, 0:2];
}
[take](word, at) {
    %Rows:4x2x2xi8 <- $memory[word + {4 : 2, 2 : 1}, 0:2];
    %Bytes:4x4xi8 = reshape(%Rows);
    %Flat:4xi32 = bitcast_convert(%Bytes);
    %Words:1x4xi32 = reshape(%Flat);
    %Words -> $line[at : at + 1];
}
[add](at, from) {
    %Old:1x4xi32 <- $line[at : at + 1];
    %More:1x4xi32 <- $data[from : from + 1];
    %Square:1x4xi32 = multiply(%More, %More);
    %New:1x4xi32 = add(%Square, %Old);
    %New -> $line[at : at + 1];
}
[up](at, source) {
    %In:1x4xi32 <- $line[source : source + 1];
    %Old:1x4xi32 <- $line[at : at + 1];
    %New:1x4xi32 = add(%Old, %In);
    %New -> $line[at : at + 1];
}
[clear](at) { %Zero:1x4xi32 = constant(0); %Zero -> $line[at : at + 1]; }
[turn](at) {
    %Old:1x4xi32 <- $line[at : at + 1];
    %One:1x4xi32 = constant(1);
    %New:1x4xi32 = xor(%Old, %One);
    %New -> $line[at : at + 1];
}
[give](word, at) {
    %Words:1x4xi32 <- $line[at : at + 1];
    %Bytes:1x4x4xi8 = bitcast_convert(%Words);
    %Rows:4x2x2xi8 = reshape(%Bytes);
    %Rows -> $memory[word + {4 : 2, 2 : 1}, 0:2];
}
[store](dram, word) {
    %Rows:4x2x2xi8 <- $memory[word + {4 : 2, 2 : 1}, 0:2];
    %Bytes:1x4x4xi8 = reshape(%Rows);
    %Bytes -> $hbm[dram + {1 : 0, 4 : 4, 4 : 1}];
}
""")


@dataclass(frozen=True)
class Passes:
    """``rounds`` in which the sums of ``places`` go through lines of ``steps`` places each.

    Every other round has places of its own where ``slots`` is 2. Sums come back ``moved`` vectors further, and are
    changed otherwise with ``turned``.
    """

    rounds: int
    places: int
    steps: int
    slots: int
    moved: int = 0
    turned: bool = False

    @property
    def text(self) -> str:
        at = f"{self.steps * self.slots}*p + {self.steps}*(r % {self.slots})"
        lines = [f"clear at={at} + {step}" for step in range(1, self.steps)]
        lines += [f"add at={at} + {step}, from=r + p + {step}" for step in range(self.steps)]
        lines += [f"up at={at} + {step}, source={at} + {step - 1}" for step in range(1, self.steps)]
        last = f"{at} + {self.steps - 1}"
        lines += [f"turn at={last}"] * self.turned
        body = [f"take word=8*p, at={at}", *lines, f"give word=8*p + {8 * self.moved}, at={last}"]

        def each(var: str, count: int, inner: list[str]) -> list[str]:
            return [f"loop {var} in 0..{count} {{", *inner, "}"]

        return "\n".join([
            ".stream passes", ".isa t", ".hbm 1024", ".arg X int32[24,4] @64", ".result Y int32[14,4] @512",
            *each("l", 24, ["load dram=16*l + 64, at=l"]), *each("b", 14, ["begin word=8*b, from=b"]),
            *each("r", self.rounds, [x for line in body for x in each("p", self.places, [line])]),
            *each("s", 14, ["store dram=16*s + 512, word=8*s"]), ""])


@st.composite
def passes(draw: st.DrawFn) -> Passes:
    slots, steps = draw(st.sampled_from((1, 2))), draw(st.integers(1, 4))
    places = draw(st.integers(1, min(6, 64 // (slots * steps))))
    return Passes(draw(st.integers(2, 6)), places, steps, slots, draw(st.sampled_from((0, 0, 0, 1, 2))),
                  draw(st.sampled_from((False, False, True))))


def values() -> dict[str, np.ndarray]:
    return {"X": np.random.default_rng(3).integers(-(1 << 30), 1 << 30, (24, 4)).astype(np.int32)}


@pytest.mark.slow
@examples(6, 150)
@given(passes())
def test_what_is_handed_on_is_right(made: Passes) -> None:
    agree(made.text, ISA, values())
    if not made.moved:
        assert compile_stream(parse(made.text), ISA).raised


def test_sums_that_wander_over_instructions_are_looked_for_where_loops_carry_them() -> None:
    report = compile_stream(parse(Passes(5, 4, 3, 2).text), ISA).report
    assert [s.strategy for s in report.strategies] == ["as it stands", "with recurrences"]
    assert report.raised and "carries a value" in report.strategies[0].reason


@pytest.mark.parametrize("turned", [False, True])
def test_sums_and_chains_equal_the_loops(turned: bool) -> None:
    made = Passes(5, 3, 2, 2, turned=turned)
    agree(made.text, ISA, values())
    assert compile_stream(parse(made.text), ISA).raised


@pytest.mark.first_case
@pytest.mark.parametrize("made", [Passes(4, 4, 2, 1, moved=1), Passes(3, 2, 2, 2, moved=2)])
def test_what_comes_back_elsewhere_is_no_sum(made: Passes) -> None:
    """Sums wander from place to place: each is that of the place before, not of its own."""
    agree(made.text, ISA, values())
