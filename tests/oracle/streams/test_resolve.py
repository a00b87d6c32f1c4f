"""How registers, branches and shapes are resolved through loops, case by case, on a toy ISA."""

from __future__ import annotations

import numpy as np
import pytest

from archloom.oracle import taidl
from archloom.oracle.assembly import parse
from archloom.oracle.errors import StreamError
from archloom.oracle.interpreter import run_state, start
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import Op, Read, Write
from archloom.oracle.stream import Stream
from archloom.oracle.taidl import instantiate
from archloom.oracle.taidl import parse as parse_taidl
from tests.support.accelerators import gemmini_streams as g
from tests.support.oracle.resolved_executor import execute
from tests.support.oracle.toy_isa import TOY, affine, instructions, outline, stream


def check(s: Stream) -> None:
    """The resolved stream does what the interpreter does."""
    memory = np.arange(s.hbm_bytes, dtype=np.int64).astype(np.int8)
    want = run_state(s, TOY, {"M": memory}, poison=1)
    hbm, machine = start(s, TOY, {"M": memory}, poison=1)
    execute(resolve(s, TOY), machine.buffers)
    assert np.array_equal(hbm, want.hbm)
    assert np.array_equal(machine.buffers["mem"], want.buffers["mem"])


@pytest.mark.parametrize(
    ("body", "register", "expected"),
    [
        pytest.param("set v=3\nloop i in 0..5 {\nput dram=4*i\n}", "at", "set[0] i<5(put[3])", id="invariant"),
        pytest.param("loop i in 0..5 {\nset v=i+1\nput dram=4*i\n}", "at", "i<5(set[?] put[i + 1])", id="assigned"),
        pytest.param("loop i in 0..5 {\nput dram=4*i\nstep by=2\n}\nput dram=0", "at",
                     "i<5(put[2*i] step[2*i]) put[10]", id="counted"),
        pytest.param("set v=50\nloop i in 0..5 {\nloop j in 0..3 {\nput dram=0\nstep by=-1\n}\nstep by=2\n}\n"
                     "put dram=0", "at",
                     "set[0] i<5(j<3(put[-i - j + 50] step[-i - j + 50]) step[-i + 47]) put[45]", id="nested"),
        pytest.param("loop i in 0..9 {\nrotate dram=4, k=1\ncycle m=0\n}\nrotate dram=0, k=1", "turn",
                     "i<9(rotate[(i % 4)] cycle[(i % 4)]) rotate[1]", id="modulo"),
        pytest.param("loop i in 0..5 {\nloop j in 0..3 {\nloop l in 0..3 {\nrotate dram=4, k=1\ncycle m=0\n}\n}\n}\n"
                     "rotate dram=0, k=1", "turn",
                     "i<5(j<3(l<3(rotate[((i + 3*j + l) % 4)] cycle[((i + 3*j + l) % 4)]))) rotate[1]",
                     id="nested modulo"),
        pytest.param("loop i in 0..6 {\nloop j in 0..3 {\nloop l in 0..3 {\nrotate dram=4, k=1\ncycle m=0\n}\n}\n"
                     "cycle m=0\n}\nrotate dram=0, k=1", "turn",
                     "i<6(j<3(l<3(rotate[((2*i + 3*j + l) % 4)] cycle[((2*i + 3*j + l) % 4)])) "
                     "cycle[((2*i + 1) % 4)]) rotate[0]", id="nested modulo in even steps"),
        pytest.param("loop i in 0..5 {\nput dram=4*i\nset v=i\n}", "at",
                     "put[0] set[0] i<4(put[i] set[i])", id="peeled"),
        pytest.param("loop i in 0..5 {\nput dram=4*i\nset v=i+1\n}", "at", "i<5(put[i] set[i])", id="carried"),
        pytest.param("set v=7\nloop i in 0..5 {\nnow\nput dram=4*i\nlater v=i+3\n}", "at",
                     "set[0] now[7] put[0] later[0] i<4(now[?] put[i + 3] later[i + 3])", id="copied"),
        pytest.param("set v=1\nloop i in 0..4 {\nput dram=0\ndouble\n}", "at",
                     "set[0] put[1] double[1] put[2] double[2] put[4] double[4] put[8] double[8]", id="unrolled"),
        pytest.param("loop i in 0..6 {\nput dram=0\nmost v=5\n}", "at",
                     "put[0] most[0] i<5(put[5] most[5])", id="fixed point"),
        pytest.param("loop i in 3..9 step 2 {\nset v=i\nput dram=0\n}", "at", "i<3(set[?] put[2*i + 3])",
                     id="normalized"),
        pytest.param("loop i in 9..3 step -2 {\nset v=i\nput dram=0\n}", "at", "i<3(set[?] put[-2*i + 9])",
                     id="downwards"),
        pytest.param("loop i in 4..5 {\nset v=i\nput dram=4*i\n}", "at", "set[0] put[4]", id="one iteration"),
        pytest.param("loop i in 4..4 {\nset v=i\n}\nput dram=0", "at", "put[0]", id="no iteration"),
        pytest.param("loop i in 0..3 {\nloop j in 0..0 {\nset v=9\n}\nput dram=0\n}", "at", "i<3(put[0])",
                     id="no inner iteration"),
        pytest.param("set v=2\nloop i in 0..3 {\nwhen c=1, v=9\n}\nput dram=0", "at", "set[0] i<3(when[2]) put[2]",
                     id="untouched"),
        pytest.param("loop i in 0..3 {\n}\nput dram=0", "at", "put[0]", id="empty"),
    ],
)
def test_registers_through_loops(body: str, register: str, expected: str) -> None:
    s = stream(body)
    assert outline(resolve(s, TOY), register) == expected
    check(s)


