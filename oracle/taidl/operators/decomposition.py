"""Operators on triangular and positive definite matrices: the columns one after the other, each step rounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from archloom.oracle.resolved import Shaped, TensorType
from archloom.oracle.taidl.operators import base
from archloom.oracle.taidl.operators.base import Attribute, Attributes, Opcode, Values, flag
from archloom.oracle.taidl.operators.stepwise import Steps


def _matrix_fault(x: Shaped) -> str | None:
    if not base.is_kind(x.dtype, "float"):
        return f"{{}} is not defined for {x.dtype}"
    if len(x.shape) < 2 or base.differ(x.shape[-1], x.shape[-2]):
        return f"{{}} takes square matrices along the last two axes, found {x}"
    return None


def _turned(x: Any) -> Any:
    return x.swapaxes(-1, -2)


# --- cholesky -----------------------------------------------------------------------------------------------------


def _cholesky_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,) = operands
    return _matrix_fault(x) or base.flags_fault(a, "lower") or base.wrong(result, x.shape, x.dtype)


def _cholesky(lib: Any, result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    s, n, where = Steps(lib, result.dtype), result.shape[-1], lib.xp.where
    place = np.arange(n, dtype=np.int32)
    rows, columns = place[:, None], place

    def column(j: Any, m: Any) -> Any:
        below = lib.at(m, j, m.ndim - 1)
        pivot = s.sqrt(lib.at(below, j, below.ndim - 1))[..., None]
        made = where(place == j, pivot, where(place < j, below.dtype.type(0), s.divide(below, pivot)))
        less = s.subtract(m, s.multiply(made[..., None], made[..., None, :]))
        return where(columns == j, made[..., None], where((rows > j) & (columns > j), less, m))

    given = s.value(x[0])
    found = lib.xp.tril(lib.repeat(0, n, column, given if a["lower"] else _turned(given)))
    return s.element(found if a["lower"] else _turned(found))


# --- triangular_solve ---------------------------------------------------------------------------------------------

TRANSPOSES = ("no_transpose", "transpose", "adjoint")


def _solve_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    x, y = operands
    fault = _matrix_fault(x) or base.flags_fault(a, "left_side", "lower", "unit_diagonal")
    if fault or len(y.shape) != len(x.shape) or y.dtype != x.dtype:
        return fault or f"{{}} needs operands of one rank and type, found {x} and {y}"
    at = -2 if a["left_side"] else -1
    if base.shapes_differ(x.shape[:-2], y.shape[:-2]) or base.differ(x.shape[-1], y.shape[at]):
        return f"{{}} cannot solve for {y} with the matrices {x}"
    return base.wrong(result, y.shape, y.dtype)


def _solve(lib: Any, result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    """``op(a) x = b`` from the first row of a lower triangle on; the other cases are this one, turned."""
    s, where = Steps(lib, result.dtype), lib.xp.where
    matrix, right = (s.value(v) for v in x)
    lower, transposed = bool(a["lower"]), a["transpose_a"] != "no_transpose"
    if not a["left_side"]:
        right, transposed = _turned(right), not transposed
    if transposed:
        matrix, lower = _turned(matrix), not lower
    if not lower:
        matrix, right = lib.xp.flip(matrix, (-1, -2)), lib.xp.flip(right, -2)
    n = matrix.shape[-1]
    place = np.arange(n, dtype=np.int32)[:, None]

    def row(k: Any, b: Any) -> Any:
        factors = lib.at(matrix, k, matrix.ndim - 1)
        found = lib.at(b, k, b.ndim - 2)
        if not a["unit_diagonal"]:
            found = s.divide(found, lib.at(factors, k, factors.ndim - 1)[..., None])
        less = s.subtract(b, s.multiply(factors[..., None], found[..., None, :]))
        return where(place == k, found[..., None, :], where(place > k, less, b))

    solved = lib.repeat(0, n, row, right)
    solved = solved if lower else lib.xp.flip(solved, -2)
    return s.element(solved if a["left_side"] else _turned(solved))


ROWS: list[Opcode] = [
    Opcode("cholesky", 1, _cholesky_rule, *base.in_both(_cholesky), "opaque",
           "the triangle whose product with its transpose is x, of which one triangle is read; zeros elsewhere; a "
           "matrix that is not positive definite gives NaN", (flag("lower", 0),)),
    Opcode("triangular_solve", 2, _solve_rule, *base.in_both(_solve), "opaque",
           "x of `a x = b`, or of `x a = b` without `left_side`, for a triangle of a", (
               flag("left_side", 1), flag("lower", 0), flag("unit_diagonal", 0),
               Attribute("transpose_a", "word", TRANSPOSES, "no_transpose"))),
]
