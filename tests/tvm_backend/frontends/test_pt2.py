"""Exported programs as files, and quantized programs of torch: as torchao makes them, with its operators."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # the operators of quantized programs
from torch import nn

import archloom
from archloom.oracle.errors import InputError, ModelError
from tests.support.examples import slow
from tests.support.tvm_backend.networks import executable, split
from tests.support.tvm_backend.reference import ReferenceExecutor

Q = torch.ops.quantized_decomposed


class Quantized(nn.Module):
    """What pt2e makes of a convolution and a linear layer: uint8 activations, int8 weights with scales per channel."""

    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(0)
        for name, shape in (("kernel", (8, 3, 3, 3)), ("weight", (5, 8))):
            self.register_buffer(name, torch.from_numpy(rng.integers(-127, 128, shape, np.int8)))
            scales = rng.uniform(0.001, 0.01, shape[0]).astype(np.float32)
            self.register_buffer(f"{name}_scale", torch.from_numpy(scales))
            self.register_buffer(f"{name}_zero", torch.zeros(shape[0], dtype=torch.int64))
        self.bias = nn.Parameter(torch.from_numpy(rng.standard_normal(8).astype(np.float32)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.through(x, 0.03, 131)
        x = torch.relu(nn.functional.conv2d(x, self.parameter("kernel"), self.bias, padding=1))
        x = self.through(x.mean((2, 3)), 0.02, 0)
        return nn.functional.linear(x, self.parameter("weight"))

    def through(self, x: torch.Tensor, scale: float, zero: int) -> torch.Tensor:
        x = Q.quantize_per_tensor(x, scale, zero, 0, 255, torch.uint8)
        return Q.dequantize_per_tensor(x, scale, zero, 0, 255, torch.uint8)

    def parameter(self, name: str) -> torch.Tensor:
        scale, zero = getattr(self, f"{name}_scale"), getattr(self, f"{name}_zero")
        return Q.dequantize_per_channel(getattr(self, name), scale, zero, 0, -128, 127, torch.int8)


class Dynamic(nn.Module):
    """What torchao's dynamic int8 does: rows are quantized by their largest magnitude, products are ``_int_mm``."""

    def __init__(self, terms: int) -> None:
        super().__init__()
        rng = np.random.default_rng(1)
        self.register_buffer("weight", torch.from_numpy(rng.integers(-127, 128, (24, terms), np.int8)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        largest = torch.maximum(x.amin([1], True).neg(), x.amax([1], True))
        scale = (largest / 127.5).clamp(min=1e-7)
        bytes_of = torch.clamp(torch.round(x * (1.0 / scale)), -128, 127).to(torch.int8)
        weight = self.weight.t()
        unsigned = (bytes_of.to(torch.int32) + 128).to(torch.uint8)
        sums = torch._int_mm(unsigned, weight) - 128 * weight.sum([0], keepdim=True, dtype=torch.int32)
        return sums.to(torch.float32) * scale


def saved(module: nn.Module, path: Path, *inputs: torch.Tensor, **options: Any) -> Path:
    torch.export.save(torch.export.export(module.eval(), inputs, **options), path)
    return path


@pytest.mark.slow
def test_a_float_program(tmp_path: Path) -> None:
    module, x = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)), torch.randn(2, 6)
    model = archloom.load(saved(module, tmp_path / "mlp.pt2", x))
    assert model.name == "mlp" and model.source == "torch" and model.inputs[0].shape == (2, 6)
    np.testing.assert_allclose(executable(model)(x), module(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match="not taken with an exported program"):
        archloom.load(tmp_path / "mlp.pt2", input_shapes={"input": (1, 6)})


def test_a_quantized_program_keeps_its_integers(tmp_path: Path) -> None:
    module, x = Quantized().eval(), torch.randn(2, 3, 6, 7)
    model = archloom.load(saved(module, tmp_path / "quantized.pt2", x))
    part, _, _ = split(model)
    assert [s.op for s in part.steps()] == ["conv2d+bias+int32", "dense+bias+int32"]
    assert part.offloaded_macs_share == 1 and {t.dtype for r in part.regions for t in r.values} >= {"uint8"}
    found = executable(model).run({model.inputs[0].name: x.numpy()}, executor=ReferenceExecutor())
    np.testing.assert_allclose(next(iter(found.values())), module(x).detach().numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("terms", [slow(64), 1100])
def test_products_of_bytes_are_exact_however_long(terms: int) -> None:
    module, x = Dynamic(terms).eval(), torch.randn(20, terms)
    model = archloom.load(module, x)
    part, _, _ = split(model)
    assert part.offloaded_macs_share == 1 and [s.op for s in part.steps()] == ["dense+bias+int32"]
    found = executable(model).run({model.inputs[0].name: x.numpy()}, executor=ReferenceExecutor())
    np.testing.assert_array_equal(next(iter(found.values())), module(x).numpy())


class Bomb:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path(self.path),))

    path = ""


