"""Random cases of HLO's larger operators, each with what plain NumPy says of it, and how near that must be."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from archloom.oracle.resolved import Shaped, TensorType
from archloom.oracle.taidl.operators import OPCODES
from archloom.oracle.taidl.operators.blocked import PRECISIONS, orders
from archloom.oracle.taidl.types import element_type, numpy_dtype
from tests.support.oracle.operator_cases import Case, tensor

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Example:
    """A case with operands; ``expected`` within ``steps`` roundings of the largest magnitude, or equal without."""

    case: Case
    operands: list[np.ndarray]
    expected: np.ndarray
    steps: float = 0


def shaped(x: np.ndarray, dtype: str) -> Shaped:
    return Shaped(x.shape, dtype)


def shape(draw: Draw, least: int = 1, most: int = 3, extent: int = 4) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.integers(1, extent), min_size=least, max_size=most)))


def plain(draw: Draw, shape_: Sequence[int], dtype: str) -> np.ndarray:
    """Numbers around 1, of both signs."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    made = rng.standard_normal((*shape_, 2)).astype(np.float32)
    if element_type(dtype).kind in ("int", "uint"):
        low = 0 if dtype[0] == "u" else -3
        return rng.integers(low, 4, shape_).astype(numpy_dtype(dtype))
    return (made[..., 0] + 1j * made[..., 1] if dtype[0] == "c" else made[..., 0]).astype(numpy_dtype(dtype))


def example(opcode: str, result: np.ndarray, dtype: str, operands: Sequence[tuple[np.ndarray, str]],
            steps: float = 0, /, **attributes: Any) -> Example:
    case = Case(opcode, shaped(result, dtype), tuple(shaped(x, t) for x, t in operands), attributes)
    return Example(case, [x for x, _ in operands], np.asarray(result), steps)


# --- matrices -----------------------------------------------------------------------------------------------------


def cholesky(draw: Draw) -> Example:
    lead, n, lower = shape(draw, 0, 1), draw(st.integers(1, 5)), draw(st.integers(0, 1))
    x = plain(draw, (*lead, n, n), "f32")
    x = x @ x.swapaxes(-1, -2) + n * np.eye(n, dtype=np.float32)
    expected = np.linalg.cholesky(x.astype(np.float64))
    return example("cholesky", expected if lower else expected.swapaxes(-1, -2), "f32", [(x, "f32")], 8 * n,
                   lower=lower)


