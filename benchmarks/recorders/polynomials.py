"""The coefficients of ``uma_targets/kit/vectors/functions.py``: polynomials of least greatest error, in float32.

``python benchmarks/recorders/polynomials.py`` prints each with its error in float64. Each is fitted by weighted least
squares whose weights grow where the error is large (Lawson), on Chebyshev's points, so that the greatest error becomes
the least; then coefficients are rounded to float32 one by one, from the constant on, the others fitted anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
ROUNDS = 200
"""Of weighting."""


@dataclass(frozen=True)
class Wanted:
    """``function`` on ``low .. high`` by a polynomial of ``degree`` whose error counts as ``weight`` says; ``exact``
    coefficients are given."""

    function: Callable[[Numbers], Numbers]
    low: float
    high: float
    degree: int
    weight: Callable[[Numbers], Numbers] = np.ones_like
    exact: tuple[float, ...] = ()


def fitted(wanted: Wanted, points: int = 4000) -> tuple[list[float], float]:
    """Coefficients, the constant first, and the greatest weighted error of them as float32."""
    turn = np.cos(np.pi * (np.arange(points) + 0.5) / points)
    x = (wanted.low + wanted.high) / 2 + (wanted.high - wanted.low) / 2 * turn
    y, scale = wanted.function(x), wanted.weight(x)
    known = list(wanted.exact)
    while len(known) <= wanted.degree:
        rest = y - sum(c * x**i for i, c in enumerate(known))
        powers = np.stack([x**i for i in range(len(known), wanted.degree + 1)], 1)
        known.append(float(np.float32(_least(powers, rest, scale)[0])))
    error = np.abs(sum(c * x**i for i, c in enumerate(known)) - y) * scale
    return known, float(error.max())


def _least(powers: Numbers, y: Numbers, scale: Numbers) -> Numbers:
    weights = np.ones_like(y)
    best, least = np.zeros(powers.shape[1]), math.inf
    for _ in range(ROUNDS):
        root = np.sqrt(weights) * scale
        found = np.linalg.lstsq(powers * root[:, None], y * root, rcond=None)[0]
        error = np.abs(powers @ found - y) * scale
        if error.max() < least:
            best, least = found, float(error.max())
        weights *= error / error.max() + 1e-3
        weights /= weights.sum()
    return best


def _each(function: Callable[[float], float]) -> Callable[[Numbers], Numbers]:
    return lambda x: np.array([function(float(v)) for v in x])


def _of_square(function: Callable[[float], float], less: float = 0.0) -> Callable[[Numbers], Numbers]:
    """``f(x) / x - less`` of t = x², for odd functions."""
    return lambda t: np.asarray(_each(function)(np.sqrt(t)) / np.sqrt(t) - less)


WANTED = {
    "EXP: e^x, |x| < ln 2 / 2": Wanted(np.exp, -0.3470, 0.3470, 6, lambda x: np.exp(-x), (1.0, 1.0)),
    "TANH: (tanh x / x - 1) / x² of x², |x| < 0.6": Wanted(
        lambda t: _of_square(math.tanh, 1.0)(t) / t, 1e-6, 0.36, 5, lambda t: t),
    "ERF: erf x / x - 1 of x², |x| < 1": Wanted(
        _of_square(math.erf, 1.0), 1e-8, 1.0, 7, lambda t: 1 / _of_square(math.erf)(t)),
    "ERFC: -log(erfc x) / x, 1 < x < 4": Wanted(
        lambda x: -np.log(_each(math.erfc)(x)) / x, 0.95, 4.0, 8, lambda x: x * _each(math.erfc)(x)),
    "SIN: (sin x / x - 1) / x² of x², |x| < pi / 4": Wanted(
        lambda t: _of_square(math.sin, 1.0)(t) / t, 1e-4, 0.617, 2, lambda t: t),
    "COS: (cos x - 1 + x² / 2) / x⁴ of x², |x| < pi / 4": Wanted(
        lambda t: (np.cos(np.sqrt(t)) - 1 + t / 2) / t**2, 1e-3, 0.617, 2, lambda t: t**2),
}


if __name__ == "__main__":
    for title, wanted in WANTED.items():
        coefficients, error = fitted(wanted)
        print(f"{title}: {error:.2e}")
        print("   ", ", ".join(repr(float(np.float32(c))) for c in coefficients))
