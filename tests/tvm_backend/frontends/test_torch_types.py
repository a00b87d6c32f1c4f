"""Element-wise operators of torch whose operands have different types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.tvm_backend.torch_functions import all_same

Operator = Callable[..., torch.Tensor]
NUMBERS: dict[torch.dtype, Sequence[Any]] = {
    torch.float32: (-2.5, -0.75, 0.5, 3.25), torch.float16: (-3.5, -0.5, 0.25, 2.0), torch.int64: (-7, -2, 1, 4),
    torch.int32: (-5, -1, 2, 3), torch.uint8: (1, 2, 5, 7), torch.bool: (False, True, True, False)}
"""Of each type, none of which divides by 0 but those of bool."""
SECOND: dict[Any, Sequence[Any]] = {
    **{dtype: values for dtype, values in NUMBERS.items() if dtype != torch.bool}, float: (2.5,), int: (3,)}
"""Second operands: tensors, or a number of Python's."""
ANY: dict[str, Operator] = {
    "add": torch.add, "multiply": torch.mul, "divide": torch.div, "maximum": lambda a, b: torch.maximum(
        a, torch.as_tensor(b)), "equal": torch.eq, "less": torch.lt, "at least": torch.ge}
"""What torch computes in any types."""
NUMERIC: dict[str, Operator] = {
    "subtract": torch.sub, "floor division": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "division towards 0": lambda a, b: torch.div(a, b, rounding_mode="trunc"), "//": torch.floor_divide,
    "remainder": torch.remainder, "fmod": torch.fmod}
"""What it refuses of bool."""


@pytest.mark.slow
@given(first=st.sampled_from(list(NUMBERS)), second=st.sampled_from(list(SECOND)), single=st.booleans())
@examples(3, 60)
def test_types_are_promoted(first: torch.dtype, second: torch.dtype | type, single: bool) -> None:
    """In the type in which torch computes; a tensor of no dimension counts less than others."""
    functions = ANY if first == torch.bool else ANY | NUMERIC
    a = torch.tensor(NUMBERS[first], dtype=first)
    if isinstance(second, type):
        number, = SECOND[second]
        all_same({name: lambda x, f=f: f(x, number) for name, f in functions.items()}, a)
        return
    b = torch.tensor(SECOND[second][::-1], dtype=second)
    all_same(functions, a, b[0] if single else b)
