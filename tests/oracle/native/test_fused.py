"""Fused multiply-adds on JAX against their NumPy twins, with constants among the operands, too."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from archloom.oracle import native
from archloom.oracle.native import portable
from archloom.oracle.native.program import PREFIX
from archloom.oracle.taidl.operators.carriers import fma as lowered
from archloom.oracle.taidl.operators.numbers import fma

PATTERNS = (0, 1, 0x7FFFFF, 0x800000, 0xFFFFFF, 0x1F000000, 0x20000001, 0x33800000, 0x34000000, 0x3F800000, 0x7F7FFFFF,
            0x7F800000, 0x7FC00000)
"""Zero, subnormal numbers, the least normal ones, some whose products are tiny, infinity and NaN."""


def triples() -> np.ndarray:
    """Every three of the patterns with both signs, and random ones near the bounds of normal numbers."""
    signed = np.array([p | s for p in PATTERNS for s in (0, 1 << 31)], np.uint32).view(np.float32)
    random = np.random.default_rng(0)
    with np.errstate(under="ignore"):
        parts = [random.standard_normal((20_000, 3)) * 2.0 ** random.integers(low, high, (20_000, 3))
                 for low, high in ((-80, -40), (-149, -120), (-4, 4))]
        return np.concatenate([np.array(list(itertools.product(signed, repeat=3))), *parts]).astype(np.float32)


def equal(x: np.ndarray, y: np.ndarray) -> bool:
    return bool(((x.view(np.uint32) == y.view(np.uint32)) | (np.isnan(x) & np.isnan(y))).all())


def here(function: Callable[..., Any], way: str) -> Callable[..., Any]:
    """The function jitted, with machine code where it is possible, or with what XLA has."""
    return jax.jit(function if way == "machine code" else portable()(function))


ways = pytest.mark.parametrize("way", ["machine code", "by integers"])


@ways
@pytest.mark.parametrize("flush", [False, True])
def test_bits_are_those_of_numpy(flush: bool, way: str) -> None:
    a, b, c = (np.ascontiguousarray(x) for x in triples().T)
    made = here(lambda *x: lowered(*x, flush=flush), way)(a, b, c)
    assert equal(np.asarray(made), fma(a, b, c, flush=flush))


@ways
@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("number", [1.0, 1.5, -1.0, 3.3e-39])
def test_known_factors(flush: bool, number: float, way: str) -> None:
    a, _, c = (np.ascontiguousarray(x) for x in triples().T)
    factor = np.full((1,), number, np.float32)
    made = here(lambda x, y: lowered(x, factor, y, flush=flush), way)(a, c)
    assert equal(np.asarray(made), fma(a, np.full_like(a, factor[0]), c, flush=flush))


@ways
@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("number", [-0.0, 0.0, 1e-40])
def test_known_addends(flush: bool, number: float, way: str) -> None:
    a, b, _ = (np.ascontiguousarray(x) for x in triples().T)
    addend = np.full((1,), number, np.float32)
    made = here(lambda x, y: lowered(x, y, addend, flush=flush), way)(a, b)
    assert equal(np.asarray(made), fma(a, b, np.full_like(a, addend[0]), flush=flush))


@pytest.mark.skipif(not native.possible(), reason="JAX runs elsewhere than on an x86 processor with FMA")
def test_many_numbers_are_one_call_of_machine_code() -> None:
    """Whatever broadcasts, in a batch as well; of few numbers there is none."""
    random = np.random.default_rng(1)
    a, b, c = (random.standard_normal(shape).astype("f") for shape in ((5, 70, 133), (133,), (5, 70, 1)))
    batched = jax.jit(jax.vmap(lambda x, z: lowered(x, b, z, flush=False)))
    assert batched.lower(a, c).as_text().count(PREFIX) == 1
    assert equal(np.asarray(batched(a, c)), fma(*(np.broadcast_to(x, a.shape) for x in (a, b, c)), flush=False))
    assert PREFIX not in jax.jit(lambda x: lowered(x, x, x, flush=False)).lower(b).as_text()
