"""What is known of each operator, one row for each: all else that depends on an operator's name is read off here.

Names are Relax's, without ``relax.``. Translations to JAX are named, not imported: :mod:`archloom.tvm_backend.host`
looks them up when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from archloom.tvm_backend.ir import infer
from archloom.tvm_backend.ir.nodes import Call, Type, Unsupported

Cost: TypeAlias = Literal["free", "move", "arithmetic", "transcendental", "reduction", "gather"]
"""What an operator that is no product costs a host: ``free`` ones only name the same bytes anew."""


@dataclass(frozen=True)
class Result:
    """What folding a call must give, and the call's attributes."""

    shape: tuple[int, ...]
    dtype: str
    attr: Callable[[str], Any]


@dataclass(frozen=True)
class Operator:
    """One operator.

    ``type`` gives a plain call's type; ``fold`` computes the call on arrays, shapes and numbers with NumPy, up to the
    type and shape of the :class:`Result`. ``xla`` names its translation: a function of :mod:`jax` by its path, or one
    of :mod:`archloom.tvm_backend.host.operators`. ``heavy``: TVM's untuned code for it is much slower
    than XLA's, or ends the process (integers divided by zero), or leaves results to the processor (shifts by more than
    there are bits). ``vector``: what a vector unit makes of it, applied one after the other, to one tensor or
    (``binary``) to two; ``scalar``: the scalar operations that it is, where ``vector`` does not say it; ``rows``: a
    vector unit's operator of rows or columns. ``stage``: it may follow a product, and treats all elements alike.
    """

    type: Callable[[Call], Type] | None = None
    fold: Callable[..., Any] | None = None
    xla: str | None = None
    heavy: bool = False
    cost: Cost = "arithmetic"
    vector: tuple[str, ...] = ()
    binary: bool = False
    scalar: tuple[str, ...] = ()
    rows: bool = False
    stage: bool = False


def _by(function: Callable[..., Any]) -> Callable[..., Any]:
    """Folding by a function of the arguments alone."""
    return lambda result, *args: function(*args)


def _strided_slice(result: Result, x: np.ndarray, axes: Any, begin: Any, end: Any, strides: Any = None) -> np.ndarray:
    return x[slices(x.shape, axes, begin, end, strides)]


def slices(shape: tuple[int, ...], axes: Any, begin: Any, end: Any, strides: Any) -> tuple[slice, ...]:
    """The index of a ``strided_slice``."""
    index = [slice(None)] * len(shape)
    for i, axis in enumerate(map(int, axes)):
        step = 1 if strides is None else int(strides[i])
        stop: int | None = int(end[i])
        if step < 0 and stop is not None and stop < -shape[axis]:
            stop = None
        index[axis] = slice(int(begin[i]), stop, step)
    return tuple(index)


_SAME, _TRUTH = infer.first, infer.truth
_HEAVY: dict[str, Any] = {"heavy": True, "cost": "reduction"}
_TRANSCENDENTAL: dict[str, Any] = {"cost": "transcendental"}
_MOVE: dict[str, Any] = {"cost": "move"}


def _arithmetic(name: str, function: Callable[..., Any] | None, xla: str) -> Operator:
    return Operator(infer.arithmetic, function and _by(function), xla, vector=(name,), binary=True)


def _comparison(function: Callable[..., Any], xla: str, known: bool = True, scalar: tuple[str, ...] = ()) -> Operator:
    return Operator(infer.comparison if known else None, _by(function), xla, scalar=scalar)


