"""Each property of each target, tried a few times; ``python benchmarks/run.py properties`` tries them for longer."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import assume, given

from archloom.oracle import taidl
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.statements import every
from tests.support.examples import examples, often, randoms, slow
from tests.support.oracle.any_isa import Programs, small_parameters
from tests.support.properties import PROPERTIES

FAST = {"energy": ("mesh", "triple_ring"), "streams": ("oma", "qkv"), "simulators": ("amx", "gemmini", "oma", "qkv")}
CASES = [(name, target) for name, each in PROPERTIES.items() for target in each.targets]


@pytest.mark.first_case
@pytest.mark.parametrize(("name", "target"), [case if case[1] in FAST[case[0]] else slow(*case) for case in CASES])
@examples(1, 40)
@given(randoms)
def test_holds(name: str, target: str, r: Random) -> None:
    assume(PROPERTIES[name].holds(target, r))


@pytest.mark.parametrize("name", often(taidl.available(), ("ai_engine", "gamma", "plasticine", "systolic_pe")))
def test_every_instruction_is_drawn(name: str) -> None:
    missing = set(taidl.load(name).instructions)
    for seed in range(80):
        r = Random(seed)
        programs = Programs(r, taidl.load(name, **small_parameters(name, r)), 1 << 15)
        setting = [i for i in programs.isa.instructions.values()
                   if any(isinstance(s, ast.Assign) for s in every(i.body))]
        for mnemonic in sorted(missing & set(programs.isa.instructions)):
            for _ in range(40 if setting else 1):
                if programs.legal(programs.isa.instructions[mnemonic]) is not None:
                    missing.remove(mnemonic)
                    break
                if setting:  # some are legal only where registers are not as at reset
                    programs.legal(r.choice(setting))
        if not missing:
            return
    assert not missing
