"""Constants packed when a network is compiled: the same results as packed by the machine, in no more cycles."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from safetensors.numpy import load_file

import archloom
from archloom.mapper.accelerator import Accelerator
from archloom.mapper.bounds import least
from archloom.mapper.search import Plan, search
from archloom.mapper.workload import Epilogue, Workload, gemm
from archloom.oracle import interpreter
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr, Node
from archloom.tvm_backend.artifact.workload_json import from_json, to_json
from archloom.tvm_backend.check.workload_reference import evaluate
from archloom.tvm_backend.compiled import Step
from archloom.tvm_backend.targets.choice import choose
from benchmarks.networks.own_targets import FOLDER
from tests.support.examples import examples, randoms
from tests.support.mapper.numpy_workload import random_inputs

pytestmark = pytest.mark.usefixtures("clean_registry")

OUTER = str(FOLDER / "outer.py")
SUMS = Epilogue(True, 1.0, False, "int32")
OPTIONS: dict[str, dict[str, Any]] = {OUTER: {"lanes": 4}, "amx": {}}


def accelerator_of(target: str) -> Accelerator:
    (chosen,) = choose(target, OPTIONS[target])
    return chosen.backend.accelerator


def planned(target: str, work: Workload, constants: tuple[str, ...]) -> Plan:
    accelerator = accelerator_of(target)
    made = accelerator.configure(OPTIONS[target])
    return search(made.packed(replace(work, constants=constants)), accelerator, OPTIONS[target])


def result_of(target: str, plan: Plan, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """What the interpreter makes of tensors, stored as the plan's workload has them."""
    isa = accelerator_of(target).isa(OPTIONS[target])
    stored = {t.name: t.stored(inputs[t.name]) for t in plan.workload.inputs}
    return interpreter.run(plan.stream, isa, stored, poison=1)[plan.workload.output.name]


@pytest.mark.parametrize("target", [OUTER, "amx"], ids=["outer", "amx"])
@examples(5, 200)
@given(randoms)
def test_results_are_those_of_packing_at_run_time(target: str, r: Random) -> None:
    batch = r.choice([1, 1, 2])
    work = gemm(r.randint(1, 37), r.randint(1, 37), r.randint(1, 70), epilogue=replace(SUMS, bias=r.random() < 0.5),
                batch=batch, shared_b=batch == 1)
    inputs = random_inputs(work, r.randint(0, 99))
    constant, computed = planned(target, work, ("B", "bias")), planned(target, work, ())
    assert constant.workload.inputs[1].packing is not None and computed.workload.inputs[1].packing is None
    expected = evaluate(work, inputs)
    for plan in (constant, computed):
        np.testing.assert_array_equal(result_of(target, plan, inputs).reshape(expected.shape), expected)
    assert constant.stream.count() < computed.stream.count()
    assert constant.timing.cycles <= computed.timing.cycles
    bound = least(constant.workload, accelerator_of(target).configure(OPTIONS[target]))
    assert bound.cycles <= constant.timing.cycles


def test_a_padded_product_takes_part_in_everything(tmp_path: Path) -> None:
    """Estimate, report, run and artifact of one product whose B is padded both ways."""
    text, options = "gemm(m=5,n=7,k=11,bias=1,relu=1)", {"lanes": 4}
    exe = archloom.compile(text, target=OUTER, options=options)
    (step,) = exe.compiled.steps()
    b = next(t for t in step.workload.inputs if t.name == "B")
    assert (b.shape, b.stored_shape, b.size_bytes, b.stored_bytes) == ((11, 7), (1, 3, 16, 4), 77, 192)
    assert "load_vectors" in (issued := set(mnemonics(exe.compiled.plans[step.name].stream.body)))
    assert issued.isdisjoint(("load_columns", "store_vectors"))
    report = archloom.estimate(text, target=OUTER, options=options)
    assert report.accelerator_cycles == exe.report.accelerator_cycles
    assert report.layers[0].packed == exe.report.layers[0].packed == {"B": "n // 16, k // 4, n % 16, k % 4"}
    exe.save(tmp_path / "net.loom")
    again = archloom.load_compiled(tmp_path / "net.loom")
    x = {spec.name: np.random.default_rng(0).standard_normal(spec.shape).astype(np.float32)
         for spec in exe.compiled.inputs}

    def compare(step: Step, given: dict[str, np.ndarray], found: np.ndarray) -> None:
        np.testing.assert_array_equal(found, evaluate(step.workload, {**given, **step.constants}))

    results = again.run(x)
    for name, value in exe.run(x, capture=compare).items():
        np.testing.assert_array_equal(results[name], value)
    (stored,) = [v for f in (tmp_path / "net.loom").glob("*.safetensors") for n, v in load_file(f).items()
                 if n.endswith("/B")]
    assert stored.shape == b.stored_shape
    np.testing.assert_array_equal(b.logical(stored), b.logical(step.constants["B"]))
    assert not stored[0, 2, :, 3].any() and not stored[0, :, 7:].any()  # a row and nine columns that B has not


def mnemonics(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, Instr):
            yield node.mnemonic
        else:
            yield from mnemonics(node.body)


def test_artifacts_hold_packings_and_refuse_what_is_none() -> None:
    work = planned("amx", gemm(3, 5, 7, epilogue=SUMS), ("B", "bias")).workload
    data = json.loads(json.dumps(to_json(work)))
    assert from_json(data) == work
    for digits in ([], [{"axis": 0}], [{"axis": 0}, {"axis": 1, "step": 0}], [{"axis": 0}, {"axis": "n"}]):
        with pytest.raises(archloom.ArchloomError, match="not a workload"):
            from_json({**data, "packings": {"B": {"digits": digits}}})


def test_what_a_target_states_wrongly_is_said() -> None:
    """With the target, the operator and the tensor."""
    n = Affine.variable("n")
    accelerator = replace(accelerator_of("amx"), layouts=lambda work, isa, options: {"B": (n // 4, n % 8)})
    with pytest.raises(archloom.ArchloomError, match="the place of 'B': .* all of axis 1, such as i // 4 and i % 4"):
        accelerator.configure({}).packed(replace(gemm(2, 9, 3, epilogue=SUMS), constants=("B",)))


@pytest.mark.parametrize("text", ["conv2d(n=1,c=4,h=8,w=8,o=4,k=3,pad=1)", "conv2d(n=1,c=4,h=8,w=8,o=4,k=1)"])
def test_layouts_of_products_are_not_asked_for_convolutions(text: str) -> None:
    """They become products first, or are one under other names."""
    assert archloom.estimate(text, "amx").offloaded_macs_share == 1
