"""A matched piece of a network as plain data: the integer operator that a QDQ subgraph stands for, or a float one.

A network in QDQ form computes in float32 between ``dequantize`` and ``quantize``. A target that computes in integers
takes the whole piece from the dequantized operands to the requantized result. Predicates and operator strategies read
it from here and need to know nothing of Relax. A target that computes in float32 gets the operators of a float network
in the same form: operands that stand for themselves (scale 1, zero point 0), and no requantization.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from archloom.tvm_backend.ir import expressions as ir

UNNAMED = re.compile(r"[lg]v\d*(_\d+)?")


@dataclass(frozen=True, eq=False)
class QTensor:
    """An operand: ``real = scale * (value - zero_point)``; a float32 one has scale 1 and zero point 0.

    ``var`` is the variable that holds it (None for a constant, whose value is ``array``). ``shape`` is the operand's
    own; ``permutation`` lists the axes that it takes when the operator reads it transposed; ``axis`` is that of its own
    axes along which scales and zero points go, where there are several.
    """

    shape: tuple[int, ...]
    dtype: str
    scale: np.ndarray
    zero_point: np.ndarray
    var: Any = None
    array: np.ndarray | None = None
    permutation: tuple[int, ...] | None = None
    axis: int = 0

    @property
    def is_constant(self) -> bool:
        return self.array is not None

    @property
    def read_shape(self) -> tuple[int, ...]:
        """Shape as the operator reads it."""
        return tuple(self.shape[i] for i in self.permutation) if self.permutation else self.shape


@dataclass(frozen=True, eq=False)
class Stage:
    """What happens to the anchor's result, in order: ``quantize``, ``dequantize``, ``relu``, ``clip``, ``max_pool2d``,
    ``convert`` (to ``dtype``), or another of :data:`ACTIVATIONS`.

    ``scale``, ``zero_point`` and ``dtype`` belong to the first two, ``low`` and ``high`` to ``clip``, ``attrs`` to the
    pooling; ``shape`` is that of the result.
    """

    kind: str
    shape: tuple[int, ...]
    scale: np.ndarray | None = None
    zero_point: np.ndarray | None = None
    dtype: str = "float32"
    low: float = 0.0
    high: float = 0.0
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class QuantizedOp:
    """An operator on integers with what follows it, up to its requantized result.

    ``anchor`` is ``nn.conv2d``, ``matmul``, ``add`` or ``nn.attention``; ``shape`` that of its own result, before the
    stages; ``bias_shape`` that in which the bias is added to it. With ``sums`` the result is int32 as it is added up.
    Attention has three operands or, with what is added to its scores, four. ``residual``: the last operand is added to
    the anchor's result before the stages. Pieces without a product have the anchors of
    :mod:`archloom.tvm_backend.ir.sweeps`.
    """

    anchor: str
    name: str
    shape: tuple[int, ...]
    attrs: Mapping[str, Any]
    operands: tuple[QTensor, ...]
    bias: QTensor | None
    stages: tuple[Stage, ...]
    bias_shape: tuple[int, ...] = ()
    sums: bool = False
    residual: bool = False


class NotQuantized(Exception):
    """The piece is no operator on the target's numbers; the message says what was seen."""


Numbers = Literal["int8", "float32", "float16"]
"""What a target computes with: quantized networks in int8, or networks as they are in float32 or float16 (to which it
rounds what comes in float32)."""

FLOATS: Mapping[str, tuple[str, ...]] = {"float32": ("float32",), "float16": ("float32", "float16")}
"""Types of the operands that a target takes that computes in floats."""


Lookup = Callable[[Any], Any]


def read(
    root: Any, lookup: Lookup, names: Mapping[Any, str] | None = None, *, numbers: Numbers = "int8"
) -> QuantizedOp:
    """The operator on ``numbers`` whose result is ``root``.

    ``lookup`` gives the expression bound to a variable inside the piece, or None for what comes from outside. Raises
    :class:`NotQuantized`.
    """
    if numbers == "float16" and not _multiplies(root, lookup):
        return _swept(root, lookup, names)
    stages: list[Stage] = []
    expr = root
    label: list[str] = []
    while True:
        name = ir.op_name(expr)
        if name in ("nn.conv2d", "matmul"):
            return _anchored(name, expr, None, stages, lookup, label, numbers)
        if name in ("nn.attention", "nn.attention_bias"):
            return _attention(expr, stages, lookup, label, numbers)
        if name == "add":
            for side, other in ((1, 0), (0, 1)):
                bias, added = _bias(expr.args[side], lookup, numbers), expr.args[side]
                inner = lookup(expr.args[other]) if ir.is_var(expr.args[other]) else None
                if bias is not None and ir.op_name(inner) in ("nn.conv2d", "matmul"):
                    _note(label, expr.args[other], names)
                    op = _anchored(str(ir.op_name(inner)), inner, bias, stages, lookup, label, numbers)
                    return replace(op, bias_shape=ir.shape_of(added))
            if numbers == "float16" and (found := _added(expr, stages, lookup, names)) is not None:
                return found
            return _anchored("add", expr, None, stages, lookup, label, numbers)
        stage = _stage(expr, name)
        stages.append(stage)
        below = expr.args[0]
        _note(label, below, names)
        expr = lookup(below) if ir.is_var(below) else None
        if expr is None:
            raise NotQuantized(f"{stage.kind} is applied to an input, not to the result of an operator")


