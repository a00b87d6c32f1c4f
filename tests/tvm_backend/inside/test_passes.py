"""Targets as passes: in Sequential, under PassContext with instruments, in pipelines, before and after TVM's own."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tvm.ir import instrument

import archloom
from archloom.tvm_backend.ir.compat import relax, tvm
from tests.support.examples import often, slow
from tests.support.tvm_backend import inside

op, passes = relax.op, relax.transform
X = inside.floats(4, 8)

FUSION = (passes.LegalizeOps(), passes.AnnotateTIROpPattern(), passes.FuseOps())
OWN: dict[str, tuple[Any, ...]] = {
    "LegalizeOps": (passes.LegalizeOps(),), "FuseOps": FUSION, "FuseTIR": (*FUSION, passes.FuseTIR()),
    "FoldConstant": (passes.FoldConstant(),), "Normalize": (passes.Normalize(),),
    "DeadCodeElimination": (passes.DeadCodeElimination(),), "CSE": (passes.EliminateCommonSubexpr(),),
    "ToNonDataflow": (passes.ToNonDataflow(),), "CanonicalizeBindings": (passes.CanonicalizeBindings(),),
    "ConvertLayout": (passes.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]}),),
    "LambdaLift": (passes.LambdaLift(),), "zero": (relax.get_pipeline("zero"),),
    "MergeCompositeFunctions": (passes.MergeCompositeFunctions(),),
}
HARMLESS = ("Normalize", "DeadCodeElimination", "CSE", "ToNonDataflow", "CanonicalizeBindings", "ConvertLayout",
            "MergeCompositeFunctions")
FAST = {"ToNonDataflow"}


NOT_AFTER = ("MergeCompositeFunctions",)
"""Passes that fail on what any code generator leaves (call_dps_packed): "Do not have a default for ExternFunc"."""


def after(name: str, module: Any) -> Any:
    return tvm.transform.Sequential(list(OWN[name]))(module)


def check(executable: Any, module: Any) -> None:
    inside.same(inside.run(executable, X), inside.alone(module, X))


@pytest.mark.slow
@pytest.mark.parametrize("name", often(HARMLESS + ("LambdaLift",), FAST))
def test_passes_before(name: str) -> None:
    module = inside.quantized_mlp()
    partitioned = archloom.tvm.partition_for("gemmini", after(name, module))
    assert inside.regions(partitioned, "gemmini")
    check(tvm.compile(inside.generated(partitioned), target="llvm"), module)


LEGALIZED = (r"main: 'lv\d*' is a call of the TIR function '.*matmul.*': LegalizeOps \(or a pipeline that begins with "
             r"it\) has run; partition before it")


@pytest.mark.parametrize(("name", "message"), [
    ("LegalizeOps", LEGALIZED), slow("FuseTIR", LEGALIZED), slow("zero", LEGALIZED),
    ("FuseOps", r"main: 'lv\d*' is a call of 'fused_\w+', which FuseOps has made of operators; partition before it"),
])
def test_modules_that_are_lowered_are_refused_with_what_to_run_earlier(name: str, message: str) -> None:
    module = after(name, inside.quantized_mlp())
    for run in (lambda m: archloom.tvm.partition_for("gemmini", m), archloom.tvm.Offload("gemmini"),
                archloom.tvm.Prepare("gemmini")):
        with pytest.raises(archloom.ModelError, match=message):
            run(module)


@pytest.mark.slow
@pytest.mark.parametrize("name", often(HARMLESS, FAST))
def test_passes_between_partitioning_and_code_generation(name: str) -> None:
    module = inside.quantized_mlp()
    between = after(name, archloom.tvm.partition_for("gemmini", module))
    check(tvm.compile(inside.generated(between), target="llvm"), module)


@pytest.mark.parametrize(("name", "message"), [
    ("LegalizeOps", r"relax.ext.gemmini: gemmini_0: '.*' is a call of the TIR function '\w+': LegalizeOps \(or a "
                    "pipeline that begins with it\\) has run; run RunCodegen before it"),
    ("LambdaLift", r"relax.ext.gemmini: gemmini_0: 'lv__\d' is a call of '.*', which stands beside the region "
                   r"\(LambdaLift\?\); RunCodegen hands over regions alone: run it before"),
    ("FoldConstant", r"relax.ext.gemmini: operand 1 is float32 that does not come from a dequantize.*; a pass has "
                     r"changed it since partition_for \(FoldConstant, ConvertLayout\?\): run RunCodegen before that"),
])
def test_passes_that_change_regions_before_code_generation(name: str, message: str) -> None:
    between = after(name, archloom.tvm.partition_for("gemmini", inside.quantized_mlp()))
    with pytest.raises(archloom.ModelError, match=message):
        inside.generated(between)


@pytest.mark.slow
def test_functions_of_the_host_that_are_legalized_are_refused() -> None:
    between = after("LegalizeOps", archloom.tvm.partition_for("gemmini", inside.mlp()))
    with pytest.raises(archloom.ModelError, match=r"relax.ext.archloom_host: archloom_host_0: 'lv.*' is a call of"):
        inside.generated(between)


@pytest.mark.slow
@pytest.mark.parametrize("host", [slow(True), False])
@pytest.mark.parametrize("name", often([n for n in OWN if n not in NOT_AFTER], {"FuseTIR"}))
def test_passes_after_offloading(name: str, host: bool) -> None:
    def make(builder: Any, x: Any) -> Any:
        return builder.emit(op.abs(builder.emit(op.negative(inside.dense(builder, x, 4)))))

    module = inside.built({"x": [(4, 8)]}, make)
    ready = after(name, archloom.tvm.Offload("qkv", host=host)(module))
    check(tvm.compile(ready, target="llvm"), module)


@pytest.mark.slow
def test_offloading_is_a_pass_among_others() -> None:
    module = inside.quantized_mlp()
    steps = [passes.CanonicalizeBindings(), archloom.tvm.Offload("gemmini", dim=8, host=False), passes.LegalizeOps(),
             passes.AnnotateTIROpPattern(), passes.FuseOps(), passes.FuseTIR()]
    assert isinstance(steps[1], tvm.transform.Pass) and steps[1].info.name == "Offload(gemmini)"
    ready = tvm.transform.Sequential(steps)(module)
    assert not inside.regions(ready, "gemmini") and "gemmini_0" in ready["main"].script()
    check(tvm.compile(ready, target="llvm"), module)


@pytest.mark.slow
def test_offloading_keeps_no_second_copy_of_constants() -> None:
    module = inside.quantized_mlp()
    alone = inside.generated(archloom.tvm.partition_for("gemmini", module))
    assert alone.attrs["const_name_to_constant"]  # RunCodegen's
    assert not archloom.tvm.Offload("gemmini")(module).attrs.get("const_name_to_constant")


def test_instruments_see_the_pass(capsys: Any) -> None:
    module, timing = inside.quantized_mlp(), instrument.PassTimingInstrument()
    with tvm.transform.PassContext(instruments=[timing, instrument.PrintAfterAll()]):
        archloom.tvm.Offload("gemmini")(module)
        rendered = timing.render()
    assert re.match(r"Offload\(gemmini\): \d+us", rendered) and "RunCodegen" in rendered
    assert "gemmini_0" in capsys.readouterr().out


@pytest.mark.slow
def test_instruments_of_a_users_own() -> None:
    seen: list[tuple[str, str]] = []

    @instrument.pass_instrument
    class Watching:
        def run_before_pass(self, module: Any, info: Any) -> None:
            seen.append(("before", info.name))

        def run_after_pass(self, module: Any, info: Any) -> None:
            seen.append(("after", info.name))

    with tvm.transform.PassContext(instruments=[Watching()]):
        archloom.tvm.Offload("gemmini,qkv")(inside.quantized_mlp())
    assert seen[0] == ("before", "Offload(gemmini,qkv)") and seen[-1] == ("after", "Offload(gemmini,qkv)")


@pytest.mark.slow
@pytest.mark.parametrize("target", often(["gemmini", "qkv", "mesh"], {"gemmini"}))
def test_pipelines_by_name(target: str) -> None:
    module = inside.matching(target)
    check(tvm.compile(module, target="llvm", relax_pipeline=f"archloom_{target}"), module)


@pytest.mark.slow
def test_pipelines_take_options() -> None:
    module = inside.quantized_mlp()
    pipeline = relax.get_pipeline("archloom_gemmini", dim=8)
    executable = tvm.compile(module, target="llvm", relax_pipeline=pipeline)
    check(executable, module)
    expected = archloom.compile(archloom.load(module), "gemmini", {"dim": 8}).report
    assert archloom.tvm.report(executable).accelerator_cycles == expected.accelerator_cycles
    with pytest.raises(archloom.TargetError, match="target 'gemmini': unknown option 'dimm'; did you mean 'dim'"):
        relax.get_pipeline("archloom_gemmini", dimm=8)


@pytest.mark.slow
def test_schedules_by_rules_apply_to_what_is_left() -> None:
    """dlight's rules for processors see TVM's functions only."""
    from tvm.s_tir import dlight

    module = inside.built({"x": [(4, 8)]}, lambda b, x: [
        inside.dense(b, x, 4), b.emit(op.matmul(x, b.emit(op.permute_dims(x))))])
    ready = tvm.transform.Sequential([archloom.tvm.Offload("gemmini", host=False), *FUSION, passes.FuseTIR()])(module)
    with tvm.target.Target("llvm"):
        ready = dlight.ApplyDefaultSchedule(dlight.cpu.GEMV())(ready)
    check(tvm.compile(ready, target="llvm"), module)


@pytest.mark.slow
def test_convolutions_in_another_layout() -> None:
    """ConvertLayout before makes convolutions of NHWC: what a target does not take in it runs on the host."""
    def make(builder: Any, x: Any) -> Any:
        return builder.emit(op.nn.conv2d(x, inside.const(inside.floats(4, 3, 3, 3)), padding=1))

    module = inside.built({"x": [(1, 3, 6, 6)]}, make)
    x = inside.floats(1, 3, 6, 6)
    expected = inside.alone(module, x)
    for changed in (module, after("ConvertLayout", module)):
        inside.same(inside.run(inside.compiled("qkv", changed), x), expected)
    np.testing.assert_array_equal(expected[0], inside.by_archloom("qkv", module, x)[0])
