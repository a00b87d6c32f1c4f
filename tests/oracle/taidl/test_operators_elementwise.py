"""Element-wise operators: NumPy and JAX give the same bits for every type, and both what exact arithmetic says."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from archloom.oracle.resolved import Shaped
from archloom.oracle.taidl.operators.carriers import carried, elements
from archloom.oracle.taidl.types import TYPES, as_codes, element_type, limits, numpy_dtype
from tests.support.examples import every
from tests.support.oracle.agreement import agree, isa_of
from tests.support.oracle.operator_cases import EVERY, QUANTIZED, Case, codes, compiled, elementwise, equal, tensor

OFTEN = ("i1", "i4", "u8", "f32")


def _alike(dtype: str) -> None:
    cases = elementwise(dtype)
    operands = [c.tensors(7 * i) for i, c in enumerate(cases)]
    for case, xs, found in zip(cases, operands, compiled(cases, operands), strict=True):
        same = equal(case.kernel(xs), found, case.result.dtype)
        assert same.all(), (case.opcode, case.result, [x[~same][:3] for x in xs])


@pytest.mark.parametrize("dtype", every(4, OFTEN))
def test_numpy_and_jax_are_alike(dtype: str) -> None:
    _alike(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [t for t in EVERY if t not in OFTEN])
def test_numpy_and_jax_are_alike_in_every_type(dtype: str) -> None:
    _alike(dtype)


# --- against exact arithmetic -------------------------------------------------------------------------------------


def _towards_zero(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _divided(x: int, y: int, low: int) -> int:
    return -1 if y == 0 else _towards_zero(x, y)


def _power(x: int, y: int) -> int:
    return x**y if y >= 0 else (x if y % 2 else 1) if x in (1, -1) else 0


WHOLE: dict[str, Callable[[int, int], int]] = {
    "add": int.__add__, "subtract": int.__sub__, "multiply": int.__mul__, "maximum": max, "minimum": min,
    "and": int.__and__, "or": int.__or__, "xor": int.__xor__, "divide": lambda x, y: _divided(x, y, 0),
    "remainder": lambda x, y: x if y == 0 else x - _towards_zero(x, y) * y, "power": _power,
}


@pytest.mark.parametrize("dtype", [t.name for t in TYPES.values() if t.kind in ("int", "uint") and t.bits <= 8])
def test_small_integers_wrap_as_python_counts(dtype: str) -> None:
    """All pairs of 2 and 4 bits, many of 8."""
    low, high = limits(dtype)
    bits = element_type(dtype).bits
    every = range(low, high + 1) if bits < 8 else [*range(low, high + 1, 9), low, high, -1 if low else 1, 0, 1, 2]
    pairs = [(x, y) for x in every for y in every]
    x, y = (np.array([p[i] for p in pairs], np.int64).astype(np.int8 if low else np.uint8) for i in range(2))
    given = [as_codes(codes(v) & np.uint8((1 << bits) - 1), numpy_dtype(dtype)) for v in (x, y)]
    kind = Shaped((len(pairs),), dtype)
    for name, f in WHOLE.items():
        found = Case(name, kind, (kind, kind)).kernel(given).astype(np.int64)
        expected = [(f(a, b) - low) % (1 << bits) + low for a, b in pairs]
        assert found.tolist() == expected, name
    for name, g in (("popcnt", lambda v: v.bit_count()), ("count_leading_zeros", lambda v: bits - v.bit_length())):
        found = Case(name, kind, (kind,)).kernel(given[:1]).astype(np.int64)
        assert found.tolist() == [(g(a % (1 << bits)) - low) % (1 << bits) + low for a, _ in pairs], name
    high = Case("mulhi", kind, (kind, kind)).kernel(given).astype(np.int64)
    assert high.tolist() == [x * y >> bits for x, y in pairs]
    for name, h in (("shift_left", lambda v, n: v << n), ("shift_right_arithmetic", lambda v, n: v >> n),
                    ("shift_right_logical", lambda v, n: v % (1 << bits) >> n)):
        found = Case(name, kind, (kind, kind)).kernel(given).astype(np.int64)
        signed = [a - (1 << bits) if a >> (bits - 1) and name.endswith("arithmetic") and not low else a
                  for a, _ in pairs]
        amounts = [min(b % (1 << bits), 64) for _, b in pairs]
        assert found.tolist() == [(h(a, n) - low) % (1 << bits) + low
                                  for a, n in zip(signed, amounts, strict=True)], name


@cache
def _values(dtype: str) -> list[tuple[Fraction, int]]:
    """The finite numbers of a type of up to 8 bits, with their codes."""
    every = as_codes(np.arange(1 << element_type(dtype).bits).astype(np.uint8), numpy_dtype(dtype)).astype(np.float64)
    return sorted((Fraction(float(v)), i) for i, v in enumerate(every) if math.isfinite(v))


def _nearest(exact: Fraction, dtype: str) -> set[float]:
    """The numbers of the type that the exact one may be rounded to: of two as near, the one with the even code."""
    values = _values(dtype)
    at = bisect(values, (exact,))
    values = values[max(at - 2, 0):at + 2]  # zero is there twice
    best = min(abs(v - exact) for v, _ in values)
    near = {float(v): i for v, i in values if abs(v - exact) == best}
    return {v for v, i in near.items() if i % 2 == 0} if len(near) > 1 else set(near)


@pytest.mark.parametrize("dtype", every(2, ["f4e2m1fn", "f6e3m2fn", "f8e4m3fn", "f8e5m2fnuz", "f8e3m4"]))
def test_small_floats_are_rounded_once(dtype: str) -> None:
    kind = Shaped((80,), dtype)
    x, y = tensor((80,), dtype, 1), tensor((80,), dtype, 2)
    most = max(v for v, _ in _values(dtype))
    for name, f in (("add", Fraction.__add__), ("subtract", Fraction.__sub__), ("multiply", Fraction.__mul__),
                    ("divide", Fraction.__truediv__)):
        found = Case(name, kind, (kind, kind)).kernel([x, y]).astype(np.float64)
        for a, b, c in zip(x.astype(np.float64), y.astype(np.float64), found, strict=True):
            if not (math.isfinite(a) and math.isfinite(b)) or (name == "divide" and b == 0):
                continue
            exact = f(Fraction(float(a)), Fraction(float(b)))
            if abs(exact) <= most:
                assert float(c) in _nearest(exact, dtype), (name, a, b, c)


def test_f32_is_rounded_once_and_flushed() -> None:
    kind = Shaped((4000,), "f32")
    x, y = tensor((4000,), "f32", 3), tensor((4000,), "f32", 4)
    tiny = np.finfo(np.float32).tiny

    def flushed(v: Any) -> Any:
        return np.where(np.abs(v) < tiny, np.copysign(0, v), v)

    with np.errstate(all="ignore"):
        wide = flushed(x.astype(np.float64)), flushed(y.astype(np.float64))
        for name, f in (("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply), ("divide", np.divide)):
            expected = flushed(f(*wide).astype(np.float32))
            np.testing.assert_array_equal(Case(name, kind, (kind, kind)).kernel([x, y]), expected)
        root = Case("sqrt", kind, (kind,)).kernel([x])
        np.testing.assert_array_equal(root, np.sqrt(wide[0]).astype(np.float32))


def test_a_product_rounded_up_to_the_smallest_normal_is_flushed_as_the_hardware_does() -> None:
    """Tininess is found after rounding with an exponent of any size."""
    kind = Shaped((3,), "f32")
    x = np.array([1 - 2.0**-24, 1 - 2.0**-23, 1], np.float32)
    y = np.full(3, 2.0**-126, np.float32)
    case = Case("multiply", kind, (kind, kind))
    assert equal(case.kernel([x, y]), case.in_jax([x, y]), "f32").all()


ELEMENTARY: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "tanh": np.tanh, "sine": np.sin,
    "cosine": np.cos, "cbrt": np.cbrt, "rsqrt": lambda x: 1 / np.sqrt(x), "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "power": np.power, "atan2": np.arctan2, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
}

WORST = 0.51
"""Units in the last place of f32: half of one for the rounding, and what f64 leaves of the rest. Each function is at
most 100 f64 operations, each off by 2^-53 of its result, of which cancellation and powers lose at most 8 bits: below
100 * 2^8 * 2^-53, that is 2^-38 of the result, or 2^-14 units of f32. The error function of its continued fraction is
off by 1e-11, which is 2^-12 units around 1."""


@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions_are_nearly_always_correctly_rounded(name: str) -> None:
    f, count = ELEMENTARY[name], 2 if name in ("power", "atan2") else 1
    kind = Shaped((6000,), "f32")
    operands = [tensor((6000,), "f32", i) for i in range(count)]
    found = Case(name, kind, (kind,) * count).kernel(operands)
    with np.errstate(all="ignore"):
        wide = [np.where(np.abs(x) < 2.0**-126, np.copysign(0, x), x.astype(np.float64)) for x in operands]
        exact = f(*wide)
        expected = exact.astype(np.float32)
        expected = np.where(np.abs(expected) < 2.0**-126, np.copysign(np.float32(0), expected), expected)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    usual = np.isfinite(expected)
    np.testing.assert_array_equal(found[~usual], expected[~usual])
    unit = np.spacing(np.maximum(np.abs(expected[usual]), np.float32(2.0**-126)).astype(np.float32))
    off = np.abs(found[usual].astype(np.float64) - exact[usual]) / unit
    assert (off[expected[usual] != 0] <= WORST).all()
    assert (found[usual] != expected[usual]).mean() < 1e-3


# --- conversions and bits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["f16", "bf16", "f8e5m2", "f32"])
def test_integers_are_rounded_once(target: str) -> None:
    """Through f32 they would be rounded twice."""
    x = np.array([2**24 + 2**16 + 1, 2**24 + 2**16, -(2**24 + 3 * 2**16 + 1), 65519, 2**31 - 1, 33, 2**25 + 2**17 + 1],
                 np.int32)
    case = Case("convert", Shaped(x.shape, target), (Shaped(x.shape, "i32"),))
    found = case.kernel([x])
    assert equal(found, case.in_jax([x]), target).all()
    mantissa = {"f16": 11, "bf16": 8, "f8e5m2": 3, "f32": 24}[target]
    for a, b in zip(x.tolist(), found.astype(np.float64), strict=True):
        step = Fraction(2) ** (abs(a).bit_length() - mantissa)
        ticks = Fraction(abs(a)) / step
        whole = math.floor(ticks)
        rest = ticks - whole
        whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
        expected = float(whole * step) * (1 if a > 0 else -1)
        assert float(b) == expected or (math.isinf(b) and abs(expected) > {"f16": 65504, "f8e5m2": 57344}[target])


@pytest.mark.slow
def test_reduce_precision_is_that_of_xla() -> None:
    from jax import lax

    x = tensor((5000,), "f32", 5)
    for exponent, mantissa in ((8, 7), (5, 10), (4, 3), (2, 0), (8, 23), (1, 4)):
        kind = Shaped(x.shape, "f32")
        found = Case("reduce_precision", kind, (kind,), {"E": exponent, "M": mantissa}).kernel([x])
        normal = np.abs(x) >= 2.0**-126
        expected = np.asarray(lax.reduce_precision(x, exponent, mantissa))
        assert equal(found[normal], expected[normal], "f32").all(), (exponent, mantissa)


def test_xor_is_of_bits_and_not_of_values() -> None:
    """A defect of TAIDL's own oracle: it converted the operands by value."""
    f, u = Shaped((3,), "f32"), Shaped((3,), "u32")
    x = np.array([1.5, -2.0, 0.1], np.float32)
    mask = np.full(3, 0x80000000, np.uint32)
    bits = Case("bitcast_convert", u, (f,)).kernel([x])
    flipped = Case("xor", u, (u, u)).kernel([bits, mask])
    assert Case("bitcast_convert", f, (u,)).kernel([flipped]).tolist() == (-x).tolist()
    assert Case("xor", f, (f, f)).complaint == ": xor is not defined for f32"


