"""Operators in instructions: interpreter, raised oracle and loops give the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from archloom.oracle import interpreter, taidl
from archloom.oracle.assembly import parse
from archloom.oracle.errors import ArchloomError, InputError, TaidlError
from archloom.oracle.taidl.printer import print_isa
from archloom.oracle.taidl.types import TYPES, byte_count, of_numpy, to_bytes
from archloom.oracle.xla import compile_stream
from tests.support.examples import slow
from tests.support.oracle.agreement import agree, isa_of, loaded, stored
from tests.support.oracle.operator_cases import equal, tensor

# --- functions of tensors -----------------------------------------------------------------------------------------

CONTROL = """
[acc] () (4 x i32);
limit = 100;

def below(%x, %n, %go) { %c:i32 = constant(limit); %m:i32 = reduce(%x, dim={0}, kind=max);
                         %go:i1 = compare(%m, %c, direction=lt); }
def step(%x, %n, %y, %m) { %y:4xi32 = add(%x, %x); %one:i32 = constant(1); %m:i32 = add(%n, %one); }
def half(%x, %y) { %two:4xi32 = constant(2); %y:4xi32 = divide(%x, %two); }
def same(%x, %y) { REPEAT (i, 2) { %t:4xi32 = negate(%x); } %y:4xi32 = call(%x, function=half);
                   }
[set](v) { limit = v; }
[grow](in, out, count) {
    %b:4x4xi8 <- $hbm[in + {4 : 4, 4 : 1}];
    %x:4xi32 = bitcast_convert(%b);
    %zero:i32 = constant(0);
    IF (count == 1) {
        %s:i32 = while(%x, %zero, cond=below, body=step, result=1);
        %y:4xi32 = broadcast(%s);
    } ELSE {
        %y:4xi32 = while(%x, %zero, cond=below, body=step);
    }
    %c:4x4xi8 = bitcast_convert(%y);
    %c -> $hbm[out + {4 : 4, 4 : 1}];
}
[choose](in, out) {
    %b:4x4xi8 <- $hbm[in + {4 : 4, 4 : 1}];
    %x:4xi32 = bitcast_convert(%b);
    %m:i32 = reduce(%x, dim={0}, kind=add);
    %zero:i32 = constant(0);
    %p:i1 = compare(%m, %zero, direction=gt);
    %y:4xi32 = conditional(%p, %x, then=half, else=same);
    %c:4x4xi8 = bitcast_convert(%y);
    %c -> $hbm[out + {4 : 4, 4 : 1}];
}
"""


def test_while_and_conditional() -> None:
    isa = isa_of(CONTROL)
    text = """
