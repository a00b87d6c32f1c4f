"""The NumPy meaning of the operators: against XLA where it defines the operation, and at the edges by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from archloom.oracle.resolved import TensorType
from archloom.oracle.taidl.operators import OPCODES, fault
from archloom.oracle.taidl.types import TYPES, numpy_dtype

I8, I32 = np.dtype(np.int8), np.dtype(np.int32)


def run(opcode: str, shape: tuple[int, ...], dtype: str, *operands: Any, **attributes: Any) -> np.ndarray:
    """The kernel's result, after the type rule has accepted it, with shape and dtype checked."""
    values = {a.name: attributes.get(a.name, a.default) for a in OPCODES[opcode].attributes} | attributes
    names = {numpy_dtype(n): n for n in TYPES}
    types = [TensorType(x.shape, names[x.dtype]) for x in operands]
    assert fault(opcode, TensorType(shape, dtype), types, values) is None
    result = np.asarray(OPCODES[opcode].kernel(TensorType(shape, dtype), operands, values, [t.dtype for t in types]))
    assert result.shape == shape and result.dtype == numpy_dtype(dtype)
    return result


def random(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Values over the whole range of the type."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return (rng.normal(size=shape) * 10.0 ** rng.integers(-3, 12, shape)).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def wrap(value: int, dtype: np.dtype) -> int:
    """An integer reduced to the range of a signed type (two's complement)."""
    return int(np.array(value & ((1 << 8 * dtype.itemsize) - 1), f"u{dtype.itemsize}").view(dtype))


@pytest.mark.parametrize(("value", "dtype", "expected"), [
    (200, "i8", -56), (-129, "i8", 127), (0xBF800000, "i32", -1082130432), (-1, "u8", 255), (3, "f32", 3.0),
    (1.5, "f32", 1.5), (2**40 + 5, "i32", 5), (1, "i1", True),
])
def test_constants_wrap(value: float, dtype: str, expected: float) -> None:
    result = run("constant", (2, 3), dtype, value=value)
    assert (result == expected).all()


@pytest.mark.parametrize(("value", "i8", "i32"), [
    (1.9, 1, 1), (-1.9, -1, -1), (127.5, 127, 127), (300.0, 127, 300), (-300.0, -128, -300),
    (3e9, 127, 2**31 - 1), (-3e9, -128, -(2**31)), (2147483520.0, 127, 2147483520), (float("inf"), 127, 2**31 - 1),
    (float("-inf"), -128, -(2**31)), (float("nan"), 0, 0), (2147483648.0, 127, 2**31 - 1),
])
def test_float_to_integer_truncates_and_saturates(value: float, i8: int, i32: int) -> None:
    x = np.full((3,), value, np.float32)
    assert run("convert", (3,), "i8", x).tolist() == [i8] * 3
    assert run("convert", (3,), "i32", x).tolist() == [i32] * 3


def test_float_to_64_bit_integers_saturates_exactly() -> None:
    x = np.array([9.3e18, -9.3e18, 9223372036854774784.0, 2.0**63], np.float64)
    assert run("convert", (4,), "i64", x).tolist() == [2**63 - 1, -(2**63), 9223372036854774784, 2**63 - 1]


def test_integer_conversions_wrap_and_round_to_even() -> None:
    assert run("convert", (3,), "i8", np.array([200, -129, 127], np.int32)).tolist() == [-56, 127, 127]
    odd = np.array([2**24 + 1, 2**24 + 3, -(2**24) - 1], np.int32)
    assert run("convert", (3,), "f32", odd).tolist() == [2.0**24, 2.0**24 + 4, -(2.0**24)]
    assert run("convert", (2,), "i1", np.array([0, 7], np.int32)).tolist() == [False, True]
    assert run("convert", (2,), "i32", np.array([False, True])).tolist() == [0, 1]


def test_bitcasts_change_width() -> None:
    words = random((3, 5), np.int32)
    as_bytes = run("bitcast_convert", (3, 5, 4), "i8", words)
    assert as_bytes.tobytes() == words.tobytes()
    np.testing.assert_array_equal(run("bitcast_convert", (3, 5), "i32", as_bytes), words)
    np.testing.assert_array_equal(run("bitcast_convert", (3, 5), "i32", np.asfortranarray(as_bytes)), words)
    assert run("bitcast_convert", (), "f32", np.array(0x3F800000, np.uint32)) == 1.0


@pytest.mark.parametrize(("low", "high", "expected"), [
    ((1,), (2,), [9, 1, 2, 3, 9, 9]), ((-1,), (1,), [2, 3, 9]), ((1,), (-2,), [9, 1]), ((2,), (-4,), [9]),
    ((-3,), (1,), [9]), ((0,), (0,), [1, 2, 3]),
])
def test_pad_crops_where_negative(low: tuple[int], high: tuple[int], expected: list[int]) -> None:
    x = np.array([1, 2, 3], np.int8)
    assert run("pad", (len(expected),), "i8", x, low=low, high=high, value=9).tolist() == expected


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (5, 7, 3), (64, 96, 32)])
@pytest.mark.parametrize("dtype", [np.int8, np.int32])
def test_dot_general_wraps_at_any_size(m: int, k: int, n: int, dtype: Any) -> None:
    x, y = random((m, k), dtype, 3), random((k, n), dtype, 4)
    exact = x.astype(object) @ y.astype(object)
    expected = np.array([[wrap(int(v), I32) for v in row] for row in exact], np.int32)
    result = run("dot_general", (m, n), "i32", x, y, lhs_contracting=(1,), rhs_contracting=(0,))
    np.testing.assert_array_equal(result, expected)


