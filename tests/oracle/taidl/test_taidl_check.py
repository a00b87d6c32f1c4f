"""The static checks of TAIDL: every complaint by its wording, and what must pass."""

from __future__ import annotations

import pytest

from archloom.oracle import taidl
from archloom.oracle.errors import TaidlError, TargetError
from archloom.oracle.taidl.parser import parse

HEADER = """isa t;
param dim = 16 in 4..256;
const TWO = 2;
[spad] (64) (dim x i8);
[acc] (32) (dim x i32);
[pe] () (dim x dim x i32);
flag = 0;
ld[3] = 1;
"""


def check(body: str, attributes: str = "a, rows", definitions: str = "") -> None:
    taidl.check(parse(f"{HEADER}{definitions}\n[i]({attributes}) {{\n{body}\n}}"))


def whole(text: str) -> None:
    taidl.check(parse(text))


READ = "%x:{rows}xi8 <- $hbm[a:a + rows];\n"
TILE = "%x:16x16xi8 <- $spad[0:16];\n"


@pytest.mark.parametrize("body", [
    TILE + "%y:16x16xi32 = convert(%x); %y -> $pe;",
    "%x:{dim}x{dim}xi8 <- $spad[0:16]; %y:16x16xi32 = convert(%x); %y:16x16xi32 -> $pe[];",
    "%x:1x16xi8 <- $spad[a]; %x -> $spad[a];",
    "%x:{rows}x8xi8 <- $spad[a : a + rows, 8:16];",
    "%x:{rows}x4x2xi8 <- $spad[a + {rows : 3}, {4 : 4, 2 : 1}];",
    "%x:8x16xi8 <- $spad[0:16:2];",
    "IF (rows == 1) { %x:{rows}xi8 <- $hbm[a:a + rows]; } ELSE { %x:{rows}xi8 = constant(0); } %x -> $hbm[a:a + rows];",
    "REPEAT (m, rows) { %x:1x16xi8 <- $spad[m]; %x -> $spad[m + 1]; }",
    "let m = min(rows, dim); %x:{m}xi8 <- $hbm[a:a + m];",
    "flag = flag + 1; ld[flag % 3] = select(flag == 1 || rows > 2, a, 0); assert(!(flag < 2) && ld[0] >= 0);",
    READ + "%y:{rows}xi8 = pad(%x, low={0}, high={0}, value=-1);",
    "%s:f32 = constant(-1.5); %t:u32 = bitcast_convert(%s); %v:4xi8 = bitcast_convert(%t);",
    "IF (dim == 8) { %x:8x8xi8 <- $spad[0:8]; %x -> $acc[0:8]; }",
])
def test_sound_bodies_pass(body: str) -> None:
    check(body)


