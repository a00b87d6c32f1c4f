"""Loops whose first iteration differs, as a register says: sums and maxima that begin with an element of their own."""

from __future__ import annotations

import numpy as np
import pytest

from archloom.oracle import taidl
from archloom.oracle.assembly import parse
from archloom.oracle.interpreter import run
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import ResolvedInstr, ResolvedNode
from archloom.oracle.xla import compile_stream
from archloom.oracle.xla.notation.expr import Extreme
from archloom.oracle.xla.notation.traits import walk
from archloom.oracle.xla.strategies import raise_stream

TEXT = """
isa rows;
[best] (4) (i32);
begun[4] = 0;
which = 0;
last = 0;

[choose](n) { which = n; }

# the largest of four words and of those before, unless it is the first
[more](at) {
    %In:4x4xi8 <- $hbm[at + {4 : 4, 4 : 1}];
    %V:4xi32 = bitcast_convert(%In);
    %Top:i32 = reduce(%V, dim={0}, kind=max);
    %One:1xi32 = broadcast(%Top);
    IF (begun[which] == 1) {
        %Old:1xi32 <- $best[which];
        %New:1xi32 = maximum(%Old, %One);
        %New -> $best[which];
    } ELSE {
        %One -> $best[which];
    }
    last = at;
    begun[which] = 1;
}

[out](at) {
    %In:1xi32 <- $best[which];
    %Bytes:1x4xi8 = bitcast_convert(%In);
    %Bytes -> $hbm[at + {1 : 4, 4 : 1}];
    begun[which] = 0;
}
"""

ROWS = """
.stream rows
.isa rows
.hbm 2048
.arg X int32[9,20] @0x40
.result Y int32[9] @0x400
choose n=2
loop i in 0..9 {
  loop j in 0..5 {
    more at=64 + 80*i + 16*j
  }
  out at=1024 + 4*i
}
"""


def instructions(nodes: tuple[ResolvedNode, ...]) -> int:
    return sum(1 if isinstance(n, ResolvedInstr) else instructions(n.body) for n in nodes)


@pytest.mark.first_case
@pytest.mark.parametrize("rows", [1, 2, 9])
def test_a_row_s_first_tile_is_peeled_and_the_rows_stay_a_loop(rows: int) -> None:
    """Registers of other rows' statistics, which no branch changes, do not keep the rows from being a loop."""
    isa = taidl.instantiate(taidl.parse(TEXT), {})
    s = parse(ROWS.replace("loop i in 0..9", f"loop i in 0..{rows}"))
    assert instructions(resolve(s, isa).body) == 4
    oracle = compile_stream(s, isa)
    assert oracle.raised
    x = np.random.default_rng(0).integers(-(2**31), 2**31, (9, 20)).astype(np.int32)
    y = np.asarray(oracle(x)[0])
    np.testing.assert_array_equal(y, run(s, isa, {"X": x})["Y"])
    np.testing.assert_array_equal(y[:rows], x[:rows].max(1))


def test_windows_that_continue_each_other_are_one_window() -> None:
    """Five tiles of four, the first of them apart, make one maximum over twenty."""
    isa = taidl.instantiate(taidl.parse(TEXT), {})
    raising = raise_stream(resolve(parse(ROWS), isa)).raising
    assert raising is not None
    (result,) = raising.results
    (window,) = (e for e in walk(result.value) if isinstance(e, Extreme))
    assert [n for _, n in window.variables] == [20]
