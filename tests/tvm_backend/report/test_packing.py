"""Reports as they are kept are those that were packed, and any other text is refused as such."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.timing.result import EnergyUse
from archloom.oracle.errors import ArtifactError
from archloom.tvm_backend.report.data import HostLayer, Layer, Report
from archloom.tvm_backend.report.packing import packed, unpacked
from archloom.tvm_backend.report.uses import LinkUse, LoopUse, PortUse, StorageUse
from tests.support.examples import examples

EMPTY = Report("net", "onnx", "t", {}, 1e9, 1, 1.0, 1, 1.0, 2, 2, 1.0, 4, 0.5, "simulated", (), (), "1")
WORDS, COUNTS, NUMBERS = st.text("abxy_", max_size=3), st.integers(0, 9), st.floats(0, 4, width=16)


LAYERS = st.builds(
    Layer, name=WORDS, op=WORDS, where=st.sampled_from(("accelerator", "host")), shape=st.tuples(COUNTS, COUNTS),
    macs=COUNTS, cycles=COUNTS, seconds=NUMBERS, bytes=st.dictionaries(WORDS, COUNTS, max_size=2))


@st.composite
def reports(draw: st.DrawFn) -> Report:
    """Layers of which several share what they did; others say nothing of it."""
    port = st.builds(PortUse, COUNTS, NUMBERS, COUNTS, NUMBERS)
    uses = draw(st.lists(st.fixed_dictionaries({}, optional={
        "storages": st.dictionaries(WORDS, st.builds(StorageUse, port, port, COUNTS), max_size=2),
        "links": st.dictionaries(WORDS, st.builds(LinkUse, port, port, COUNTS), max_size=2),
        "loops": st.lists(st.builds(LoopUse, WORDS, *[COUNTS] * 4), max_size=2).map(tuple),
        "energy": st.builds(EnergyUse, *[NUMBERS] * 3, st.dictionaries(WORDS, NUMBERS, max_size=2))}), min_size=1))
    layers = tuple(replace(layer, **draw(st.sampled_from(uses))) for layer in draw(st.lists(LAYERS, max_size=6)))
    host = tuple(draw(st.lists(st.builds(HostLayer, WORDS, WORDS, WORDS, COUNTS, WORDS), max_size=3)))
    return replace(EMPTY, layers=layers, host=host)


@pytest.mark.slow
@given(reports())
@examples(20, 300)
def test_what_is_kept_is_the_report(report: Report) -> None:
    assert unpacked(json.loads(json.dumps(packed(report)))) == report


@pytest.mark.parametrize("change", [
    lambda data: data.pop("uses"), lambda data: data["rows"][0].pop(), lambda data: data["host"].append([1]),
    lambda data: data["report"].pop("schema"), lambda data: data["rows"].append(3)])
def test_anything_else_is_refused(change: Callable[[Any], object]) -> None:
    data = json.loads(json.dumps(packed(replace(EMPTY, layers=(Layer("a", "op", "host", (1,), 0),)))))
    change(data)
    with pytest.raises(ArtifactError):
        unpacked(data)
