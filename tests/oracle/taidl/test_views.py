"""Views of buffers: the same bits as elements of another type, on all paths, and what is no view."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle import taidl
from archloom.oracle.accesses import accesses
from archloom.oracle.assembly import parse
from archloom.oracle.errors import TaidlError
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import ResolvedInstr
from archloom.oracle.taidl.builder import Body, Builder
from archloom.oracle.taidl.builder import Value as Number
from archloom.oracle.taidl.isa import Isa
from tests.support.examples import examples
from tests.support.oracle.agreement import agree, isa_of

ROWS, BYTES = 4, 16
WIDTHS = {"i8": 1, "u8": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2, "i32": 4, "u32": 4, "f32": 4}
MOVES = """
[fill](dram) {{ %x:{rows}x{bytes}xi8 <- $hbm[dram + {{{rows} : {bytes}, {bytes} : 1}}];
    %y:{rows}x{last}x{size}xi8 = reshape(%x); %z:{shape}x{of} = bitcast{convert}(%y); %z -> $ram; }}
[dump](dram) {{ %z:{shape}x{of} <- $ram; %y:{rows}x{last}x{size}xi8 = bitcast{convert}(%z);
    %x:{rows}x{bytes}xi8 = reshape(%y); %x -> $hbm[dram + {{{rows} : {bytes}, {bytes} : 1}}]; }}
