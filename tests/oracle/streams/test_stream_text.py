"""Assembly text: prints, parses back to the equal stream, and says where it is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.assembly import parse, to_text
from archloom.oracle.errors import StreamError
from archloom.oracle.stream import Instr, Loop, Stream
from tests.support.oracle.example_stream import STREAM
from tests.support.oracle.strategies import arbitrary_streams

TEXT = """\
.stream "my matmul"
.isa gemmini dim=16 spad_rows=1024
.hbm 786496
.arg A int8[512,512] @0x40
.arg "conv/W:0" int32[4] @0x40040
.result C int8[] @0x80040
fence
loop i in 0..512 step 16 {
  mvin dram=512*i + 64, local=16*((((i // 16))) % 2), cols=16, rows=16
  parallel c in 0..8 along x {
    go at=-3*c + i
  }
}
loop down in 5..-1 step -2 {
}
"""


def test_canonical_text() -> None:
    printed = to_text(STREAM)
    assert printed == TEXT.replace("((((i // 16))) % 2)", "((i // 16) % 2)")
    assert parse(TEXT) == STREAM
    assert to_text(parse(printed)) == printed


def test_layout_and_comments_are_free() -> None:
    text = TEXT.replace("{\n", "{").replace("fence\n", "\n  fence # wait\n\n").replace("@0x40\n", "@ 64#x\n")
    assert parse(text) == STREAM


@given(arbitrary_streams())
def test_round_trip(stream: Stream) -> None:
    text = to_text(stream)
    assert parse(text) == stream
    assert to_text(parse(text)) == text


@given(st.integers(0, 1 << 70), st.sampled_from(["{}", "0{}", "000{}", "0x{:x}", "0X{:X}"]))
def test_numbers_are_read_as_they_may_be_written(value: int, spelling: str) -> None:
    assert parse(f".isa g\n.hbm 64\nmvin a=-{spelling.format(value)}\n").body == (Instr.make("mvin", a=-value),)


HEAD = ".isa g\n.hbm 64\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"s.asm:1:1: expected a line '.isa NAME"),
        (".isa g\n", r"2:1: expected a line '.hbm BYTES'"),
        (".isa g\n.isa g\n", r"2:1: .isa is given twice"),
        (".isa g a=1 a=2\n", r"1:12: parameter 'a' is given twice"),
        (".isa g a=x\n", r"1:10: expected the parameter's value, found 'x'"),
        (".izza g\n", r"1:1: unknown directive '.izza'; did you mean '.isa'"),
        (HEAD + ".arg A int8[4 @0\n", r"3:15: expected ',', found '@'"),
        (HEAD + "mvin a=1 b=2\n", r"3:10: expected ',', found 'b'"),
        (HEAD + "mvin a=1, a=2\n", r"3:11: attribute 'a' of mvin is given twice"),
        (HEAD + "mvin a=i\n", r"3:8: no enclosing loop has the variable 'i' \(no loop encloses it\)"),
        (HEAD + "loop row in 0..2 {\n  x a=rwo\n}", r"4:7: no .* the variable 'rwo'; did you mean 'row'"),
        (HEAD + "loop i in 0..2 {\n  x a=i*i\n}", r"4:8: not an affine expression: \(i\) \* \(i\) is not affine"),
        (HEAD + "loop i in 0..2 {\n  x a=4//i\n}", r"4:8: not an affine expression: the divisor i is no constant"),
        (HEAD + "loop i in 0..2 {\n  x a=4%0\n}", r"4:8: not an affine expression: a divisor must be a positive"),
        (HEAD + "loop i in 0..2 step 0 {\n}", r"3:16: the step of a loop must not be 0"),
        (HEAD + "loop i in 0..2 {\n x a=1\n", r"5:1: expected an instruction, .* or '}', found the end"),
        (HEAD + "parallel i in 1..2 along x {\n}", r"3:15: a parallel range begins at 0"),
        (HEAD + "}\n", r"3:1: expected an instruction, 'loop' or 'parallel', found '}'"),
        (HEAD + "mvin a=(1\n", r"3:10: expected '\)', found the end of the line"),
        (HEAD + "mvin a=!\n", r"3:8: unexpected character '!'"),
        (HEAD + "mvin a=" + "(" * 99 + "\n", r"parentheses nest deeper than 64"),
        (HEAD + "".join(f"loop v{i} in 0..1 {{" for i in range(70)), r"loops nest deeper than 64"),
        (HEAD + '.arg "\\q" int8[] @0\n', r"3:6: .* is no JSON string"),
    ],
)
def test_errors_say_where(text: str, message: str) -> None:
    with pytest.raises(StreamError, match=message):
        parse(text, "s.asm")


def test_error_shows_the_line_and_a_caret() -> None:
    with pytest.raises(StreamError) as caught:
        parse(HEAD + "  mvin a=oops, b=1\n", "s.asm")
    assert str(caught.value).splitlines()[1:] == ["      mvin a=oops, b=1", "             ^"]


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (Instr.make("loop"), "mnemonic 'loop' cannot be written"),
        (Instr.make("a b"), "mnemonic 'a b' cannot be written"),
        (Loop("2", 0, 1, 1, ()), "loop variable '2' cannot be written"),
    ],
)
def test_names_that_are_no_identifiers(node: Instr | Loop, message: str) -> None:
    with pytest.raises(StreamError, match=message):
        to_text(Stream("g", (), (), (), 0, (node,)))