@pytest.mark.parametrize("opcode", ["reshape", "convert", "bitcast_convert", "copy"])
@pytest.mark.parametrize("kind", ["1x4xi8", "4xi8"])
def test_what_makes_a_tensor_of_the_same_type_is_no_operation(opcode: str, kind: str) -> None:
    """Of another type it is one, and what reads it goes on with what it was made of."""
    isa = instantiate(parse_taidl(f"""
isa same;
[mem] (64) (4 x i8);
[move](a) {{
    %X:1x4xi8 <- $mem[a];
    %Y:{kind} = reshape(%X);
    %Z:{kind} = {opcode}(%Y);
    %W:4xi8 = reshape(%Z);
    %W -> $hbm[0:4];
}}
"""), {})
    s = parse(".isa same\n.hbm 4\n.arg M int8[4] @0\n.result M int8[4] @0\nmove a=3")
    (instr,) = instructions(resolve(s, isa))
    read, *operations, write = instr.statements
    assert isinstance(read, Read) and [getattr(o, "opcode", None) for o in operations] == ["reshape"]
    assert isinstance(write, Write) and write.src == operations[0].dst and operations[0].operands == (read.dst,)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("loop i in 0..9 {\nrotate dram=4*i, k=i\n}", "rotate i<8(rotate)", id="first"),
        pytest.param("loop i in 0..9 {\nrotate dram=4*i, k=8-i\n}", "i<8(rotate) rotate", id="last"),
        pytest.param("loop i in 0..9 {\nrotate dram=4*i, k=i//3\n}", "i<3(rotate) i.1<6(rotate)", id="threshold"),
        pytest.param("loop i in 0..99 {\nrotate dram=4*i, k=i%2\n}", "i<49(rotate rotate) rotate", id="parity"),
        pytest.param("loop i in 0..60 {\nrotate dram=4*i, k=i%3\n}", "i<20(rotate rotate rotate)", id="period"),
        pytest.param("loop i in 0..3 {\nloop j in 0..3 {\nrotate dram=4*i, k=i+j\n}\n}",
                     "rotate j<2(rotate) i<2(j.1<3(rotate))", id="corner"),
        pytest.param("loop i in 0..2 {\nloop j in 0..3 {\nrotate dram=4*i, k=j\n}\n}", "i<2(rotate j<2(rotate))",
                     id="inner"),
        pytest.param("loop i in 0..3 {\nloop j in 0..3 {\nrotate dram=4*i, k=i-j\n}\n}", None, id="diagonal"),
        pytest.param("loop i in 0..3 {\nget dram=64*i, row=8*i, rows=i+1\n}", "get get get", id="shapes"),
        pytest.param("loop i in 0..4 {\nget dram=64*i, row=8*i, rows=1+i//2\n}", "i<2(get) i.1<2(get)",
                     id="two shapes"),
        pytest.param("loop i in 0..4 {\nchoose which=i%2, v=i+1\nsized dram=64*i, which=0\n}", None, id="array"),
        pytest.param("loop i in 0..4 {\nwhen c=i, v=5\nput dram=4*i\n}", None, id="assigned in one iteration"),
        pytest.param("loop i in 0..4 {\nput dram=4*i\nwhen c=i%2, v=i\n}\nput dram=0", None,
                     id="assigned in every other"),
        pytest.param("loop i in 0..5 {\nproduct a=i, b=i+1\nput dram=i\n}", None, id="not affine"),
    ],
)
def test_branches_and_shapes_through_loops(body: str, expected: str | None) -> None:
    s = stream(body)
    check(s)
    if expected is not None:
        assert outline(resolve(s, TOY)) == expected


def test_statements_are_straight_lines_over_affine_windows() -> None:
    s = stream("loop i in 0..4 {\nloop j in 0..2 {\nsum row=2*i + j, from=32 + (i + 1) % 2\n}\n}")
    (instr,) = instructions(resolve(s, TOY))
    read, old, add, write = instr.statements
    assert isinstance(read, Read) and isinstance(old, Read) and isinstance(add, Op) and isinstance(write, Write)
    assert read.window.offsets == (affine("(i + 1) % 2 + 32"), affine("0"))
    assert write.kind == "accumulate" and write.window == old.window
    assert write.window.offsets == (affine("2*i + j"), affine("0"))
    assert [(d.axis, d.extent, d.stride) for d in write.window.dims] == [(0, 1, 1), (1, 4, 1)]


