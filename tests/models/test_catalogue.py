"""Networks by name: sizes, faults, and each network imported and equal to torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from archloom.mapper import disk
from archloom.models import catalogue, zoo
from archloom.oracle.errors import InputError
from archloom.tvm_backend.compile import partition_model
from archloom.tvm_backend.host.network import jitted
from archloom.tvm_backend.sources import named_networks
from archloom.tvm_backend.sources.named_networks import is_named, load_named
from archloom.tvm_backend.targets import registry
from tests.support.examples import often

QUICK = ("gpt2_decode",)
"""With a cache of keys and values."""


@pytest.mark.parametrize("name", often(catalogue.BY_NAME, QUICK))
def test_imported_network_equals_torch(name: str) -> None:
    built = catalogue.build(catalogue.tiny(name))
    with torch.no_grad():
        results = built.module(*built.inputs.values())
    model = load_named(catalogue.tiny(name), "float32")
    found = jitted(model.module["main"])([x.numpy() for x in built.inputs.values()])
    expected = results if isinstance(results, tuple) else (results,)
    assert [spec.name for spec in model.inputs] == list(built.inputs)
    for y, reference in zip(found, expected, strict=True):
        largest = float(reference.abs().max())
        assert largest > 0.01
        np.testing.assert_allclose(np.asarray(y), reference.numpy(), rtol=0, atol=1e-5 * largest)


def test_weights_and_inputs_depend_on_the_seed_alone() -> None:
    a, b, c = (catalogue.build("lstm_keywords(frames=2,hidden=4)", seed) for seed in (0, 0, 1))
    assert all(torch.equal(x, y) for x, y in zip(a.module.parameters(), b.module.parameters(), strict=True))
    assert torch.equal(a.inputs["audio"], b.inputs["audio"])
    assert not torch.equal(next(a.module.parameters()), next(c.module.parameters()))


def test_sizes_are_read_and_written() -> None:
    network, sizes = catalogue.parse(" vgg16 ( image = 64 , classes=10 ) ")
    assert (sizes["image"], sizes["classes"], sizes["width"]) == (64, 10, 64)
    assert catalogue.spelled(network, sizes) == "vgg16(image=64,classes=10)"
    assert catalogue.parse("vgg16")[1]["image"] == 224
    assert not catalogue.is_spelled("vgg16.onnx") and not catalogue.is_spelled("gemm(m=4,n=4,k=4)")


@pytest.mark.parametrize(("text", "message"), [
    ("vgg", "unknown network 'vgg'.*did you mean 'vgg1"),
    ("vgg16(images=4)", "network:1:7: unknown parameter 'images' of vgg16; did you mean 'image'"),
    ("vgg16(image=x)", "network:1:13: expected an integer for 'image', found 'x'"),
    ("vgg16(image=4,image=4)", "'image' is given twice"),
    ("vgg16(image=0)", "image must be an integer from 1 to 1048576, found 0"),
    ("vgg16)(", r"expected '\(', found '\)'"),
])
def test_faults_of_a_name(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        catalogue.parse(text)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gemmini", "qkv"])
@pytest.mark.parametrize("name", zoo.names())
def test_light_networks_are_offloaded(name: str, target: str) -> None:
    model = load_named(name, registry.get(target).numbers)
    assert partition_model(model, target).offloaded_macs_share >= 0.99


def test_light_networks_have_names() -> None:
    assert is_named("light_squeezenet") and not is_named("light_unknown") and not is_named("squeezenet.onnx")


def test_every_tiny_form_is_valid() -> None:
    for name in catalogue.BY_NAME:
        assert catalogue.parse(catalogue.tiny(name))[0].name == name


@pytest.mark.slow
def test_quantized_networks_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk.ENVIRONMENT, str(tmp_path))
    first = load_named(" lstm_keywords( frames=2, hidden=4)", "int8")
    monkeypatch.setattr(named_networks, "_quantized", lambda text: pytest.fail(f"{text} is made again"))
    again = load_named("lstm_keywords(hidden=4,frames=2)", "int8", "mine")
    assert (first.name, again.name) == ("lstm_keywords(frames=2,hidden=4)", "mine")
    for kept, proto in ((again.onnx, first.onnx), (again.floats, first.floats)):
        assert kept is not None and proto is not None
        assert kept.SerializeToString() == proto.SerializeToString()
    disk.clear("floats")  # half of it is not enough, and what is too large is not kept
    calls: list[str] = []
    monkeypatch.setattr(named_networks, "_quantized", lambda text: calls.append(text) or (first.onnx, first.floats))
    monkeypatch.setattr(named_networks, "KEPT_BYTES", 0)
    for _ in range(2):
        load_named("lstm_keywords(frames=2,hidden=4)", "int8")
    assert len(calls) == 2