.isa t
.hbm 128
.arg X int32[4] @0
.result Y int32[4] @16
.result N int32[4] @32
.result Z int32[4] @48
.result W int32[4] @64
grow in=0, out=16, count=0
set v=1000
grow in=0, out=32, count=1
choose in=0, out=48
loop i in 0..2 {
  set v=20 + 20*i
  grow in=0, out=64, count=0
}
"""
    found = agree(text, isa, {"X": np.array([3, -7, 1, 2], np.int32)})
    assert found["Y"].tolist() == [192, -448, 64, 128]
    assert found["N"].tolist() == [9] * 4
    assert found["Z"].tolist() == [1, -3, 0, 1]
    assert found["W"].tolist() == [48, -112, 16, 32]


CALL = "[g]() { %a:4xi8 = constant(1); %b:4xi8 = call(%a, function=f); }"


@pytest.mark.parametrize(("text", "message"), [
    ("def f(%x, %y) { %y:8xi8 = constant(0); } " + CALL,
     "declared 4xi8 but f gives 8xi8"),
    ("def f(%x) { %y:8xi8 = constant(0); } " + CALL,
     "def f needs 1 parameters for what it takes"),
    ("def f(%x, n, %y) { %y:4xi8 = negate(%x); } " + CALL,
     "def f is applied to tensors alone, but has the parameter n"),
    ("[m](4)(i8); def f(%x, %y) { %y:4xi8 <- $m[0:4]; } " + CALL,
     "must not read or write buffers"),
    ("def f(%x, %y) { %y:4xi8 = call(%x, function=f); } " + CALL,
     "def f calls itself"),
    ("def f(%x, %y) { %y:4xi8 = negate(%x); } [g]() { %a:4xi8 = constant(1); %b:4xi8 = while(%a, cond=f, body=f); }",
     "the condition f must give one scalar i1, found"),
    ("[g]() { %a:4xi8 = constant(1); %b:4xi8 = call(%a, function=h); }", "unknown def 'h'"),
    ("[g]() { %a:4xi8 = constant(1); %b:4xi8 = call(%a, function=1 + 1); }", "is the name of a function"),
    ("[g]() { %a:4x!quant.uniform<i4:f32, 0.5:9> = constant(1); }", "the zero point of .* must be in -8..7, found 9"),
    ("[g]() { %a:4xf8e8m0fnu = constant(1); %b:4xf8e8m0fnu = add(%a, %a); }", "add is not defined for f8e8m0fnu"),
    ("[g]() { %a:4xf64 = constant(1); %b:4xf64 = exp(%a); }", "exp is not defined for f64"),
])
def test_complaints(text: str, message: str) -> None:
    with pytest.raises(TaidlError, match=message):
        isa_of(text)


# --- functions from outside ---------------------------------------------------------------------------------------

CUSTOM = """
[apply](in, out) {
    %b:4x4xi8 <- $hbm[in + {4 : 4, 4 : 1}];
    %x:4xf32 = bitcast_convert(%b);
    %y:4xf32 = custom_call(%x, function=test_twist);
    %c:4x4xi8 = bitcast_convert(%y);
    %c -> $hbm[out + {4 : 4, 4 : 1}];
}
"""
CUSTOM_STREAM = ".isa t\n.hbm 64\n.arg X float32[4] @0\n.result Y float32[4] @16\napply in=0, out=16\n"


@pytest.mark.first_case
@pytest.mark.parametrize("given", ["numpy", "jax", "both"])
def test_custom_calls(given: str) -> None:
    def twist(x: Any) -> Any:
        return -x[::-1]

    taidl.register_function("test_twist", **{k: twist for k in ("numpy", "jax") if given in (k, "both")})
    found = agree(CUSTOM_STREAM, isa_of(CUSTOM), {"X": np.array([1, 2, 3, 4], np.float32)})
    assert found["Y"].tolist() == [-4, -3, -2, -1]


def test_custom_calls_that_are_not_registered_or_wrong() -> None:
    isa = isa_of(CUSTOM.replace("test_twist", "test_missing"))
    x = {"X": np.zeros(4, np.float32)}
    with pytest.raises(ArchloomError, match="no function 'test_missing' is registered"):
        interpreter.run(parse(CUSTOM_STREAM), isa, x)
    taidl.register_function("test_missing", numpy=lambda x: x[:2])
    with pytest.raises(ArchloomError, match=r"gave float32\[2\], where float32\[4\] is declared"):
        interpreter.run(parse(CUSTOM_STREAM), isa, x)
    with pytest.raises(TaidlError, match="needs an implementation"):
        taidl.register_function("test_missing")


# --- memory -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", [
    "int4", slow("uint2"), "float4_e2m1fn", slow("float8_e4m3fn"), "float8_e8m0fnu", "bfloat16", slow("int8")])
def test_tensors_of_every_width_lie_packed_in_hbm(name: str) -> None:
    dtype, count = of_numpy(name), 16
    size = byte_count((count,), name)
    text = (f"[m](8)({count} x {dtype});\n[go]() {{\n" + loaded("x", dtype, count, "64")
            + f"%r:1x{count}x{dtype} = reshape(%x);\n%r -> $m[3];\n%s:1x{count}x{dtype} <- $m[3];\n"
            + f"%t:1x{count}x{dtype} = reverse(%s, dim={{1}});\n%y:{count}x{dtype} = reshape(%t);\n"
            + stored("y", dtype, count, "128") + "}")
    stream = f".isa t\n.hbm 256\n.arg X {name}[{count}] @64\n.result Y {name}[{count}] @128\ngo\n"
    x = tensor((count,), dtype, 1)
    found = agree(stream, isa_of(text), {"X": x})["Y"]
    assert equal(found, x[::-1].copy(), dtype).all()
    assert to_bytes(x).size == size


@pytest.mark.slow
def test_the_first_of_two_nibbles_is_the_lower() -> None:
    isa = isa_of("""
[split](out) {
    %b:1xi8 <- $hbm[0:1];
    %n:1x2xu4 = bitcast_convert(%b);
    %w:1x2xi8 = convert(%n);
    %w -> $hbm[out + {1 : 2, 2 : 1}];
    %bits:1x8xi1 = bitcast_convert(%b);
    %v:1x8xi8 = convert(%bits);
    %v -> $hbm[out + 2 + {1 : 8, 8 : 1}];
    %j:1xi8 = bitcast_convert(%bits);
    %k:1xi8 = bitcast_convert(%n);
    %j -> $hbm[out + 10 : out + 11];
    %k -> $hbm[out + 11 : out + 12];
}""")
    found = agree(".isa t\n.hbm 16\n.arg X int8[1] @0\n.result Y int8[12] @1\nsplit out=1\n", isa,
                  {"X": np.array([0x2D], np.int8)})["Y"]
    assert found.tolist() == [13, 2, 1, 0, 1, 1, 0, 1, 0, 0, 0x2D, 0x2D]


@pytest.mark.slow
def test_vectors_of_bits_mask_a_word() -> None:
    """As the paper's mask registers: 32 bits in an i32, the first in the lowest."""
    isa = isa_of("""
[mask](k, in, out) {
    %kb:4xi8 <- $hbm[k : k + 4];
    %word:u32 = bitcast_convert(%kb);
    %bits:32xi1 = bitcast_convert(%word);
    %x:32xi8 <- $hbm[in : in + 32];
    %zero:32xi8 = constant(0);
    %y:32xi8 = select(%bits, %x, %zero);
    %y -> $hbm[out : out + 32];
    %back:u32 = bitcast_convert(%bits);
    %ones:u32 = popcnt(%back);
    %o:4xi8 = bitcast_convert(%ones);
    %o -> $hbm[out + 32 : out + 36];
}""")
    word, x = 0xDEADBEE5, np.arange(1, 33, dtype=np.int8)
    found = agree(".isa t\n.hbm 128\n.arg K uint32[1] @0\n.arg X int8[32] @4\n.result Y int8[32] @64\n"
                  ".result N uint32[1] @96\nmask k=0, in=4, out=64\n", isa,
                  {"K": np.array([word], np.uint32), "X": x})
    assert found["Y"].tolist() == [int(v) if word >> i & 1 else 0 for i, v in enumerate(x)]
    assert found["N"].tolist() == [word.bit_count()]


