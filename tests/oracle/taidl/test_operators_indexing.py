"""Operators whose places are data, windows and convolutions: interpreter, JAX and XLA's own operators agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.resolved import Shaped
from archloom.oracle.taidl.types import numpy_dtype
from tests.support.examples import every, examples
from tests.support.oracle.operator_cases import Case, equal

NARROW = ("i8", "i32", "u8", "f32")


def both(case: Case, operands: list[np.ndarray]) -> np.ndarray:
    """What interpreter and JAX give alike."""
    assert case.complaint is None, case.complaint
    result = case.kernel(operands)
    assert equal(result, case.in_jax(operands), case.result.dtype).all()
    return result


def whole(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Small whole numbers, whose sums are exact in any order."""
    low = 0 if dtype[0] == "u" else -9
    return np.random.default_rng(seed).integers(low, 10, shape).astype(numpy_dtype(dtype))


@pytest.mark.slow
@given(st.data())
@examples(4, 80)
def test_dynamic_slices(data: st.DataObject) -> None:
    from jax import lax

    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    size = tuple(data.draw(st.integers(1, n)) for n in shape)
    dtype = data.draw(st.sampled_from(["i8", "i32", "u8", "u32"]))
    low = 0 if dtype[0] == "u" else -9
    starts = [np.asarray(data.draw(st.integers(low, 12)), numpy_dtype(dtype)) for _ in shape]
    x, update = whole(shape, "i8", 1), whole(size, "i8", 2)
    clamped = [int(np.clip(int(s), 0, n - k)) for s, n, k in zip(starts, shape, size, strict=True)]
    indices = (Shaped((), dtype),) * len(shape)
    piece = both(Case("dynamic_slice", Shaped(size, "i8"), (Shaped(shape, "i8"), *indices), {"size": size}),
                 [x, *starts])
    np.testing.assert_array_equal(piece, lax.dynamic_slice(x, clamped, size))
    put = both(Case("dynamic_update_slice", Shaped(shape, "i8"), (Shaped(shape, "i8"), Shaped(size, "i8"), *indices)),
               [x, update, *starts])
    np.testing.assert_array_equal(put, lax.dynamic_update_slice(x, update, clamped))


@pytest.mark.slow
@given(st.data())
@examples(6, 120)
def test_gather_is_that_of_xla(data: st.DataObject) -> None:
    from jax import lax

    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    rank = len(shape)
    mapped = tuple(data.draw(st.permutations(range(rank)))[:data.draw(st.integers(1, rank))])
    collapsed = tuple(sorted(data.draw(st.sets(st.integers(0, rank - 1)))))
    sizes = tuple(1 if i in collapsed else data.draw(st.integers(1, n)) for i, n in enumerate(shape))
    batch = tuple(data.draw(st.lists(st.integers(1, 3), max_size=2)))
    total = len(batch) + rank - len(collapsed)
    offsets = tuple(sorted(data.draw(st.permutations(range(total)))[:rank - len(collapsed)]))
    x, indices = whole(shape, "i32", 3), whole((*batch, len(mapped)), "i32", 4)
    kept = [n for i, n in enumerate(sizes) if i not in collapsed]
    inner, outer = iter(kept), iter(batch)
    result = tuple(next(inner) if i in offsets else next(outer) for i in range(total))
    expected = lax.gather(x, indices, lax.GatherDimensionNumbers(offsets, collapsed, mapped), sizes, mode="clip")
    case = Case("gather", Shaped(result, "i32"), (Shaped(shape, "i32"), Shaped(indices.shape, "i32")), {
        "offset_dims": offsets, "collapsed_slice_dims": collapsed, "start_index_map": mapped, "slice_sizes": sizes,
        "index_vector_dim": len(batch)})
    np.testing.assert_array_equal(both(case, [x, indices]), expected)


@given(st.data())
@examples(6, 120)
def test_scatter_is_that_of_xla(data: st.DataObject) -> None:
    from jax import lax

    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    rank, dtype = len(shape), data.draw(st.sampled_from(NARROW))
    kind = data.draw(st.sampled_from(["update", "add", "max", "min", "multiply"]))
    mapped = tuple(data.draw(st.permutations(range(rank)))[:data.draw(st.integers(1, rank))])
    inserted = tuple(sorted(data.draw(st.sets(st.integers(0, rank - 1)))))
    sizes = [data.draw(st.integers(1, n)) for i, n in enumerate(shape) if i not in inserted]
    batch = tuple(data.draw(st.lists(st.integers(1, 3), max_size=1)))
    total = len(batch) + len(sizes)
    window = tuple(sorted(data.draw(st.permutations(range(total)))[:len(sizes)]))
    inner, outer = iter(sizes), iter(batch)
    updates = whole(tuple(next(inner) if i in window else next(outer) for i in range(total)), dtype, 5)
    indices = np.random.default_rng(6).integers(-1, 5, (*batch, len(mapped))).astype(np.int32)
    x = whole(shape, dtype, 7)
    function = {"update": lax.scatter, "add": lax.scatter_add, "max": lax.scatter_max, "min": lax.scatter_min,
                "multiply": lax.scatter_mul}[kind]
    expected = function(x, indices, updates, lax.ScatterDimensionNumbers(window, inserted, mapped), mode="drop")
    case = Case("scatter", Shaped(shape, dtype), (
        Shaped(shape, dtype), Shaped(indices.shape, "i32"), Shaped(updates.shape, dtype)), {
        "update_window_dims": window, "inserted_window_dims": inserted, "scatter_dims_to_operand_dims": mapped,
        "index_vector_dim": len(batch), "kind": kind})
    np.testing.assert_array_equal(both(case, [x, indices, updates]), expected)


