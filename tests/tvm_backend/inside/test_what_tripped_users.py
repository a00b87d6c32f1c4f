"""What users of UMA and BYOC stumbled over in TVM, one test for each. Numbers are those of TVM's issues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm.relax.backend.pattern_registry import get_patterns_with_prefix

import archloom
from archloom.tvm_backend.executable import CompiledNetwork
from archloom.tvm_backend.inside.library import artifacts
from archloom.tvm_backend.ir.compat import relax, tvm
from archloom.tvm_backend.targets.backend import UMAPhase
from tests.support.examples import slow
from tests.support.tvm_backend import inside
from tests.support.tvm_backend.vanilla import VanillaInt8

op, passes = relax.op, relax.transform
X = inside.floats(4, 8)


@pytest.mark.slow
@pytest.mark.parametrize("order", [slow("abc"), "cab", slow("bca")])
def test_arguments_come_in_the_order_of_the_call(order: str) -> None:
    """#12410, #12447: the parameters of the cached function and of the call were in another order."""
    def make(builder: Any, **given: Any) -> Any:
        a, b, c = (given[name] for name in order)
        return builder.emit(op.matmul(builder.emit(op.matmul(a, b)), c))

    inputs = {name: inside.floats(4, 4, seed=i) for i, name in enumerate("abc")}
    module = inside.built({name: [(4, 4)] for name in "abc"}, lambda b, *v: make(b, **dict(zip("abc", v))))
    expected = inside.alone(module, *inputs.values())
    inside.same(inside.run(inside.compiled("qkv", module), *inputs.values()), expected)
    fused = passes.MergeCompositeFunctions()(passes.FuseOpsByPattern(
        get_patterns_with_prefix("qkv."), bind_constants=True)(archloom.tvm.Prepare("qkv")(module)))
    inside.same(inside.run(tvm.compile(inside.generated(fused), target="llvm"), *inputs.values()), expected)


def test_names_that_clash_are_refused(clean_registry: None) -> None:
    """#13304, #12731: two targets of a name, or one of the name of a code generator of TVM."""
    class Taken(VanillaInt8):
        target_name = "taken_in_tvm"

    tvm_ffi.register_global_func("relax.ext.taken_in_tvm", lambda *arguments: [], override=True)
    message = r"target 'taken_in_tvm': TVM has a code generator of that name \(relax.ext.taken_in_tvm\)"
    for _ in range(2):
        with pytest.raises(archloom.TargetError, match=message):
            Taken().register()
    VanillaInt8().register()
    with pytest.raises(archloom.TargetError, match="target 'vanilla_int8' is registered already"):
        VanillaInt8().register()
    with pytest.raises(archloom.TargetError, match="target 'archloom_host': the name stands for a part of the host"):
        type("Host", (VanillaInt8,), {"target_name": "archloom_host"})().register()


def test_attributes_that_clash_or_are_none_are_refused(clean_registry: None) -> None:
    """#13304, #13624: an attribute of a default None killed the process."""
    target = VanillaInt8()
    with pytest.raises(archloom.TargetError, match="attribute 'variant' is registered twice"):
        target._register_target_attr("variant", 1)
    with pytest.raises(archloom.TargetError, match="attribute 'other': expected a default that is a number"):
        target._register_target_attr("other", None)  # type: ignore[arg-type]
    target.register()
    module = inside.built({"x": [(1, 3, 8, 8)]}, inside.small_conv)
    with pytest.raises(archloom.TargetError, match="unknown option 'varient'"):
        archloom.tvm.partition_for("vanilla_int8", module, varient="two")


