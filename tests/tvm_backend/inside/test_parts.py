"""Regions that are parts of a network as it was imported: with open extents, and with the host's operators in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import archloom
from archloom.tvm_backend.inside import running
from archloom.tvm_backend.inside.library import callees
from archloom.tvm_backend.ir.compat import relax, tvm
from tests.support.examples import slow
from tests.support.tvm_backend import inside

op = relax.op


def gated(rows: Any, gate: Any = op.nn.relu) -> Any:
    """Products with a gate, a split and a reshape between them; ``rows`` may be open."""
    def make(builder: Any, x: Any) -> Any:
        halves = builder.emit(op.split(inside.dense(builder, x, 16), 2, axis=1))
        first = builder.emit(gate(builder.emit(relax.TupleGetItem(halves, 0))))
        y = builder.emit(op.multiply(first, builder.emit(relax.TupleGetItem(halves, 1))))
        y = builder.emit(op.reshape(builder.emit(op.reshape(y, (rows * 2, 4))), (rows, 8)))
        return [inside.dense(builder, y, 4, 3), first]

    return inside.built({"x": [(rows, 8)]}, make)


def opened(name: str = "n") -> Any:
    """With whole numbers throughout: TVM's own code, which takes tuples of open tensors, gives the same."""
    return gated(tvm.tirx.Var(name, "int64"))


@pytest.mark.parametrize("target", ["qkv", slow("mesh"), slow("plasticine")])
def test_merged_regions_are_one_function_that_gives_what_archloom_gives(target: str) -> None:
    options = {"x": 2, "y": 2} if target == "mesh" else {}
    module = gated(4, op.nn.softmax)
    merged = archloom.tvm.partition_for(target, module, merge=True, **options)
    assert inside.regions(merged, target) == [f"{target}_0"] and not inside.regions(merged, "archloom_host")
    x = inside.floats(4, 8)
    found = inside.run(tvm.compile(inside.generated(merged), target="llvm"), x)
    inside.same(found, inside.by_archloom(target, module, x, **options))


def test_merged_regions_of_several_targets_are_the_first_ones() -> None:
    def make(builder: Any, x: Any) -> Any:
        y = inside.requantized(builder, x)
        y = builder.emit(op.matmul(y, inside.weights(builder, 8, 8)))
        return inside.dense(builder, builder.emit(op.tanh(inside.requantized(builder, y))), 4)

    module = inside.built({"x": [(4, 8)]}, make)
    targets = ["gemmini", "qkv"]
    executable = inside.compiled(targets, module, merge=True)
    x = inside.floats(4, 8)
    inside.same(inside.run(executable, x), inside.by_archloom(targets, module, x))
    report = archloom.tvm.report(executable)
    assert {layer.target for layer in report.accelerator_layers} == {"gemmini", "qkv"}
    assert report.accelerator_cycles == archloom.compile(archloom.load(module), targets).report.accelerator_cycles


def test_a_tuple_never_crosses_the_border_of_a_region() -> None:
    def make(builder: Any, x: Any) -> Any:
        return builder.emit(op.split(inside.dense(builder, x, 16), 2, axis=1))

    module = inside.built({"x": [(4, 8)]}, make)
    x = inside.floats(4, 8)
    for merge in (False, True):
        inside.same(inside.run(inside.compiled("qkv", module, merge=merge), x), inside.by_archloom("qkv", module, x))


@pytest.mark.slow
@pytest.mark.parametrize("merge", [False, slow(True)])
def test_regions_of_open_extents_are_those_of_static_ones(merge: bool) -> None:
    executable = inside.compiled("qkv", opened(), merge=merge)
    for rows in (4, 3, 4):
        x = inside.floats(rows, 8, seed=rows)
        inside.same(inside.run(executable, x), inside.by_archloom("qkv", gated(rows), x))
    regions = {layer.region for layer in archloom.tvm.report(executable).accelerator_layers}
    assert regions, "the report is that of the last extents"


def test_so_many_extents_are_kept_for_a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "KEPT", 2)
    executable = inside.compiled("qkv", inside.built(
        {"x": [(tvm.tirx.Var("n", "int64"), 8)]}, lambda builder, x: inside.dense(builder, x, 8)))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    for rows in (1, 2, 3):
        machine["main"](tvm.runtime.tensor(inside.floats(rows, 8)))
    (network,) = callees(executable)["qkv.open"]._networks  # type: ignore[attr-defined]
    assert network.kept == ({"n": 2}, {"n": 3})


def test_libraries_of_parts_are_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process would read: the artifacts that this one compiled are forgotten."""
    x = inside.floats(4, 8)
    expected = inside.by_archloom("qkv", gated(4), x)
    for name, module, merge in (("open", opened(), False), ("merged", gated(4), True)):
        path = tmp_path / f"{name}.so"
        inside.compiled("qkv", module, merge=merge).export_library(str(path))
        monkeypatch.setattr(running, "_kept", {})
        library = archloom.load_compiled(path)
        assert "qkv_0" in str(library)
        inside.same(inside.arrays(library(x)), expected)


@pytest.mark.parametrize(("symbols", "message"), [
    ({"m": 4}, "main: no extent is called 'm'"),
    ({"n": 0}, "main: symbol 'n': expected a whole number from 1, found 0"),
    ({"n": True}, "main: symbol 'n': expected a whole number from 1, found True"),
])
def test_extents_to_look_at_are_checked(symbols: Any, message: str) -> None:
    with pytest.raises(archloom.InputError, match=message):
        archloom.tvm.partition_for("qkv", opened(), symbols=symbols)


def test_inputs_that_disagree_on_an_extent_are_refused() -> None:
    n = tvm.tirx.Var("n", "int64")
    module = inside.built({"x": [(n, 8)], "y": [(n, 8)]}, lambda builder, x, y: inside.dense(
        builder, builder.emit(op.add(x, y)), 4))
    machine = relax.VirtualMachine(inside.compiled("qkv", module), tvm.cpu())
    with pytest.raises(RuntimeError, match="shape"):  # TVM's own check, before anything of archloom's is called
        machine["main"](*(tvm.runtime.tensor(np.ones((rows, 8), np.float32)) for rows in (3, 4)))
