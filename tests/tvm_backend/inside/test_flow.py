"""The flow that TVM documents: partition, RunCodegen, tvm.compile, virtual machine, for every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import archloom
from archloom.tvm_backend.ir.compat import relax, tvm
from archloom.tvm_backend.targets.registry import BUILT_IN
from tests.support.examples import often, slow
from tests.support.tvm_backend import inside
from tests.support.tvm_backend.vanilla import VanillaInt8

op = relax.op
X = inside.floats(4, 8)


@pytest.mark.slow
@pytest.mark.parametrize("target", often(sorted(BUILT_IN), {"gemmini"}))
def test_every_target_is_a_backend(target: str) -> None:
    module = inside.matching(target)
    partitioned = archloom.tvm.partition_for(target, module)
    assert inside.regions(partitioned, target)
    found = inside.run(tvm.compile(inside.generated(partitioned), target="llvm"), X)
    inside.same(found, inside.by_archloom(target, module, X))
    inside.same(found, inside.alone(module, X))  # whole numbers, powers of two as scales: exact in all


def test_the_module_that_is_partitioned_is_one_of_tvms() -> None:
    """Regions have the attributes that RunCodegen looks for, their composite functions inside, and are called."""
    partitioned = archloom.tvm.partition_for("gemmini", inside.quantized_mlp(), dim=8)
    (name,) = inside.regions(partitioned, "gemmini")
    region = partitioned[name]
    assert region.attrs["global_symbol"] == name and relax.analysis.check_well_formed(partitioned)
    local = [b.value for b in region.body.blocks[0].bindings if isinstance(b.value, relax.Function)]
    assert [str(f.attrs["Composite"]) for f in local] == ["gemmini.matmul_activation", "gemmini.matmul_plain"]
    after = inside.generated(partitioned)
    assert [gv.name_hint for gv in after.functions] == ["main"] and len(after.attrs["external_mods"]) == 2


def named(name: str) -> VanillaInt8:
    return type("Named", (VanillaInt8,), {"target_name": name})()


@pytest.mark.slow
@pytest.mark.parametrize("name", [slow("own_target"), "own-target"])
def test_a_target_that_registers_when_tvm_is_there_already(name: str, clean_registry: None) -> None:
    module = inside.built({"x": [(1, 3, 8, 8)]}, inside.small_conv)
    x = inside.floats(1, 3, 8, 8)
    with pytest.raises(archloom.TargetError, match=f"target '{name}' is not registered, so that RunCodegen does not"):
        archloom.tvm.partition_for(named(name), module)
    named(name).register()
    partitioned = archloom.tvm.partition_for(name, module)
    assert inside.regions(partitioned, name) == [f"{name.replace('-', '_')}_0"]
    executable = tvm.compile(inside.generated(partitioned), target="llvm")
    inside.same(inside.run(executable, x), inside.alone(module, x))
    expected = archloom.compile(archloom.load(module), name).report
    assert archloom.tvm.report(executable).accelerator_cycles == expected.accelerator_cycles
    assert relax.get_pipeline(f"archloom_{name}").info.name == f"archloom_{name}"


@pytest.mark.slow
def test_names_that_differ_in_a_dash_stay_apart(clean_registry: None) -> None:
    for name in ("one-two", "one_two"):
        named(name).register()

    def make(builder: Any, x: Any) -> Any:
        return [inside.small_conv(builder, x), inside.quantized_conv(builder, inside.requantized(builder, x), 4)]

    module = inside.built({"x": [(1, 3, 8, 8)]}, make)
    module = archloom.tvm.partition_for("one-two", module, host=False)
    module = archloom.tvm.partition_for("one_two", module, host=False)
    assert sorted(gv.name_hint for gv in module.functions) == ["main", "one_two_0"]


@pytest.mark.slow
@pytest.mark.parametrize(("targets", "codegens"), [
    ("gemmini,qkv", {"gemmini": 1, "qkv": 1}), slow(["qkv", "gemmini"], {"qkv": 2}), slow("qkv", {"qkv": 2}),
])
def test_several_targets_in_order_of_preference(targets: Any, codegens: dict[str, int]) -> None:
    module = inside.built({"x": [(4, 8)]}, inside.mixed)
    partitioned = archloom.tvm.partition_for(targets, module)
    for name in ("gemmini", "qkv"):
        assert len(inside.regions(partitioned, name)) == codegens.get(name, 0)
    found = inside.run(tvm.compile(inside.generated(partitioned), target="llvm"), X)
    inside.same(found, inside.alone(module, X))
    inside.same(found, inside.by_archloom(targets, module, X))


@pytest.mark.slow
def test_one_target_after_the_other() -> None:
    """The first leaves operators in main; the second gets regions of names that are free."""
    module = inside.built({"x": [(4, 8)]}, inside.mixed)
    partitioned = archloom.tvm.partition_for("gemmini", module, host=False, dim=8)
    partitioned = archloom.tvm.partition_for("qkv", partitioned, host=False)
    partitioned = archloom.tvm.partition_for("gemmini", partitioned, dim=8)  # finds nothing; the host's are left
    assert [len(inside.regions(partitioned, c)) for c in ("gemmini", "qkv", "archloom_host")] == [1, 1, 2]
    found = inside.run(tvm.compile(inside.generated(partitioned), target="llvm"), X)
    inside.same(found, inside.alone(module, X))


@pytest.mark.slow
def test_partitioning_twice_is_harmless() -> None:
    module = inside.quantized_mlp()
    once = archloom.tvm.partition_for("gemmini", module)
    twice = archloom.tvm.partition_for("gemmini", once)
    assert {gv.name_hint for gv in once.functions} == {gv.name_hint for gv in twice.functions}
    inside.same(inside.run(tvm.compile(inside.generated(twice), target="llvm"), X), inside.alone(module, X))


@pytest.mark.parametrize("way", ["direct", slow("legalized"), slow("in a tuning context")])
def test_what_is_left_can_stay_with_tvm(way: str) -> None:
    """Without host=, operators stay as they are, for LegalizeOps and what a database says of them."""
    from tvm.s_tir import meta_schedule

    module = inside.built({"x": [(4, 8)]}, lambda b, x: b.emit(op.tanh(inside.dense(b, x, 4))))
    partitioned = archloom.tvm.partition_for("qkv", module, host=False)
    assert not inside.regions(partitioned, "archloom_host") and "R.tanh" in partitioned["main"].script()
    ready = inside.generated(partitioned)
    if way == "direct":
        executable = tvm.compile(ready, target="llvm")
    elif way == "legalized":
        executable = tvm.compile(relax.get_pipeline("zero")(ready), target="llvm")
    else:
        with tvm.target.Target("llvm"), meta_schedule.database.MemoryDatabase(), tvm.transform.PassContext(opt_level=3):
            ready = relax.transform.MetaScheduleApplyDatabase()(relax.transform.LegalizeOps()(ready))
        executable = tvm.compile(ready, target="llvm")
    (found,), (expected,) = inside.run(executable, X), inside.alone(module, X)
    np.testing.assert_array_equal(found, expected)  # TVM's own tanh in both


@pytest.mark.slow
def test_parameters_are_bound_by_name() -> None:
    module = inside.built({"x": [(4, 8)], "w": [(8, 4)]}, lambda b, x, w: b.emit(op.matmul(x, w)))
    w = inside.floats(8, 4, seed=1)
    expected = inside.alone(module, X, w)
    for value in (w, tvm.runtime.tensor(w)):
        executable = inside.compiled("qkv", module, params={"w": value})
        inside.same(inside.run(executable, X), expected)
    inside.same(inside.run(inside.compiled("qkv", module), X, w), expected)


@pytest.mark.parametrize(("params", "message"), [
    ({"v": inside.floats(8, 4)}, "params: no parameter is named 'v' \\(valid: w, x\\)"),
    ({"w": inside.floats(4, 8)}, r"params: 'w': expected R.Tensor\(\(8, 4\), dtype=\"float32\"\), found .*\(4, 8\)"),
    ({"w": inside.floats(8, 4).astype("float16")}, r"params: 'w': expected .*float32.*, found .*float16"),
    ({"w": 3}, "params: 'w': expected a tensor, found int"),
])
def test_parameters_that_do_not_fit_are_refused(params: dict[str, Any], message: str) -> None:
    module = inside.built({"x": [(4, 8)], "w": [(8, 4)]}, lambda b, x, w: b.emit(op.matmul(x, w)))
    for partition in (archloom.tvm.partition_for, lambda t, m, p: archloom.tvm.Offload(t, p)(m),
                      lambda t, m, p: archloom.tvm.Prepare(t, p)(m)):
        with pytest.raises(archloom.InputError, match=message):
            partition("qkv", module, params)


@pytest.mark.slow
def test_every_function_that_can_be_called_from_outside() -> None:
    module = inside.mlp(3, "other", inside.mlp(0, "main", relax.BlockBuilder())).get()
    partitioned = archloom.tvm.partition_for("qkv", module)
    assert inside.regions(partitioned, "qkv") == ["qkv_0", "qkv_1"]
    executable = tvm.compile(inside.generated(partitioned), target="llvm")
    for entry in ("main", "other"):
        inside.same(inside.run(executable, X, entry=entry), inside.alone(module, X, entry=entry))


@pytest.mark.slow
def test_private_functions_are_put_where_they_are_called() -> None:
    """RunCodegen does not look at them."""
    builder = relax.BlockBuilder()
    x, y = (relax.Var(name, relax.TensorType([4, 8], "float32")) for name in "xy")
    with builder.function("helper", [x], private=True):
        with builder.dataflow():
            output = builder.emit_output(inside.dense(builder, x, 8))
        builder.emit_func_output(output)
    helper = builder.get().get_global_var("helper")
    with builder.function("main", [y]):
        with builder.dataflow():
            output = builder.emit_output(op.nn.relu(builder.emit(relax.Call(helper, [y]))))
        builder.emit_func_output(output)
    module = builder.get()
    expected = inside.alone(module, X)
    left = archloom.tvm.partition_for("qkv", module)
    assert not inside.regions(left, "qkv")
    inside.same(inside.run(tvm.compile(inside.generated(left), target="llvm"), X), expected)
    inlined = archloom.tvm.partition_for("qkv", relax.transform.InlinePrivateFunctions()(module))
    assert inside.regions(inlined, "qkv")
    inside.same(inside.run(tvm.compile(inside.generated(inlined), target="llvm"), X), expected)
