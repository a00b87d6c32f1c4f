"""Pieces of float networks as nests of loops over scalar operations (:mod:`archloom.mapper.nests`).

An operator says how a number of its result comes from numbers of its operands, at places that are linear in the axes of
the result: element-wise operators, and those that only move numbers (transposes, slices, broadcasts, gathers). Such may
follow one another within a piece, which is then one pass through memory. What folds (reductions, softmax, normalizations,
pooling), and what writes its result in parts (padding, concatenation), is the piece's last operator and has nests of its
own. Where places of an operand are linear only in parts of an axis, as those of windows, the axis is cut and the piece
read again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from archloom.mapper.nests import COMPARISONS, Axis, Code, Fold, Nest, Pass, Store
from archloom.oracle.affine import Affine
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.conversion import is_blank
from archloom.tvm_backend.ir.operators import operator
from archloom.tvm_backend.ir.sweeps import NotQuantized

Index: TypeAlias = tuple[Affine, ...]
NEST = "nest"
"""The anchor of such pieces."""
RESULT = "Y"
WORDS = ("float32", "int32")
"""What tensors in memory may be of."""
NARROWED = {"bool": "float32", "int64": "int32"}
"""What constants are kept as. Whole numbers are places in other tensors."""
WHOLE_NUMBERS = ("int32", "int64")


@dataclass(frozen=True)
class Piece:
    """Nests in order, the expressions of what they read, X0, X1, ..., the operators, and names of variables on the way,
    the last ones first."""

    nests: tuple[Nest, ...]
    operands: tuple[Any, ...]
    operators: tuple[str, ...]
    names: tuple[str, ...] = ()

    @staticmethod
    def operand(number: int) -> str:
        return f"X{number}"


def read_piece(root: ir.Call, lookup: ir.Lookup) -> Piece:
    """The piece whose result is ``root``; ``lookup`` gives the values of variables inside. NotQuantized for others."""
    if not ir.is_tensor(root) or ir.dtype_of(root) != "float32" or 0 in ir.shape_of(root):
        raise NotQuantized("its result is no tensor of float32")
    cuts: dict[str, tuple[int, ...]] = {}
    while True:
        reading = Reading(lookup, cuts)
        try:
            nests = tuple(reading.nests(root))
        except _Cut as cut:
            cuts = {**cuts, cut.axis: cut.extents}
            continue
        return Piece(nests, tuple(reading.operands), tuple(reading.operators), tuple(reading.names))


class _Cut(Exception):
    """An axis that has to be cut into parts of ``extents``, the outermost first."""

    def __init__(self, axis: str, extents: tuple[int, ...]) -> None:
        self.axis, self.extents = axis, extents


@dataclass
class Reading:
    """What is read so far; ``cuts`` has the parts of axes by name."""

    lookup: ir.Lookup
    cuts: Mapping[str, tuple[int, ...]]
    operands: list[Any] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    extents: dict[str, int] = field(default_factory=dict)

    def nests(self, root: ir.Call) -> Iterator[Nest]:
        name = str(ir.op_name(root))
        if name in WHOLE:
            self._note(name)
            yield from WHOLE[name](self, root)
        else:
            yield self.each(root)

    def each(self, expr: Any, into: Callable[[Index], Affine] | None = None) -> Nest:
        """Every number of an expression, stored where ``into`` says (by default as its shape has it)."""
        axes, index = self.axes("i", shape := ir.shape_of(expr))
        code = Code()
        found = self.at(expr, code, index)
        place = dense(shape, index) if into is None else into(index)
        return Nest(axes, (Pass((), tuple(code.operations), (Store(RESULT, place, found),)),))

    def axes(self, prefix: str, shape: Sequence[int]) -> tuple[tuple[Axis, ...], Index]:
        """Axes for a shape, cut where they must be, and the place along each extent."""
        made: list[Axis] = []
        index = []
        for number, extent in enumerate(shape):
            place = Affine(0)
            parts = self._parts(f"{prefix}{number}", extent)
            for axis in parts:
                place = place * axis.extent + Affine.variable(axis.name)
            self.extents |= {a.name: a.extent for a in parts}
            made += parts
            index.append(place)
        return tuple(made), tuple(index)

    def _parts(self, name: str, extent: int) -> list[Axis]:
        if name not in self.cuts:
            return [Axis(name, extent)]
        return [part for k, n in enumerate(self.cuts[name]) for part in self._parts(f"{name}_{k}", n)]

    def _note(self, name: str) -> None:
        self.operators.append(name.removeprefix("nn."))

    # numbers ----------------------------------------------------------------------------------------------------------

    def at(self, expr: Any, code: Code, index: Index) -> int:
        """The number of an expression at a place."""
        inner = self.lookup(expr) if ir.is_var(expr) else expr
        name = ir.op_name(inner)
        if name is None:
            return self._read(expr, code, index)
        if ir.is_var(expr):
            self.names.insert(0, expr.name)
        if name in PLACED:
            self._note(name)
            return PLACED[name](self, inner, code, index)
        return self._elementwise(name, inner, code, index)

    def _read(self, expr: Any, code: Code, index: Index) -> int:
        """A number of what comes from outside."""
        if not ir.is_tensor(expr):
            raise NotQuantized("an operand is no tensor")
        number = ir.number_of(expr) if ir.is_constant(expr) else None
        if number is not None:
            return code.whole(int(number)) if ir.dtype_of(expr) in WHOLE_NUMBERS else code.number(number)
        return code.load(*self.place(expr, index))

    def place(self, expr: Any, index: Index) -> tuple[str, Affine]:
        """The operand that an expression is, and the word that an element begins with."""
        if ir.dtype_of(expr) not in (*WORDS, *(NARROWED if ir.is_constant(expr) else ())):
            raise NotQuantized(f"an operand is {ir.dtype_of(expr)}")
        number = next((i for i, known in enumerate(self.operands) if ir.same(known, expr)), len(self.operands))
        if number == len(self.operands):
            self.operands.append(expr)
        return Piece.operand(number), dense(ir.shape_of(expr), index)

    def broadcast(self, expr: Any, code: Code, index: Index) -> int:
        """The number of an expression that is spread to the shape that the place is of."""
        if not ir.is_tensor(expr):
            return code.number(float(ir.scalar_of(expr)))
        shape = ir.shape_of(expr)
        mine = index[len(index) - len(shape):]
        return self.at(expr, code, tuple(Affine(0) if n == 1 else i for n, i in zip(shape, mine, strict=True)))

    def _elementwise(self, name: str, call: ir.Call, code: Code, index: Index) -> int:
        functions: tuple[str, ...] = operator(name).scalar or operator(name).vector
        whole = any(ir.is_tensor(a) and ir.dtype_of(a) in WHOLE_NUMBERS for a in call.args)
        if whole:
            functions = tuple(OF_WHOLE.get(f, "") for f in functions)
        if not all(functions) or not functions:
            raise NotQuantized(f"{name}{' of whole numbers' if whole else ''} is none of the vector unit's operators")
        self._note(name)
        first, *others = (self.broadcast(a, code, index) for a in call.args)
        for function in functions:
            first, others = apply(code, function, first, *others), []
        return first

    # cuts -------------------------------------------------------------------------------------------------------------

    def cut(self, place: Affine, strides: Sequence[int]) -> None:
        """Have the axes of a place cut so that none of them crosses a multiple of one of ``strides``."""
        for name, step in place.terms:
            assert isinstance(name, str)
            extent, parts, rest = self.extents[name], [], self.extents[name]
            for stride in sorted(set(strides), reverse=True):
                part = stride // step if step > 0 and stride % step == 0 else 0
                if 1 < part < rest and rest % part == 0:
                    parts.append(rest // part)
                    rest = part
            if parts:
                raise _Cut(name, (*parts, rest))
            assert extent == rest

    def largest(self, place: Affine) -> int:
        """The greatest value of a place."""
        return place.constant + sum(c * (self.extents[str(a)] - 1) for a, c in place.terms if c > 0)


def dense(shape: Sequence[int], index: Index) -> Affine:
    """The number of an element, row by row."""
    at = Affine(0)
    for extent, place in zip(shape, index, strict=True):
        at = at * extent + place
    return at


# --- scalar functions -------------------------------------------------------------------------------------------------
def apply(code: Code, name: str, *args: int) -> int:
    """A scalar operation by the name that :data:`~archloom.tvm_backend.ir.operators.OPERATORS` has for it."""
    return COMPOSED[name](code, *args) if name in COMPOSED else code.apply(name, *args)


def _gelu(code: Code, x: int) -> int:
    """x (1 + erf(x / sqrt(2))) / 2"""
    share = code.apply("erf", code.apply("multiply", x, code.number(math.sqrt(0.5))))
    return code.apply("multiply", code.apply("multiply", x, code.number(0.5)), code.apply("add", share, code.number(1)))


def _gelu_tanh(code: Code, x: int) -> int:
    """x / (1 + e^-2y) for y = sqrt(2/pi) (x + 0.044715 x^3): half of x (1 + tanh y)."""
    square = code.apply("multiply", x, x)
    inner = code.apply("multiply_add", code.apply("multiply", square, code.number(0.044715)), x, x)
    return code.apply("multiply", x, code.apply(
        "sigmoid", code.apply("multiply", inner, code.number(2 * math.sqrt(2 / math.pi)))))


def _chosen(code: Code, condition: int, a: int, b: int) -> int:
    """By a comparison, or by a number that is not 0."""
    if code.operations[condition].name in COMPARISONS:
        return code.apply("select", condition, a, b)
    return code.apply("select", code.apply("equal", condition, code.number(0)), b, a)


def _truth(code: Code, x: int) -> int:
    """A truth as a number that is 0 or not."""
    compared = code.operations[x].name in COMPARISONS
    return code.apply("select", x, code.number(1), code.number(0)) if compared else x


COMPOSED: Mapping[str, Callable[..., int]] = {
    "relu": lambda code, x: code.apply("maximum", x, code.number(0)),
    "square": lambda code, x: code.apply("multiply", x, x),
    "reciprocal": lambda code, x: code.apply("divide", code.number(1), x),
    "silu": lambda code, x: code.apply("multiply", x, code.apply("sigmoid", x)),
    "gelu": _gelu, "gelu_tanh": _gelu_tanh, "choose": _chosen,
    "clip": lambda code, x, low, high: code.apply("minimum", code.apply("maximum", x, low), high),
    "both": lambda code, a, b: code.apply("multiply", _truth(code, a), _truth(code, b)),
    "not": lambda code, x: code.apply("equal", _truth(code, x), code.number(0)),
    "greater": lambda code, a, b: code.apply("less", b, a),
    "greater_equal": lambda code, a, b: code.apply("less_equal", b, a),
}
"""Scalar operations that are several of :data:`~archloom.mapper.nests.SCALAR`."""
OF_WHOLE: Mapping[str, str] = {
    **{name: f"whole_{name}" for name in ("add", "subtract", "multiply", "maximum", "minimum", "less")},
    "choose": "choose"}
"""Those on int32, by the names of those on float32."""


# --- what moves numbers ------------------------------------------------------------------------------------------------
def _permuted(reading: Reading, call: ir.Call, code: Code, index: Index) -> int:
    axes = ir.attr(call, "axes") or tuple(reversed(range(len(index))))
    return reading.at(call.args[0], code, tuple(index[list(axes).index(i)] for i in range(len(index))))


def _reshaped(reading: Reading, call: ir.Call, code: Code, index: Index) -> int:
    """Of the same number in the order of rows: each axis is what is left after those before it."""
    shape = ir.shape_of(call.args[0])
    place = dense(ir.shape_of(call), index)
    strides = [math.prod(shape[i + 1:]) for i in range(len(shape))]
    reading.cut(place, strides)
    found = []
    for stride in strides:
        whole = Affine.build(place.constant // stride, [(a, c // stride) for a, c in place.terms if c % stride == 0])
        place = place - whole * stride
        found.append(whole)
        if reading.largest(place) >= stride:
            raise NotQuantized(f"a reshape from {shape} to {ir.shape_of(call)} is not linear")
    return reading.at(call.args[0], code, tuple(found))


def _sliced(reading: Reading, call: ir.Call, code: Code, index: Index) -> int:
    data, axes, begin, _, *more = call.args
    shape, places = ir.shape_of(data), list(index)
    strides = _ints(more[0]) if more else [1] * len(_ints(axes))
    for axis, first, step in zip(_ints(axes), _ints(begin), strides, strict=True):
        first = max(0, min(first + shape[axis] * (first < 0), shape[axis] - (step < 0)))
        places[axis] = places[axis] * step + first
    return reading.at(data, code, tuple(places))


def _ints(given: Any) -> list[int]:
    """Numbers of an argument, however it is written."""
    if isinstance(given, tuple):
        return list(map(int, given))
    values = ir.tuple_fields(given)
    if values is not None:
        return [int(ir.scalar_of(v)) for v in values]
    shape = ir.shape_values(given)
    return list(shape) if shape is not None else [int(v) for v in np.ravel(ir.const_value(given))]


def _taken(reading: Reading, call: ir.Call, code: Code, index: Index) -> int:
    """By places that are linear, or that are read."""
    data, indices = call.args
    shape = ir.shape_of(data)
    axis = ir.attr(call, "axis")
    if axis is None or len(ir.shape_of(indices)) > 1 and not ir.is_tensor(indices):
        raise NotQuantized("it takes elements of a flat tensor")
    axis, rank = int(axis) % len(shape), len(ir.shape_of(indices))
    before, at, behind = index[:axis], index[axis:axis + rank], index[axis + rank:]
    if ir.is_constant(indices) and not is_blank(ir.const_value(indices)):
        place = _linear(reading, ir.const_value(indices), at, shape[axis])
        if place is not None:
            return reading.at(data, code, (*before, place, *behind))
    if ir.is_var(data) and reading.lookup(data) is not None:
        raise NotQuantized("it takes elements of what is computed here")
    if ir.dtype_of(indices) not in WHOLE_NUMBERS:
        raise NotQuantized(f"places are {ir.dtype_of(indices)}")
    words = reading.at(indices, code, at)
    inside = code.apply("whole_maximum", code.apply("whole_minimum", words, code.whole(shape[axis] - 1)), code.whole(0))
    scaled = code.apply("whole_multiply", inside, code.whole(math.prod(shape[axis + 1:])))
    of, first = reading.place(data, (*before, Affine(0), *behind))
    if ir.dtype_of(data) != "float32":
        raise NotQuantized(f"it takes elements of {ir.dtype_of(data)}")
    return code.gather(of, first, scaled)


def _linear(reading: Reading, table: np.ndarray, index: Index, extent: int) -> Affine | None:
    """What a table has at a place, where that is linear in the axes."""
    table = np.clip(np.where(table < 0, table + extent, table).astype(np.int64), 0, extent - 1)
    place = dense(table.shape, index)
    flat = table.reshape(-1)
    reading.cut(place, _steps(flat))
    names = [str(a) for a, _ in place.terms]
    first = int(flat[place.constant])
    linear = Affine(first)
    for name in names:
        at = place.constant + place.coefficient(name)
        linear = linear + Affine.variable(name) * (int(flat[at]) - first)
    grids = dict(zip(names, np.meshgrid(*(np.arange(reading.extents[n]) for n in names), indexing="ij"), strict=True))
    agree = np.array_equal(flat[place.evaluate(grids)], np.broadcast_to(linear.evaluate(grids), next(
        iter(grids.values()), np.zeros(())).shape))
    return linear if agree else None


def _steps(flat: np.ndarray) -> list[int]:
    """Numbers of elements after which a table goes on in another step, each a multiple of the one before."""
    found, length = [], 1
    while len(flat) > 1:
        steps = np.diff(flat)
        other = np.flatnonzero(steps != steps[0])
        run = int(other[0]) + 1 if len(other) else len(flat)
        if run == 1 or len(flat) % run:
            break
        length *= run
        found.append(length)
        flat = flat[::run]
    return found


def _spread(reading: Reading, call: ir.Call, code: Code, index: Index) -> int:
    return reading.broadcast(call.args[0], code, index)


def _power(reading: Reading, call: ir.Call, code: Code, index: Index) -> int:
    exponent = ir.number_of(call.args[1])
    x = reading.broadcast(call.args[0], code, index)
    made = {2.0: ("square",), 0.5: ("sqrt",), -0.5: ("sqrt", "reciprocal"), -1.0: ("reciprocal",), 1.0: ()}
    if exponent == 3.0:
        return code.apply("multiply", code.apply("multiply", x, x), x)
    if exponent not in made:
        raise NotQuantized("a power other than a square, a cube, a root or a reciprocal")
    for name in made[exponent]:
        x = apply(code, name, x)
    return x


def _converted(reading: Reading, call: ir.Call, code: Code, index: Index) -> int:
    kinds = tuple("whole" if t in WHOLE_NUMBERS else t for t in (ir.dtype_of(call.args[0]), ir.dtype_of(call)))
    found = reading.broadcast(call.args[0], code, index)
    if kinds[0] == kinds[1] or kinds == ("float32", "bool"):
        return found
    if kinds in (("whole", "float32"), ("whole", "bool")):
        return code.apply("to_float", found)
    if kinds == ("bool", "float32"):
        return _chosen(code, found, code.number(1), code.number(0))
    raise NotQuantized(f"it converts {ir.dtype_of(call.args[0])} to {ir.dtype_of(call)}")


PLACED: Mapping[str, Callable[[Reading, ir.Call, Code, Index], int]] = {
    "permute_dims": _permuted, "strided_slice": _sliced, "take": _taken, "broadcast_to": _spread, "power": _power,
    "astype": _converted, **dict.fromkeys(("reshape", "expand_dims", "squeeze", "flatten"), _reshaped)}
"""How a number of a result comes from operands at other places."""


# --- what folds --------------------------------------------------------------------------------------------------------
@dataclass
class _Rows:
    """A tensor's axes, some of which each pass goes over again."""

    reading: Reading
    source: Any
    over: tuple[int, ...]

    def __post_init__(self) -> None:
        self.shape = ir.shape_of(self.source)
        self.own = [i for i in range(len(self.shape)) if i not in self.over]
        self.axes, self.rows = self.reading.axes("i", [self.shape[i] for i in self.own])
        self.inner, self.columns = self.reading.axes("k", [self.shape[i] for i in self.over])
        self.passes: list[Pass] = []

    @property
    def count(self) -> int:
        return math.prod(self.shape[i] for i in self.over)

    @property
    def index(self) -> Index:
        """The place in the tensor."""
        places = dict(zip(self.own, self.rows, strict=True)) | dict(zip(self.over, self.columns, strict=True))
        return tuple(places[i] for i in range(len(self.shape)))

    def number(self, code: Code) -> int:
        return self.reading.at(self.source, code, self.index)

    def add(self, code: Code, *folds: Fold, store: int | None = None, alone: bool = False) -> None:
        """A pass over the axes, or one that only goes on with what is held."""
        stores = () if store is None else (Store(RESULT, dense(self.shape, self.index), store),)
        self.passes.append(Pass(() if alone else self.inner, tuple(code.operations), stores, folds))

    def nest(self) -> Nest:
        return Nest(self.axes, tuple(self.passes))


