"""The reference interpreter: loops, arguments, state, and what it says about broken rules."""

from __future__ import annotations

import numpy as np
import pytest

from archloom.oracle import taidl
from archloom.oracle.affine import Affine
from archloom.oracle.errors import InputError, StreamError
from archloom.oracle.interpreter import run, run_state
from archloom.oracle.stream import HbmTensor, Instr, Loop, Node, Parallel, Stream
from archloom.oracle.taidl import Isa
from archloom.oracle.taidl.parser import parse

COUNTERS = """isa counters;
[ram] (8) (4 x i8);
total = 0;
table[2] = 5;
[put](row, value) {
    assert(0 <= value && value < 100);
    %V:1x4xi8 = constant(value);
    %V -> $ram[row];
    total = total + value;
    table[row % 2] = total;
}
[out](at, row, n) {
    %V:{n}x4xi8 <- $ram[row + {n : 1}];
    %V -> $hbm[at + {n : 4, 4 : 1}];
}
[swap](a, b) {
    %A:1x4xi8 <- $ram[a];
    %B:1x4xi8 <- $ram[b];
    %B -> $ram[a];
    %A -> $ram[b];
}
[fill](n) {
    REPEAT (i, n) {
        IF (i % 2 == 0) { let v = i * 10; } ELSE { let v = 1; }
        %V:1x4xi8 = constant(v);
        %V -> $ram[i];
    }
}
[odd](n) {
    %V:{n}xi8 = constant(1);
    %W:{n}xi8 = negate(%V);
    %X:4xi8 = add(%V, %W);
}
[far](i) {
    table[i] = 1;
}
[wide](n) {
    %V:{n}x4xi8 <- $ram[0 + {2 : 1}];
}
"""

V = Affine.variable


def isa() -> Isa:
    return taidl.instantiate(parse(COUNTERS), {})


def stream(*body: Node, arguments: tuple[HbmTensor, ...] = (), results: tuple[HbmTensor, ...] = ()) -> Stream:
    return Stream("counters", (), arguments, results, 64, body, name="s")


def make(mnemonic: str, **attributes: Affine | int) -> Instr:
    return Instr.make(mnemonic, **attributes)


def test_loops_and_registers() -> None:
    body = Loop("i", 0, 6, 2, (Loop("j", 0, 2, 1, (make("put", row=V("i") + V("j"), value=V("i") * 3 + V("j") + 1),)),))
    state = run_state(stream(body), isa(), {})
    assert state.buffers["ram"][:, 0].tolist() == [1, 2, 7, 8, 13, 14, 0, 0]
    # updates are sequential: the table sees the new total
    assert state.registers == {"total": 45, "table[0]": 31, "table[1]": 45}


