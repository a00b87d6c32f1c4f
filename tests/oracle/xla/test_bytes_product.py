"""Products of signed bytes in bfloat16: exact up to the deepest, and chosen only where they are."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from archloom.oracle.xla.lowering import bytes_product
from archloom.oracle.xla.lowering.bytes_product import DEEPEST, NARROWEST, in_bfloat16
from archloom.oracle.xla.oracle import forget
from examples.gemmini_kernels import exo_matmul

SIZES = (3136, 128, 512)


@pytest.fixture
def zen4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytes_product, "processor", lambda: frozenset({"avx512_bf16", "avx512_vnni"}))


def check(left: np.ndarray, right: np.ndarray) -> None:
    made = np.asarray(jax.jit(bytes_product.product)(left, right))
    assert made.dtype == np.int32
    np.testing.assert_array_equal(made, (left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64))


@pytest.mark.parametrize("shape", [(128, 128, DEEPEST), (131, 257, 1021), (1, 1, DEEPEST), (3, 5, 1)])
def test_random_bytes(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    random = np.random.default_rng(m)
    check(random.integers(-128, 128, (m, k), dtype=np.int8), random.integers(-128, 128, (k, n), dtype=np.int8))


@pytest.mark.parametrize("one", [-128, 127])
@pytest.mark.parametrize("other", [-128, 127])
def test_the_largest_sums(one: int, other: int) -> None:
    """All of one sign, so that no sum is larger: with -128 twice the last is 2^24."""
    left, right = np.full((128, DEEPEST), one, np.int8), np.full((DEEPEST, 128), other, np.int8)
    check(left, right)
    left[:, ::2] = -left[:, ::2] - 1  # what is odd, after what is large
    left[:, -1] = right[-1] = 1
    check(left, right)


def test_one_more_could_be_rounded() -> None:
    full = np.full((1, DEEPEST + 1), -128, np.int8)
    with pytest.raises(ValueError, match="1025 products"):
        bytes_product.product(full, full.T)
    assert np.float32(2**24 + 1) == np.float32(2**24)


def test_where_it_is_chosen(zen4: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_bfloat16(*SIZES)
    assert in_bfloat16(512, 512, DEEPEST)
    assert not in_bfloat16(512, 512, DEEPEST + 1)
    assert not in_bfloat16(12544, NARROWEST - 1, 512)
    assert not in_bfloat16(128, 128, 512)
    for features in ({"avx512_vnni"}, {"avx512_bf16", "amx_int8"}, set[str]()):
        monkeypatch.setattr(bytes_product, "processor", lambda f=frozenset(features): f)
        assert not in_bfloat16(*SIZES)


def test_a_kernel_of_exo_gives_the_same_bits_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    n, m, k = SIZES
    given = [random.integers(-128, 128, shape, dtype=np.int8) for shape in ((n, k), (k, m))]
    # sums of full-range bytes are all beyond what the kernel clips to
    given[1] *= random.random((k, m)) < 0.002
    results = []
    for features in ({"avx512_bf16"}, {"avx512_vnni"}):
        monkeypatch.setattr(bytes_product, "processor", lambda f=frozenset(features): f)
        forget()
        compiled = exo_matmul(n, m, k).compile()
        assert ("bf16" in compiled.executable.as_text()) == ("avx512_bf16" in features)
        results.append(compiled.run(*given))
    want = np.clip(given[0].astype(np.int32) @ given[1].astype(np.int32), -128, 127)
    assert len(np.unique(want)) > 200
    for found in results:
        np.testing.assert_array_equal(found, want)
