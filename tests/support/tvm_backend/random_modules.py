"""Random Relax modules with a bound on how far two ways of computing them may be apart.

A value is drawn with the largest magnitude that it can have, and with a bound on the difference between two results of
it. Inputs and constants are small whole numbers, and scales powers of two: as long as a value is a multiple of a unit,
and so many units at most as its type holds exactly, sums of products are exact in whatever order, and two results must
be the same. Others differ by as much as the operators before pass on (each by its largest slope), and by their own
rounding. What jumps (comparisons, ``quantize``) is only drawn for values of which two results are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

from archloom.tvm_backend.ir.compat import relax
from tests.support.tvm_backend.inside import const

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]

EXTENTS = (1, 2, 3, 4, 8)
LARGEST = 3
"""Of the numbers of inputs and constants."""


@dataclass(frozen=True)
class Format:
    """What a target computes floats with: ``step`` is the rounding of one operation, relative to its result."""

    step: float
    exact: float
    """whole numbers up to it are held exactly"""


FLOAT32 = Format(2.0 ** -22, 2.0 ** 23)
"""Two units in the last place, which elementary functions of TVM, XLA and the interpreter keep within."""
FLOAT16 = Format(2.0 ** -9, 2.0 ** 11)


@dataclass(frozen=True, eq=False)
class Drawn:
    """A value: ``largest`` bounds its magnitude, ``apart`` the difference of two results. It is a multiple of ``unit``,
    if that is not 0. ``quantized``: it is the result of a dequantize."""

    expr: Any
    shape: tuple[int, ...]
    largest: float
    apart: float = 0.0
    unit: float = 1.0
    dtype: str = "float32"
    quantized: bool = False


@dataclass(frozen=True, eq=False)
class RandomModule:
    """``inputs`` are arrays for ``main``'s parameters; ``apart`` has a bound for each result."""

    module: Any
    inputs: tuple[np.ndarray, ...]
    apart: tuple[float, ...]

    def __repr__(self) -> str:
        return f"{self.module.script()}\n{[x.tolist() for x in self.inputs]}\napart: {self.apart}"


@dataclass(eq=False)
class Builder:
    """Draws operators one after the other on values drawn before."""

    draw: Draw
    numbers: Format
    emit: Callable[[Any], Any]
    values: list[Drawn] = field(default_factory=list)

    def pick(self, wanted: Callable[[Drawn], bool] = lambda v: True) -> Drawn | None:
        """A value as wanted: half of the time the last one, to which examples shrink, too."""
        fitting = [v for v in reversed(self.values) if wanted(v)]
        if not fitting:
            return None
        return self.draw(st.sampled_from(fitting)) if self.draw(st.booleans()) else fitting[0]

    def floating(self, *ranks: int) -> Drawn | None:
        return self.pick(lambda v: v.dtype == "float32" and (not ranks or len(v.shape) in ranks))

    def constant(self, *shape: int) -> Drawn:
        array = self.array(shape)
        return Drawn(const(array), tuple(shape), float(np.abs(array).max(initial=0)))

    def array(self, shape: Sequence[int], largest: int = LARGEST) -> np.ndarray:
        """Whole numbers that one drawn number determines: arrays have no part in what is searched."""
        seed = self.draw(st.integers(0, 9))
        return np.random.default_rng(seed).integers(-largest, largest + 1, tuple(shape)).astype(np.float32)

    def add(
        self, call: Any, largest: float, apart: float, unit: float, *, steps: float = 1, quantized: bool = False,
    ) -> Drawn | None:
        """A value of an operator; None where its numbers would leave float16. ``apart`` is what its operands pass on,
        to which the operator adds so many roundings, unless its result is exact."""
        if largest > 2.0 ** 14:
            return None
        if apart or not unit or largest > unit * self.numbers.exact:
            apart, unit = apart + steps * self.numbers.step * (largest + apart), 0.0
        expr = self.emit(call)
        shape = tuple(int(d) for d in expr.ty.shape.values)
        made = Drawn(expr, shape, largest, apart, unit, str(expr.ty.dtype), quantized)
        self.values.append(made)
        return made


Operator: TypeAlias = Callable[[Builder], Any]