def _axes_of(call: ir.Call, name: str) -> tuple[int, ...]:
    rank, given = len(ir.shape_of(call.args[0])), ir.attr(call, name)
    axes = range(rank) if given is None else [given] if isinstance(given, int) else given
    return tuple(sorted(int(a) % rank for a in axes))


def _reduced(kind: str, finish: Callable[[Code, int, int], int] | None = None) -> Callable[..., Iterator[Nest]]:
    def nests(reading: Reading, call: ir.Call) -> Iterator[Nest]:
        rows = _Rows(reading, call.args[0], _axes_of(call, "axis"))
        code = Code()
        rows.add(code, Fold("found", kind, rows.number(code)))
        code = Code()
        found = code.held("found")
        found = found if finish is None else finish(code, found, rows.count)
        kept = [rows.shape[i] for i in rows.own]
        rows.passes.append(Pass((), tuple(code.operations), (Store(RESULT, dense(kept, rows.rows), found),)))
        yield rows.nest()

    return nests


def _mean(code: Code, total: int, count: int) -> int:
    return code.apply("multiply", total, code.number(1 / count))


def _softmax(reading: Reading, call: ir.Call) -> Iterator[Nest]:
    rows = _Rows(reading, call.args[0], _axes_of(call, "axis"))
    code = Code()
    rows.add(code, Fold("top", "maximum", rows.number(code)))
    code = Code()
    share = code.apply("exp", code.apply("subtract", rows.number(code), code.held("top")))
    rows.add(code, Fold("sum", "sum", share), store=share)
    code = Code()
    rows.add(code, Fold("factor", "sum", apply(code, "reciprocal", code.held("sum"))), alone=True)
    code = Code()
    share = code.load(RESULT, dense(rows.shape, rows.index))
    rows.add(code, store=code.apply("multiply", share, code.held("factor")))
    yield rows.nest()


