"""float32 on the XLA oracle: every product and every sum is rounded, in the order that the stream states."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle import interpreter, taidl
from archloom.oracle.assembly import parse
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.xla import compile_stream
from tests.support.examples import examples

TEXT = """
isa floats;

param k = 8 in 1..64;

[r] (2) (4 x f32);

[load](dram, row) {
    %Bytes:1x4x4xi8 <- $hbm[dram + {1 : 1, 4 : 4, 4 : 1}];
    %In:1x4xf32 = bitcast_convert(%Bytes);
    %In -> $r[row];
}

# r[0] += x * r[1], and the other way round
[axpy](dram, back) {
    %Bytes:1x4x4xi8 <- $hbm[dram + {1 : 1, 4 : 4, 4 : 1}];
    %X:1x4xf32 = bitcast_convert(%Bytes);
    %Y:1x4xf32 <- $r[1];
    %P:1x4xf32 = multiply(%X, %Y);
    %Old:1x4xf32 <- $r[0];
    IF (back == 1) {
        %New:1x4xf32 = subtract(%P, %Old);
    } ELSE {
        %New:1x4xf32 = add(%Old, %P);
    }
    %New -> $r[0];
}

[store](dram, row) {
    %Out:1x4xf32 <- $r[row];
    %Bytes:1x4x4xi8 = bitcast_convert(%Out);
    %Bytes -> $hbm[dram + {1 : 1, 4 : 4, 4 : 1}];
}

[product](a, b, c) {
    %ABytes:3x{k}x4xi8 <- $hbm[a + {3 : 4 * k, k : 4, 4 : 1}];
    %BBytes:{k}x5x4xi8 <- $hbm[b + {k : 20, 5 : 4, 4 : 1}];
    %A:3x{k}xf32 = bitcast_convert(%ABytes);
    %B:{k}x5xf32 = bitcast_convert(%BBytes);
    %C:3x5xf32 = dot_general(%A, %B, lhs_contracting={1}, rhs_contracting={0});
    %CBytes:3x5x4xi8 = bitcast_convert(%C);
    %CBytes -> $hbm[c + {3 : 20, 5 : 4, 4 : 1}];
}
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("isa") / "floats.taidl"
    file.write_text(TEXT)
    return str(file)


def isa_of(path: str, k: int = 8) -> Isa:
    return taidl.load(path, k=k)


def floats(seed: int, *shape: int) -> np.ndarray:
    """Numbers of all magnitudes, so that nearly every operation rounds."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 7, shape)).astype(np.float32)


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("steps", [1, 9])
def test_products_are_rounded_before_they_are_added(path: str, back: int, steps: int) -> None:
    text = f"""
.isa floats k=8
.hbm 1024
.arg X float32[{steps},4] @0x40
.arg S float32[2,4] @0x200
.result Y float32[4] @0x300
load dram=512, row=0
load dram=528, row=1
loop i in 0..{steps} {{
  axpy dram=64 + 16*i, back={back}
}}
store dram=768, row=0
"""
    stream, isa = parse(text), isa_of(path)
    x, s = floats(steps, steps, 4), floats(steps + 1, 2, 4)
    total = s[0]
    for row in x:
        product = row * s[1]
        total = product - total if back else total + product
    np.testing.assert_array_equal(interpreter.run(stream, isa, {"X": x, "S": s})["Y"], total)
    np.testing.assert_array_equal(np.asarray(compile_stream(stream, isa)(x, s)[0]), total)


@examples(4, 80)
@given(k=st.sampled_from([1, 2, 7, 33]), seed=st.integers(0, 1000))
def test_matrix_products_add_up_in_the_order_of_the_contraction(path: str, k: int, seed: int) -> None:
    text = f"""
.isa floats k={k}
.hbm 4096
.arg A float32[3,{k}] @0x40
.arg B float32[{k},5] @0x400
.result C float32[3,5] @0xc00
product a=64, b=1024, c=3072
"""
    stream, isa = parse(text), isa_of(path, k)
    a, b = floats(seed, 3, k), floats(seed + 1, k, 5)
    expected = a[:, :1] * b[:1]
    for i in range(1, k):
        expected = expected + a[:, i:i + 1] * b[i:i + 1]
    np.testing.assert_array_equal(interpreter.run(stream, isa, {"A": a, "B": b})["C"], expected)
    for raising in (True, False):
        found = compile_stream(stream, isa, raising=raising)(a, b)[0]
        np.testing.assert_array_equal(np.asarray(found), expected)


def test_infinities_and_nan_pass_through_sums(path: str) -> None:
    text = """
.isa floats k=8
.hbm 256
.arg X float32[1,4] @0x40
.arg S float32[2,4] @0x80
.result Y float32[4] @0xc0
load dram=128, row=0
load dram=144, row=1
axpy dram=64, back=0
store dram=192, row=0
"""
    stream, isa = parse(text), isa_of(path)
    x = np.array([[np.inf, 3e38, np.nan, 0]], np.float32)
    s = np.array([[1, 3e38, 1, -0.0], [2, 2, 2, np.inf]], np.float32)
    found = np.asarray(compile_stream(stream, isa)(x, s)[0])
    np.testing.assert_array_equal(found, interpreter.run(stream, isa, {"X": x, "S": s})["Y"])
    assert np.isinf(found[:2]).all() and np.isnan(found[2:]).all()
