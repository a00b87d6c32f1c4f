"""Live ranges of activations: a count layer by layer gives the same; shown as text, drawing and JSON."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.oracle.pages import fragment, to_text
from archloom.tvm_backend import cli
from archloom.tvm_backend.compile import partition_model
from archloom.tvm_backend.compiled import HostOp, TensorSpec
from archloom.tvm_backend.memory import LiveRange, Memory
from archloom.tvm_backend.model import from_relax
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.report.memory import chart, text
from archloom.tvm_backend.targets.live_ranges import Bound, Flow, memory_of
from tests.support.examples import examples, slow
from tests.support.tvm_backend.random_modules import FLOAT32, RandomModule, modules, quantized_modules

INPUT_BYTES = 4


@st.composite
def flows(draw: st.DrawFn) -> tuple[Flow, int, frozenset[int]]:
    """A flow of up to 12 operators over one to three inputs of four bytes, and which of the operators are layers."""
    inputs = draw(st.integers(1, 3))
    bound, places = [], list(range(-inputs, 0))
    for position in draw(st.permutations(range(draw(st.integers(0, 12))))):
        reads = tuple(draw(st.lists(st.sampled_from(places), max_size=3, unique=True)))
        bound.append(Bound(position, reads, draw(st.integers(1, 9)), draw(st.booleans())))
        places.append(position)
    results = tuple(draw(st.lists(st.sampled_from(places), min_size=1, max_size=3, unique=True)))
    layers = frozenset(draw(st.sets(st.sampled_from(range(12)))))
    return Flow(tuple(bound), results), inputs, layers


def counted(flow: Flow, layers: frozenset[int]) -> list[int]:
    """The bytes while each layer runs, found again for each of them: of the inputs and all that was made so far, what
    is read now or later, and what is being made."""
    made_of = {b.position: b for b in flow.bound}

    def tensors(position: int) -> set[int]:
        """The tensors, by the position of who makes them, that a variable stands for."""
        if position < 0:
            return {position}
        found = {t for read in made_of[position].reads for t in tensors(read)}
        return {position} if found and position in layers and not made_of[position].is_view else found

    run = [b for b in flow.bound if b.position in layers]
    found = []
    for i, now in enumerate(run):
        there = {t for b in run[:i + 1] for t in tensors(b.position) if t >= 0} | {-1, -2, -3}
        wanted = {t for b in run[i:] for read in b.reads for t in tensors(read)}
        wanted |= {t for result in flow.results for t in tensors(result)} | (tensors(now.position) & {now.position})
        found.append(sum(made_of[t].bytes if t >= 0 else INPUT_BYTES for t in there & wanted))
    return found


@pytest.mark.slow
@given(flows())
@examples(300, 5000)
def test_bytes_are_those_of_a_count_layer_by_layer(case: tuple[Flow, int, frozenset[int]]) -> None:
    flow, inputs, layers = case
    host = [HostOp(f"layer{i}", "relu", (), 0, "xla", position=i) for i in layers if i < len(flow.bound)]
    given_ = [TensorSpec(f"x{i}", (1,), "float32") for i in range(inputs)]
    memory = memory_of(flow, given_, (), host)
    assert memory.layers == tuple(f"layer{b.position}" for b in flow.bound if b.position in layers)
    assert list(memory.live_bytes) == counted(flow, layers)
    assert memory.peak_bytes == max(memory.live_bytes, default=0)
    assert [sum(t.bytes for t in memory.at(i)) for i in range(len(memory.layers))] == list(memory.live_bytes)


def assert_holds_what_layers_need(case: RandomModule, target: str) -> None:
    """Each layer is there once, and with what it reads and makes."""
    partition = partition_model(from_relax(case.module, "net"), target)
    memory = partition.memory
    assert memory is not None
    names = [*(step.name for step in partition.steps()), *(op.name for op in partition.host.ops)]
    assert sorted(memory.layers) == sorted(names)
    known = {t.name for t in memory.tensors}
    for region in partition.regions:
        for step in region.steps:
            own = {name: region.value(name) for name in (*dict(step.inputs).values(), step.output)}
            needed = sum(math.prod(v.shape) * np.dtype(v.dtype).itemsize for v in own.values())
            if step.name in known:
                assert memory.live_bytes[memory.layers.index(step.name)] >= needed


@pytest.mark.parametrize("target", ["qkv", slow("plasticine")])
def test_layers_of_floats_have_their_operands(target: str) -> None:
    @examples(3, 200)
    @given(modules(FLOAT32))
    def run(case: RandomModule) -> None:
        assert_holds_what_layers_need(case, target)

    run()


@examples(3, 200)
@given(quantized_modules())
def test_quantized_layers_have_their_operands(case: RandomModule) -> None:
    assert_holds_what_layers_need(case, "gemmini")


# as it is shown -------------------------------------------------------------------------------------------------------

MEMORY = Memory(("first", "second"), (
    LiveRange("x", 4096, 0, 0), LiveRange("first", 2048, 0, 1), LiveRange("second", 1024, 1, 1)))


def test_an_operator_has_its_operands_and_its_result() -> None:
    memory = archloom.estimate("gemm(m=16,n=32,k=64)").memory
    assert memory is not None
    assert memory.live_bytes == (16 * 64 + 16 * 32,) and memory.layers == ("gemm",)


def test_json_both_ways() -> None:
    data = json.loads(json.dumps(MEMORY.to_json()))
    assert Memory.from_json(data) == MEMORY
    for wrong in ({"bytes": -1}, {"first": -1}, {"first": 1, "last": 0}, {"last": 2}, {"last": "1"}):
        with pytest.raises(TypeError):
            Memory.from_json({**data, "tensors": [{"name": "x", "bytes": 4, "first": 0, "last": 1, **wrong}]})
    assert MEMORY.to_json()["peak_layer"] == "first" and MEMORY.to_json()["peak_bytes"] == 6144


def test_text_and_drawing() -> None:
    lines = text(MEMORY).splitlines()
    assert lines[2].split() == ["first", "6144", "B", "#" * 40]
    assert lines[3].split() == ["second", "3072", "B", "#" * 20]
    assert lines[-2].split() == ["first", "2048", "B", "first", "second"]
    picture = chart(MEMORY)
    bars = [node for node in ET.fromstring(picture.svg).iter() if node.tag.endswith("rect")]
    assert [float(bar.attrib["height"]) for bar in bars] == [120.0, 60.0]
    assert picture.svg in fragment([picture]) and to_text([picture]).strip() == picture.text


def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["estimate", "gemm(m=16,n=32,k=64)"]
    assert cli.main([*words, "--memory"]) == 0
    assert "1536 B  ####" in capsys.readouterr().out
    assert cli.main([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["memory"]["layers"] == [{"name": "gemm", "live_bytes": 1536}]
    assert Report.from_json(data).memory is not None
    assert cli.main([*words, "--memory", "--csv"]) == 2
    assert "--memory: prints text" in capsys.readouterr().err
