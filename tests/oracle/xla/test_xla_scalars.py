"""Streams that differ in their scales alone share one program, and each still computes with its own scale."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from archloom.mapper.mapping import Mapping
from archloom.mapper.workload import Epilogue, gemm
from archloom.oracle import interpreter, taidl
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Stream
from archloom.oracle.xla import compile_stream
from archloom.oracle.xla.border import take_out
from archloom.oracle.xla.notation.variables import BIT_PATTERNS
from archloom.uma_targets.gemmini.emit import GemminiEmitter

ISA = taidl.load("gemmini", dim=4)
SCALES = (1.0, 0.5, 0.0123, 1.7, 3e-8, -0.25)


def stream(scale: float, name: str = "layer") -> Stream:
    work = gemm(10, 7, 9, epilogue=Epilogue(bias=True, scale=scale, relu=False, out_dtype="int8"), name=name)
    mapping = Mapping("gemm", "ws", (("m", 8), ("n", 4), ("k", 8)), ("m", "n"), (("A", "stream"), ("B", "stream")),
                      (("A", 2), ("B", 2), ("C", 2)))
    return GemminiEmitter(ISA.parameters).emit(work, mapping)


def agrees(made: Stream, *oracles: Callable[..., Any]) -> None:
    rng = np.random.default_rng(1)
    given = {t.name: rng.integers(*((-128, 128) if t.dtype == "int8" else (-5000, 5000)), t.shape, t.dtype)
             for t in made.arguments}
    want = interpreter.run(made, ISA, given)["C"]
    for run in oracles:
        assert np.array_equal(np.asarray(run(*given.values())[0]), want)


@pytest.mark.parametrize("raising", [True, False])
def test_every_scale_is_its_own(raising):
    for scale in SCALES if raising else SCALES[2:4]:  # all of one program, which takes long to compile as loops
        made = stream(scale)
        oracle = compile_stream(made, ISA, raising=raising)
        agrees(made, oracle, *([oracle.compile()] if raising and scale in SCALES[:2] else []))


def test_names_and_scales_do_not_count():
    programs = {id(compile_stream(stream(s, name=f"layer {s}"), ISA).program) for s in SCALES if s != 1.0}
    assert len(programs) == 1
    # a scale of one is another program: it has no products
    assert compile_stream(stream(1.0), ISA).program is not compile_stream(stream(0.5), ISA).program


def test_equal_patterns_have_one_place():
    plain, bits = take_out(resolve(stream(0.5), ISA))
    assert bits.tolist() == [np.float32(0.5).view(np.uint32)] and plain.arguments[-1].name == BIT_PATTERNS
    assert plain.arguments[-1].address >= max(t.address for t in plain.results)
    plain, bits = take_out(resolve(stream(1.0), ISA))
    assert not bits.size and BIT_PATTERNS not in [t.name for t in plain.arguments]


def test_the_oracle_keeps_the_streams_own_arguments_and_name():
    for made in itertools.starmap(stream, ((0.5, "first"), (1.0, "second"))):
        oracle = compile_stream(made, ISA)
        assert oracle.arguments == made.arguments and oracle.report.stream == made.name
