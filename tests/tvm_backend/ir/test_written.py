"""Plain functions that were written and read again are equal: names, types, operators, numbers, what is shared."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.tvm_backend.ir import bare, nodes
from archloom.tvm_backend.ir.conversion import blank, is_blank
from archloom.tvm_backend.ir.written import function_of, written
from tests.support.examples import examples
from tests.support.tvm_backend.random_modules import RandomModule, modules


def again(function: nodes.Function) -> nodes.Function:
    return function_of(json.loads(json.dumps(written(function))))


def assert_equal(one: nodes.Function, other: nodes.Function) -> None:
    known: dict[int, Any] = {}
    assert len(one.params) == len(other.params) and len(one.body) == len(other.body)
    for mine, theirs in [*zip(one.params, other.params, strict=True),
                         *((a.var, b.var) for a, b in zip(one.body, other.body, strict=True))]:
        assert (mine.name, mine.ty) == (theirs.name, theirs.ty)
        known[id(mine)] = theirs
    for a, b in zip(one.body, other.body, strict=True):
        _same(a.value, b.value, known)
    assert known[id(one.result)] is other.result and dict(one.attrs) == dict(other.attrs)


def _same(mine: Any, theirs: Any, known: dict[int, Any]) -> None:
    assert type(mine) is type(theirs)
    match mine:
        case nodes.Var():
            assert known[id(mine)] is theirs
        case nodes.Constant():
            assert known.setdefault(id(mine), theirs) is theirs and mine.ty == theirs.ty
            assert mine.value.dtype == theirs.value.dtype and is_blank(mine.value) == is_blank(theirs.value)
            assert mine.value.tobytes() == theirs.value.tobytes()
        case nodes.Call():
            assert (mine.op, mine.ty) == (theirs.op, theirs.ty)
            assert repr(mine.attrs) == repr(theirs.attrs)  # 1 is not 1.0, nor (1,) [1]
            _all_same(mine.args, theirs.args, known)
        case nodes.Tuple():
            _all_same(mine.fields, theirs.fields, known)
        case nodes.TupleGet():
            assert mine.index == theirs.index
            _same(mine.tuple_value, theirs.tuple_value, known)
        case nodes.Shape():
            assert mine.values == theirs.values
        case tuple():
            _all_same(mine, theirs, known)
        case _:
            assert repr(mine) == repr(theirs)


def _all_same(mine: tuple[Any, ...], theirs: tuple[Any, ...], known: dict[int, Any]) -> None:
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        _same(a, b, known)


@given(modules(), st.data())
@examples(20, 400)
def test_random_functions(module: RandomModule, data: st.DataObject) -> None:
    """As they are read from TVM, some parameters as weights."""
    names = [str(param.name) for param in module.module["main"].params]
    weights = data.draw(st.sets(st.sampled_from(names)))
    function = bare.without_weights(module.module, weights)
    assert_equal(function, again(function))


ARRAYS = [
    np.float32(-0.0).reshape(()), np.zeros((2, 0, 3), np.int8), np.full((3, 2), np.nan, np.float32),
    np.array([0.0, -0.0]), np.arange(12, dtype=np.int64).reshape(3, 4).T, np.array([True, False]),
    np.array([[7]], np.uint8), blank((5, 6), np.float32), np.broadcast_to(np.float32(3), (2, 2))]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_constants(array: np.ndarray) -> None:
    constant = nodes.Constant(array)
    shared = nodes.Tuple((constant, constant))
    result = nodes.Var("gv", shared.ty)
    function = nodes.Function((), (nodes.Binding(result, shared),), result)
    assert_equal(function, again(function))


def _of(value: Any) -> nodes.Function:
    result = nodes.Var("gv", value.ty)
    return nodes.Function((), (nodes.Binding(result, value),), result)


def test_what_cannot_be_written_is_said() -> None:
    x = nodes.Constant(np.zeros(1, np.float32))
    strange = nodes.Call("abs", (x,), nodes.attributes(places=[1]), x.ty)
    called = nodes.Call(nodes.Target("f"), (x,), nodes.attributes(), x.ty)
    open_ = nodes.Call("abs", (x,), nodes.attributes(), nodes.OpenType("R.Object", False))
    words = nodes.Constant(np.array(["a"]))
    for value, message in ((strange, r"\[1\] as an argument"), (called, "Target"), (open_, "not static"),
                           (words, "a constant of <U1")):
        with pytest.raises(nodes.Unsupported, match=message):
            written(_of(value))
    function = _of(x)
    with pytest.raises(nodes.Unsupported, match="'gv' of another type"):
        function.result.ty = None
        written(function)