@pytest.mark.parametrize(("body", "message"), [
    # names
    ("%x:16x16xi8 <- $spd[0:16];", r"unknown buffer \$spd; did you mean 'spad'\? \(valid: acc, hbm, pe, spad\)"),
    ("%y:8xi8 = negate(%x);", r"unknown tensor '%x' \(valid: \)"),
    (READ + "%y:{rows}xi8 = negate(%X);", r"unknown tensor '%X'; did you mean '%x'\? \(valid: %x\)"),
    ("flg = 1;", r"unknown register 'flg'; did you mean 'flag'\? \(valid: flag, ld\)"),
    ("flag = row;", r"unknown name 'row'; did you mean 'rows'\? \(valid: TWO, a, dim, flag, ld, rows\)"),
    ("flag = later; let later = 1;", r"unknown name 'later'"),
    ("flag = lt[0];", r"unknown register 'lt'"),
    ("%x:8xi8 = fill(0);", r"unknown operator 'fill'"),
    (TILE + "%y:16x16xi8 = multply(%x, %x);", r"unknown operator 'multply'; did you mean 'multiply'\?"),
    ("go(1);", r"unknown def 'go'"),
    # names that are there twice, or not what they must be
    (READ + READ, r"%x is already defined"),
    ("let m = 1; let m = 2;", r"'m' is already defined"),
    ("let rows = 1;", r"'rows' is already defined"),
    ("rows = 1;", r"cannot assign to rows: it is an attribute"),
    ("dim = 1;", r"cannot assign to dim: it is a parameter or constant"),
    ("flag[0] = 1;", r"flag is a single register, not an array"),
    ("flag = ld;", r"ld is an array of 3 registers; name one as ld\[i\]"),
    ("ld = 1;", r"ld is an array; name one of its elements"),
    ("ld[3] = 1;", r"ld\[3\] is not one of its 3 elements"),
    ("flag = ld[TWO + 1];", r"ld\[3\] is not one of its 3 elements"),
    # paths
    ("IF (a == 1) { %x:4xi8 = constant(0); } %x -> $hbm[a:a + 4];", r"'%x' is defined on some of the paths to here"),
    ("IF (a == 1) { let m = 1; } flag = m;", r"name 'm' is defined on some of the paths to here only"),
    ("REPEAT (m, 2) { %x:4xi8 = constant(0); } %x -> $hbm[a:a + 4];", r"defined on some of the paths to here only"),
    ("REPEAT (m, 2) { } flag = m;", r"unknown name 'm'"),
    ("IF (a == 1) { %x:4xi8 = constant(0); } ELSE { %x:5xi8 = constant(0); }",
     r"%x is 4xi8 in one branch of this IF and 5xi8 in the other"),
    # sorts
    ("assert(rows);", r"expected a condition, found an integer: rows"),
    ("IF (rows + 1) { }", r"expected a condition, found an integer: rows \+ 1"),
    ("flag = rows == 1;", r"expected an integer, found a condition: rows == 1"),
    ("assert(rows && a == 1);", r"expected a condition, found an integer: rows"),
    ("flag = 1.5;", r"expected an integer, found a float: 1\.5"),
    ("flag = select(rows, 1, 2);", r"expected a condition, found an integer: rows"),
    ("flag = -(a == 1);", r"expected an integer, found a condition"),
    # windows
    ("%x:4xi8 <- $hbm;", r"\$hbm has 1 axes, 0 given"),
    ("%x:4xi8 <- $hbm[a:];", r"\$hbm\[a:\] needs an end"),
    ("%x:1xi8 <- $spad[0, 0, 0];", r"\$spad has 2 axes, 3 given"),
    ("%x:1x16xi8 <- $spad[64];", r"\$spad\[64\] spans 64\.\.64, outside of an axis of extent 64"),
    ("%x:16x16xi8 <- $spad[56:72];", r"\$spad\[56:72\] spans 56\.\.71, outside of an axis of extent 64"),
    ("%x:2x16xi8 <- $spad[60 + {2 : 4}];", r"spans 60\.\.64, outside of an axis of extent 64"),
    ("%x:1x16xi8 <- $spad[0 - 1];", r"spans -1\.\.-1, outside"),
    ("%x:0x16xi8 <- $spad[0:0];", r"a dimension must be at least 1, found 0"),
    ("%x:{rows}x16xi8 <- $spad[4:4];", r"extent 0 and stride 1 of \$spad\[4:4\]: an extent is at least 1"),
    ("%x:2x16xi8 <- $spad[9 + {2 : -1}];", r"extent 2 and stride -1"),
    ("%x:8x16xi8 <- $spad[0:16:0];", r"the step of \$spad\[0:16:0\] must be at least 1"),
    ("%x:16x8xi8 <- $spad[0:16];", r"%x is 16x8xi8, but \$spad\[0:16\] is 16x16xi8"),
    ("%x:16x16xi32 <- $spad[0:16];", r"%x is 16x16xi32, but \$spad\[0:16\] is 16x16xi8"),
    (TILE + "%x -> $pe;", r"%x is 16x16xi8, but \$pe is 16x16xi32"),
    (TILE + "%x:16x8xi8 -> $spad[0:16];", r"%x is 16x16xi8, but is written as 16x8xi8"),
    # operators
    (TILE + "%y:16x16xi8 = convert();", r"convert takes 1 tensors, 0 given"),
    (TILE + "%y:16x16xi8 = add(%x);", r"add takes 2 tensors, 1 given"),
    (TILE + "%y:16x16xi8 = add(%x, 1);", r"add takes 2 tensors, 2 given"),
    ("%y:4xi8 = constant();", r"constant takes a value, 0 given"),
    (TILE + "%y:16x16xi8 = constant(%x);", r"constant takes a value, 1 given"),
    ("%y:4xi8 = concatenate(dim=0);", r"concatenate takes one or more tensors, 0 given"),
    (TILE + "%y:16x16xi8 = transpose(%x);", r"transpose needs the attribute dim"),
    (TILE + "%y:16x16xi8 = transpose(%x, dims={1, 0});", r"transpose has no attribute 'dims'; did you mean 'dim'\?"),
    (TILE + "%y:16x16xi8 = negate(%x, dim=1);", r"negate has no attribute 'dim' \(it has none\)"),
    (TILE + "%y:16x16xi8 = transpose(%x, dim={1, 0}, dim={1, 0});", r"an attribute of transpose is given twice"),
    (TILE + "%y:16x16xi8 = transpose(%x, dim=1);", r"attribute dim of transpose is a list \{\.\.\.\}"),
    (TILE + "%y:32x16xi8 = concatenate(%x, %x, dim={0});", r"attribute dim of concatenate is a single value"),
    (TILE + "%y:16xi8 = reduce(%x, dim={0}, kind=mean);",
     r"attribute kind of reduce is one of add, max, min, multiply, and, or, xor; found mean"),
    # types
    (TILE + "%y:16x16xi8 = reshape(%x); %z:16x16xi8 = convert(%y); %w:16x16xi32 = add(%z, %z);",
     r"%w is declared 16x16xi32 but add gives 16x16xi8"),
    (TILE + "%y:16x8xi32 = convert(%x);", r"%y is declared 16x8xi32 but convert gives 16x16xi32"),
    (TILE + "%y:16x8xi8 = reshape(%x);", r"%y is declared 16x8xi8 but reshape is given 16x16xi8"),
    (TILE + "%y:32x16xi8 = broadcast(%x);", r"%y: broadcast takes a scalar, found 16x16xi8"),
    (TILE + "%y:16x16xi8 = transpose(%x, dim={0, 0});", r"dim=\{0, 0\} is no permutation of the 2 axes"),
    (TILE + "%y:16x4xi8 = slice(%x, start={0, 0}, limit={16, 17});", r"slice 0:17:1 does not lie in an axis of ext"),
    (TILE + "%y:16x4xi8 = slice(%x, start={0}, limit={16});", r"start, limit and stride need one entry"),
    (TILE + "%y:16x4xi8 = slice(%x, start={0, 0}, limit={16, 8}, stride={1, 1});", r"but slice gives 16x8xi8"),
    (TILE + "%y:16x16xi8 = pad(%x, low={1, 0}, high={0, 0});", r"but pad gives 17x16xi8"),
    (TILE + "%y:16x16xi8 = pad(%x, low={1}, high={0, 0});", r"low, high and interior need one entry for each axis"),
    (TILE + "%y:16x4xi32 = bitcast_convert(%x);", r"cannot join the last axis of 16x16xi8 to i32: it must have 4"),
    (TILE + "%y:16x16xi1 = bitcast_convert(%x);", r"but bitcast_convert gives 16x16x8xi1"),
    (TILE + "%y:16x16xi8 = floor(%x);", r"floor is not defined for i8"),
    ("%f:4xf32 = constant(1.0); %y:4xf32 = xor(%f, %f);", r"xor is not defined for f32"),
    ("%f:4xf32 = constant(1); %g:4xi32 = constant(1); %y:4xf32 = add(%f, %g);",
     r"add needs operands of one type, found 4xf32 and 4xi32"),
    ("%f:4xf32 = constant(1); %g:2xf32 = constant(1); %y:4xf32 = clamp(%g, %f, %g);",
     r"the bounds of clamp must be scalars of f32 or of type 4xf32, found 2xf32"),
    (TILE + "%y:16x16xi8 = compare(%x, %x, direction=lt);", r"is declared 16x16xi8 but compare gives 16x16xi1"),
    (TILE + "%y:16x16xi1 = compare(%x, %x, direction=less);", r"attribute direction of compare is one of eq, ne, lt"),
    (TILE + "%y:16x16xi8 = select(%x, %x, %x);", r"the first operand of select must be of type i1 or 16x16xi1"),
    (TILE + "%y:16x16xf32 = dot_general(%x, %x, lhs_contracting={1}, rhs_contracting={0});",
     r"dot_general of i8 and i8 cannot accumulate in f32"),
    (TILE + "%y:16x16xi32 = dot_general(%x, %x, lhs_contracting={2}, rhs_contracting={0});",
     r"axis 2 is not one of the 2 axes 0\.\.1"),
    (TILE + "%z:8x16xi8 <- $spad[0:8]; %y:16x16xi32 = dot_general(%x, %z, lhs_contracting={1}, rhs_contracting={0});",
     r"the contracting axes of 16x16xi8 and 8x16xi8 have the extents \{16\} and \{8\}"),
    (TILE + "%y:16x16xi32 = dot_general(%x, %x, lhs_contracting={1, 1}, rhs_contracting={0, 0});",
     r"an axis is named twice"),
    (TILE + "%y:16xi8 = reduce(%x, dim={2}, kind=add);", r"axis 2 is not one of the 2 axes"),
    (TILE + "%y:8x16xi8 = reduce_window(%x, kind=max, size={17, 1}, stride={1, 1});",
     r"a window of 17 in steps of 1 does not fit an axis of extent 16"),
    (TILE + "%z:8x8xi8 <- $spad[0:8, 0:8]; %y:24x16xi8 = concatenate(%x, %z, dim=0);",
     r"cannot concatenate 16x16xi8 and 8x8xi8 along axis 0"),
    ("%y:4x4xi32 = iota(dim=2);", r"axis 2 is not one of the 2 axes"),
    ("%s:2xi8 = constant(0); %y:4xi8 = broadcast_in_dim(%s, dims={0});", r"cannot broadcast 2xi8 to 4xi8 along dims"),
])
def test_complaints(body: str, message: str) -> None:
    with pytest.raises(TaidlError, match=message) as caught:
        check(body)
    assert caught.value.position is not None and "^" in str(caught.value)


