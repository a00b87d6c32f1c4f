"""The operators that work element by element.

Each is a function of *numbers* in NumPy and one in JAX; what is around them is the same for all: elements to numbers,
numbers back to elements (:mod:`archloom.oracle.taidl.operators.numbers`,
:mod:`archloom.oracle.taidl.operators.carriers`). Quantized operands are computed as the f32 that they stand for, and
the result is quantized again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from archloom.oracle.late_jax import jnp, lax
from archloom.oracle.resolved import Shaped, TensorType
from archloom.oracle.taidl.operators import base, carriers, complexes, elementary, numbers, special
from archloom.oracle.taidl.operators.base import Attribute, Attributes, Opcode
from archloom.oracle.taidl.operators.conversion import dequantized, quantized
from archloom.oracle.taidl.types import Array

NUMBERS = ("int", "uint", "float", "quant")
FLOATS = ("float", "quant")
BITS = ("int", "uint", "bool")


def _computed(lib: Any, f: Callable[..., Any]) -> base.Compute:
    """``f`` of numbers as elements, which ``lib`` makes of each other."""

    def compute(result: TensorType, x: Sequence[Any], a: Mapping[str, Any], types: Sequence[str]) -> Any:
        if base.is_kind(result.dtype, "quant"):
            return quantized(lib, f(*(dequantized(lib, v, t) for v, t in zip(x, types, strict=True))), result.dtype)
        return lib.element(f(*map(lib.value, x, types)), result.dtype)

    return compute


def _row(name: str, operands: int, kinds: tuple[str, ...], f: Callable[..., Any], g: Callable[..., Any], doc: str,
         *spelled: str, widest: int = 128, gives: str | None = None) -> Opcode:
    """A row by a function of numbers in NumPy and one in JAX; of complex ones, by that of their parts if there is one.
    """
    both = (_computed(numbers, f), _computed(carriers, g))
    if name in complexes.FUNCTIONS:
        kinds = (*kinds, "complex")
        both = (complexes.or_real(numbers, name, both[0]), complexes.or_real(carriers, name, both[1]))
    return Opcode(name, operands, base.same_type(kinds, widest, gives), *both, "elementwise", doc, spelled=spelled)


def _sign(lib: Any) -> Callable[..., Any]:
    def sign(x: Any) -> Any:
        x = lib.flush(x)
        return lib.xp.where((x != x) | (x == 0), x, lib.xp.copysign(np.ones((), x.dtype), x))

    return sign


def _by_kind(integers: Callable[..., Any], floats: Callable[..., Any]) -> Callable[..., Any]:
    """One function for numbers that are integers (or truths), another for floats."""
    return lambda *x: (integers if x[0].dtype.kind in "iub" else floats)(*x)


def _jnp(name: str) -> Callable[..., Any]:
    return lambda *x: getattr(jnp, name)(*x)


def _lax(name: str) -> Callable[..., Any]:
    return lambda *x: getattr(lax, name)(*jnp.broadcast_arrays(*x))


# --- NumPy --------------------------------------------------------------------------------------------------------


def largest(x: Any, y: Any) -> Any:
    """The larger number: NaN if one is, and +0 above -0."""
    if np.asarray(x).dtype.kind != "f":
        return np.maximum(x, y)
    x, y = numbers.flush(x), numbers.flush(y)
    result = np.where(np.isnan(x), x, np.where(np.isnan(y) | (y > x), y, x))
    return np.where((x == 0) & (y == 0), x + y, result)


def smallest(x: Any, y: Any) -> Any:
    """The smaller number: NaN if one is, and -0 below +0."""
    return np.minimum(x, y) if np.asarray(x).dtype.kind != "f" else -largest(-np.asarray(x), -np.asarray(y))


def _quotient(x: Array, y: Array) -> Array:
    """Integer division towards 0; by 0 all bits set; the smallest number by -1 is itself."""
    ones = x.dtype.type(-1) if x.dtype.kind == "i" else np.iinfo(x.dtype).max
    zero, minus = y == 0, (y == -1 if x.dtype.kind == "i" else np.zeros(np.shape(y), bool))
    safe = np.where(zero | minus, x.dtype.type(1), y)
    floor = x // safe
    floor = floor + ((x % safe != 0) & ((x < 0) != (safe < 0))).astype(x.dtype)
    return np.where(zero, ones, np.where(minus, np.negative(x), floor)).astype(x.dtype)


def _rest(x: Array, y: Array) -> Array:
    """The remainder of the division towards 0; by 0 the dividend."""
    return np.where(y == 0, x, x - _quotient(x, y) * y).astype(x.dtype)


def _whole_power(xp: Any) -> Callable[..., Any]:
    """Integer powers, wrapping; to a negative one, 1 and -1 are themselves or each other, and all others 0."""

    def power(x: Any, y: Any) -> Any:
        x, y = xp.broadcast_arrays(x, y)
        result, factor, left = xp.ones_like(x), x, y
        for _ in range(x.dtype.itemsize * 8 - (x.dtype.kind == "i")):
            result = xp.where((left & left.dtype.type(1)) != 0, result * factor, result)
            factor, left = factor * factor, left >> left.dtype.type(1)
        if x.dtype.kind == "u":
            return result
        one = xp.where(x == 1, x, xp.where(x == -1, xp.where((y & y.dtype.type(1)) != 0, x, -x), xp.zeros_like(x)))
        return xp.where(y < 0, one, result)

    return power


def _round_away(value: Array) -> Array:
    whole = np.trunc(value)
    return np.where(np.abs(value - whole) >= 0.5, whole + np.copysign(value.dtype.type(1), value), whole)


# --- JAX ----------------------------------------------------------------------------------------------------------


def _flushed(f: Callable[..., Any]) -> Callable[..., Any]:
    """``f`` of flushed operands, where the backend would look at subnormals."""
    return lambda *x: f(*map(carriers.flush, x))


def _guarded(name: str, by_zero: Callable[[Any], Any]) -> Callable[..., Any]:
    """An integer division of ``lax`` that never divides by 0: there XLA's folding of constants ends the process."""

    def call(x: Any, y: Any) -> Any:
        x, y = jnp.broadcast_arrays(x, y)
        none = y == 0
        return jnp.where(none, by_zero(x), getattr(lax, name)(x, jnp.where(none, np.ones((), y.dtype), y)))

    return call