"""


def moves(of: str) -> str:
    """A buffer of the type, and what brings bytes there and back."""
    size = WIDTHS[of]
    shape = f"{ROWS}x{BYTES // size}"
    text = MOVES.format(rows=ROWS, bytes=BYTES, of=of, size=size, last=BYTES // size, shape=shape, convert="")
    return f"[ram] ({ROWS}) ({BYTES // size} x {of});" + text


def spans(extent: int) -> st.SearchStrategy[tuple[str, slice]]:
    """An axis of a slice as text and as Python has it."""
    whole = st.just((":", slice(None)))
    forwards = st.tuples(st.integers(0, extent - 1), st.integers(1, extent), st.integers(1, 3)).filter(
        lambda t: t[0] < t[1]).map(lambda t: (f"{t[0]} : {t[1]} : {t[2]}", slice(*t)))
    back = st.integers(1, 2).map(lambda step: (f"::-{step}", slice(None, None, -step)))
    one = st.integers(-extent, extent - 1).map(lambda i: (str(i), slice(i, i + 1 or None)))
    entries = st.tuples(st.integers(0, extent - 1), st.integers(1, extent)).filter(
        lambda t: t[0] + t[1] <= extent).map(lambda t: (f"{t[0]} + {{{t[1]} : 1}}", slice(t[0], t[0] + t[1])))
    return whole | forwards | back | one | entries


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, str, tuple[str, tuple[slice, slice]], int]:
    of = draw(st.sampled_from(sorted(WIDTHS)))
    kind = draw(st.sampled_from([t for t in sorted(WIDTHS) if WIDTHS[t] >= WIDTHS[of] and t[0] in "iu"]))
    (row, a), (column, b) = draw(spans(ROWS)), draw(spans(BYTES // WIDTHS[kind]))
    axes = row if column == ":" and draw(st.booleans()) else f"{row}, {column}"
    return of, kind, (axes, (a, b)), draw(st.integers(0, 99))


@given(cases())
@examples(6, 300)
def test_a_view_is_the_bits_as_numpy_views_them(case: tuple[str, str, tuple[str, tuple[slice, slice]], int]) -> None:
    of, kind, (axes, at), seed = case
    x = np.random.default_rng(seed).integers(-128, 128, (ROWS, BYTES)).astype(np.int8)
    if of == "bf16":  # NaN has no particular bits there
        x[:, 1::2] &= 63
    expected = x.copy()
    seen = expected.view(np.dtype(f"{kind[0]}{WIDTHS[kind]}"))
    taken = seen[at]
    seen[at] = taken ^ 5
    shape = "x".join(map(str, taken.shape))
    isa = isa_of(f"{moves(of)}[see] ({ROWS}) ({BYTES // WIDTHS[kind]} x {kind}) = ram;\n"
                 f"[go](i) {{ %x:{shape}x{kind} <- $see[{axes}]; %five:{shape}x{kind} = constant(5); "
                 f"%y:{shape}x{kind} = xor(%x, %five); %y{f':{shape}x{kind}' if seed % 2 else ''} -> $see[{axes}]; }}")
    size = ROWS * BYTES
    found = agree(f".isa t\n.hbm {2 * size}\n.arg X int8[{size}] @0\n.result Y int8[{size}] @{size}\nfill dram=0\n"
                  f"go i=0\ndump dram={size}\n", isa, {"X": x.reshape(-1)})["Y"]
    np.testing.assert_array_equal(found.reshape(ROWS, BYTES), expected)


# --- timing -------------------------------------------------------------------------------------------------------

SUMS = "[{name}](a, b) {{ %x:1x4x{t} <- ${a}[a]; %y:1x4x{t} <- ${a}[b]; %z:1x4x{t} = add(%x, %y); %z -> ${a}[a]; }}\n"


def touched(isa: Isa, name: str, b: int = 1) -> list[tuple[str, tuple[int, ...]]]:
    """The kinds and extents of what an instruction touches."""
    (instr,) = resolve(parse(f".isa t\n.hbm 64\n{name} a=0, b={b}\n"), isa).body
    assert isinstance(instr, ResolvedInstr)
    return [(a.kind, a.window.shape) for a in accesses(instr) if a.window.buffer == "ram"]


def test_a_view_is_the_same_storage_to_timing() -> None:
    plain = isa_of("[ram] (4) (4 x f32);\n" + SUMS.format(name="go", t="f32", a="ram"))
    seen = isa_of("[ram] (4) (4 x i32);\n[f] (4) (4 x f32) = ram;\n" + SUMS.format(name="go", t="f32", a="f"))
    assert touched(seen, "go") == touched(plain, "go") == [("read", (1, 4)), ("accumulate", (1, 4))]
    assert [b.name for b in seen.buffers] == ["ram"] and [b.name for b in seen.views] == ["f"]


def test_the_bits_of_a_sum_of_floats_are_no_summand_of_integers() -> None:
    isa = isa_of("[ram] (4) (4 x i32);\n[f] (4) (4 x f32) = ram;\n"
                 "[go](a, b) { %x:1x4xf32 <- $f[a]; %y:1x4xf32 <- $f[b]; "
                 "%z:1x4xf32 = add(%x, %y); %i:1x4xi32 = bitcast_convert(%z); %k:1x4xi32 <- $ram[b]; "
                 "%s:1x4xi32 = add(%i, %k); %s -> $ram[a]; }")
    assert [kind for kind, _ in touched(isa, "go")] == ["read", "read", "write"]


def test_wider_elements_are_read_and_written() -> None:
    isa = isa_of("[ram] (4) (16 x i8);\n[f] (4) (4 x i32) = ram;\n" + SUMS.format(name="go", t="i32", a="f"))
    assert touched(isa, "go") == [("read", (1, 4, 4)), ("read", (1, 4, 4)), ("write", (1, 4, 4))]


# --- declarations -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("view", "message"), [
    ("[v] (4) (4 x f32) = rum;", "'v' is a view of an unknown buffer 'rum'; did you mean 'ram'"),
    ("[v] (4) (4 x f32) = hbm;", "'v' cannot be a view of hbm, whose addresses are those of bytes"),
    ("[v] (4) (4 x f32) = ram; [w] (4) (4 x u32) = v;", "'w' is a view of 'v', which is itself a view of 'ram'"),
    ("[v] (4) (8 x i16) = ram;", "an element of view v has 16 bits: expected the 32 of an element of ram"),
    ("[v] (2) (8 x f32) = ram;", "view v is 2x8 elements, each as wide as 1 of ram, which is 4x4"),
    ("[v] (4) (4 x c64) = ram;", "view v shows i32 as c64, for which there is no bitcast_convert"),
    ("[v] (4) (2 x i64) = ram; [i](a) { %x:1x2xi32 <- $v[a]; }", r"%x is 1x2xi32, but \$v\[a\] is 1x2xi64"),
    ("[v] (4) (2 x i64) = ram; [i](a) { %x:1x3xi64 <- $v[a, 0:3]; }", r"\$v\[a, 0:3\] spans 0..2, outside"),
    ("param w = 32 in 8..64; [v] (4) (4 x i{w}) = ram;", "the widths of 'v' and of 'ram' must be numbers"),
])
def test_what_is_no_view(view: str, message: str) -> None:
    with pytest.raises(TaidlError, match=message):
        isa_of(f"[ram] (4) (4 x i32);\n{view}")


def test_a_view_goes_with_its_buffer() -> None:
    text = ("param rows = 4 in 0..8; param w = 32 in 16..32; [ram] (rows) (4 x i{w}); [v] (rows) (4 x f{w}) = ram;\n"
            "[i](a) { %x:1x4xf{w} <- $v[a]; %x -> $v[0]; }")
    tree = taidl.parse("isa t;\n" + text)
    assert [b.dtype for b in taidl.instantiate(tree, {"w": 16}).views] == ["f16"]
    without = taidl.instantiate(tree, {"rows": 0})
    assert not without.buffers and not without.views and not without.instructions


def test_the_builder_writes_them() -> None:
    isa = Builder("t")
    isa.buffer("ram", (4,), (4, "i32"))
    floats = isa.view("floats", (4,), (4, "f32"), "ram")

    @isa.instruction
    def clear(b: Body, row: Number) -> None:
        b.write(b.constant(0.0, (1, 4, "f32")), floats[row])

    assert "[floats] (4) (4xf32) = ram;" in isa.text()
    assert taidl.parse(isa.text()) == isa.definition() and isa.build().views
