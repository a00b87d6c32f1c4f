"""Masks of a bit for each element, in registers of bytes: what is packed and unpacked again is one comparison."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.assembly import parse
from archloom.oracle.xla import compile_stream
from tests.support.examples import examples
from tests.support.oracle.agreement import agree, isa_of

ISA = isa_of("""
[v] (8) (64 x i8);
[mask] (2) (8 x i8);

def read(m, lanes, %M) {
    %Bytes:1x{cdiv(lanes, 8)}xi8 <- $mask[m + {1 : 1}, 0 + {cdiv(lanes, 8) : 1}];
    %Bits:1x{cdiv(lanes, 8)}x8xi1 = bitcast_convert(%Bytes);
    %All:{8 * cdiv(lanes, 8)}xi1 = reshape(%Bits);
    %M:{lanes}xi1 = slice(%All, start={0}, limit={lanes});
}
[load](v, dram, lanes) {
    %X:1x{lanes}xi8 <- $hbm[dram + {1 : 0, lanes : 1}];
    %X -> $v[v + {1 : 1}, 0 + {lanes : 1}];
}
[store](dram, v, lanes) {
    %X:1x{lanes}xi8 <- $v[v + {1 : 1}, 0 + {lanes : 1}];
    %X -> $hbm[dram + {1 : 0, lanes : 1}];
}
[less](m, a, b, lanes, vm) {        # where the mask says so, or everywhere; other bits stay
    %A:1x{lanes}xi8 <- $v[a + {1 : 1}, 0 + {lanes : 1}];
    %B:1x{lanes}xi8 <- $v[b + {1 : 1}, 0 + {lanes : 1}];
    %Less:1x{lanes}xi1 = compare(%A, %B, direction=lt);
    %New:{lanes}xi1 = reshape(%Less);
    %OldBytes:1x{cdiv(lanes, 8)}xi8 <- $mask[m + {1 : 1}, 0 + {cdiv(lanes, 8) : 1}];
    %OldBits:1x{cdiv(lanes, 8)}x8xi1 = bitcast_convert(%OldBytes);
    %Old:{8 * cdiv(lanes, 8)}xi1 = reshape(%OldBits);
    IF (vm == 1) {
        %One:i1 = constant(1);
        %Where:{lanes}xi1 = broadcast(%One);
    } ELSE {
        read(0, lanes, %Where);
    }
    %Whole:{8 * cdiv(lanes, 8)}xi1 = pad(%New, low={0}, high={8 * cdiv(lanes, 8) - lanes});
    %Active:{8 * cdiv(lanes, 8)}xi1 = pad(%Where, low={0}, high={8 * cdiv(lanes, 8) - lanes});
    %Both:{8 * cdiv(lanes, 8)}xi1 = select(%Active, %Whole, %Old);
    %Bits:1x{cdiv(lanes, 8)}x8xi1 = reshape(%Both);
    %Bytes:1x{cdiv(lanes, 8)}xi8 = bitcast_convert(%Bits);
    %Bytes -> $mask[m + {1 : 1}, 0 + {cdiv(lanes, 8) : 1}];
}
[merge](d, a, b, m, lanes) {
    read(m, lanes, %M);
    %A:1x{lanes}xi8 <- $v[a + {1 : 1}, 0 + {lanes : 1}];
    %B:1x{lanes}xi8 <- $v[b + {1 : 1}, 0 + {lanes : 1}];
    %Where:1x{lanes}xi1 = reshape(%M);
    %Y:1x{lanes}xi8 = select(%Where, %A, %B);
    %Y -> $v[d + {1 : 1}, 0 + {lanes : 1}];
}
[count](d, m, lanes) {              # a bit of the mask, as a number
    read(m, lanes, %M);
    %Ones:{lanes}xi8 = convert(%M);
    %Y:1x{lanes}xi8 = reshape(%Ones);
    %Y -> $v[d + {1 : 1}, 0 + {lanes : 1}];
}
""")

STEPS = (
    "less m=0, a=0, b=1, lanes={0}, vm=1", "less m=0, a=1, b=2, lanes={0}, vm=0",
    "less m=1, a=2, b=0, lanes={0}, vm=0", "less m=1, a=0, b=2, lanes={0}, vm=1",
    "merge d=2, a=0, b=1, m=0, lanes={0}", "merge d=1, a=2, b=0, m=1, lanes={0}", "count d=3, m=0, lanes={0}")


def text(lanes: int, steps: tuple[str, ...], count: int) -> str:
    size = 64 * count
    body = [f"load v={v}, dram=64*i + {v * size}, lanes={lanes}" for v in (0, 1)]
    body += [step.format(lanes) for step in steps]
    body += [f"store dram=64*i + {(2 + n) * size}, v={v}, lanes={lanes}" for n, v in enumerate((2, 3))]
    return "\n".join([".stream masks", ".isa t", f".hbm {8 * size}", f".arg X int8[2,{count},64] @0",
                      f".result Y int8[2,{count},64] @{2 * size}", f"loop i in 0..{count} {{", *body, "}", ""])


def values(count: int) -> dict[str, np.ndarray]:
    return {"X": np.random.default_rng(7).integers(-128, 128, (2, count, 64)).astype(np.int8)}


@examples(5, 150)
@given(st.integers(1, 64), st.lists(st.sampled_from(STEPS), min_size=1, max_size=5).map(tuple), st.integers(1, 4))
def test_masks_are_bits(lanes: int, steps: tuple[str, ...], count: int) -> None:
    agree(text(lanes, steps, count), ISA, values(count))


def test_what_is_packed_and_unpacked_is_one_comparison() -> None:
    """In a loop whose iterations read the mask's old bits, and keep none."""
    for lanes in (16, 64):
        stream = text(lanes, (STEPS[0], STEPS[4]), 5)
        agree(stream, ISA, values(5))
        report = compile_stream(parse(stream), ISA).report
        assert report.raised and report.results[0].operations == (), str(report)  # none but element-wise ones