@pytest.mark.parametrize(("text", "message"), [
    ("isa t; x = 1; const x = 2;", r"'x' is already declared at line 1"),
    ("isa t; [b] () (4xi8); [b] () (4xi8);", r"'b' is already declared"),
    ("isa t; [hbm] () (4xi8);", r"'hbm' is the global memory"),
    ("isa t; [i]() { } [i]() { }", r"'i' is already declared"),
    ("isa t; [i](a, a) { }", r"'a' appears twice in \(a, a\)"),
    ("isa t; x = 1; [i](x) { }", r"attribute 'x' of i has the name of the declaration at line 1"),
    ("isa t; x = 1; def f(x) { }", r"parameter 'x' of f has the name of the declaration at line 1"),
    ("isa t; const x = y;", r"unknown name 'y'"),
    ("isa t; [b] (0) (4xi8);", r"every axis of buffer b must have at least one element, found 0x4"),
    ("isa t; r[0] = 1;", r"register array r must have at least one element, found 0"),
    ("isa t; const z = 0; r = 4 // z;", r"the right side of // must be positive, found 0"),
    ("isa t; def f() { g(); } def g() { f(); } [i]() { f(); }", r"def f calls itself: f -> g -> f"),
    ("isa t; def f(n) { } [i]() { f(); }", r"def f takes 1 arguments \(n\), 0 given"),
    ("isa t; def f(%X) { } [i]() { f(1); }", r"parameter %X of f is a tensor"),
    ("isa t; def f(n) { } [i]() { f(%x); }", r"parameter n of f is an integer"),
    ("isa t; r = 0; def f() { r = a; } [i](a) { f(); }", r"unknown name 'a' in def f"),
])
def test_complaints_about_declarations(text: str, message: str) -> None:
    with pytest.raises(TaidlError, match=message):
        whole(text)


