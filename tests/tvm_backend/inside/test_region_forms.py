"""What goes into regions and comes out: results in tuples, shared and unused inputs, scalars, constants, all types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import archloom
from archloom.tvm_backend.ir.compat import relax
from tests.support.examples import every, slow
from tests.support.tvm_backend import inside

op = relax.op
X = inside.floats(4, 8)
dense, const = inside.dense, inside.const


def pair(builder: Any, x: Any) -> Any:
    """A tuple that has a name, and another one."""
    return builder.emit(builder.emit(relax.Tuple([dense(builder, x, 4), x])))


RESULTS: dict[str, Callable[..., Any]] = {
    "several": lambda b, x: [dense(b, x, 4, 1), dense(b, x, 8, 2)],
    "a tuple of one": lambda b, x: [dense(b, x, 4)],
    "tuples in tuples": lambda b, x: relax.Tuple(
        [dense(b, x, 4), relax.Tuple([x, relax.Tuple([dense(b, x, 2)])]), b.emit(op.split(x, 2, 1))]),
    "an operator's tuple": lambda b, x: b.emit(op.split(dense(b, x, 4), 2, 1)),
    "an input's parts": lambda b, x: b.emit(op.split(x, 2, 1)),
    "a named tuple": pair,
    "an input beside": lambda b, x: [x, dense(b, x, 4)],
    "an input alone": lambda b, x: x,
    "an input twice": lambda b, x: relax.Tuple([x, relax.Tuple([x, x])]),
    "the same twice": lambda b, x: [y := dense(b, x, 4), y],
    "a constant beside": lambda b, x: [const(np.ones((2, 2), np.float32)), dense(b, x, 4)],
    "a constant within": lambda b, x: relax.Tuple([relax.Tuple([const(np.float32(2))]), dense(b, x, 4)]),
    "constants alone": lambda b, x: b.emit(op.add(const(np.ones(2, np.float32)), const(np.ones(2, np.float32)))),
    "a scalar": lambda b, x: b.emit(op.sum(dense(b, x, 4))),
    "an empty tuple beside": lambda b, x: relax.Tuple([relax.Tuple([]), dense(b, x, 4)]),
    "indices and truths": lambda b, x: [
        b.emit(op.argmax(dense(b, x, 4), axis=1)), b.emit(op.greater(dense(b, x, 4, 2), const(np.float32(0))))],
    "nothing offloaded": lambda b, x: b.emit(op.nn.relu(x)),
    "what nobody reads": lambda b, x: [dense(b, x, 4), dense(b, dense(b, x, 2), 3)][:1],
}


@pytest.mark.first_case
@pytest.mark.parametrize("host", [True, slow(False)])
@pytest.mark.parametrize("form", every(8, RESULTS))
def test_results(form: str, host: bool) -> None:
    module = inside.built({"x": [(4, 8)]}, RESULTS[form])
    found = inside.raw(inside.compiled("qkv", module, host=host), X)
    expected = inside.raw(inside.tvm.compile(module, target="llvm"), X)
    assert inside.kinds(found) == inside.kinds(expected)
    inside.same(inside.arrays(found), inside.arrays(expected))
    inside.same(inside.arrays(found), inside.by_archloom("qkv", module, X))
    prepared = archloom.tvm.Prepare("qkv")(module)
    assert inside.kinds(inside.raw(inside.tvm.compile(prepared, target="llvm"), X)) == inside.kinds(expected)


INPUTS: dict[str, tuple[dict[str, Any], Callable[..., Any], list[Any]]] = {
    "the same value twice": ({"x": [(4, 4)]}, lambda b, x: b.emit(op.matmul(x, x)), [inside.floats(4, 4)]),
    "shared by two regions": (
        {"x": [(4, 4)]}, lambda b, x: [dense(b, x, 4, 1), dense(b, b.emit(op.sin(dense(b, x, 4))), 4), x],
        [np.zeros((4, 4), np.float32)]),
    "one that is not used": ({"x": [(4, 8)], "y": [(3,)]}, lambda b, x, y: dense(b, x, 4), [X, inside.floats(3)]),
    "a scalar": (
        {"x": [(4, 8)], "s": [()]}, lambda b, x, s: b.emit(op.multiply(dense(b, x, 4), s)), [X, np.float32(2)]),
    "only a scalar": ({"s": [()]}, lambda b, s: b.emit(op.add(s, s)), [np.float32(2)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("host", [True, slow(False)])
@pytest.mark.parametrize("form", every(3, INPUTS))
def test_inputs(form: str, host: bool) -> None:
    parameters, make, given = INPUTS[form]
    module = inside.built(parameters, make)
    found = inside.run(inside.compiled("qkv", module, host=host), *given)
    inside.same(found, inside.alone(module, *given))
    inside.same(found, inside.by_archloom("qkv", module, *given))


TYPES = [np.float16, ml_dtypes.bfloat16, np.float64, np.int64, np.int32, np.int8, np.uint8, np.bool_]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", every(6, TYPES))
@pytest.mark.parametrize("host", [True, slow(False)])
def test_types(dtype: Any, host: bool) -> None:
    """Tensors of any type go through functions of the host, in and out."""
    name = np.dtype(dtype).name

    def make(builder: Any, x: Any, y: Any) -> Any:
        product = dense(builder, x, 4)
        joined = builder.emit(op.concat([y, y], 0))
        mixed = builder.emit(op.add(product, builder.emit(op.astype(builder.emit(op.reshape(y, [4, 4])), "float32"))))
        return [mixed, joined, builder.emit(op.astype(product, name))]

    y = np.abs(inside.floats(4, 4, seed=3)).astype(dtype)
    module = inside.built({"x": [(4, 8)], "y": [(4, 4), name]}, make)
    found = inside.run(inside.compiled("qkv", module, host=host), np.abs(X) * 0, y)
    inside.same(found, inside.alone(module, np.abs(X) * 0, y))


def test_tensors_without_elements_are_refused() -> None:
    module = inside.built({"x": [(0, 8)]}, lambda b, x: dense(b, x, 4))
    with pytest.raises(archloom.ModelError, match="main: input 'x': expected a tensor with elements, found shape 0x8"):
        archloom.tvm.partition_for("qkv", module)


def test_what_is_no_tensor_is_refused() -> None:
    module = inside.built({"x": [(4, 8)]}, lambda b, x: [dense(b, x, 4), relax.ShapeExpr([2, 3])])
    with pytest.raises(archloom.ModelError, match="main: result 1: expected a tensor, found"):
        archloom.tvm.partition_for("qkv", module)
