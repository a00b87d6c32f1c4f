"""Float networks of images with their channels last, for targets that take all operators: convolutions as products.

Between operators that know it, an image [n, c, h, w] is kept as pixels [n, h, w, c], whose rows are those of products:
a convolution of one pixel is the product with its kernel as a matrix. Of a larger one the target says whether it takes
it as it is, on an image with the padding around it; else its windows, pixels taken side by side, are rows of a product.
Element-wise operators, pooling, concatenations of channels and means keep images so. Whatever else reads an image gets
it transposed back. Reshapes cost nothing; all else is operators like others, which the target takes, too.

A convolution of as many groups as channels is no product: its windows, times the kernel, are summed up.

Pixels are called as the image that they are was, which is how results are told by layer; ``main`` says for as long as
it is not matched which variables they are (:mod:`.marks`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from archloom.mapper.nests import HALVES
from archloom.mapper.workload import Epilogue, Workload, conv2d
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.conversion import blank, is_blank
from archloom.tvm_backend.ir.operators import operator
from archloom.tvm_backend.ir.rewriter import Rewriter
from archloom.tvm_backend.ir.windows import Windows
from archloom.tvm_backend.passes.constants import float_weights
from archloom.tvm_backend.passes.marks import marked

POOLS = frozenset({"nn.max_pool2d", "nn.avg_pool2d"})
SAME = frozenset({"expand_dims", "squeeze", "flatten"})
"""What is a reshape under another name."""
IMAGES = ("NCHW", "OIHW", "NCHW")
NUMBERS = ("float32", *HALVES, "int32", "int8", "uint8")
INTEGERS = ("int32",)
SCALED = frozenset({"quantize", "dequantize"})
"""What has a scale and a zero point."""
MARK = "channels_last"
"""The mark that names pixels."""
EXACT_TAPS = 1 << 10
"""Sums of fewer products of bytes are float32 numbers."""


def channels_last(module: ir.IRModule, in_place: Callable[[Workload], bool] = lambda work: False) -> ir.IRModule:
    """Rewrite ``main`` (see above); ``in_place``: whether the target takes a convolution of NHWC without padding."""
    return _ChannelsLast(float_weights(module), in_place).rewritten()


@dataclass(frozen=True)
class _Pixels:
    """[n, height, width, channels] of an image."""

    var: Any
    shape: tuple[int, ...]
    """the image's, [n, c, h, w]"""


