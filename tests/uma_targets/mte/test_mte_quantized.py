"""Quantized networks on the vector core alone: products of bytes, and arithmetic around them."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

import archloom
from archloom.mapper.nests import evaluate
from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.compile import partition_model
from archloom.tvm_backend.host.network import whole
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.nests import read_piece
from archloom.tvm_backend.ir.nodes import TensorType, Var
from archloom.tvm_backend.passes.integers import as_integers
from tests.support.examples import examples, randoms, slow

OPTIONS = {"vlen": 1024, "rlen": 256}
MICROSOFT = "com.microsoft"
BYTES = {"int8": np.int8, "uint8": np.uint8}


class Net:
    """A network of quantized operators under construction, with a name and a shape for each tensor of bytes."""

    def __init__(self, r: Random) -> None:
        self.r, self.nodes, self.constants = r, list[Any](), dict[str, np.ndarray]()
        self.rng = np.random.default_rng(r.getrandbits(32))
        self.dtype = r.choice(tuple(BYTES))

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def scaled(self, scale: float) -> list[str]:
        """A scale, and a zero point of the activations' type."""
        zero = self.r.choice((0, self.r.randint(-5, 5) if self.dtype == "int8" else self.r.randint(0, 255)))
        return [self.constant(np.float32(scale)), self.constant(BYTES[self.dtype](zero))]

    def node(self, op: str, inputs: list[str], domain: str = "", **attributes: Any) -> str:
        self.nodes.append(make_node(op, inputs, [f"t{len(self.nodes)}"], domain=domain, **attributes))
        return f"t{len(self.nodes) - 1}"

    def bytes(self, *shape: int) -> np.ndarray:
        return self.rng.integers(-127, 128, shape).astype(np.int8)

    def convolution(self, x: str, given: list[str], c: int, made: list[str]) -> tuple[str, int]:
        """Its bytes and channels."""
        groups = self.r.choice([g for g in (1, 1, 2, c) if c % g == 0])
        own = 1 if groups == c else self.r.randint(1, 4)
        kernel = [self.r.randint(1, 3) for _ in "hw"]
        weights = self.bytes(own * groups, c // groups, *kernel)
        scale = self.rng.uniform(0.001, 0.004, len(weights) if self.r.random() < 0.5 else ()).astype(np.float32)
        zero = np.zeros(scale.shape, np.int8)
        bias = [self.constant(self.rng.integers(-900, 900, len(weights)).astype(np.int32))]
        inputs = [x, *given, *map(self.constant, (weights, scale, zero)), *made]
        inputs += bias if self.r.random() < 0.7 else []
        return self.node("QLinearConv", inputs, pads=[self.r.randint(0, k - 1) for k in (*kernel, *kernel)],
                         strides=[self.r.randint(1, 2) for _ in "hw"], group=groups), len(weights)

    def model(self, name: str, shape: tuple[int, ...], rank: int = 2) -> onnx.ModelProto:
        graph = make_graph(
            self.nodes, "network", [make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [make_tensor_value_info(name, TensorProto.FLOAT, [None] * rank)],
            [numpy_helper.from_array(a, n) for n, a in self.constants.items()])
        return make_model(graph, opset_imports=[make_opsetid("", 18), make_opsetid(MICROSOFT, 1)], ir_version=9)


def quantized_network(r: Random) -> onnx.ModelProto:
    """A convolution, perhaps with pooling, a function, or an addition behind it, and a product of matrices."""
    net, c = Net(r), r.randint(1, 5)
    shape = (r.randint(1, 2), c, r.randint(3, 6), r.randint(3, 6))
    first, second, third = net.scaled(0.02), net.scaled(0.03), net.scaled(0.025)
    x = net.node("QuantizeLinear", ["x", *first])
    x, c = net.convolution(x, first, c, second)
    match r.randrange(5):
        case 0:
            x = net.node("MaxPool", [x], kernel_shape=[2, 2], pads=[1, 1, 1, 1])
        case 1:
            x = net.node("QLinearAdd", [x, *second, x, *second, *second], MICROSOFT)
        case 2:
            x = net.node("QLinearSigmoid", [x, *second, *second], MICROSOFT)
        case 3:
            real = net.node("Relu", [net.node("DequantizeLinear", [x, *second])])
            x = net.node("QuantizeLinear", [real, *second])
    x = net.node("QLinearGlobalAveragePool", [x, *second, *second], MICROSOFT, channels_last=0)
    x = net.node("Flatten", [x])
    weights = [net.constant(net.bytes(c, 3)), net.constant(np.float32(0.01)), net.constant(np.int8(0))]
    x = net.node("QLinearMatMul", [x, *second, *weights, *third])
    return net.model(net.node("DequantizeLinear", [x, *third]), shape)


@examples(4, 300)
@given(randoms)
def test_nothing_is_left_to_the_host(r: Random) -> None:
    model, options = archloom.load(quantized_network(r)), r.choice((OPTIONS, {"vlen": 512, "rlen": 512}))
    partition = partition_model(model, "mte", options)
    assert {op.op for op in partition.host.ops} <= {"reshape"}
    products = [s.workload for s in partition.steps() if s.workload.kind in ("gemm", "conv2d")]
    assert products and {work.inputs[0].dtype for work in products} == {"int8"}
    assert {work.output.dtype for work in products} == {"int32"}


@pytest.mark.slow
@examples(3, 40)
@given(randoms)
def test_random_networks_are_right(r: Random) -> None:
    """Bit for bit by both oracles, and as integer kernels next to onnxruntime."""
    found = archloom.check(quantized_network(r), "mte", OPTIONS, quiet=True)
    assert found.passed, str(found)


INTEGERS: dict[str, Any] = {
    "MatMulInteger": lambda net, x, zero: [net.node("MatMulInteger", [x, net.constant(net.bytes(5, 3)), zero])],
    "ConvInteger": lambda net, x, zero: [
        net.node("ConvInteger", [x, net.constant(net.bytes(3, 2, 2, 2)), zero], pads=[1, 0, 1, 0])],
}


@pytest.mark.parametrize("op", INTEGERS)
@pytest.mark.parametrize("computed", [slow(False), True])
def test_integer_products(op: str, computed: bool) -> None:
    """With a zero point that is constant, and with one that is computed of what is quantized."""
    net = Net(Random(1))
    net.dtype = "uint8"
    if computed:
        net.nodes.append(make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]))
        x, zero = "q", "zero"
    else:
        scale, zero = net.scaled(0.02)
        x = net.node("QuantizeLinear", ["x", scale, zero])
    (sums,) = INTEGERS[op](net, x, zero)
    shape = (2, 5) if op == "MatMulInteger" else (1, 2, 3, 4)
    model = net.model(net.node("Cast", [sums], to=TensorProto.FLOAT), shape, len(shape))
    partition = partition_model(archloom.load(model), "mte", OPTIONS)
    assert {op.op for op in partition.host.ops} <= {"reshape"}
    assert [s.workload.inputs[0].dtype for s in partition.steps() if s.workload.macs] == ["int8"]


