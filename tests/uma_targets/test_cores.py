"""Networks on meshes of cores: as torch computes them up to float16, bit for bit as interpreted, saved and loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import archloom
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.search import search
from archloom.mapper.spatial.products.convolution import MOST_PLACES
from archloom.mapper.workload import Epilogue, gemm
from archloom.oracle.errors import MappingError, TargetError
from archloom.tvm_backend.artifact import workload_json
from archloom.tvm_backend.host.conversions import conversions
from archloom.uma_targets.cores.target import Wormhole
from tests.support.examples import slow

SMALL: Mapping[str, Mapping[str, Any]] = {
    "wormhole": {"rows": 2, "columns": 2}, "mesh": {"x": 2, "y": 1}, "triple_ring": {"columns": 2, "rows": 2},
}
"""Targets with few cores."""
TOLERANCE = 3e-3
"""Part of the largest magnitude: float16 has 11 bits."""


def close(found: Any, expected: torch.Tensor) -> None:
    reference = expected.detach().numpy()
    assert np.abs(found - reference).max() <= TOLERANCE * np.abs(reference).max()
    np.testing.assert_array_equal(found.argmax(-1), reference.argmax(-1))


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(48, 70), nn.ReLU(), nn.Linear(70, 40), nn.ReLU(), nn.Linear(40, 10)).eval()


def convolutions() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 24, 1), nn.ReLU6(),
        nn.Conv2d(24, 24, 3, stride=2, groups=2), nn.ReLU(), nn.Flatten(), nn.Linear(24 * 49, 10)).eval()


class Products(nn.Module):
    """Batches of products, as they are and with either side transposed, and with constants first."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.matrix = nn.Parameter(torch.randn(9, 20))

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (a @ b.transpose(1, 2), a.transpose(1, 2) @ b, torch.relu(a.transpose(1, 2) @ torch.ones(20, 7)),
                self.matrix @ a)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["mesh", slow("triple_ring")])
def test_layers_stay_in_tiles_between_each_other(target: str) -> None:
    network, x = mlp(), torch.randn(5, 48)
    compiled = archloom.compile(network, target, SMALL[target], example_inputs=x)
    close(compiled(x), network(x))
    (region,) = compiled.compiled.regions
    assert [step.op for step in region.steps] == ["dense+bias+relu", "dense+bias+relu+dense+bias"]
    assert all(value.layout.name == "tiles" for value in region.values) and not any(step.views for step in region.steps)
    assert region.steps[0].constants["B"].shape == (1, 2, 3, 32, 32)
    assert {name: array.shape for name, array in region.steps[1].constants.items()} == {
        "W1": (3, 2, 32, 32), "W2": (2, 1, 32, 32), "bias1": (2, 32), "bias2": (1, 32)}
    assert compiled.report.cycles > 0 and compiled.report.offloaded_macs_share == 1


@pytest.mark.slow
def test_convolutions_gather_their_windows(tmp_path: Path) -> None:
    network, x = convolutions(), torch.randn(2, 3, 16, 16)
    compiled = archloom.compile(network, "mesh", SMALL["mesh"], example_inputs=x)
    found = compiled(x)
    close(found, network(x))
    assert [layer.op for layer in compiled.report.accelerator_layers] == [
        "conv2d+bias+relu", "conv2d+bias+relu6", "conv2d+bias+relu", "dense+bias"]
    (images,) = compiled.compiled.regions
    assert [value.layout.name for value in images.values] == [
        "tile-grid", "tile-grid", "tile-grid", "tile-places", "tiles"]
    assert [value.layout.numbers for value in images.values[:3]] == [(17, 17, 1)] * 3
    assert [op.op for op in conversions(compiled.compiled)] == [
        "to_windows", "retile", "retile", "from_tiles"]
    for step in compiled.compiled.steps():
        assert workload_json.from_json(workload_json.to_json(step.workload)) == step.workload
    compiled.save(tmp_path / "net")
    again = archloom.load_compiled(tmp_path / "net")
    np.testing.assert_array_equal(again(x), found)
    (interpreted,) = again.run({again.compiled.inputs[0].name: x}, executor="interpreter").values()
    np.testing.assert_array_equal(interpreted, found)


@pytest.mark.slow
def test_convolutions_that_read_the_same_image_lay_it_out_for_themselves() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.wide, self.point = nn.Conv2d(5, 6, 3, padding=1), nn.Conv2d(5, 7, 1)
            self.last = nn.Conv2d(6, 4, 5, stride=2)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = torch.relu(self.wide(x))
            return y, self.point(x), self.last(y)

    network, x = Branches().eval(), torch.randn(1, 5, 9, 9)
    compiled = archloom.compile(network, "mesh", {"x": 1, "y": 1}, example_inputs=x)
    assert len(compiled.compiled.regions) == 1
    for found, expected in zip(compiled(x), network(x), strict=True):
        assert np.abs(found - expected.detach().numpy()).max() < TOLERANCE * float(expected.detach().abs().max())


