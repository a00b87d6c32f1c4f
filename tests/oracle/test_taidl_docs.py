"""The example of docs/taidl.md is a sound description, and its table of operators is complete."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from oracle import taidl
from oracle.interpreter import run_state
from oracle.stream import HbmTensor, Instr, Stream
from oracle.taidl.opcodes import DTYPES, OPCODES
from oracle.taidl.parser import parse

TEXT = (Path(__file__).parents[2] / "docs" / "taidl.md").read_text()


def test_the_example_runs() -> None:
    (example,) = re.findall(r"```\n(isa tiny.*?)```", TEXT, re.S)
    isa = taidl.instantiate(parse(example), {})
    x = np.arange(24, dtype=np.int8).reshape(4, 6)
    body = (Instr.make("configure", which=0, value=6), Instr.make("load", dram=1, row=5, rows=4),
            Instr.make("accumulate", row=5, rows=4))
    s = Stream("tiny", (), (HbmTensor("x", 1, (4, 6), "int8"),), (), 32, body, "s")
    state = run_state(s, isa, {"x": x})
    np.testing.assert_array_equal(state.buffers["sum"], x[:, :4].sum(axis=0, dtype=np.int32))


def test_the_table_of_operators_is_complete() -> None:
    table = TEXT[TEXT.index("| operator |"):TEXT.index("A control register enters")]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    attributes = {name: set(re.findall(r"`(\w+)`", row[3])) for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    assert attributes == {op.name: {a.name for a in op.attributes} for op in OPCODES.values()}


def test_the_element_types_are_complete() -> None:
    listed = re.search(r"DTYPE       = (.*)", TEXT)
    assert listed is not None and set(listed[1].split()) == set(DTYPES)