def test_floats_become_integers_by_truncation_or_by_the_rounding_that_is_written() -> None:
    """A defect of TAIDL's own oracle: it rounded half away from zero where the hardware rounds to even."""
    f, i = Shaped((6,), "f32"), Shaped((6,), "i8")
    x = np.array([0.5, 1.5, 2.5, -2.5, 126.5, 127.5], np.float32)
    rounds = {name: Case("convert", i, (f,)).kernel([Case(name, f, (f,)).kernel([x])]).tolist()
              for name in ("round_nearest_even", "round_nearest_afz", "floor", "ceil")}
    assert rounds == {"round_nearest_even": [0, 2, 2, -2, 126, 127], "round_nearest_afz": [1, 2, 3, -3, 127, 127],
                      "floor": [0, 1, 2, -3, 126, 127], "ceil": [1, 2, 3, -2, 127, 127]}
    assert Case("convert", i, (f,)).kernel([x]).tolist() == [0, 1, 2, -2, 126, 127]


def test_quantized_addition_is_that_of_stablehlo() -> None:
    x = np.arange(-128, 128, dtype=np.int8)
    a, b = "!quant.uniform<i8:f32, 0.5:4>", "!quant.uniform<i8:f32, 0.75>"
    case = Case("add", Shaped((256,), QUANTIZED), (Shaped((256,), a), Shaped((256,), b)))
    real = (x.astype(np.float32) - 4) * np.float32(0.5) + x[::-1].astype(np.float32) * np.float32(0.75)
    expected = np.clip(np.rint(real / np.float32(0.25)) - 3, -128, 127).astype(np.int8)
    np.testing.assert_array_equal(case.kernel([x, x[::-1]]), expected)


