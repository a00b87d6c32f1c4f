"""Reductions, softmax and normalizations: passes over the same axes of a tensor; and sums up to each element."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from archloom.mapper.nests import Code, Fold, Nest, Pass, Store
from archloom.oracle.affine import Affine
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.nests.reading import INTEGERS, RESULT, WIDE, Index, Reading, dense, item_of
from archloom.tvm_backend.ir.nests.scalars import OF_WHOLE, apply
from archloom.tvm_backend.ir.nests.wide import Wide, wide
from archloom.tvm_backend.ir.sweeps import NotQuantized


@dataclass
class _Rows:
    """A tensor's axes, some of which each pass goes over again; of the axis ``grouped``, if any, the parts of one of so
    many groups."""

    reading: Reading
    source: Any
    over: tuple[int, ...]
    grouped: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self.shape = ir.shape_of(self.source)
        outer, inner = list(self.shape), list(self.shape)
        parts: list[int] = []
        if self.grouped is not None:
            axis, groups = self.grouped
            parts, outer[axis], inner[axis] = [axis], groups, self.shape[axis] // groups
        self.own = [i for i in range(len(self.shape)) if i not in self.over]
        inside = [*parts, *self.over]
        self.count = math.prod(inner[i] for i in inside)
        self.axes, self.rows = self.reading.axes("i", [outer[i] for i in self.own])
        self.inner, self.columns = self.reading.axes("k", [inner[i] for i in inside])
        self.passes: list[Pass] = []
        places = dict(zip(self.own, self.rows, strict=True))
        for i, place in zip(inside, self.columns, strict=True):
            places[i] = places[i] * inner[i] + place if i in places else place
        self.index: Index = tuple(places[i] for i in range(len(self.shape)))

    def number(self, code: Code) -> int:
        return self.reading.at(self.source, code, self.index)

    def add(self, code: Code, *folds: Fold, store: int | None = None, alone: bool = False) -> None:
        """A pass over the axes, or one that only goes on with what is held."""
        item = item_of(ir.dtype_of(self.source))
        stores = () if store is None else (Store(RESULT, dense(self.shape, self.index), store, item),)
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
        code, item = Code(), item_of(ir.dtype_of(call))
        rows.add(code, Fold("found", of_type(kind, call), rows.number(code)))
        code = Code()
        found = code.held("found")
        found = found if finish is None else finish(code, found, rows.count)
        kept = [rows.shape[i] for i in rows.own]
        rows.passes.append(Pass((), tuple(code.operations), (Store(RESULT, dense(kept, rows.rows), found, item),)))
        yield rows.nest()

    return nests


def of_type(kind: str, call: ir.Call) -> str:
    """How numbers of the type of a call's result are folded."""
    return f"whole_{kind}" if ir.dtype_of(call) in INTEGERS else kind


def mean(code: Code, total: int, count: int) -> int:
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
    share = code.load(RESULT, dense(rows.shape, rows.index), item_of(ir.dtype_of(call)))
    rows.add(code, store=code.apply("multiply", share, code.held("factor")))
    yield rows.nest()


def _norm(reading: Reading, call: ir.Call) -> Iterator[Nest]:
    """Over axes, by factors for each of their places."""
    rows = _Rows(reading, call.args[0], _axes_of(call, "axes"))
    yield _normalized(call, rows, rows.columns, ir.op_name(call) == "nn.layer_norm")


def _group_norm(reading: Reading, call: ir.Call) -> Iterator[Nest]:
    """Over some channels and all of other axes, by factors for each channel."""
    shape, over = ir.shape_of(call.args[0]), _axes_of(call, "axes")
    channel, groups = int(ir.attr(call, "channel_axis")) % len(shape), int(ir.attr(call, "num_groups"))
    rows = _Rows(reading, call.args[0], tuple(a for a in over if a != channel), (channel, groups))
    yield _normalized(call, rows, (rows.index[channel],), True)


