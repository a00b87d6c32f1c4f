"""ONNX networks of one operator: in QDQ form, or in float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from numpy.typing import DTypeLike
from onnx import TensorProto, helper

from archloom.tvm_backend.frontends.onnx.editor import Editor
from archloom.tvm_backend.frontends.onnx.skeleton import is_weight
from archloom.tvm_backend.ir.numbers import Numbers, is_quantized
from archloom.tvm_backend.sources.operators import DEVIATION, Operator, scales

OPSET = 17
IR_VERSION = 9


class _Network(Editor):
    """A network of the operator that is written; with float ``numbers``, nothing is quantized.

    ``bare``: large weights have no numbers (:mod:`archloom.tvm_backend.frontends.onnx.skeleton`).
    """

    def __init__(self, op: Operator, inputs: dict[str, list[int]], numbers: Numbers, bare: bool) -> None:
        values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
        graph = helper.make_graph([], op.kind, values, [helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)])
        super().__init__(helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="archloom", ir_version=IR_VERSION))
        self.floats = not is_quantized(numbers)
        self.bare = bare

    def scale(self, name: str, scale: float, dtype: type) -> list[str]:
        return [self.constant(f"{name}.scale", np.array(scale, np.float32)),
                self.constant(f"{name}.zero_point", np.array(0, dtype))]

    def quantized(self, x: str, scale: float) -> str:
        """``x`` through QuantizeLinear and DequantizeLinear."""
        if self.floats:
            return x
        parameters = self.scale(x, scale, np.int8)
        q = self.node("QuantizeLinear", [x, *parameters], f"{x}.q")
        return self.node("DequantizeLinear", [q, *parameters], f"{x}.dq")

    def weight(self, name: str, value: np.ndarray, scale: float) -> str:
        if self.floats:
            return self._constant(name, value, lambda: value.astype(np.float32) * np.float32(scale), np.float32)
        constant = self._constant(f"{name}.int", value, lambda: value, value.dtype)
        return self.node("DequantizeLinear", [constant, *self.scale(name, scale, value.dtype.type)], name)

    def _constant(self, name: str, value: np.ndarray, numbers: Callable[[], np.ndarray], dtype: DTypeLike) -> str:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        if self.bare and is_weight(kind, value.shape):
            return self._blank(name, kind, value.shape)
        return self.constant(name, numbers())


def onnx_model(op: Operator, seed: int = 0, numbers: Numbers = "int8") -> onnx.ModelProto:
    """A network of this one operator, in QDQ form or float32: float inputs ``A`` (``add``: and ``B``), output ``Y``."""
    model = onnx.shape_inference.infer_shapes(_written(op, seed, numbers, bare=False), strict_mode=True)
    onnx.checker.check_model(model)
    return model


def onnx_skeleton(op: Operator, numbers: Numbers) -> onnx.ModelProto:
    """The same network without the numbers of a large weight, whose memory it does not take."""
    return _written(op, 0, numbers, bare=True)


def _written(op: Operator, seed: int, numbers: Numbers, *, bare: bool) -> onnx.ModelProto:
    scale = scales(op)
    rng = np.random.default_rng(seed)
    inputs, weight_shape = _shapes(op)
    net = _Network(op, inputs, numbers, bare)
    quantized = [net.quantized(name, scale.x) for name in inputs]
    if weight_shape:
        weight = np.broadcast_to(np.zeros((), np.int8), weight_shape)
        if not bare:
            weight = np.clip(np.rint(rng.standard_normal(weight_shape) * DEVIATION), -127, 127).astype(np.int8)
        quantized.append(net.weight("W", weight, scale.w))
    if op.kind != "add" and op["bias"]:
        channels = op["n"] if op.kind == "gemm" else op["o"]
        bias = rng.integers(-2000, 2000, channels).astype(np.int32)
        quantized.append(net.weight("bias", bias, scale.x * scale.w))
    y = _operator(net, op, quantized)
    if op["relu"]:
        y = net.node("Relu", [y], "relu")
    if op.kind == "conv2d" and op["pool"]:
        y = net.quantized(y, scale.y)
        y = net.node("MaxPool", [y], "pool", kernel_shape=[op["pool"]] * 2, strides=[op["pool_stride"]] * 2,
                     pads=[op["pool_pad"]] * 4)
    net.node("Identity", [net.quantized(y, scale.y)], "Y")
    return net.done()


def _shapes(op: Operator) -> tuple[dict[str, list[int]], tuple[int, ...]]:
    """Inputs with their shapes, and the shape of the weight (empty if there is none)."""
    if op.kind == "add":
        return {"A": [op["size"]], "B": [op["size"]]}, ()
    if op.kind == "gemm":
        shape = [op["m"], op["k"]]
        return {"A": shape if op["batch"] == 1 else [op["batch"], *shape]}, (op["k"], op["n"])
    return {"A": [op["n"], op["c"], op["h"], op["w"]]}, (op["o"], op["c"], *op.kernel)


def _operator(net: _Network, op: Operator, inputs: list[str]) -> str:
    if op.kind == "add":
        return net.node("Add", inputs, "add")
    if op.kind == "conv2d":
        return net.node("Conv", inputs, "conv", kernel_shape=op.kernel, strides=[op["stride"]] * 2,
                        pads=[op["pad"]] * 4)
    if op["batch"] == 1:
        return net.node("Gemm", inputs, "gemm")
    product = net.node("MatMul", inputs[:2], "matmul")
    return net.node("Add", [product, inputs[2]], "matmul.bias") if len(inputs) > 2 else product