op = relax.op
SLOPES: dict[str, tuple[Callable[[Any], Any], float, float | None]] = {
    # the operator, its largest slope, the largest magnitude of its results (None: that of its operand)
    "relu": (op.nn.relu, 1, None),
    "abs": (op.abs, 1, None),
    "negative": (op.negative, 1, None),
    "tanh": (op.tanh, 1, 1),
    "sigmoid": (op.sigmoid, 0.25, 1),
    "gelu": (op.nn.gelu, 1.13, None),
    "silu": (op.nn.silu, 1.1, None),
    "softmax": (op.nn.softmax, 1, 1),
}
PIECEWISE = ("relu", "abs", "negative")
"""Operators that round nothing."""


def unary(b: Builder) -> None:
    x = b.floating()
    assert x is not None
    name = b.draw(st.sampled_from([n for n in SLOPES if n != "softmax" or x.shape]))
    function, slope, largest = SLOPES[name]
    within = x.largest if largest is None else float(largest)
    if name in PIECEWISE:
        b.add(function(x.expr), within, x.apart, x.unit, steps=0)
    else:
        b.add(function(x.expr), within, slope * x.apart + 4 * b.numbers.step * max(within, 1.0), 0.0)


def binary(b: Builder) -> None:
    x = b.floating()
    assert x is not None
    kind = b.draw(st.sampled_from(["value", "row", "scalar"]))
    y = b.pick(lambda v: v.dtype == "float32" and v.shape == x.shape) if kind == "value" else None
    y = y or b.constant(*(x.shape[-1:] if kind == "row" else ()))
    first, second = (x, y) if b.draw(st.booleans()) else (y, x)
    name = b.draw(st.sampled_from(["add", "subtract", "multiply", "maximum"]))
    call = getattr(op, name)(first.expr, second.expr)
    unit = min(x.unit, y.unit)
    if name == "multiply":
        apart = x.largest * y.apart + y.largest * x.apart + x.apart * y.apart
        b.add(call, x.largest * y.largest, apart, x.unit * y.unit)
    elif name == "maximum":
        b.add(call, max(x.largest, y.largest), max(x.apart, y.apart), unit, steps=0)
    else:
        b.add(call, x.largest + y.largest, x.apart + y.apart, unit)


def _sum(b: Builder, call: Any, terms: int, x: Drawn, y: Drawn) -> Drawn | None:
    """A sum of so many products."""
    apart = terms * (x.largest * y.apart + y.largest * x.apart + x.apart * y.apart)
    return b.add(call, terms * x.largest * y.largest, apart, x.unit * y.unit, steps=terms + 2)


def matmul(b: Builder) -> None:
    x = b.floating(2, 3)
    if x is None:
        return
    y = b.pick(lambda v: v.dtype == "float32" and len(v.shape) == len(x.shape) and v.shape[:-2] == x.shape[:-2]
               and v.shape[-2] == x.shape[-1]) if b.draw(st.booleans()) else None
    y = y or b.constant(x.shape[-1], b.draw(st.sampled_from(EXTENTS)))
    _sum(b, op.matmul(x.expr, y.expr), x.shape[-1], x, y)


