"""What networks give on numbers of all kinds: near overflow, infinite, none at all, behind masks."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.tvm_backend.check.reference import integer_session, run
from tests.fuzz.numbers import KINDS, differs, drawn, network
from tests.fuzz.stated import contradicts, largest, stated
from tests.support.examples import examples, randoms


@given(kind=st.sampled_from(KINDS), odd=st.sampled_from((0.0, 0.02, 0.3)), mask=st.sampled_from((0, -1e4, -np.inf)),
       rng=randoms)
@examples(40, 1000)
def test_what_is_stated_is_what_onnxruntime_computes(kind: str, odd: float, mask: float, rng: Random) -> None:
    """In float32, where nothing is left open but the order of sums. Of NaN, onnxruntime's maxima leave some out."""
    odd = 0 if kind == "maximum" else odd
    bars = np.where(np.arange(5) < rng.randrange(6), np.float32(mask), np.float32(0)) + np.zeros((5, 1), np.float32)
    proto = network(kind, 5, 5, bars)
    inputs = {info.name: drawn(rng, [d.dim_value for d in info.type.tensor_type.shape.dim], "float32", 1.0, odd)
              for info in proto.graph.input}
    (found,) = run(integer_session(proto, fused=False), inputs).values()
    with np.errstate(all="ignore"):
        assert not contradicts(found, list(stated(proto, inputs, False)), largest(proto, False), not odd)
        wrong = np.where(np.isnan(found), np.float32(0), np.float32(np.nan))
        (outcome,) = stated(proto, inputs, False)
        assert contradicts(wrong, [outcome], largest(proto, False), False) or outcome.open.all()


@pytest.mark.slow
@given(rng=randoms)
@examples(1, 400)
def test_machines_do_what_is_stated(rng: Random) -> None:
    assert not differs(rng)
