"""Copies that are handed on along lines of places are copies of the first place's, where places are apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from archloom.oracle import taidl
from archloom.oracle.affine import Affine
from archloom.oracle.interpreter import run
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import HbmTensor, Instr, Loop, Stream
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.xla.oracle import compile_stream
from archloom.oracle.xla.raising.relays import without_relays

LINE = """
isa line;

[places] (64) (4 x i8);

[take](dram, at, count) {
    %In:{count}x4xi8 <- $hbm[dram + {count : 4, 4 : 1}];
    %In -> $places[at + {count : 1}];
}
[hand](source, target, count) {
    %Block:{count}x4xi8 <- $places[source + {count : 1}];
    %Block -> $places[target + {count : 1}];
}
[give](dram, at, count) {
    %Out:{count}x4xi8 <- $places[at + {count : 1}];
    %Out -> $hbm[dram + {count : 4, 4 : 1}];
}
"""

H, R = Affine.variable("h"), Affine.variable("r")


@pytest.fixture
def isa(tmp_path: Path) -> Isa:
    path = tmp_path / "line.taidl"
    path.write_text(LINE)
    return taidl.load(path)


def stream(source: Affine, target: Affine, count: int, hops: range, rows: int = 1) -> Stream:
    """Fill all places, hand on along ``h`` for each of ``r``, and give all places back."""
    argument, result = HbmTensor("X", 64, (64, 4), "int8"), HbmTensor("Y", 320, (64, 4), "int8")
    hand = Instr.make("hand", source=source, target=target, count=count)
    body = (
        Instr.make("take", dram=64, at=0, count=64),
        Loop("h", hops.start, hops.stop, hops.step, (Loop("r", 0, rows, 1, (hand,)),)),
        Instr.make("give", dram=320, at=0, count=64),
    )
    return Stream("line", (), (argument,), (result,), 576, body)


def agrees(made: Stream, isa: Isa) -> bool:
    """Whether the stream is raised; AssertionError where its results are not the interpreter's."""
    x = np.random.default_rng(1).integers(-128, 128, (64, 4)).astype(np.int8)
    oracle = compile_stream(made, isa)
    np.testing.assert_array_equal(np.asarray(oracle(x)[0]), run(made, isa, {"X": x})["Y"])
    return oracle.raised


@pytest.mark.parametrize(("source", "target", "count", "hops", "rows"), [
    (H * 3, H * 3 + 3, 3, range(7), 1),
    (H * 16 + R * 4, H * 16 + R * 4 + 16, 2, range(3), 3),
    (H * 2 + R * 20 + 1, H * 2 + R * 20 + 3, 2, range(5), 3),
    (H * -3 + 40, H * -3 + 37, 3, range(6), 1),
    (H * 2, H * 2 + 6, 4, range(1, 16, 3), 1),
])
def test_lines_are_raised(isa: Isa, source: Affine, target: Affine, count: int, hops: range, rows: int) -> None:
    made = stream(source, target, count, hops, rows)
    assert agrees(made, isa)
    assert without_relays(resolve(made, isa)) != resolve(made, isa)


@pytest.mark.parametrize(("source", "target", "count", "rows"), [
    (H * 2, H * 2 + 2, 3, 1),  # places overlap
    (H * 4 + R * 8, H * 4 + R * 8 + 4, 2, 2),  # lines cross
    (H * 4, H * 4 + 8, 2, 1),  # what is handed on is not what came
    (H * 0, H * 0 + 4, 2, 1),  # the same for all
    (H * 4 % 12, (H + 1) * 4 % 12, 2, 1),  # in a ring
])
def test_what_is_no_line_is_left_alone(isa: Isa, source: Affine, target: Affine, count: int, rows: int) -> None:
    made = stream(source, target, count, range(5), rows)
    agrees(made, isa)
    resolved = resolve(made, isa)
    assert without_relays(resolved) is resolved
