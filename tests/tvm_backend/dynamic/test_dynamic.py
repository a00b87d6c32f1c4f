"""Networks with open dimensions: equal to static ones at every extent, and kept in a limited number."""

from __future__ import annotations

import json
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import archloom
from archloom.oracle.errors import ArchloomError, InputError, ModelError
from archloom.tvm_backend import cli
from tests.support.examples import examples
from tests.support.tvm_backend.networks import Net


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def onnx_network() -> onnx.ModelProto:
    """Two layers over [batch, n, 6], and what a network with open dimensions does with its shape."""
    net = Net()
    x, y = net.input("x", "batch", "n", 6), net.input("y", "batch", "n", 4)
    x = net.node("Relu", [net.node("MatMul", [x, net.weight("w", 6, 4)], "first")], "relu")
    x = net.node("Add", [x, y], "add")
    flat = net.node("Reshape", [x, net.constant("rows", [-1, 4], np.int64)], "rows_of")
    shape = net.node("Shape", [y], "shape")
    return net.model(net.node("Reshape", [net.node("MatMul", [flat, net.weight("v", 4, 4)], "second"), shape], "back"))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dynamic") / "net.onnx"
    onnx.save(onnx_network(), path)
    return path


@pytest.fixture(scope="module")
def network(file: Path) -> Any:
    return archloom.compile(file, target="qkv", dynamic=True, keep=2)


def inputs(batch: int, n: int) -> dict[str, np.ndarray]:
    return {"x": normal(batch, n, 6), "y": normal(batch, n, 4)}


def test_an_onnx_network_names_what_is_open(file: Path) -> None:
    model = archloom.load(file, dynamic=True)
    assert [(i.name, i.dtype, i.shape) for i in model.inputs] == [
        ("x", "float32", ("batch", "n", 6)), ("y", "float32", ("batch", "n", 4))]
    assert [str(s) for s in model.symbols] == ["batch (at least 1)", "n (at least 1)"] and model.name == "net"
    static = model.at(batch=2, n=3)
    assert static.inputs == archloom.load(file, input_shapes={"x": (2, 3, 6), "y": (2, 3, 4)}).inputs
    assert static.name == "net" and model.at({"batch": 2}, n=3).inputs == static.inputs


@pytest.mark.slow
@given(st.integers(1, 3), st.integers(1, 9))
@examples(3, 30)
def test_results_are_those_of_the_static_network(network: Any, file: Path, batch: int, n: int) -> None:
    given_inputs = inputs(batch, n)
    static = archloom.compile(
        archloom.load(file, input_shapes={name: x.shape for name, x in given_inputs.items()}), target="qkv")
    np.testing.assert_array_equal(network(given_inputs), static(given_inputs))
    np.testing.assert_array_equal(network(given_inputs["x"], y=given_inputs["y"]), static(given_inputs))
    assert network.at(batch=batch, n=n).report == static.report


def test_the_least_recently_used_network_goes_first(network: Any) -> None:
    network(inputs(1, 1))
    first = network.at(batch=1, n=1)
    network(inputs(1, 2))
    assert network.at(batch=1, n=1) is first
    network(inputs(1, 3))
    assert network.kept == ({"batch": 1, "n": 1}, {"batch": 1, "n": 3})
    assert network.at(batch=1, n=1) is first


def test_threads_share_a_network(file: Path) -> None:
    shared: Any = archloom.compile(file, target="qkv", dynamic=True)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(shared.at(batch=1, n=2))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len(set(map(id, found))) == 1


@pytest.mark.parametrize(("wrong", "message"), [
    ({**inputs(2, 3), "y": normal(3, 3, 4)}, "dimension 0 of input 'y' is batch: expected 2, found 3 .batch = 2 by "
                                             "dimension 0 of input 'x'"),
    ({"x": normal(2, 3, 6)}, "input 'y' is missing"), ({**inputs(2, 3), "z": normal(1)}, "no input is named 'z'"),
    ({**inputs(2, 3), "x": normal(2, 3, 6).astype(np.float64)}, "found dtype float64"),
])
def test_wrong_inputs_are_refused_before_anything_is_compiled(
    network: Any, wrong: dict[str, np.ndarray], message: str
) -> None:
    before = network.kept
    with pytest.raises(InputError, match=message):
        network(wrong)
    assert network.kept == before


def nameless() -> onnx.ModelProto:
    net = Net()
    model = net.model(net.node("Relu", [net.input("x", "a", 3, "past + now", "past", "now", "b b")], "relu"))
    model.graph.input[0].type.tensor_type.shape.dim[0].ClearField("dim_param")
    return model


