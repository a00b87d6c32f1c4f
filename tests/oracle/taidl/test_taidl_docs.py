"""The example of docs/taidl.md is a sound description, and its table of operators is complete."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from archloom.oracle import taidl
from archloom.oracle.interpreter import run_state
from archloom.oracle.stream import HbmTensor, Instr, Stream
from archloom.oracle.taidl.operators import OPCODES
from archloom.oracle.taidl.operators.base import Attribute
from archloom.oracle.taidl.operators.refused import REFUSED
from archloom.oracle.taidl.parser import parse
from archloom.oracle.taidl.types import TYPES

TEXT = (Path(__file__).parents[3] / "docs" / "taidl.md").read_text()


def test_the_example_runs() -> None:
    (example,) = re.findall(r"```\n(isa tiny.*?)```", TEXT, re.S)
    isa = taidl.instantiate(parse(example), {})
    x = np.arange(24, dtype=np.int8).reshape(4, 6)
    body = (Instr.make("configure", which=0, value=6), Instr.make("load", dram=1, row=5, rows=4),
            Instr.make("accumulate", row=5, rows=4))
    s = Stream("tiny", (), (HbmTensor("x", 1, (4, 6), "int8"),), (), 32, body, "s")
    state = run_state(s, isa, {"x": x})
    np.testing.assert_array_equal(state.buffers["sum"], x[:, :4].sum(axis=0, dtype=np.int32))


def named(name: str, spelled: tuple[str, ...]) -> str:
    """A name with its other names."""
    return " or ".join(f"`{n}`" for n in (name, *spelled))


def shown(a: Attribute) -> str:
    """An attribute with its default in parentheses."""
    default = "" if a.default is None else " (none)" if a.default == () else f" ({a.default})"
    return f"{named(a.name, a.spelled)}{default}" + (f": {', '.join(a.words)}" if a.words else "")


def operators() -> str:
    """The table of operators, as the page has it."""
    lines = ["| operator | operands | attributes | meaning |", "|---|---|---|---|"]
    lines += [f"| {named(op.name, op.spelled)} | {op.arity} | {', '.join(map(shown, op.attributes))} | {op.doc} |"
              for op in OPCODES.values()]
    return "\n".join(lines)


def refusals() -> str:
    """The table of operators that are not there."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in REFUSED.items():
        by_reason.setdefault(reason, []).append(name)
    lines = ["| operators of XLA that are not there | because |", "|---|---|"]
    lines += [f"| {', '.join(f'`{n}`' for n in names)} | {reason} |" for reason, names in by_reason.items()]
    return "\n".join(lines)


def test_the_tables_of_operators_are_those_of_the_code() -> None:
    assert operators() in TEXT
    assert refusals() in TEXT


def test_every_operator_says_what_it_does() -> None:
    assert all(op.doc and (op.value or op.operands is not None or op.least >= 0) for op in OPCODES.values())


def test_the_element_types_are_named() -> None:
    named = set(re.findall(r"`([a-z]+[0-9]\w*)`", TEXT))
    assert {t.name for t in TYPES.values() if t.kind in ("scale", "bool")} <= named