def _round(method: str) -> Callable[..., Any]:
    return lambda x: lax.round(carriers.flush(x), getattr(lax.RoundingMethod, method))


# --- clamp, compare, select: numbers of one type decide ------------------------------------------------------------


def _clamp_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    x = operands[1]
    if base.is_kind(x.dtype, "bool", "quant", "scale", "complex"):
        return f"{{}} is not defined for {x.dtype}"
    for bound in (operands[0], operands[2]):
        if bound.dtype != x.dtype or (bound.shape and base.shapes_differ(bound.shape, x.shape)):
            return f"the bounds of clamp must be scalars of {x.dtype} or of type {x}, found {bound}"
    return base.wrong(result, x.shape, x.dtype)


def _compare_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    x, y = operands
    if base.types_differ(x, y):
        return f"compare needs operands of one type, found {x} and {y}"
    if base.is_kind(x.dtype, "complex") and a["direction"] not in ("eq", "ne"):
        return f"complex numbers have no order: direction of {{}} must be eq or ne, found {a['direction']}"
    return base.wrong(result, x.shape, "i1")


def _select_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    which, x, y = operands
    if which.dtype != "i1" or (which.shape and base.shapes_differ(which.shape, x.shape)):
        return f"the first operand of select must be of type i1 or {Shaped(x.shape, 'i1')}, found {which}"
    if base.types_differ(x, y):
        return f"select needs alternatives of one type, found {x} and {y}"
    return base.wrong(result, x.shape, x.dtype)


COMPARE = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}