def _norm(reading: Reading, call: ir.Call) -> Iterator[Nest]:
    """(x - mean) / sqrt(variance + epsilon), or without the mean, scaled and shifted."""
    centered = ir.op_name(call) == "nn.layer_norm"
    rows = _Rows(reading, call.args[0], _axes_of(call, "axes"))
    if centered:
        code = Code()
        rows.add(code, Fold("total", "sum", rows.number(code)))
        code = Code()
        rows.add(code, Fold("mean", "sum", _mean(code, code.held("total"), rows.count)), alone=True)

    def number(code: Code) -> int:
        x = rows.number(code)
        return code.apply("subtract", x, code.held("mean")) if centered else x

    code = Code()
    x = number(code)
    rows.add(code, Fold("squares", "sum", code.apply("multiply", x, x)))
    code = Code()
    variance = code.apply("add", _mean(code, code.held("squares"), rows.count), code.number(ir.attr(call, "epsilon")))
    rows.add(code, Fold("factor", "sum", apply(code, "reciprocal", code.apply("sqrt", variance))), alone=True)
    code = Code()
    x = code.apply("multiply", number(code), code.held("factor"))
    for function, argument, flag in zip(("multiply", "add"), call.args[1:], ("scale", "center")):
        if ir.attr(call, flag, True):
            x = code.apply(function, x, reading.at(argument, code, rows.columns))
    rows.add(code, store=x)
    yield rows.nest()


