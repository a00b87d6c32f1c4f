"""A memory with a stored share: the same cycles and values, bytes and joules by the share of what it moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.acadl_models import acadl
from archloom.acadl_models.energy import area_of
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.targets.choice import names_of
from archloom.uma_targets.kit import KitTarget
from benchmarks.networks.own_targets import FOLDER
from tests.support.acadl_models.reordering import exchanged
from tests.support.examples import examples
from tests.support.tvm_backend.registered import forgotten_after

pytestmark = pytest.mark.usefixtures("clean_registry")


def squeezed(name: str, share: float) -> acadl.ArchitectureGraph:
    """Makes known the convolution engine of the examples, with weights that take such a share of their bytes in flash;
    its graph by default."""
    (known,) = names_of(str(FOLDER / "blocks.py"))
    given = registry.get(known).kit

    def graph(options: Mapping[str, Any]) -> acadl.ArchitectureGraph:
        plain = given.graph(options)
        memories = exchanged(plain, replace(plain["flash"], stored_share=share))
        return replace(memories, technology=acadl.Technology(16, dram="LPDDR4"))

    target = type("Squeezed", (KitTarget,), {"__doc__": "Compressed weights.", "kit": replace(
        given, name=name, graph=graph)})
    target().register()
    return registry.get(name).accelerator.graph()


TEXT = "conv2d(c=8,h=6,w=6,o=12,k=3,pad=1,bias=1)"


@given(st.floats(0.05, 2))
@examples(2, 30)
def test_bytes_and_joules_follow_the_share_and_cycles_do_not(share: float) -> None:
    with forgotten_after():
        plain_graph, graph = squeezed("plain", 1.0), squeezed("squeezed", share)
        plain, found = (archloom.estimate(TEXT, name).layers[0] for name in ("plain", "squeezed"))
    assert found.cycles == plain.cycles and found.mapping == plain.mapping
    assert found.bytes == {**plain.bytes, "flash": round(share * plain.bytes["flash"])} and plain.bytes["flash"] > 0
    assert plain.offchip_bytes is not None and found.offchip_bytes == sum(found.bytes[m] for m in ("sram", "flash"))
    assert plain.energy is not None and found.energy is not None
    joules, before = found.energy.dynamic_joules, plain.energy.dynamic_joules
    assert joules is not None and before is not None and (joules < before) == (share < 1)
    np.testing.assert_allclose(before - joules, (1 - share) * plain.energy.objects["flash"], rtol=1e-6)
    assert area_of(graph)[0] == area_of(plain_graph)[0]  # flash is another chip


def test_values_are_those_of_plain_constants() -> None:
    squeezed("squeezed", 0.5)
    result = archloom.check(TEXT, target="squeezed")
    assert result.passed and all(layer.bit_exact for layer in result.layers) and result.layers


@pytest.mark.parametrize(("share", "message"), [
    (0, "stored_share must be a positive number, not 0"), (float("nan"), "must be a positive number, not nan"),
    ("half", "must be a positive number, not 'half'"), (True, "must be a positive number, not True")])
def test_a_share_is_a_positive_number(share: Any, message: str) -> None:
    (fault,) = acadl.DRAM("flash", stored_share=share, address_ranges=[(0, 8)]).faults()
    assert message in fault
