"""I-BERT's functions of integers in plain NumPy, from the paper (Kim et al., ICML 2021) and with Gemmini's constants.

Numbers are int64 arrays that hold int32 values; what leaves the range of int32 wraps, as in Gemmini. Divisions go
towards zero, as in C. Nothing here knows of tiles, instructions or TAIDL.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


def wrap(x: Array | int) -> Array:
    """To the range of int32, modulo 2^32."""
    return (np.asarray(x, np.int64) + 2**31) % 2**32 - 2**31


def halve(x: Array, times: Array) -> Array:
    """x / 2^times, rounded down; by 32 and more (or less than 0) only the sign is left."""
    return np.where((times < 0) | (times > 31), np.where(x < 0, -1, 0), x >> np.clip(times, 0, 31))


def divide(a: int, b: int) -> int:
    """a / b towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def square_root(n: int) -> int:
    """The integer part of a square root by Newton's iteration: I-BERT's Algorithm 4."""
    if n == 0:
        return 0
    x = 1 << -(-n.bit_length() // 2)
    while True:
        y = (x + n // x) // 2
        if y >= x:
            return x
        x = y


@dataclass(frozen=True)
class Constants:
    """The integers of a second-order polynomial, and of the logarithm of 2."""

    b: int = 0
    c: int = 0
    ln2: int = 0
    ln2_inv: int = 0


def exponential_constants(unit: float) -> Constants:
    """For exponents of which 1 stands for ``unit``: 0.3585 (x + 1.353)^2 + 0.344 over -ln 2 .. 0."""
    ln2 = int(np.log(2) / unit)
    return Constants(int(1.353 / unit), int(0.344 / (0.3585 * unit**2)), ln2, 65536 // ln2)


def gelu_constants(unit: float) -> Constants:
    """For arguments of which 1 stands for ``unit``: erf(x) = sgn(x) (-0.2888 (min(|x|, 1.769) - 1.769)^2 + 1)."""
    part = unit / np.sqrt(2)
    return Constants(int(-1.769 / part), int(1 / (-0.2888 * part**2)))


def exponential(q: Array, k: Constants) -> Array:
    """i-exp of integers (none above 0, if it is to be an exponential): halved once for each ln 2."""
    z = wrap(wrap(-q) * k.ln2_inv) >> 16
    rest = wrap(q + wrap(z * k.ln2) + k.b)
    return halve(wrap(wrap(rest * rest) + k.c), z)


def gelu(q: Array, k: Constants) -> Array:
    """i-GELU of integers."""
    clipped = wrap(np.minimum(wrap(np.abs(q)), wrap(-k.b)) + k.b)
    polynomial = wrap(wrap(clipped * clipped) + k.c)
    return wrap(q * wrap(np.where(q < 0, -polynomial, polynomial) + k.c))


def to_int8(x: Array, scale: np.float32) -> Array:
    """The product in float32, to the nearest integer, ties to even, saturated."""
    with np.errstate(all="ignore"):
        product = x.astype(np.float32) * np.float32(scale)
    return np.clip(np.rint(np.nan_to_num(product, nan=0.0, posinf=128, neginf=-129)), -128, 127).astype(np.int64)


def to_int32(x: Array) -> Array:
    """float32 towards zero, saturated; what is no number is 0."""
    whole = np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=2.0**31, neginf=-(2.0**31))
    return np.clip(np.trunc(whole), -(2**31), 2**31 - 1).astype(np.int64)


def softmax(q: Array, k: Constants) -> Array:
    """Shares of each row in 127ths."""
    made = []
    for row in q.astype(np.int64):
        powers = exponential(wrap(row - row.max()), k)
        with np.errstate(divide="ignore"):
            share = np.float32(127) / np.float32(wrap(powers.sum()))
        made.append(to_int8(powers, share))
    return np.array(made)


def layer_norm(q: Array) -> Array:
    """How many standard deviations each element lies above the mean of its row, towards zero."""
    made = []
    for row in q.astype(np.int64):
        away = wrap(row - divide(int(wrap(row.sum())), row.size))
        variance = divide(int(wrap(wrap(away * away).sum())), row.size)
        deviation = square_root(variance) or 1
        made.append(to_int32(away.astype(np.float32) * (np.float32(1) / np.float32(deviation))))
    return np.array(made)


def encoder_layer(x: Array, weights: list[Array], heads: int, scales: dict[str, float], exp: Constants,
                  erf: Constants) -> Array:
    """A layer for x int8[sequence, width]; ``scales`` by the name of what is made int8."""
    wq, bq, wk, bk, wv, bv, wo, bo, w1, b1, w2, b2 = (w.astype(np.int64) for w in weights)
    depth = x.shape[1] // heads

    def dense(a: Array, w: Array, bias: Array, name: str) -> Array:
        return to_int8(a @ w + bias, np.float32(scales[name]))

    q, k, v = dense(x, wq, bq, "query"), dense(x, wk, bk, "query"), dense(x, wv, bv, "value")
    mixed = np.zeros_like(x)
    for first in range(0, x.shape[1], depth):
        head = slice(first, first + depth)
        shares = softmax(q[:, head] @ k[:, head].T, exp)
        mixed[:, head] = to_int8(shares @ v[:, head], np.float32(scales["share"]))
    h = to_int8(layer_norm(dense(mixed, wo, bo, "out") + x), np.float32(scales["norm"]))
    inner = to_int8(gelu(dense(h, w1, b1, "inner"), erf), np.float32(scales["gelu_out"]))
    return to_int8(layer_norm(dense(inner, w2, b2, "last") + h), np.float32(scales["norm"]))