def test_divisions_in_attributes_and_variables_used_again() -> None:
    first = Loop("i", 0, 8, 1, (make("put", row=(V("i") * 3) % 8, value=V("i") // 2),))
    second = Loop("i", 0, 2, 1, (make("put", row=V("i"), value=50),))
    state = run_state(stream(first, second), isa(), {})
    expected = [0] * 8
    for i in range(8):
        expected[i * 3 % 8] = i // 2
    assert state.buffers["ram"][:, 3].tolist() == [50, 50, *expected[2:]]


def test_reads_are_values() -> None:
    s = stream(make("put", row=0, value=1), make("put", row=1, value=2), make("swap", a=0, b=1))
    state = run_state(s, isa(), {})
    assert state.buffers["ram"][:2].tolist() == [[2] * 4, [1] * 4]


def test_repeat_and_names_of_both_branches() -> None:
    state = run_state(stream(make("fill", n=5)), isa(), {})
    assert state.buffers["ram"][:, 0].tolist() == [0, 1, 20, 1, 40, 0, 0, 0]


def test_arguments_and_results() -> None:
    arguments = (HbmTensor("x", 4, (3,), "int16"),)
    results = (HbmTensor("y", 4, (6,), "int8"), HbmTensor("z", 16, (2, 4), "int8"))
    s = stream(make("fill", n=3), make("out", at=16, row=1, n=2), arguments=arguments, results=results)
    done = run(s, isa(), {"x": np.array([1, -2, 300], np.int16)})
    assert done["y"].tobytes() == np.array([1, -2, 300], np.int16).tobytes()
    assert done["z"].tolist() == [[1] * 4, [20] * 4]


def test_poison_fills_what_nothing_wrote() -> None:
    s = stream(make("put", row=0, value=1))
    first, again, other = (run_state(s, isa(), {}, poison=p) for p in (1, 1, 2))
    assert first.buffers["ram"][0].tolist() == [1] * 4
    np.testing.assert_array_equal(first.buffers["ram"], again.buffers["ram"])
    assert (first.hbm != other.hbm).any() and run_state(s, isa(), {}).hbm.any() == np.False_


@pytest.mark.parametrize(("instruction", "message"), [
    (make("put", row=1, value=100), r"^instruction 1, put\(row=1, value=100\): "
                                    r"assert\(0 <= value && value < 100\) fails: value = 100$"),
    (make("put", row=8, value=1), r"\$ram\[row\] spans 8\.\.8, outside of an axis of extent 8"),
    (make("put", row=-1, value=1), r"\$ram\[row\] spans -1\.\.-1, outside of an axis of extent 8"),
    (make("out", at=60, row=0, n=2), r"\$hbm\[at \+ \{n : 4, 4 : 1\}\] spans 60\.\.67, outside of an axis of ext"),
    (make("out", at=-1, row=0, n=2), r"spans -1\.\.6, outside of an axis of extent 64"),
    (make("out", at=0, row=7, n=2), r"\$ram\[row \+ \{n : 1\}\] spans 7\.\.8, outside of an axis of extent 8"),
    (make("out", at=0, row=0, n=0), r"\$ram\[row \+ \{n : 1\}\] has an axis of extent 0"),
    (make("odd", n=3), r"%X is declared 4xi8 but add gives 3xi8"),
    (make("wide", n=3), r"%V is 3x4xi8, but \$ram\[0 \+ \{2 : 1\}\] is 2x4xi8"),
    (make("far", i=2), r"table\[2\] is not one of the 2 elements"),
    (make("nothing", i=2), r"ISA counters has no instruction 'nothing'"),
    (make("put", value=1, row=1), r"expected the attributes \(row, value\), found \(value, row\)"),
    (make("put", row=1), r"expected the attributes \(row, value\), found \(row\)"),
])
def test_broken_rules_name_the_instruction(instruction: Instr, message: str) -> None:
    with pytest.raises(StreamError, match=message):
        run(stream(make("put", row=0, value=1), instruction), isa(), {})


def test_broken_rules_name_the_loops() -> None:
    body = Loop("i", 0, 9, 3, (Loop("j", 0, 3, 1, (make("put", row=V("i") + V("j"), value=V("j")),)),))
    with pytest.raises(StreamError, match=r"^instruction 8, put\(row=8, value=2\) at i = 6, j = 2: .*spans 8\.\.8"):
        run(stream(body), isa(), {})


@pytest.mark.parametrize(("arguments", "message"), [
    ({}, r"argument x of stream s is missing"),
    ({"x": np.zeros(3, np.int8), "w": np.zeros(3, np.int8)}, r"stream s has no argument 'w' \(valid: x\)"),
    ({"x": np.zeros(4, np.int8)}, r"argument x of stream s must be int8\[3\], found int8\[4\]"),
    ({"x": np.zeros(3, np.int16)}, r"argument x of stream s must be int8\[3\], found int16\[3\]"),
])
def test_wrong_arguments(arguments: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(stream(arguments=(HbmTensor("x", 0, (3,), "int8"),)), isa(), arguments)


def test_streams_that_do_not_fit() -> None:
    with pytest.raises(StreamError, match=r"result y of stream s lies at 60\.\.68, outside of its 64 bytes of HBM"):
        run(stream(results=(HbmTensor("y", 60, (8,), "int8"),)), isa(), {})
    with pytest.raises(StreamError, match=r"stream s: expected ISA 'gemmini', found 'counters'"):
        run(stream(), taidl.load("gemmini"), {})
    with pytest.raises(StreamError, match=r"stream s: expected parameter dim=16 of the ISA, found 8"):
        run(Stream("gemmini", (("dim", 8),), (), (), 0, (), "s"), taidl.load("gemmini"), {})
    with pytest.raises(StreamError, match=r"the interpreter runs one core: parallel c over x is not for it"):
        run(stream(Parallel("c", 2, "x", (make("put", row=0, value=V("c")),))), isa(), {})