@pytest.mark.first_case
@pytest.mark.parametrize("dtype", every(2, ["i8", "u4", "f32", "bf16", "f8e4m3fn", "i1"]))
@pytest.mark.parametrize("descending", [0, 1])
def test_sort_is_stable_and_carries_the_others(dtype: str, descending: int) -> None:
    keys, tags = Shaped((3, 40), dtype), Shaped((3, 40), "i32")
    case = Case("sort", tags, (keys, tags), {"dim": 1, "descending": descending, "result": 1})
    (x, _), place = case.tensors(11), np.tile(np.arange(40, dtype=np.int32), (3, 1))
    order = both(case, [x, place])
    for row, found in zip(x.astype(np.float64), order, strict=True):
        rank = [(np.inf, 1) if np.isnan(v) else (v if abs(v) >= 2.0**-126 else 0.0, 0) for v in row]
        expected = sorted(range(40), key=lambda i: rank[i], reverse=False)
        if descending:
            expected = sorted(range(40), key=lambda i: (-rank[i][0], -rank[i][1]))
        assert found.tolist() == expected


def test_sort_by_two_keys() -> None:
    a, b = whole((50,), "i8", 1) // 4, whole((50,), "i8", 2)
    kind = Shaped((50,), "i8")
    case = Case("sort", kind, (kind, kind), {"dim": 0, "keys": 2, "result": 1})
    expected = [y for _, y in sorted(zip(a.tolist(), b.tolist(), strict=True))]
    assert both(case, [a, b]).tolist() == expected


