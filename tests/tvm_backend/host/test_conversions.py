"""What the host lays out for targets that keep their tensors in tiles: listed, and timed by the host's roofline."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import archloom
from archloom.tvm_backend.compiled import HostPart, Partition, Region, Step, Value, View
from archloom.tvm_backend.host.conversions import conversions
from archloom.tvm_backend.host.profile import load
from archloom.tvm_backend.targets.layouts import BATCH, TILES, layout_of

SMALL = {"x": 1, "y": 1}


@pytest.mark.slow
def test_borders_of_regions_are_timed() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(48, 70), nn.ReLU(), nn.Linear(70, 40)).eval()
    model = archloom.load(network, example_inputs=torch.randn(5, 48))
    plain = archloom.estimate(model, "mesh", SMALL, host="none")
    timed = archloom.estimate(model, "mesh", SMALL, host="epyc-2-cores")
    laid = [layer for layer in timed.layers if layer.op in ("to_tiles", "from_tiles")]
    assert [(layer.op, layer.shape) for layer in laid] == [("to_tiles", (5, 48)), ("from_tiles", (5, 40))]
    host = load("epyc-2-cores")
    assert timed.host_seconds == pytest.approx(sum(host.seconds(layer.op, layer.shape, 0) for layer in laid)) != 0
    assert timed.accelerator_cycles == plain.cycles and plain.host_seconds is None
    assert not [layer for layer in archloom.estimate(model, "qkv").layers if layer.op == "to_tiles"]


def test_only_what_lies_otherwise_is_laid_out_within_a_region() -> None:
    sizes = (1, 4, 4, 8, 8, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    image = Value("x", (1, 8, 4, 4), "float32", layout_of("tile-windows", sizes))
    sums = Value("y", (1, 8, 4, 4), "float32", layout_of("tile-places", sizes))
    read = View(image.shape, "float32", image.layout)
    rows = Value("z", (16, 8), "float32", TILES)

    def step(name: str, source: str, output: str, view: View) -> Step:
        return Step(name, "conv2d", None, (("A", source),), output, (), views={"A": view})  # type: ignore[arg-type]

    def of(*steps: Step) -> list[str]:
        region = Region("r", "mesh", (image, sums, rows), ("x",), ("y",), steps)
        whole = Partition("n", "", "mesh", {}, (), (), (region,), HostPart("", ()))
        return [op.op for op in conversions(whole)]

    assert of(step("a", "x", "y", read)) == ["to_windows", "from_places"]
    assert of(step("a", "x", "y", read), step("b", "y", "z", read)) == [
        "to_windows", "retile", "from_places"]
    batch = View((1, 16, 8), "float32", BATCH)
    assert of(step("a", "x", "y", read), step("b", "z", "z", batch)) == ["to_windows", "from_places"]
    turned = View((2, 8, 8), "float32", BATCH)
    assert of(step("b", "z", "z", turned)) == ["to_windows", "retile", "from_places"]
