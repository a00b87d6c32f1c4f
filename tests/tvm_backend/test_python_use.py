"""What users of Python and notebooks see and give: summaries, pages, tables, samples, many models, torch.compile."""

from __future__ import annotations

import configparser
import sys
import xml.etree.ElementTree as ElementTree
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import archloom
from archloom.mapper.search import Plan, search
from archloom.mapper.workload import Epilogue, gemm
from archloom.oracle.errors import InputError, ModelError
from archloom.tvm_backend import cli
from archloom.tvm_backend.check.network import check
from archloom.tvm_backend.frontends.torch.export import to_onnx
from archloom.tvm_backend.quantization.calibration import Wanted, batches, example_of
from archloom.tvm_backend.samples import as_array
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.torch_backend import compile_graph
from tests.support.examples import examples
from tests.support.tvm_backend.small_networks import float_cnn, int8_cnn

DIM = {"dim": 8}


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
                         nn.Linear(8 * 16, 4)).eval()


X = torch.ones(1, 3, 4, 4)

# what is shown -------------------------------------------------------------------------------------------------------


def test_a_model_is_shown_as_a_summary() -> None:
    model = archloom.load(float_cnn())
    lines = str(model).splitlines()
    assert "operators" in lines[0] and "MACs" in lines[0] and "bytes of constants" in lines[0] and len(lines) < 10
    assert {line.split()[0] for line in lines[3:]} == {"input", "output"}
    assert len(repr(model)) < 300 and model.inputs[0].name in repr(model)
    network = archloom.compile(int8_cnn(), options=DIM)
    assert repr(network).startswith("<CompiledNetwork") and "gemmini: input " in repr(network)
    assert network._repr_html_() == network.report._repr_html_()


@pytest.fixture(scope="module")
def plan() -> Plan:
    return search(gemm(8, 8, 8, epilogue=Epilogue(False, 1.0, False, "int8")), registry.get("gemmini").accelerator, DIM)


def test_cells_of_a_notebook_have_tables_and_drawings(plan: Plan) -> None:
    model = archloom.load(int8_cnn())
    shown = [model, archloom.estimate(model, options=DIM), check(model, "gemmini", DIM, count=1), plan,
             archloom.isa("gemmini", dim=8), registry.info("gemmini")]
    for thing in shown:
        page = ElementTree.fromstring(f"<div>{thing._repr_html_()}</div>")
        assert page.find("table") is not None, thing
    assert page.find("{http://www.w3.org/2000/svg}svg") is not None  # the target's


def test_reports_become_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    report = archloom.estimate(int8_cnn(), options=DIM)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pandas", None)
        with pytest.raises(InputError, match="pip install pandas"):
            report.to_pandas()
    pytest.importorskip("pandas")
    frame = report.to_pandas()
    assert list(frame["name"]) == [layer.name for layer in report.layers] and frame["macs"].sum() == report.macs


def test_what_cannot_be_loaded_is_told_what_can() -> None:
    with pytest.raises(ModelError, match=r"expected a network, found int; what can be loaded: .*\.pt2.*example_inputs"):
        archloom.load(42)


# samples -------------------------------------------------------------------------------------------------------------

FORMS = ("array", "mapping", "batches", "samples", "mappings", "tuples", "lists of tensors")


def spelled(form: str, whole: np.ndarray) -> Any:
    """Samples (the first axis counts them) in one of the forms that users have."""
    return {
        "array": whole, "mapping": {"x": whole}, "batches": [x[None] for x in whole], "samples": list(whole),
        "mappings": [{"x": x} for x in whole], "tuples": [(x, np.array(3)) for x in whole],
        "lists of tensors": [[torch.from_numpy(whole), torch.zeros(len(whole))]],
    }[form]


@examples(40, 400)
@given(st.sampled_from(FORMS), st.integers(1, 5), st.sampled_from([(2,), (3, 2), (1, 2, 2)]), st.booleans())
def test_every_form_of_samples_is_the_same(form: str, count: int, shape: tuple[int, ...], is_open: bool) -> None:
    whole = np.random.default_rng(count).standard_normal((count, *shape)).astype(np.float32)
    found = list(batches(spelled(form, whole), [Wanted("x", (None if is_open else 1, *shape))]))
    assert all(list(batch) == ["x"] and batch["x"].shape[1:] == shape for batch in found)
    assert np.array_equal(np.concatenate([batch["x"] for batch in found]), whole)
    assert is_open or len(found) == count


def test_samples_that_do_not_fit_are_named() -> None:
    two = [Wanted("a", (1, 2)), Wanted("b", (1, 2))]
    for wrong, message in (([{"a": np.ones((1, 2))}], "sample 1: input 'b' is missing"),
                           ([np.ones((1, 2))], "sample 1: the network has inputs a, b"),
                           ([(np.ones((1, 2)),)], "sample 1: expected arrays for the inputs a, b, found 1"),
                           ([(np.ones((2, 2)), np.ones((1, 2)))], "different numbers of batches")):
        with pytest.raises(InputError, match=message):
            list(batches(wrong, two))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8])
def test_tensors_of_all_types_are_samples(dtype: torch.dtype) -> None:
    values = torch.arange(6).reshape(3, 2).to(dtype)[:, 1]  # a column, which is not contiguous
    found = as_array(values)
    assert str(found.dtype) == str(dtype).removeprefix("torch.") and found.astype(int).tolist() == [1, 3, 5]


