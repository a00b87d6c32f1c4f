"""Float networks for targets of matrix products: attention and convolutions as products with the host's work around.

A target that multiplies matrices takes no convolution as it is. Here each convolution of a constant kernel becomes the
product of its windows (gathered by the host) and the kernel as a matrix, with bias and ReLU after it; transposed
convolutions are split by phases first (:mod:`archloom.tvm_backend.ir.windows`); attention becomes two
products with a softmax between them. What has another form stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.attention import ATTENTION, HEADS_SWAPPED, attention_scale, causal_diagonal
from archloom.tvm_backend.ir.windows import Phases, Windows, by_phases, dilated
from archloom.tvm_backend.passes.constants import float_weights
from archloom.tvm_backend.passes.gathered import Gathering, matrices


def as_products(
    module: ir.IRModule, whole: Callable[[Any], bool] = lambda attention: False,
    images: Callable[[Any], bool] = lambda convolution: False,
) -> ir.IRModule:
    """Rewrite ``main`` (see above), but for attention that is taken as a ``whole`` and convolutions of ``images``
    that are taken as they are (both get the operator).
    """
    return _Products(float_weights(module), whole, images).rewritten()


@dataclass
class _Pending:
    """A product whose bias and ReLU may still follow: ``sums`` [..., rows, channels], and what the network reads."""

    sums: Any
    shape: tuple[int, ...]
    grouped: bool
    biased: bool = False


class _Products(Gathering):
    """``pending``: products that one binding reads, whose bias or ReLU is applied before the result is laid out."""

    changed = True

    def __init__(self, module: ir.IRModule, whole: Callable[[Any], bool], images: Callable[[Any], bool]) -> None:
        super().__init__(module)
        self.whole, self.images = whole, images
        self.pending: dict[Any, _Pending] = {}

    def visit(self, var: ir.Var, value: Any) -> None:
        name = ir.op_name(value)
        if name in ("add", "nn.relu") and self._follow(var, value):
            return
        for read in ir.variables(value):
            self._settle(read)
        if name in ("nn.conv2d", "nn.conv1d") and not self.images(value) and self._convolution(var, value):
            return
        if name in ("nn.conv2d_transpose", "nn.conv1d_transpose") and self._transposed(var, value):
            return
        if name == "matmul" and (
            self._constant_first(var, value) or self._vector(var, value) or self._shared(var, value)
        ):
            return
        if name in ATTENTION and not self.whole(value):
            self.replaced[var] = self._attention(value, var.name)
            return
        self.keep(var, value)

    # convolutions

    def _convolution(self, var: ir.Var, call: ir.Call) -> bool:
        """A convolution as a product; False where it has no such form, or needs none."""
        data, kernel = call.args
        layouts = [ir.attr(call, f"{what}_layout") for what in ("data", "kernel", "out")]
        if not ir.is_constant(kernel) or layouts not in (["NCHW", "OIHW", "NCHW"], ["NCW", "OIW", "NCW"]):
            return False
        if ir.dtype_of(call) != "float32":
            return False
        form = Windows.of(call)
        if form.is_pointwise and len(ir.shape_of(call)) == 4:
            return False
        x = self.new(data)
        shape = ir.shape_of(call)
        if len(shape) == 3:
            x = self.emit("reshape", x, (*ir.shape_of(x)[:2], 1, ir.shape_of(x)[2]))
        weights = ir.const_value(kernel).reshape(shape[1], -1, *form.kernel)
        sums = self._product(x, weights, form, var.name)
        self._defer(var, _Pending(sums, shape, form.groups > 1))
        return True

    def _product(self, x: Any, weights: np.ndarray, form: Windows, label: str) -> Any:
        """[n, c, h, w] by OIHW → [n, places, o], or [n · groups, places, o / groups] of several groups."""
        rows = self.gathered(x, form)
        return self.emit("matmul", rows, ir.constant_like(matrices(weights, form.groups, ir.shape_of(x)[0]), x),
                         label=label)

    def _transposed(self, var: ir.Var, call: ir.Call) -> bool:
        """A transposed convolution as a convolution for all phases, whose results are put beside each other."""
        layouts = [ir.attr(call, f"{what}_layout") for what in ("data", "kernel", "out")]
        if not ir.is_constant(call.args[1]) or layouts not in (["NCHW", "IOHW", "NCHW"], ["NCW", "IOW", "NCW"]):
            return False
        ints = {name: ir.attr_ints(call, name) for name in ("strides", "dilation", "padding", "output_padding")}
        flat, kernel = len(ints["strides"]) == 1, ir.const_value(call.args[1])
        if flat:  # along images of height 1
            kernel = kernel[:, :, None]
            neutral = {"strides": 1, "dilation": 1, "output_padding": 0}
            before, after = ints["padding"]
            ints = {**{name: (one, *ints[name]) for name, one in neutral.items()}, "padding": (0, before, 0, after)}
        strides, pads, more = ints["strides"], ints["padding"], ints["output_padding"]
        kernel, groups = dilated(kernel, ints["dilation"]), int(ir.attr(call, "groups"))
        axes = [Phases(kernel.shape[2 + i], strides[i], pads[i], pads[2 + i], more[i]) for i in range(2)]
        if any(a.reach < 0 for a in axes) or ir.dtype_of(call) != "float32":
            return False
        x = self.new(call.args[0])
        if flat:
            x = self.emit("expand_dims", x, axis=[2])
        weights = by_phases(kernel, groups, strides[0], strides[1])
        padding = (axes[0].taps - 1, axes[1].taps - 1, axes[0].after, axes[1].after)
        form = Windows((axes[0].taps, axes[1].taps), (1, 1), padding, (1, 1), groups)
        n, _, h, w = ir.shape_of(x)
        rows, columns = h + axes[0].after, w + axes[1].after
        o = kernel.shape[1] * groups
        images = self.in_place(self._product(x, weights, form, var.name), (n, len(weights), rows, columns))
        split = self.emit("reshape", images, (n, o, *strides, rows, columns))
        beside = self.emit("permute_dims", split, axes=[0, 1, 4, 2, 5, 3])
        whole = self.emit("reshape", beside, (n, o, rows * strides[0], columns * strides[1]))
        begin = [a.before for a in axes]
        extents = (1, *ir.shape_of(call)[2:])[-2:]
        end = [b + e for b, e in zip(begin, extents, strict=True)]
        result = self.emit("strided_slice", whole, axes=[2, 3], begin=begin, end=end)
        self.replaced[var] = self.emit("squeeze", result, axis=[2]) if flat else result
        return True

    def _constant_first(self, var: ir.Var, call: ir.Call) -> bool:
        """The product of a constant matrix W and X as (Xᵀ Wᵀ)ᵀ: targets keep the second operand."""
        matrix, x = call.args
        shape = ir.shape_of(x)
        if not ir.is_constant(matrix) or len(ir.shape_of(matrix)) != 2 or len(shape) < 2:
            return False
        axes = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        columns = self.emit("permute_dims", self.new(x), axes=axes)
        transposed = ir.constant_like(ir.const_value(matrix).T, x)
        rows = self._multiplied(call, [columns, transposed], var.name)
        self.replaced[var] = self.emit("permute_dims", rows, axes=axes)
        return True

    def _vector(self, var: ir.Var, call: ir.Call) -> bool:
        """A product of which one side is a vector, as one of matrices."""
        sides = [self.new(a) for a in call.args]
        shapes = [ir.shape_of(x) for x in sides]
        if min(map(len, shapes)) != 1 or any(0 in shape for shape in shapes):
            return False
        for side, (x, shape) in enumerate(zip(sides, shapes, strict=True)):
            if len(shape) == 1:
                matrix = (1, *shape) if side == 0 else (*shape, 1)
                sides[side] = self.emit("reshape", x, matrix) if not ir.is_constant(x) else ir.constant_like(
                    ir.const_value(x).reshape(matrix), x)
        sums = self._multiplied(call, sides, var.name)
        self.replaced[var] = self.emit("reshape", sums, ir.shape_of(var))
        return True

    def _shared(self, var: ir.Var, call: ir.Call) -> bool:
        """A product of batches of which one operand is shared by parts of it: that is repeated."""
        leads = [ir.shape_of(a)[:-2] for a in call.args]
        if leads[0] == leads[1] or math.prod(leads[1]) == 1:  # a single matrix multiplies all rows at once
            return False
        full, sides = ir.shape_of(call)[:-2], []
        for side in call.args:
            shape = ir.shape_of(side)
            x = self.new(side)
            sides.append(x if shape[:-2] == full else self.emit("broadcast_to", x, (*full, *shape[-2:])))
        self.replaced[var] = self._multiplied(call, sides, var.name)
        return True

    def _multiplied(self, call: ir.Call, sides: list[Any], label: str) -> Any:
        """A product of other operands, with sums of the type that the call's have."""
        return self.emit("matmul", *sides, out_dtype=ir.dtype_of(call), label=label)

    # what follows a product

    def _defer(self, var: ir.Var, pending: _Pending) -> None:
        self.pending[var] = pending
        if self.uses[var] != 1:
            self._settle(var)

    def _follow(self, var: ir.Var, value: Any) -> bool:
        """A bias or ReLU of a pending product, applied to its sums."""
        source = next((a for a in value.args if ir.is_var(a) and a in self.pending), None)
        if source is None:
            return False
        product = self.pending[source]
        if ir.op_name(value) == "nn.relu":
            sums = self.emit("nn.relu", product.sums, label=var.name)
        else:
            bias = next((a for a in value.args if ir.is_constant(a)), None)
            if bias is None or product.biased or product.grouped or not _along_channels(bias, product.shape):
                return False
            row = ir.constant_like(ir.const_value(bias).reshape(-1), bias)
            sums = self.emit("add", product.sums, row, label=var.name)
        del self.pending[source]
        self._defer(var, _Pending(sums, product.shape, product.grouped, True))
        return True

    def finish(self) -> None:
        """Lay out the products that the function returns."""
        for var in list(self.pending):
            self._settle(var)

    def _settle(self, var: ir.Var) -> None:
        product = self.pending.pop(var, None)
        if product is not None:
            self.replaced[var] = self.in_place(product.sums, product.shape)

    # attention

    def _attention(self, call: ir.Call, label: str) -> Any:
        """[batch, length, heads, depth] → two products with a softmax between them."""
        args = [self.new(a) for a in call.args]
        query, key, value = (self._heads_first(a) for a in args[:3])
        factor = np.asarray(attention_scale(call), "float32")
        scores = self.emit("matmul", query, self.emit("permute_dims", key, axes=[0, 1, 3, 2]), label=f"{label}.scores")
        scores = self.emit("multiply", scores, ir.constant_like(factor, scores))
        if len(args) > 3:
            scores = self.emit("add", scores, args[3])
        diagonal = causal_diagonal(call)
        if diagonal is not None:
            seen = np.tril(np.ones(ir.shape_of(scores)[-2:], bool), diagonal)
            barred = np.where(seen, np.float32(0), np.float32(-np.inf)).astype(np.float32)
            scores = self.emit("add", scores, ir.constant_like(barred, scores))
        weights = self.emit("nn.softmax", scores, axis=-1, label=f"{label}.softmax")
        mixed = self.emit("matmul", weights, value, label=label)
        return self.emit("permute_dims", mixed, axes=list(HEADS_SWAPPED))

    def _heads_first(self, expr: Any) -> Any:
        """[batch, heads, length, depth]: what was permuted from there, or permuted now."""
        inner: Any = self.made.get(expr) if ir.is_var(expr) else None
        if ir.op_name(inner) == "permute_dims" and ir.permutation(inner) == HEADS_SWAPPED:
            return inner.args[0]
        return self.emit("permute_dims", expr, axes=list(HEADS_SWAPPED))


def _along_channels(bias: Any, shape: tuple[int, ...]) -> bool:
    given = ir.shape_of(bias)
    return given in ((1, shape[1], *[1] * (len(shape) - 2)), (shape[1], *[1] * (len(shape) - 2)))
