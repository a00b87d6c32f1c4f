"""Programs of machine code, operation by operation and at random, against TAIDL's interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle import native
from archloom.oracle.native.fused import fused, placed
from archloom.oracle.native.operations import CODES, fma
from archloom.oracle.native.program import Program, name_of, named, names_in
from archloom.oracle.native.program_code import LANES
from archloom.oracle.resolved import TensorType
from archloom.oracle.taidl.operators import OPCODES
from archloom.oracle.xla import executables
from tests.support.examples import examples, slow

here = pytest.mark.skipif(not native.possible(), reason="JAX runs elsewhere than on an x86 processor with FMA")

FLOATS = (0, 1, 0x7FFFFF, 0x800000, 0xFFFFFF, 0x1F000000, 0x33800000, 0x3EFFFFFF, 0x3F000000, 0x3F800000, 0x3FC00000,
          0x4B7FFFFF, 0x4EFFFFFF, 0x4F000000, 0x4F7FFFFF, 0x4F800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000)
"""Zero, subnormal and tiny numbers, halves, numbers next to 2^24, 2^31 and 2^32, the greatest, infinity and NaN."""
WHOLES = (0, 1, 2, 23, 31, 32, 33, 127, 255, 1 << 24, (1 << 24) + 1, (1 << 25) - 1, (1 << 31) - 1)
"""Counts of shifts, among them those of the width and more, and numbers that f32 does not hold."""
PATTERNS = np.array([p ^ flip for p in (*FLOATS, *WHOLES) for flip in (0, 1 << 31, 0xFFFFFFFF)], np.uint32)

NUMPY = {"f32": np.float32, "i32": np.int32, "u32": np.uint32}
ATTRIBUTES = {"compare": "direction", "fma": "subnormals"}
OF_F32_ALONE = "divide f64 f64 f64", "sqrt f64 f64"
"""What is meant for f64 that f32 holds."""


def parts(name: str) -> tuple[str, dict[str, object], list[str], str]:
    """The opcode of an operation, its attributes, the types of its operands and that of its result."""
    opcode, *words = name.split()
    attributes: dict[str, object] = {ATTRIBUTES[opcode]: words.pop(0)} if opcode in ATTRIBUTES else {}
    return opcode, attributes, words[:-1], words[-1]


def meant(program: Program, operands: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The result by the interpreter's operators, and where it depends on which NaN a NaN is."""
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    values = [np.broadcast_to(x, shape) for x in operands]
    values += [np.full(shape, float.fromhex(text) if t == "f32" else int(text), NUMPY.get(t, bool))
               for t, text in program.constants]
    open_ = [np.zeros(shape, bool) for _ in values]
    for name, numbers in program.steps:
        opcode, attributes, types, dtype = parts(name)
        given_values = [values[n] for n in numbers]
        unclear = np.logical_or.reduce([open_[n] for n in numbers])
        if opcode == "bitcast_convert" and types[0] == "f32" != dtype:
            unclear = unclear | np.isnan(given_values[0])
        with np.errstate(all="ignore"):
            made = OPCODES[opcode].kernel(TensorType(shape, dtype), given_values, attributes, types)
        values.append(np.asarray(made))
        open_.append(unclear)
    return values[-1], open_[-1]


def agrees(program: Program, operands: Sequence[np.ndarray]) -> bool:
    expected, unclear = meant(program, operands)
    made = np.asarray(jax.jit(lambda *x: fused(program, *x))(*operands))
    assert made.dtype == expected.dtype and made.shape == expected.shape
    same = made.view(np.uint32) == expected.view(np.uint32)
    if program.result == "f32":
        same |= np.isnan(made) & np.isnan(expected)
    return bool((same | unclear).all())


def of_one(name: str) -> Program:
    """An operation on bits; f64 are made of f32, truth values by comparisons, and both give f32."""
    _, _, types, dtype = parts(name)
    steps: list[tuple[str, tuple[int, ...]]] = []
    numbers = []
    for number, t in enumerate(types):
        if t in ("f64", "i1"):
            steps.append((f"convert f32 {t}", (number,)) if t == "f64" else ("compare lt i32 i32 i1", (number, 0)))
            number = len(types) + len(steps) - 1
        numbers.append(number)
    steps.append((name, tuple(numbers)))
    if dtype in ("f64", "i1"):
        after = "convert f64 f32" if dtype == "f64" else "convert i1 u32"
        steps.append((after, (len(types) + len(steps) - 1,)))
    of = tuple({"f64": "f32", "i1": "i32"}.get(t, t) for t in types)
    return Program(of, (), tuple(steps))


def cases(program: Program) -> list[np.ndarray]:
    """All pairs of patterns, and of a third operand random ones."""
    first, second = (x.reshape(-1) for x in np.meshgrid(PATTERNS, PATTERNS))
    third = np.random.default_rng(3).permutation(np.resize(PATTERNS, first.shape))
    return [x.view(NUMPY[t]) for t, x in zip(program.operands, (first, second, third), strict=False)]


SOME = "shift_left i32 i32 i32", "shift_right_arithmetic u32 u32 u32", "convert f64 i32", "compare lt f32 f32 i1"


@here
@pytest.mark.parametrize("name", [name if name in SOME else slow(name) for name in CODES])
def test_operations_are_those_of_taidl(name: str) -> None:
    program = of_one(name)
    assert agrees(program, cases(program))


