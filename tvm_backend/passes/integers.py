"""Quantized networks for targets that take all operators: products of int8 with int32 sums, and arithmetic around them.

A product in QDQ form, which reads bytes and ends in bytes, int32 or floats, becomes one of int8 whose sums are int32,
and what is made of the sums: a factor for each channel, rounded once, as onnxruntime's integer kernels do
(:mod:`archloom.tvm_backend.host.output_stage`). Zero points are part of the bias as far as they can be; images are
padded with them; of operands that are computed sums of rows and columns are subtracted. A mean of bytes that becomes
bytes is an exact sum with one factor, rounded once: with a sum of numbers that are rounded each, what lies between two
bytes, as half of all means of two do, would go either way. All else that is quantized (additions, activations, windows
of pooling) stays as it is: arithmetic between ``dequantize`` and ``quantize``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from archloom.tvm_backend.host import sums as numbers
from archloom.tvm_backend.host.output_stage import FLIPPED, OutputStage
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.match import QTensor, QuantizedOp
from archloom.tvm_backend.passes.pieces import Pieces

PRODUCTS = frozenset({"nn.conv2d", "matmul"})
BYTES = ("int8", "uint8")
BOUNDS = frozenset({"nn.relu", "clip"})
EXACT_SUM = (1 << 24) // 255
"""Differences of bytes of which float32 has all sums."""


def as_integers(module: ir.IRModule, taken: Callable[[QuantizedOp], bool]) -> ir.IRModule:
    """Rewrite ``main`` (see above) where ``taken`` says so of a product."""
    return _Integers(module, taken).rewritten()


def same_numbers(one: ir.Call, other: ir.Call) -> bool:
    """Whether two conversions have the same scale, zero point and integers."""
    if any(not ir.is_constant(a) or ir.const_value(a).size != 1 for a in (*one.args[1:], *other.args[1:])):
        return False
    return [float(ir.const_value(a).reshape(())) for a in one.args[1:]] == [
        float(ir.const_value(a).reshape(())) for a in other.args[1:]] and ir.dtype_of(one.args[2]) == ir.dtype_of(
        other.args[2])


class _Integers(Pieces):
    """Products of bytes, and bounds between quantizations."""

    def visit(self, var: ir.Var, value: Any) -> None:
        """Take over one binding, or a product with what follows it."""
        if var in self.inside or (ir.op_name(value) in PRODUCTS and self._product(var)):
            return
        if ir.op_name(value) != "quantize":
            self.keep(var, value)
        elif not self._mean(var, value):
            self.keep(var, self._bounded(value))

    def _bounded(self, call: ir.Call) -> Any:
        """A bound between two quantizations that are the same, as before one: quantizing is monotonic."""
        bound: Any = self.value_of(call.args[0])
        below: Any = self.value_of(bound.args[0]) if ir.op_name(bound) in BOUNDS else None
        first: Any = self.value_of(below.args[0]) if ir.op_name(below) == "dequantize" else None
        if ir.op_name(first) != "quantize" or not (same_numbers(call, first) and same_numbers(below, first)):
            return call
        if first.args[0] in self.inside and first.args[0] not in self.replaced:
            return call
        bounded = self.name(ir.make_like(bound, [self.new(first.args[0]), *bound.args[1:]]), call.args[0].name)
        return ir.make_call(call, [bounded, *call.args[1:]])

    def _mean(self, var: ir.Var, call: ir.Call) -> bool:
        """A mean between conversions by one scale each, as the exact sum times a factor; whether it is one. What it was
        stays bound, and is dropped where nothing else reads it."""
        mean: Any = self.value_of(call.args[0])
        given: Any = self.value_of(mean.args[0]) if ir.op_name(mean) == "mean" else None
        if ir.op_name(given) != "dequantize" or ir.dtype_of(given.args[0]) not in BYTES:
            return False
        numbers = [ir.number_of(a) for a in (*given.args[1:], *call.args[1:])]
        count = math.prod(ir.shape_of(given)) // math.prod(ir.shape_of(mean))
        if None in numbers or not 0 < count <= EXACT_SUM:
            return False
        one, factor, *zeros = (ir.constant_like(np.array(value, dtype), given) for value, dtype in (
            (1, "float32"),
            (np.float32(numbers[0]) / (np.float32(numbers[2]) * np.float32(count)), "float32"),  # onnxruntime's order
            (numbers[1], ir.dtype_of(given.args[0])), (numbers[3], ir.dtype_of(call))))
        whole = self.emit("dequantize", self.new(given.args[0]), one, zeros[0], axis=0, out_dtype="float32")
        attributes = {name: ir.attr(mean, name) for name in ("axis", "keepdims")}
        total = self.emit("sum", whole, **attributes, label=f"{var.name}.sum")
        real = self.emit("multiply", total, factor)
        self.replaced[var] = self.emit(
            "quantize", real, one, zeros[1], axis=0, out_dtype=ir.dtype_of(call), label=var.name)
        return True

    def _product(self, var: ir.Var) -> bool:
        """A product with as much of what follows as can be made of its sums; whether it is one of bytes."""
        for op, chain in self.pieces(var, PRODUCTS):
            if (stage := numbers.scaling_stage(op)).table is None:
                self.replaced[chain[-1]] = self._result(self._sums(op), op, stage, chain[-1].name)
                self.inside.update(chain)
                return True
        return False

    # sums -------------------------------------------------------------------------------------------------------------

    def _sums(self, op: QuantizedOp) -> Any:
        """The int32 sums, with a bias and zero points."""
        plain, like = numbers.as_sums(op), next(t.var for t in op.operands if t.var is not None)
        a, b = (self._int8(t, made, like) for t, made in zip(op.operands, plain.operands, strict=True))
        label = f"{op.name}.sums" if plain.bias is None else op.name
        if op.anchor == "nn.conv2d":
            sums = self._convolution(op, a, b, label)
        else:
            sums = self._less_zeros(op, self.emit("matmul", a, b, out_dtype="int32", label=label), a, b)
        if plain.bias is None:
            return sums
        assert plain.bias.array is not None
        bias = self._along_channels(plain.bias.array, op)
        return self.emit("add", sums, ir.constant_like(bias, like), label=f"{op.name}.sums")

    def _int8(self, tensor: QTensor, made: QTensor, like: Any) -> Any:
        """An operand as int8, as the product reads it: a constant, or what is computed."""
        if made.array is not None:
            array = made.array.transpose(tensor.permutation) if tensor.permutation else made.array
            return ir.constant_like(array, like)
        value = self.new(tensor.var)
        if tensor.dtype == "uint8":
            wide = self.emit("astype", value, dtype="int32")
            moved = self.emit("subtract", wide, ir.constant_like(np.array(FLIPPED, np.int32), like))
            value = self.emit("astype", moved, dtype="int8")
        return self.emit("permute_dims", value, axes=list(tensor.permutation)) if tensor.permutation else value

    def _convolution(self, op: QuantizedOp, data: Any, kernel: Any, label: str) -> Any:
        """What lies beyond the image is the zero point."""
        attrs = {name: list(op.attrs[name]) for name in ("strides", "padding", "dilation")}
        zero = numbers.zero_point(op.operands[0])
        if zero and any(attrs["padding"]):
            top, left, bottom, right = attrs["padding"]
            data = self.emit("nn.pad", data, pad_width=[0, 0, 0, 0, top, bottom, left, right], pad_value=float(zero),
                             pad_mode="constant")
            attrs["padding"] = [0, 0, 0, 0]
        return self.emit(
            "nn.conv2d", data, kernel, **attrs, groups=int(op.attrs["groups"]), data_layout="NCHW",
            kernel_layout="OIHW", out_layout="NCHW", out_dtype="int32", label=label)

    def _less_zeros(self, op: QuantizedOp, sums: Any, a: Any, b: Any) -> Any:
        """Less zero points times sums of rows and columns, where these are no part of the bias."""
        first, second = (numbers.zero_point(t) for t in op.operands)
        constant = op.operands[1].is_constant
        depth = ir.shape_of(a)[-1]
        if first and not constant:
            sums = self._less(sums, first, self._summed(b, -2))
        if second:
            sums = self._less(sums, second, self._summed(a, -1))
        if first and second and not constant:
            sums = self.emit("add", sums, ir.constant_like(np.array(first * second * depth, np.int32), sums))
        return sums

    def _less(self, sums: Any, zero: int, others: Any) -> Any:
        moved = self.emit("multiply", others, ir.constant_like(np.array(zero, np.int32), others))
        return self.emit("subtract", sums, moved)

    def _summed(self, x: Any, axis: int) -> Any:
        """Sums of bytes along an axis, which float32 has exactly."""
        real = self.emit("astype", x, dtype="float32")
        total = self.emit("sum", real, axis=[axis % len(ir.shape_of(x))], keepdims=True)
        return self.emit("astype", total, dtype="int32")

    # results ----------------------------------------------------------------------------------------------------------

    def _result(self, sums: Any, op: QuantizedOp, stage: OutputStage, label: str) -> Any:
        """What is made of the sums: see :class:`~archloom.tvm_backend.host.output_stage.OutputStage`."""
        if stage.dtype == "int32":
            return sums
        quantized = stage.dtype != "float32"
        value = self._real(sums, op, stage.scale, "lv" if quantized else label)
        if stage.bias is not None:
            value = self.emit("add", value, ir.constant_like(self._along_channels(stage.bias, op), sums))
        if not quantized:
            return value
        limits = np.iinfo(stage.dtype)
        if (stage.low, stage.high) != (limits.min, limits.max):
            value = self.emit("clip", value, float(stage.low - stage.zero_point), float(stage.high - stage.zero_point))
        one, zero = np.ones((), np.float32), np.array(stage.zero_point, stage.dtype)
        return self.emit("quantize", value, ir.constant_like(one, sums), ir.constant_like(zero, sums), axis=0,
                         out_dtype=stage.dtype, label=label)

    def _real(self, sums: Any, op: QuantizedOp, scale: np.ndarray, label: str) -> Any:
        """The floats that sums stand for."""
        if scale.size > 1 and numbers.has_scales_of_batch(op):
            value = self.emit("astype", sums, dtype="float32")
            return self.emit("multiply", value, ir.constant_like(scale, sums), label=label)
        scale = scale.reshape(() if scale.size == 1 else -1)
        zeros = np.zeros(scale.shape, np.int32)
        axis = 1 if op.anchor == "nn.conv2d" else len(op.shape) - 1
        return self.emit("dequantize", sums, ir.constant_like(scale, sums), ir.constant_like(zeros, sums), axis=axis,
                         out_dtype="float32", label=label)

    @staticmethod
    def _along_channels(array: np.ndarray, op: QuantizedOp) -> np.ndarray:
        """One number, or one for each channel, as it is added to or multiplied with sums."""
        if array.size == 1:
            return array.reshape(())
        if op.anchor == "nn.conv2d":
            return array.reshape(1, -1, 1, 1)
        return array.reshape(-1) if array.size == numbers.channels(op) else array
