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
from archloom.oracle.taidl.operators import base, carriers, elementary, numbers
from archloom.oracle.taidl.operators.base import Attribute, Attributes, Opcode
from archloom.oracle.taidl.operators.conversion import dequantized, quantized
from archloom.oracle.taidl.types import Array, element_type

NUMBERS = ("int", "uint", "float", "quant")
FLOATS = ("float", "quant")
INTS = ("int", "uint")
BITS = ("int", "uint", "bool")


def _rule(kinds: tuple[str, ...], widest: int = 64, gives: str | None = None) -> base.Rule:
    """Operands of one type (quantized ones of one shape), of the kinds and at most so many bits if floating-point."""

    def rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
        first = operands[0]
        mixed = "quant" in kinds and all(base.is_kind(x.dtype, "quant") for x in (result, *operands))
        for x in operands:
            if (x.dtype != first.dtype and not mixed) or base.shapes_differ(x.shape, first.shape):
                return f"{{}} needs operands of one type, found {' and '.join(map(str, operands))}"
        kind = element_type(first.dtype)
        if kind.kind not in kinds or (kind.kind == "float" and kind.bits > widest):
            return f"{{}} is not defined for {first.dtype}"
        return base.wrong(result, first.shape, gives or (result.dtype if mixed else first.dtype))

    return rule


def _computed(lib: Any, f: Callable[..., Any]) -> base.Compute:
    """``f`` of numbers as elements, which ``lib`` makes of each other."""

    def compute(result: TensorType, x: Sequence[Any], a: Mapping[str, Any], types: Sequence[str]) -> Any:
        if base.is_kind(result.dtype, "quant"):
            return quantized(lib, f(*(dequantized(lib, v, t) for v, t in zip(x, types, strict=True))), result.dtype)
        return lib.element(f(*map(lib.value, x, types)), result.dtype)

    return compute


def _row(name: str, operands: int, kinds: tuple[str, ...], f: Callable[..., Any], g: Callable[..., Any], doc: str,
         widest: int = 64, gives: str | None = None) -> Opcode:
    return Opcode(name, operands, _rule(kinds, widest, gives), _computed(numbers, f), _computed(carriers, g),
                  "elementwise", doc)


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


# --- bits: these depend on the width of the element ---------------------------------------------------------------


def _of_width(name: str, operands: int, f: Callable[[Any, list[Any], int], Any], doc: str) -> Opcode:
    """An operator by a function of NumPy (or JAX), unsigned numbers and their width."""

    def compute(lib: Any, result: TensorType, x: Sequence[Any], a: Any, types: Sequence[str]) -> Any:
        width = element_type(result.dtype).bits
        plain = []
        for v in lib.xp.broadcast_arrays(*(lib.value(v, t) for v, t in zip(x, types, strict=True))):
            unsigned = np.dtype(f"u{v.dtype.itemsize}")
            plain.append(lib.bits(v, unsigned) & np.asarray((1 << width) - 1, unsigned))
        return lib.element(f(lib.xp, plain, width), result.dtype)

    return Opcode(name, operands, _rule(INTS), *base.in_both(compute), "elementwise", doc)


def _shifted(left: bool, arithmetic: bool) -> Callable[[Any, list[Any], int], Any]:
    """A shift whose amounts count as unsigned; those of the width or more give 0, or the sign."""

    def shift(xp: Any, x: list[Any], bits: int) -> Any:
        value, amount = x
        kind = value.dtype.type
        limited = xp.minimum(amount, kind(bits - 1))
        if left:
            moved = value << limited
        elif arithmetic:
            # in two's complement: the sign is spread by a subtraction
            sign = kind(1 << bits - 1)
            moved = ((value ^ sign) >> limited) - (sign >> limited)
        else:
            moved = value >> limited
        return moved if arithmetic else xp.where(amount < kind(bits), moved, kind(0))

    return shift


def _ones(xp: Any, x: list[Any], bits: int) -> Any:
    (v,) = x
    total = xp.zeros_like(v)
    for i in range(bits):
        total = total + ((v >> v.dtype.type(i)) & v.dtype.type(1))
    return total


def _leading_zeros(xp: Any, x: list[Any], bits: int) -> Any:
    (v,) = x
    total = xp.zeros_like(v)
    clear = xp.ones_like(v)
    for i in reversed(range(bits)):
        clear = clear & ~(v >> v.dtype.type(i)) & v.dtype.type(1)
        total = total + clear
    return total


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
    if base.is_kind(x.dtype, "bool", "quant", "scale"):
        return f"{{}} is not defined for {x.dtype}"
    for bound in (operands[0], operands[2]):
        if bound.dtype != x.dtype or (bound.shape and base.shapes_differ(bound.shape, x.shape)):
            return f"the bounds of clamp must be scalars of {x.dtype} or of type {x}, found {bound}"
    return base.wrong(result, x.shape, x.dtype)


def _compare_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    x, y = operands
    if base.types_differ(x, y):
        return f"compare needs operands of one type, found {x} and {y}"
    return base.wrong(result, x.shape, "i1")