@pytest.mark.slow
@given(st.data())
@examples(6, 120)
def test_convolution_is_that_of_xla(data: st.DataObject) -> None:
    from jax import lax

    spatial = data.draw(st.integers(0, 2))
    draw = lambda low, high: tuple(data.draw(st.integers(low, high)) for _ in range(spatial))  # noqa: E731
    extents, sizes = draw(2, 6), draw(1, 3)
    lists: dict[str, Any] = {"stride": draw(1, 3), "low": draw(-1, 2), "high": draw(-1, 2), "lhs_dilation": draw(1, 2),
                             "rhs_dilation": draw(1, 2)}
    groups, batch, each, outs = (data.draw(st.integers(1, 2)) for _ in range(4))
    rank = spatial + 2
    layouts = [tuple(data.draw(st.permutations(range(rank)))) for _ in range(3)]
    dtype, total = data.draw(st.sampled_from([("i8", "i32"), ("f32", "f32"), ("u8", "i32")]))

    def placed(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(shape[axes.index(i)] for i in range(rank))

    x = whole(placed((batch, each * groups, *extents), layouts[0]), dtype, 1)
    w = whole(placed((outs * groups, each, *sizes), layouts[1]), dtype, 2)
    numbers = lax.ConvDimensionNumbers(*layouts)
    windows = [(e - 1) * d + 1 + lo + hi - (k - 1) * r - 1 for e, d, lo, hi, k, r in zip(
        extents, lists["lhs_dilation"], lists["low"], lists["high"], sizes, lists["rhs_dilation"], strict=True)]
    if any(n < 0 for n in windows):
        return
    expected = np.asarray(lax.conv_general_dilated(
        x.astype(np.float32), w.astype(np.float32), lists["stride"],
        list(zip(lists["low"], lists["high"], strict=True)), lists["lhs_dilation"], lists["rhs_dilation"], numbers,
        feature_group_count=groups))
    case = Case("convolution", Shaped(expected.shape, total), (Shaped(x.shape, dtype), Shaped(w.shape, dtype)), {
        **lists, "groups": groups, "lhs_dims": layouts[0], "rhs_dims": layouts[1], "out_dims": layouts[2]})
    np.testing.assert_array_equal(both(case, [x, w]), expected.astype(numpy_dtype(total)))


@pytest.mark.slow
@given(st.data())
@examples(6, 120)
def test_reduce_window_is_that_of_xla(data: st.DataObject) -> None:
    from jax import lax

    rank = data.draw(st.integers(1, 2))
    draw = lambda low, high: tuple(data.draw(st.integers(low, high)) for _ in range(rank))  # noqa: E731
    shape, size = draw(2, 6), draw(1, 3)
    lists: dict[str, Any] = {"stride": draw(1, 2), "low": draw(0, 2), "high": draw(0, 2), "base_dilation": draw(1, 2),
                             "window_dilation": draw(1, 2)}
    kind, dtype = data.draw(st.sampled_from(["add", "max", "min", "multiply"])), data.draw(st.sampled_from(NARROW))
    x = whole(shape, dtype, 5)
    if kind == "multiply":
        x = np.clip(x, 0, 2).astype(x.dtype)
    function = {"add": lax.add, "max": lax.max, "min": lax.min, "multiply": lax.mul}[kind]
    floats = dtype == "f32"
    start = {"add": 0, "multiply": 1, "max": -np.inf if floats else np.iinfo(x.dtype).min,
             "min": np.inf if floats else np.iinfo(x.dtype).max}[kind]
    reach = [(k - 1) * d + 1 for k, d in zip(size, lists["window_dilation"], strict=True)]
    room = [(n - 1) * b + 1 + lo + hi for n, b, lo, hi in zip(
        shape, lists["base_dilation"], lists["low"], lists["high"], strict=True)]
    if any(a < b for a, b in zip(room, reach, strict=True)):
        return
    expected = np.asarray(lax.reduce_window(
        x, np.asarray(start, x.dtype), function, size, lists["stride"],
        list(zip(lists["low"], lists["high"], strict=True)), lists["base_dilation"], lists["window_dilation"]))
    case = Case("reduce_window", Shaped(expected.shape, dtype), (Shaped(shape, dtype),),
                {"kind": kind, "size": size, **lists})
    np.testing.assert_array_equal(both(case, [x]), expected)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", every(4, ["i8", "u2", "f32", "i32", "bf16", "f8e5m2", "i1", "f4e2m1fn"]))
def test_reductions(dtype: str) -> None:
    """Every kind, of all elements; sums and products of floats in their order."""
    for kind in ("add", "max", "min", "multiply", "and", "or", "xor"):
        case = Case("reduce", Shaped((7,), dtype), (Shaped((3, 7, 5), dtype),), {"dim": (0, 2), "kind": kind})
        if case.complaint is None:
            both(case, case.tensors(3))


def test_float_sums_keep_their_order() -> None:
    x = np.array([[1e8, 1, -1e8, 1]], np.float32)
    case = Case("reduce", Shaped((1,), "f32"), (Shaped((1, 4), "f32"),), {"dim": (1,), "kind": "add"})
    assert both(case, [x]).tolist() == [1.0]
    y = np.array([448, 448, -448, 1], numpy_dtype("f8e5m2"))
    case = Case("reduce", Shaped((), "f8e5m2"), (Shaped((4,), "f8e5m2"),), {"dim": (0,), "kind": "add"})
    total = y[0]
    for v in y[1:]:
        total = (total.astype(np.float32) + v.astype(np.float32)).astype(y.dtype)
    assert both(case, [y]) == total


@pytest.mark.first_case
@pytest.mark.parametrize(("left", "right", "result"), [
    ("i8", "i8", "i32"), ("u8", "i8", "i32"), ("u8", "u8", "u32"), ("i4", "u4", "i16"), ("i4", "i4", "i4"),
    ("f8e4m3fn", "f8e5m2", "f32"), ("bf16", "bf16", "f32"), ("bf16", "bf16", "bf16"), ("f16", "f16", "f16"),
    ("f4e2m1fn", "f4e2m1fn", "f16"), ("f32", "f32", "f32"), ("f64", "f64", "f64"), ("i64", "i32", "i64"),
])
def test_products_of_mixed_types(left: str, right: str, result: str) -> None:
    case = Case("dot_general", Shaped((3, 4), result), (Shaped((3, 9), left), Shaped((9, 4), right)),
                {"lhs_contracting": (1,), "rhs_contracting": (0,)})
    x, y = case.tensors(2)
    found = both(case, [x, y])
    if result in ("i32", "i16", "i64"):
        bits = 8 * found.dtype.itemsize
        exact = np.array([[sum(int(a) * int(b) for a, b in zip(row, column, strict=True)) for column in y.T]
                          for row in x], object)
        assert ((exact + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)).tolist() == found.tolist()


def test_random_numbers_are_those_of_the_papers() -> None:
    """Known answers of Random123, and the generator that JAX has."""
    import jax

    from archloom.oracle.taidl.operators.random import philox

    def words(*values: int) -> tuple[Any, ...]:
        return tuple(np.array([v], np.uint32) for v in values)

    for key, counter, expected in [
        ((0, 0), (0,) * 4, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 4, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ((0xA4093822, 0x299F31D0), (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
         "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ]:
        found = philox(words(*key), words(*counter))  # type: ignore[arg-type]
        assert " ".join(f"{int(w[0]):08x}" for w in found) == expected
    seed = np.array([123, 456], np.uint32)
    for dtype in ("u32", "i16", "u4", "f32"):
        for algorithm in ("threefry", "philox"):
            case = Case("rng", Shaped((5, 7), dtype), (Shaped((2,), "u32"),), {"algorithm": algorithm})
            found = both(case, [seed])
            if (dtype, algorithm) == ("u32", "threefry"):
                key = jax.random.wrap_key_data(seed, impl="threefry2x32")
                np.testing.assert_array_equal(found, jax.random.bits(key, (5, 7), "uint32"))
            if dtype == "f32":
                assert found.min() >= 0 and found.max() < 1 and len(np.unique(found)) > 30
