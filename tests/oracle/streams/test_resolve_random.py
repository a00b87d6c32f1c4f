"""Resolved streams do what the interpreter does: on random Gemmini streams and on tiled GEMMs, all state compared."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle import resolve as resolving
from archloom.oracle import taidl
from archloom.oracle.errors import StreamError
from archloom.oracle.interpreter import run_state, start
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import ResolvedStream
from archloom.oracle.stream import Stream
from tests.support.accelerators import gemmini_streams as g
from tests.support.examples import every, examples
from tests.support.oracle.resolved_executor import execute
from tests.support.oracle.strategies import Gemm, gemmini_streams, gemms
from tests.support.oracle.toy_isa import TOY, instructions
from tests.support.oracle.toy_isa import stream as toy_stream


def check(stream: Stream) -> ResolvedStream:
    """Run both from the same poisoned memories and compare all of them."""
    random = np.random.default_rng(3)
    arguments = {t.name: random.integers(-128, 128, t.shape).astype(t.dtype) for t in stream.arguments}
    isa = taidl.load("gemmini", **dict(stream.parameters))
    want = run_state(stream, isa, arguments, poison=7)
    resolved = resolve(stream, isa)
    hbm, machine = start(stream, isa, arguments, poison=7)
    execute(resolved, machine.buffers)
    assert np.array_equal(hbm, want.hbm)
    for name, value in want.buffers.items():
        assert machine.buffers[name].tobytes() == value.tobytes(), name
    return resolved


@examples(10, 1000)
@given(gemmini_streams())
def test_random_streams(stream: Stream) -> None:
    check(stream)


@examples(10, 300)
@given(gemms())
def test_tiled_gemms(gemm: Gemm) -> None:
    check(gemm.stream())


@pytest.mark.parametrize("dataflow", [g.OS, g.WS])
@pytest.mark.parametrize("size", every(2, [(1, 1, 1), (3, 5, 2), (4, 4, 4), (16, 12, 9), (7, 13, 11)], single=True))
def test_gemms_compute_products(dataflow: int, size: tuple[int, int, int]) -> None:
    m, n, k = size
    stream = Gemm(4, m, n, k, dataflow, bias=True, full=True).stream()
    resolved = check(stream)
    random = np.random.default_rng(3)
    a, b, bias = (random.integers(-128, 128, t.shape).astype(t.dtype) for t in stream.arguments)
    isa = taidl.load("gemmini", **dict(stream.parameters))
    state = run_state(stream, isa, {"A": a, "B": b, "bias": bias})
    expected = a.astype(np.int32) @ b.astype(np.int32) + bias
    assert np.array_equal(state.read(stream.results[0]), expected)
    # the size of what is resolved does not depend on the number of blocks
    assert len(instructions(resolved)) <= 80


def test_sums_in_the_accumulator_are_accumulations() -> None:
    stream = Gemm(4, 8, 8, 8, g.WS, bias=True).stream()
    resolved = resolve(stream, taidl.load("gemmini", **dict(stream.parameters)))
    computed = [i for i in instructions(resolved) if i.mnemonic == "compute_preloaded"]
    assert [getattr(i.statements[-1], "kind", None) for i in computed] == ["accumulate"]


# --- registers of loops: guessed from the last loop of the same text, and searched for -------------------------------


@st.composite
def bodies(draw: st.DrawFn, variables: tuple[str, ...] = ()) -> str:
    """Nested loops over instructions of the toy ISA that read, set, count and keep registers."""
    value = st.sampled_from(("0", "3", *variables, *(f"{v}+1" for v in variables), *(f"{v}%2" for v in variables)))
    lines = []
    for kind in draw(st.lists(st.integers(0, 9), min_size=1, max_size=4)):
        if kind > 7 and len(variables) < 3:
            variable = "ijk"[len(variables)]
            inner = draw(bodies((*variables, variable)))
            lines.append(f"loop {variable} in 0..{draw(st.integers(2, 4))} {{\n{inner}\n}}")
            continue
        lines.append((
            "set v={v}", "step by={n}", "put dram=4*{v}", "rotate dram=4, k={v}", "cycle m=0", "most v={v}",
            "when c={v}, v=5", "later v={v}", "now", "now")[kind].format(v=draw(value), n=draw(st.integers(-1, 1))))
    return "\n".join(lines)


def outcome(stream: Stream) -> ResolvedStream | str:
    """What it is resolved to anew, or why not; what the last loops of its texts found is remembered."""
    try:
        return resolving._resolve(stream, resolving._Hold(TOY), 256)
    except StreamError as error:
        return str(error)


@examples(60, 5000)
@given(st.lists(bodies(), min_size=1, max_size=3))
def test_registers_that_are_guessed_are_those_that_are_searched_for(texts: list[str]) -> None:
    """The guess, whatever was resolved before, changes nothing: loops, names and registers, or the message."""
    streams = [toy_stream(text) for text in texts]
    guessed = [outcome(s) for s in (*streams, *streams)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resolving._Resolver, "guessed", lambda *_: None)
        assert guessed == 2 * [outcome(s) for s in streams]