# --- what XLA would rewrite ---------------------------------------------------------------------------------------


@pytest.mark.first_case
@pytest.mark.parametrize("body", [
    "%p:300xf32 = multiply(%x, %a); %y:300xf32 = multiply(%p, %b);",
    "%p:300xf32 = add(%x, %a); %y:300xf32 = add(%p, %b);",
    "%y:300xf32 = divide(%x, %a);",
    "%p:300xf32 = divide(%x, %a); %y:300xf32 = divide(%p, %b);",
    "%z:300xf32 = constant(0.0); %y:300xf32 = add(%x, %z);",
    "%o:300xf32 = constant(1.0); %p:300xf32 = abs(%x); %q:300xf32 = sqrt(%p); %y:300xf32 = divide(%o, %q);",
    "%p:300xf32 = multiply(%x, %a); %y:300xf32 = add(%p, %x);",
    "%h:300xbf16 = convert(%x); %g:300xbf16 = multiply(%h, %h); %i:300xbf16 = add(%g, %h); %y:300xf32 = convert(%i);",
    "%h:300xf16 = convert(%x); %y:300xf32 = convert(%h);",
])
def test_xla_rewrites_nothing(body: str) -> None:
    """Constants are not joined, nothing is divided by multiplying, no product is fused into a sum."""
    isa = isa_of(f"""
[go](out) {{
    %b:300x4xi8 <- $hbm[{{300 : 4, 4 : 1}}];
    %x:300xf32 = bitcast_convert(%b);
    %a:300xf32 = constant(2.7);
    %b0:f32 = constant(0.3);
    %b:300xf32 = broadcast(%b0);
    {body}
    %c:300x4xi8 = bitcast_convert(%y);
    %c -> $hbm[out + {{300 : 4, 4 : 1}}];
}}""".replace("%b:300x4xi8 <-", "%in:300x4xi8 <-").replace("bitcast_convert(%b);", "bitcast_convert(%in);"))
    x = tensor((300,), "f32", 9)
    agree(".isa t\n.hbm 2400\n.arg X float32[300] @0\n.result Y float32[300] @1200\ngo out=1200\n", isa, {"X": x})


