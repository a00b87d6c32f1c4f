"""What a user gets who asks for what cannot be: errors of archloom's own, with the region they come from."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import archloom
from archloom.oracle.errors import MappingError, StreamError
from archloom.tvm_backend.executable import CompiledNetwork
from archloom.tvm_backend.ir.compat import relax, tvm
from tests.support.tvm_backend import inside

X = inside.floats(4, 8)
BAD = [
    ("gemini", {}, "unknown target 'gemini'; did you mean 'gemmini'"),
    ("gemmini", {"dimm": 8}, "target 'gemmini': unknown option 'dimm'; did you mean 'dim'"),
    ("gemmini", {"dim": -3}, "target 'gemmini': option 'dim': expected an integer from 4 to 1024, found -3"),
    ("gemmini,gemmini", {}, "target 'gemmini' is named twice"),
    ("", {}, "target: expected at least one of"),
]


@pytest.mark.parametrize(("target", "options", "message"), BAD)
def test_bad_targets_and_options(target: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(archloom.TargetError, match=message):
        archloom.tvm.partition_for(target, inside.quantized_mlp(), **options)
    with pytest.raises(archloom.TargetError, match=message):
        archloom.tvm.Offload(target, **options)  # before there is a module
    with pytest.raises(archloom.TargetError, match=message):
        archloom.tvm.Prepare(target, **options)


@pytest.mark.parametrize("given", [None, "net.onnx"])
def test_what_is_no_module(given: Any) -> None:
    for module in (given, inside.mlp()["main"]):
        with pytest.raises(archloom.ModelError, match=r"expected a module of TVM \(IRModule\), found \w+"):
            archloom.tvm.partition_for("gemmini", module)


def test_options_of_partitioning_and_of_code_generation() -> None:
    partitioned = archloom.tvm.partition_for("gemmini", inside.quantized_mlp(), dim=16)
    relax.transform.RunCodegen({"gemmini": {"dim": 16}})(partitioned)
    message = "relax.ext.gemmini: option 'dim': the module was partitioned for 16, RunCodegen asks for 8"
    with pytest.raises(archloom.TargetError, match=message):
        relax.transform.RunCodegen({"gemmini": {"dim": 8}})(partitioned)
    with pytest.raises(archloom.TargetError, match="target 'gemmini': unknown option 'dimm'; did you mean 'dim'"):
        relax.transform.RunCodegen({"gemmini": {"dimm": 8}})(partitioned)


@pytest.mark.slow
def test_regions_of_other_options_in_one_module() -> None:
    module = inside.quantized_mlp(1, "other", inside.quantized_mlp(0, "main", relax.BlockBuilder())).get()
    halves = [archloom.tvm.partition_for("gemmini", tvm.IRModule({module.get_global_var(e): module[e]}), dim=dim)
              for e, dim in (("main", 8), ("other", 16))]
    renamed = halves[1]["gemmini_0"].with_attr("global_symbol", "second")
    with pytest.raises(archloom.TargetError, match="relax.ext.gemmini: its regions were partitioned with different"):
        tvm.get_global_func("relax.ext.gemmini")([halves[0]["gemmini_0"], renamed], {}, {})


@pytest.mark.slow
def test_what_no_mapping_fits() -> None:
    """Code generation plans the regions: its errors go through RunCodegen."""
    def make(builder: Any, x: Any) -> Any:
        return inside.requantized(builder, builder.emit(relax.op.matmul(
            inside.requantized(builder, x), inside.weights(builder, 8, 16))))

    module = archloom.tvm.partition_for("ultratrail", inside.built({"x": [(4, 8)]}, make), memory_mib=1)
    with pytest.MonkeyPatch.context() as patch:
        def refuse(*arguments: Any) -> Any:
            raise MappingError("no mapping fits")

        patch.setattr("archloom.tvm_backend.inside.codegen.plan_steps", refuse)
        with pytest.raises(MappingError, match="no mapping fits"):
            inside.generated(module)


# errors at run time ---------------------------------------------------------------------------------------------------


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An executable whose region fails where an input is 3."""
    executable = inside.compiled("qkv", inside.mlp())
    call = CompiledNetwork.call

    def checked(self: CompiledNetwork, number: int, arguments: Any) -> Any:
        if np.asarray(arguments[0]).max() >= 3:
            raise StreamError("the region's own error")
        return call(self, number, arguments)

    monkeypatch.setattr(CompiledNetwork, "call", checked)
    return executable


@pytest.mark.slow
def test_errors_of_regions_are_what_they_are(failing: Any) -> None:
    machine = relax.VirtualMachine(failing, tvm.cpu())
    for _ in range(2):
        with pytest.raises(StreamError, match=re.escape("qkv_0: the region's own error")) as info:
            machine["main"](tvm.runtime.tensor(np.full((4, 8), 3, np.float32)))
        assert str(info.value).count("qkv_0") == 1
        inside.same(inside.arrays(machine["main"](tvm.runtime.tensor(X * 0))), inside.alone(inside.mlp(), X * 0))


def test_errors_in_threads_and_in_two_machines(failing: Any) -> None:
    machines = [relax.VirtualMachine(failing, tvm.cpu()) for _ in range(8)]  # TVM aborts if threads make them at once

    def work(number: int) -> str:
        machine = machines[number]
        try:
            return str(machine["main"](tvm.runtime.tensor(np.full((4, 8), number % 2 * 3, np.float32))).shape)
        except StreamError as error:
            return str(error)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(8)))
    assert found == [str((4, 4)), "qkv_0: the region's own error"] * 4


@pytest.mark.slow
def test_errors_of_another_kind_keep_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    executable = inside.compiled("qkv", inside.mlp())

    def fail(self: Any, number: int, arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(CompiledNetwork, "call", fail)
    with pytest.raises(KeyboardInterrupt):
        inside.run(executable, X)


@pytest.mark.first_case
@pytest.mark.parametrize(("given", "error", "message"), [
    ([inside.floats(4, 9)], RuntimeError, r"\(9 vs. 8\).*param=x, annotation=R.Tensor\(\(4, 8\)"),
    ([X.astype(np.float64)], ValueError, "expect Tensor with dtype float32 but get float64"),
    ([], RuntimeError, r"Invoking function main expects 1 arguments \(x\), but 0 arguments were provided"),
])
def test_inputs_that_do_not_fit_are_refused_by_tvm(given: list[Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        inside.run(inside.compiled("qkv", inside.mlp()), *given)


@pytest.mark.slow
def test_regions_are_called_with_all_their_tensors() -> None:
    """As by whoever takes a region's function out of an executable."""
    ready = inside.generated(archloom.tvm.partition_for("qkv", inside.mlp()))
    region = ready.attrs["external_mods"][0].get_function("qkv_0")
    out = tvm.runtime.empty((4, 4), "float32")
    region(tvm.runtime.tensor(X), out)
    inside.same([out.numpy()], inside.alone(inside.mlp(), X))
    with pytest.raises(archloom.ArtifactError, match="qkv_0: expected 1 inputs and 1 results, found 1 tensors"):
        region(out)