def rewritten(source: Path, target: Path, change: Any, compression: int = zipfile.ZIP_STORED) -> Path:
    """A copy of an archive with the parts that ``change`` gives: (name, data) → data."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", compression) as new:
        for info in old.infolist():
            new.writestr(info.filename, change(info.filename, old.read(info)))
    return target


@pytest.mark.slow
def test_nothing_of_a_file_is_executed(tmp_path: Path) -> None:
    """Sample inputs are pickled; what unpickling them would do is not done."""
    plain = saved(nn.Linear(3, 2), tmp_path / "linear.pt2", torch.randn(1, 3))
    Bomb.path = str(tmp_path / "exploded")
    bomb = pickle.dumps(Bomb())
    hostile = rewritten(plain, tmp_path / "hostile.pt2", lambda name, data: bomb if "sample_inputs" in name else data)
    assert archloom.load(hostile).inputs[0].shape == (1, 3)
    assert not (tmp_path / "exploded").exists()


def test_files_that_are_refused(tmp_path: Path) -> None:
    plain = saved(nn.Linear(3, 2), tmp_path / "linear.pt2", torch.randn(1, 3))

    def pickled(name: str, data: bytes) -> bytes:
        return data.replace(b'"use_pickle": false', b'"use_pickle": true') if name.endswith(".json") else data

    def evaluated(name: str, data: bytes) -> bytes:
        return data.replace(b"torch.ops.aten.linear.default", b"os.system") if name.endswith("model.json") else data

    def symbolic(name: str, data: bytes) -> bytes:
        if not name.endswith("model.json"):
            return data
        graph = json.loads(data)
        graph["graph_module"]["extra"] = {"as_expr": {"expr_str": "__import__('os').getpid()", "hint": None}}
        return json.dumps(graph).encode()

    unchanged = lambda name, data: data  # noqa: E731
    dynamic = saved(nn.Linear(3, 2), tmp_path / "dynamic.pt2", torch.randn(4, 3),
                    dynamic_shapes=({0: torch.export.Dim("n", min=2, max=9)},))
    (tmp_path / "text.pt2").write_text("no archive")
    (tmp_path / "cut.pt2").write_bytes(plain.read_bytes()[:2000])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x/archive_format", "pt2")
    (tmp_path / "empty.pt2").write_bytes(buffer.getvalue())
    for path, message in (
        (rewritten(plain, tmp_path / "a.pt2", pickled), "is an object of Python's"),
        (rewritten(plain, tmp_path / "b.pt2", evaluated), "operator 'os.system' is none of torch's"),
        (rewritten(plain, tmp_path / "c.pt2", symbolic), "exported with static shapes"),
        (rewritten(plain, tmp_path / "d.pt2", unchanged, zipfile.ZIP_DEFLATED), "is compressed"),
        (dynamic, "static shapes"), (tmp_path / "text.pt2", "not a .pt2 file"),
        (tmp_path / "cut.pt2", "not a .pt2 file"),
        (tmp_path / "empty.pt2", "no exported program"), (tmp_path / "none.pt2", "no such file"),
    ):
        with pytest.raises(ModelError, match=message):
            archloom.load(path)
