"""Random numbers: counter-based generators, bit for bit the same everywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from archloom.oracle.resolved import Shaped, TensorType
from archloom.oracle.taidl.operators.base import Attribute, Attributes, Opcode, in_both
from archloom.oracle.taidl.types import element_type

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))

_U = np.uint32


def threefry(key: tuple[Any, Any], counter: tuple[Any, Any]) -> tuple[Any, Any]:
    """Threefry-2x32 with 20 rounds (Salmon et al., SC 2011) on u32 arrays."""
    keys = (*key, key[0] ^ key[1] ^ _U(0x1BD11BDA))
    x, y = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            x = x + y
            y = ((y << _U(turn)) | (y >> _U(32 - turn))) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + _U(group + 1)
    return x, y


def _both_halves(a: int, b: Any) -> tuple[Any, Any]:
    """The upper and the lower 32 bits of a product, with 32 bits alone."""
    low, high = _U(a & 0xFFFF), _U(a >> 16)
    below, above = b & _U(0xFFFF), b >> _U(16)
    first = low * below
    middle = high * below + (first >> _U(16))
    cross = low * above + (middle & _U(0xFFFF))
    return high * above + (middle >> _U(16)) + (cross >> _U(16)), _U(a) * b


def philox(key: tuple[Any, Any], counter: tuple[Any, Any, Any, Any]) -> tuple[Any, ...]:
    """Philox-4x32 with 10 rounds (Salmon et al., SC 2011) on u32 arrays."""
    k, (a, b, c, d) = key, counter
    for turn in range(10):
        if turn:
            k = (k[0] + _U(0x9E3779B9), k[1] + _U(0xBB67AE85))
        high0, low0 = _both_halves(0xD2511F53, a)
        high1, low1 = _both_halves(0xCD9E8D57, c)
        a, b, c, d = high1 ^ b ^ k[0], low1, high0 ^ d ^ k[1], low0
    return a, b, c, d


def _words(xp: Any, seed: Any, count: int, algorithm: str, pairs: bool) -> tuple[Any, ...]:
    """For each of ``count`` elements one u32, or two (the lower first)."""
    key = (seed[0], seed[1])
    place = xp.arange(count, dtype=np.uint32)
    zero = xp.zeros_like(place)
    if algorithm == "threefry":
        x, y = threefry(key, (zero, place))
        return (y, x) if pairs else (x ^ y,)
    per = 2 if pairs else 4
    block = philox(key, (place // _U(per), zero, zero, zero))
    turn = place % _U(per)
    if pairs:
        return tuple(xp.where(turn == _U(0), block[i], block[i + 2]) for i in range(2))
    upper = xp.where(turn == _U(2), block[2], block[3])
    return (xp.where(turn == _U(0), block[0], xp.where(turn == _U(1), block[1], upper)),)


def _rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (seed,) = operands
    if seed.dtype != "u32" or seed.shape != (2,):
        return f"{{}} takes a seed of type 2xu32, found {seed}"
    kind = element_type(result.dtype)
    if kind.kind not in ("int", "uint", "bool") and result.dtype != "f32":
        return f"{{}} gives integers, i1 and f32, not {result.dtype}"
    return None


def _rng(lib: Any, result: TensorType, x: Sequence[Any], a: Mapping[str, Any], types: Sequence[str]) -> Any:
    kind = element_type(result.dtype)
    words = _words(lib.xp, x[0], math.prod(result.shape), a["algorithm"], kind.bits == 64)
    if kind.bits == 64:
        made = words[0].astype(np.uint64) | words[1].astype(np.uint64) << np.uint64(32)
    elif result.dtype == "f32":
        made = (words[0] >> _U(8)).astype(np.float32) * np.float32(2.0**-24)
    else:
        made = words[0] & _U((1 << kind.bits) - 1)
    return lib.element(made.reshape(result.shape), result.dtype)


ROWS: list[Opcode] = [
    Opcode("rng", 1, _rule, *in_both(_rng), "opaque",
           "random bits, or f32 in 0 .. 1, from a seed of 2xu32 (Threefry-2x32 or Philox-4x32, the element's place "
           "as the counter)", (Attribute("algorithm", "word", ("threefry", "philox"), default="threefry"),),
           spelled=("rng_bit_generator",)),
]