@pytest.mark.slow
def test_products_with_either_side_transposed() -> None:
    network = Products().eval()
    a, b = torch.randn(3, 20, 40), torch.randn(3, 20, 40)
    compiled = archloom.compile(network, "wormhole", {"rows": 1, "columns": 1}, example_inputs=(a, b))
    for found, expected in zip(compiled(a, b), network(a, b), strict=True):
        assert np.abs(found - expected.detach().numpy()).max() < TOLERANCE * float(expected.detach().abs().max())
    assert not [op for op in compiled.report.host if op.op == "matmul"]
    transposed = [step.workload.transposed for step in compiled.compiled.steps()]
    assert (False, True) in transposed and (True, False) in transposed


class Transformer(nn.Module):
    """A layer of a transformer: projections, attention, what follows it."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.causal = causal
        self.query, self.key, self.value, self.out = (nn.Linear(64, 64) for _ in range(4))
        self.up, self.down, self.norm = nn.Linear(64, 96), nn.Linear(96, 64), nn.LayerNorm(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def heads(y: torch.Tensor) -> torch.Tensor:
            return y.view(*x.shape[:2], 2, 32).transpose(1, 2)

        mixed = F.scaled_dot_product_attention(
            heads(self.query(x)), heads(self.key(x)), heads(self.value(x)), is_causal=self.causal)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm(x))))


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [torch.float32, torch.float16], ids=["float32", "float16"])
def test_attention_is_one_layer(numbers: torch.dtype) -> None:
    network, x = Transformer(causal=numbers == torch.float32).eval(), torch.randn(2, 40, 64)
    expected = network(x).detach().numpy()
    compiled = archloom.compile(network.to(numbers), "mesh", {"x": 2, "y": 1}, example_inputs=x.to(numbers))
    found = compiled(x.to(numbers))
    assert isinstance(found, np.ndarray) and str(found.dtype) == str(numbers).removeprefix("torch.")
    assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()
    layers = [layer.op for layer in compiled.report.accelerator_layers]
    if numbers == torch.float32:
        assert layers.count("attention+causal") == 1 and layers[-1] == "dense+bias+gelu+dense+bias+residual"
        (attention,) = [s for s in compiled.compiled.steps() if s.workload.kind == "attention"]
        assert workload_json.from_json(workload_json.to_json(attention.workload)) == attention.workload
    assert compiled.report.offloaded_macs_share == 1
    assert len(compiled.compiled.regions) == 1 and not compiled.report.host


class Masked(nn.Module):
    """Attention with a mask that is an input, between projections; ``shown``: the keys of each head are a result, too.
    """

    def __init__(self, shown: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.shown = shown
        self.query, self.key, self.value, self.out = (nn.Linear(64, 64) for _ in range(4))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        query, key, value = (layer(x).view(*x.shape[:2], 2, 32).transpose(1, 2)
                             for layer in (self.query, self.key, self.value))
        mixed = F.scaled_dot_product_attention(query, key, value, mask)
        result = self.out(mixed.transpose(1, 2).reshape(x.shape))
        return (result, key) if self.shown else result


@pytest.mark.slow
def test_heads_are_put_apart_within_a_region() -> None:
    network, x, mask = Masked().eval(), torch.randn(2, 40, 64), torch.randn(1, 1, 40, 40)
    compiled = archloom.compile(network, "mesh", {"x": 2, "y": 1}, example_inputs=(x, mask))
    (region,) = compiled.compiled.regions
    assert [step.op for step in region.steps][:4] == ["dense+bias"] * 3 + ["batch_matmul"]  # the scale is in weights
    scores, mixed = (step for step in region.steps if step.op == "batch_matmul")
    assert scores.workload.transposed == (False, True)
    assert [(scores.views[a].shape, scores.views[a].layout.name) for a in "AB"] == [((2, 40, 2, 32), "tile-heads")] * 2
    assert mixed.shape == (2, 2, 40, 32) and region.value(mixed.output).shape == (2, 40, 2, 32)
    assert not [op for op in compiled.report.host if op.op in ("permute_dims", "reshape")]
    checked = archloom.check(network, "mesh", {"x": 2, "y": 1}, example_inputs=(x, mask))
    assert checked.passed and all(layer.bit_exact and (layer.snr_db or 60) > 50 for layer in checked.layers)


@pytest.mark.slow
def test_heads_that_are_a_result_are_put_apart_by_the_host() -> None:
    network, x, mask = Masked(shown=True).eval(), torch.randn(1, 9, 64), torch.randn(1, 1, 9, 9)
    compiled = archloom.compile(network, "mesh", {"x": 1, "y": 1}, example_inputs=(x, mask))
    assert "permute_dims" in [op.op for op in compiled.report.host]
    for found, expected in zip(compiled(x, mask), network(x, mask), strict=True):
        assert np.abs(found - expected.detach().numpy()).max() < TOLERANCE * float(expected.detach().abs().max())


@pytest.mark.slow
def test_queries_of_one_region_are_read_by_another_under_another_shape() -> None:
    class Cross(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.query, self.key, self.norm = nn.Linear(16, 16), nn.Linear(16, 16), nn.LayerNorm(16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            query, key = (y.view(2, 9, 2, 8).transpose(1, 2) for y in (self.query(x), self.norm(self.key(x))))
            return F.scaled_dot_product_attention(query, key, key)

    network, x = Cross().eval(), torch.randn(2, 9, 16)
    found = archloom.compile(network, "mesh", {"x": 1, "y": 1}, example_inputs=x)(x)
    expected = network(x).detach().numpy()
    assert isinstance(found, np.ndarray) and np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()


@pytest.mark.slow
def test_attention_with_other_masks_is_two_products() -> None:
    class Biased(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(x, x, x, mask)

    x, mask = torch.randn(1, 2, 9, 8), torch.randn(1, 1, 9, 9)
    compiled = archloom.compile(Biased(), "mesh", {"x": 1, "y": 1}, example_inputs=(x, mask))
    layers = [layer.op for layer in compiled.report.accelerator_layers]
    assert layers.count("batch_matmul") == 2 and layers.count("softmax") == 1
    found, expected = compiled(x, mask), Biased()(x, mask).numpy()
    assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()


class FeedForward(nn.Module):
    """Two products with GELU between and a sum behind; ``shown``: what is between is a result, too."""

    def __init__(self, shown: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.shown, self.up, self.down = shown, nn.Linear(256, 500), nn.Linear(500, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        hidden = F.gelu(self.up(x))
        result = x + self.down(hidden)
        return (result, hidden) if self.shown else result


@pytest.mark.slow
def test_two_products_are_one_layer_where_that_is_faster(tmp_path: Path) -> None:
    network, x = FeedForward().eval(), torch.randn(2, 30, 256)
    compiled = archloom.compile(network, "mesh", {"x": 2, "y": 2}, example_inputs=x)
    found = compiled(x)
    close(found, network(x))
    (step,) = compiled.compiled.steps()
    (layer,) = compiled.report.accelerator_layers
    assert layer.op == "dense+bias+gelu+dense+bias+residual" and layer.macs == 2 * 60 * 256 * 500
    weighed = re.fullmatch(r"one layer of ([\d,]+) cycles; as two \((.*) and (.*)\) it would take ([\d,]+)", layer.note)
    assert weighed is not None and (weighed[2], weighed[3]) == ("dense+bias+gelu", "dense+bias+residual")
    assert layer.cycles == int(weighed[1].replace(",", "")) < int(weighed[4].replace(",", ""))
    assert "chain" in layer.mapping and workload_json.from_json(workload_json.to_json(step.workload)) == step.workload
    assert TileMapping.from_json((mapping := compiled.compiled.plans[step.name].mapping).to_json()) == mapping
    explained = archloom.coverage(network, "mesh", {"x": 2, "y": 2}, example_inputs=x)
    assert [op.choice for op in explained.operators] == [layer.note] and f": {layer.note}" in str(explained)
    compiled.save(tmp_path / "net")
    again = archloom.load_compiled(tmp_path / "net")
    np.testing.assert_array_equal(again(x), found)
    assert again.report.accelerator_layers[0].note == layer.note
    (interpreted,) = again.run({again.compiled.inputs[0].name: x}, executor="interpreter").values()
    np.testing.assert_array_equal(interpreted, found)


@pytest.mark.slow
def test_products_of_rows_meet_what_follows_them_under_another_shape() -> None:
    class Rows(nn.Module):
        """As GPT-2's linear layers are: of all rows of a batch."""

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layers = FeedForward()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = F.gelu(self.layers.up(x.view(-1, 256)).view(*x.shape[:2], 500))
            return x + self.layers.down(hidden.view(-1, 500)).view(x.shape)

    network, x = Rows().eval(), torch.randn(2, 30, 256)
    compiled = archloom.compile(network, "mesh", {"x": 2, "y": 2}, example_inputs=x)
    assert [layer.op for layer in compiled.report.accelerator_layers] == ["dense+bias+gelu+dense+bias+residual"]
    close(compiled(x), network(x))


