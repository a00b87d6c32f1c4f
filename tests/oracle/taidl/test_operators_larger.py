"""HLO's larger operators: interpreter and JAX agree bit for bit, and both with plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.oracle.larger_operators import LARGER, Example
from tests.support.oracle.operator_cases import equal


def _near(example: Example, found: np.ndarray) -> None:
    """Equal, or within so many roundings of f32 of the largest number around."""
    if not example.steps:
        wide = np.complex128 if found.dtype.kind == "c" else np.float64
        np.testing.assert_array_equal(found.astype(wide), example.expected.astype(wide))
        return
    size = max(1.0, float(np.abs(example.expected).max()), *(
        float(np.abs(x.astype(np.complex128)).max()) for x in example.operands))
    np.testing.assert_allclose(found, example.expected, rtol=0, atol=example.steps * size * 2.0**-24)


@pytest.mark.parametrize("name", LARGER)
@given(data=st.data())
@examples(1, 60)
def test_interpreter_and_jax_agree_with_numpy(name: str, data: st.DataObject) -> None:
    example = LARGER[name](data.draw)
    case = example.case
    assert case.complaint is None, case.complaint
    found = case.kernel(example.operands)
    assert found.shape == example.expected.shape
    assert equal(found, case.in_jax(example.operands), case.result.dtype).all()
    _near(example, found)
