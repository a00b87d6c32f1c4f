"""Products of integers on GPUs: programs of their own go without wrong kernels, parts of others take floats."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from archloom.oracle.taidl.operators.integer_dot import WITHOUT_TRITON, integer_dot, jit_within
from archloom.oracle.xla import options
from archloom.oracle.xla.options import compiler_options, jit

DIMS = (((1,), (0,)), ((), ()))


@pytest.mark.parametrize(("backend", "own", "operand"), [
    ("cpu", False, "i8"), ("cpu", True, "i8"), ("gpu", False, "f32"), ("gpu", True, "i8")])
def test_bytes_are_multiplied_as_floats_where_the_options_are_not_ours(
    monkeypatch: pytest.MonkeyPatch, backend: str, own: bool, operand: str,
) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert (compiler_options() == WITHOUT_TRITON) == (backend == "gpu")
    monkeypatch.setattr(options, "compiler_options", lambda: None)  # which this device may not know
    a, b = (jnp.asarray(np.full(shape, -128, np.int8)) for shape in ((9, 21), (21, 11)))
    within = jit_within(lambda x, y: integer_dot(x, y, DIMS, jnp.int32))  # one, in programs of both kinds
    text = {}
    for kind in (not own, own):
        text[kind] = (jit if kind else jax.jit)(lambda x, y: within(x, y)).lower(a, b).as_text()
    sums = "f32" if operand == "f32" else "i32"
    assert f"(tensor<9x21x{operand}>, tensor<21x11x{operand}>) -> tensor<9x11x{sums}>" in text[own]


@pytest.mark.slow
def test_products_equal_numpy() -> None:
    """On any device, whether the options are ours or not."""
    rng = np.random.default_rng(0)
    for m, k, n in ((9, 21, 11), (1, 1, 1), (100, 50, 70), (32, 32, 32)):
        a, b = rng.integers(-128, 128, (m, k)).astype(np.int8), rng.integers(-128, 128, (k, n)).astype(np.int8)
        expected = a.astype(np.int32) @ b.astype(np.int32)
        product = jax.jit(lambda x, y: integer_dot(x, y, DIMS, jnp.int32))
        np.testing.assert_array_equal(np.asarray(product(a, b)), expected)
        own = jit(lambda x, y: integer_dot(x, y, DIMS, jnp.int32))
        np.testing.assert_array_equal(np.asarray(own(a, b)), expected)


@pytest.mark.parametrize("sums", [np.uint8, np.int16, np.int64])
@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_sums_of_any_width_wrap(monkeypatch: pytest.MonkeyPatch, backend: str, sums: type) -> None:
    """Narrower than what bytes are widened to, and wider."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    rng = np.random.default_rng(0)
    operand = np.uint8 if sums is np.uint8 else np.int8
    limits = np.iinfo(operand)
    a, b = (rng.integers(limits.min, limits.max + 1, shape).astype(operand) for shape in ((9, 21), (21, 11)))
    with jax.enable_x64(True):
        made = jax.jit(lambda x, y: integer_dot(x, y, DIMS, jnp.dtype(sums)))(a, b)
    assert made.dtype == sums
    np.testing.assert_array_equal(np.asarray(made), a.astype(sums) @ b.astype(sums))


@pytest.mark.parametrize("operand", [np.int8, np.uint8])
def test_long_sums_of_the_largest_numbers_are_exact(monkeypatch: pytest.MonkeyPatch, operand: type) -> None:
    """On a GPU they are pieces of what float32 adds up exactly."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    most = np.iinfo(operand).min or np.iinfo(operand).max
    a, b = (np.full(shape, most, operand) for shape in ((2, 3, 5001), (5001, 2, 4)))
    b[1::2] -= 1
    dims = (((2,), (0,)), ((0,), (1,)))
    made = jax.jit(lambda x, y: integer_dot(x, y, dims, jnp.int32))(a, b)
    np.testing.assert_array_equal(made, np.einsum("bmk,kbn->bmn", a.astype(np.int32), b.astype(np.int32)))