@pytest.mark.slow
@pytest.mark.parametrize(("l1_bytes", "why"), [
    slow(320_000, r"as one they do not fit, .* needs 30 tiles of operands in a core, which holds 12"),
    (360_000, r"as one they would take [\d,]+")], ids=["does not fit", "slower"])
def test_two_products_are_two_layers_where_one_is_not_faster(l1_bytes: int, why: str) -> None:
    network, x = FeedForward().eval(), torch.randn(2, 30, 256)
    options = {"x": 2, "y": 2, "l1_bytes": l1_bytes}
    compiled = archloom.compile(network, "mesh", options, example_inputs=x)
    first, second = compiled.report.accelerator_layers
    assert (first.op, second.op) == ("dense+bias+gelu", "dense+bias+residual") and first.note is None
    weighed = re.fullmatch(rf"two layers \(.* and .*\) of ([\d,]+) cycles[;:] {why}", second.note)
    assert weighed is not None and int(weighed[1].replace(",", "")) == compiled.report.accelerator_cycles
    close(compiled(x), network(x))


@pytest.mark.slow
def test_what_is_read_elsewhere_is_kept_between_two_products() -> None:
    network, x = FeedForward(shown=True).eval(), torch.randn(2, 30, 256)
    compiled = archloom.compile(network, "mesh", {"x": 2, "y": 2}, example_inputs=x)
    layers = compiled.report.accelerator_layers
    assert [(layer.op, layer.note) for layer in layers] == [("dense+bias+gelu", None), ("dense+bias+residual", None)]
    for found, expected in zip(compiled(x), network(x), strict=True):
        assert np.abs(found - expected.detach().numpy()).max() < TOLERANCE * float(expected.detach().abs().max())


