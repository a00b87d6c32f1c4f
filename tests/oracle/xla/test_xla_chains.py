"""Maxima, minima and chains: along a variable with cases, of which each is computed by itself, and with what they start
from in place of what they carry."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle import native
from archloom.oracle.affine import Affine
from archloom.oracle.native.program import PREFIX
from archloom.oracle.taidl.operators.numbers import fma
from archloom.oracle.xla.lowering.extremes import PIECES, pieces
from archloom.oracle.xla.lowering.lower import Lowering
from archloom.oracle.xla.notation.build import guard_of, map_of, switch_of
from archloom.oracle.xla.notation.expr import Carry, Const, Expr, Extreme, Leaf, Map
from archloom.oracle.xla.notation.sums import extreme_of, fold_of, plug
from archloom.oracle.xla.notation.traits import walk
from tests.support.examples import examples, randoms

ROWS, ALONG = 60, 90
I, V = Affine.variable("i"), Affine.variable("v")
RANGES = {"i": (0, ROWS - 1)}
WITHIN = {**RANGES, "v": (0, ALONG - 1)}
KEEP = (("subnormals", "keep"),)


def plain(index: Affine, dtype: str = "i32") -> Expr:
    return Leaf("x", index, dtype)


@examples(12, 300)
@given(data=st.data(), kind=st.sampled_from(["max", "min"]), seed=st.integers(0, 2**32 - 1))
def test_extremes_of_cases_are_those_of_their_extremes(data: st.DataObject, kind: str, seed: int) -> None:
    """One or more cases, some of single elements, between operations; a guard at either end."""
    bounds = data.draw(st.lists(st.integers(1, ALONG - 1), max_size=PIECES, unique=True).map(sorted))
    cases, expected = [], []
    numbers = np.random.default_rng(seed).integers(-1000, 1000, (ROWS, ALONG), dtype=np.int32)
    for low, end in pairwise((0, *bounds, ALONG)):
        first = data.draw(st.sampled_from([0, low]))
        fixed = data.draw(st.booleans())
        cases.append((low, end - 1, plain(I * ALONG + (first if fixed else V))))
        expected.append(np.repeat(numbers[:, first:first + 1], end - low, 1) if fixed else numbers[:, low:end])
    body, values = switch_of(V, tuple(cases), WITHIN), np.concatenate(expected, 1)
    low = data.draw(st.integers(0, 5))
    high = data.draw(st.integers(low + 1, ALONG - 1))
    if data.draw(st.booleans()):
        body = guard_of(body, ((V, low, high),), 7, WITHIN)
        values = np.where((np.arange(ALONG) >= low) & (np.arange(ALONG) <= high), values, np.int32(7))
    body = map_of("xor", (body, plain(I * ALONG)), (), "i32")
    values = values ^ numbers[:, :1]
    e = Extreme(kind, (("v", ALONG),), body, "i32")
    made = jax.jit(lambda x: Lowering({"x": x}).tensor(e, ("i",), RANGES))(numbers)
    np.testing.assert_array_equal(np.asarray(made), getattr(values, kind)(1))
    assert sum(piece.variables[0][1] for piece in pieces(e, RANGES)) == ALONG


def test_what_operations_share_is_looked_at_once() -> None:
    """An expression of 60 nodes, which is one of 2^60 where each stands by itself."""
    body = plain(I * ALONG + V)
    for _ in range(59):
        body = Map("multiply", (body, body), (), "i32")
    assert len(list(walk(body))) == 60
    found = extreme_of("max", (("v", ALONG),), body, WITHIN)
    assert isinstance(found, Extreme) and found.variables[0][1] == ALONG


@pytest.mark.skipif(not native.possible(), reason="JAX runs elsewhere than on an x86 processor with FMA")
def test_a_first_number_is_not_put_before_a_tensor() -> None:
    """As instructions reduce a register: a number of another one, then the elements. Their comparison and the chain
    take them from one program each."""
    x = np.random.default_rng(0).standard_normal((ROWS, ALONG)).astype("f")
    first = np.array([0.7], np.float32)
    doubled = map_of("fma", (plain(I * ALONG + V - 1, "f32"), Const(2.0, "f32"), Const(1.0, "f32")), KEEP, "f32")
    within = {**RANGES, "v": (0, ALONG)}
    body = switch_of(V, ((0, 0, Leaf("first", Affine(0), "f32")), (1, ALONG, doubled)), within)
    chain = fold_of((("v", ALONG + 1),), Const(0.0, "f32"),
                    map_of("fma", (body, Const(1.0, "f32"), Carry("f32")), KEEP, "f32"), RANGES)
    bits = map_of("bitcast_convert", (body,), (), "i32")
    largest = Extreme("max", (("v", ALONG + 1),), bits, "i32")

    def both(x: jax.Array, first: jax.Array) -> tuple[jax.Array, ...]:
        lowering = Lowering({"x": x, "first": first})
        return tuple(lowering.tensor(e, ("i",), RANGES) for e in (chain, largest))

    text = jax.jit(both).lower(x, first).as_text()
    assert f"x{ALONG + 1}x" not in text and text.count(PREFIX) == 2
    total, most = map(np.asarray, jax.jit(both)(x, first))
    values = np.concatenate([np.broadcast_to(first, (ROWS, 1)), x * np.float32(2) + np.float32(1)], 1)
    values[:, 1:] = fma(x, *np.broadcast_arrays(np.full_like(x, 2), np.full_like(x, 1)), flush=False)
    expected = np.zeros(ROWS, np.float32)
    for column in values.T:
        expected = fma(column, np.ones_like(column), expected, flush=False)
    np.testing.assert_array_equal(total, expected)
    np.testing.assert_array_equal(most, values.view(np.int32).max(1))


def plugged(body: Expr, start: Expr) -> Expr:
    """What :func:`plug` makes, part by part as often as parts stand there."""
    if isinstance(body, Carry):
        return start
    if not isinstance(body, Map):
        return body
    return map_of(body.opcode, tuple(plugged(o, start) for o in body.operands), body.attributes, body.dtype)


@examples(60, 2000)
@given(randoms)
def test_bodies_with_shared_parts(r: Random) -> None:
    parts: list[Expr] = [Carry("f32"), Const(r.randint(0, 2), "f32")]
    for _ in range(r.randint(1, 9)):
        opcode = r.choice(("add", "multiply", "maximum"))
        parts.append(map_of(opcode, (r.choice(parts), r.choice(parts)), (), "f32"))
    start = map_of("add", (Const(r.randint(0, 2), "f32"), Const(3, "f32")), (), "f32")
    assert plug(parts[-1], start, {}) == plugged(parts[-1], start)


def test_a_carry_that_stands_in_many_places_takes_no_longer() -> None:
    """2 to the power of 200 paths lead to it; the result shares its parts as the body does."""
    body: Expr = Carry("f32")
    for _ in range(200):
        body = map_of("maximum", (body, body), (), "f32")
    found = plug(body, Const(1, "f32"), {})
    for _ in range(200):
        assert isinstance(found, Map) and found.operands[0] is found.operands[1]
        found = found.operands[0]
    assert found == Const(1, "f32")
