"""QKV: attention of any size against NumPy, softmax row by row, and the order of its sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.errors import StreamError
from archloom.oracle.kernel import Kernel, isa
from archloom.oracle.stream import Loop, Node
from examples.qkv_kernels import attention, attention_reference, bits
from tests.support.examples import every, examples


def floats(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def same(kernel: Kernel, *given: np.ndarray) -> np.ndarray:
    """What the oracle gives, which is what the interpreter gives, bit for bit."""
    found = kernel.run(*given)
    np.testing.assert_array_equal(kernel.interpret(*given, poison=1).view(np.uint32), found.view(np.uint32))
    return found


SIZES = [
    ((1, 1, 1, 2), {}), ((4, 4, 4, 4), {}), ((8, 12, 8, 4), {"heads": 2}), ((3, 5, 3, 2), {"heads": 2, "values": 3}),
    ((32, 48, 16, 16), {"values": 32}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "more"), every(3, SIZES), ids=str)
def test_attention_equals_numpy_and_the_interpreter(sizes: tuple[int, int, int, int], more: dict[str, int]) -> None:
    kernel = attention(*sizes, **more)
    arrays = [floats(i, *t.shape) for i, t in enumerate(kernel.arguments)]
    np.testing.assert_allclose(same(kernel, *arrays), attention_reference(*arrays), rtol=1e-5, atol=2e-6)


def _depth(nodes: tuple[Node, ...]) -> int:
    return max((1 + _depth(node.body) for node in nodes if isinstance(node, Loop)), default=0)


@pytest.mark.slow
def test_loops_stay_loops() -> None:
    small, large = attention(32, 64, 32, heads=2), attention(512, 512, 64, heads=8)
    assert large.stream.count() > 100 * small.stream.count()
    assert _depth(small.stream.body) == _depth(large.stream.body) == 4  # heads, queries, keys, depth
    middle = attention(64, 160, 64, heads=2)
    arrays = [floats(i, *t.shape) for i, t in enumerate(middle.arguments)]
    np.testing.assert_allclose(middle.run(*arrays), attention_reference(*arrays), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@examples(2, 40)
@given(st.integers(2, 5), st.integers(1, 11), st.sampled_from([1.0, 0.25, 30.0]), st.integers(0, 99))
def test_softmax_scales_masks_and_adds_up_to_one(dim: int, keys: int, scale: float, seed: int) -> None:
    """The identity matrix as a second argument; shares of keys that are not there are 0."""
    q, tiles = isa("qkv", dim=dim), -(-keys // dim)
    x_bytes, e_bytes = 4 * dim * keys, 4 * dim * dim

    @q.kernel(arg=[{"addr": 0, "shape": (dim, keys), "dtype": "float32", "name": "X"},
                   {"addr": x_bytes, "shape": (dim, dim), "dtype": "float32", "name": "E"}],
              res={"addr": x_bytes + e_bytes, "shape": (tiles, dim, dim), "dtype": "float32", "name": "Y"})
    def shares() -> None:
        for t in range(tiles):
            q.api.load_sums(dram=4 * dim * t, row=t * dim, rows=dim, cols=min(dim, keys - t * dim), stride=4 * keys)
        q.api.softmax(row=0, to=0, keys=keys, scale=bits(scale))
        q.api.load(dram=x_bytes, row=512, rows=dim, cols=dim, stride=4 * dim)
        with q.loop(tiles) as t:
            q.api.gemm(a=t * dim, b=512, c=512, transpose=0, accumulate=0)
            q.api.store(dram=x_bytes + e_bytes * (t + 1), row=512, rows=dim, cols=dim, stride=4 * dim, relu=0)

    x = floats(seed, dim, keys) * 10
    y = same(shares, x, np.eye(dim, dtype=np.float32)).transpose(1, 0, 2).reshape(dim, -1)
    scaled = x.astype(np.float64) * scale
    powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y[:, :keys], powers / powers.sum(axis=1, keepdims=True), rtol=2e-5, atol=1e-30)
    assert not y[:, keys:].any()


def test_sums_keep_the_order_of_k() -> None:
    """1e8 + 1 - 1e8 is 0 in this order of f32, and 1 in the other."""
    q = isa("qkv", dim=2)

    @q.kernel(arg=[{"addr": 0, "shape": (2, 4), "dtype": "float32"}, {"addr": 32, "shape": (4, 2), "dtype": "float32"}],
              res={"addr": 64, "shape": (2, 2), "dtype": "float32"})
    def product() -> None:
        for k in range(2):
            q.api.load(dram=8 * k, row=0, rows=2, cols=2, stride=16)
            q.api.load(dram=32 + 16 * k, row=2, rows=2, cols=2, stride=8)
            q.api.gemm(a=0, b=2, c=0, transpose=0, accumulate=k)
        q.api.store(dram=64, row=0, rows=2, cols=2, stride=8, relu=0)

    a = np.array([[1e8, 1, -1e8, 0], [1e8, 0, -1e8, 1]], np.float32)
    found = same(product, a, np.ones((4, 2), np.float32))
    np.testing.assert_array_equal(found, [[0, 0], [0, 0]])


def test_wrong_attributes_are_named() -> None:
    q = isa("qkv", dim=4)

    @q.kernel(size=4096)
    def wide() -> None:
        with q.loop(3) as i:
            q.api.load(dram=0, row=i * 4, rows=4, cols=i + 3, stride=32)

    with pytest.raises(StreamError, match=r"loop i / instr 0 load: assert\(.*cols <= dim.*\) is violated.*i = 2"):
        wide.compile()


def test_sums_onto_zeros_are_no_negative_zeros() -> None:
    """0 + -0 is 0: sums that nobody wrote are added, too."""
    q = isa("qkv", dim=2)

    tile = {"shape": (2, 2), "dtype": "float32"}

    @q.kernel(arg={"addr": 0, **tile}, res={"addr": 16, **tile})
    def onto() -> None:
        q.api.load(dram=0, row=0, rows=2, cols=2, stride=8)
        q.api.gemm(a=0, b=4, c=0, transpose=0, accumulate=1)
        q.api.store(dram=16, row=0, rows=2, cols=2, stride=8, relu=0)

    x = -np.ones((2, 2), np.float32)
    found = onto.run(x)
    assert onto.report.raised and not np.signbit(found).any() and not np.signbit(onto.interpret(x)).any()