@here
def test_numbers_that_f32_does_not_hold_are_narrowed_once() -> None:
    """Next to half of a last place below the least normal number, and to half of one above it."""
    wholes = np.arange((1 << 25) - 40, (1 << 25) + 40, dtype=np.int32)
    program = Program(("i32",), (("f32", (2.0**100).hex()), ("f32", (2.0**51).hex())), (
        ("convert i32 f64", (0,)), ("convert f32 f64", (1,)), ("convert f32 f64", (2,)),
        ("divide f64 f64 f64", (3, 4)), ("divide f64 f64 f64", (6, 5)), ("convert f64 f32", (7,))))
    assert agrees(program, [wholes])


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Steps of any operations on operands, constants and steps before, some of whose results nobody reads."""
    types = draw(st.lists(st.sampled_from(tuple(NUMPY)), min_size=1, max_size=5))
    constants = draw(st.lists(st.one_of(
        st.sampled_from([-0.0, 0.0, 1.0, 0.7, float("inf"), 2.0**-140]).map(lambda x: ("f32", x.hex())),
        st.sampled_from([0, 31, 33, -1, -(1 << 31)]).map(lambda x: ("i32", str(x))),
        st.sampled_from([0, 23, (1 << 32) - 1]).map(lambda x: ("u32", str(x))),
        st.sampled_from([("i1", "0"), ("i1", "1")])), max_size=4))
    found = [*types, *(t for t, _ in constants)]
    widened = set[int]()
    left_out = fma(flush=draw(st.booleans()))
    steps: list[tuple[str, tuple[int, ...]]] = []

    def possible(name: str) -> bool:
        there = {t for n, t in enumerate(found) if name not in OF_F32_ALONE or n in widened}
        return name != left_out and set(parts(name)[2]) <= there

    for _ in range(draw(st.integers(1, 40))):
        name = draw(st.sampled_from([name for name in CODES if possible(name)]))
        places = [[n for n, t in enumerate(found) if t == wanted and (name not in OF_F32_ALONE or n in widened)]
                  for wanted in parts(name)[2]]
        steps.append((name, tuple(draw(st.sampled_from(of)) for of in places)))
        found.append(parts(name)[3])
        if name == "convert f32 f64":
            widened.add(len(found) - 1)
    last = max(n for n, t in enumerate(found) if t in NUMPY)
    steps.append((f"select i1 {found[last]} {found[last]} {found[last]}", (found.index("i1"), last, last))
                 if "i1" in found else (f"bitcast_convert {found[last]} {found[last]}", (last,)))
    return Program(tuple(types), tuple(constants), tuple(steps))


@here
@examples(6, 400)
@given(program=programs(), seed=st.integers(0, 2**32 - 1), shape=st.sampled_from(
    [(1, 32), (33,), (5, 65), (3, 4, 40), (2, 16385), (40000,), (700, 50)]))
def test_programs_are_their_steps_one_after_the_other(program: Program, seed: int, shape: tuple[int, ...]) -> None:
    """Of arrays of any places, of sizes around those of vectors and parts."""
    random = np.random.default_rng(seed)
    operands = []
    for number, t in enumerate(program.operands):
        mine = tuple(n if not number or random.random() < 0.6 else 1 for n in shape)
        bits = np.where(random.random(mine) < 0.5, random.choice(PATTERNS, mine),
                        random.integers(0, 1 << 32, mine, dtype=np.uint32)).astype(np.uint32)
        operands.append(bits.view(NUMPY[t]))
    assert agrees(program, operands)


@examples(20, 400)
@given(program=programs(), places=st.lists(st.sampled_from(["all", "columns", "rows", "one"]), min_size=5, max_size=5))
def test_names_have_all_of_a_program(program: Program, places: list[Any]) -> None:
    """Whatever lies behind a name in a stored program."""
    where = tuple(places[:len(program.operands)])
    name = name_of(program, where)
    assert named(name) == (program, where)
    assert names_in(b"\x12" + name.encode() + b"R_a." + name.encode() + b"-\n") == (name,)


def test_names_of_other_versions_are_refused() -> None:
    """So that what names them is compiled anew."""
    name = name_of(Program(("f32",), (), (("cube f32 f32", (0,)),)), ("all",))
    with pytest.raises(ValueError, match="not known here: cube f32 f32"):
        named(name)
    with pytest.raises(ValueError, match="is no program"):
        named(name[:-9] + ".")


@here
def test_stored_programs_of_xla_name_theirs() -> None:
    program = Program(("f32", "f32"), (("f32", "0x1p+0"),), ((fma(flush=False), (0, 1, 2)),))
    x = np.ones((4, 1200), np.float32)
    compiled = jax.jit(lambda a, b: (fused(program, a, b),)).lower(x, x[:1]).compile()
    data = executables.of(compiled, 2).serialize()
    assert data and names_in(data) == (name_of(program, ("all", "columns")),)


@pytest.mark.parametrize(("operands", "shape", "axis", "places"), [
    ([(4, 50, 60), (60,), (4, 50, 1), ()], (4, 50, 60), 2, ("all", "columns", "rows", "one")),
    ([(4, 50, 60), (4, 1, 1)], (4, 50, 60), 1, ("all", "rows")),
    ([(50, 31), (31,), (50, 1)], (50, 31), 0, ("all", "all", "all")),
    ([(4, 50, 60), (1, 50, 1), (60,)], (4, 50, 60), 2, ("all", "all", "columns"))])
def test_as_few_operands_as_possible_are_copied(
    operands: list[tuple[int, ...]], shape: tuple[int, ...], axis: int, places: tuple[str, ...]
) -> None:
    """Those that repeat along columns and others, or along rows shorter than a vector."""
    assert LANES == 32 and placed(operands, shape) == (axis, places)