# --- windows ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Span:
    """Results ``first .. first + count - 1`` along an axis, whose windows all have their elements ``low .. high - 1``
    within the image, the first of which is element ``start`` of it at result ``first``."""

    first: int
    count: int
    low: int
    high: int
    start: int
    stride: int
    dilation: int


def _spans(extent: int, results: int, size: int, stride: int, dilation: int, before: int) -> list[_Span]:
    """All results, those alike together."""
    found: list[_Span] = []
    for r in range(results):
        inside = [k for k in range(size) if 0 <= r * stride + k * dilation - before < extent]
        low, high = (inside[0], inside[-1] + 1) if inside else (0, 0)
        if found and (found[-1].low, found[-1].high) == (low, high):
            last = found.pop()
            found.append(_Span(last.first, last.count + 1, low, high, last.start, stride, dilation))
        else:
            found.append(_Span(r, 1, low, high, r * stride + low * dilation - before, stride, dilation))
    return found


def _pooled(kind: str) -> Callable[..., Iterator[Nest]]:
    """Windows that hold equally many elements have a nest of their own."""
    def nests(reading: Reading, call: ir.Call) -> Iterator[Nest]:
        layout, data = str(ir.attr(call, "layout")), call.args[0]
        axes = [layout.index(letter) for letter in "DHW" if letter in layout]
        size, stride, dilation, pads = (ir.attr_ints(call, n) for n in ("pool_size", "strides", "dilation", "padding"))
        spans = [_spans(ir.shape_of(data)[a], ir.shape_of(call)[a], size[i], stride[i], dilation[i], pads[i])
                 for i, a in enumerate(axes)]
        for number, _ in enumerate(np.ndindex(*map(len, spans))):
            part = [s[k] for s, k in zip(spans, np.unravel_index(number, [len(s) for s in spans]))]
            held = math.prod(s.high - s.low for s in part)
            if not held:
                raise NotQuantized("a window lies beyond the image")
            count = math.prod(size) if ir.attr(call, "count_include_pad", False) else held
            yield _window(reading, call, dict(zip(axes, part, strict=True)), kind, count)

    return nests


