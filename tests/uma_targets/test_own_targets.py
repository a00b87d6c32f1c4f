"""The machines of ``examples/targets``: short, and right on products and convolutions of any form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import archloom
from archloom.tvm_backend.quantization.quantize import quantize
from archloom.tvm_backend.quantization.scheme import Scheme
from benchmarks.networks.own_targets import FOLDER, LAYERS, lines_of, over_bound
from tests.support.examples import every
from tests.support.tvm_backend.networks import Net, samples

pytestmark = pytest.mark.usefixtures("clean_registry")

MACHINES = sorted(FOLDER.glob("*.py"))
BOTH = Scheme(per_channel=True, symmetric=False)
FORMS: list[dict[str, Any]] = [
    {"pads": [1] * 4}, {"pads": [0, 2, 1, 3], "strides": [2, 1]}, {"pads": [2] * 4, "dilations": [2, 2]},
    {"pads": [1] * 4, "group": 6, "o": 6, "strides": [2, 2]}, {"group": 2}, {"k": 1, "bias": False}, {"pads": [3] * 4},
]


@pytest.mark.parametrize("path", MACHINES, ids=lambda p: p.stem)
def test_a_machine_is_short_and_near_its_peak(path: Path) -> None:
    assert lines_of(path) <= 350
    assert 1 <= over_bound(path) <= 1.25 and len(LAYERS) == 2


@pytest.mark.first_case
@pytest.mark.parametrize("path", MACHINES, ids=lambda p: p.stem)
@pytest.mark.parametrize("form", every(2, FORMS), ids=str)
def test_convolutions_of_any_form(path: Path, form: dict[str, Any]) -> None:
    """With zero points, and scales by channel but where those of one group differ; small options make several
    blocks."""
    attributes, net = dict(form), Net(5)
    scheme = Scheme(per_channel=form.get("group") != 2, symmetric=False)
    x = net.input("x", 2, 6, 7, 5)
    y = net.conv(x, "conv", 6, attributes.pop("o", 10), attributes.pop("k", 3), **attributes)
    y = net.node("Relu", [y], "relu")
    floats = net.model(y)
    model = quantize(floats, samples(floats, 3), scheme)
    small = {"blocks": {"dim": 4, "image_rows": 64, "sum_rows": 16}}.get(path.stem, {"lanes": 4})
    result = archloom.check(model, target=str(path), options=small, inputs=samples(floats, 1, seed=5)[0])
    assert result.passed and all(layer.bit_exact for layer in result.layers) and len(result.layers) == 1
    assert "int32" not in result.layers[0].op


@pytest.mark.parametrize("path", MACHINES, ids=lambda p: p.stem)
def test_products_of_two_activations_have_zero_points_of_their_own(path: Path) -> None:
    net = Net(6)
    a, b = net.input("a", 2, 3, 5, 16), net.input("b", 2, 3, 16, 7)
    floats = net.model(net.node("MatMul", [net.node("MatMul", [a, b], "scores"), net.weight("w", 7, 9)], "project"))
    model = quantize(floats, samples(floats, 4), BOTH)
    result = archloom.check(model, target=str(path), inputs=samples(floats, 1, seed=5)[0])
    assert result.passed and len(result.layers) == 2
