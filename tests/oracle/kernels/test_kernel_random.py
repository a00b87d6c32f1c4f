"""Random programs of Gemmini as kernels, looped, unrolled and with debug points: XLA equals the interpreter."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest
from hypothesis import Phase, assume, given, reject
from hypothesis import strategies as st

from archloom.oracle.errors import StreamError
from archloom.oracle.kernel import Kernel, isa
from archloom.oracle.stream import Instr, Loop, Node, Stream
from tests.support.accelerators.gemmini_random import gemmini_streams
from tests.support.examples import examples
from tests.support.oracle.flat_trace import flat_trace
from tests.support.oracle.kernel_examples import arguments

UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # each step of shrinking would compile anew


def kernel(stream: Stream, body: str, debug: bool = False) -> Kernel:
    """The stream as calls: ``"loops"`` keeps loops, ``"unrolled"`` runs them in Python."""
    machine = isa(stream.isa, **dict(stream.parameters))

    def nodes(these: tuple[Node, ...], loops: dict[str, object]) -> None:
        for node in these:
            if isinstance(node, Instr):
                getattr(machine.api, node.mnemonic)(**{k: v.evaluate(loops) for k, v in node.attributes})
            else:
                assert isinstance(node, Loop)
                with machine.loop(node.var, node.start, node.stop, node.step) as i:
                    nodes(node.body, {**loops, node.var: i})
            if debug:
                machine.debug("pe ", machine.pe[0])
                machine.debug("out ", machine.out_addr)

    @machine.kernel(size=stream.hbm_bytes, arg=stream.arguments, res=stream.results, name=stream.name)
    def made() -> None:
        if body == "unrolled":
            for mnemonic, values in flat_trace(stream):
                getattr(machine.api, mnemonic)(**values)
        else:
            nodes(stream.body, {})

    return made


def equal(a: object, b: object) -> bool:
    """Whether results agree bit for bit."""
    one, other = (x if isinstance(x, tuple) else (x,) for x in (a, b))
    return len(one) == len(other) and all(
        x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(one, other, strict=True))


def check(stream: Stream, seed: int) -> None:
    """The kernel with its loops and the unrolled one give what the interpreter gives."""
    looped, unrolled = kernel(stream, "loops"), kernel(stream, "unrolled")
    assert list(flat_trace(looped.stream)) == list(flat_trace(stream)) == list(flat_trace(unrolled.stream))
    values = arguments(looped, seed)
    try:
        want = looped.interpret(*values)
    except StreamError:
        reject()
    assert equal(looped.run(*values), want) and equal(unrolled.run(*values), want)


@examples(2, 60, phases=UNSHRUNK)
@given(gemmini_streams(), st.integers(0, 99))
def test_calls_unrolled_or_not_equal_the_interpreter(stream: Stream, seed: int) -> None:
    assume(stream.count() <= 60)  # what does not repeat takes XLA long
    check(stream, seed)


@pytest.mark.slow
@examples(2, 40, phases=UNSHRUNK)
@given(gemmini_streams(), st.integers(0, 99))
def test_debug_points_change_nothing(stream: Stream, seed: int) -> None:
    assume(stream.count() <= 60)
    plain, debugged = kernel(stream, "loops"), kernel(stream, "loops", debug=True)
    assert debugged.stream == plain.stream and debugged.debugged is not None
    values = arguments(plain, seed)
    with contextlib.redirect_stdout(io.StringIO()) as interpreted:
        want = debugged.interpret(*values)
    with contextlib.redirect_stdout(io.StringIO()) as compiled:
        assert equal(debugged.run(*values), want)
    assert equal(plain.run(*values), want) and compiled.getvalue() == interpreted.getvalue()