def _window(reading: Reading, call: ir.Call, spans: Mapping[int, _Span], kind: str, count: int) -> Nest:
    shape = ir.shape_of(call)
    axes, rows = reading.axes("i", [spans[i].count if i in spans else n for i, n in enumerate(shape)])
    inner, taps = reading.axes("k", [s.high - s.low for s in spans.values()])
    tap = dict(zip(spans, taps, strict=True))
    source, into = list(rows), list(rows)
    for i, span in spans.items():
        source[i] = rows[i] * span.stride + tap[i] * span.dilation + span.start
        into[i] = rows[i] + span.first
    code = Code()
    fold = Fold("found", "sum" if kind == "mean" else kind, reading.at(call.args[0], code, tuple(source)))
    first = Pass(inner, tuple(code.operations), (), (fold,))
    code = Code()
    found = code.held("found")
    found = _mean(code, found, count) if kind == "mean" else found
    return Nest(axes, (first, Pass((), tuple(code.operations), (Store(RESULT, dense(shape, tuple(into)), found),))))


def _adaptive(reading: Reading, call: ir.Call) -> Iterator[Nest]:
    layout, data = str(ir.attr(call, "layout")), call.args[0]
    axes = tuple(layout.index(letter) for letter in "HW")
    if any(ir.shape_of(call)[a] != 1 for a in axes):
        raise NotQuantized("it pools to more than one place")
    span = {a: _Span(0, 1, 0, ir.shape_of(data)[a], 0, 1, 1) for a in axes}
    yield _window(reading, call, span, "mean", math.prod(ir.shape_of(data)[a] for a in axes))


