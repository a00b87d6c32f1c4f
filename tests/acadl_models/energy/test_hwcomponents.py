"""Figures by HWComponents: beside those of the tables where it is installed, a message where it is not."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.acadl import Technology
from archloom.acadl_models.acadl.components import DEVICES
from archloom.acadl_models.energy import area_of, arithmetic, figures_of, memories
from archloom.acadl_models.gemmini import gemmini
from archloom.oracle.errors import InputError
from tests.support.examples import examples

INSTALLED = all(find_spec(name) for name in ("hwcomponents_cacti", "hwcomponents_library"))
needs = pytest.mark.skipif(not INSTALLED, reason="hwcomponents-cacti and hwcomponents-library are not installed")


@pytest.mark.skipif(INSTALLED, reason="it is installed")
def test_what_is_missing_is_named() -> None:
    graph = gemmini()
    own = replace(graph, overrides=replace(graph.overrides, technology=Technology(22, library="hwcomponents")))
    with pytest.raises(InputError, match=r"energies by hwcomponents: .*pip install hwcomponents-cacti"):
        figures_of(own)


@needs
@examples(10, 60)
@given(st.sampled_from([22.0, 32.0, 45.0, 65.0]), st.integers(10, 18), st.sampled_from([32, 64, 128]),
       st.sampled_from(DEVICES))
def test_memories_are_near_the_model_of_the_tables(node: float, size: int, width: int, devices: str) -> None:
    """The tables' is fitted to CACTI's figures, with a mean error below 20 %."""
    technology = Technology(node, devices=devices)
    found = memories.memory(1 << size, width, 1, replace(technology, library="hwcomponents"))
    known = memories.memory(1 << size, width, 1, technology)
    for one, other in ((found.joules, known.joules), (found.area_mm2, known.area_mm2), (found.watts, known.watts)):
        assert 0.5 < one / other < 2.0


@needs
def test_a_machine_takes_all_that_it_has() -> None:
    graph = gemmini()
    technology = Technology(22, library="hwcomponents")
    own = replace(graph, overrides=replace(graph.overrides, technology=technology))
    area, missing = area_of(own)
    assert area is not None and not missing and area != area_of(graph)[0]
    assert arithmetic.joules("multiply", "i8", technology) != arithmetic.joules("multiply", "i8", Technology(22))
    assert arithmetic.joules("multiply", "f32", technology) == arithmetic.joules("multiply", "f32", Technology(22))
