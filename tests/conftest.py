"""Tests keep their plans and reports apart from the user's, below ``build/``; properties are tried with few examples.

``--hypothesis-profile=thorough`` tries them with many (`tests/support/examples.py`).
"""

import gc
import os
import sys
from pathlib import Path

from hypothesis import settings

from tests.support.examples import THOROUGH
from tests.support.torch_tables import keep_tables_of_torch

os.environ.setdefault("ARCHLOOM_CACHE_DIR", str(Path(__file__).parent.parent / "build" / "test-cache"))

# millions of objects of libraries stay: looking at them again and again took an eighth of the time
gc.set_threshold(200_000, 100, 100)

settings.register_profile("quick", deadline=None)
settings.register_profile(THOROUGH, deadline=None, print_blob=True)
settings.load_profile("quick")


def pytest_collection_finish() -> None:
    """What was imported stays to the end: the garbage collector looks at it no more, torch makes its tables once."""
    gc.collect()
    gc.freeze()
    if "torch" in sys.modules:
        keep_tables_of_torch()
