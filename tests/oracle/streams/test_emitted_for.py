"""Instructions that are made for an ISA: attributes in any order, others refused where they are made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle import taidl
from archloom.oracle.errors import StreamError
from archloom.oracle.stream import Instr, emitted_for

ISAS = ("gemmini", "oma", "tpu_v1")


@given(st.sampled_from(ISAS), st.data())
def test_attributes_may_have_any_order(name: str, data: st.DataObject) -> None:
    isa = taidl.load(name)
    instruction = data.draw(st.sampled_from(sorted(isa.instructions.values(), key=lambda i: i.name)))
    values = {attribute: i for i, attribute in enumerate(instruction.attributes)}
    given_ = dict(data.draw(st.permutations(list(values.items()))))
    with emitted_for(isa):
        made = Instr.make(instruction.name, **given_)
    assert made == Instr.make(instruction.name, **values)
    assert tuple(made[a].constant for a in instruction.attributes) == tuple(range(len(values)))


def test_others_are_refused_where_they_are_made() -> None:
    with emitted_for(taidl.load("oma")):
        with pytest.raises(StreamError, match=r"movi: expected the attributes \(rd, value\), found \(rd\)"):
            Instr.make("movi", rd=1)
        with pytest.raises(StreamError, match=r"ISA oma has no instruction 'move'; did you mean 'mov'"):
            Instr.make("move", rd=1)
    assert Instr.make("move", rd=1).mnemonic == "move"