def conv(b: Builder) -> None:
    x = b.floating(4)
    if x is None:
        return
    kernel = b.draw(st.sampled_from([1, 3]))
    w = b.constant(b.draw(st.sampled_from(EXTENTS)), x.shape[1], kernel, kernel)
    call = op.nn.conv2d(x.expr, w.expr, strides=b.draw(st.sampled_from([1, 2])), padding=kernel // 2)
    _sum(b, call, x.shape[1] * kernel * kernel, x, w)


def pool(b: Builder) -> None:
    x = b.pick(lambda v: v.dtype == "float32" and len(v.shape) == 4 and min(v.shape[2:]) >= 2)
    if x is not None:
        b.add(op.nn.max_pool2d(x.expr, pool_size=[2, 2], strides=[2, 2]), x.largest, x.apart, x.unit, steps=0)


def reduction(b: Builder) -> None:
    x = b.pick(lambda v: v.dtype == "float32" and len(v.shape) > 0)
    if x is None:
        return
    axis = b.draw(st.sampled_from([None, *range(len(x.shape))]))
    keep = b.draw(st.booleans())
    terms = math.prod(x.shape) if axis is None else x.shape[axis]
    if b.draw(st.booleans()):
        b.add(op.max(x.expr, axis=axis, keepdims=keep), x.largest, x.apart, x.unit, steps=0)
    else:
        _sum(b, op.sum(x.expr, axis=axis, keepdims=keep), terms, x, Drawn(None, (), 1.0))


def moved(b: Builder) -> None:
    """The same numbers elsewhere."""
    x = b.pick()
    assert x is not None
    kinds = ["flatten", "expand"] + ["transpose", "split", "slice", "join"] * bool(x.shape)
    among = [x]
    match b.draw(st.sampled_from(kinds)):
        case "flatten":
            calls = [op.reshape(x.expr, b.draw(st.sampled_from(shapes_of(math.prod(x.shape)))))]
        case "expand":
            calls = [op.expand_dims(x.expr, [0]) if len(x.shape) < 4 else op.reshape(x.expr, [math.prod(x.shape)])]
        case "transpose":
            rank, order = len(x.shape), b.draw(st.permutations(range(len(x.shape))))
            calls = [op.permute_dims(x.expr, [axis - rank * b.draw(st.booleans()) for axis in order])]
        case "slice":
            calls = [op.strided_slice(x.expr, [len(x.shape) - 1], [0], [(x.shape[-1] + 1) // 2])]
        case "join":
            y = b.pick(lambda v: v.dtype == x.dtype and v.shape == x.shape)
            assert y is not None
            among = [x, y]
            calls = [op.concat([v.expr for v in among], b.draw(st.sampled_from(range(len(x.shape)))))]
        case _:
            axis = b.draw(st.sampled_from(range(len(x.shape))))
            if x.shape[axis] % 2:
                return
            parts = b.emit(op.split(x.expr, 2, axis))
            calls = [relax.TupleGetItem(parts, i) for i in b.draw(st.sampled_from([[0, 1], [0], [1], [1, 0]]))]
    for call in calls:
        b.add(call, max(v.largest for v in among), max(v.apart for v in among), min(v.unit for v in among), steps=0)


def shapes_of(size: int) -> list[list[int]]:
    """Shapes of so many elements."""
    pairs = [[a, size // a] for a in EXTENTS if size % a == 0]
    return [[size], *pairs, *([1, *p] for p in pairs), *([1, a, *p] for a in EXTENTS[1:4] if size % a == 0
                                                         for p in [[1, size // a], [size // a, 1]])]


def compared(b: Builder) -> None:
    """Values chosen by a comparison; or whole numbers of another type."""
    x = b.pick(lambda v: v.dtype == "float32" and not v.apart)
    if x is None:
        return
    kind = b.draw(st.sampled_from(["where", "int32", "int64", "bool", "float16"]))
    if kind == "where":
        y = b.constant(*x.shape)
        chosen = b.emit(op.greater(x.expr, const(np.float32(0))))
        b.add(op.where(chosen, x.expr, y.expr), max(x.largest, y.largest), 0.0, min(x.unit, y.unit), steps=0)
    elif kind == "bool":
        b.add(op.greater(x.expr, const(np.float32(0))), 1.0, 0.0, 1.0)
    elif x.unit >= 1 and (kind != "float16" or x.largest <= FLOAT16.exact):
        b.add(op.astype(x.expr, kind), x.largest, 0.0, 1.0)


FLOATS: tuple[Operator, ...] = (
    matmul, binary, unary, moved, conv, pool, reduction, compared, matmul, matmul, binary, conv)


# operators of networks in QDQ form ------------------------------------------------------------------------------------


def _scale(b: Builder) -> tuple[Any, float]:
    scale = 2.0 ** -b.draw(st.integers(0, 4))
    return const(np.float32(scale)), scale


def _requantize(b: Builder, x: Drawn | None) -> None:
    """``x`` rounded to int8, and read as floats again."""
    if x is None or x.apart:
        return
    made, scale = _scale(b)
    zero = const(np.int8(0))
    narrow = b.emit(op.quantize(x.expr, made, zero, axis=-1, out_dtype="int8"))
    call = op.dequantize(narrow, made, zero, axis=-1, out_dtype="float32")
    b.add(call, 128 * scale, 0.0, scale, quantized=True)


def requantize(b: Builder) -> None:
    _requantize(b, b.pick(lambda v: v.dtype == "float32" and not v.apart))


def _weights(b: Builder, *shape: int) -> Drawn:
    made, scale = _scale(b)
    array = b.array(shape, 15).astype(np.int8)
    call = op.dequantize(const(array), made, const(np.int8(0)), axis=0, out_dtype="float32")
    return Drawn(b.emit(call), shape, 15 * scale, 0.0, scale)


def quantized_layer(b: Builder) -> None:
    """A product, a convolution or a sum of two quantized tensors, with what may follow it."""
    x = b.pick(lambda v: v.quantized and len(v.shape) in (2, 3, 4))
    if x is None:
        return
    if b.draw(st.integers(0, 3)) == 3:
        y = b.pick(lambda v: v.quantized and v.shape == x.shape)
        assert y is not None
        made = b.add(op.add(x.expr, y.expr), x.largest + y.largest, 0.0, min(x.unit, y.unit))
    elif len(x.shape) == 4:
        kernel = b.draw(st.sampled_from([1, 3]))
        w = _weights(b, b.draw(st.sampled_from(EXTENTS)), x.shape[1], kernel, kernel)
        call = op.nn.conv2d(x.expr, w.expr, strides=b.draw(st.sampled_from([1, 2])), padding=kernel // 2)
        made = _sum(b, call, x.shape[1] * kernel * kernel, x, w)
    else:
        w = _weights(b, x.shape[-1], b.draw(st.sampled_from(EXTENTS)))
        made = _sum(b, op.matmul(x.expr, w.expr), x.shape[-1], x, w)
    if made is not None and b.draw(st.booleans()):
        made = b.add(op.nn.relu(made.expr), made.largest, made.apart, made.unit, steps=0)
    if made is not None and len(made.shape) == 4 and min(made.shape[2:]) >= 2 and b.draw(st.integers(0, 3)) == 3:
        pooled = op.nn.max_pool2d(made.expr, pool_size=[2, 2], strides=[2, 2])
        made = b.add(pooled, made.largest, made.apart, made.unit, steps=0)
    _requantize(b, made)


QUANTIZED: tuple[Operator, ...] = (
    quantized_layer, quantized_layer, requantize, binary, unary, moved, pool, reduction, compared)


@st.composite
def modules(draw: Draw, numbers: Format = FLOAT32, operators: Sequence[Operator] = FLOATS) -> RandomModule:
    """Modules of 3 to 20 operators on one to three inputs, with one to four results, of which some may be inputs,
    constants, or the same as another."""
    shapes = draw(st.lists(
        st.sampled_from([(4, 8), (1, 3, 4, 4), (2, 4, 8), (8,), (4, 4), ()]), min_size=1, max_size=3))
    builder = relax.BlockBuilder()
    parameters = [relax.Var(f"x{i}", relax.TensorType(shape, "float32")) for i, shape in enumerate(shapes)]
    with builder.function("main", parameters):
        with builder.dataflow():
            state = Builder(draw, numbers, builder.emit)
            arrays = tuple(state.array(shape) for shape in shapes)
            state.values += [Drawn(p, s, float(LARGEST)) for p, s in zip(parameters, shapes)]
            if operators is QUANTIZED:
                for value in list(state.values):
                    _requantize(state, value)
            for _ in range(draw(st.integers(3, 20))):
                draw(st.sampled_from(operators))(state)
            others = draw(st.lists(st.sampled_from(list(reversed(state.values))), max_size=2))
            results = [state.values[-1], *others]
            if draw(st.integers(0, 9)) == 9:
                results = [*results, state.constant(2, 3)]
            output = builder.emit_output(_together(draw, [r.expr for r in results]))
        builder.emit_func_output(output)
    return RandomModule(builder.get(), arrays, tuple(r.apart for r in results))


def _together(draw: Draw, results: list[Any]) -> Any:
    """Results as one: alone, in a tuple, or the last ones in a tuple within."""
    kind = draw(st.sampled_from(["alone", "tuple", "nested"]))
    if kind == "alone" and len(results) == 1:
        return results[0]
    return relax.Tuple([results[0], relax.Tuple(results[1:])] if kind == "nested" else results)


def quantized_modules() -> st.SearchStrategy[RandomModule]:
    """:func:`modules` in QDQ form."""
    return modules(FLOAT32, QUANTIZED)