def test_dot_general_axes() -> None:
    x, y = random((4, 3, 2, 5), np.int8, 5), random((5, 4, 6, 3), np.int8, 6)
    result = run("dot_general", (4, 2, 6), "i32", x, y, lhs_batch=(0,), rhs_batch=(1,), lhs_contracting=(3, 1),
                 rhs_contracting=(0, 3))
    np.testing.assert_array_equal(result, np.einsum("bcfk,kbgc->bfg", x.astype(np.int32), y.astype(np.int32)))


def test_movement() -> None:
    x = random((2, 3), np.int8)
    np.testing.assert_array_equal(run("transpose", (3, 2), "i8", x, dim=(1, 0)), x.T)
    np.testing.assert_array_equal(run("slice", (1, 2), "i8", x, start=(1, 0), limit=(2, 3), stride=(1, 2)), x[1:, ::2])
    np.testing.assert_array_equal(run("concatenate", (4, 3), "i8", x, x, dim=0), np.concatenate([x, x]))
    np.testing.assert_array_equal(
        run("broadcast_in_dim", (3, 4, 2), "i8", x, dims=(2, 0)), np.repeat(x.T[:, None, :], 4, axis=1))
    assert run("broadcast", (2, 2), "i8", np.array(5, np.int8)).tolist() == [[5, 5], [5, 5]]
    assert run("iota", (2, 3), "i32", dim=1).tolist() == [[0, 1, 2], [0, 1, 2]]
    np.testing.assert_array_equal(run("reduce", (3,), "i8", x, dim=(0,), kind="add"), x[0] + x[1])
    np.testing.assert_array_equal(run("reduce", (2,), "i8", x, dim=(1,), kind="min"), x.min(axis=1))
    windows = run("reduce_window", (1, 2), "i8", x, kind="max", size=(2, 2), stride=(1, 1))
    np.testing.assert_array_equal(windows, [[x[:, :2].max(), x[:, 1:].max()]])


def test_choices() -> None:
    x, y = random((9,), np.int8, 7), random((9,), np.int8, 8)
    less = run("compare", (9,), "i1", x, y, direction="lt")
    np.testing.assert_array_equal(less, x < y)
    np.testing.assert_array_equal(run("select", (9,), "i8", less, x, y), np.minimum(x, y))
    low, high = np.array(-3, np.int8), np.array(5, np.int8)
    np.testing.assert_array_equal(run("clamp", (9,), "i8", low, x, high), np.clip(x, -3, 5))


# --- against XLA --------------------------------------------------------------------------------------------------

