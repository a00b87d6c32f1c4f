"""Small ONNX networks for tests, float and quantized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from archloom import load
from archloom.mapper.options import OptionValue
from archloom.tvm_backend.compiled import CompiledModel, Partition
from archloom.tvm_backend.executable import CompiledNetwork
from archloom.tvm_backend.model import Model
from archloom.tvm_backend.quantization.quantize import quantize
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.targets.backend import UMABackend
from archloom.tvm_backend.targets.choice import Chosen
from archloom.tvm_backend.targets.lower import lower_host, lower_regions
from archloom.tvm_backend.targets.partition import Partitioned, partition


class Net:
    """Builds an ONNX network node by node; weights are drawn from a seeded generator."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.constants: list[onnx.TensorProto] = []

    def input(self, name: str, *shape: int | str, dtype: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def weight(self, name: str, *shape: int, gain: float = 1.0) -> str:
        fan = int(np.prod(shape[1:])) if len(shape) == 4 else shape[0]
        return self.constant(name, self.rng.standard_normal(shape) * gain * np.sqrt(2 / max(fan, 1)))

    def constant(self, name: str, value: Any, dtype: type = np.float32) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def node(self, op: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [f"{name}.out"], name, **attributes))
        return f"{name}.out"

    def conv(self, x: str, name: str, c: int, o: int, k: int = 3, *, bias: bool = True, **attributes: Any) -> str:
        inputs = [x, self.weight(f"{name}.w", o, c // attributes.get("group", 1), k, k)]
        if bias:
            inputs.append(self.constant(f"{name}.b", self.rng.standard_normal(o) * 0.1))
        return self.node("Conv", inputs, name, kernel_shape=[k, k], **attributes)

    def dense(self, x: str, name: str, k: int, n: int) -> str:
        inputs = [x, self.weight(f"{name}.w", n, k), self.constant(f"{name}.b", self.rng.standard_normal(n) * 0.1)]
        return self.node("Gemm", inputs, name, transB=1)

    def model(self, *outputs: str, opset: int = 17, domain: str = "") -> onnx.ModelProto:
        results = [helper.make_empty_tensor_value_info(o) for o in outputs]
        graph = helper.make_graph(self.nodes, "net", self.inputs, results, self.constants)
        imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
        model = helper.make_model(graph, opset_imports=imports, ir_version=8)
        model = onnx.shape_inference.infer_shapes(model)
        for result in model.graph.output:  # of an operator that onnx does not know
            if not result.type.WhichOneof("value"):
                result.type.tensor_type.elem_type = TensorProto.FLOAT
                result.type.tensor_type.shape.SetInParent()
        return model


def residual_cnn(size: int = 12) -> onnx.ModelProto:
    """Convolutions, ReLU, max-pool, a residual addition, global average and a dense layer: 3 x size x size to 10."""
    net = Net()
    x = net.input("image", 1, 3, size, size)
    x = net.node("Relu", [net.conv(x, "stem", 3, 16, pads=[1, 1, 1, 1])], "stem_relu")
    x = net.node("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    a = net.node("Relu", [net.conv(x, "a", 16, 24, pads=[1, 1, 1, 1])], "a_relu")
    a = net.conv(a, "b", 24, 16, 1)
    x = net.node("Relu", [net.node("Add", [a, x], "add")], "add_relu")
    x = net.node("Flatten", [net.node("GlobalAveragePool", [x], "average")], "flatten")
    return net.model(net.dense(x, "logits", 16, 10))


ROWS, WIDTH, BARRED = 6, 8, -3e38


def attention() -> onnx.ModelProto:
    """A layer of biased products, attention whose mask bars the last position, and a residual sum; no batch of rows."""
    net = Net()
    x = net.input("x", 1, ROWS, WIDTH)

    def dense(source: str, name: str) -> str:
        product = net.node("MatMul", [source, net.weight(f"{name}.w", WIDTH, WIDTH)], name)
        return net.node("Add", [product, net.constant(f"{name}.b", net.rng.standard_normal(WIDTH))], f"{name}.biased")

    q, k, v = (dense(x, name) for name in "qkv")
    scores = net.node("MatMul", [q, net.node("Transpose", [k], "kt", perm=[0, 2, 1])], "scores")
    mask = net.constant("mask", np.where(np.arange(ROWS) == ROWS - 1, BARRED, 0.0)[None, None])
    weights = net.node("Softmax", [net.node("Add", [scores, mask], "masked")], "weights", axis=-1)
    y = net.node("Add", [x, dense(net.node("MatMul", [weights, v], "mixed"), "out")], "sum")
    scale, shift = net.constant("g", np.ones(WIDTH)), net.constant("h", np.zeros(WIDTH))
    return net.model(net.node("LayerNormalization", [y, scale, shift], "norm"))


def samples(model: onnx.ModelProto, count: int = 4, seed: int = 1) -> list[dict[str, np.ndarray]]:
    """Standard normal inputs."""
    rng = np.random.default_rng(seed)
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    return [{k: rng.standard_normal(s).astype(np.float32) for k, s in shapes.items()} for _ in range(count)]


def quantized(model: onnx.ModelProto) -> onnx.ModelProto:
    return quantize(model, samples(model))


def only(backend: UMABackend, options: Mapping[str, OptionValue] | None = None) -> tuple[Chosen, ...]:
    """One target with these options and no others."""
    return (Chosen(backend, dict(options or {})),)


def split(
    source: onnx.ModelProto | Model, backend: UMABackend | None = None
) -> tuple[Partition, Partitioned, Model]:
    """Partition a network for a target (Gemmini), without mapping it."""
    model = source if isinstance(source, Model) else load(source)
    target = backend or registry.get("gemmini")
    chosen = only(target)
    found = partition(model.module, chosen)
    part = Partition(
        model.name, model.source, target.target_name, {}, model.inputs, model.outputs, lower_regions(found, chosen),
        lower_host(found, model, chosen),
    )
    return part, found, model


def executable(source: onnx.ModelProto | Model, backend: UMABackend | None = None) -> CompiledNetwork:
    """A network that can run on an executor that needs no plans."""
    return CompiledNetwork(CompiledModel.of(split(source, backend)[0], {}))
