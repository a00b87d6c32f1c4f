"""How many examples a property is tried with, and random choices that hypothesis can shrink.

``pytest`` tries few examples, the same ones each time that the same sources are tried;
``pytest --hypothesis-profile=thorough`` tries many, other ones each time. Both profiles are registered in
``tests/conftest.py``.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

THOROUGH = "thorough"
"""The profile of the long runs."""

randoms: st.SearchStrategy[Random] = st.randoms(use_true_random=False)
"""Sources of random choices for generators that take a ``Random``. Hypothesis draws each choice by itself, so that a
failing example shrinks to few and small ones; a generator seeded with a number would shrink to another number."""


def examples(few: int, many: int, **options: Any) -> settings:
    """A decorator for ``@given`` tests: how many examples they are tried with, without limits of time."""
    thorough = settings.get_current_profile_name() == THOROUGH
    options = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": not thorough, **options}
    return settings(max_examples=many if thorough else few, **options)


def slow(*values: Any) -> ParameterSet:
    """A case of ``parametrize`` for the slow tests only."""
    return pytest.param(*values, marks=pytest.mark.slow)


def every(step: int, cases: Iterable[Any], *, single: bool = False) -> list[Any]:
    """The first of each ``step`` cases, and the others for the slow tests only. A tuple has the values of several
    parameters, or is the value of a ``single`` one."""
    return [case if not i % step else slow(*case) if isinstance(case, tuple) and not single else slow(case)
            for i, case in enumerate(cases)]


def often(names: Iterable[str], chosen: Container[str]) -> list[Any]:
    """Those names that are ``chosen``, and the others for the slow tests only."""
    return [name if name in chosen else slow(name) for name in names]
