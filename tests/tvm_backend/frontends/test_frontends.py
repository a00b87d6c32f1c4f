"""Importing networks: what is read, and how faults of the input are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from archloom import load
from archloom.oracle.errors import InputError, ModelError
from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.ir import compat
from tests.support.tvm_backend.networks import Net, executable, residual_cnn, samples


def saved(tmp_path: Path, model: onnx.ModelProto) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    return path


def test_path_and_proto_give_the_same_network(tmp_path: Path) -> None:
    model = residual_cnn()
    from_file, from_proto = load(saved(tmp_path, model)), load(model)
    assert (from_file.name, from_proto.name) == ("net", "net")
    assert from_file.inputs == from_proto.inputs and from_file.source == "onnx"
    assert [(s.name, s.shape, s.dtype) for s in from_file.inputs] == [("image", (1, 3, 12, 12), "float32")]
    assert [(s.name, s.shape) for s in from_file.outputs] == [("logits.out", (1, 10))]
    assert compat.to_json(from_file.module) == compat.to_json(from_proto.module)


def test_float_network_runs_on_the_host_alone() -> None:
    model = residual_cnn()
    x = samples(model, 1)[0]
    expected = run(integer_session(model), x)["logits.out"]
    np.testing.assert_allclose(executable(model)(x), expected, rtol=1e-4, atol=1e-5)


def test_operators_carry_the_names_of_their_nodes() -> None:
    names = {b.var.name: compat.op_name(b.value) for b in compat.bindings(load(residual_cnn()).module["main"])}
    assert names["stem"] == "nn.conv2d" and names["logits"] == "matmul" and names["add"] == "add"


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nowhere.onnx: no such file"):
        load(tmp_path / "nowhere.onnx")


def test_directory(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="expected an ONNX file, found a directory"):
        load(tmp_path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_truncated_file(tmp_path: Path, share: float) -> None:
    path = saved(tmp_path, residual_cnn())
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ModelError, match=r"net\.onnx"):
        load(path)


@pytest.mark.parametrize("seed", range(8))
def test_random_bytes(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(np.random.default_rng(seed).bytes(64 << seed))
    with pytest.raises(ModelError, match=r"net\.onnx"):
        load(path)


@pytest.mark.first_case
@pytest.mark.parametrize("seed", range(24))
def test_flipped_bytes_never_end_the_process(tmp_path: Path, seed: int) -> None:
    """A damaged file is refused or imported (a weight may have changed); nothing else happens."""
    path = saved(tmp_path, residual_cnn())
    data = bytearray(path.read_bytes())
    rng = np.random.default_rng(seed)
    for position in rng.integers(0, len(data), 6):
        data[position] = rng.integers(0, 256)
    path.write_bytes(bytes(data))
    try:
        load(path)
    except ModelError as error:
        assert "net.onnx" in str(error)


def test_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"")
    with pytest.raises(ModelError, match=r"net\.onnx: expected an ONNX network, found no graph"):
        load(path)


def test_unsupported_operator_is_named_with_its_node() -> None:
    net = Net()
    x = net.node("Conv", [net.input("x", 1, 3, 4, 4), net.weight("w", 4, 3, 1, 1)], "conv")
    net.nodes.append(helper.make_node("Wobble", [x], ["y"], "wobbly", domain="com.example"))
    model = net.model("y", domain="com.example")
    with pytest.raises(ModelError, match="node 'wobbly': operator 'Wobble' of domain 'com.example' is not supported"):
        load(model, name="wobble.onnx")


def test_operator_form_of_quantization_names_the_way_out() -> None:
    net = Net()
    net.input("x", 1, 3, 4, 4)
    net.nodes.append(helper.make_node("QLinearRelu", ["x"], ["y"], "q", domain="com.microsoft"))
    model = net.model("y", domain="com.microsoft")
    with pytest.raises(ModelError, match="QDQ form"):
        load(model)


def dynamic() -> onnx.ModelProto:
    net = Net()
    return net.model(net.conv(net.input("image", "batch", 3, "height", 8), "conv", 3, 4))


def test_dynamic_shapes_name_the_dimensions_and_the_flag() -> None:
    message = "'image' is batchx3xheightx8 with open dimensions batch, height.*--input-shape image:"
    with pytest.raises(ModelError, match=message):
        load(dynamic())


def test_dynamic_shapes_are_fixed_by_input_shapes() -> None:
    model = load(dynamic(), input_shapes={"image": (2, 3, 6, 8)})
    assert model.inputs[0].shape == (2, 3, 6, 8) and model.outputs[0].shape == (2, 4, 4, 6)
    assert model.onnx is not None
    x = {"image": np.random.default_rng(0).standard_normal((2, 3, 6, 8)).astype(np.float32)}
    assert run(integer_session(model.onnx), x)["conv.out"].shape == (2, 4, 4, 6)


@pytest.mark.parametrize(("shapes", "message"), [
    ({"imgae": (1, 3, 8, 8)}, "no input is named 'imgae'; did you mean 'image'"),
    ({"image": (1, 3, 8)}, "expected 4 dimensions, found 3"),
    ({"image": (1, 4, 8, 8)}, "dimension 1 is 3 in the network, found 4"),
    ({"image": (0, 3, 8, 8)}, "expected positive integers"),
])
def test_wrong_input_shapes(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(dynamic(), input_shapes=shapes)


def test_shapes_that_do_not_fit_are_refused() -> None:
    net = Net()
    x = net.input("x", 1, 3, 8, 8)
    net.nodes.append(helper.make_node("Conv", [x, net.weight("w", 4, 5, 3, 3)], ["y"], "conv"))
    graph = helper.make_graph(net.nodes, "g", net.inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              net.constants)
    with pytest.raises(ModelError, match="bad.onnx"):
        load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), name="bad.onnx")


def test_data_dependent_shapes_are_refused() -> None:
    net = Net()
    y = net.node("NonZero", [net.input("x", 3, 4)], "positions")
    with pytest.raises(ModelError, match="static shapes"):
        load(net.model(y))


def test_something_else_is_refused() -> None:
    with pytest.raises(ModelError, match=r"expected a network, found dict; what can be loaded: "):
        load({})


def test_relax_module_as_it_is() -> None:
    first = load(residual_cnn())
    again = load(first.module, name="again")
    assert again.source == "relax" and again.onnx is None
    assert [s.shape for s in again.inputs] == [s.shape for s in first.inputs]


def test_constants_are_folded_but_dequantize_is_not() -> None:
    net = Net()
    x = net.input("x", 2, 6)
    shape = net.constant("shape", [3, 2], np.int64)
    w = net.node("Transpose", [net.node("Reshape", [net.weight("w", 6), shape], "r")], "t")
    y = net.node("MatMul", [net.node("MatMul", [x, net.weight("v", 6, 2)], "m"), w], "n")
    module = load(net.model(y)).module
    assert [compat.op_name(b.value) for b in compat.bindings(module["main"])].count("matmul") == 2
    assert not {"reshape", "permute_dims"} & {compat.op_name(b.value) for b in compat.bindings(module["main"])}


@pytest.mark.parametrize(("mode", "stride", "size"), [
    ("SAME_UPPER", 2, 7), ("SAME_LOWER", 2, 8), ("SAME_UPPER", 3, 10), ("VALID", 2, 7),
])
def test_auto_pad_becomes_padding(mode: str, stride: int, size: int) -> None:
    net = Net()
    y = net.conv(net.input("x", 1, 2, size, size + 1), "conv", 2, 3, 4, auto_pad=mode, strides=[stride, stride])
    model = net.model(y)
    assert "nn.pad" not in {compat.op_name(b.value) for b in compat.bindings(load(model).module["main"])}
    x = samples(model, 1)[0]
    np.testing.assert_allclose(executable(model)(x), run(integer_session(model), x)["conv.out"], rtol=1e-4, atol=1e-5)
