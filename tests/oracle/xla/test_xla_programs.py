"""Fused multiply-adds of fused multiply-adds are one program of machine code."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle import native
from archloom.oracle.affine import Affine
from archloom.oracle.native import library
from archloom.oracle.native.program import PREFIX, named
from archloom.oracle.taidl.operators.numbers import fma
from archloom.oracle.xla.lowering.folds import with_last_steps
from archloom.oracle.xla.lowering.lower import DEEP, Lowering
from archloom.oracle.xla.lowering.programs import MOST
from archloom.oracle.xla.notation.build import map_of
from archloom.oracle.xla.notation.expr import Carry, Const, Expr, Fold, Leaf, Map, Switch
from archloom.oracle.xla.notation.sums import fold_of
from tests.support.examples import examples

pytestmark = pytest.mark.skipif(not native.possible(), reason="JAX runs elsewhere than on an x86 processor with FMA")

ROWS, COLUMNS = 70, 64
"""Enough numbers for machine code; rows alone are too few."""

RANGES = {"i": (0, ROWS - 1), "j": (0, COLUMNS - 1)}
KEEP = (("subnormals", "keep"),)
WHOLE = Leaf("x", Affine.variable("i") * COLUMNS + Affine.variable("j"), "f32")
BY_ROW = Leaf("y", Affine.variable("i"), "f32")


def fused(*operands: Expr, how: tuple[tuple[str, object], ...] = KEEP) -> Expr:
    return Map("fma", operands, how, "f32")


@st.composite
def expressions(draw: st.DrawFn) -> Expr:
    """Operations that share their operands, some of which lie deep, are of rows alone, flush, or are no sums."""
    found: list[Expr] = [WHOLE, BY_ROW, Const(1.0, "f32"), Const(-0.0, "f32"), Const(0.0, "f32"), Const(0.7, "f32")]
    for _ in range(draw(st.sampled_from([1, 3, 12, DEEP + 10, MOST + 10]))):
        a, b, c = (draw(st.sampled_from([*found, found[-1], found[-1]])) for _ in range(3))
        kind = draw(st.sampled_from(["fused", "fused", "fused", "flush", "negate"]))
        how = (("subnormals", "flush"),) if kind == "flush" else KEEP
        found.append(map_of("negate", (a,), (), "f32") if kind == "negate" else fused(a, b, c, how=how))
    return fused(found[-1], WHOLE, found[-2])


def in_numpy(e: Expr, leaves: dict[str, np.ndarray], made: dict[int, np.ndarray]) -> np.ndarray:
    """Each operation by its NumPy twin, once."""
    if id(e) not in made:
        if isinstance(e, Leaf):
            made[id(e)] = leaves[e.name]
        elif isinstance(e, Const):
            made[id(e)] = np.full((ROWS, COLUMNS), e.value, np.float32)
        else:
            assert isinstance(e, Map)
            operands = [in_numpy(o, leaves, made) for o in e.operands]
            flush = e.opcode == "fma" and dict(e.attributes)["subnormals"] == "flush"
            made[id(e)] = -operands[0] if e.opcode == "negate" else fma(*operands, flush=flush)
    return made[id(e)]


def lowered(e: Expr, given_arrays: dict[str, np.ndarray]) -> tuple[str, np.ndarray]:
    function = jax.jit(lambda x, y: Lowering({"x": x, "y": y}).tensor(e, ("i", "j"), RANGES))
    arrays = [jnp.asarray(given_arrays[name]) for name in "xy"]
    return function.lower(*arrays).as_text(), np.asarray(function(*arrays))


def arrays(seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    special = np.array([0.0, -0.0, np.inf, np.nan, 1e-45, -1e-40, 3e38], np.float32)
    x = random.standard_normal((ROWS, COLUMNS)).astype("f") * np.float32(0.6)
    x[random.random(x.shape) < 0.01] = random.choice(special)
    return {"x": x, "y": random.standard_normal(ROWS).astype("f")}


@examples(6, 200)
@given(e=expressions(), seed=st.integers(0, 2**32 - 1))
def test_programs_equal_the_interpreter(e: Expr, seed: int) -> None:
    given_arrays = arrays(seed)
    leaves = {"x": given_arrays["x"], "y": np.broadcast_to(given_arrays["y"][:, None], (ROWS, COLUMNS))}
    with np.errstate(all="ignore"):
        expected = in_numpy(e, leaves, {})
    _, made = lowered(e, given_arrays)
    same = (made.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(made) & np.isnan(expected))
    assert same.all()


@pytest.mark.parametrize(("steps", "calls"), [(1, 1), (20, 1), (MOST, 1), (MOST + 1, 2)])
def test_a_polynomial_is_one_program_up_to_a_length(steps: int, calls: int) -> None:
    e: Expr = Const(0.3, "f32")
    for number in range(steps):
        e = fused(e, WHOLE, Const(1.0 / (number + 1), "f32"))
    text, _ = lowered(e, arrays())
    assert text.count(PREFIX) == calls


def test_what_others_have_made_is_not_made_again() -> None:
    shared = fused(WHOLE, WHOLE, WHOLE)
    e = fused(map_of("negate", (shared,), (), "f32"), shared, WHOLE)

    def both(x: jax.Array) -> tuple[jax.Array, ...]:
        lowering = Lowering({"x": x})
        return tuple(lowering.tensor(part, ("i", "j"), RANGES) for part in (shared, e))

    text = jax.jit(both).lower(arrays()["x"]).as_text()
    found = [named(name.decode())[0] for name in re.findall(PREFIX.encode() + rb"[\w-]+\.", text.encode())]
    assert [len(program.steps) for program in found] == [1, 2]


@examples(8, 200)
@given(data=st.data())
def test_operations_on_a_chain_are_its_steps_where_they_go_on(data: st.DataObject) -> None:
    """Chains of several operations a step, with some of them behind the last step, and others that are none of it."""
    steps, each, behind = (data.draw(st.integers(low, high)) for low, high in ((2, 4), (1, 3), (0, 7)))
    count = steps * each + behind
    others = data.draw(st.lists(st.integers(0, count), max_size=2))
    v = Affine.variable("v")

    def at(number: Affine) -> Expr:
        return Leaf("x", Affine.variable("i") * COLUMNS + number, "f32")

    body: Expr = Carry("f32")
    for number in range(each):
        body = fused(at(v * each + number), BY_ROW, body)
    ranges = {"i": (0, ROWS - 1)}
    e: Expr = fold_of((("v", steps),), BY_ROW, body, ranges)
    for number in range(steps * each, count):
        e = fused(at(Affine(number + (number in others))), BY_ROW, e)
    given_arrays = arrays()
    expected = given_arrays["y"]
    for number in range(count):
        column = number + (number >= steps * each and number in others)
        expected = fma(given_arrays["x"][:, column], given_arrays["y"], expected, flush=False)
    lowering = Lowering({name: jnp.asarray(array) for name, array in given_arrays.items()})
    np.testing.assert_array_equal(np.asarray(lowering.tensor(e, ("i",), ranges)), expected)
    whole = next((n for n in range(steps * each, count) if n in others), count) // each
    found = with_last_steps(e, ranges)
    chain = found
    while isinstance(chain, Map):
        chain = chain.operands[2]
    assert isinstance(chain, Fold) and chain.variables[0][1] == whole
    assert (found is e) == (whole == steps)


@examples(4, 40)
@given(registers=st.integers(2, 4), seed=st.integers(0, 2**32 - 1))
def test_chains_of_several_registers_with_the_same_factors_are_one_product(registers: int, seed: int) -> None:
    """Register after register by the rows of the result: ``r[8 * v + i, l] = sum over b of f[i, b] * x[b, v, l]``."""
    depth, lanes = 40, 16
    i, l, b = map(Affine.variable, "ilb")
    cases = []
    for v in range(registers):
        factor = Leaf("f", (i - 8 * v) * depth + b, "f32")
        vector = Leaf("x", b * (registers * lanes) + l + lanes * v, "f32")
        chain = fold_of((("b", depth),), Const(0.0, "f32"), fused(factor, vector, Carry("f32")),
                        {"i": (8 * v, 8 * v + 7), "l": (0, lanes - 1)})
        cases.append((8 * v, 8 * v + 7, chain))
    e, ranges = Switch(i, tuple(cases), "f32"), {"i": (0, 8 * registers - 1), "l": (0, lanes - 1)}
    random = np.random.default_rng(seed)
    f, x = (random.standard_normal(shape).astype("f") for shape in ((8, depth), (depth, registers, lanes)))
    function = jax.jit(lambda f, x: Lowering({"f": f, "x": x}).tensor(e, ("i", "l"), ranges))
    expected = np.zeros((registers, 8, lanes), np.float32)
    for step in range(depth):
        row, column = f[None, :, step, None], x[step, :, None, :]
        expected = fma(*np.broadcast_arrays(row, column, expected), flush=False)
    np.testing.assert_array_equal(np.asarray(function(f, x)), expected.reshape(-1, lanes))
    assert function.lower(f, x).as_text().count(f"@{library.CHAINS}") == 1
