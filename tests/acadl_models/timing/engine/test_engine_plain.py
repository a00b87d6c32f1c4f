"""The engine without compilation, every access checked, finds what the compiled one finds; every word has a kind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.engine import fields, layout, machine_parts, remembered, state
from archloom.acadl_models.timing.engine.lowering.program import lower
from archloom.acadl_models.timing.engine.machine import machine_words, new_machine
from archloom.acadl_models.timing.machine import bind
from archloom.acadl_models.timing.reference import simulate_reference
from archloom.oracle.resolved import ResolvedStream
from tests.support.acadl_models.engine_strategies import SEMANTICS, random_graph, random_stream
from tests.support.acadl_models.memory_strategies import random_memories
from tests.support.acadl_models.reordering import random_reordering
from tests.support.acadl_models.simulators import outcome

ROOT = Path(__file__).parents[4]
SEEDS = (
    0, 3, 7, 10, 12, 15, 23, 24, 36, 45, 49, 109, 144, 219, 315, 447, 487, 1075, 1293, 1355, 1366, 2002, 2007, 2013,
    2024)
"""Cases that are stepped, skipped, that deadlock and that are refused; with caches, banks and links, and without; those
from 2000 on with reorder buffers and renamed registers."""
KINDS = {kind.name for kind in vars(fields).values() if isinstance(kind, fields.Kind)} - {fields.code.name}
RECORDS = [
    found
    for module in (layout, state, machine_parts, remembered)
    for found in vars(module).values()
    if isinstance(found, fields.RecordType) and found.__module__ == module.__name__
]


def case(seed: int) -> tuple[ArchitectureGraph, ResolvedStream]:
    """A random graph, every second one with caches, DRAM banks and links, and a stream for it."""
    r = Random(seed % 1000)
    if seed > 2000:
        graph = random_reordering(r, random_graph(r))
        return graph, random_stream(r, graph, 300)
    if seed > 1000:
        graph = random_graph(r)
        return graph, random_stream(r, graph, 900)
    if seed % 2:
        graph = random_graph(r, semantics=SEMANTICS, storages_of=lambda r: random_memories(r, 24))
    else:
        graph = random_graph(r, semantics=SEMANTICS if seed % 4 else (), spread=True)
    return graph, random_stream(r, graph, 300, 24)


def outcomes() -> list[str]:
    """What the engine finds: with skipping, and without where that finds it in another way."""
    found = [outcome(simulate, *case(seed)) for seed in SEEDS]
    skipped = [seed for seed, each in zip(SEEDS, found) if getattr(each, "skipped_share", 0) > 0]
    return [repr(each) for each in (*found, *(outcome(simulate, *case(seed), skip=False) for seed in skipped))]


def with_engine(engine: str, code: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "ARCHLOOM_ENGINE": engine}
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)


def test_another_engine_is_refused() -> None:
    done = with_engine("pure", "from archloom.acadl_models.timing.engine import warmup; warmup()")
    assert "ArchloomError: ARCHLOOM_ENGINE is 'pure': expected 'plain' (slow, every access checked)" in done.stderr


def plain(code: str) -> str:
    """What a program prints that uses the engine as plain Python."""
    done = with_engine("plain", code)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_plain_python_with_checks_finds_what_the_compiled_engine_finds() -> None:
    found = plain("""
import sys
sys.path.insert(0, ".")
from tests.acadl_models.timing.engine.test_engine_plain import outcomes
assert "llvmlite" not in sys.modules
print("\\n".join(outcomes()))
""")
    expected = outcomes()
    assert found.splitlines() == expected
    for graph, stream in map(case, SEEDS):
        assert outcome(simulate, graph, stream) == outcome(simulate_reference, graph, stream)
    skipped = [each for each in expected if "skipped_share" in each and "skipped_share=0.0" not in each]
    assert len(skipped) >= 5


ACCESSES = {
    "m[unit + Stage.HEAD]": r"Stage.HEAD at word \d+, where Unit.\w+ lies",
    "m[unit + Unit.SIZE * t[H.UNITS] + Unit.READY]": r"Unit.READY at word \d+, where Store.\w+ lies",
    "m[m[M.FREED] + t[H.STORES]]": r"word \d+ of a part from \d+ to \d+",
    "m[-1]": r"word -1 of an array of \d+",
    "t[unit + Unit.READY]": "Unit.READY lies in state, not in layout",
    "t[H.UNITS] = 1": "the tables do not change, but word 2 is set to 1",
}
"""Accesses outside of fields, and what is said of them."""
MACHINE = f"""
import sys
sys.path.insert(0, ".")
from archloom.acadl_models.timing.engine.jit import constant_pointer, pointer
from archloom.acadl_models.timing.engine.layout import H
from archloom.acadl_models.timing.engine.lowering.program import lower
from archloom.acadl_models.timing.engine.machine import new_machine
from archloom.acadl_models.timing.engine.state import M, Stage, Unit
from archloom.acadl_models.timing.machine import bind
from tests.acadl_models.timing.engine.test_engine_plain import case
tables = lower(bind(*case(0))).tables
tables[H.POOL] = 4
t, m = constant_pointer(tables), pointer(new_machine(tables))
unit = m[M.UNITS] + 0
assert m[unit + Unit.WAITING] == -1
for access in {list(ACCESSES)}:
    try:
        exec(access)
    except (IndexError, TypeError) as error:
        print(error)
    else:
        print("no error")
"""


def test_an_index_out_of_its_field_is_an_error() -> None:
    for found, message in zip(plain(MACHINE).splitlines(), ACCESSES.values(), strict=True):
        assert re.fullmatch(message, found), found


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_field_has_a_kind(record: fields.RecordType) -> None:
    codes = [kind.name == fields.code.name for kind in record.kinds]
    assert all(codes) or {kind.name for kind in record.kinds} <= KINDS
    assert len(record.kinds) == len(record.labels) == record.SIZE


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 7, 9])
def test_every_word_of_a_machine_has_a_kind(seed: int) -> None:
    tables = lower(bind(*case(seed))).tables
    tables[layout.H.POOL] = 5
    machine = new_machine(tables, log=3)
    words = machine_words(tables, machine)
    assert len(words) == len(machine)
    assert {kind.name for _, kind in words} <= KINDS
