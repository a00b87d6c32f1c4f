"""Quantized networks for targets of matrix products: convolutions as products with the host's work around.

The host gathers the windows of the quantized image; their product with the kernel as a matrix has the convolution's
bias, activation and requantization, so that a target takes it as any quantized product; its integers go back to the
image's layout. Groups are a batch of products, each with the bias of its own channels, and may have a scale each.
Of many small groups several become one product of a matrix with their kernels on its diagonal; how many is marked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.match import QTensor, QuantizedOp, Stage
from archloom.tvm_backend.ir.windows import Windows
from archloom.tvm_backend.passes.gathered import Gathering, matrices, merged
from archloom.tvm_backend.passes.marks import marked
from archloom.tvm_backend.passes.pieces import Pieces

MERGED = "merged"
"""The mark that has of results of products how many groups are one."""


def quantized_products(
    module: ir.IRModule, taken: Callable[[QuantizedOp], bool], together: Callable[[QuantizedOp], int] = lambda op: 1,
) -> ir.IRModule:
    """Rewrite ``main`` (see above) where ``taken`` says of a convolution that the target takes it as a product;
    ``together``: how many of its groups become one, a divisor of them."""
    return _Quantized(module, taken, together).rewritten()


class _Quantized(Pieces, Gathering):
    """Convolutions as products. ``merged`` has the mark."""

    def __init__(
        self, module: ir.IRModule, taken: Callable[[QuantizedOp], bool], together: Callable[[QuantizedOp], int],
    ) -> None:
        super().__init__(module, taken)
        self.together = together
        self.merged: dict[str, int] = {}

    def rewritten(self) -> Any:
        """The module with its mark."""
        return marked(super().rewritten(), MERGED, self.merged)

    def visit(self, var: ir.Var, value: Any) -> None:
        """Take over one binding, or a convolution with all that belongs to it."""
        if var in self.inside or (ir.op_name(value) == "nn.conv2d" and self._product(var, value)):
            return
        self.keep(var, value)

    def finish(self) -> None:
        """Leave out constants that only convolutions read dequantized."""
        results = [self.result(r) for r in ir.outputs_of(self.main)]
        read = {var for expr in [*(b.value for b in self.body), *results] for var in ir.variables(expr)}
        self.body = [b for b in self.body if b.var in read or b.var in results or not _is_constant(b.value)]

    def _product(self, var: ir.Var, call: ir.Call) -> bool:
        """A convolution as a product; False where the target takes it in no form, or as it is."""
        for op, chain in self.pieces(var, ("nn.conv2d",)):
            self.replaced[chain[-1]] = self._emitted(op, Windows.of(call), chain[-1].name)
            self.inside.update(chain)
            return True
        return False

    def _emitted(self, op: QuantizedOp, form: Windows, name: str) -> Any:
        """The product, whose integers have the ``name`` of the network's, and its result as the image."""
        data, kernel = op.operands
        assert kernel.array is not None
        count = self.together(op)
        groups, weights = form.groups // count, merged(kernel.array, form.groups, count)
        n, like, form = data.shape[0], data.var, replace(form, groups=groups)
        rows = self.gathered(self.new(data.var), form, int(data.zero_point.reshape(-1)[0]))
        matrix = ir.constant_like(matrices(weights, groups, n), like)
        factors = self._dequantized(rows, data), self._of_groups(matrix, kernel, op, n)
        value = self.emit("matmul", *factors, label=op.name)
        if op.bias is not None:
            assert op.bias.array is not None
            bias = op.bias.array.reshape(-1)
            if groups > 1:
                bias = np.tile(bias.reshape(groups, 1, -1), (n, 1, 1))
            row = ir.constant_like(bias, like)
            whole = row if op.bias.dtype == "float32" else self._of_groups(row, op.bias, op, n)
            value = self.emit("add", value, whole, label=op.name)
        for stage in op.stages:
            value = self._stage(value, stage, name if stage is op.stages[-1] else op.name)
        if count > 1:
            self.merged[value.name] = count
        return self.in_place(value, op.shape)

    def _dequantized(self, value: Any, tensor: QTensor) -> Any:
        return self._scaled("dequantize", value, tensor.scale, tensor.zero_point, "float32")

    def _of_groups(self, value: Any, tensor: QTensor, op: QuantizedOp, n: int) -> Any:
        """Channels by their scales, or of several groups each of n images by the one scale that its channels have."""
        channels, groups = op.operands[1].shape[0], op.attrs["groups"]
        if groups == 1 or op.operands[1].scale.size == 1:
            return self._dequantized(value, tensor)
        scale, zero = (np.tile(np.broadcast_to(array.reshape(-1), channels)[::channels // groups], n)
                       for array in (tensor.scale, tensor.zero_point))
        return self._scaled("dequantize", value, scale, zero, "float32", axis=0)

    def _scaled(
        self, name: str, value: Any, scale: np.ndarray, zero: np.ndarray, dtype: str, label: str = "lv", axis: int = -1
    ) -> Any:
        """A conversion by one scale and zero point, or by those of an axis, the last one by default."""
        shape = () if scale.size == 1 else (-1,)
        numbers = [ir.constant_like(np.broadcast_to(array, scale.shape).reshape(shape), value)
                   for array in (scale, zero)]
        return self.emit(name, value, *numbers, axis=axis % len(ir.shape_of(value)), out_dtype=dtype, label=label)

    def _stage(self, value: Any, stage: Stage, label: str) -> Any:
        if stage.kind == "relu":
            return self.emit("nn.relu", value, label=label)
        if stage.kind == "clip":
            return self.emit("clip", value, stage.low, stage.high, label=label)
        if stage.kind == "convert":
            return self.emit("astype", value, stage.dtype, label=label)
        assert stage.scale is not None and stage.zero_point is not None
        return self._scaled(stage.kind, value, stage.scale, stage.zero_point, stage.dtype, label)


def _is_constant(value: Any) -> bool:
    """Whether a value is a dequantized constant, or that in another shape."""
    return ir.op_name(value) in ("dequantize", "reshape") and ir.is_constant(value.args[0])
