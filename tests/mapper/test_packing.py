"""Packed tensors: every element has its place, zeros are between, and what is no layout is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given

from archloom.mapper.memory import Memory
from archloom.mapper.packing import Digit, Packing, Place, packed
from archloom.mapper.workload import Epilogue, Tensor, Workload, conv2d, gemm
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from tests.support.examples import examples, randoms

NAMES = ("a", "b", "c")
K, N = Affine.variable("k"), Affine.variable("n")
SUMS = Epilogue(True, 1.0, False, "int32")


def product(m: int, n: int, k: int, place: Place, **given: object) -> Workload:
    work = gemm(m, n, k, epilogue=SUMS, **given)  # type: ignore[arg-type]
    return packed(replace(work, constants=("B", "bias")), {"B": place})


def random_place(r: Random) -> list[Affine]:
    """Digits of some axes in any order, each written in one of the ways that there are."""
    found = []
    for name in NAMES:
        index, step = Affine.variable(name), 1
        for _ in range(r.randint(0, 2)):
            radix = step * r.randint(2, 5)
            found.append(r.choice([index % radix // step, index // step % (radix // step)]))
            step = radix
        found.append(index // step)
    r.shuffle(found)
    return found


@examples(60, 3000)
@given(randoms)
def test_each_element_has_its_place(r: Random) -> None:
    """The array of an index-by-index copy, the offset of each element in it, and back."""
    shape = tuple(r.randint(1, 9) for _ in NAMES)
    place = random_place(r)
    packing = Packing.of(place, NAMES)
    array = np.arange(1, math.prod(shape) + 1, dtype=np.int32).reshape(shape)
    stored = packing.pack(array)
    plain = np.zeros(packing.shape(shape), np.int32)
    index = [Affine.variable(name) for name in NAMES]
    for at in np.ndindex(*shape):
        values = dict(zip(NAMES, at, strict=True))
        where = tuple(e.evaluate(values) for e in place)
        plain[where] = array[at]
        assert packing.offset(index, shape).evaluate(values) == np.ravel_multi_index(where, plain.shape)
    np.testing.assert_array_equal(stored, plain)
    assert stored.flags.c_contiguous and np.array_equal(packing.unpack(stored, shape), array)


@examples(40, 1000)
@given(randoms)
def test_a_tensor_has_the_bytes_of_what_is_stored(r: Random) -> None:
    m, n, k = (r.randint(1, 40) for _ in range(3))
    wide, deep = r.randint(1, 9), r.randint(1, 5)
    batch = r.choice([1, 2])
    work = product(m, n, k, (N // wide, K // deep, N % wide, K % deep), batch=batch, shared_b=batch == 1)
    b = work.inputs[1]
    blocks = -(-n // wide) * -(-k // deep)
    assert b.stored_bytes == batch * blocks * wide * deep >= b.size_bytes == batch * n * k
    memory = {t.name: t for t in Memory.of(work).tensors}
    assert memory["B"].shape == b.stored_shape and memory["bias"].address >= memory["B"].address + b.stored_bytes
    assert b.byte_at(n=wide, k=deep) == b.byte_at(n=wide) + b.byte_at(k=deep)
    if batch > 1:
        assert int(b.byte_at(b=1)) == b.stored_bytes // batch


def test_row_by_row_is_a_packing_too() -> None:
    tensor = Tensor("B", (5, 7), "float32", (K, N))
    assert tensor.byte_at(k=2, n=3) == Affine(4 * (2 * 7 + 3)) and tensor.stored_shape == (5, 7)
    assert replace(tensor, packing=Packing.none(2)).byte_at(k=K, n=N) == tensor.byte_at(k=K, n=N)


def test_addresses_are_affine_where_blocks_follow_each_other() -> None:
    """Tiles of k behind one another are one run of rows, whatever the tile."""
    b = product(1, 40, 50, (N // 16, K // 12, K % 12 // 4, N % 16, K % 4)).inputs[1]
    i = Affine.variable("i")
    assert b.byte_at(k=i * 4, n=32) == i * 64 + 2 * (60 * 16) and b.stored_shape == (3, 5, 3, 16, 4)


def test_weights_without_numbers_take_no_memory() -> None:
    blank = np.broadcast_to(np.zeros((), np.int8), (4096, 4096))
    stored = Packing.of((N // 16, K // 4, N % 16, K % 4), "kn").pack(blank)
    assert stored.shape == (256, 1024, 16, 4) and not any(stored.strides)


def test_only_constants_are_packed() -> None:
    work = gemm(3, 4, 5, epilogue=SUMS)
    assert packed(work, {"B": (N // 2, K, N % 2)}) == work
    assert packed(replace(work, constants=("B",)), {"B": (N // 2, K, N % 2)}).inputs[1].stored_shape == (2, 5, 2)
    assert packed(replace(work, constants=("bias",)), {"bias": (N // 3, N % 3)}).inputs[2].stored_bytes == 24


def test_weights_of_groups_lie_apart() -> None:
    """An axis without an expression leads: so do the groups of a convolution, each in panels of channels."""
    kh, kw, c, o = map(Affine.variable, ("kh", "kw", "c", "o"))
    work = replace(conv2d(1, 9, 9, 3, 10, 3, 2, groups=2, epilogue=replace(SUMS, bias=False)), constants=("W",))
    w = packed(work, {"W": (o // 4, kh, kw, c, o % 4)}).inputs[1]
    assert (w.shape, w.stored_shape) == ((2, 3, 2, 3, 10), (2, 3, 3, 2, 3, 4))
    array = np.arange(w.size_bytes, dtype=np.int16).reshape(w.shape)
    stored = w.stored(array)
    assert stored[1, 2, 2, 1, 0, 1] == array[1, 2, 1, 0, 9] and not stored[1, 2, 2, 1, 0, 2:].any()
    assert int(w.byte_at(g=1, kh=2, kw=1, c=0, o=9)) == stored.reshape(-1).tolist().index(array[1, 2, 1, 0, 9])
    assert np.array_equal(w.logical(stored), array)


@pytest.mark.parametrize(("place", "fault"), [
    ((N // 4, N % 8, K), "expected digits that are all of axis 1, such as i // 4 and i % 4, found i % 8, i // 4"),
    ((N // 4, K), "all of axis 1"), ((N % 4, K), "all of axis 1"), ((N, N, K), "all of axis 1"),
    ((N + K, K), r"expected a digit of k, n, such as n, n // 4 or n % 64 // 4, found k \+ n"),
    ((2 * N, K), "found 2\\*n"), ((N // 5, N % 10 // 4, N % 4, K), "expected a digit"),
    ((Affine.variable("m"), N, K), "found m"),
])
def test_what_is_no_layout_is_refused(place: Place, fault: str) -> None:
    with pytest.raises(MappingError, match=f"^gemm: the place of 'B': .*{fault}"):
        product(2, 8, 3, place)


def test_a_place_of_no_tensor_is_refused() -> None:
    with pytest.raises(MappingError, match="a place for 'W': it has A, B, bias"):
        packed(gemm(1, 1, 1, epilogue=SUMS), {"W": (K, N)})
    with pytest.raises(MappingError, match="all of axis 0"):
        Packing((Digit(0, 0, 0),))
