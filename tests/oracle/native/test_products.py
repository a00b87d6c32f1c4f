"""Products of signed bytes by machine code: equal to NumPy's, bit for bit, by every way that the processor has."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle import native
from archloom.oracle.kernel.compiled import load_kernel
from archloom.oracle.native import library, products
from archloom.oracle.native.ways import WAYS
from archloom.oracle.taidl.operators.integer_dot import integer_dot
from archloom.oracle.xla.oracle import forget
from examples.gemmini_kernels import exo_matmul
from tests.support.examples import examples
from tests.support.oracle.stored_programs import in_another_process

HERE = [feature for feature in WAYS if feature in native.features()]

pytestmark = pytest.mark.skipif(not HERE, reason="JAX runs elsewhere than on an x86 processor with AVX2")

SIZES = st.sampled_from([1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 16, 17, 31, 33, 47, 63, 64, 65, 70, 127, 129, 150])
"""Around those of groups, vectors, blocks and panels."""


def in_numpy(a, b):
    """Sums of 64 bits, of which the lowest 32 count."""
    return np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(np.int32)


def bytes_of(random, shape, extreme):
    """Any bytes, or only the least and the largest."""
    found = random.integers(-128, 128, shape, np.int8)
    return np.where(found < 0, np.int8(-128), np.int8(127)) if extreme else found


@st.composite
def operands(draw):
    m, k, n = (draw(SIZES) for _ in range(3))
    lead = draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
    random, extreme = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), draw(st.booleans())
    return bytes_of(random, (*lead, m, k), extreme), bytes_of(random, (*lead, k, n), extreme)


@pytest.fixture(params=["alone", "together"])
def cores(request, monkeypatch):
    """One core for products as small as these, or all."""
    if request.param == "alone":
        return
    for kind, name in (("PACKING", library.PACKING), ("PRODUCTS", library.PRODUCTS)):
        monkeypatch.setattr(library, kind, f"{name}together_")
        for feature in WAYS:
            monkeypatch.setitem(library.HANDLERS, f"{name}together_{feature}",
                                partial(library.HANDLERS[f"{name}{feature}"], shared=0))


@pytest.mark.parametrize("feature", HERE)
@examples(6, 400)
@given(given_operands=operands())
def test_products_equal_numpy(given_operands, feature, cores):
    made = jax.jit(lambda a, b: products.product(a, b, feature))(*given_operands)
    np.testing.assert_array_equal(np.asarray(made), in_numpy(*given_operands), strict=True)


@pytest.mark.parametrize("feature", HERE)
def test_sums_beyond_32_bits_wrap(feature):
    depth = 140_001  # of products of 2^14 and one group in part
    a, b = (np.full(shape, -128, np.int8) for shape in ((1, depth), (depth, 2)))
    made = jax.jit(lambda a, b: products.product(a, b, feature))(a, b)
    assert np.asarray(made).tolist() == [[depth * 2**14 - 2**32] * 2] and depth * 2**14 >= 2**31


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_nothing_to_add(shape):
    m, k, n = shape
    made = products.product(jnp.zeros((m, k), jnp.int8), jnp.zeros((k, n), jnp.int8))
    np.testing.assert_array_equal(np.asarray(made), np.zeros((m, n), np.int32), strict=True)


@st.composite
def dots(draw):
    """Operands of a ``dot_general`` with axes in any order, their numbers, and the same for NumPy's ``einsum``."""
    groups = ("ab", "cd", "ef", "gh")  # of both, summed, the left one's, the right one's
    batch, summed, *free = (tuple(draw(st.integers(1, 5)) for _ in names[:draw(st.integers(g == 1, 2))])
                            for g, names in enumerate(groups))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sides, dims, terms = [], [], []
    for names, own in zip(groups[2:], free, strict=True):
        sizes, letters = (*batch, *summed, *own), "ab"[:len(batch)] + "cd"[:len(summed)] + names[:len(own)]
        order = draw(st.permutations(range(len(sizes))))
        sides.append(bytes_of(random, [sizes[i] for i in order], False))
        dims.append([order.index(i) for i in range(len(batch) + len(summed))])
        terms.append("".join(letters[i] for i in order))
    cut = len(batch)
    result = "ab"[:cut] + "".join(c for term, names in zip(terms, groups[2:], strict=True) for c in term if c in names)
    numbers = tuple(tuple(d[cut:]) for d in dims), tuple(tuple(d[:cut]) for d in dims)
    return *sides, numbers, f"{terms[0]},{terms[1]}->{result}"


@examples(8, 400)
@given(dot=dots())
def test_a_dot_general_of_any_axes_is_a_product(dot):
    left, right, dims, equation = dot
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "SMALLEST", 0)
        patch.setattr(library, "tiles", lambda: False)
        traced = jax.jit(lambda a, b: integer_dot(a, b, dims, "int32")).lower(left, right)
    assert library.PRODUCTS in traced.as_text()
    expected = np.einsum(equation, *(x.astype(np.int64) for x in (left, right))).astype(np.int32)
    np.testing.assert_array_equal(np.asarray(traced.compile()(left, right)), expected, strict=True)


def test_where_machine_code_multiplies(monkeypatch):
    tiles = False
    monkeypatch.setattr(library, "tiles", lambda: tiles)
    assert native.multiplies(16, 16, 32) and native.multiplies(1, 256, 256)
    assert not native.multiplies(16, 16, 31)
    with native.portable():
        assert not native.multiplies(16, 16, 32)
    tiles = True
    assert native.multiplies(1, 256, 256) and native.multiplies(256, 1, 256)
    assert not native.multiplies(2, 256, 256)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (1, 0)])
def test_products_in_a_batch_stay_one_call(axes):
    random = np.random.default_rng(1)
    shapes = [(2, 7, 9), (2, 9, 40)]
    for shape, axis in zip(shapes, axes, strict=True):
        if axis is not None:
            shapes[shapes.index(shape)] = (*shape[:axis], 4, *shape[axis:])
    a, b = (bytes_of(random, shape, False) for shape in shapes)
    batched = jax.jit(jax.vmap(products.product, in_axes=axes))
    assert batched.lower(a, b).as_text().count(f"@{library.PRODUCTS}") == 1
    whole = [x if axis is None else np.moveaxis(x, axis, 0) for x, axis in zip((a, b), axes, strict=True)]
    np.testing.assert_array_equal(np.asarray(batched(a, b)), in_numpy(*whole))


@pytest.fixture
def without_tiles(monkeypatch):
    """A machine on which machine code multiplies bytes; programs that were made before are forgotten, and these are."""
    monkeypatch.setattr(library, "tiles", lambda: False)
    forget()
    yield
    forget()


def test_kernels_for_other_machines_have_no_machine_code(without_tiles, tmp_path):
    random = np.random.default_rng(5)
    n, m, k = 128, 64, 96
    kernel = exo_matmul(n, m, k)
    given_arrays = [random.integers(-128, 128, shape, np.int8) for shape in ((n, k), (k, m))]
    here = kernel(*given_arrays)
    assert library.PRODUCTS in kernel.program.outermost.lower(*given_arrays).as_text()
    data = kernel.compile().serialize()
    assert library.PRODUCTS.encode() not in data
    np.testing.assert_array_equal(np.asarray(load_kernel(data)(*given_arrays)), np.asarray(here))
    np.testing.assert_array_equal(in_another_process(kernel, given_arrays, tmp_path), np.asarray(here))