ROUNDED = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


@pytest.mark.first_case
@pytest.mark.parametrize("dtype", every(6, [t.name for t in TYPES.values() if t.kind == "float" and t.bits < 64]))
def test_zeros_of_constants_have_the_signs_of_those_at_run_time(dtype: str) -> None:
    import jax
    import jax.numpy as jnp

    values = [0.0, -0.0, 0.0, -0.0], [0.0, 0.0, -0.0, -0.0]
    zeros = [np.array(v, np.float32).astype(numpy_dtype(dtype)) for v in values]
    shape = Shaped((4,), dtype)
    cases = [c for c in (Case(name, shape, (shape, shape)) for name in ROUNDED) if c.complaint is None]
    held = [carried(z, dtype) for z in zeros]
    ways = [lambda a, b: (jnp.asarray(held[0]), jnp.asarray(held[1])), lambda a, b: (a, jnp.asarray(held[1])),
            lambda a, b: (jnp.asarray(held[0]), b)]
    made = jax.jit(lambda a, b: [[c.lowered(way(a, b)) for way in ways] for c in cases])(*held)
    for case, results in zip(cases, made, strict=True):
        for result in results:
            assert equal(case.kernel(zeros), elements(np.asarray(result), dtype), dtype).all(), case.opcode


def test_constants_as_scales() -> None:
    """Zero and what is negative has no scale; XLA's folding of constants says otherwise."""
    import jax
    import jax.numpy as jnp

    x = np.array([0, -0.0, -1, np.nan, 1e-40, 2, np.inf], np.float32)
    case = Case("convert", Shaped((7,), "f8e8m0fnu"), (Shaped((7,), "f32"),))
    for f, given in ((lambda: case.lowered([jnp.asarray(x)]), ()), (lambda v: case.lowered([v]), (x,))):
        found = elements(np.asarray(jax.jit(f)(*given)), "f8e8m0fnu")
        assert equal(case.kernel([x]), found, "f8e8m0fnu").all()