OPERATORS: Mapping[str, Operator] = {
    # of one tensor, element by element
    "nn.relu": Operator(_SAME, xla="relu", vector=("relu",), stage=True),
    "nn.gelu": Operator(_SAME, xla="gelu", heavy=True, vector=("gelu",), stage=True, **_TRANSCENDENTAL),
    "nn.gelu_tanh": Operator(_SAME, xla="gelu_tanh", vector=("gelu",), scalar=("gelu_tanh",), stage=True,
                             **_TRANSCENDENTAL),
    "nn.silu": Operator(_SAME, xla="silu", vector=("silu",), stage=True, **_TRANSCENDENTAL),
    "sigmoid": Operator(_SAME, xla="nn.sigmoid", vector=("sigmoid",), stage=True, **_TRANSCENDENTAL),
    "tanh": Operator(_SAME, xla="numpy.tanh", vector=("tanh",), stage=True, **_TRANSCENDENTAL),
    "exp": Operator(_SAME, _by(np.exp), "numpy.exp", vector=("exp",), **_TRANSCENDENTAL),
    "sqrt": Operator(_SAME, _by(np.sqrt), "numpy.sqrt", vector=("sqrt",), **_TRANSCENDENTAL),
    "rsqrt": Operator(_SAME, xla="lax.rsqrt", vector=("sqrt", "reciprocal"), **_TRANSCENDENTAL),
    "negative": Operator(_SAME, _by(np.negative), "numpy.negative", vector=("negate",)),
    "abs": Operator(_SAME, _by(np.abs), "numpy.abs", vector=("abs",)),
    "square": Operator(fold=_by(np.square), xla="square", vector=("square",)),
    "clip": Operator(_SAME, xla="numpy.clip", scalar=("clip",), stage=True),
    "erf": Operator(_SAME, xla="lax.erf", scalar=("erf",), heavy=True, **_TRANSCENDENTAL),
    "log": Operator(_SAME, xla="numpy.log", **_TRANSCENDENTAL),
    "sin": Operator(_SAME, xla="numpy.sin", scalar=("sin",), **_TRANSCENDENTAL),
    "cos": Operator(_SAME, xla="numpy.cos", scalar=("cos",), **_TRANSCENDENTAL),
    **{name: Operator(_SAME, xla=f"numpy.{name}", scalar=(name,)) for name in ("floor", "ceil", "round")},
    "sign": Operator(xla="numpy.sign"), "isnan": Operator(_TRUTH, xla="numpy.isnan"),
    "logical_not": Operator(_TRUTH, _by(np.invert), "numpy.invert", scalar=("not",)),
    "bitwise_not": Operator(fold=_by(np.invert), xla="numpy.invert"),
    "nn.leakyrelu": Operator(_SAME, xla="leaky_relu"), "nn.softplus": Operator(**_TRANSCENDENTAL),
    "nn.dropout": Operator(xla="dropout"),
    "astype": Operator(infer.astype, lambda r, a: a.astype(r.dtype), "astype", **_MOVE),
    "quantize": Operator(infer.of_out_dtype, xla="quantize", stage=True),
    "dequantize": Operator(infer.of_out_dtype, xla="dequantize", stage=True),
    # of several
    "add": _arithmetic("add", np.add, "numpy.add"), "subtract": _arithmetic("subtract", np.subtract, "numpy.subtract"),
    "multiply": _arithmetic("multiply", np.multiply, "product"),
    "divide": _arithmetic("divide", np.true_divide, "divide"),
    "maximum": _arithmetic("maximum", None, "numpy.maximum"), "minimum": _arithmetic("minimum", None, "numpy.minimum"),
    "power": Operator(infer.arithmetic, _by(np.power), "numpy.power", **_TRANSCENDENTAL),
    "floor_divide": Operator(xla="numpy.floor_divide", heavy=True),
    "mod": Operator(fold=_by(np.fmod), xla="numpy.fmod", heavy=True),
    "floor_mod": Operator(fold=_by(np.mod), xla="numpy.mod", heavy=True),
    "left_shift": Operator(fold=_by(np.left_shift), xla="numpy.left_shift", heavy=True),
    "right_shift": Operator(fold=_by(np.right_shift), xla="numpy.right_shift", heavy=True),
    "logical_xor": Operator(xla="numpy.bitwise_xor"),
    "equal": _comparison(np.equal, "numpy.equal", scalar=("equal",)),
    "not_equal": _comparison(np.not_equal, "numpy.not_equal", scalar=("not_equal",)),
    "less": _comparison(np.less, "numpy.less", scalar=("less",)),
    "less_equal": _comparison(np.less_equal, "numpy.less_equal", scalar=("less_equal",)),
    "greater": _comparison(np.greater, "numpy.greater", scalar=("greater",)),
    "greater_equal": _comparison(np.greater_equal, "numpy.greater_equal", scalar=("greater_equal",)),
    "logical_and": _comparison(np.bitwise_and, "numpy.bitwise_and", scalar=("both",)),
    "logical_or": _comparison(np.bitwise_or, "numpy.bitwise_or"),
    "bitwise_and": _comparison(np.bitwise_and, "numpy.bitwise_and", False, ("both",)),
    "bitwise_or": _comparison(np.bitwise_or, "numpy.bitwise_or", False),
    "where": Operator(infer.where, _by(np.where), "numpy.where", scalar=("choose",), cost="gather"),
    # reductions and normalizations
    "sum": Operator(infer.reduction, lambda r, a: np.sum(a, r.attr("axis"), keepdims=bool(r.attr("keepdims"))), "sum",
                    rows=True, **_HEAVY),
    "mean": Operator(infer.reduction, xla="mean", rows=True, **_HEAVY),
    "max": Operator(infer.reduction, xla="max", rows=True, **_HEAVY),
    **{name: Operator(infer.reduction, xla=name, **_HEAVY) for name in ("min", "variance")},
    "prod": Operator(xla="prod", heavy=True), "std": Operator(heavy=True),
    "cumsum": Operator(_SAME, lambda r, a: np.cumsum(a, r.attr("axis")), "cumsum", **_HEAVY),
    "nn.softmax": Operator(_SAME, xla="softmax", heavy=True, rows=True, **_TRANSCENDENTAL),
    "nn.log_softmax": Operator(_SAME, xla="log_softmax", heavy=True, **_TRANSCENDENTAL),
    "nn.layer_norm": Operator(_SAME, xla="layer_norm", rows=True, **_HEAVY),
    "nn.rms_norm": Operator(_SAME, xla="rms_norm", rows=True, **_HEAVY),
    "nn.batch_norm": Operator(infer.batch_norm, xla="batch_norm", **_HEAVY),
    "nn.group_norm": Operator(xla="group_norm", **_HEAVY),
    "nn.instance_norm": Operator(xla="instance_norm", heavy=True),
    # products and windows
    "matmul": Operator(infer.matmul, _by(np.matmul), "matmul", heavy=True), "einsum": Operator(heavy=True),
    "nn.conv1d": Operator(infer.convolution, xla="convolution", heavy=True),
    "nn.conv2d": Operator(infer.convolution, xla="convolution", heavy=True), "nn.conv3d": Operator(heavy=True),
    "nn.conv3d_transpose": Operator(heavy=True), "nn.conv1d_transpose": Operator(xla="conv_transpose", heavy=True),
    "nn.conv2d_transpose": Operator(xla="conv_transpose", heavy=True),
    "nn.attention": Operator(infer.attention, xla="attention", heavy=True),
    "nn.attention_bias": Operator(infer.attention, xla="attention", heavy=True),
    **{f"nn.{kind}_pool{rank}d": Operator(infer.pool, xla=f"{kind}_pool", **_HEAVY)
       for kind in ("max", "avg") for rank in (1, 2, 3)},
    "nn.adaptive_avg_pool2d": Operator(xla="adaptive_average", heavy=True, rows=True),
    "image.resize2d": Operator(infer.resize, xla="resize", heavy=True, cost="move"),
    # shapes
    "reshape": Operator(infer.reshape, lambda r, a, s: a, "reshaped", cost="free"),
    "flatten": Operator(xla="reshaped"),
    "expand_dims": Operator(infer.expand_dims, lambda r, a: a, "reshaped", cost="free"),
    "squeeze": Operator(infer.squeeze, lambda r, a: a, "reshaped", cost="free"),
    "shape_of": Operator(infer.shape_of, cost="free"), "tuple": Operator(cost="free"),
    "shape_to_tensor": Operator(infer.shape_to_tensor, lambda r, s: np.array(s, np.int64), cost="free"),
    "broadcast_to": Operator(infer.broadcast_to, lambda r, a, s: np.broadcast_to(a, s), "broadcast", **_MOVE),
    "permute_dims": Operator(infer.permute, lambda r, a: np.transpose(a, r.attr("axes")), "permute", **_MOVE),
    "concat": Operator(infer.concat, lambda r, t: np.concatenate(t, r.attr("axis")), "concat", **_MOVE),
    "split": Operator(infer.split, xla="split", **_MOVE),
    "stack": Operator(infer.stack, lambda r, t: np.stack(t, r.attr("axis")), xla="stack", **_MOVE),
    "strided_slice": Operator(infer.strided_slice, _strided_slice, "strided_slice", **_MOVE),
    "nn.pad": Operator(infer.pad, xla="pad", **_MOVE), "tile": Operator(infer.tile, xla="tile", **_MOVE),
    "flip": Operator(**_MOVE), "repeat": Operator(xla="repeat"), "tril": Operator(xla="numpy.tril"),
    "triu": Operator(xla="numpy.triu"),
    "take": Operator(infer.take, lambda r, a, i: np.take(
        a, i, r.attr("axis"), mode="wrap" if r.attr("mode") == "wrap" else "clip"), "take", cost="gather"),
    "gather_nd": Operator(infer.gather_nd, xla="gather_nd", cost="gather"),
    "gather_elements": Operator(infer.gather_elements, lambda r, a, i: np.take_along_axis(a, i, r.attr("axis")),
                                "gather_elements", cost="gather"),
    "scatter_nd": Operator(cost="gather"), "scatter_elements": Operator(cost="gather"),
    "index_tensor": Operator(fold=lambda r, a, i: a[tuple(i)], xla="index_tensor"),
    # from no tensor: positions and masks, which exporters compute step by step
    "full": Operator(fold=lambda r, s, v: np.full(s, v, r.dtype)),
    "zeros": Operator(fold=lambda r, s: np.zeros(s, r.dtype)), "ones": Operator(fold=lambda r, s: np.ones(s, r.dtype)),
    "arange": Operator(fold=lambda r, start, end, step: np.arange(start, end, step), xla="arange"),
    # what the host does to tensors on their way to and from targets
    **dict.fromkeys(("to_tiles", "from_tiles", "to_windows", "from_places", "retile"), Operator(**_MOVE)),
}

