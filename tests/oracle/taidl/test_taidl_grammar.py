"""The hand-written parser reads the language of grammar.lark: equal trees, and the same texts refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.errors import TaidlError
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.parser import parse
from tests.support.examples import examples
from tests.support.oracle import lark_parser
from tests.support.oracle.taidl_trees import TPU, printed, statements

ROOT = Path(__file__).parents[3]
FILES = sorted([*ROOT.glob("src/archloom/oracle/isas/*.taidl"), *ROOT.glob("tests/data/taidl*/*.taidl")])
SAMPLE = """isa s; include base ; param p = 2 in 1..4 where p > 1 && p % 2 == 0 ;
const K = p * 2 const L = 0x1F & ( 3 << 1 )
[ ram ] ( 8 x p ) ( p x i8 ) [ see ] ( 8 , p ) ( p x u8 ) = ram [ one ] ( ) ( f32 ) r = 0 ; t[ 3 ] = K ;
def f ( %X , n ) { let m = n - 1 ; %Y : { m } x 4 x i8 = pad ( %X , low = { 0 , 1 } , kind = max , value = - 1 ) }
[ go ] ( a , b ) {
    assert ( ! ( a < 1 ) && b >= 2 || a != 3 )
    %T : 2 x ( a * 2 ) x i8 <- $ram[ a + { 2 : 1 , b : p } , 1 : 3 : 2 ]
    IF ( a == b ) { f ( %T , b % 2 ) } ELSE { REPEAT ( i , 3 ) { t[ i ] = select ( a > 1 , cdiv ( b , 2 ) , 0 ) } }
    %T -> $one r = min ( a , b , 7 ) | 1
    %T : i8 -> ram[ : , a : ]
}
"""
TOKENS = SAMPLE.split()


def outcome(parser: object, text: str) -> ast.IsaDef | None:
    try:
        return parser(text)  # type: ignore[operator]
    except TaidlError:
        return None


@pytest.mark.first_case
@pytest.mark.parametrize("text", [SAMPLE, TPU, TPU.replace("isa tpu", ""), *(p.read_text() for p in FILES)])
def test_whole_descriptions(text: str) -> None:
    assert parse(text) == lark_parser.parse(text)


@pytest.mark.slow
@given(st.lists(statements, max_size=3).map(tuple))
@examples(21, 300)
def test_random_statements(tree: tuple[ast.Statement, ...]) -> None:
    assert parse(printed(tree)) == lark_parser.parse(printed(tree))


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["drop", "swap", "copy", "insert"]), st.integers(0, len(TOKENS) - 1),
                          st.integers(0, len(TOKENS) - 1)), min_size=1, max_size=3))
@examples(105, 1500)
def test_damaged_texts(edits: list[tuple[str, int, int]]) -> None:
    """Tokens dropped, swapped, put elsewhere: both parsers give the same tree or both refuse."""
    tokens = list(TOKENS)
    for kind, i, j in edits:
        i, j = i % len(tokens), j % len(tokens)
        if kind == "drop":
            del tokens[i]
        elif kind == "swap":
            tokens[i], tokens[j] = tokens[j], tokens[i]
        elif kind == "copy":
            tokens[i] = tokens[j]
        else:
            tokens.insert(i, tokens[j])
    text = " ".join(tokens)
    assert outcome(parse, text) == outcome(lark_parser.parse, text)


def test_the_damage_reaches_both_outcomes() -> None:
    """Dropping single tokens gives sound texts (a ``;`` less) and unsound ones."""
    sound = [outcome(parse, " ".join(TOKENS[:i] + TOKENS[i + 1:])) is not None for i in range(len(TOKENS))]
    assert 5 < sum(sound) < len(sound) - 50


def test_the_page_names_every_rule_word() -> None:
    """The words and signs of the grammar all appear in docs/taidl.md."""
    page = (ROOT / "docs" / "taidl.md").read_text()
    words = set(re.findall(r'"([a-zA-Z]{2,})"', lark_parser.GRAMMAR.read_text()))
    assert words == {
        "isa", "in", "where", "include", "param", "const", "def", "alias", "let", "assert", "IF", "ELSE", "REPEAT"}
    assert all(f'"{word}"' in page for word in words)