def triangular_solve(draw: Draw) -> Example:
    lead, n, m = shape(draw, 0, 1), draw(st.integers(1, 5)), draw(st.integers(1, 3))
    left, lower, unit = (draw(st.integers(0, 1)) for _ in range(3))
    turned = draw(st.sampled_from(["no_transpose", "transpose", "adjoint"]))
    x = plain(draw, (*lead, n, n), "f32") / (2 * n) + np.eye(n, dtype=np.float32)
    b = plain(draw, (*lead, n, m) if left else (*lead, m, n), "f32")
    a = np.tril(x) if lower else np.triu(x)
    a = (a - np.eye(n) * a + np.eye(n) if unit else a).astype(np.float64)
    a = a.swapaxes(-1, -2) if turned != "no_transpose" else a
    expected = np.linalg.solve(a, b) if left else np.linalg.solve(
        a.swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(-1, -2)
    return example("triangular_solve", expected, "f32", [(x, "f32"), (b, "f32")], 16 * n, left_side=left, lower=lower,
                   unit_diagonal=unit, transpose_a=turned)


def fft(draw: Draw) -> Example:
    kind = draw(st.sampled_from(["fft", "ifft", "rfft", "irfft"]))
    lead, length = shape(draw, 0, 1), shape(draw, 1, 2, 7)
    axes = tuple(range(-len(length), 0))
    half = (*length[:-1], length[-1] // 2 + 1)
    x = plain(draw, (*lead, *(half if kind == "irfft" else length)), "f32" if kind == "rfft" else "c64")
    function = {"fft": np.fft.fftn, "ifft": np.fft.ifftn, "rfft": np.fft.rfftn, "irfft": np.fft.irfftn}[kind]
    wide = x.astype(np.float64 if kind == "rfft" else np.complex128)
    expected = function(wide, length, axes)
    return example("fft", expected, "f32" if kind == "irfft" else "c64", [(x, "f32" if kind == "rfft" else "c64")], 1,
                   fft_type=kind, fft_length=length)


def ragged_dot(draw: Draw) -> Example:
    m, k, n, g = (draw(st.integers(1, 4)) for _ in range(4))
    dtype = draw(st.sampled_from(["i32", "f32"]))
    x, w = plain(draw, (m, k), dtype), plain(draw, (g, k, n), dtype)
    sizes = np.array(draw(st.lists(st.integers(0, 3), min_size=g, max_size=g)), np.int8)
    group = np.repeat(np.arange(g), sizes)[:m]
    expected = np.zeros((m, n))
    for i, which in enumerate(group):
        expected[i] = x[i].astype(np.float64) @ w[which]
    return example("ragged_dot", expected.astype(numpy_dtype(dtype)) if dtype == "i32" else expected, dtype,
                   [(x, dtype), (w, dtype), (sizes, "i8")], 0 if dtype == "i32" else 2 * k)


def scaled_dot(draw: Draw) -> Example:
    m, n, blocks = (draw(st.integers(1, 3)) for _ in range(3))
    k = blocks * draw(st.integers(1, 3))
    x, y = (tensor(s, "f4e2m1fn", draw(st.integers(0, 999))) for s in ((m, k), (k, n)))
    scales = [np.exp2(np.clip(plain(draw, s, "i32"), -3, 3)).astype(numpy_dtype("f8e8m0fnu"))
              for s in ((m, blocks), (blocks, n))]
    wide = [np.repeat(s.astype(np.float64), k // blocks, axis) for axis, s in ((1, scales[0]), (0, scales[1]))]
    expected = (x.astype(np.float64) * wide[0]) @ (y.astype(np.float64) * wide[1])
    types = ["f4e2m1fn", "f4e2m1fn", "f8e8m0fnu", "f8e8m0fnu"]
    return example("scaled_dot", expected, "f32", list(zip([x, y, *scales], types, strict=True)), 2 * k,
                   lhs_contracting=(1,), rhs_contracting=(0,))


def components(draw: Draw) -> Example:
    m, n, k = (draw(st.integers(1, 4)) for _ in range(3))
    kinds = [draw(st.sampled_from(["tf32", "bf16", "f16"])) for _ in range(2)]
    counts = [draw(st.integers(1, 3)) for _ in range(2)]
    pairs = [sum(p) for p in orders(*counts)]
    made = draw(st.sampled_from([i + 1 for i, p in enumerate(pairs) if i + 1 == len(pairs) or pairs[i + 1] > p]))
    x, y = plain(draw, (m, k), "f32"), plain(draw, (k, n), "f32")
    order = pairs[made - 1] + 1
    # what is left out: products of the next order, and what components do not hold of an operand
    bits = [(PRECISIONS[t][1] + 1) * min(c, order) for t, c in zip(kinds, counts, strict=True)]
    lost = sum(2.0 ** (24 - b) for b in bits) + order * 2.0 ** (24 - min(PRECISIONS[t][1] + 1 for t in kinds) * order)
    return example("dot_general", x.astype(np.float64) @ y, "f32", [(x, "f32"), (y, "f32")], 3 * k * (8 * made + lost),
                   lhs_contracting=(1,), rhs_contracting=(0,), lhs_precision_type=kinds[0],
                   rhs_precision_type=kinds[1], lhs_component_count=counts[0], rhs_component_count=counts[1],
                   num_primitive_operations=made)


# --- batch normalization ------------------------------------------------------------------------------------------


def batch_norm(draw: Draw) -> Example:
    extents = shape(draw, 1, 3)
    axis = draw(st.integers(0, len(extents) - 1))
    rest = tuple(i for i in range(len(extents)) if i != axis)
    count, epsilon = math.prod(extents) // extents[axis], 0.5
    x, upper = (plain(draw, extents, "f32") for _ in range(2))
    scale, offset, mean, variance = (plain(draw, extents[axis:axis + 1], "f32") for _ in range(4))
    variance = np.abs(variance)

    def spread(v: np.ndarray) -> np.ndarray:
        return v.astype(np.float64).reshape([n if i == axis else 1 for i, n in enumerate(extents)])

    which = draw(st.sampled_from(["inference", "training", "grad"]))
    if which == "training":
        mean, variance = x.astype(np.float64).mean(rest), x.astype(np.float64).var(rest)
    normal = (x - spread(mean)) / np.sqrt(spread(variance) + epsilon)
    scaled = normal * spread(scale) + spread(offset)
    total, slope = upper.sum(rest, dtype=np.float64), (upper * normal).sum(rest)
    gradient = spread(scale) / np.sqrt(spread(variance) + epsilon) * (
        upper - spread(total) / count - normal * spread(slope) / count)
    outputs = {"inference": (scaled,), "training": (scaled, mean, variance), "grad": (gradient, slope, total)}[which]
    given = {"inference": (x, scale, offset, mean, variance), "training": (x, scale, offset),
             "grad": (x, scale, mean, variance, upper)}[which]
    result = draw(st.integers(0, len(outputs) - 1))
    more = {"result": result} if len(outputs) > 1 else {}
    return example(f"batch_norm_{which}", outputs[result], "f32", [(v, "f32") for v in given], 40 * count,
                   epsilon=epsilon, feature_index=axis, **more)


# --- places that compare ------------------------------------------------------------------------------------------


def top_k(draw: Draw) -> Example:
    dtype = draw(st.sampled_from(["i8", "u4", "f32", "bf16"]))
    x = tensor((*shape(draw, 0, 1), draw(st.integers(1, 9))), dtype, draw(st.integers(0, 999)))
    k, largest, result = draw(st.integers(1, x.shape[-1])), draw(st.integers(0, 1)), draw(st.integers(0, 1))
    wide = x.astype(np.float64)
    wide = np.where(np.abs(wide) < 2.0**-126, 0, wide)
    rank = np.where(np.isnan(wide), np.inf, wide) * (-1 if largest else 1)
    ties = np.isnan(wide) * (-1 if largest else 1)
    order = np.lexsort([ties, rank], axis=-1)[..., :k]
    found = order.astype(np.int32) if result else np.take_along_axis(x, order, -1)
    return example("top_k", found, "i32" if result else dtype, [(x, dtype)], k=k, largest=largest, result=result)


def select_and_scatter(draw: Draw) -> Example:
    extents, dtype = shape(draw, 1, 2, 6), draw(st.sampled_from(["i8", "f32", "i32"]))
    size, stride, low, high = (tuple(draw(st.integers(a, b)) for _ in extents)
                               for a, b in ((1, 3), (1, 3), (0, 1), (0, 1)))
    size = tuple(min(k, n + lo + hi) for k, n, lo, hi in zip(size, extents, low, high, strict=True))
    counts = tuple((n + lo + hi - k) // s + 1 for n, lo, hi, k, s in zip(extents, low, high, size, stride, strict=True))
    x, source, start = plain(draw, extents, dtype), plain(draw, counts, dtype), plain(draw, (), dtype)
    direction = draw(st.sampled_from(["ge", "gt", "le"]))
    keeps = {"ge": np.greater_equal, "gt": np.greater, "le": np.less_equal}[direction]
    made = np.full(extents, start)
    for window in np.ndindex(counts):
        chosen: tuple[int, ...] | None = None
        for place in np.ndindex(size):
            at = tuple(w * s + p - lo for w, s, p, lo in zip(window, stride, place, low, strict=True))
            if all(0 <= i < n for i, n in zip(at, extents, strict=True)) and (
                    chosen is None or not keeps(x[chosen], x[at])):
                chosen = at
        if chosen is not None:
            made[chosen] = source[window] + made[chosen]
    return example("select_and_scatter", made, dtype, [(x, dtype), (source, dtype), (start, dtype)], select=direction,
                   kind="add", size=size, stride=stride, low=low, high=high)


# --- collectives --------------------------------------------------------------------------------------------------


def exchanged(which: str, mine: list[np.ndarray], axis: int, other: int) -> list[np.ndarray]:
    """What each member of a group gets, of what each has."""
    count, total = len(mine), np.sum(mine, axis=0, dtype=np.int32)
    pieces = [np.split(v, count, axis) for v in mine]
    return {
        "all_reduce": [total] * count, "reduce_scatter": np.split(total, count, axis),
        "all_gather": [np.concatenate(mine, axis)] * count, "collective_broadcast": mine[:1] * count,
        "all_to_all": [np.concatenate([p[i] for p in pieces], other) for i in range(count)],
        "collective_permute": [np.zeros_like(total), *mine[:-1]],
    }[which]


def collective(draw: Draw) -> Example:
    """Each replica by itself, group by group."""
    groups, members = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    order = draw(st.permutations(range(groups * members)))
    parts = [n * members for n in shape(draw, 1, 2, 2)]
    each = [plain(draw, parts, "i32") for _ in order]
    axis, other = (draw(st.integers(0, len(parts) - 1)) for _ in range(2))
    which = draw(st.sampled_from(["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "collective_broadcast",
                                  "collective_permute"]))
    made: dict[int, np.ndarray] = {}
    for group in np.reshape(order, (groups, members)).tolist():
        made |= dict(zip(group, exchanged(which, [each[r] for r in group], axis, other), strict=True))
    at = draw(st.integers(0, len(parts)))

    def named(a: int) -> int:
        return a + (a >= at)

    more: dict[str, Any] = {"replica_groups": tuple(order), "group_size": members}
    if which == "collective_permute":
        pairs = [(g * members + i - 1, g * members + i) for g in range(groups) for i in range(1, members)]
        more = {"source_target_pairs": tuple(order[p] for pair in pairs for p in pair)}
    more |= {"dim": named(axis)} if which in ("reduce_scatter", "all_gather") else {}
    more |= {"split_dimension": named(axis), "concat_dimension": named(other)} if which == "all_to_all" else {}
    result = np.stack([made[r] for r in range(len(order))], at)
    return example(which, result, "i32", [(np.stack(each, at), "i32")], replicas=at, **more)


# --- element by element -------------------------------------------------------------------------------------------


def of_complex(draw: Draw) -> Example:
    extents = shape(draw, 0, 2)
    x, y = (plain(draw, extents, "c64") for _ in range(2))
    both, wide = [(x, "c64"), (y, "c64")], (x.astype(np.complex128), y.astype(np.complex128))
    name = draw(st.sampled_from(["add", "subtract", "multiply", "divide", "negate", "abs", "complex", "real", "imag",
                                 "convert"]))
    function = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
                "negate": np.negative, "abs": np.abs, "real": np.real, "imag": np.imag}.get(name)
    if name == "complex":
        return example(name, x, "c64", [(x.real, "f32"), (x.imag, "f32")])
    if name == "convert":
        return example(name, x.real + 0j, "c64", [(x.real, "f32")])
    count = 2 if name in ("add", "subtract", "multiply", "divide") else 1
    assert function is not None
    return example(name, function(*wide[:count]), "f32" if name in ("abs", "real", "imag") else "c64", both[:count], 8)


def stochastic_convert(draw: Draw) -> Example:
    extents, seed = shape(draw, 1, 2), draw(st.integers(0, 2**32 - 1))
    x, random = plain(draw, extents, "f32") * 50, np.random.default_rng(seed).integers(0, 2**32, extents, np.uint32)
    whole = np.floor(np.abs(x.astype(np.float64)))
    away = random < np.floor((np.abs(x) - whole) * 2.0**32)
    expected = np.clip(np.copysign(whole + away, x), -128, 127)
    return example("stochastic_convert", expected, "i8", [(x, "f32"), (random, "u32")])


# --- functions, bits, shapes --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sum:
    """The ``def`` of x and y that gives their sum so many times."""

    dtype: str
    copies: int
    name: str = "sum"

    def outputs(self, inputs: Sequence[Shaped]) -> tuple[Shaped, ...]:
        return (inputs[0],) * self.copies

    def __call__(self, x: Any, y: Any) -> tuple[Any, ...]:
        row = OPCODES["add"]
        compute = row.kernel if isinstance(x, np.ndarray) else row.lowering
        return (compute(TensorType(tuple(x.shape), self.dtype), [x, y], {}, [self.dtype] * 2),) * self.copies


def map_(draw: Draw) -> Example:
    extents, dtype = shape(draw, 0, 2), draw(st.sampled_from(["i8", "i32", "f32"]))
    x, y = (plain(draw, extents, dtype) for _ in range(2))
    return example("map", x + y, dtype, [(x, dtype), (y, dtype)], function=Sum(dtype, 1))


def scan(draw: Draw) -> Example:
    extents, result, reverse = shape(draw, 1, 3), draw(st.integers(0, 1)), draw(st.integers(0, 1))
    axis = draw(st.integers(0, len(extents) - 1))
    x, start = plain(draw, extents, "i32"), plain(draw, extents[:axis] + extents[axis + 1:], "i32")
    turned = np.flip(x, axis) if reverse else x
    sums = np.cumsum(turned, axis, dtype=np.int32) + np.expand_dims(start, axis)
    found = np.take(sums, -1, axis) if result else np.flip(sums, axis) if reverse else sums
    return example("scan", found, "i32", [(x, "i32"), (start, "i32")], dim=axis, function=Sum("i32", 2),
                   reverse=reverse, result=result)


def bitcast(draw: Draw) -> Example:
    extents = shape(draw, 1, 2)
    x = plain(draw, (*extents, 2), "i32")
    dtype, flat = draw(st.sampled_from([("u8", 4), ("i16", 2), ("f32", 1), ("i32", 1)]))
    found = x.reshape(-1).view(numpy_dtype(dtype)).reshape(-1, flat * 2)
    return example("bitcast", found, dtype, [(x, "i32")])


def get_dimension_size(draw: Draw) -> Example:
    x = plain(draw, shape(draw), "i8")
    axis = draw(st.integers(0, x.ndim - 1))
    return example("get_dimension_size", np.asarray(x.shape[axis], np.int32), "i32", [(x, "i8")], dim=axis)


def copy(draw: Draw) -> Example:
    x = tensor(shape(draw), "bf16", draw(st.integers(0, 999)))
    return example("copy", x, "bf16", [(x, "bf16")])


LARGER: dict[str, Callable[[Draw], Example]] = {
    f.__name__.rstrip("_"): f for f in (
        cholesky, triangular_solve, fft, ragged_dot, scaled_dot, components, batch_norm, top_k, select_and_scatter,
        collective, of_complex, stochastic_convert, map_, scan, bitcast, get_dimension_size, copy)}
