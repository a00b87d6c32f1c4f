"""Element types whose width is an expression: what they mean on all paths, and their faults."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle import taidl
from archloom.oracle.assembly import parse
from archloom.oracle.errors import StreamError, TaidlError
from archloom.oracle.interpreter import run
from archloom.oracle.resolve import resolve
from archloom.oracle.taidl.printer import print_type
from archloom.oracle.taidl.values import type_of
from tests.support.oracle.agreement import agree, isa_of

SQUARES = """
param word = 32 in 8..64;
[kept] (4) (i{word});
sew = 8;
[width](bits) { sew = bits; }
def load(%x, dram, count, bits) {
    %b:{count * bits // 8}xi8 <- $hbm[dram + {count * bits // 8 : 1}];
    %x:{count}xu{bits} = bitcast(%b);
}
[squares](dst, src, count) {
    load(%x, src, count, sew);
    %wide:{count}xu{2 * sew} = convert(%x);
    %y:{count}xu{2 * sew} = multiply(%wide, %wide);
    %c:{count * sew // 4}xi8 = bitcast(%y);
    %c -> $hbm[dst + {count * sew // 4 : 1}];
}
[keep](row) { %x:1xi{word} = constant(7); %x -> $kept[row]; %y:1xi{word} <- $kept[row]; %y:1xi{word} -> $kept[0]; }
"""


def squares(bits: int, count: int) -> str:
    return (f".stream squares\n.isa t word=32\n.hbm 1024\n.arg x int8[{count * bits // 8}] @0\n"
            f".result y int8[{count * bits // 4}] @512\n"
            f"width bits={bits}\nkeep row=1\nsquares dst=512, src=0, count={count}\n")


@pytest.mark.slow
@given(st.sampled_from([8, 16]), st.integers(1, 9), st.integers(0, 1 << 32))
def test_a_width_is_what_the_register_says(bits: int, count: int, seed: int) -> None:
    x = np.random.default_rng(seed).integers(0, 1 << bits, count).astype(f"uint{bits}")
    (found,) = agree(squares(bits, count), isa_of(SQUARES), {"x": x.view(np.int8)}).values()
    np.testing.assert_array_equal(found.view(f"uint{2 * bits}"), x.astype(f"uint{2 * bits}") ** 2)


def test_a_width_that_no_type_has_is_an_error_of_the_instruction() -> None:
    stream = parse(squares(64, 1))
    for attempt in (lambda: resolve(stream, isa_of(SQUARES)),
                    lambda: run(stream, isa_of(SQUARES), {"x": np.zeros(8, np.int8)})):
        with pytest.raises(StreamError, match="no element type u128: expected one of 2, 4, 8, 16, 32, 64 bits"):
            attempt()


@pytest.mark.parametrize(("body", "message"), [
    ("%x:4xi{a} <- $b; %y:4xf{a} = negate(%x); %y:4xi{a} -> $b;", r"%y is 4xf\{a\}, but is written as 4xi\{a\}"),
    ("%x:4xf{a} <- $b;", r"%x is 4xf\{a\}, but \$b is 4xi8"),
    ("%x:4xi{7} = constant(1);", "there is no element type i7: expected one of 1, 2, 4, 8, 16, 32, 64 bits"),
    ("%x:4xf{a < 1} = constant(1);", "expected an integer, found a condition: a < 1"),
    ("%x:4xi{c} = constant(1);", "unknown name 'c'"),
])
def test_faults_that_are_seen_before_a_stream_is(body: str, message: str) -> None:
    with pytest.raises(TaidlError, match=message):
        isa_of(f"[b] () (4xi8);\n[i](a) {{ {body} }}")


def test_a_buffers_width_is_of_parameters() -> None:
    isa = taidl.instantiate(taidl.parse("isa t;\n" + SQUARES), {"word": 16})
    assert isa.buffer("kept").dtype == "i16"
    with pytest.raises(TaidlError, match="buffer kept: there is no element type i24"):
        taidl.instantiate(taidl.parse("isa t;\n" + SQUARES), {"word": 24})


def test_the_builder_writes_them() -> None:
    assert print_type(type_of((4, "i", 8))) == "4xi{8}"
