"""Vector code for nests of loops: random ones against NumPy, on registers of all sizes, and by both oracles."""

from __future__ import annotations

import json
from functools import reduce
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis.strategies import sampled_from

from archloom.mapper import workload
from archloom.mapper.mapping import Mapping
from archloom.mapper.nests import HALVES, Axis, Code, Nest, Pass, Store
from archloom.oracle import taidl
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.xla import compile_stream
from archloom.tvm_backend.artifact.workload_json import from_json, to_json
from archloom.uma_targets.kit.vectors import RiscvV, choices_of
from archloom.uma_targets.mte.target import Mte
from tests.support.examples import examples, randoms
from tests.support.uma_targets.nests import (
    SIZE,
    evaluated,
    fits,
    interpreted,
    random_bytes,
    random_nest,
    random_nest_of_bytes,
    random_words,
    stream_of,
)

UNITS = (RiscvV(128, 32), RiscvV(256, 32), RiscvV(1024, 32), RiscvV(512, 16))
NAMES = ("a", "b", "out")


@given(random=randoms)
@examples(30, 3000)
def test_random_nests_compute_what_numpy_does(random: Random) -> None:
    """Whatever is spread over lanes."""
    nest, unit, most = random_nest(random), random.choice(UNITS), random.choice((8, 4, 1))
    assume(fits(nest))
    words = random_words(random, NAMES)
    lane = random.choice(choices_of(nest, unit, most)).lane
    found = interpreted(stream_of(nest, NAMES, unit, most, lane=lane), words)
    np.testing.assert_array_equal(found.view(np.float32), evaluated(nest, words, "out").view(np.float32))


@given(random=randoms, out=sampled_from(("int8", "uint8", "int32")))
@examples(40, 3000)
def test_random_nests_of_bytes_compute_what_numpy_does(random: Random, out: str) -> None:
    types = {"a": "int8", "b": "uint8", "c": "int32", "out": out}
    nest, unit, most = random_nest_of_bytes(random, types), random.choice(UNITS), random.choice((8, 4, 1))
    assume(fits(nest))
    given = random_bytes(random, types)
    found = interpreted(stream_of(nest, tuple(types), unit, most, types=types), given)
    np.testing.assert_array_equal(found, evaluated(nest, given, "out"))


@given(random=randoms, out=sampled_from((*HALVES, "float32")), half=sampled_from(HALVES))
@examples(15, 1000)
def test_halves_are_computed_as_float32(random: Random, out: str, half: str) -> None:
    """And rounded once where they are stored; with infinities, NaN and subnormal numbers."""
    axes = (Axis("i", random.choice((1, 3, 17))), Axis("k", random.choice((1, 5, 33))))
    at = Affine.variable("i") * 33 + Affine.variable("k") * random.choice((1, 1, 2))
    code = Code()
    halved, other = code.load("a", at, half), code.load("b", Affine.variable("i") * random.randrange(2), half)
    found = code.apply("maximum", code.apply("multiply", halved, other), code.number(-3e4))
    stores = (Store("out", Affine.variable("i") * 33 + Affine.variable("k"), found, out if out in HALVES else ""),)
    rng = np.random.default_rng(random.randrange(1 << 30))
    given = {n: (rng.uniform(-6, 6, SIZE) * 10.0 ** rng.integers(-7, 5, SIZE)).astype(np.dtype(half)) for n in "ab"}
    given["a"][:3] = np.inf, -np.inf, np.nan
    given["out"] = np.zeros(SIZE, np.dtype(out) if out in HALVES else np.int32)
    types = {"a": half, "b": half, "out": out if out in HALVES else "int32"}
    nest = Nest(axes, (Pass((), tuple(code.operations), stores),))
    unit, most = random.choice(UNITS), random.choice((8, 4, 1))
    made = interpreted(stream_of(nest, tuple(types), unit, most, types=types), given)
    wanted = evaluated(nest, given, "out")
    shown = np.dtype(out if out in HALVES else "float32")
    np.testing.assert_array_equal(made.view(shown).astype(np.float32), wanted.view(shown).astype(np.float32))