def test_a_complaint_within_a_def_names_the_place_in_the_def() -> None:
    with pytest.raises(TaidlError, match=r"11:1: %y is declared 8xi16 but negate gives 8xi8"):
        check("f(%x, 9);", definitions="def f(%x, n) {\n%x:8xi8 = constant(n);\n%y:8xi16 = negate(%x);\n}")


@pytest.mark.parametrize(("parameters", "message"), [
    ({"dim": 3}, r"parameter dim of ISA gemmini must be in 4\.\.1024, found 3"),
    ({"dim": 1025}, r"parameter dim of ISA gemmini must be in 4\.\.1024, found 1025"),
    ({"dim": 16.0}, r"parameter dim of ISA gemmini must be an integer in 4\.\.1024, found 16\.0"),
    ({"dim": True}, r"must be an integer in 4\.\.1024, found True"),
    ({"dimm": 16}, r"ISA gemmini has no parameter 'dimm'; did you mean 'dim'\? \(valid: acc_rows, dim, dma_bytes, sp"),
])
def test_parameters_out_of_range(parameters: dict[str, int], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        taidl.load("gemmini", **parameters)


def test_unknown_isas() -> None:
    with pytest.raises(TaidlError, match=r"there is no ISA 'gemini'; did you mean 'gemmini'\?"):
        taidl.load("gemini")
    with pytest.raises(TaidlError, match=r"there is no file /nowhere/x\.taidl"):
        taidl.load("/nowhere/x.taidl")


@pytest.mark.parametrize(("alias", "message"), [
    ("f(b) = j", r"unknown instruction 'j'"),
    ("f(b, c) = i", r"alias f\(b, c\) must have 1 different attributes, one for each of i\(a\)"),
    ("k(b) = i", r"'k' already stands for k"),
    ("i(a) = i", r"alias i\(a\) has the name and the attributes of another way to write i"),
    ("f(b) = i; alias f(b) = i", r"alias f\(b\) has the name and the attributes of another way to write i"),
    ("f(b) = i; alias f(c) = k", r"'f' already stands for i"),
])
def test_aliases_tell_instructions_apart(alias: str, message: str) -> None:
    with pytest.raises(TaidlError, match=message):
        whole(f"isa t; r = 0; [i](a) {{ r = a; }} [k](a) {{ r = a; }} alias {alias};")