PRODUCTS = frozenset({"nn.conv2d", "matmul", "nn.attention", "nn.attention_bias"})


def _multiplies(root: Any, lookup: Lookup) -> bool:
    """Whether there is a product in the piece."""
    waiting, seen = [root], set()
    while waiting:
        expr = waiting.pop()
        if ir.op_name(expr) in PRODUCTS:
            return True
        for var in ir.variables(expr):
            if var not in seen:
                seen.add(var)
                inner = lookup(var)
                if ir.op_name(inner) is not None:
                    waiting.append(inner)
    return False


class _Inside(Mapping[Any, Any]):
    """The bindings that ``lookup`` knows."""

    def __init__(self, lookup: Lookup) -> None:
        self.lookup = lookup

    def __getitem__(self, var: Any) -> Any:
        found = self.lookup(var)
        if ir.op_name(found) is None:
            raise KeyError(var)
        return found

    def __iter__(self) -> Any:
        raise TypeError("the bindings of a piece are not listed")

    def __len__(self) -> int:
        raise TypeError("the bindings of a piece are not listed")


def _swept(root: Any, lookup: Lookup, names: Mapping[Any, str] | None) -> QuantizedOp:
    """A piece without a product: what a vector unit does."""
    from archloom.tvm_backend.ir.sweeps import Unread, read_sweep

    try:
        found = read_sweep(root, _Inside(lookup))
    except Unread as error:
        raise NotQuantized(str(error)) from None
    label: list[str] = []
    for var in found.variables:
        _note(label, var, names)
    operands = tuple(_float(a, i, None, FLOATS["float16"]) for i, a in enumerate(found.operands))
    name = pick_name(label, found.anchor)
    return QuantizedOp(found.anchor, name, ir.shape_of(root), found.attrs, operands, None, ())


def _added(
    expr: Any, stages: list[Stage], lookup: Lookup, names: Mapping[Any, str] | None
) -> QuantizedOp | None:
    """A product to which a tensor of its result's shape is added: the last operand; None for any other addition."""
    for side, other in ((1, 0), (0, 1)):
        inner = lookup(expr.args[other]) if ir.is_var(expr.args[other]) else None
        outside = ir.is_var(expr.args[side]) and ir.op_name(lookup(expr.args[side])) is None
        if not outside or ir.op_name(inner) not in ("nn.conv2d", "matmul", "add"):
            continue
        op = read(inner, lookup, names, numbers="float16")
        if op.anchor in ("nn.conv2d", "matmul") and not op.stages and not op.residual:
            label = [expr.args[other].name if names is None else names.get(expr.args[other], expr.args[other].name)]
            tensor = _float(expr.args[side], len(op.operands), None, FLOATS["float16"])
            return replace(op, operands=(*op.operands, tensor), residual=True, stages=tuple(reversed(stages)),
                           name=op.name if not UNNAMED.fullmatch(op.name) else label[0])
    return None


def _note(label: list[str], var: Any, names: Mapping[Any, str] | None) -> None:
    if ir.is_var(var):
        label.append(names.get(var, var.name) if names else var.name)


def _anchored(
    name: str, call: Any, bias: QTensor | None, stages: list[Stage], lookup: Lookup, label: list[str],
    numbers: Numbers,
) -> QuantizedOp:
    first, second = (_operand(a, lookup, i, numbers) for i, a in enumerate(call.args))
    attrs = {k: ATTRIBUTES[k](call, k) for k in CONV_ATTRIBUTES} if name == "nn.conv2d" else {}
    return QuantizedOp(
        name, pick_name(label, name), ir.shape_of(call), attrs, (first, second), bias, tuple(reversed(stages))
    )


def _attention(
    call: Any, stages: list[Stage], lookup: Lookup, label: list[str], numbers: Numbers
) -> QuantizedOp:
    if numbers not in FLOATS:
        raise NotQuantized("it is attention of floats")
    if ir.attr(call, "causal_mask") is not None:
        raise NotQuantized("its causal mask is not written out")
    operands = tuple(_operand(a, lookup, i, numbers) for i, a in enumerate(call.args))
    scale = ir.attr(call, "scale")
    factor = operands[0].shape[-1] ** -0.5 if scale is None else float(getattr(scale, "value", scale))
    return QuantizedOp("nn.attention", pick_name(label, "nn.attention"), ir.shape_of(call), {"scale": factor},
                       operands, None, tuple(reversed(stages)))


def pick_name(candidates: list[str], default: str) -> str:
    """The network's own name among the variables of a piece, anchor first; ``lv3`` and the like are TVM's."""
    for name in reversed(candidates):
        if not UNNAMED.fullmatch(name):
            return name
    return candidates[-1] if candidates else default