@pytest.mark.slow
def test_quantized_numbers() -> None:
    isa = isa_of("""
[q](2)(8 x !quant.uniform<i8:f32, 0.5:-3>);
[go](a, b, out) {
    %ab:8x4xi8 <- $hbm[a + {8 : 4, 4 : 1}];
    %af:8xf32 = bitcast_convert(%ab);
    %aq:8x!quant.uniform<i8:f32, 0.5:-3> = uniform_quantize(%af);
    %ar:1x8x!quant.uniform<i8:f32,0.5 : -3> = reshape(%aq);
    %ar -> $q[0];
    %bb:8xi8 <- $hbm[b : b + 8];
    %bq:8x!quant.uniform<i8:f32, 0.25> = bitcast_convert(%bb);
    %a1:1x8x!quant.uniform<i8:f32, 0.5:-3> <- $q[0];
    %a2:8x!quant.uniform<i8:f32, 0.5:-3> = reshape(%a1);
    %sum:8x!quant.uniform<u8:f32, 1.0:100> = add(%a2, %bq);
    %f:8xf32 = uniform_dequantize(%sum);
    %fb:8x4xi8 = bitcast_convert(%f);
    %fb -> $hbm[out + {8 : 4, 4 : 1}];
}""")
    a, b = np.array([0, 1.2, -1.3, 1e9, -1e9, np.nan, 0.25, 30], np.float32), np.arange(-60, 68, 16, dtype=np.int8)
    found = agree(".isa t\n.hbm 256\n.arg A float32[8] @0\n.arg B int8[8] @32\n.result F float32[8] @64\n"
                  "go a=0, b=32, out=64\n", isa, {"A": a, "B": b})["F"]
    ticks = [max(-128, min(127, round(float(np.clip(v / 0.5, -1e6, 1e6))) - 3)) if v == v else 0 for v in a]
    expected = [float(max(0, min(255, round((t + 3) * 0.5 + int(u) * 0.25) + 100)) - 100)
                for t, u in zip(ticks, b, strict=True)]
    assert found.tolist() == expected


@pytest.mark.slow
def test_64_bits_within_a_stream() -> None:
    isa = isa_of("""
[m](4)(4 x i64);
[go](in, out) {
    %b:4x4xi8 <- $hbm[in + {4 : 4, 4 : 1}];
    %x:4xi32 = bitcast_convert(%b);
    %w:4xi64 = convert(%x);
    %p:4xi64 = multiply(%w, %w);
    %r:1x4xi64 = reshape(%p);
    %r -> $m[1];
    %s:1x4xi64 <- $m[1];
    %n:1x4xi64 = constant(31);
    %h:1x4xi64 = shift_right_arithmetic(%s, %n);
    %f:1x4xf64 = convert(%h);
    %t:1x4xf64 = constant(3.0);
    %d:1x4xf64 = divide(%f, %t);
    %y:1x4xf32 = convert(%d);
    %c:1x4x4xi8 = bitcast_convert(%y);
    %c -> $hbm[out + {1 : 16, 4 : 4, 4 : 1}];
}""")
    x = np.array([2**31 - 1, -(2**31), 123456789, -5], np.int32)
    text = ".isa t\n.hbm 64\n.arg X int32[4] @0\n.result Y float32[4] @16\nloop i in 0..2 { go in=0, out=16 }\n"
    found = agree(text, isa, {"X": x})["Y"]
    assert found.tolist() == [float(np.float32((int(v) * int(v) >> 31) / 3.0)) for v in x]
    with pytest.raises(InputError, match="is int64, which JAX does not take"):
        compile_stream(parse(".isa t\n.hbm 64\n.arg X int64[4] @0\n.result Y float32[4] @32\ngo in=0, out=32\n"), isa)


def test_types_print_and_parse() -> None:
    text = "isa t;\n" + "".join(f"[b{i}] (4) (2 x {t});\n" for i, t in enumerate(TYPES)) + (
        "[q] (4) (2 x !quant.uniform< i8 : f32 , 0.1 : -4 >);\n" + CONTROL)
    tree = taidl.parse(text)
    assert taidl.parse(print_isa(tree)) == tree
