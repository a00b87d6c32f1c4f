"""torch networks: imported as they are, and quantized by way of ONNX."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import archloom
from archloom import load
from archloom.models.networks import classic
from archloom.models.networks.layers import seeded
from archloom.oracle.errors import InputError, ModelError
from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.host.network import jitted
from archloom.tvm_backend.model import Model
from archloom.tvm_backend.quantization.quantize import quantize
from archloom.tvm_backend.targets import registry
from tests.support.examples import slow
from tests.support.tvm_backend.networks import executable, split
from tests.support.tvm_backend.reference import ReferenceExecutor


class Block(nn.Module):
    """A transformer block: layer normalization, attention, GELU."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.grow, self.shrink = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            t.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for t in self.mix(self.norm(x)).chunk(3, -1)
        )
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.shrink(nn.functional.gelu(self.grow(x)))


def same(module: nn.Module, *inputs: torch.Tensor) -> Model:
    """Demand that an imported float network computes what torch computes."""
    model = load(module, example_inputs=inputs)
    with torch.no_grad():
        expected = module(*inputs).numpy()
    np.testing.assert_allclose(executable(model)(*inputs), expected, rtol=1e-4, atol=1e-5)
    return model


@pytest.mark.slow
def test_residual_network() -> None:
    model = same(seeded(classic.ResNet((1, 1), 4, 8, 10)), torch.randn(1, 3, 32, 32))
    assert model.source == "torch" and model.inputs[0].shape == (1, 3, 32, 32) and model.onnx is None


@pytest.mark.slow
def test_transformer_block_keeps_its_attention_whole() -> None:
    torch.manual_seed(0)
    model = same(Block(), torch.randn(2, 5, 16))
    ops = [op.op for op in split(model)[0].host.ops]
    assert "nn.attention_bias" in ops and "nn.softmax" not in ops
    assert all(op.engine == "xla" for op in split(model)[0].host.ops if op.macs)