class _ChannelsLast(Rewriter):
    """``pixels`` has images by the old variable, ``images`` those that have been transposed back."""

    changed = True

    def __init__(self, module: ir.IRModule, in_place: Callable[[Workload], bool]) -> None:
        super().__init__(module)
        self.in_place = in_place
        self.pixels: dict[Any, _Pixels] = {}

    def rewritten(self) -> Any:
        """The module with its mark."""
        module = super().rewritten()
        return marked(module, MARK, sorted({
            image.name for image, pixels in self.pixels.items() if pixels.var.name == image.name}))

    def visit(self, var: ir.Var, value: Any) -> None:
        name = ir.op_name(value)
        made = None
        if name is not None and ir.is_tensor(var) and ir.dtype_of(var) in NUMBERS:
            made = self._made(name, var, value)
        if made is not None:
            self.pixels[var] = _Pixels(made, ir.shape_of(var))
            return
        for read in ir.variables(value):
            self._settle(read)
        if name in SAME and ir.is_tensor(var):
            self.replaced[var] = self.emit("reshape", self.new(value.args[0]), ir.shape_of(var), label=var.name)
        elif name == "take" and _is_wide(value.args[1]):
            self._narrowed(var, value)
        elif not self._in_parts(var, value):
            self.keep(var, value)

    def finish(self) -> None:
        """Transpose back what the function returns."""
        for result in ir.outputs_of(self.main):
            for var in ir.variables(result):
                self._settle(var)

    def _made(self, name: str, var: ir.Var, call: ir.Call) -> Any:
        """The pixels of a result; None where it is no image or the operator knows none."""
        if len(ir.shape_of(var)) != 4:
            return None
        if name == "nn.conv2d":
            return self._convolution(var, call)
        if name == "nn.pad":
            return self._padded(var, call)
        if name == "concat":
            return self._concatenated(call.args[0], var.name) if _axis(call) == 1 else None
        if not any(ir.is_var(a) and a in self.pixels for a in call.args):
            return None
        if name == "nn.adaptive_avg_pool2d" and ir.shape_of(call)[2:] == (1, 1):
            name = "mean"
        if name in POOLS and str(ir.attr(call, "layout")) == "NCHW":
            return self._pooled(name, var, call)
        if name == "mean" and ir.shape_of(call)[2:] == (1, 1) and ir.shape_of(call)[:2] == ir.shape_of(
                call.args[0])[:2]:
            return self.emit("mean", self.pixels[call.args[0]].var, axis=[1, 2], keepdims=True, label=var.name)
        row = operator(name)
        if name in SCALED:
            return self._scaled(name, var, call)
        if ((row.scalar or row.vector) and name != "power") or name == "astype":
            return self._elementwise(var, call)
        return None

    def _settle(self, var: Any) -> None:
        """The image as the network has it."""
        found = self.pixels.get(var)
        if found is None or var in self.replaced:
            return
        *_, h, w = found.shape
        self.replaced[var] = self.emit("reshape", found.var, found.shape, label=var.name) if h * w == 1 else self.emit(
            "permute_dims", found.var, axes=[0, 3, 1, 2], label=var.name)

    def _of(self, expr: Any) -> Any:
        """The pixels of an image of the old body."""
        if expr in self.pixels:
            return self.pixels[expr].var
        n, c, h, w = ir.shape_of(expr)
        pixels = self.emit("permute_dims", self.new(expr), axes=[0, 2, 3, 1])
        if ir.is_var(expr):
            self.pixels[expr] = _Pixels(pixels, (n, c, h, w))
            self.replaced.setdefault(expr, self.new(expr))
        return pixels

    # operators --------------------------------------------------------------------------------------------------------

    def _elementwise(self, var: ir.Var, call: ir.Call) -> Any:
        shape = ir.shape_of(var)
        args = [self._beside(a, shape) for a in call.args]
        if any(a is None for a in args):
            return None
        return self.name(ir.make_like(call, args), var.name)

    def _scaled(self, name: str, var: ir.Var, call: ir.Call) -> Any:
        """By one scale and zero point, or one for each channel."""
        shapes = {ir.shape_of(a) for a in call.args[1:] if math.prod(ir.shape_of(a)) > 1}
        if not all(map(ir.is_constant, call.args[1:])) or (shapes and _axis(call) != 1):
            return None
        along = [a if ir.number_of(a) is None else ir.constant_like(ir.const_value(a).reshape(()), a)
                 for a in call.args[1:]]
        return self.emit(name, self._of(call.args[0]), *along, axis=3 if shapes else 0, out_dtype=ir.dtype_of(var),
                         label=var.name)

    def _beside(self, expr: Any, shape: tuple[int, ...]) -> Any:
        """An operand of an element-wise operator, beside pixels of an image of a ``shape``; None where it has no such
        form."""
        if not ir.is_tensor(expr) or math.prod(ir.shape_of(expr)) == 1:
            if ir.is_tensor(expr) and ir.is_constant(expr):
                return ir.constant_like(ir.const_value(expr).reshape(()), expr)
            return self._one(expr) if ir.is_tensor(expr) else expr
        given = (1,) * (4 - len(ir.shape_of(expr))) + ir.shape_of(expr)
        if given[1:] == (shape[1], 1, 1) and ir.is_constant(expr):
            array = ir.const_value(expr)
            if given[0] == 1:
                return ir.constant_like(_shaped(array, (1, 1, 1, shape[1])), expr)
        if len(ir.shape_of(expr)) == 4 and (given[2:] == shape[2:] or given[2:] == (1, 1)) and not ir.is_constant(expr):
            return self._of(expr)
        return None

    def _one(self, expr: Any) -> Any:
        return self.emit("reshape", self._settled(expr), (1, 1, 1, 1))

    def _settled(self, expr: Any) -> Any:
        if ir.is_var(expr):
            self._settle(expr)
        return self.new(expr)

    def _pooled(self, name: str, var: ir.Var, call: ir.Call) -> Any:
        given = {a: list(ir.attr_ints(call, a)) for a in ("pool_size", "strides", "padding", "dilation")} | {
            a: bool(ir.attr(call, a)) for a in ("ceil_mode", "count_include_pad")}
        return self.emit(name, self._of(call.args[0]), layout="NHWC", out_layout="NHWC", label=var.name, **given)

    def _padded(self, var: ir.Var, call: ir.Call) -> Any:
        """By rows and columns alone."""
        widths, mode = ir.attr_ints(call, "pad_width"), str(ir.attr(call, "pad_mode", "constant"))
        if any(widths[:4]) or mode != "constant" or call.args[0] not in self.pixels:
            return None
        return self.emit("nn.pad", self._of(call.args[0]), pad_width=[0, 0, *widths[4:], 0, 0], pad_mode="constant",
                         pad_value=float(ir.attr(call, "pad_value", 0.0)), label=var.name)

    def _concatenated(self, joined: Any, label: str) -> Any:
        fields = ir.tuple_fields(joined) or []
        if not any(f in self.pixels for f in fields) or not all(map(ir.is_var, fields)):
            return None
        found = {f: self._of(f) for f in fields}
        return self.emit("concat", ir.substitute(joined, found), axis=3, label=label)

    def _in_parts(self, var: ir.Var, value: Any) -> bool:
        """A field of a split as what is taken of the tensor."""
        got = ir.is_tuple_get(value)
        call = None if got is None else self.values.get(got[0])
        if got is None or call is None or ir.op_name(call) != "split" or not ir.is_tensor(var):
            return False
        data, axis = call.args[0], _axis(call)
        extent, sections = ir.shape_of(data)[axis], ir.attr(call, "indices_or_sections")
        cuts = ([extent // int(sections) * i for i in range(int(sections))] if isinstance(sections, int)
                else [0, *map(int, sections)])
        first = cuts[got[1]]
        index = np.arange(first, first + ir.shape_of(var)[axis], dtype=np.int32)
        self._settle(data)
        x = self.new(data)
        self.replaced[var] = self.emit("take", x, ir.constant_like(index, x), axis=axis, mode="clip", label=var.name)
        return True

    def _narrowed(self, var: ir.Var, call: ir.Call) -> None:
        """A ``take`` with places as int32: no tensor has so many elements along an axis that they need more."""
        data, places, *others = map(self.new, call.args)
        places = self.emit("astype", places, dtype="int32")
        self.bind(var, ir.make_call(self.new(call), [data, places, *others]))

    # convolutions -----------------------------------------------------------------------------------------------------

    def _convolution(self, var: ir.Var, call: ir.Call) -> Any:
        data, kernel = call.args
        layouts = tuple(str(ir.attr(call, f"{what}_layout")) for what in ("data", "kernel", "out"))
        if not ir.is_constant(kernel) or layouts != IMAGES:
            return None
        form, weights, groups = Windows.of(call), ir.const_value(kernel), int(ir.attr(call, "groups"))
        n, c, _, _ = ir.shape_of(data)
        _, channels, *places = ir.shape_of(var)
        apart = 1 < groups == c == len(weights) and (
            ir.dtype_of(var) not in INTEGERS or math.prod(form.kernel) < EXACT_TAPS)
        pixels = self._of(data)
        if apart and ir.dtype_of(var) in INTEGERS:  # before they are read: so windows are no copies, but places
            pixels = self.emit("astype", pixels, dtype="float32")
        image = self._bordered(pixels, form)
        if groups == 1:
            if not form.is_whole and self.in_place(_workload(var, image, channels, form)):
                return self._as_it_is(var, image, weights, form)
            rows = self.emit("reshape", self._windows(image, form), (n, *places, c * math.prod(form.kernel)))
            return self._product(var, rows, _matrix(weights))
        windows, shape = self._windows(image, form), (n, math.prod(places), math.prod(form.kernel), c)
        sums = self._apart(var, windows, weights, shape) if apart else self._grouped(
            var, windows, weights, groups, shape)
        return self.emit("reshape", sums, (n, *places, channels))

    def _as_it_is(self, var: ir.Var, image: Any, weights: np.ndarray, form: Windows) -> Any:
        kernel = ir.constant_like(_moved(weights, (2, 3, 1, 0)), image)
        return self.emit(
            "nn.conv2d", image, kernel, strides=list(form.strides), padding=[0, 0, 0, 0], dilation=list(form.dilation),
            groups=1, data_layout="NHWC", kernel_layout="HWIO", out_layout="NHWC", out_dtype=ir.dtype_of(var),
            label=var.name)

    def _product(self, var: ir.Var, rows: Any, weights: np.ndarray) -> Any:
        """Sums of the type that the convolution's have."""
        return self.emit("matmul", rows, ir.constant_like(weights, rows), out_dtype=ir.dtype_of(var), label=var.name)

    def _apart(self, var: ir.Var, windows: Any, weights: np.ndarray, shape: tuple[int, ...]) -> Any:
        """Each channel by itself; sums of integers by float32, which has them exactly."""
        taps = self.emit("reshape", windows, shape)
        matrix = _shaped(_moved(weights, (2, 3, 1, 0)), shape[2:])
        if ir.dtype_of(var) in INTEGERS:
            matrix = blank(matrix.shape, "float32") if is_blank(matrix) else matrix.astype(np.float32)
        scaled = self.emit("multiply", taps, ir.constant_like(matrix, taps))
        sums = self.emit("sum", scaled, axis=[2], keepdims=False, label=var.name)
        return sums if ir.dtype_of(var) == ir.dtype_of(sums) else self.emit(
            "astype", sums, dtype=ir.dtype_of(var), label=var.name)

    def _bordered(self, pixels: Any, form: Windows) -> Any:
        """An image with the padding around it."""
        top, left, bottom, right = form.padding
        return self.emit("nn.pad", pixels, pad_width=[0, 0, top, bottom, left, right, 0, 0]) if any(
            form.padding) else pixels

    def _windows(self, image: Any, form: Windows) -> Any:
        """[n, places * taps, c]: for each place of the result the pixels under the kernel."""
        n, h, w, c = ir.shape_of(image)
        if form.is_whole:
            return image
        index = np.ascontiguousarray(form.index(h, w).T).reshape(-1)
        pixels = self.emit("reshape", image, (n, h * w, c))
        return self.emit("take", pixels, ir.constant_like(index, pixels), axis=1, mode="clip")

    def _grouped(self, var: ir.Var, windows: Any, weights: np.ndarray, groups: int, shape: tuple[int, ...]) -> Any:
        """A product for each group."""
        n, places, taps, c = shape
        own, out = c // groups, len(weights) // groups
        split = self.emit("reshape", windows, (n, places, taps, groups, own))
        apart = self.emit("permute_dims", split, axes=[0, 3, 1, 2, 4])
        rows = self.emit("reshape", apart, (n * groups, places, taps * own))
        moved = _moved(_shaped(weights, (groups, out, *weights.shape[1:])), (0, 3, 4, 2, 1))
        matrices = _shaped(moved, (groups, taps * own, out))
        matrices = np.broadcast_to(matrices, (n, *matrices.shape)).reshape(-1, taps * own, out) if n > 1 else matrices
        sums = self._product(var, rows, matrices)
        images = self.emit("reshape", sums, (n, groups, places, out))
        beside = self.emit("permute_dims", images, axes=[0, 2, 1, 3])
        return self.emit("reshape", beside, (n, places, groups * out))


def _is_wide(expr: Any) -> bool:
    """Whether an argument is a computed tensor of int64."""
    return ir.is_var(expr) and ir.is_tensor(expr) and ir.dtype_of(expr) == "int64"


def _axis(call: ir.Call) -> int:
    fields = ir.tuple_fields(call.args[0])
    return int(ir.attr(call, "axis")) % len(ir.shape_of(call.args[0] if fields is None else fields[0]))


def _workload(var: ir.Var, image: Any, channels: int, form: Windows) -> Workload:
    """A convolution of an NHWC image as a target may take it."""
    n, h, w, c = ir.shape_of(image)
    return conv2d(n, h, w, c, channels, *form.kernel, stride=form.strides, dilation=form.dilation, name=var.name,
                  epilogue=Epilogue(False, 1.0, False, ir.dtype_of(var)), dtype=ir.dtype_of(image))


def _matrix(weights: np.ndarray) -> np.ndarray:
    """OIHW → [taps * c, o]"""
    return _shaped(_moved(weights, (2, 3, 1, 0)), (weights[0].size, len(weights)))


def _moved(weights: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return weights.transpose(axes)


def _shaped(weights: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Another shape; weights without numbers take no room in it either."""
    if is_blank(weights):
        return np.broadcast_to(weights.flat[0], shape)
    return np.ascontiguousarray(weights).reshape(shape)