def test_nameless_dimensions_get_a_name_and_sums_of_names_are_sums() -> None:
    model = archloom.load(nameless(), dynamic=True)
    assert model.inputs[0].shape == ("x.0", 3, "past + now", "past", "now", "b b")
    assert model.at({"x.0": 2, "past": 3, "now": 1, "b b": 1}).inputs[0].shape == (2, 3, 4, 3, 1, 1)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: archloom.load(nameless()), "with open dimensions.*dynamic=True.*--symbol"),
    (lambda: archloom.load(nameless(), dynamic=True, input_shapes={"x": (1,) * 6}), "input_shapes: not taken"),
    (lambda: archloom.load("gemm(m=1,n=2,k=3)", dynamic=True), "an operator as text has no open dimensions"),
    (lambda: archloom.load("mobilenet_v2", dynamic=True), "a network by name has no open dimensions"),
    (lambda: archloom.load(nn.Linear(3, 2), torch.ones(1, 3), dynamic=True), "needs dynamic_shapes"),
    (lambda: archloom.load(nn.Linear(3, 2), torch.ones(1, 3), dynamic_shapes=()), "model.at"),
    (lambda: archloom.load(nameless(), dynamic=True, dynamic_shapes=()), "dynamic_shapes: only taken with a torch"),
    (lambda: archloom.compile("gemm(m=1,n=2,k=3)", keep=2), "keep: only taken"),
    (lambda: archloom.compile(nameless(), dynamic=True, keep=0), "keep: expected a positive number"),
    (lambda: archloom.compile(nameless(), target="gemini", dynamic=True), "did you mean 'gemmini'"),
    (lambda: archloom.compile(nameless(), dynamic=True).save("x.loom"), "x.loom: .*network.at.*'x.0'.*save"),
    (lambda: archloom.coverage(archloom.load(nameless(), dynamic=True)), "found one with open dimensions.*x.0=..."),
    (lambda: archloom.estimate(nameless(), symbols={"x.0": 2}), "symbol 'past': expected at least 1, found no extent"),
    (lambda: archloom.estimate(nameless(), symbols={"x.0": []}), "'x.0': expected at least one extent"),
    (lambda: archloom.estimate(nameless(), symbols=4), "symbols: expected a mapping"),  # type: ignore[call-overload]
    (lambda: archloom.load(nameless(), dynamic=True).at(4), "expected extents by name"),  # type: ignore[arg-type]
])
def test_what_does_not_go_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ArchloomError, match=message):
        call()


def test_a_network_without_open_dimensions_has_no_symbols() -> None:
    net = Net()
    model = archloom.load(net.model(net.node("Relu", [net.input("x", 2, 3)], "relu")), dynamic=True)
    assert model.symbols == () and model.at().inputs[0].shape == (2, 3)
    with pytest.raises(InputError, match="no symbol is named 'n'; no dimension is open"):
        model.at(n=3)


# torch ----------------------------------------------------------------------------------------------------------------


