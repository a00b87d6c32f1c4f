"""A matched piece of a network as plain data: the integer operator that a QDQ subgraph stands for, or a float one.

A network in QDQ form computes in float32 between ``dequantize`` and ``quantize``. A target that computes in integers
takes the whole piece from the dequantized operands to the requantized result. Predicates and operator strategies read
it from here and need to know nothing of Relax. A target that computes in float32 gets the operators of a float network
in the same form: operands that stand for themselves (scale 1, zero point 0), and no requantization.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from archloom.mapper.nests import HALVES
from archloom.mapper.workload import Epilogue
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.attention import ATTENTION, attention_scale, causal_diagonal
from archloom.tvm_backend.ir.names import is_made_up
from archloom.tvm_backend.ir.nests import NEST, read_piece
from archloom.tvm_backend.ir.numbers import FLOATS, Numbers, is_quantized
from archloom.tvm_backend.ir.operators import ACTIVATIONS
from archloom.tvm_backend.ir.sweeps import NotQuantized as NotQuantized
from archloom.tvm_backend.ir.sweeps import read_sweep


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
    ``convert`` (to ``dtype``), or another of :data:`~archloom.tvm_backend.ir.operators.ACTIVATIONS`.

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
    stages; ``bias_shape`` that in which the bias is added to it. An ``epilogue`` says what is made of the sums where
    stages do not. Attention has three operands or, with what is added to its scores, four. ``residual``: the last
    operand is added to the anchor's result before the stages. Pieces without a product have the anchors of
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
    epilogue: Epilogue | None = None
    residual: bool = False


PRODUCTS = frozenset({"nn.conv2d", "matmul", *ATTENTION})
INTEGERS, SUMS = ("int8",), "int32"
MIXED = {("int8", SUMS): INTEGERS, **{(half, "float32"): (half,) for half in HALVES}}
"""Operands of products in mixed precision, by the first one's type and that of the sums: for targets that take all
operators."""


def read(
    root: Any, lookup: ir.Lookup, *, numbers: Numbers = "int8", vectors: bool = False, nests: bool = False,
) -> QuantizedOp:
    """The operator on ``numbers`` whose result is ``root``. Raises :class:`NotQuantized`.

    ``lookup`` gives the expression bound to a variable inside the piece, or None for what comes from outside.
    ``vectors``: the target takes pieces without a product. ``nests``: it takes pieces without a product as nests of
    loops. Both read products to which a tensor is added.
    """
    if nests and not _multiplies(root, lookup):
        piece = read_piece(root, lookup)
        operands = tuple(_given(expr) for expr in piece.operands)
        return QuantizedOp(NEST, _own_name(piece.names, NEST), ir.shape_of(root), {"piece": piece}, operands, None, ())
    if vectors and not _multiplies(root, lookup):
        anchor, attrs, given, variables = read_sweep(root, lookup)
        operands = tuple(_float(a, i, None, FLOATS[numbers]) for i, a in enumerate(given))
        name = _own_name([var.name for var in variables], anchor)
        return QuantizedOp(anchor, name, ir.shape_of(root), attrs, operands, None, ())
    return _Reader(lookup, numbers, vectors or nests).operator(root)


def _multiplies(root: Any, lookup: ir.Lookup) -> bool:
    """Whether there is a product in the piece."""
    waiting, seen = [root], set()
    while waiting:
        expr = waiting.pop()
        if ir.op_name(expr) in PRODUCTS:
            return True
        fresh = [var for var in ir.variables(expr) if var not in seen]
        seen.update(fresh)
        waiting += [inner for var in fresh if ir.op_name(inner := lookup(var)) is not None]
    return False


def _own_name(candidates: Sequence[str], default: str) -> str:
    """The network's own name among those of a piece's variables, anchor (the last) first."""
    own = (name for name in reversed(candidates) if not is_made_up(name))
    return next(own, candidates[-1] if candidates else default)


@dataclass
class _Reader:
    """One piece, from its result upwards: ``stages``, the last one first, and the names of the variables on the way."""

    lookup: ir.Lookup
    numbers: Numbers
    adds: bool
    stages: list[Stage] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.types = FLOATS.get(self.numbers, ())

    def operator(self, expr: Any) -> QuantizedOp:
        """The operator whose result is ``expr``, followed by the stages so far."""
        while True:
            name = ir.op_name(expr)
            if name in ("nn.conv2d", "matmul"):
                return self._anchored(name, expr, None)
            if name in ATTENTION:
                return self._attention(expr)
            if name == "add":
                return self._biased(expr) or self._with_tensor(expr) or self._anchored("add", expr, None)
            stage = _stage(expr, name)
            self.stages.append(stage)
            expr = self._below(expr.args[0])
            if expr is None:
                raise NotQuantized(f"{stage.kind} is applied to an input, not to the result of an operator")

    def _inside(self, expr: Any) -> Any:
        """What a variable inside the piece is bound to; None for one from outside."""
        return self.lookup(expr) if ir.is_var(expr) else None

    def _below(self, expr: Any) -> Any:
        """The same, and the variable's name is noted."""
        if ir.is_var(expr):
            self.names.append(expr.name)
        return self._inside(expr)

    def _anchored(self, name: str, call: ir.Call, bias: QTensor | None) -> QuantizedOp:
        if self.adds and not is_quantized(self.numbers):
            self.types = MIXED.get((ir.dtype_of(call.args[0]), ir.dtype_of(call)), self.types)
        sums = self.types == INTEGERS
        first, second = (self._operand(a, i) for i, a in enumerate(call.args))
        attrs = {k: ir.attr(call, k) for k in CONV_ATTRIBUTES} if name == "nn.conv2d" else {}
        epilogue = Epilogue(bias is not None, 1.0, False, SUMS) if sums else None
        return QuantizedOp(name, _own_name(self.names, name), ir.shape_of(call), attrs, (first, second), bias,
                           tuple(reversed(self.stages)), epilogue=epilogue)

    def _biased(self, call: ir.Call) -> QuantizedOp | None:
        """An addition of a bias to a product; None for any other."""
        for side, other in ((1, 0), (0, 1)):
            bias, inner = self._bias(call.args[side]), self._inside(call.args[other])
            name = ir.op_name(inner)
            if bias is not None and name in ("nn.conv2d", "matmul"):
                op = self._anchored(name, self._below(call.args[other]), bias)
                return replace(op, bias_shape=ir.shape_of(call.args[side]))
        return None

    def _with_tensor(self, call: ir.Call) -> QuantizedOp | None:
        """A product to which a tensor of its result's shape is added: the last operand; None for any other addition."""
        for side, other in ((1, 0), (0, 1)) if self.adds else ():
            added, product = call.args[side], call.args[other]
            inner = self._inside(product)
            outside = ir.is_var(added) and ir.op_name(self.lookup(added)) is None
            if not outside or ir.op_name(inner) not in ("nn.conv2d", "matmul", "add"):
                continue
            op = read(inner, self.lookup, numbers=self.numbers, vectors=True)
            if op.anchor in ("nn.conv2d", "matmul") and not op.stages and not op.residual:
                tensor = _float(added, len(op.operands), None, FLOATS[self.numbers])
                return replace(op, operands=(*op.operands, tensor), residual=True, stages=tuple(reversed(self.stages)),
                               name=product.name if is_made_up(op.name) else op.name)
        return None

    def _attention(self, call: ir.Call) -> QuantizedOp:
        if is_quantized(self.numbers):
            raise NotQuantized("it is attention of floats")
        if causal_diagonal(call) is not None:
            raise NotQuantized("its causal mask is not written out")
        operands = tuple(self._operand(a, i) for i, a in enumerate(call.args))
        return QuantizedOp("nn.attention", _own_name(self.names, "nn.attention"), ir.shape_of(call),
                           {"scale": attention_scale(call)}, operands, None, tuple(reversed(self.stages)))

    def _operand(self, expr: Any, index: int) -> QTensor:
        permutation, source = None, expr
        inner = self.lookup(expr) if ir.is_var(expr) else expr
        if ir.op_name(inner) == "permute_dims":
            permutation = ir.permutation(inner)
            source = inner.args[0]
            inner = self.lookup(source) if ir.is_var(source) else source
        if not is_quantized(self.numbers):
            return _float(source, index, permutation, self.types)
        if ir.op_name(inner) != "dequantize":
            kind = ir.dtype_of(expr) if ir.is_tensor(expr) else "?"
            raise NotQuantized(
                f"operand {index} is {kind} that does not come from a dequantize: the network is not quantized here")
        return _dequantized(inner, permutation)

    def _bias(self, expr: Any) -> QTensor | None:
        """A dequantized constant of integers wider than a byte, or a float constant, as it is added to sums."""
        if not is_quantized(self.numbers):
            types = (*self.types, SUMS) if self.adds else self.types
            return _float(expr, 2, None, types) if ir.is_constant(expr) and ir.dtype_of(expr) in types else None
        inner = self.lookup(expr) if ir.is_var(expr) else expr
        if ir.op_name(inner) == "reshape":
            inner = self.lookup(inner.args[0]) if ir.is_var(inner.args[0]) else inner.args[0]
        if ir.is_constant(inner):
            return _float(inner, 2, None, FLOATS["float32"]) if ir.dtype_of(inner) == "float32" else None
        if ir.op_name(inner) != "dequantize" or not ir.is_constant(inner.args[0]):
            return None
        tensor = _dequantized(inner, None)
        return tensor if tensor.dtype == "int32" else None


