"""Each property of each target, tried a few times; ``python benchmarks/run.py properties`` tries them for longer."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import assume, given

from tests.support.examples import examples, randoms
from tests.support.properties import PROPERTIES

CASES = [(name, target) for name, each in PROPERTIES.items() for target in each.targets]


@pytest.mark.parametrize(("name", "target"), CASES)
@examples(2, 40)
@given(randoms)
def test_holds(name: str, target: str, r: Random) -> None:
    assume(PROPERTIES[name].holds(target, r))