CONV_ATTRIBUTES = ("strides", "padding", "dilation", "groups", "data_layout", "kernel_layout", "out_layout")
ACTIVATIONS: Mapping[str, str] = {
    "nn.gelu": "gelu", "nn.gelu_tanh": "gelu", "nn.silu": "silu", "sigmoid": "sigmoid", "tanh": "tanh",
}
"""Operators that are stages by another name, beside ReLU."""
POOL_ATTRIBUTES = ("pool_size", "strides", "padding", "dilation", "ceil_mode", "layout")
ATTRIBUTES: dict[str, Callable[[Any, str], Any]] = {
    **dict.fromkeys(("strides", "padding", "dilation", "pool_size"), ir.attr_ints),
    **dict.fromkeys(("groups", "data_layout", "kernel_layout", "out_layout", "ceil_mode", "layout"), ir.attr),
}


def _stage(call: Any, name: str | None) -> Stage:
    shape = ir.shape_of(call) if ir.is_tensor(call) else ()
    if name in ("quantize", "dequantize"):
        if not (ir.is_constant(call.args[1]) and ir.is_constant(call.args[2])):
            raise NotQuantized(f"{name} has a scale or zero point that is no constant")
        return Stage(
            name, shape, ir.const_value(call.args[1]), ir.const_value(call.args[2]), ir.dtype_of(call)
        )
    if name == "astype":
        return Stage("convert", shape, dtype=ir.dtype_of(call))
    if name == "nn.relu":
        return Stage("relu", shape)
    if name == "clip":
        low, high = (float(ir.scalar_of(a)) for a in call.args[1:])
        return Stage("clip", shape, low=low, high=high)
    if name is not None and name in ACTIVATIONS:
        return Stage(ACTIVATIONS[name], shape)
    if name == "nn.max_pool2d":
        return Stage("max_pool2d", shape, attrs={k: ATTRIBUTES[k](call, k) for k in POOL_ATTRIBUTES})
    raise NotQuantized(f"{name or 'its input'} stands where a convolution, a matmul or an addition was expected")


def _operand(expr: Any, lookup: Lookup, index: int, numbers: Numbers) -> QTensor:
    permutation, source = None, expr
    inner = lookup(expr) if ir.is_var(expr) else expr
    if ir.op_name(inner) == "permute_dims":
        ndim = len(ir.shape_of(inner))
        permutation = tuple(reversed(range(ndim))) if inner.attrs.axes is None else ir.attr_ints(inner, "axes")
        source = inner.args[0]
        inner = lookup(source) if ir.is_var(source) else source
    if numbers in FLOATS:
        return _float(source, index, permutation, FLOATS[numbers])
    if ir.op_name(inner) != "dequantize":
        kind = ir.dtype_of(expr) if ir.is_tensor(expr) else "?"
        raise NotQuantized(
            f"operand {index} is {kind} that does not come from a dequantize: the network is not quantized here"
        )
    return _dequantized(inner, permutation)


def _dequantized(call: Any, permutation: tuple[int, ...] | None) -> QTensor:
    data, scale, zero = call.args
    if not (ir.is_constant(scale) and ir.is_constant(zero)):
        raise NotQuantized("dequantize has a scale or zero point that is no constant")
    constant = ir.is_constant(data)
    return QTensor(
        ir.shape_of(data), ir.dtype_of(data), ir.const_value(scale), ir.const_value(zero),
        None if constant else data, ir.const_value(data) if constant else None, permutation,
        int(ir.attr(call, "axis")),
    )


_ONE, _ZERO = np.asarray(1, np.float32), np.asarray(0, np.float32)


def _float(
    expr: Any, index: int, permutation: tuple[int, ...] | None, types: tuple[str, ...] = ("float32",)
) -> QTensor:
    """A float operand as it is: a variable or a constant."""
    if not ir.is_tensor(expr) or ir.dtype_of(expr) not in types:
        raise NotQuantized(f"operand {index} is {ir.dtype_of(expr) if ir.is_tensor(expr) else '?'}")
    constant = ir.is_constant(expr)
    return QTensor(
        ir.shape_of(expr), ir.dtype_of(expr), _ONE, _ZERO, None if constant else expr,
        ir.const_value(expr) if constant else None, permutation,
    )


def _bias(expr: Any, lookup: Lookup, numbers: Numbers) -> QTensor | None:
    """A dequantized constant of integers wider than a byte, or a float constant, as it is added to sums."""
    if numbers in FLOATS:
        floats = ir.is_constant(expr) and ir.dtype_of(expr) in FLOATS[numbers]
        return _float(expr, 2, None, FLOATS[numbers]) if floats else None
    inner = lookup(expr) if ir.is_var(expr) else expr
    if ir.op_name(inner) == "reshape":
        inner = lookup(inner.args[0]) if ir.is_var(inner.args[0]) else inner.args[0]
    if ir.is_constant(inner):
        return _float(inner, 2, None) if ir.dtype_of(inner) == "float32" else None
    if inner is None or ir.op_name(inner) != "dequantize" or not ir.is_constant(inner.args[0]):
        return None
    tensor = _dequantized(inner, None)
    return tensor if tensor.dtype == "int32" else None