def _select_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    which, x, y = operands
    if which.dtype != "i1" or (which.shape and base.shapes_differ(which.shape, x.shape)):
        return f"the first operand of select must be of type i1 or {Shaped(x.shape, 'i1')}, found {which}"
    if base.types_differ(x, y):
        return f"select needs alternatives of one type, found {x} and {y}"
    return base.wrong(result, x.shape, x.dtype)


COMPARE = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}


def _fma_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    if operands[0].dtype != "f32":
        return f"{{}} is not defined for {operands[0].dtype}"
    return _rule(("float",))(result, operands, a)


SUBNORMALS = Attribute("subnormals", "word", ("keep", "flush"), "keep")


def _function(name: str, operands: int, doc: str) -> Opcode:
    f = getattr(elementary, name)
    return _row(name, operands, FLOATS, elementary.in_numpy(f), elementary.in_jax(f), doc, widest=32)


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
    _function("atan2", 2, "the angle of the point (y, x), in -pi .. pi"),
    _row("and", 2, BITS, np.bitwise_and, _jnp("bitwise_and"), "bit by bit"),
    _row("or", 2, BITS, np.bitwise_or, _jnp("bitwise_or"), "bit by bit"),
    _row("xor", 2, BITS, np.bitwise_xor, _jnp("bitwise_xor"), "bit by bit"),
    _of_width("shift_left", 2, _shifted(True, False), "by the width or more, 0"),
    _of_width("shift_right_logical", 2, _shifted(False, False), "by the width or more, 0"),
    _of_width("shift_right_arithmetic", 2, _shifted(False, True), "by the width or more, the sign"),
    _row("not", 1, BITS, np.invert, _jnp("bitwise_not"), "bit by bit"),
    _of_width("popcnt", 1, _ones, "how many bits are set"),
    _of_width("count_leading_zeros", 1, _leading_zeros, "zero bits above the highest set one"),
    _row("negate", 1, NUMBERS, np.negative, _jnp("negative"), "-x"),
    _row("abs", 1, ("int", "float", "quant"), np.abs, _jnp("abs"), "the smallest integer's is itself"),
    _row("sign", 1, ("int", "float", "quant"), _by_kind(np.sign, _sign(numbers)),
         _by_kind(_jnp("sign"), _sign(carriers)), "-1, 0 or 1; zeros and NaN are themselves"),
    _row("floor", 1, FLOATS, numbers.flushed(np.floor), _flushed(_lax("floor")), "rounded down"),
    _row("ceil", 1, FLOATS, numbers.flushed(np.ceil), _flushed(_lax("ceil")), "rounded up"),
    _row("round_nearest_even", 1, FLOATS, numbers.flushed(np.rint), _round("TO_NEAREST_EVEN"),
         "to the nearest, ties to even"),
    _row("round_nearest_afz", 1, FLOATS, numbers.flushed(_round_away), _round("AWAY_FROM_ZERO"),
         "to the nearest, ties away from zero"),
    _row("sqrt", 1, FLOATS, numbers.flushed(np.sqrt),
         lambda x: jnp.sqrt(carriers.native(carriers.uncontracted(x))), "correctly rounded"),
    _function("rsqrt", 1, "1 / sqrt(x)"),
    _function("cbrt", 1, "the cube root"),
    _function("exp", 1, "e to the x"),
    _function("expm1", 1, "exp(x) - 1"),
    _function("log", 1, "the natural logarithm"),
    _function("log1p", 1, "log(1 + x)"),
    _function("logistic", 1, "1 / (1 + exp(-x))"),
    _function("tanh", 1, "the hyperbolic tangent"),
    _function("sine", 1, "of radians of any size"),
    _function("cosine", 1, "of radians of any size"),
    _row("is_finite", 1, ("float",), np.isfinite, _jnp("isfinite"), "neither infinite nor NaN", gives="i1"),
    Opcode("fma", 3, _fma_rule,
           *base.in_both(lambda lib, result, x, a, types: lib.fma(*x, flush=a["subnormals"] == "flush")),
           "elementwise",
           "`a * b + c` of f32, rounded once; subnormal numbers are kept, or flush (operands and tiny results count as "
           "zeros of their sign)", (SUBNORMALS,)),
    Opcode("clamp", 3, _clamp_rule, _computed(numbers, lambda low, x, high: smallest(largest(x, low), high)),
           _computed(carriers, lambda low, x, high: _extreme("minimum")(_extreme("maximum")(x, low), high)),
           "elementwise", "low, x, high: minimum(maximum(x, low), high); the bounds may be scalars"),
    Opcode("compare", 2, _compare_rule, *base.in_both(
        lambda lib, result, x, a, types: getattr(lib.xp, COMPARE[a["direction"]])(
            *map(lib.flush, map(lib.value, x, types)))),
           "elementwise", "i1; NaN is unequal to all, and neither less nor greater",
           (Attribute("direction", "word", tuple(COMPARE)),)),
    Opcode("select", 3, _select_rule, *base.in_both(lambda lib, result, x, a, types: lib.xp.where(*x)), "elementwise",
           "i1, then, else; the first may be a scalar"),
]
