"""Mappings that a user asks for, in whole or in part."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.mapper.asked import read_asked
from archloom.mapper.mapping import Mapping
from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, Workload, conv2d, gemm
from archloom.oracle.errors import InputError
from archloom.tvm_backend.targets import registry
from archloom.uma_targets.gemmini.target import GEMMINI
from tests.support.examples import examples

PLAIN = Epilogue(True, 0.5, True, "int8")
SMALL = {"dim": 4, "scratchpad_kib": 1, "accumulator_kib": 1}
PRODUCT = gemm(40, 24, 36, epilogue=PLAIN)
CONVOLUTION = conv2d(1, 12, 12, 6, 10, 3, 3, padding=(1, 1, 1, 1), epilogue=PLAIN)


def chosen(workload: Workload, asked: str) -> Mapping:
    return search(workload, GEMMINI, {**SMALL, "mapping": asked}, top_k=1).mapping


def mappings(workload: Workload) -> list[Mapping]:
    space = GEMMINI.configure(SMALL).space(workload)
    return [space.mapping(i) for i in range(len(space))]


@given(st.data())
@examples(few=10, many=300)
def test_any_part_of_any_mapping_can_be_asked_for(data: st.DataObject) -> None:
    """What is found has it; and with all fields it is that mapping."""
    workload = data.draw(st.sampled_from([PRODUCT, CONVOLUTION]))
    fields = json.loads(data.draw(st.sampled_from(mappings(workload))).to_json())
    part = data.draw(st.dictionaries(st.sampled_from(sorted(fields)), st.none(), min_size=1))
    for name in ("tile", "loads", "buffers"):
        if name in part and set(part) != set(fields) and data.draw(st.booleans()):
            keys = data.draw(st.sets(st.sampled_from(sorted(fields[name]))))
            fields[name] = {key: fields[name][key] for key in keys}
    asked = {name: fields[name] for name in part}
    found = json.loads(chosen(workload, json.dumps(asked)).to_json())
    for name, value in asked.items():
        assert found[name] == value or value.items() <= found[name].items()


@pytest.mark.parametrize("target", ["gemmini", "amx", "mesh", "qkv"])
def test_a_whole_mapping_is_taken_as_it_is(target: str) -> None:
    """On each kind of machine: what one search has found, another is told, which searches nothing."""
    accelerator, options = registry.get(target).accelerator, {"x": 2, "y": 2} if target == "mesh" else {}
    workload = replace(gemm(64, 64, 64, epilogue=Epilogue(False, 1.0, False, "float32"), dtype="float32")
                       if target == "qkv" else gemm(64, 64, 64, epilogue=PLAIN), name="layer")
    if target == "mesh":
        workload = gemm(64, 64, 64, epilogue=Epilogue(False, 1.0, False, "float16"), dtype="float16", tile=32)
    plan = search(workload, accelerator, options)
    told = search(workload, accelerator, {**options, "mapping": plan.mapping.to_json()})
    assert (told.mapping, told.timing.cycles, told.simulated) == (plan.mapping, plan.timing.cycles, 1)


def test_sizes_may_be_such_as_no_space_has() -> None:
    large = {"dim": 4, "scratchpad_kib": 16, "accumulator_kib": 16}
    found = search(PRODUCT, GEMMINI, {**large, "mapping": "m=8"}, top_k=1).mapping
    own = replace(found, tile=tuple((d, 24 if d == "m" else s) for d, s in found.tile))
    with pytest.raises(InputError, match="no mapping has m=24"):
        search(PRODUCT, GEMMINI, {**large, "mapping": "m=24"})
    assert search(PRODUCT, GEMMINI, {**large, "mapping": own.to_json()}).mapping == own


def test_a_size_beyond_the_extent_is_all_of_it() -> None:
    assert chosen(PRODUCT, "n=1000").size("n") == 24


def test_layers_are_chosen_by_name(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"layers": {"fc?": {"m": 4}, "*": {"m": 8}}}))
    assert [chosen(replace(PRODUCT, name=name), str(file)).size("m") for name in ("fc1", "conv")] == [4, 8]
    file.write_text(json.dumps({"layers": {"fc?": {"m": 16}}}))  # the file is read anew
    assert chosen(replace(PRODUCT, name="fc1"), str(file)).size("m") == 16


@pytest.mark.parametrize(("asked", "message"), [
    ("m=7", r"gemm: no mapping has m=7: tile.m may be 4, 8, "),
    ("dataflow=zz", "dataflow may be os, ws"),
    ("q=4", "tile.q may be nothing: it has no such field"),
    ("m=40,n=24,k=36", "no mapping has m=40, n=24, k=36: each has a part of it alone"),
    ("m", "expected a JSON file, JSON, or fields as m=128,order=n>m"),
    ("m=", "expected NAME=VALUE, found 'm='"),
    ("lanes=rows", "lanes must be numbers from 0 on, one for each nest of loops, not 'rows'"),
    ("lanes=3", "no mapping has lanes=3: lanes may be "),
    ("order=3", "order must be loops, outermost first, as n>m, not 3"),
    ("datafow=os", "tile.datafow must be a number of at least 1, not 'os'; did you mean 'dataflow'"),
    ("{", "Expecting property name"),
    ("{}}", "Extra data"),
    ('{"tile": 3}', "tile must be a table, not 3"),
    ('{"layers": {}, "m": 3}', "expected layers alone"),
    ('{"loads": {"A": 1}}', "loads.A must be a word, not 1"),
])
def test_what_is_wrong_is_said(asked: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        chosen(PRODUCT, asked)


def test_a_whole_mapping_that_does_not_fit_is_refused() -> None:
    fields: dict[str, Any] = json.loads(mappings(PRODUCT)[0].to_json())
    fields["tile"]["m"] = 4000
    with pytest.raises(InputError, match="gemm: the mapping that is asked for does not fit: "):
        chosen(PRODUCT, json.dumps(fields))


def test_an_estimate_takes_a_whole_mapping_as_text() -> None:
    """Longer than any name of a file."""
    mapping = next(m for m in mappings(PRODUCT) if m.size("m") == 8)
    report = archloom.estimate("gemm(m=40,n=24,k=36)", "gemmini", {**SMALL, "mapping": f"{mapping.to_json():300}"})
    assert report.accelerator_layers[0].mapping == str(mapping)


def test_no_device_is_read_as_a_mapping() -> None:
    with pytest.raises(InputError, match="/dev/zero: expected a file, found a device"):
        chosen(PRODUCT, "/dev/zero")


def test_nothing_is_asked_of_layers_that_are_not_named() -> None:
    assert read_asked('{"layers": {"fc*": {"m": 4}}}').of(replace(PRODUCT, name="conv")) is None
