"""Pooling, and results that are written in parts: padding and concatenation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from archloom.mapper.nests import Code, Fold, Nest, Pass, Store
from archloom.oracle.affine import Affine
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.nests.folding import mean, of_type
from archloom.tvm_backend.ir.nests.reading import INTEGERS, RESULT, Index, Reading, dense, item_of
from archloom.tvm_backend.ir.sweeps import NotQuantized


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
    code, item = Code(), item_of(ir.dtype_of(call))
    number = reading.at(call.args[0], code, tuple(source))
    fold = Fold("found", of_type("sum" if kind == "mean" else kind, call), number)
    first = Pass(inner, tuple(code.operations), (), (fold,))
    code = Code()
    found = code.held("found")
    found = mean(code, found, count) if kind == "mean" else found
    stores = (Store(RESULT, dense(shape, tuple(into)), found, item),)
    return Nest(axes, (first, Pass((), tuple(code.operations), stores)))


def _adaptive(reading: Reading, call: ir.Call) -> Iterator[Nest]:
    layout, data = str(ir.attr(call, "layout")), call.args[0]
    axes = tuple(layout.index(letter) for letter in "HW")
    if any(ir.shape_of(call)[a] != 1 for a in axes):
        raise NotQuantized("it pools to more than one place")
    span = {a: _Span(0, 1, 0, ir.shape_of(data)[a], 0, 1, 1) for a in axes}
    yield _window(reading, call, span, "mean", math.prod(ir.shape_of(data)[a] for a in axes))


# results in parts -----------------------------------------------------------------------------------------------------


def _padded(reading: Reading, call: ir.Call) -> Iterator[Nest]:
    """A constant everywhere, and the tensor over it."""
    if str(ir.attr(call, "pad_mode", "constant")) != "constant":
        raise NotQuantized("it pads with what is there")
    widths, shape = ir.attr_ints(call, "pad_width"), ir.shape_of(call)
    axes, index = reading.axes("i", shape)
    code, item = Code(), item_of(ir.dtype_of(call))
    given = float(ir.attr(call, "pad_value", 0.0))
    value = code.whole(int(given)) if ir.dtype_of(call) in INTEGERS else code.number(given)
    yield Nest(axes, (Pass((), tuple(code.operations), (Store(RESULT, dense(shape, index), value, item),)),))
    yield reading.each(call.args[0], lambda i: dense(shape, tuple(p + b for p, b in zip(i, widths[::2], strict=True))))


def _joined(reading: Reading, call: ir.Call) -> Iterator[Nest]:
    shape, axis, first = ir.shape_of(call), int(ir.attr(call, "axis")) % len(ir.shape_of(call)), 0
    for part in ir.tuple_fields(call.args[0]) or ():
        def into(index: Index, first: int = first) -> Affine:
            return dense(shape, (*index[:axis], index[axis] + first, *index[axis + 1:]))

        yield reading.each(part, into)
        first += ir.shape_of(part)[axis]


WINDOWS: Mapping[str, Callable[[Reading, ir.Call], Iterator[Nest]]] = {
    **{f"nn.max_pool{n}d": _pooled("maximum") for n in (1, 2, 3)},
    **{f"nn.avg_pool{n}d": _pooled("mean") for n in (1, 2, 3)},
    "nn.adaptive_avg_pool2d": _adaptive, "nn.pad": _padded, "concat": _joined,
}
"""Those of windows, and what is written in parts."""