@examples(6, 300)
@given(randoms)
def test_means_of_bytes_are_onnxruntimes(r: Random) -> None:
    """To the last bit, also where they lie between two bytes: exact sums times one factor, on any machine."""
    net, shape = Net(r), (60, 2, r.choice((1, 3, 5)), r.choice((2, 6, 7)))  # of even counts many lie between bytes
    first = net.scaled(r.choice((0.03, 0.02, 0.25)))
    second = r.choice((first, net.scaled(r.choice((0.01, 0.015, 0.5)))))
    x = net.node("QLinearGlobalAveragePool", [net.node("QuantizeLinear", ["x", *first]), *first, *second], MICROSOFT,
                 channels_last=0)
    model = net.model(net.node("DequantizeLinear", [x, *second]), shape, 4)
    given = {"x": net.rng.standard_normal(shape).astype(np.float32)}
    (wanted,) = run(integer_session(model), given).values()
    rewritten = as_integers(archloom.load(model).module, lambda op: False)
    (found,) = whole(rewritten["main"])([given["x"]])
    np.testing.assert_array_equal(np.asarray(found), wanted)


@examples(60, 3000)
@given(randoms)
def test_bytes_are_what_scales_and_zero_points_say(r: Random) -> None:
    """Quantized and dequantized numbers, infinities and NaN among them, by the nests that they are read as."""
    rng, dtype = np.random.default_rng(r.getrandbits(32)), r.choice(tuple(BYTES))
    limits, channels = np.iinfo(dtype), r.choice((1, 6))
    scale = (2.0 ** rng.integers(-4, 2, channels) if r.random() < 0.3 else rng.uniform(0.01, 2, channels)).astype("f4")
    zero = rng.integers(limits.min, limits.max, channels, dtype, endpoint=True) * r.randint(0, 1)
    x = (rng.standard_normal((4, 6)) * 10.0 ** r.randint(-2, 12)).astype(np.float32)
    x.reshape(-1)[:3] = np.inf, -np.inf, np.nan
    shape = () if channels == 1 else (channels,)
    var = Var("x", TensorType(x.shape, "float32"))
    constants = [ir.constant_like(np.broadcast_to(a, channels).astype(t).reshape(shape), var)
                 for a, t in ((scale, "float32"), (zero, dtype))]
    made = call("quantize", var, *constants, axis=1, out_dtype=dtype)
    with np.errstate(over="ignore"):
        moved = np.rint(x / scale) + zero.astype(np.float32)
    whole = np.where(np.isnan(moved), limits.min, np.clip(moved, limits.min, limits.max)).astype(dtype)
    np.testing.assert_array_equal(result(made, {}, x.view(np.int32)), whole.reshape(-1))

    inside = Var("q", TensorType(x.shape, dtype))
    again = call("dequantize", inside, *constants, axis=1, out_dtype="float32")
    real = (whole.astype(np.int32) - zero.astype(np.int32)).astype(np.float32) * scale
    np.testing.assert_array_equal(result(again, {}, whole), real.reshape(-1))
    np.testing.assert_array_equal(result(again, {inside: made}, x.view(np.int32)), real.reshape(-1))


def call(op: str, *args: Any, **attributes: Any) -> Any:
    made = ir.call_of(op, args, attributes)
    return ir.of(made).normalized(made)


def result(root: Any, bound: dict[Any, Any], given: np.ndarray) -> np.ndarray:
    """What the nests of an expression make of its first operand."""
    piece = read_piece(root, bound.get)
    arrays = {"Y": np.zeros(given.size, ir.dtype_of(root)), "X0": given.reshape(-1)}
    arrays |= {f"X{i}": ir.const_value(e) for i, e in enumerate(piece.operands) if ir.is_constant(e)}
    words = {n: a.view(np.int32) if a.dtype == np.float32 else a for n, a in arrays.items()}
    for nest in piece.nests:
        evaluate(nest, words)
    return arrays["Y"]
