"""Passes over an imported network: fold constants with NumPy, give each consumer its own dequantize."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from archloom.oracle.errors import InputError, suggest
from archloom.tvm_backend.ir import expressions as compat

MAX_FOLDED_BYTES = 1 << 28
"""A constant expression larger than this stays an expression."""


def fold_constants(module: compat.IRModule) -> compat.IRModule:
    """Evaluate operators on constants with NumPy (TVM's own folding compiles each through LLVM).

    ``quantize`` and ``dequantize`` stay: they carry the numbers by which quantized operators are recognized.
    """
    main = module["main"]
    known: dict[Any, np.ndarray] = {}
    kept = []
    for binding in compat.bindings(main):
        value = _folded(binding.value, known)
        if value is None:
            kept.append(binding)
        else:
            known[binding.var] = value
    if not known:
        return module
    constants = {var: compat.constant_like(value, var) for var, value in known.items()}
    body = [compat.bind(b.var, compat.substitute(b.value, constants)) for b in kept]
    results = [constants.get(r, r) if compat.is_var(r) else r for r in compat.outputs_of(main)]
    read = {var for expr in [*(b.value for b in body), *results] for var in compat.variables(expr)}
    body = [b for b in body if compat.op_name(b.value) != "shape_of" or b.var in read]
    return compat.replace_main(module, compat.rebuild(main, body, results))


def _folded(expr: Any, known: Mapping[Any, np.ndarray]) -> np.ndarray | None:
    name = compat.op_name(expr)
    rule = FOLD.get(name) if name else None
    if rule is None or not compat.is_tensor(expr):
        return None
    size = int(np.prod(compat.shape_of(expr))) * np.dtype(compat.dtype_of(expr)).itemsize
    if size > MAX_FOLDED_BYTES:
        return None
    if name == "matmul" and size * compat.shape_of(expr.args[0])[-1] > MAX_FOLDED_BYTES:
        return None
    args = [_known(a, known) for a in expr.args]
    if any(a is None for a in args):
        return None
    with np.errstate(all="ignore"):
        result = rule(expr, *args)
    return np.ascontiguousarray(result).astype(compat.dtype_of(expr), copy=False).reshape(compat.shape_of(expr))


def _known(expr: Any, known: Mapping[Any, np.ndarray]) -> Any:
    if compat.is_constant(expr):
        return compat.const_value(expr)
    if compat.is_var(expr):
        return known[expr] if expr in known else compat.shape_values(expr)
    fields = compat.tuple_fields(expr)
    if fields is not None:
        values = [_known(f, known) for f in fields]
        return None if any(v is None for v in values) else tuple(values)
    shape = compat.shape_values(expr)
    return shape if shape is not None else compat.scalar_of(expr)


def _strided_slice(call: Any, x: np.ndarray, axes: Any, begin: Any, end: Any, strides: Any = None) -> np.ndarray:
    index: list[slice] = [slice(None)] * x.ndim
    for i, axis in enumerate(axes):
        step = 1 if strides is None else int(strides[i])
        stop: int | None = int(end[i])
        if step < 0 and stop is not None and stop < -x.shape[axis]:
            stop = None
        index[axis] = slice(int(begin[i]), stop, step)
    return x[tuple(index)]


def _axes(call: Any) -> tuple[int, ...] | None:
    return None if call.attrs.axes is None else compat.attr_ints(call, "axes")


def _axis(call: Any) -> tuple[int, ...] | None:
    return None if call.attrs.axis is None else compat.attr_ints(call, "axis")


FOLD: dict[str, Callable[..., Any]] = {
    "add": lambda c, a, b: a + b,
    "subtract": lambda c, a, b: a - b,
    "multiply": lambda c, a, b: a * b,
    "negative": lambda c, a: -a,
    "divide": lambda c, a, b: a / b,
    "sqrt": lambda c, a: np.sqrt(a),
    "square": lambda c, a: np.square(a),
    "abs": lambda c, a: np.abs(a),
    "exp": lambda c, a: np.exp(a),
    "power": lambda c, a, b: np.power(a, b),
    "sum": lambda c, a: np.sum(a, _axis(c), keepdims=bool(compat.attr(c, "keepdims"))),
    "reshape": lambda c, a, s: a.reshape(s),
    "broadcast_to": lambda c, a, s: np.broadcast_to(a, s),
    "permute_dims": lambda c, a: np.transpose(a, _axes(c)),
    "expand_dims": lambda c, a: a.reshape(compat.shape_of(c)),
    "squeeze": lambda c, a: a.reshape(compat.shape_of(c)),
    "astype": lambda c, a: a.astype(compat.dtype_of(c)),
    "concat": lambda c, t: np.concatenate(t, compat.attr(c, "axis")),
    "full": lambda c, s, v: np.full(s, v, compat.dtype_of(c)),
    "zeros": lambda c, s: np.zeros(s, compat.dtype_of(c)),
    "ones": lambda c, s: np.ones(s, compat.dtype_of(c)),
    "matmul": lambda c, a, b: np.matmul(a, b),
    # positions and masks, which exporters compute step by step
    "arange": lambda c, start, end, step: np.arange(start, end, step).astype(compat.dtype_of(c)),
    "equal": lambda c, a, b: a == b, "not_equal": lambda c, a, b: a != b,
    "less": lambda c, a, b: a < b, "less_equal": lambda c, a, b: a <= b,
    "greater": lambda c, a, b: a > b, "greater_equal": lambda c, a, b: a >= b,
    "logical_and": lambda c, a, b: a & b, "logical_or": lambda c, a, b: a | b, "logical_not": lambda c, a: ~a,
    "bitwise_and": lambda c, a, b: a & b, "bitwise_or": lambda c, a, b: a | b, "bitwise_not": lambda c, a: ~a,
    "where": lambda c, m, a, b: np.where(m, a, b),
    "cumsum": lambda c, a: np.cumsum(a, compat.attr(c, "axis")),
    "stack": lambda c, t: np.stack(t, compat.attr(c, "axis")),
    "index_tensor": lambda c, a, i: a[tuple(i)],
    "gather_elements": lambda c, a, i: np.take_along_axis(a, i, compat.attr(c, "axis")),
    "take": lambda c, a, i: np.take(
        a, i, compat.attr(c, "axis"), mode="wrap" if compat.attr(c, "mode") == "wrap" else "clip"),
    "shape_to_tensor": lambda c, s: np.array(s, np.int64), "strided_slice": _strided_slice,
}


def float_weights(module: compat.IRModule) -> compat.IRModule:
    """The module with the floats that dequantized constants are: for targets that compute in floats."""
    main = module["main"]
    floats = {
        b.var: compat.constant_like(_dequantized(b.value), b.var) for b in compat.bindings(main)
        if compat.op_name(b.value) == "dequantize" and all(compat.is_constant(a) for a in b.value.args)}
    if not floats:
        return module
    body = [compat.bind(b.var, compat.substitute(b.value, floats))
            for b in compat.bindings(main) if b.var not in floats]
    results = [floats.get(r, r) if compat.is_var(r) else r for r in compat.outputs_of(main)]
    return fold_constants(compat.replace_main(module, compat.rebuild(main, body, results)))


def _dequantized(call: Any) -> np.ndarray:
    """``(integers - zero point) * scale``; of weights that were not read, only the shape and type."""
    from archloom.tvm_backend.ir.conversion import is_blank

    data, scale, zero = (compat.const_value(a) for a in call.args)
    dtype = compat.dtype_of(call)
    if is_blank(data):
        return np.broadcast_to(np.zeros((), dtype), data.shape)
    along = [1] * data.ndim
    if max(scale.size, zero.size) > 1:
        along[int(compat.attr(call, "axis"))] = -1
    scale, zero = (a.reshape(along) if a.size > 1 else a.reshape(()) for a in (scale, zero))
    real: np.ndarray = (data.astype(np.int32) - zero.astype(np.int32)).astype(scale.dtype) * scale
    return real.astype(dtype, copy=False)


def duplicate_dequantize(module: compat.IRModule) -> compat.IRModule:
    """Give each consumer its own ``dequantize``, so that a pattern can take it along without taking it from others."""
    main = module["main"]
    originals: dict[Any, Any] = {}
    body = []
    for binding in compat.bindings(main):
        value = binding.value
        if compat.op_name(value) == "dequantize":
            originals[binding.var] = value
        elif compat.op_name(value) is not None:
            args = []
            for position, arg in enumerate(value.args):
                source = originals.get(arg) if compat.is_var(arg) else None
                if source is not None:
                    copy = compat.new_var(f"{arg.name}.{binding.var.name}.{position}", arg)
                    body.append(compat.bind(copy, compat.make_call(source, source.args)))
                    arg = copy
                args.append(arg)
            body.append(compat.bind(binding.var, compat.make_call(value, args)))
            continue
        body.append(binding)
    return compat.replace_main(module, compat.rebuild(main, body, compat.outputs_of(main)))


def bind_parameters(module: compat.IRModule, params: Mapping[str, np.ndarray]) -> compat.IRModule:
    """Replace parameters of ``main`` by constants."""
    main = module["main"]
    names = [p.name for p in main.params]
    for name in params:
        if name not in names:
            raise InputError(f"params: main has no parameter {name!r}{suggest(name, names)}")
    constants = {p: compat.constant(np.asarray(params[p.name])) for p in main.params if p.name in params}
    body = [compat.bind(b.var, compat.substitute(b.value, constants)) for b in compat.bindings(main)]
    results = [compat.substitute(r, constants) for r in compat.outputs_of(main)]
    rest = [p for p in main.params if p not in constants]
    return compat.replace_main(module, compat.make_function(rest, body, results, main.attrs))