_NONE = Operator()


def operator(name: str | None) -> Operator:
    """What is known of an operator; nothing, of one that has no row."""
    return OPERATORS.get(name or "", _NONE)


def type_of_call(call: Call) -> Type:
    """The type of a plain call; Unsupported for an operator that has no rule or arguments that do not fit."""
    if not isinstance(call.op, str):
        raise Unsupported("the type of a call of a function")
    rule = operator(call.op).type
    if rule is None:
        raise Unsupported(f"the type of {call.op}")
    return rule(call)


UNARY: Mapping[str, tuple[str, ...]] = {n: o.vector for n, o in OPERATORS.items() if o.vector and not o.binary}
"""What a vector unit makes of each operator of one tensor."""
BINARY = tuple(name for name, o in OPERATORS.items() if o.binary)
ROWS = frozenset(name for name, o in OPERATORS.items() if o.rows)
"""Operators of rows or columns."""
SWEPT = frozenset({*UNARY, *BINARY, "power", "clip", *ROWS})
"""All operators that a target with vector instructions might take."""
ACTIVATIONS: Mapping[str, str] = {
    name: o.vector[0] for name, o in OPERATORS.items() if o.stage and o.vector and name != "nn.relu"}
"""Operators that are stages of a product by another name, beside ReLU."""