def _compare(lib: Any, result: TensorType, x: Sequence[Any], a: Mapping[str, Any], types: Sequence[str]) -> Any:
    function, pair = getattr(lib.xp, COMPARE[a["direction"]]), [lib.value(v, t) for v, t in zip(x, types, strict=True)]
    if not base.is_kind(types[0], "complex"):
        return function(*map(lib.flush, pair))
    join = lib.xp.logical_and if a["direction"] == "eq" else lib.xp.logical_or
    halves = zip(*(complexes.parts(lib, v) for v in pair), strict=True)
    return join(*(function(*map(lib.flush, half)) for half in halves))


def _fma_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    if operands[0].dtype != "f32":
        return f"{{}} is not defined for {operands[0].dtype}"
    return base.same_type(("float",))(result, operands, a)


SUBNORMALS = Attribute("subnormals", "word", ("keep", "flush"), "keep")


def _function(f: Callable[..., Any], operands: int, doc: str, *spelled: str) -> Opcode:
    return _row(f.__name__, operands, FLOATS, elementary.in_numpy(f), elementary.in_jax(f), doc, *spelled, widest=32)


def _extreme(name: str) -> Callable[..., Any]:
    """The larger or the smaller number; of zeros by their signs, which XLA's folding of constants overlooks."""

    def call(x: Any, y: Any) -> Any:
        if x.dtype.kind in "iub":
            return getattr(jnp, name)(x, y)
        x, y = carriers.flush(x), carriers.flush(y)
        first, second = (y, x) if name == "maximum" else (x, y)
        return jnp.where(x == y, jnp.where(jnp.signbit(x), first, second), getattr(jnp, name)(x, y))

    return call


