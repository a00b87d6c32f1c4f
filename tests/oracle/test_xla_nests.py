"""Operators without index notation in raised streams, and streams of which only a part stays loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from oracle import interpreter
from oracle.stream import Stream
from oracle.xla import Oracle, compile_stream
from tests.oracle.whole_streams import WHOLE, whole_streams

pytest.importorskip("jax")
# each step of shrinking would compile anew
quiet = settings(deadline=None, suppress_health_check=list(HealthCheck),
                 phases=[Phase.explicit, Phase.reuse, Phase.generate])


def agree(stream: Stream, seed: int) -> Oracle:
    """The oracle, which gives what the interpreter gives."""
    rng = np.random.default_rng(seed)
    given = {t.name: rng.integers(-9, 99, t.shape).astype(t.dtype) for t in stream.arguments}
    oracle = compile_stream(stream, WHOLE)
    want = interpreter.run(stream, WHOLE, given)
    for tensor, value in zip(stream.results, oracle(*given.values()), strict=True):
        np.testing.assert_array_equal(np.asarray(value), want[tensor.name], str(oracle.report))
    return oracle


@settings(quiet, max_examples=10, derandomize=True)
@given(whole_streams(), st.integers(0, 9))
def test_random_streams(stream: Stream, seed: int) -> None:
    agree(stream, seed)


@pytest.mark.slow
@settings(quiet, max_examples=300)
@given(whole_streams(depth=3), st.integers(0, 9))
def test_many_random_streams(stream: Stream, seed: int) -> None:
    agree(stream, seed)