CONV_ATTRIBUTES = ("strides", "padding", "dilation", "groups", "data_layout", "kernel_layout", "out_layout")
POOL_ATTRIBUTES = ("pool_size", "strides", "padding", "dilation", "ceil_mode", "layout")


def _stage(call: ir.Call, name: str | None) -> Stage:
    shape = ir.shape_of(call) if ir.is_tensor(call) else ()
    if name in ("quantize", "dequantize"):
        if not (ir.is_constant(call.args[1]) and ir.is_constant(call.args[2])):
            raise NotQuantized(f"{name} has a scale or zero point that is no constant")
        return Stage(name, shape, ir.const_value(call.args[1]), ir.const_value(call.args[2]), ir.dtype_of(call))
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
        return Stage("max_pool2d", shape, attrs={k: ir.attr(call, k) for k in POOL_ATTRIBUTES})
    raise NotQuantized(f"{name or 'its input'} stands where a convolution, a matmul or an addition was expected")


def _dequantized(call: ir.Call, permutation: tuple[int, ...] | None) -> QTensor:
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


def _given(expr: Any) -> QTensor:
    """An operand of a nest as it is."""
    constant = ir.is_constant(expr)
    return QTensor(ir.shape_of(expr), ir.dtype_of(expr), _ONE, _ZERO, None if constant else expr,
                   ir.const_value(expr) if constant else None)


def _float(expr: Any, index: int, permutation: tuple[int, ...] | None, types: tuple[str, ...]) -> QTensor:
    """A float operand as it is: a variable or a constant."""
    if not ir.is_tensor(expr) or ir.dtype_of(expr) not in types:
        raise NotQuantized(f"operand {index} is {ir.dtype_of(expr) if ir.is_tensor(expr) else '?'}")
    constant = ir.is_constant(expr)
    return QTensor(
        ir.shape_of(expr), ir.dtype_of(expr), _ONE, _ZERO, None if constant else expr,
        ir.const_value(expr) if constant else None, permutation,
    )