@pytest.mark.slow
def test_registered_passes_do_what_they_are_registered_for(clean_registry: None) -> None:
    """Discuss 14851: a pass for layouts that was registered did nothing, and nobody said so."""
    class Folding(VanillaInt8):
        target_name = "folding"

    def without_negations(module: Any) -> Any:
        """-(-x) is x."""
        from tvm.relax.dpl import is_op, rewrite_call, wildcard

        inner = wildcard()
        pattern = is_op("relax.negative")(is_op("relax.negative")(inner))
        main = rewrite_call(pattern, lambda expr, found: found[inner], module["main"])
        return tvm.IRModule({module.get_global_var("main"): main})

    def make(builder: Any, x: Any) -> Any:
        y = builder.emit(op.negative(builder.emit(op.negative(inside.requantized(builder, x)))))
        w = inside.weights(builder, 4, 3, 3, 3)
        return inside.requantized(builder, builder.emit(op.nn.conv2d(y, w, padding=1)))

    target = Folding()
    target._register_relax_pass(UMAPhase.PRE_PARTITIONING, without_negations)
    target.register()
    module = inside.built({"x": [(1, 3, 8, 8)]}, make)
    partitioned = archloom.tvm.partition_for("folding", module)
    assert target.seen == ["before"] and inside.regions(partitioned, "folding")
    assert "negative" not in partitioned.script()
    x = inside.floats(1, 3, 8, 8)
    inside.same(inside.run(tvm.compile(inside.generated(partitioned), target="llvm"), x), inside.alone(module, x))


@pytest.mark.slow
def test_equal_convolutions_have_one_program() -> None:
    """Discuss 12039: code for each convolution, not one function for all that are alike."""
    def make(builder: Any, x: Any) -> Any:
        y = inside.requantized(builder, x)
        for seed in range(4):
            y = inside.quantized_conv(builder, y, 4, padding=1, seed=seed)
            y = inside.requantized(builder, builder.emit(op.negative(y)))  # the host's: four regions
        return y

    executable = inside.compiled("gemmini", inside.built({"x": [(1, 4, 6, 6)]}, make))
    (network,) = (n for n in artifacts(executable).values() if n.compiled.regions)
    assert len(network.compiled.regions) == len(network.compiled.plans) == 4
    assert len({replace(plan.stream, name="") for plan in network.compiled.plans.values()}) == 1


@pytest.mark.slow
def test_quantized_networks_are_taken() -> None:
    """#16359: support for quantized operators never landed."""
    partitioned = archloom.tvm.partition_for("gemmini", inside.quantized_mlp())
    assert len(inside.regions(partitioned, "gemmini")) == 1
    assert archloom.tvm.report(tvm.compile(inside.generated(partitioned), target="llvm")).offloaded_macs_share == 1


@pytest.mark.slow
def test_several_accelerators_in_one_network() -> None:
    """RFC 60, #12087: an example from end to end, with several accelerators at once."""
    module = inside.built({"x": [(4, 8)]}, inside.mixed)
    ready = archloom.tvm.Offload("gemmini,qkv")(module)
    inside.same(inside.run(tvm.compile(ready, target="llvm"), X), inside.alone(module, X))
    assert {"gemmini_0", "qkv_0"} <= {b.var.name for block in ready["main"].body.blocks for b in block.bindings}


def test_the_virtual_machine_calls_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Discuss 14561: how can I call my Python runtime from the Relax VM?"""
    called: list[int] = []
    call = CompiledNetwork.call
    monkeypatch.setattr(CompiledNetwork, "call", lambda self, number, arguments: (
        called.append(number), call(self, number, arguments))[1])
    inside.run(inside.compiled("qkv", inside.mlp()), X)
    assert called == [0]


@pytest.mark.slow
def test_scalars_do_not_become_parameters() -> None:
    """#15217: a constant scalar of a pattern became a parameter of the function."""
    def make(builder: Any, x: Any) -> Any:
        y = builder.emit(op.add(inside.dense(builder, x, 4), inside.const(np.float32(2))))
        return builder.emit(op.nn.relu(builder.emit(op.multiply(y, inside.const(np.float32(0.5))))))

    module = inside.built({"x": [(4, 8)]}, make)
    for target in ("qkv", "mesh"):
        partitioned = archloom.tvm.partition_for(target, module)
        for name in inside.regions(partitioned, target):
            assert len(partitioned[name].params) == 1
        inside.same(inside.run(tvm.compile(inside.generated(partitioned), target="llvm"), X), inside.alone(module, X))


@pytest.mark.slow
def test_merging_composites_survives_tuples_and_dead_ends() -> None:
    """#17120: MergeCompositeFunctions crashed."""
    def make(builder: Any, x: Any) -> Any:
        parts = builder.emit(op.split(inside.dense(builder, x, 8), 2, 1))
        first, second = (builder.emit(relax.TupleGetItem(parts, i)) for i in (1, 0))
        inside.dense(builder, second, 2)  # nobody reads it
        return [inside.dense(builder, first, 4, 1), second]

    module = inside.built({"x": [(4, 8)]}, make)
    fused = passes.MergeCompositeFunctions()(passes.FuseOpsByPattern(
        get_patterns_with_prefix("qkv."), bind_constants=True)(archloom.tvm.Prepare("qkv")(module)))
    inside.same(inside.run(tvm.compile(inside.generated(fused), target="llvm"), X), inside.alone(module, X))


