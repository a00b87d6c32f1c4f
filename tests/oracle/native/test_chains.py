"""Chains of products and sums by machine code: equal to the interpreter's, bit for bit."""

from functools import partial

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.oracle import native
from archloom.oracle.kernel.compiled import load_kernel
from archloom.oracle.native import library
from archloom.oracle.taidl.operators import contraction, numbers
from examples.amx_kernels import KERNELS
from tests.support.examples import examples
from tests.support.oracle.stored_programs import in_another_process

pytestmark = pytest.mark.skipif(not native.possible(), reason="JAX runs elsewhere than on an x86 processor with FMA")

ROUNDINGS = ("each", "fused_flush", "fused_keep")
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 1.2e-38, 3.4e38, 1.0, -1.0], np.float32)


@st.composite
def operands(draw, rows=()):
    """Matrices of sizes around those of blocks, with or without leading axes and numbers at the borders of f32; of so
    many ``rows``, if there are any."""
    sizes = 1, 2, 5, 6, 7, 13, 24, 31, 32, 33, 49
    m, k, n = (draw(st.sampled_from(some)) for some in (rows or sizes, sizes, sizes))
    lead = draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    exponents = draw(st.sampled_from([1, 40, 150]))
    special = draw(st.sampled_from([0.0, 0.0, 0.02]))

    def matrix(*shape):
        with np.errstate(all="ignore"):
            made = (random.standard_normal(shape) * 2.0 ** random.uniform(-exponents, exponents, shape)).astype("f")
        return np.where(random.random(shape) < special, random.choice(SPECIAL, shape), made)

    start = matrix(*lead, m, n) if draw(st.booleans()) else matrix()
    parts = draw(st.sampled_from([None, None, 1, 4]))
    deep = lead if parts is None else (*lead, parts)
    return matrix(*deep, m, k), matrix(*deep, k, n), start, parts and draw(st.sampled_from([0.0, -0.0]))


def in_numpy(a, b, c, rounding, parts=None):
    """One step after the other, by the interpreter's operators."""
    if parts is not None:
        total = np.broadcast_to(c, (*a.shape[:-3], a.shape[-2], b.shape[-1]))
        for p in range(a.shape[-3]):
            part = in_numpy(a[..., p, :, :], b[..., p, :, :], np.float32(parts), rounding)
            kept = rounding == "fused_keep"  # subnormal numbers, in these sums as in the others
            total = numbers.fma(part, np.ones_like(part), total, flush=False) if kept else numbers.add(total, part)
        return total
    total = np.broadcast_to(c, (*a.shape[:-1], b.shape[-1]))
    for i in range(a.shape[-1]):
        x, y = a[..., i:i + 1], b[..., i:i + 1, :]
        if rounding == "each":
            total = numbers.add(total, numbers.multiply(x, y))
        else:
            total = numbers.fma(*np.broadcast_arrays(x, y, total), flush=rounding == "fused_flush")
    return total


def bits(x):
    """The bits of numbers; a NaN is a NaN."""
    x = np.asarray(x)
    return np.where(np.isnan(x), np.float32(np.nan), x).view(np.uint32)


@pytest.fixture
def together(monkeypatch):
    """Cores share all products, however few there are."""
    chains = library.chains
    monkeypatch.setattr(library, "chains", lambda *way: f"{chains(*way)}_together")
    for name, make in list(library.HANDLERS.items()):
        if name.startswith(library.CHAINS):
            monkeypatch.setitem(library.HANDLERS, f"{name}_together", partial(make, shared=0))


@pytest.mark.parametrize("rounding", ROUNDINGS)
@examples(6, 400)
@given(given_operands=operands())
def test_chains_equal_the_interpreter(given_operands, rounding):
    equal_to_the_interpreter(*given_operands, rounding)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@examples(6, 400)
@given(given_operands=operands(rows=(1, 48, 97, 400)))
def test_chains_that_cores_share_equal_the_interpreter(given_operands, rounding, together):
    equal_to_the_interpreter(*given_operands, rounding)


def equal_to_the_interpreter(a, b, c, parts, rounding):
    made = jax.jit(lambda *x: native.chain(*x, rounding, parts=parts))(a, b, c)
    with np.errstate(all="ignore"):
        expected = in_numpy(a, b, c, rounding, parts)
    np.testing.assert_array_equal(bits(made), bits(expected))


def test_chains_in_a_batch_stay_one_call():
    random = np.random.default_rng(1)
    a, b = random.standard_normal((4, 7, 9)).astype("f"), random.standard_normal((9, 40)).astype("f")
    batched = jax.jit(jax.vmap(lambda x: contraction.ordered(x, b, "f32")))
    assert batched.lower(a).as_text().count(f"@{library.CHAINS}each(") == 1
    expected = np.stack([in_numpy(x, b, np.float32(-0.0), "each") for x in a])
    np.testing.assert_array_equal(bits(batched(a)), bits(expected))


def test_kernels_for_other_machines_have_no_machine_code():
    kernel = archloom.isa("amx").wrap(KERNELS["mem_format_prop_avx"](32))
    random = np.random.default_rng(2)
    given_arrays = [random.standard_normal(t.shape).astype(t.dtype) for t in kernel.arguments]
    here = kernel(*given_arrays)
    assert library.CHAINS in kernel.program.outermost.lower(*given_arrays).as_text()
    data = kernel.compile().serialize()
    assert library.CHAINS.encode() not in data
    np.testing.assert_array_equal(bits(load_kernel(data)(*given_arrays)), bits(here))


def test_stored_programs_find_their_machine_code_in_another_process(tmp_path):
    kernel = archloom.isa("amx").wrap(KERNELS["mem_format_prop_avx"](32))
    random = np.random.default_rng(3)
    given_arrays = [random.standard_normal(t.shape).astype(t.dtype) for t in kernel.arguments]
    made = in_another_process(kernel, given_arrays, tmp_path)
    np.testing.assert_array_equal(bits(made), bits(kernel(*given_arrays)))
