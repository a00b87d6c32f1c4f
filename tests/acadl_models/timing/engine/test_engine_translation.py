"""Jitted functions as machine code find what they find as Python; what their language does not have is refused."""

from __future__ import annotations

import importlib.util
import sys
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.timing.engine.compiling import Entry
from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.translation import Module
from tests.support.examples import examples

HEAD = """from __future__ import annotations
from archloom.acadl_models.timing.engine.jit import constant_pointer, copy_words, for_each, jit, jit_inline, pointer
from archloom.acadl_models.timing.engine.jit import trailing_zeros, word
from archloom.acadl_models.timing.engine.state import M

"""
_numbers = count()
NAMES = ("a", "b", "c")


def module(folder: Path, text: str) -> ModuleType:
    """A Python module with a text: what is jitted lies in a file."""
    file = folder / f"jitted_{next(_numbers)}.py"
    file.write_text(HEAD + text)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


class Uncached(Entry):
    """An entry point that leaves nothing on disk."""

    def code(self) -> bytes:
        return self.compiled()


def compiled(function: Any) -> Entry:
    return Uncached(jit(function))


# --- programs ---------------------------------------------------------------------------------------------------
def _binary(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    # no number grows beyond 64 bits: factors are small, and shifts go by what is below 4
    return st.one_of(
        st.builds("({} {} {})".format, parts, st.sampled_from(("+", "-", "&", "|", "^", "//", "%")), parts),
        st.builds("({} % 1000 * {})".format, parts, st.integers(-9, 9)),
        st.builds("({} {} ({} & 3))".format, parts.map("({} % 4096)".format), st.sampled_from(("<<", ">>")), parts),
        st.builds("{}({}, {})".format, st.sampled_from(("min", "max")), parts, parts),
        st.builds("helper({}, {})".format, parts, parts),
        st.builds("({}{})".format, st.sampled_from("-~"), parts))


def _truths(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    compared = st.one_of(
        st.builds("{} {} {}".format, parts, st.sampled_from(("==", "!=", "<", "<=", ">", ">=")), parts),
        st.builds("{} <= {} < {}".format, parts, parts, parts))
    return st.recursive(compared, lambda t: st.one_of(
        st.builds("({} {} {})".format, t, st.sampled_from(("and", "or")), t), t.map("(not {})".format)), max_leaves=3)


LEAVES = st.one_of(st.sampled_from(NAMES), st.integers(-20, 20).map("({})".format), st.just("x[a % len(x)]"))
NUMBERS = st.recursive(LEAVES, _binary, max_leaves=5)
VALUES = st.one_of(NUMBERS, st.builds("({} if {} else {})".format, NUMBERS, _truths(NUMBERS), NUMBERS),
                   _truths(NUMBERS).map("int({})".format))


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


ASSIGNED = st.one_of(
    st.builds(lambda n, v: [f"{n} = ({v}) % 100000"], st.sampled_from(NAMES), VALUES),
    st.builds(lambda n, op, v: [f"{n} {op}= {v}", f"{n} %= 99991"], st.sampled_from(NAMES), st.sampled_from("+-|"),
              VALUES),
    st.builds(lambda v, w: [f"a, b = ({v}) % 5000, ({w}) % 5000"], VALUES, VALUES),
    st.builds(lambda v, w: [f"y[({v}) % len(y)] += ({w}) % 1000"], VALUES, VALUES),
    st.just(["a, c = pair(a, c)"]))


def _blocks(parts: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    return st.one_of(
        st.builds(lambda p, q: [*p, *q], parts, parts),
        st.builds(lambda t, p, q: [f"if {t}:", *_indented(p), "else:", *_indented(q)], _truths(NUMBERS), parts, parts),
        st.builds(lambda v, t, p: [f"for k in range(({v}) % 5, 9, 2):", *_indented([*p, f"if {t}:", "    continue"]),
                                   "    c = (c + k) % 77777"], VALUES, _truths(NUMBERS), parts),
        st.builds(lambda t, p: ["steps = 0", "while steps < 4:",
                                *_indented(["steps += 1", f"if {t}:", "    break", *p])], _truths(NUMBERS), parts),
        st.builds(lambda t, p: [*p, f"if {t}:", "    return a % 4099"], _truths(NUMBERS), parts))


PROGRAMS = st.recursive(ASSIGNED, _blocks, max_leaves=5)
PROGRAM = """
@jit
def helper(p, q):
    return p % 999 * (q % 31) if q % 3 != 0 else p - q

@jit
def pair(p, q):
    if p < q:
        return p + 1, q % 1000
    return q % 1000, p

def program(x, y) -> int:
    a, b, c = x[0], x[1], x[2]
    {}
    return a + 3 * b + 5 * c
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jitted")


@examples(12, 400)
@given(st.data())
def test_compiled_programs_find_what_python_finds(folder: Path, data: st.DataObject) -> None:
    lines = data.draw(PROGRAMS)
    given_ = [data.draw(st.lists(st.integers(-5000, 5000), min_size=4, max_size=4)) for _ in range(3)]
    program = module(folder, PROGRAM.format("\n    ".join(lines))).program
    fast = compiled(program)
    for x in given_:
        slow_y, fast_y = [0, 1, 2], np.arange(3)
        try:
            expected = program(x, slow_y)
        except ZeroDivisionError:
            fast(np.array(x), fast_y)  # means nothing, but ends
            continue
        assert (fast(np.array(x), fast_y), fast_y.tolist()) == (expected, slow_y)


def test_pointers_records_fields_and_bits(folder: Path) -> None:
    made = module(folder, """
@jit_inline
def add(m, h, field, at, value):
    h[at] = m[field] + value

each = for_each((2, 0, 1), add)

def program(source, target) -> int:
    t, m, h = constant_pointer(source), pointer(source), pointer(target)
    end = each(m, h, 0, 3, 100)
    copy_words(h, 0, t, 1, 3)
    h[end] = trailing_zeros(t[3]) + word(M.SIZE)
    return end
""")
    target = np.zeros(8, np.int64)
    assert compiled(made.program)(np.array([1, 2, 3, 8]), target) == 6
    assert target.tolist() == [2, 3, 8, 103, 101, 102, 3 + made.M.SIZE, 0]


@pytest.mark.parametrize(("text", "message"), [
    ("    return [1][0]", r"\[1\]: List is not taken"),
    ("    a = 1\n    a = 1 < 2\n    return a", r"a is i64, and cannot be Value\(kind='i1'"),
    ("    if x[0]:\n        return 1\n    return 0", r"x\[0\]: expected a truth value"),
    ("    return 1 + (1 < 2)", r"1 \+ \(1 < 2\): is not taken of"),
    ("    return a", "a: is not assigned before"),
    ("    if x[0] > 0:\n        return 1", "returns () here"),
    ("    for k in x:\n        pass\n    return 0", "x: expected a range"),
    ("    for k in range(9, 0, -1):\n        pass\n    return 0", "expected a positive step"),
    ("    return sum(x)", r"sum\(x\): is not jitted"),
    ("    constant_pointer(x)[0] = 1\n    return 0", r"constant_pointer\(x\)\[0\]: does not change"),
    ("    x = 1\n    return x", "x is a variable, and cannot be"),
    ("    return program(x)", "program calls itself"),
    ("    pass", "returns .*, not what is written behind its parameters"),
], ids=lambda value: value.strip().splitlines()[0][:40])
def test_what_the_language_does_not_have_is_refused(folder: Path, text: str, message: str) -> None:
    found = module(folder, f"def program(x) -> int:\n{text}\n    a = 1\n")
    with pytest.raises(TypeError, match=message.replace("()", r"\(\)")):
        Module(jit(found.program))


def test_an_entry_point_takes_arrays_of_words_in_a_row(folder: Path) -> None:
    entry = compiled(module(folder, "def program(x) -> int:\n    return len(x)\n").program)
    assert entry(np.zeros(5, np.int64)) == 5
    for wrong in (np.zeros(3), np.zeros((2, 2), np.int64), np.zeros(6, np.int64)[::2]):
        with pytest.raises(TypeError, match=r"program: expected an array \[n\] int64, found"):
            entry(wrong)


# --- on disk ---------------------------------------------------------------------------------------------------
def test_the_engine_is_compiled_of_its_own_folder_alone() -> None:
    """Or what it is kept by would not change with what it is made of."""
    from archloom.acadl_models.timing.engine import compiling
    from archloom.acadl_models.timing.engine.core import run
    from archloom.acadl_models.timing.engine.plain import JITTED

    assert run.function in JITTED
    known = {Path(compiling.__file__).parent, Path(compiling.__file__).parents[1] / "memories"}
    for function in JITTED:
        if function.__module__.startswith("archloom."):
            for value in function.__globals__.values():
                home = sys.modules.get(getattr(value, "__module__", None) or "", None)
                file = Path(getattr(home, "__file__", None) or compiling.__file__)
                assert not file.is_relative_to(Path(compiling.__file__).parents[3]) or known & {*file.parents}, value
