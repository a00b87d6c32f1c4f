"""Reductions, softmax and normalizations: passes over the same axes of a tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from archloom.mapper.nests import Code, Fold, Nest, Pass, Store
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.nests.reading import RESULT, Index, Reading, dense
from archloom.tvm_backend.ir.nests.scalars import apply


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
            x = code.apply(function, x, reading.at(argument, code, rows.columns))
    rows.add(code, store=x)
    yield rows.nest()


FOLDING: Mapping[str, Callable[[Reading, ir.Call], Iterator[Nest]]] = {
    "sum": _reduced("sum"), "mean": _reduced("sum", mean), "max": _reduced("maximum"), "min": _reduced("minimum"),
    "nn.softmax": _softmax, "nn.layer_norm": _norm, "nn.rms_norm": _norm,
}
"""What folds along axes."""