def _normalized(call: ir.Call, rows: _Rows, place: Index, centered: bool) -> Nest:
    """(x - mean) / sqrt(variance + epsilon), or without the mean, scaled and shifted by what lies at ``place``."""
    if centered:
        code = Code()
        rows.add(code, Fold("total", "sum", rows.number(code)))
        code = Code()
        rows.add(code, Fold("mean", "sum", mean(code, code.held("total"), rows.count)), alone=True)

    def number(code: Code) -> int:
        x = rows.number(code)
        return code.apply("subtract", x, code.held("mean")) if centered else x

    code = Code()
    x = number(code)
    rows.add(code, Fold("squares", "sum", code.apply("multiply", x, x)))
    code = Code()
    variance = code.apply("add", mean(code, code.held("squares"), rows.count), code.number(ir.attr(call, "epsilon")))
    rows.add(code, Fold("factor", "sum", apply(code, "reciprocal", code.apply("sqrt", variance))), alone=True)
    code = Code()
    x = code.apply("multiply", number(code), code.held("factor"))
    for function, argument, flag in zip(("multiply", "add"), call.args[1:], ("scale", "center")):
        if ir.attr(call, flag, True):
            x = code.apply(function, x, rows.reading.at(argument, code, place))
    rows.add(code, store=x)
    return rows.nest()


def _scanned(reading: Reading, call: ir.Call) -> Iterator[Nest]:
    """Sums of all elements of an axis up to each, in place: of pairs, of pairs of those and so on, then from the widest
    back, those of the elements between (Brent and Kung's network)."""
    shape, axis = ir.shape_of(call), ir.attr(call, "axis")
    if axis is None or ir.attr(call, "exclusive", False) or ir.dtype_of(call) != ir.dtype_of(call.args[0]):
        raise NotQuantized("it sums up along no axis, without the element, or in another type")
    if item_of(ir.dtype_of(call)):
        raise NotQuantized(f"cumsum of {ir.dtype_of(call)}")
    axis = int(axis) % len(shape)
    extent, widths = shape[axis], [1]
    while 4 * widths[-1] <= extent:
        widths.append(2 * widths[-1])
    yield reading.each(call.args[0])
    up = [(width, width - 1, extent // (2 * width)) for width in widths]
    down = [(width, 2 * width - 1, (extent - width) // (2 * width)) for width in reversed(widths)]
    for number, (width, first, count) in enumerate((*up, *down)):
        if count > 0:
            yield _added(reading, call, axis, number, (width, first, count))


def _added(reading: Reading, call: ir.Call, axis: int, number: int, step: tuple[int, int, int]) -> Nest:
    """To elements of the result ``width`` behind the ``first``, and each 2 ``width`` further on, those before them."""
    (width, first, count), shape, dtype = step, ir.shape_of(call), ir.dtype_of(call)
    axes, index = reading.axes(f"s{number}_", [count if i == axis else n for i, n in enumerate(shape)])

    def place(behind: int) -> Affine:
        return dense(shape, (*index[:axis], index[axis] * (2 * width) + first + behind, *index[axis + 1:]))

    code = Code()
    if dtype != WIDE:
        total = code.apply(OF_WHOLE["add"] if dtype == "int32" else "add", code.load(RESULT, place(width)), code.load(
            RESULT, place(0)))
        return Nest(axes, (Pass((), tuple(code.operations), (Store(RESULT, place(width), total),)),))
    a, b = (Wide(lambda at=at: code.load(RESULT, at * 2), lambda at=at: code.load(RESULT, at * 2 + 1))  # type: ignore[misc]
            for at in (place(width), place(0)))
    stores = tuple(Store(RESULT, place(width) * 2 + half, wide(code, "add", half, a, b)) for half in (0, 1))
    return Nest(axes, (Pass((), tuple(code.operations), stores),))


FOLDING: Mapping[str, Callable[[Reading, ir.Call], Iterator[Nest]]] = {
    "sum": _reduced("sum"), "mean": _reduced("sum", mean), "max": _reduced("maximum"), "min": _reduced("minimum"),
    "nn.softmax": _softmax, "nn.layer_norm": _norm, "nn.rms_norm": _norm,
    "nn.group_norm": _group_norm, "cumsum": _scanned,
}
"""What folds along axes."""
