"""Whatever the text, the parser and the checks end with a description or an ArchloomError, soon, in little memory."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.errors import ArchloomError, TaidlError
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.parser import parse
from archloom.oracle.taidl.printer import print_isa
from tests.support.examples import examples, randoms
from tests.support.oracle.taidl_hostile import HOSTILE, outcome
from tests.support.oracle.taidl_trees import expressions, statements, tensor_names, types

ROOT = Path(__file__).parents[3]
FILES = sorted([*ROOT.glob("src/archloom/oracle/isas/*.taidl"), *ROOT.glob("tests/data/**/*.taidl")])
TEXTS = [p.read_text(encoding="utf-8") for p in FILES]
PIECES = ["(", ")", "[", "]", "{", "}", "%", "$", ":", ";", "->", "<-", "=", "x", "0", "1", "9999999999", "1M", "0x",
          "#", "\n", "-", "!", "<<", "//", ",", "..", "IF (a == 1) {", "REPEAT (k, 3) {", "def f() {", "param", "const",
          "i4", "!quant.uniform<", "{dim}", "hbm", "\x00", "é", "\u2028", "\t", "1e999", "rows"]


def damaged(text: str, r: random.Random) -> str:
    """A window of the text with one to four places cut, doubled, moved or filled with other pieces."""
    lines = text.splitlines(keepends=True)
    if r.random() < 0.7:
        start = r.randrange(len(lines))
        text = "isa t;\n" + "".join(lines[start:start + r.randrange(1, 60)])
    for _ in range(r.randrange(1, 5)):
        i = r.randrange(len(text) + 1)
        j = min(len(text), i + r.choice((0, 1, 1, 2, 5, 20, 100)))
        kind = r.randrange(4)
        put = (r.choice(PIECES), "", text[i:j] * 2, text[k:k + 10] if (k := r.randrange(len(text) + 1)) else "")[kind]
        text = text[:i] + put + text[j:]
    return text


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_description_prints_and_parses_to_the_same_tree(path: Path) -> None:
    tree = parse(path.read_text(encoding="utf-8"), str(path))
    printed = print_isa(tree)
    assert parse(printed) == tree
    assert print_isa(parse(printed)) == printed


@examples(80, 1000 * len(TEXTS))
@given(st.sampled_from(TEXTS), randoms)
def test_damaged_descriptions(text: str, r: random.Random) -> None:
    outcome(damaged(text, r))


names = st.sampled_from(["a", "b", "C", "dim", "r", "spad", "v", "m", "f"])
declarations = st.one_of(
    st.builds(lambda n, v: ast.Parameter(n, v, 0, v + 9), names, st.integers(0, 2**70)),
    st.builds(ast.Constant, names, expressions),
    st.builds(ast.BufferDecl, names, st.lists(expressions, max_size=3).map(tuple), types),
    st.builds(ast.RegisterDecl, names, st.none() | expressions, expressions),
    st.builds(ast.Definition, names, st.lists(names | tensor_names.map("%{}".format), max_size=3).map(tuple),
              st.lists(statements, max_size=3).map(tuple)),
    st.builds(ast.InstructionDecl, names, st.lists(names, max_size=3).map(tuple),
              st.lists(statements, max_size=4).map(tuple)),
)


@given(st.lists(declarations, max_size=6))
@examples(15, 500)
def test_random_descriptions(nodes: list[ast.Node]) -> None:
    """Random declarations of all kinds parse from their text to the same tree, and check or are refused."""
    kinds = (ast.Parameter, ast.Constant, ast.BufferDecl, ast.RegisterDecl, ast.Definition, ast.InstructionDecl)
    tree = ast.IsaDef("t", *(tuple(n for n in nodes if isinstance(n, kind)) for kind in kinds))  # type: ignore[arg-type]
    text = print_isa(tree)
    assert parse(text) == tree
    outcome(text)


@given(st.text(max_size=200))
@examples(40, 1000)
def test_any_text(text: str) -> None:
    outcome(text)
    outcome("isa t; [i](a) { " + text)


def test_hostile_texts_end_soon_and_in_little_memory() -> None:
    """All of them in one process of bounded memory and time (most of which is its start)."""
    done = subprocess.run([sys.executable, "-m", "tests.support.oracle.taidl_hostile"], capture_output=True, text=True,
                          cwd=ROOT, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == len(HOSTILE)


@pytest.mark.parametrize(("name", "expected"), [
    ("parentheses", "brackets are nested more than 50 deep"),
    ("a long sum", "more than 100 operators deep"),
    ("IFs", "blocks are nested more than 50 deep"),
    ("blocks of blocks", "more than 100000 statements"),
    ("a huge number", "has 8000 digits, more than 300"),
    ("a huge shift", "a shift by 10000000000 gives a number of more than 4096 bits"),
    ("squares of squares", "bits, more than 4096"),
    ("a buffer of terabytes", "buffer b has more than 64 axes or 2^40 elements"),
    ("a tensor of terabytes", "has more than 2^40 elements"),
    ("registers without end", "has 1000000000000 elements, more than 65536"),
    ("many axes", "a tensor has at most 64 axes"),
    ("a huge suffix", "buffer b has more than 64 axes or 2^40 elements"),
])
def test_what_asks_for_too_much_is_refused_by_its_measure(name: str, expected: str) -> None:
    assert expected in outcome(HOSTILE[name])


# --- all faults at once -------------------------------------------------------------------------------------------

FAULTY = """isa t;
[b] (8) (4 x i8);
r = 0;

