"""The networks: the same function in ONNX and PyTorch, activations in range, digits learned."""

import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from archloom.models import data, digits, zoo
from archloom.models.networks import classic
from archloom.models.networks.layers import Conv
from archloom.oracle.errors import InputError
from examples import digits_onnx, resnet_onnx


def _run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    result: np.ndarray = session.run(None, {session.get_inputs()[0].name: x})[0]
    return result


def _torch_module(net: resnet_onnx.ResNet) -> torch.nn.Module:
    """The same network in torch, with the same weights."""
    values = {name: torch.from_numpy(array) for name, array in resnet_onnx.weights(net).items()}
    module = classic.ResNet(net.blocks, 4, net.width, net.classes)
    state = {"head.weight": values["fc.weight"], "head.bias": values["fc.bias"]}
    for name, conv in zip(
            [n for n, m in module.named_modules() if isinstance(m, Conv)], resnet_onnx.convolutions(net), strict=True):
        state[f"{name}.0.weight"] = values[f"{conv.name}.weight"]
        for key, part in (("weight", "scale"), ("bias", "shift"), ("running_mean", "mean"), ("running_var", "var")):
            state[f"{name}.1.{key}"] = values[f"{conv.name}.{part}"]
    module.load_state_dict(state, strict=False)
    return module.eval()


def test_resnet_is_the_same_in_onnx_and_torch() -> None:
    net = resnet_onnx.tiny()
    x = data.random_images(2, net.image)
    plain = _run(resnet_onnx.onnx_model(net, batch=2, fold_batch_norm=False, centre=False), x)
    folded = _run(resnet_onnx.onnx_model(net, batch="n", centre=False), x)
    with torch.no_grad():
        module = _torch_module(net)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(folded, plain, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(module, plain, rtol=1e-4, atol=1e-4)


def test_resnet50_has_the_published_size() -> None:
    net = resnet_onnx.resnet50()
    convolutions = resnet_onnx.convolutions(net)
    assert len(convolutions) == 53
    parameters = sum(c.inputs * c.outputs * c.kernel**2 + 2 * c.outputs for c in convolutions)
    assert parameters + net.features * net.classes + net.classes == 25_557_032


def test_resnet18_blocks() -> None:
    assert len(resnet_onnx.convolutions(resnet_onnx.resnet18())) == 20
    assert resnet_onnx.resnet18().features == 512


def test_seed_decides_the_weights() -> None:
    first, again, other = (resnet_onnx.weights(resnet_onnx.tiny(), seed)["fc.weight"] for seed in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_centred_logits_tell_images_apart() -> None:
    net = resnet_onnx.tiny()
    logits = _run(resnet_onnx.onnx_model(net, batch=16), data.random_images(16, net.image, seed=3))
    assert 0.2 < logits.std() < 20
    assert len(set(logits.argmax(1))) > 2


def test_digits_split_is_disjoint_and_complete() -> None:
    split = data.digits()
    assert len(split.train_images) + len(split.test_images) == 1797
    assert split.train_images.shape[1:] == (1, 8, 8) and split.train_images.max() == 1
    assert set(split.test_labels) == set(range(10))


def test_digits_without_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(InputError, match=r"pip install 'archloom\[demo\]'"):
        data.digits()


@pytest.mark.slow
def test_digits_network_learns_and_exports() -> None:
    split = data.digits()
    net = digits.train(split, digits.Training(epochs=6))
    assert digits.accuracy(net, split.test_images, split.test_labels) >= 0.97
    with torch.no_grad():
        expected = net(torch.from_numpy(split.test_images[:8])).numpy()
    found = _run(digits_onnx.onnx_model(net, "n"), split.test_images[:8])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_training_leaves_the_global_generator_alone() -> None:
    split = data.digits()
    state = torch.random.get_rng_state()
    digits.train(data.Split(*(part[:64] for part in vars(split).values())), digits.Training(epochs=1))
    assert torch.equal(state, torch.random.get_rng_state())


def test_zoo_names() -> None:
    assert {"light_resnet50", "light_squeezenet", "light_vgg19"} <= set(zoo.names())
    with pytest.raises(ValueError, match="unknown network 'nope'"):
        zoo.load("nope")


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_zoo_networks_have_random_weights_and_finite_outputs(name: str) -> None:
    model = zoo.load(f"light_{name}")
    assert [i.name for i in model.graph.input if "data" in i.name] == [i.name for i in model.graph.input]
    assert not any(node.op_type == "ConstantOfShape" for node in model.graph.node)
    first, second = (_run(model, x[None]) for x in data.random_images(2, 224))
    assert np.isfinite(first).all() and not np.array_equal(first, second)