# --- results in parts ---------------------------------------------------------------------------------------------------
def _padded(reading: Reading, call: ir.Call) -> Iterator[Nest]:
    """A constant everywhere, and the tensor over it."""
    if str(ir.attr(call, "pad_mode", "constant")) != "constant":
        raise NotQuantized("it pads with what is there")
    widths, shape = ir.attr_ints(call, "pad_width"), ir.shape_of(call)
    axes, index = reading.axes("i", shape)
    code = Code()
    value = code.number(float(ir.attr(call, "pad_value", 0.0)))
    yield Nest(axes, (Pass((), tuple(code.operations), (Store(RESULT, dense(shape, index), value),)),))
    yield reading.each(call.args[0], lambda i: dense(shape, tuple(p + b for p, b in zip(i, widths[::2], strict=True))))


def _joined(reading: Reading, call: ir.Call) -> Iterator[Nest]:
    shape, axis, first = ir.shape_of(call), int(ir.attr(call, "axis")) % len(ir.shape_of(call)), 0
    for part in ir.tuple_fields(call.args[0]) or ():
        def into(index: Index, first: int = first) -> Affine:
            return dense(shape, (*index[:axis], index[axis] + first, *index[axis + 1:]))

        yield reading.each(part, into)
        first += ir.shape_of(part)[axis]


WHOLE: Mapping[str, Callable[[Reading, ir.Call], Iterator[Nest]]] = {
    "sum": _reduced("sum"), "mean": _reduced("sum", _mean), "max": _reduced("maximum"), "min": _reduced("minimum"),
    "nn.softmax": _softmax, "nn.layer_norm": _norm, "nn.rms_norm": _norm,
    **{f"nn.max_pool{n}d": _pooled("maximum") for n in (1, 2, 3)},
    **{f"nn.avg_pool{n}d": _pooled("mean") for n in (1, 2, 3)},
    "nn.adaptive_avg_pool2d": _adaptive, "nn.pad": _padded, "concat": _joined,
}
"""What is the last operator of a piece."""