def test_a_loader_exports_a_module_on_one_sample() -> None:
    images, labels = torch.randn(5, 3, 4, 4), torch.zeros(5)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=2)
    (example,), samples = example_of(small(), loader)
    assert torch.equal(example, images[:1])
    found = list(batches(samples, [Wanted("x", (1, 3, 4, 4))]))
    assert np.array_equal(np.concatenate([batch["x"] for batch in found]), images.numpy()) and len(found) == 5
    quantized = archloom.quantize(small(), loader)
    assert archloom.load(quantized).inputs[0].shape == (1, 3, 4, 4)


# many models ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_modules_are_taken_as_if_quantized_loaded_or_not() -> None:
    from archloom.tvm_backend.frontends.torch.export import to_onnx

    through = archloom.estimate(to_onnx(small(), X), options=DIM, as_int8=True)
    loaded = archloom.estimate(archloom.load(small(), X), options=DIM, as_int8=True)
    (bare,) = archloom.estimate_many([(small(), X)], options=DIM, as_int8=True, workers=1)
    assert loaded.accelerator_cycles == through.accelerator_cycles > 0 and loaded.offloaded_macs_share == 1
    assert not isinstance(bare, archloom.ArchloomError) and bare.accelerator_cycles == through.accelerator_cycles


def test_options_are_one_set_for_many_or_many_for_one() -> None:
    sets = [{"dim": 4}, {"dim": 8}]
    alone = [archloom.estimate(int8_cnn(), options=options).cycles for options in sets]
    for models in (int8_cnn(), [int8_cnn()], [int8_cnn(), int8_cnn()]):
        found = archloom.estimate_many(models, options=sets, workers=1)
        assert [report.cycles for report in found] == alone  # type: ignore[union-attr]
    with pytest.raises(InputError, match="expected one set for all models or 3, one for each; found 2"):
        archloom.estimate_many([int8_cnn()] * 3, options=sets, workers=1)


def test_where_an_option_of_a_target_goes_is_said() -> None:
    with pytest.raises(InputError, match=r"rows: expected one of input_shapes, .*dynamic; an option of the target is "
                                         r"given by options=\{'rows': 4\}"):
        archloom.estimate(int8_cnn(), "systolic_array", rows=4)


# torch.compile -------------------------------------------------------------------------------------------------------


def test_torch_compiles_for_a_target() -> None:
    module, before = small(), len(archloom.torch_graphs())
    compiled = torch.compile(module, backend=compile_graph, options={"target": "qkv", "dim": 8})
    with torch.no_grad():
        torch.testing.assert_close(compiled(X), module(X), rtol=1e-4, atol=1e-4)
    (network,) = archloom.torch_graphs()[before:]
    assert network.report.target == "qkv" and network.report.offloaded_macs_share == 1
    assert [spec.shape for spec in network.compiled.inputs] == [(1, 3, 4, 4)]  # weights are none


def test_torch_finds_the_backend_by_its_name() -> None:
    settings = configparser.ConfigParser()
    settings.read(Path(__file__).parents[2] / "setup.cfg")
    name, _, value = settings["options.entry_points"]["torch_dynamo_backends"].strip().partition(" = ")
    assert name == "archloom" and EntryPoint(name, value, "torch_dynamo_backends").load() is compile_graph


def test_a_quantized_network_is_called_as_its_module(tmp_path: Path) -> None:
    samples = [np.ones((1, 3, 4, 4), np.float32)]
    quantized = archloom.quantize(small(), samples)
    assert quantized.graph.name == "Sequential"  # torch calls every graph main_graph
    assert str(archloom.estimate(quantized, options=DIM)).startswith("Sequential on gemmini")
    floats = to_onnx(small(), X)
    onnx.save(floats, tmp_path / "my_net.onnx")
    assert floats.graph.name == "main_graph"
    assert archloom.quantize(tmp_path / "my_net.onnx", samples).graph.name == "my_net"
    assert archloom.quantize(archloom.load(small(), X), samples).graph.name == "Sequential"


def test_what_holds_no_samples_is_refused() -> None:
    for other in (None, 8, "samples.npz", Path("samples.npz")):
        with pytest.raises(InputError, match="calibration: expected samples: an iterable of arrays"):
            archloom.quantize(small(), other)
    for value in (np.nan, np.inf):
        sample = np.ones((1, 3, 4, 4), np.float32)
        sample[0, 1, 2, 3] = value
        with pytest.raises(InputError, match="sample 2: input 'input' has values that are no finite numbers"):
            archloom.quantize(small(), [np.ones_like(sample), sample])
    with pytest.raises(InputError, match="input 0: expected float32, as the module's parameters are, found float64"):
        archloom.quantize(small(), [np.ones((1, 3, 4, 4))])
    with pytest.raises(InputError, match="percentile"):
        archloom.quantize(small(), [X], method="percentile", percentile="99")  # type: ignore[arg-type]


def test_names_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match="options: expected a mapping such as .*found {3: 8}"):
        archloom.estimate("gemm(m=4,n=4,k=4)", options={3: 8})  # type: ignore[dict-item]
    with pytest.raises(InputError, match="host: expected the name of one, found 3"):
        archloom.estimate("gemm(m=4,n=4,k=4)", host=3)  # type: ignore[arg-type]


def test_the_command_line_calibrates_exported_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "small.pt2"
    torch.export.save(torch.export.export(small(), (X,)), file)
    assert cli.main(["estimate", str(file), "--calibrate", "random:2", "-O", "dim=8"]) == 0
    first, _, rest = capsys.readouterr().out.partition("\n")
    assert first.startswith("small on gemmini") and "2 layers" in rest
    assert archloom.estimate(file, options=DIM, as_int8=True).offloaded_macs_share == 1
