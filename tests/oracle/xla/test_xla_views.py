"""Views of arrays and lowered expressions against NumPy's indexing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.affine import Affine
from archloom.oracle.xla.lowering.lower import Lowering
from archloom.oracle.xla.lowering.views import overlapping, view
from archloom.oracle.xla.notation import traits
from archloom.oracle.xla.notation.expr import Const, Guarded, Index, Leaf, Map, Sum, Switch
from archloom.oracle.xla.notation.traits import is_chained, is_heavy
from tests.support.examples import examples


def v(name: str) -> Affine:
    return Affine.variable(name)


def expected(array: np.ndarray, forms: tuple[Affine, ...], ranges: dict) -> np.ndarray:
    """By element, over all variables of ``ranges``."""
    shape = tuple(high - low + 1 for low, high in ranges.values())
    made = np.zeros(shape, array.dtype)
    for point in np.ndindex(*shape):
        values = {n: low + p for (n, (low, _)), p in zip(ranges.items(), point, strict=True)}
        made[point] = array[tuple(f.evaluate(values) for f in forms)]
    return made


@st.composite
def indexings(draw: st.DrawFn):
    """An array and forms of up to three variables for its axes, all in bounds."""
    names = ("x", "y", "z")
    ranges = {}
    for n in names:
        low = draw(st.integers(0, 2))
        ranges[n] = (low, low + draw(st.integers(0, 3)))
    forms = []
    for _ in range(draw(st.integers(1, 2))):
        form = Affine(draw(st.integers(0, 2)))
        for n in draw(st.lists(st.sampled_from(names), max_size=3, unique=True)):
            part = v(n) * draw(st.integers(1, 12))
            kind = draw(st.integers(0, 5))
            divisor = draw(st.integers(1, 4))
            form = form + (part // divisor if kind == 0 else part % divisor if kind == 1 else part)
        forms.append(form)
    shape = tuple(f.range(ranges)[1] + 1 + draw(st.integers(0, 2)) for f in forms)
    return np.arange(np.prod(shape), dtype=np.int32).reshape(shape), tuple(forms), ranges


@st.composite
def windows(draw: st.DrawFn):
    """An array and forms of overlapping windows along some of its axes."""
    ranges, forms = {}, []
    for axis in range(draw(st.integers(1, 3))):
        stride, size, count = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
        low = draw(st.integers(0, 2))
        ranges |= {f"p{axis}": (low, low + count - 1), f"k{axis}": (0, size - 1)}
        forms.append(v(f"p{axis}") * stride + v(f"k{axis}") + draw(st.integers(0, 1)))
    ranges["c"] = (0, draw(st.integers(0, 4)))
    forms.insert(draw(st.integers(0, len(forms))), v("c"))
    shape = tuple(f.range(ranges)[1] + 1 + draw(st.integers(0, 2)) for f in forms)
    return np.arange(np.prod(shape), dtype=np.int32).reshape(shape), tuple(forms), ranges


@examples(4, 200)
@given(windows())
def test_view_of_windows_is_indexing(case):
    test_view_is_indexing.hypothesis.inner_test(case)


def test_windows_lie_as_the_weights_of_a_convolution():
    """Rows and columns of the kernel, then channels: a product needs no transpose."""
    forms = (v("i") + v("kh"), v("j") * 2 + v("kw"), v("c"))
    ranges = {"c": (0, 4), "i": (0, 5), "j": (0, 3), "kh": (0, 2), "kw": (0, 2)}
    image = np.arange(8 * 9 * 5, dtype=np.int32).reshape(8, 9, 5)
    noted: list[str] = []
    found = view(jnp.asarray(image), forms, ranges, lambda why, elements: noted.append(why))
    assert not noted
    assert found.names == ("i", "j", "kh", "kw", "c")
    assert np.array_equal(found.array, expected(image, forms, {n: ranges[n] for n in found.names}))


@examples(6, 300)
@given(indexings())
def test_view_is_indexing(case):
    array, forms, ranges = case
    found = jax.jit(lambda x: view(x, forms, ranges, lambda why, elements: None).expand(tuple(ranges)))(array)
    want = expected(array, forms, ranges)
    assert np.array_equal(np.broadcast_to(found, want.shape), want)


@pytest.mark.parametrize(("form", "why"), [
    (v("i") * -1 + 3, "an index runs backwards"),
    (v("i") + 2, "an index may lie outside of the array"),
])
def test_a_gather_is_told(form, why):
    noted = []
    view(jnp.arange(4), (form,), {"i": (0, 3)}, lambda *told: noted.append(told))
    assert noted == [(why, 4)]


def test_overlapping_names_the_shorter_variable():
    ranges = {"oh": (0, 9), "kh": (0, 2)}
    assert overlapping(v("oh") * 2 + v("kh"), ranges) == "kh"
    assert overlapping(v("oh") * 3 + v("kh"), ranges) is None


def lowered(e, axes, ranges, **arguments):
    lowering = Lowering({k: jnp.asarray(a) for k, a in arguments.items()})
    return np.asarray(lowering.tensor(e, axes, ranges)), lowering.record.operations


@given(depth=st.integers(1, 1500), left=st.booleans())
@examples(2, 40)
def test_operations_may_lie_deeper_than_calls(depth: int, left: bool) -> None:
    """Each adds one number more; nodes know their hashes from when they are made."""
    e, y = Leaf("x", v("i"), "i32"), Leaf("y", v("i"), "i32")
    for _ in range(depth):
        e = Map("add", (e, y) if left else (y, e), (), "i32")
        hash(e)
    x = np.arange(4, dtype=np.int32)
    found, _ = lowered(e, ("i",), {"i": (0, 3)}, x=x, y=x + 1)
    np.testing.assert_array_equal(found, x + depth * (x + 1))
    assert not is_heavy(e) and not is_chained(e) and traits.depth(e) == depth + 1


def widened(leaf):
    return Map("convert", (leaf,), (), "i32")


def test_sum_of_products_is_one_dot():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, s, dtype=np.int8) for s in ((6, 10), (10, 7)))
    body = Map("multiply", (widened(Leaf("a", v("m") * 10 + v("k"), "i8")),
                            widened(Leaf("b", v("k") * 7 + v("n"), "i8"))), (), "i32")
    found, operations = lowered(Sum((("k", 10),), body, "i32"), ("m", "n"), {"m": (0, 5), "n": (0, 6)}, a=a, b=b)
    assert np.array_equal(found, a.astype(np.int32) @ b.astype(np.int32))
    assert operations == ["dot 6x7x10 int8 x int8 -> i32"]


def test_batched_dot_and_wraparound():
    a = np.full((2, 3, 4), -(2**31), np.int32)
    b = np.arange(2 * 4 * 5, dtype=np.int32).reshape(2, 4, 5)
    body = Map("multiply", (Leaf("a", v("g") * 12 + v("m") * 4 + v("k"), "i32"),
                            Leaf("b", v("g") * 20 + v("k") * 5 + v("n"), "i32")), (), "i32")
    ranges = {"g": (0, 1), "m": (0, 2), "n": (0, 4)}
    found, _ = lowered(Sum((("k", 4),), body, "i32"), ("g", "m", "n"), ranges, a=a, b=b)
    assert np.array_equal(found, np.einsum("gmk,gkn->gmn", a, b))


def test_guard_pads_a_convolutions_input():
    rng = np.random.default_rng(1)
    x, w = rng.integers(-128, 128, (5, 7), dtype=np.int8), rng.integers(-128, 128, (3, 3), dtype=np.int8)
    guard = Guarded(Leaf("x", (v("h") + v("i")) * 7 + v("w") + v("j") - 8, "i8"),
                    ((v("h") + v("i"), 1, 5), (v("j") + v("w"), 1, 7)), 0, "i8")
    body = Map("multiply", (widened(guard), widened(Leaf("w", v("i") * 3 + v("j"), "i8"))), (), "i32")
    total, ranges = Sum((("i", 3), ("j", 3)), body, "i32"), {"h": (0, 4), "w": (0, 6)}
    found, operations = lowered(total, ("h", "w"), ranges, x=x, w=w)
    padded = np.pad(x.astype(np.int32), 1)
    want = sum(padded[i:i + 5, j:j + 7] * int(w[i, j]) for i in range(3) for j in range(3))
    assert np.array_equal(found, want)
    assert len(operations) == 1


def test_guard_along_a_diagonal_is_a_mask():
    guard = Guarded(Leaf("x", v("i") * 4 + v("j"), "i32"), ((v("i") + v("j"), 2, 4),), 7, "i32")
    x = np.arange(16, dtype=np.int32).reshape(4, 4)
    found, _ = lowered(guard, ("i", "j"), {"i": (0, 3), "j": (0, 3)}, x=x)
    i, j = np.indices((4, 4))
    assert np.array_equal(found, np.where((i + j >= 2) & (i + j <= 4), x, 7))


def test_switch_extends_its_outer_cases():
    e = Switch(v("i"), ((2, 3, Const(1, "i32")), (4, 5, Index(v("i"), "i32"))), "i32")
    found, _ = lowered(e, ("i",), {"i": (0, 7)})
    assert found.tolist() == [1, 1, 1, 1, 4, 5, 6, 7]


def test_constants_wrap_into_their_type():
    assert lowered(Const(0xFFFFFFFF, "i32"), (), {})[0] == -1
    assert lowered(Const(-1, "u8"), (), {})[0] == 255
