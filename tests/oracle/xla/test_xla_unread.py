"""Elements of registers that go round a loop, as nothing writes them anew: no matter where no result reads them."""

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

ROWS, COLUMNS = 3, 4

ISA = isa_of("""
[v] (64) (i32);                # registers of 12 elements, rows of 4

[load](v, dram, rows, columns) {
    %Bytes:{rows}x{columns}x4xi8 <- $hbm[dram + {rows : 16, columns : 4, 4 : 1}];
    %Words:{rows}x{columns}xi32 = bitcast_convert(%Bytes);
    %Words -> $v[v * 12 + {rows : 4, columns : 1}];
}
[mix](v) {
    %Old:12xi32 <- $v[v * 12 : v * 12 + 12];
    %I:12xi32 = iota(dim=0);
    %More:12xi32 = multiply(%Old, %Old);
    %Less:12xi32 = xor(%More, %I);
    %New:12xi32 = subtract(%Less, %Old);
    %New -> $v[v * 12 : v * 12 + 12];
}
[join](v, other) {
    %One:12xi32 <- $v[v * 12 : v * 12 + 12];
    %Other:12xi32 <- $v[other * 12 : other * 12 + 12];
    %New:12xi32 = maximum(%One, %Other);
    %New -> $v[v * 12 : v * 12 + 12];
}
[turn](v) {
    %Old:12xi32 <- $v[v * 12 : v * 12 + 12];
    %New:12xi32 = reverse(%Old, dim={0});
    %New -> $v[v * 12 : v * 12 + 12];
}
[store](dram, v, rows, columns) {
    %Words:{rows}x{columns}xi32 <- $v[v * 12 + {rows : 4, columns : 1}];
    %Bytes:{rows}x{columns}x4xi8 = bitcast_convert(%Words);
    %Bytes -> $hbm[dram + {rows : 16, columns : 4, 4 : 1}];
}
""")


@dataclass(frozen=True)
class Tiles:
    """In each of ``count`` iterations a tile of ``rows`` and ``columns`` is loaded into one register or two, all of
    which ``changes`` compute with; rows and columns of the first that are ``stored`` come back."""

    count: int
    rows: int
    columns: int
    registers: int
    changes: tuple[str, ...]
    stored: tuple[int, int]

    @property
    def text(self) -> str:
        loads = [f"load v={v}, dram=48*i + {48 * v}, rows={self.rows}, columns={self.columns}"
                 for v in range(self.registers)]
        rows, columns = self.stored
        return "\n".join([
            ".stream tiles", ".isa t", ".hbm 1024", ".arg X int32[8,12] @0", ".result Y int32[7,12] @512",
            f"loop i in 0..{self.count} {{", *loads, *self.changes,
            f"store dram=48*i + 512, v=0, rows={rows}, columns={columns}", "}", ""])

    @property
    def reads_its_own(self) -> bool:
        """Whether what is stored is made of the tile alone: each element, but where they are turned, of its own place.
        """
        turned = "turn v=0" in self.changes
        return not turned and self.stored[0] <= self.rows and self.stored[1] <= self.columns


@st.composite
def tiles(draw: st.DrawFn) -> Tiles:
    registers = draw(st.sampled_from((1, 2)))
    rows, columns = draw(st.integers(1, ROWS)), draw(st.integers(1, COLUMNS))
    changes = ["mix v=0"] + ["turn v=0"] * draw(st.sampled_from((0, 0, 1)))
    if registers == 2:
        changes += ["mix v=1", "join v=0, other=1"]
    order = draw(st.permutations(changes))
    stored = draw(st.sampled_from(((rows, columns), (rows, columns), (1, 1), (ROWS, COLUMNS))))
    return Tiles(draw(st.integers(2, 7)), rows, columns, registers, tuple(order), stored)


def values() -> dict[str, np.ndarray]:
    return {"X": np.random.default_rng(5).integers(-(1 << 31), 1 << 31, (8, 12)).astype(np.int32)}


@pytest.mark.slow
@examples(6, 150)
@given(tiles())
def test_what_is_read_is_right(made: Tiles) -> None:
    agree(made.text, ISA, values())
    if made.reads_its_own:
        assert compile_stream(parse(made.text), ISA).raised


def test_edges_of_tiles_are_raised_although_their_registers_go_round() -> None:
    made = Tiles(5, 3, 3, 2, ("mix v=0", "mix v=1", "join v=0, other=1"), (3, 3))
    agree(made.text, ISA, values())
    report = compile_stream(parse(made.text), ISA).report
    assert report.raised


@pytest.mark.parametrize("changes", [("mix v=0",), ("turn v=0", "mix v=0")])
def test_what_goes_round_and_is_read_stays_loops(changes: tuple[str, ...]) -> None:
    made = Tiles(5, 2, 3, 1, changes, (3, 4))
    agree(made.text, ISA, values())
    report = compile_stream(parse(made.text), ISA).report
    assert not report.raised
    assert "carries a value" in {s.strategy: s.reason for s in report.strategies}["with recurrences"]