def test_repeat_defines_each_tensor_once() -> None:
    s = stream("choose which=1, v=3\nsized dram=0, which=1")
    statements = instructions(resolve(s, TOY))[1].statements
    names = [x.dst for x in statements if not isinstance(x, Write)]
    assert len(names) == 6 and len(set(names)) == 6
    check(s)


def test_sources_number_the_stream_and_buffers_include_hbm() -> None:
    r = resolve(stream("put dram=0\nloop i in 0..3 {\nput dram=4*i\nset v=i\n}"), TOY)
    assert [(i.mnemonic, i.source) for i in instructions(r)] == [
        ("put", 0), ("put", 1), ("set", 2), ("put", 1), ("set", 2)
    ]
    assert r.buffer("hbm").shape == (4096,) and r.buffer("mem").shape == (64, 4)


def test_the_same_stream_is_resolved_once() -> None:
    s = stream("put dram=0")
    assert resolve(s, TOY) is resolve(stream("put dram=0"), TOY)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("loop i in 0..3 {\nget dram=0, row=i, rows=7+i\n}",
         r"loop i / instr 0 get: assert\(1 <= rows && rows <= 8\) is violated: rows = 9 \(for i = 2\)"),
        ("loop k in 2..9 step 3 {\nput dram=4086 + k\n}",
         r"loop k / instr 0 put: writes bytes 4094..4097 of HBM, outside its 4096 bytes .* \(for k = 8\)"),
        ("set v=1\nloop i in 0..3 {\nloop k in 0..2 {\nput dram=2045*k + i\n}\n}\nput dram=4093",
         r"^instr 2 put: writes bytes 4093..4096 of HBM, outside its 4096 bytes \(hbm_bytes\)$"),
        ("loop i in 0..3 {\nget dram=-64*i + 64, row=0, rows=1\n}",
         r"loop i / instr 0 get: reads bytes -64..-61 of HBM, outside its 4096 bytes \(hbm_bytes\) \(for i = 2\)"),
        ("loop i in 0..3 {\nget dram=0, row=28*i, rows=8\n}", None),
        ("loop i in 0..3 {\nget dram=0, row=29*i, rows=8\n}",
         r"writes rows 58..65 of \$mem, outside its extent 64 \(for i = 2\)"),
        ("loop i in 0..3 {\nsum row=0, from=i-1\n}",
         r"reads rows -1..-1 of \$mem, outside its extent 64 \(for i = 0\)"),
        ("get dram=0, row=0, rows=0", r"^instr 0 get: assert\(1 <= rows && rows <= 8\) is violated: rows = 0$"),
        ("choose which=2, v=0", r"instr 0 choose: register size\[2\] does not exist"),
        ("choose which=0, v=3\nsized dram=0, which=7", r"instr 1 sized: .*unknown name 'size\[7\]'"),
        ("loop i in 0..30 {\nsized dram=4*i, which=i%2\ndouble\n}\n", None),
        ("set v=1\nloop i in 0..9999 {\nput dram=0\ndouble\n}",
         r"loop i: its 9996 iterations of 2 instructions would have to be unrolled, since the value of register at "
         r"that loop i / instr 1 put reads has no form that is affine in its variable; expected at most 4096"),
        ("loop i in 0..3000 {\nloop j in 0..3000 {\nrotate dram=0, k=i-j\n}\n}",
         r"would have to be unrolled, since 'k == 0' in loop i / loop j / instr 0 rotate has no form"),
    ],
)
def test_errors_name_the_place(body: str, message: str | None) -> None:
    if message is None:
        check(stream(body))
        return
    with pytest.raises(StreamError, match=message):
        resolve(stream(body), TOY)


def test_the_bound_of_unrolling_is_an_option() -> None:
    s = stream("set v=1\nloop i in 0..6 {\nstep by=i\nput dram=0\n}")
    assert len(instructions(resolve(s, TOY))) == 13
    with pytest.raises(StreamError, match=r"expected at most 10 resolved instructions \(max_instructions\)"):
        resolve(s, TOY, max_instructions=10)


def test_windows_that_only_ranges_would_refuse_are_proved_on_the_grid() -> None:
    # the ranges of i%2 and (i+1)%2 alone would allow row 64
    s = stream("loop i in 0..9 {\nget dram=0, row=32*(i%2) + 32*((i+1)%2), rows=8\n}")
    check(s)


def test_multi_core_streams_are_refused() -> None:
    with pytest.raises(StreamError, match="parallel c: expected a stream for one core, found iterations on the cores "
                                          "along 'x'"):
        resolve(stream("parallel c in 0..4 along x {\nput dram=4*c\n}"), TOY)


@pytest.mark.parametrize("dim", [4, 7, 16, 64, 256])
def test_a_gemmini_stream_stays_small(dim: int) -> None:
    s = g.tiled_matmul(dim, 64, g.WS)
    r = resolve(s, taidl.load("gemmini", dim=dim))
    assert outline(r) == ("config_ex config_ld config_st mvin i<64(mvin mvin preload compute_preloaded mvout)")