@pytest.mark.slow
def test_an_encoder_and_a_decoder() -> None:
    """Its tuples of queries, keys and values cross the borders between host and accelerator."""
    torch.manual_seed(0)
    module = nn.Transformer(16, 2, 1, 1, 24, batch_first=True).eval()
    inputs = (torch.randn(1, 5, 16), torch.randn(1, 3, 16))
    exe = archloom.compile(load(module, example_inputs=inputs), "qkv")
    found = exe(*(x.numpy() for x in inputs))
    with torch.no_grad():
        np.testing.assert_allclose(found, module(*inputs).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_boolean_arithmetic() -> None:
    class Positions(nn.Module):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            mask = ids != 1
            return torch.cumsum(mask, 1) * mask + (mask == (ids > 3))

    same(Positions(), torch.randint(0, 6, (2, 7)))


class Places(nn.Module):
    """What TVM 0.27 imports wrongly: places counted from the end, and integers that become floats."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        places = torch.arange(x.shape[1])
        angles = places[:, None] * 100.0 ** (-torch.arange(0, 4, 2) / 4)
        return x[:, -1], x[..., -2], x[:, -3:-1], (places / 2).cos() + x[..., 0], angles.sin(), places / 2 * x[..., 1]


class Gaps(nn.Module):
    """What TVM 0.27 has no converter for: extremes along axes, "same" padding, windows, a weight computed of others."""

    def __init__(self) -> None:
        super().__init__()
        self.same = nn.Conv2d(4, 4, (3, 2), padding="same", dilation=2)
        self.scaled = nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 3, 3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        windows = nn.functional.unfold(x, (3, 2), dilation=(1, 2), padding=1, stride=2)
        return x.amax((1, 2)), x.amin(-1, keepdim=True), self.same(x), windows, self.scaled(x.flatten(2))


def test_operators_without_a_converter() -> None:
    torch.manual_seed(0)
    x, module = torch.randn(1, 4, 6, 5), Gaps().eval()
    model = load(module, example_inputs=x)
    assert split(model, registry.get("qkv"))[0].offloaded_macs_share == 1
    with torch.no_grad():
        for found, expected in zip(jitted(model.module["main"])([x.numpy()]), module(x), strict=True):
            np.testing.assert_allclose(np.asarray(found), expected.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_element_types_stay(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, groups=2), nn.ReLU(), nn.Conv2d(4, 3, 3, padding="same", dilation=2),
        nn.ConvTranspose2d(3, 2, 2, stride=2), nn.Flatten(2), nn.Conv1d(2, 3, 3, stride=2), nn.ConvTranspose1d(3, 2, 3),
        nn.Flatten(), nn.Linear(130, 4), nn.ReLU(), nn.Linear(4, 2)).to(dtype)
    x = torch.randn(2, 2, 4, 8, dtype=dtype)
    model = load(module, example_inputs=x)
    (found,) = jitted(model.module["main"])([x.numpy()])
    with torch.no_grad():
        expected = module(x).numpy()
    assert np.asarray(found).dtype == expected.dtype
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-2 if dtype == torch.float16 else 1e-9)


@pytest.mark.slow
def test_places_from_the_end_and_integers_that_become_floats() -> None:
    x = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))
    model = load(Places(), example_inputs=x)
    for found, expected in zip(executable(model).run({"x": x.numpy()}, executor=ReferenceExecutor()).values(),
                               Places()(x), strict=True):
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [nn.LSTM, slow(nn.GRU), slow(nn.RNN)])
def test_recurrent_layers(kind: type[nn.Module]) -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = kind(3, 4, num_layers=2, batch_first=True, bidirectional=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.layers(x)[0][:, -1]
            return result

    x = torch.randn(1, 2, 3, generator=torch.Generator().manual_seed(0))
    module = Last().eval()
    (found,) = executable(load(module, example_inputs=x)).run({"x": x.numpy()}, executor=ReferenceExecutor()).values()
    with torch.no_grad():
        np.testing.assert_allclose(found, module(x).numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_exported_program() -> None:
    module, x = nn.Sequential(nn.Linear(6, 4), nn.ReLU()).eval(), torch.randn(3, 6)
    model = load(torch.export.export(module, (x,)))
    np.testing.assert_allclose(executable(model)(x), module(x).detach().numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_quantized_module_equals_onnxruntime() -> None:
    module = seeded(classic.ResNet((1, 1), 4, 8, 10))
    rng = np.random.default_rng(0)
    data = [rng.standard_normal((1, 3, 32, 32)).astype(np.float32) for _ in range(3)]
    quantized = quantize(module, data)
    part, _, _ = split(quantized)
    assert part.offloaded_macs_share == 1.0
    found = executable(quantized).run({"x": data[0]}, executor=ReferenceExecutor())
    for name, expected in run(integer_session(quantized), {"x": data[0]}).items():
        np.testing.assert_array_equal(found[name], expected)


def test_example_inputs_are_needed() -> None:
    with pytest.raises(InputError, match="Linear: a torch.nn.Module needs example_inputs"):
        load(nn.Linear(3, 4))


def test_example_inputs_must_be_tensors() -> None:
    with pytest.raises(InputError, match=r"example_inputs\[1\]: expected a tensor, found str"):
        load(nn.Linear(3, 4), example_inputs=(torch.zeros(1, 3), "x"))


def test_a_module_that_torch_cannot_export() -> None:
    class Peeking(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if float(x.sum()) > 0 else x

    with pytest.raises(ModelError, match=r"Peeking: torch\.export fails"):
        load(Peeking(), example_inputs=torch.zeros(3))


def test_an_operator_that_tvm_does_not_know() -> None:
    class Special(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.bessel_j0(x)

    with pytest.raises(ModelError, match="Special: cannot be imported from torch.*bessel"):
        load(Special(), example_inputs=torch.zeros(3))