class Mixer(nn.Module):
    """Attention over an open length, with a branch that torch makes a demand of."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        batch, n, width = x.shape
        z = self.mix(x).reshape(batch, n, 2, 4).transpose(1, 2)
        z = nn.functional.scaled_dot_product_attention(z, z, z).transpose(1, 2).reshape(batch, n, width)
        if n == 7:
            z = z + 1
        return z + y[:, :n]


@pytest.fixture(scope="module")
def mixer() -> tuple[Mixer, Any]:
    torch.manual_seed(0)
    module = Mixer().eval()
    batch = Dim("batch", max=16)
    program = torch.export.export(module, (torch.randn(2, 6, 8), torch.randn(2, 12, 8)), dynamic_shapes={
        "x": {0: batch, 1: Dim.AUTO}, "y": {0: batch, 1: Dim.AUTO}})
    return module, program


def test_programs_of_torch_at_extents(mixer: tuple[Mixer, Any], tmp_path: Path) -> None:
    module, program = mixer
    torch.export.save(program, tmp_path / "mixer.pt2")
    with pytest.raises(ModelError, match="dynamic=True"):
        archloom.load(tmp_path / "mixer.pt2")
    with pytest.raises(ModelError, match="dynamic=True"):
        archloom.load(program)
    x, y = torch.randn(3, 5, 8), torch.randn(3, 9, 8)
    static = archloom.compile(archloom.load(module, (x, y)), target="qkv")
    for source, batch in ((program, "batch"), (tmp_path / "mixer.pt2", "x.0")):
        model = archloom.load(source, dynamic=True)
        assert [i.shape for i in model.inputs] == [(batch, "x.1", 8), (batch, "y.1", 8)]
        assert (model.symbols[0].low, model.symbols[0].high) == (1, 16)
        compiled = archloom.compile(model, target="qkv")
        np.testing.assert_array_equal(compiled(x, y), static(x, y))
        assert compiled.at({batch: 3, "x.1": 5, "y.1": 9}).report.cycles == static.report.cycles
        for extents, message in (
            ({batch: 17, "x.1": 5, "y.1": 9}, "expected 1 to 16, found 17"),
            ({batch: 3, "x.1": 7, "y.1": 9}, "does not take inputs of these shapes.*Guard failed: x.*!= 7"),
        ):
            with pytest.raises(InputError, match=message):
                model.at(extents)


class Nested(nn.Module):
    def forward(self, x: torch.Tensor, *, more: dict[str, torch.Tensor]) -> torch.Tensor:
        return x * 2 + more["k"].sum()


@pytest.mark.slow
def test_dimensions_that_follow_from_others() -> None:
    n = Dim("n", min=2, max=50)
    program = torch.export.export(Nested(), (torch.randn(8, 3),), {"more": {"k": torch.randn(5)}}, dynamic_shapes={
        "x": {0: 2 * n}, "more": {"k": {0: n + 1}}})
    model = archloom.load(program, dynamic=True)
    assert [i.shape for i in model.inputs] == [("2*n", 3), ("n + 1",)]
    assert (str(model.symbols[0])) == "n (2 to 50)"
    assert [i.shape for i in model.at(n=4).inputs] == [(8, 3), (5,)]
    x, k = torch.randn(10, 3), torch.randn(6)
    np.testing.assert_allclose(
        archloom.compile(model)(x, k), Nested()(x, more={"k": k}).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_modules_are_exported_with_dynamic_shapes() -> None:
    module, x = nn.Linear(3, 2), torch.randn(4, 3)
    model = archloom.load(module, x, dynamic=True, dynamic_shapes=({0: Dim("rows", max=9)},))
    assert model.inputs[0].shape == ("rows", 3) and model.name == "Linear"
    assert model.at(rows=1).inputs[0].shape == (1, 3)
    report = archloom.estimate(module, "qkv", example_inputs=x, dynamic_shapes=({0: Dim("rows", max=9)},),
                               symbols={"rows": 5})
    assert report.cycles == archloom.estimate(module, "qkv", example_inputs=torch.ones(5, 3)).cycles
    with pytest.raises(ModelError, match="torch.export fails"):
        archloom.load(module, x, dynamic=True, dynamic_shapes=({1: Dim("wrong")},))


def altered(source: Path, target: Path, change: Any) -> Path:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for info in old.infolist():
            data = old.read(info)
            if info.filename.endswith("model.json"):
                graph = json.loads(data)
                change(graph)
                data = json.dumps(graph).encode()
            new.writestr(info.filename, data)
    return target


@pytest.mark.parametrize("text", [
    "__import__('os').getpid()", "Symbol('s17').args", "Symbol('os.x')", "Symbol('s1', real=True)", "eval('1')",
    "9**9**9", "Pow(Integer(9), Integer(9))", "Mul(*Integer(2))", "Integer('2')", "lambda: 1", "Integer(2", 3,
    "Add\n(Integer(2))",
])
def test_sizes_of_files_are_looked_at(mixer: tuple[Mixer, Any], tmp_path: Path, text: Any) -> None:
    torch.export.save(mixer[1], tmp_path / "mixer.pt2")

    def change(graph: Any) -> None:
        graph["graph_module"]["extra"] = {"as_expr": {"expr_str": text, "hint": None}}

    with pytest.raises(ModelError, match="a size is .* expected integers and symbols"):
        archloom.load(altered(tmp_path / "mixer.pt2", tmp_path / "bad.pt2", change), dynamic=True)


@pytest.mark.parametrize("text", [
    "__import__('os').getpid() == 1", "L['x'].size()[0].real == 1", "L['x'].data == 1", "L[\"x'\"].size()[0] == 1",
    "L['x'].size(1)[0] == 1", "M['x'].size()[0] == 1", "2 ** 3 == 8", "[1] == 1", "f(1) == 1", "1 == 1.5", None,
])
def test_demands_of_files_are_looked_at(mixer: tuple[Mixer, Any], tmp_path: Path, text: Any) -> None:
    torch.export.save(mixer[1], tmp_path / "mixer.pt2")
    with pytest.raises(ModelError, match="the program demands .* expected comparisons of sizes"):
        archloom.load(altered(tmp_path / "mixer.pt2", tmp_path / "bad.pt2", lambda graph: graph.update(
            guards_code=[text])), dynamic=True)


# Relax ----------------------------------------------------------------------------------------------------------------


@I.ir_module
class Relax:
    @R.function
    def main(  # type: ignore[no-untyped-def]
        x: R.Tensor(("b", "n", 8), "float32"), w: R.Tensor((8, 16), "float32"),  # type: ignore[valid-type]
        y: R.Tensor(("b", "2*n", 8), "float32"),  # type: ignore[valid-type]
    ):
        R.func_attr({"tir_var_upper_bound": {"n": 100}})
        b, n = T.int64(), T.int64()
        with R.dataflow():
            h = R.reshape(R.matmul(x, w), (b, n * 2, 8))
            o = R.add(h, y)
            R.output(o)
        return o


def test_relax_modules_with_symbolic_extents() -> None:
    model = archloom.load(Relax, dynamic=True)
    assert [i.shape for i in model.inputs] == [("b", "n", 8), (8, 16), ("b", "2*n", 8)]
    assert [str(s) for s in model.symbols] == ["b (at least 1)", "n (1 to 100)"]
    compiled = archloom.compile(model, target="qkv")
    x, w, y = normal(2, 3, 8), normal(8, 16), normal(2, 6, 8)
    np.testing.assert_allclose(compiled(x, w, y), (x @ w).reshape(2, 6, 8) + y, rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match="dimension 1 of input 'y' is 2\\*n: expected 6, found 8"):
        compiled(x, w, normal(2, 8, 8))
    with pytest.raises(ModelError, match="load with dynamic=True"):
        archloom.load(Relax)


# estimates ------------------------------------------------------------------------------------------------------------


def test_estimates_at_extents(file: Path) -> None:
    static = archloom.estimate(file, "qkv", input_shapes={"x": (2, 8, 6), "y": (2, 8, 4)})
    for model in (file, onnx.load(file), archloom.load(file, dynamic=True)):
        one = archloom.estimate(model, "qkv", symbols={"batch": 2, "n": 8})
        assert (one.cycles, one.macs) == (static.cycles, static.macs) and one.cycles
    with pytest.raises(InputError, match="give extents with model.at.batch=..., n=.*symbols="):
        archloom.estimate(archloom.load(file, dynamic=True), "qkv")
    assert archloom.coverage(file, "qkv", symbols={"batch": 2, "n": 8}).model == "net"
    assert archloom.check(file, "qkv", symbols={"batch": 2, "n": 8}).passed


def test_several_extents_make_a_table(file: Path) -> None:
    table: Any = archloom.estimate(file, "qkv", symbols={"batch": [1, 2], "n": np.array([4, 16])}, host="none")
    assert [dict(row.extents) for row in table] == [
        {"batch": b, "n": n} for b in (1, 2) for n in (4, 16)] and len(table) == 4
    assert table.at(batch=2, n=16) == archloom.estimate(
        file, "qkv", symbols={"batch": 2, "n": 16}, host="none")
    with pytest.raises(KeyError):
        table.at(batch=3, n=16)
    lines = str(table).splitlines()
    assert lines[0].split() == ["batch", "n", "cycles", "time", "MACs", "offloaded", "use", "energy", "J"]
    assert lines[3].split()[:2] == ["1", "16"] and len({len(line) for line in lines[:6]}) == 1
    data = table.to_json()
    assert data["symbols"] == ["batch", "n"] and data["rows"][3]["extents"] == {"batch": 2, "n": 16}
    assert data["rows"][3]["report"]["cycles"] == table.rows[3].report.cycles
    assert table.to_csv().splitlines()[1].startswith(f"1,4,{table.rows[0].report.cycles},")


def test_the_command_line_estimates_at_extents(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*flags: str) -> tuple[int, str, str]:
        status = cli.main(["estimate", str(file), "-t", "qkv", *flags])
        return status, *capsys.readouterr()

    status, out, _ = run("--symbol", "batch=1", "--symbol", "n=4,16")
    assert status == 0 and [line.split()[:2] for line in out.splitlines()[2:4]] == [["1", "4"], ["1", "16"]]
    status, out, _ = run("--symbol", "batch=1", "--symbol", "n=4,16", "--json")
    assert status == 0 and [row["extents"]["n"] for row in json.loads(out)["rows"]] == [4, 16]
    status, out, _ = run("--symbol", "batch=1", "--symbol", "n=4", "--json")
    assert status == 0 and json.loads(out)["schema"] == "archloom.report/2"
    assert run("--symbol", "batch=1,2", "--symbol", "n=4", "--csv")[1].splitlines()[0].startswith("batch,n,cycles")
    for flags, message in (
        (("--symbol", "n=4"), "symbol 'batch': expected at least 1, found no extent"),
        (("--symbol", "n=0"), "--symbol 'n=0': expected NAME=EXTENT"), (("--symbol", "n"), "expected NAME=EXTENT"),
        (("--symbol", "n=1", "--symbol", "n=2"), "symbol 'n' is given twice"),
        (("--symbol", "m=1"), "no symbol is named 'm'"), ((), "expected static input shapes"),
        (("--symbol", "n=1", "--input-shape", "x:1x1x6"), "not taken with --calibrate and --input-shape"),
    ):
        status, out, err = run(*flags)
        assert (status, out) == (2, "") and message in err and "Traceback" not in err
