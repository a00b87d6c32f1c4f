"""Variables that passes bring in: what they stand for follows from their text, and decides their order."""

from __future__ import annotations

from archloom.oracle.affine import Affine
from archloom.oracle.variables import Input, Unknown, is_known, unknowns


def test_unknowns_of_different_loops_are_different_variables() -> None:
    # expressions are remembered across streams, which number their unknowns alike
    one, other = Unknown("row", "i", 1), Unknown("row", "j", 1)
    bounds = {one: (0, 99), other: (0, 99)}
    assert one != other
    for variable in (one, other):
        value = (variable.expression() % 7 + 3).simplify(bounds)
        assert [(v.owner, v.key, v.number) for v in unknowns(value)] == [(variable.owner, "row", 1)]


def test_unknowns_are_ordered_by_the_texts_of_their_numbers() -> None:
    made = [Unknown(key, owner, n) for key in ("a", "ab") for n, owner in ((1, "z"), (2, "i"), (10, "i"), (11, ""))]
    assert sorted(made) == sorted(made, key=lambda v: f"@{v.key}#{v.number}")


def test_only_unknown_registers_make_a_value_unknown() -> None:
    value = Affine.of("i") + Input.of("row").expression() // 2
    assert is_known(value) and not unknowns(value)
    assert not is_known(value + Unknown("row", "i", 3).expression() % 4)