ENDS = np.array([np.nan, -np.nan, np.inf, -np.inf, 2.0**31, -(2.0**31), 2.0**31 - 128, -0.0, 0.5, 1.5, -2.5, 1e-45],
                np.float32)


@given(random=randoms, name=sampled_from(("to_whole", "truncated")), out=sampled_from(("int8", "uint8", "int32")))
@examples(4, 500)
def test_any_float_becomes_the_same_whole_number(random: Random, name: str, out: str) -> None:
    """By NumPy, the interpreter and the oracle: NaN the largest, all others the one next to them that there is."""
    words = np.random.default_rng(random.randrange(1 << 30)).integers(-1 << 31, 1 << 31, SIZE).astype(np.int32)
    words[:len(ENDS)] = ENDS.view(np.int32)
    code, at = Code(), Affine.variable("i")
    found = code.apply(name, code.load("a", at))
    stores = (Store("out", at, found, "" if out == "int32" else out),)
    nest, types = Nest((Axis("i", SIZE),), (Pass((), tuple(code.operations), stores),)), {"a": "int32", "out": out}
    given = {"a": words, "out": np.zeros(SIZE, out)}
    stream = stream_of(nest, ("a", "out"), UNITS[2], types=types)
    made = interpreted(stream, given)
    np.testing.assert_array_equal(made, evaluated(nest, given, "out"))
    most, least = np.iinfo(out).max, np.iinfo(out).min
    assert list(made[:6]) == [most, most, most, least, most, least]
    compiled = compile_stream(stream, taidl.load(stream.isa, **dict(stream.parameters)))(words)[0]
    np.testing.assert_array_equal(np.asarray(compiled), made)


@given(random=randoms)
@examples(2, 200)
def test_random_nests_by_both_oracles(random: Random) -> None:
    nest, unit = random_nest(random), random.choice(UNITS)
    assume(fits(nest))
    words = random_words(random, NAMES)
    stream = stream_of(nest, NAMES, unit)
    isa = taidl.load(stream.isa, **dict(stream.parameters))
    made = compile_stream(stream, isa)(*(words[n] for n in NAMES[:-1]))[0]
    np.testing.assert_array_equal(np.asarray(made), interpreted(stream, words))


@given(random=randoms)
@examples(30, 300)
def test_nests_are_the_same_from_json(random: Random) -> None:
    nest = random_nest(random)
    work = workload.nest((nest,), (((SIZE,), "int32"), ((SIZE,), "int32"), ((SIZE,), "float32")))
    assert from_json(json.loads(json.dumps(to_json(work)))) == work


def test_a_unit_with_too_few_registers_is_refused() -> None:
    code = Code()
    found = [code.load("a", Affine.variable("i") + k) for k in range(9)]
    total = reduce(lambda a, b: code.apply("add", a, b), reversed(found))
    nest = Nest((Axis("i", 8),), (Pass((), tuple(code.operations), (Store("out", Affine.variable("i"), total),)),))
    with pytest.raises(MappingError, match="9 vectors at a time need more than the 8 registers"):
        stream_of(nest, NAMES, RiscvV(128, 8))


@given(random=randoms)
@examples(3, 60)
def test_mappings_of_several_nests_come_back_from_json(random: Random) -> None:
    """A plan that could not be read would be searched for again, and an artifact with it not opened."""
    nests = tuple(random_nest(random) for _ in range(random.randint(1, 3)))
    assume(all(map(fits, nests)))
    work = workload.nest(nests, (((SIZE,), "int32"), ((SIZE,), "int32"), ((SIZE,), "float32")))
    space = Mte.kit.accelerator.configure({}).space(work)
    found = space.mapping(random.randrange(len(space)))
    assert len(found.lanes) == len(nests) and Mapping.from_json(found.to_json()) == found