@pytest.mark.slow
def test_fields_of_tuples_keep_their_order() -> None:
    """#19887: operands and fields of tuples changed places."""
    def make(builder: Any, x: Any) -> Any:
        parts = builder.emit(op.split(inside.dense(builder, x, 8), 4, 1))
        fields = [builder.emit(relax.TupleGetItem(parts, i)) for i in (3, 0, 2, 1)]
        joined = builder.emit(op.concat([fields[0], builder.emit(op.sin(fields[1])), fields[2]], 1))
        return [joined, builder.emit(op.subtract(fields[3], fields[0])), parts]

    x = X * 0
    x[0] = X[0]
    module = inside.built({"x": [(4, 8)]}, make)
    for host in (True, False):
        found = inside.run(inside.compiled("qkv", module, host=host), x)
        for y, z in zip(found, inside.alone(module, x), strict=True):
            np.testing.assert_allclose(y, z, atol=1e-6)  # the sine is XLA's or TVM's


@pytest.mark.slow
def test_regions_never_form_circles() -> None:
    """#19998: regions were merged round an operator of the host (YOLO)."""
    def make(builder: Any, x: Any) -> Any:
        first = inside.dense(builder, x, 8, 1)
        between = builder.emit(op.floor(builder.emit(op.negative(first))))  # the host's
        second = inside.dense(builder, between, 8, 2)
        both = builder.emit(op.concat([second, first], 1))
        return inside.dense(builder, builder.emit(op.floor(both)), 4, 3)

    module = inside.built({"x": [(4, 8)]}, make)
    for host in (True, False):
        partitioned = archloom.tvm.partition_for("qkv", module, host=host)
        assert len(inside.regions(partitioned, "qkv")) == 3
        inside.same(inside.run(tvm.compile(inside.generated(partitioned), target="llvm"), X), inside.alone(module, X))


@pytest.mark.slow
def test_folding_constants_before_quantized_patterns_is_noticed() -> None:
    """#9164, #11228: FoldConstant made floats of the weights; then nothing matched. The report names the reason."""
    module = inside.quantized_mlp()
    folded = passes.FoldConstant()(module)
    executable = inside.compiled("gemmini", folded)
    inside.same(inside.run(executable, X), inside.alone(module, X))
    report = archloom.tvm.report(executable)
    reasons = {layer.note for layer in report.layers if layer.op == "matmul"}
    assert any("float32 that does not come from a dequantize" in str(reason) for reason in reasons), reasons
    assert inside.regions(archloom.tvm.partition_for("gemmini", module), "gemmini")  # before it, all is well


@pytest.mark.slow
@pytest.mark.parametrize("host", [True, False])
def test_converting_layouts_around_regions(host: bool) -> None:
    """#17541: ConvertLayout crashed on tensors whose layout it did not know."""
    def make(builder: Any, x: Any) -> Any:
        y = inside.small_conv(builder, x)
        w = inside.const(inside.floats(2, 4, 3, 3))
        z = builder.emit(op.nn.relu(builder.emit(op.nn.conv2d(y, w, padding=1))))
        return builder.emit(op.add(z, builder.emit(op.nn.conv2d(y, w, padding=1))))

    module = inside.built({"x": [(1, 3, 6, 6)]}, make)
    x = inside.floats(1, 3, 6, 6)
    convert = passes.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})
    expected = inside.alone(module, x)
    partitioned = archloom.tvm.partition_for("gemmini", module, host=host)
    assert inside.regions(partitioned, "gemmini")
    ready = convert(archloom.tvm.Offload("gemmini", host=host)(module))
    inside.same(inside.run(tvm.compile(ready, target="llvm"), x), expected)
    inside.same(inside.run(inside.compiled("gemmini", convert(module), host=host), x), expected)
    with pytest.raises(archloom.ModelError, match=r"changed it since partition_for \(FoldConstant, ConvertLayout\?\)"):
        inside.generated(convert(partitioned))  # it converts what is in regions, too
