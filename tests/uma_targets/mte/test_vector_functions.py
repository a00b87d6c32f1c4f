"""Functions by polynomials: within their bounds of float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from archloom.mapper.nests import Axis, Code, Nest, Pass, Store, evaluate
from archloom.oracle.affine import Affine
from archloom.uma_targets.kit.vectors import RiscvV
from archloom.uma_targets.kit.vectors.functions import BOUNDS, FUNCTIONS, expanded
from tests.support.uma_targets.nests import interpreted, stream_of


def _erf(x: np.ndarray) -> np.ndarray:
    """By torch, which has it of arrays."""
    torch = pytest.importorskip("torch")
    found: np.ndarray = torch.special.erf(torch.from_numpy(x)).numpy()
    return found


TRUE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp, "tanh": np.tanh, "erf": _erf, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sin": np.sin, "cos": np.cos}
CHUNK = 1 << 22
ODD = (math.inf, -math.inf, math.nan)


def nest_of(name: str, count: int) -> Nest:
    """A function of each word."""
    code, at = Code(), Affine.variable("i")
    found = code.apply(name, code.load("x", at))
    return Nest((Axis("i", count),), (Pass((), tuple(code.operations), (Store("y", at, found),)),))


def computed(name: str, x: np.ndarray) -> np.ndarray:
    """By NumPy, in the arithmetic of vector instructions."""
    nest = nest_of(name, x.size)
    words = {"x": x.view(np.int32), "y": np.zeros(x.size, np.int32)}
    evaluate(Nest(nest.axes, tuple(map(expanded, nest.passes))), words)
    return words["y"].view(np.float32)


def excess(name: str, x: np.ndarray) -> float:
    """How far beyond its bound the worst error is, in places; NaN must be NaN."""
    with np.errstate(all="ignore"):
        true = TRUE[name](x.astype(np.float64))
        found = computed(name, x)
        nearest = true.astype(np.float32)
        error = np.abs(found.astype(np.float64) - true)
        error[found == nearest] = 0  # infinities, too
        place = np.maximum(np.spacing(np.abs(np.where(np.isfinite(nearest), nearest, 1))), 2.0**-149)
        places = np.maximum(error - BOUNDS[name].beside, 0) / place
    number = ~np.isnan(true)
    assert np.isnan(found[~number]).all()
    return float(places[number].max(initial=0)) - BOUNDS[name].places


def test_every_function_has_a_bound() -> None:
    assert set(FUNCTIONS) == set(BOUNDS) == set(TRUE)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_are_within_their_bounds(name: str) -> None:
    bits = np.arange(-1 << 31, 1 << 31, 40_009, np.int64).astype(np.int32)
    ends = np.array([0.0, -0.0, 1, -1, 0.6, 1e-45, -1e-45, 88.73, -87.4, -103.9, 104, 3.9, math.pi / 4,
                     33 * math.pi / 2, 1e10, 3e38, *ODD], np.float32)
    near = np.linspace(-20, 20, 100_001, dtype=np.float32)
    x = np.concatenate([bits.view(np.float32), ends, near])
    assert excess(name, x) <= 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_are_within_their_bounds_everywhere(name: str) -> None:
    for first in range(-1 << 31, 1 << 31, CHUNK):
        assert excess(name, np.arange(first, first + CHUNK, dtype=np.int32).view(np.float32)) <= 0, first


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_instructions_compute_what_their_arithmetic_does(name: str) -> None:
    x = np.concatenate([np.linspace(-12, 12, 190, dtype=np.float32), np.array([90, -100, *ODD], np.float32)])
    stream = stream_of(nest_of(name, x.size), ("x", "y"), RiscvV(512, 32), size=x.size)
    found = interpreted(stream, {"x": x.view(np.int32)}).view(np.float32)
    np.testing.assert_allclose(found, computed(name, x), rtol=1e-6, atol=1e-38)