@pytest.mark.slow
def test_two_products_of_which_the_second_adds_the_first_are_two_layers() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.up, self.down = nn.Linear(32, 32), nn.Linear(32, 32)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.up(x)
            return self.down(y) + y

    network, x = Twice().eval(), torch.randn(2, 30, 32)
    compiled = archloom.compile(network, "mesh", {"x": 1, "y": 1}, example_inputs=x)
    assert [layer.op for layer in compiled.report.accelerator_layers] == ["dense+bias", "dense+bias+residual"]
    close(compiled(x), network(x))


@pytest.mark.slow
def test_check_compares_layers_with_the_interpreter() -> None:
    result = archloom.check(mlp(), "wormhole", SMALL["wormhole"], example_inputs=torch.randn(5, 48))
    assert result.passed and len(result.layers) == 2 and all(layer.bit_exact for layer in result.layers)


def test_workloads_in_tiles() -> None:
    work = gemm(40, 50, 70, batch=2, epilogue=Epilogue(True, 1.0, True, "float16"), shared_b=False, dtype="float16",
                tile=32, transposed=(False, True))
    assert [t.shape for t in work.inputs] == [(2, 2, 3, 32, 32), (2, 2, 3, 32, 32), (1, 2, 32)]
    assert work.macs == 2 * 40 * 50 * 70 and work.transposed == (False, True) and work.tile == 32
    assert workload_json.from_json(workload_json.to_json(work)) == work
    plan = search(work, Wormhole.kit.accelerator, {"rows": 1, "columns": 2})
    assert TileMapping.from_json(plan.mapping.to_json()) == plan.mapping and "parts" in str(plan.mapping)
    assert [t.shape for t in (*plan.stream.arguments, *plan.stream.results)] == [
        t.shape for t in (*work.inputs, work.output)]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(TargetError, match="rows.*from 1 to 16"):
        Wormhole.kit.accelerator.configure({"rows": 17})
    plain = gemm(4, 4, 4, epilogue=Epilogue(False, 1.0, False, "float32"), dtype="float32")
    with pytest.raises(MappingError, match="expected a product in tiles of 32 x 32"):
        search(plain, Wormhole.kit.accelerator)


def test_filters_of_too_many_places_are_products() -> None:
    """Their programs would have no end; the network goes on."""
    net = nn.Sequential(nn.Conv2d(1, 2, (MOST_PLACES // 32 + 1, 32)), nn.Conv2d(2, 2, 1))
    made = archloom.load(net, [torch.randn(1, 1, 34, 33)])
    report = archloom.estimate(made, "mesh", {"x": 2, "y": 2}, quiet=True)
    assert report.offloaded_macs_share == 1
    assert not any(layer.op.startswith("conv2d") for layer in report.accelerator_layers[:1])
