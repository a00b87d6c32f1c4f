"""Tests keep their plans and reports apart from the user's, below ``build/``; properties are tried with few examples.

``--hypothesis-profile=thorough`` tries them with many (`tests/support/examples.py`).
"""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.examples import THOROUGH
from tests.support.torch_tables import keep_tables_of_torch

os.environ.setdefault("ARCHLOOM_CACHE_DIR", str(Path(__file__).parent.parent / "build" / "test-cache"))

# millions of objects of libraries stay: looking at them again and again took an eighth of the time
gc.set_threshold(200_000, 100, 100)

settings.register_profile("quick", deadline=None)
settings.register_profile(THOROUGH, deadline=None, print_blob=True)
settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test that is marked ``first_case`` only that is quick."""
    seen = set()
    for item in items:
        if item.get_closest_marker("first_case"):
            name = item.nodeid.partition("[")[0]
            if name in seen:
                item.add_marker(pytest.mark.slow)
            seen.add(name)


def pytest_collection_finish() -> None:
    """What was imported stays to the end: the garbage collector looks at it no more, torch makes its tables once."""
    gc.collect()
    gc.freeze()
    if "torch" in sys.modules:
        keep_tables_of_torch()


@pytest.fixture
def clean_registry() -> Iterator[None]:
    """What a test registers is forgotten after it."""
    from tests.support.tvm_backend.registered import forgotten_after

    with forgotten_after():
        yield
