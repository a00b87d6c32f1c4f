"""TVM's registry has the patterns of every target; FuseOpsByPattern by one's own hand gives what archloom does."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tvm.relax.backend.pattern_registry import get_pattern, get_patterns_with_prefix

import archloom
from archloom.tvm_backend.ir.compat import relax, tvm
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.targets.registry import BUILT_IN
from tests.support.examples import often, slow
from tests.support.tvm_backend import inside

X = inside.floats(4, 8)


@pytest.mark.parametrize("target", sorted(BUILT_IN))
def test_patterns_of_a_target(target: str) -> None:
    """In the order of preference, which is the other way round in TVM's registry."""
    names = [f"{target}.{p.name}" for p in registry.get(target).patterns]
    assert [p.name for p in get_patterns_with_prefix(f"{target}.")] == names
    assert get_pattern(names[0]).check is not None


def composites(module: Any) -> Counter[str]:
    found: Counter[str] = Counter()

    def visit(expr: Any) -> None:
        if isinstance(expr, relax.Function) and expr.attrs and "Composite" in expr.attrs:
            found[str(expr.attrs["Composite"])] += 1

    for function in module.functions.values():
        relax.analysis.post_order_visit(function, visit)
    return found


def by_hand(target: str, module: Any, *, merged: bool = False, prepared: bool = True) -> Any:
    ready = archloom.tvm.Prepare(target)(module) if prepared else module
    fuse = relax.transform.FuseOpsByPattern(
        get_patterns_with_prefix(f"{target}."), bind_constants=True, annotate_codegen=not merged)
    return relax.transform.MergeCompositeFunctions()(fuse(ready)) if merged else fuse(ready)


def residual(builder: Any, x: Any) -> Any:
    """Convolutions, a residual sum and a pooling, quantized."""
    y = inside.quantized_conv(builder, inside.requantized(builder, x), 4, padding=1)
    z = builder.emit(relax.op.add(inside.quantized_conv(builder, y, 4, padding=1, seed=1), y))
    z = inside.requantized(builder, builder.emit(relax.op.nn.relu(z)))
    return builder.emit(relax.op.nn.max_pool2d(z, pool_size=[2, 2], strides=[2, 2]))


@pytest.mark.slow
@pytest.mark.parametrize("merged", [False, slow(True)])
@pytest.mark.parametrize("target", often(sorted(BUILT_IN), {"gemmini"}))
def test_by_hand(target: str, merged: bool) -> None:
    module = inside.matching(target)
    fused = by_hand(target, module, merged=merged)
    assert composites(fused) == composites(archloom.tvm.partition_for(target, module))
    found = inside.run(tvm.compile(inside.generated(fused), target="llvm"), X)
    inside.same(found, inside.alone(module, X))
    inside.same(found, inside.by_archloom(target, module, X))


@pytest.mark.slow
@pytest.mark.parametrize("merged", [False, True])
def test_images_by_hand(merged: bool) -> None:
    module = inside.built({"x": [(1, 3, 8, 8)]}, residual)
    x = inside.floats(1, 3, 8, 8)
    fused = by_hand("gemmini", module, merged=merged)
    assert composites(fused) == composites(archloom.tvm.partition_for("gemmini", module))
    inside.same(inside.run(tvm.compile(inside.generated(fused), target="llvm"), x), inside.alone(module, x))


@pytest.mark.slow
def test_without_preparation_what_matches_runs_all_the_same() -> None:
    module = inside.quantized_mlp()
    fused = by_hand("gemmini", module, prepared=False)
    assert sum(composites(fused).values()) == 2
    inside.same(inside.run(tvm.compile(inside.generated(fused), target="llvm"), X), inside.alone(module, X))


def test_options_of_code_generation_by_hand() -> None:
    """RunCodegen's options are the target's where partition_for has stated none."""
    module = inside.quantized_mlp()
    ready = relax.transform.RunCodegen({"gemmini": {"dim": 8}})(by_hand("gemmini", module, merged=True))
    report = archloom.tvm.report(tvm.compile(ready, target="llvm"))
    assert report.options["dim"] == 8
    expected = archloom.compile(archloom.load(module), "gemmini", {"dim": 8}).report
    assert report.accelerator_cycles == expected.accelerator_cycles


def test_constants_as_parameters_are_refused_with_what_to_ask_for() -> None:
    """Weights are the accelerator's program."""
    fused = relax.transform.FuseOpsByPattern(
        get_patterns_with_prefix("gemmini."), bind_constants=False, annotate_codegen=True)(inside.quantized_mlp())
    with pytest.raises(archloom.ModelError, match="functions that FuseOpsByPattern makes need bind_constants=True"):
        inside.generated(fused)


def test_composites_of_another_backend_are_left_alone() -> None:
    """Functions that other patterns have made stay calls of main, as do those of a user's own."""
    from tvm.relax.dpl import is_op, wildcard

    module = inside.built({"x": [(4, 8)]}, lambda b, x: b.emit(relax.op.nn.relu(inside.dense(b, x, 4))))
    other = relax.transform.FuseOpsByPattern([("other.relu", is_op("relax.nn.relu")(wildcard()))])(module)
    partitioned = archloom.tvm.partition_for("qkv", other)
    assert composites(partitioned) == Counter({"other.relu": 1, "qkv.matmul_plain": 1})
    found = inside.run(tvm.compile(inside.generated(partitioned), target="llvm"), X)
    inside.same(found, inside.alone(module, X))