ROWS: list[Opcode] = [
    _row("add", 2, NUMBERS, _by_kind(np.add, numbers.add), _by_kind(_jnp("add"), carriers.add), "x + y"),
    _row("subtract", 2, NUMBERS, _by_kind(np.subtract, numbers.subtract),
         _by_kind(_jnp("subtract"), carriers.subtract), "x - y"),
    _row("multiply", 2, NUMBERS, _by_kind(np.multiply, numbers.multiply),
         _by_kind(_jnp("multiply"), carriers.multiply), "x * y"),
    _row("divide", 2, NUMBERS, _by_kind(_quotient, numbers.divide),
         _by_kind(_guarded("div", lambda x: ~np.zeros((), x.dtype)), carriers.divide),
         "x / y; integers towards 0, by 0 all bits set"),
    _row("remainder", 2, NUMBERS, _by_kind(_rest, numbers.flushed(np.fmod)),
         _by_kind(_guarded("rem", lambda x: x), lambda *x: carriers.flush(_flushed(_lax("rem"))(*x))),
         "what `divide` towards 0 leaves, with the sign of x; by 0, x of integers and NaN of floats"),
    _row("maximum", 2, NUMBERS, largest, _extreme("maximum"), "the larger; NaN if one is, +0 above -0"),
    _row("minimum", 2, NUMBERS, smallest, _extreme("minimum"), "the smaller; NaN if one is, -0 below +0"),
    _row("power", 2, NUMBERS, _by_kind(_whole_power(np), elementary.in_numpy(elementary.power)),
         _by_kind(_whole_power(jnp), elementary.in_jax(elementary.power)),
         "x to the y; of integers wrapping, with a negative y 0 unless x is 1 or -1", widest=32),
    _function(elementary.atan2, 2, "the angle of the point (y, x), in -pi .. pi"),
    _row("and", 2, BITS, np.bitwise_and, _jnp("bitwise_and"), "bit by bit"),
    _row("or", 2, BITS, np.bitwise_or, _jnp("bitwise_or"), "bit by bit"),
    _row("xor", 2, BITS, np.bitwise_xor, _jnp("bitwise_xor"), "bit by bit"),
    _row("not", 1, BITS, np.invert, _jnp("bitwise_not"), "bit by bit"),
    _row("negate", 1, NUMBERS, np.negative, _jnp("negative"), "-x"),
    _row("abs", 1, ("int", "float", "quant"), np.abs, _jnp("abs"),
         "the smallest integer's is itself; of complex numbers a float", gives="part"),
    _row("sign", 1, ("int", "float", "quant"), _by_kind(np.sign, _sign(numbers)),
         _by_kind(_jnp("sign"), _sign(carriers)), "-1, 0 or 1; zeros and NaN are themselves"),
    _row("floor", 1, FLOATS, numbers.flushed(np.floor), _flushed(_lax("floor")), "rounded down"),
    _row("ceil", 1, FLOATS, numbers.flushed(np.ceil), _flushed(_lax("ceil")), "rounded up"),
    _row("round_nearest_even", 1, FLOATS, numbers.flushed(np.rint), _round("TO_NEAREST_EVEN"),
         "to the nearest, ties to even"),
    _row("round_nearest_afz", 1, FLOATS, numbers.flushed(_round_away), _round("AWAY_FROM_ZERO"),
         "to the nearest, ties away from zero"),
    _row("sqrt", 1, FLOATS, numbers.sqrt, carriers.sqrt, "correctly rounded"),
    _function(elementary.rsqrt, 1, "1 / sqrt(x)"),
    _function(elementary.cbrt, 1, "the cube root"),
    _function(elementary.exp, 1, "e to the x", "exponential"),
    _function(elementary.expm1, 1, "exp(x) - 1", "exponential_minus_one"),
    _function(elementary.log, 1, "the natural logarithm"),
    _function(elementary.log1p, 1, "log(1 + x)", "log_plus_one"),
    _function(elementary.logistic, 1, "1 / (1 + exp(-x))"),
    _function(elementary.tanh, 1, "the hyperbolic tangent"),
    _function(elementary.sine, 1, "of radians of any size"),
    _function(elementary.cosine, 1, "of radians of any size"),
    _function(special.tan, 1, "of radians of any size"),
    _function(special.asin, 1, "the angle in -pi/2 .. pi/2 whose sine is x"),
    _function(special.acos, 1, "the angle in 0 .. pi whose cosine is x"),
    _function(special.atan, 1, "the angle in -pi/2 .. pi/2 whose tangent is x"),
    _function(special.sinh, 1, "the hyperbolic sine"),
    _function(special.cosh, 1, "the hyperbolic cosine"),
    _function(special.asinh, 1, "the number whose hyperbolic sine is x"),
    _function(special.acosh, 1, "the number from 0 on whose hyperbolic cosine is x"),
    _function(special.atanh, 1, "the number whose hyperbolic tangent is x"),
    _function(special.erf, 1, "the error function"),
    _row("is_finite", 1, ("float",), np.isfinite, _jnp("isfinite"), "neither infinite nor NaN", gives="i1"),
    Opcode("fma", 3, _fma_rule,
           *base.in_both(lambda lib, result, x, a, types: lib.fma(*x, flush=a["subnormals"] == "flush")),
           "elementwise",
           "`a * b + c` of f32, rounded once; subnormal numbers are kept, or flush (operands and tiny results count as "
           "zeros of their sign)", (SUBNORMALS,)),
    Opcode("clamp", 3, _clamp_rule, _computed(numbers, lambda low, x, high: smallest(largest(x, low), high)),
           _computed(carriers, lambda low, x, high: _extreme("minimum")(_extreme("maximum")(x, low), high)),
           "elementwise", "low, x, high: minimum(maximum(x, low), high); the bounds may be scalars"),
    Opcode("compare", 2, _compare_rule, *base.in_both(_compare),
           "elementwise", "i1; NaN is unequal to all, and neither less nor greater",
           (Attribute("direction", "word", tuple(COMPARE)),)),
    Opcode("select", 3, _select_rule, *base.in_both(lambda lib, result, x, a, types: lib.xp.where(*x)), "elementwise",
           "i1, then, else; the first may be a scalar"),
]
