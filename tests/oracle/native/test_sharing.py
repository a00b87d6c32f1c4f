"""Work of machine code that the threads of XLA's pool share."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import numpy as np
import pytest

from archloom.oracle import native
from archloom.oracle.native import chain_code, chains, library, sharing_code

pytestmark = pytest.mark.skipif(not native.possible(), reason="JAX runs elsewhere than on an x86 processor with FMA")


@pytest.fixture
def operands():
    """A product that cores share, and its result: whole numbers, of which all sums are exact."""
    random = np.random.default_rng(0)
    a, b = (random.integers(-8, 8, shape).astype(np.float32) for shape in ((3, 100, 64), (3, 64, 70)))
    assert np.prod(a.shape) * b.shape[-1] > chain_code.SHARED
    return a, b, a @ b


def test_the_installed_xla_has_a_pool_of_threads():
    assert len(sharing_code.places()) == len(sharing_code.FUNCTIONS)


def test_calls_at_the_same_time_in_one_program_and_in_several(operands):
    a, b, expected = operands

    @jax.jit
    def many(a, b):  # calls that do not depend on each other, of which XLA runs several at once
        return [native.chain(a + i, b, np.float32(0), "each") for i in range(6)]

    wanted = [expected + i * b.sum(1, keepdims=True) for i in range(6)]
    with ThreadPoolExecutor(8) as pool:  # more than there are cores, so that tasks find nothing left
        for found in pool.map(lambda _: many(a, b), range(60)):
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(one, other)


def test_without_a_pool_the_caller_does_all(operands, monkeypatch):
    name = f"{library.CHAINS}alone"
    a, b, expected = operands
    make = partial(chain_code.module, fused=False, control=(0, 0))
    monkeypatch.setattr(sharing_code, "places", tuple)
    assert "ThreadPool" not in make(name) and "@schedule" not in make(name)
    monkeypatch.setitem(library.HANDLERS, name, make)
    monkeypatch.setattr(library, "chains", lambda rounding: name)
    np.testing.assert_array_equal(jax.jit(lambda a, b: chains.chain(a, b, np.float32(0), "each"))(a, b), expected)