[first](a) {
    %X:1x4xi8 <- $c[a];
    %Y:1x4xi32 = convrt(%X);
    %Z:1x4xi8 = convert(%Y);
    r = q;
    %Z -> $b[a];
}

[second](a) {
\t%X:1x5xi8 <- $b[a];
    %W:1x4xi8 = negate(%X);
}
"""


def test_all_independent_faults_are_reported_with_their_places() -> None:
    with pytest.raises(TaidlError) as caught:
        parse_and_check(FAULTY)
    assert [(f.position.line, f.position.column) for f in caught.value.faults if f.position] == [
        (6, 18), (7, 5), (9, 9), (14, 2), (15, 5)]
    text = str(caught.value).splitlines()
    assert text[-1] == "5 errors" and text[0].startswith("<string>:6:18: unknown buffer $c")
    assert text[1:3] == ["        %X:1x4xi8 <- $c[a];", "                     ^"]
    # a tab stays a tab, so that the caret stands where the fault is
    assert "    \t^" in text


def test_a_fault_is_not_reported_again_where_its_tensor_is_used() -> None:
    with pytest.raises(TaidlError) as caught:
        parse_and_check("isa t; [i](a) { %X:0x4xi8 = constant(0); %Y:2xi8 = negate(%X); %Y -> $hbm[a]; }")
    assert len(caught.value.faults) == 1


def test_faults_of_syntax_are_one_for_each_declaration() -> None:
    with pytest.raises(TaidlError) as caught:
        parse("isa t;\nparam p 3;\n[i](a) { x = ; y = ; }\n[j](a) { x = 1; }\ndef f( { }\n", "f.taidl")
    assert [str(f).splitlines()[0] for f in caught.value.faults] == [
        "f.taidl:2:9: expected '=', found '3'", "f.taidl:3:14: expected a value, found ';'",
        "f.taidl:5:8: expected a name, found '{'"]


def test_many_faults_are_counted() -> None:
    with pytest.raises(TaidlError) as caught:
        parse(HOSTILE["faults without end"])
    assert str(caught.value).splitlines()[-2:] == ["... and 580 more", "600 errors"]


def parse_and_check(text: str) -> None:
    from archloom.oracle import taidl

    taidl.check(parse(text))


# --- instructions that would never end ----------------------------------------------------------------------------

ENDLESS = """isa endless;
at = 3;
[wait](n) { REPEAT (i, n) { at = at + 1; } }
[square](n) { REPEAT (i, n) { at = at * at; } }
"""


@pytest.mark.parametrize(("mnemonic", "count", "message"), [
    ("wait", 10**12, "a REPEAT of 1000000000000 iterations"), ("square", 60, r"value of \* has .* 4096"),
])
def test_instructions_of_endless_work_are_refused(tmp_path: Path, mnemonic: str, count: int, message: str) -> None:
    from archloom.oracle.kernel import isa

    path = tmp_path / "endless.taidl"
    path.write_text(ENDLESS)
    endless = isa(path)

    @endless.kernel(size=8)
    def kernel() -> None:
        getattr(endless.api, mnemonic)(count)

    with pytest.raises(ArchloomError, match=message):
        kernel.interpret()
    with pytest.raises(ArchloomError, match=message):
        kernel.compile()
