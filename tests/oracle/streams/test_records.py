"""Plain objects are those of :func:`dataclasses.asdict`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.records import plain
from tests.support.examples import examples


@dataclass(frozen=True)
class Inner:
    name: str
    share: float | None


@dataclass(frozen=True)
class Outer:
    held: Any
    parts: tuple[Inner, ...]
    known: dict[str, Any]


leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False)
inner = st.builds(Inner, st.text(max_size=3), st.none() | st.floats(allow_nan=False))
values = st.recursive(
    leaves | inner, lambda v: st.lists(v) | st.lists(v).map(tuple) | st.dictionaries(st.text(max_size=2), v),
    max_leaves=9)


@examples(21, 300)
@given(st.builds(Outer, values, st.lists(inner).map(tuple), st.dictionaries(st.text(max_size=2), values)))
def test_records_are_those_of_the_library(made: Outer) -> None:
    found = plain(made)
    assert found == asdict(made)
    assert found["known"] is not made.known
