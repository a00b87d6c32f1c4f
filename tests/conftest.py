"""Tests keep their plans and reports apart from the user's, below ``build/``; properties are tried with few examples.

``--hypothesis-profile=thorough`` tries them with many (`tests/support/examples.py`).
"""

import os
from pathlib import Path

from hypothesis import settings

from tests.support.examples import THOROUGH

os.environ.setdefault("ARCHLOOM_CACHE_DIR", str(Path(__file__).parent.parent / "build" / "test-cache"))

settings.register_profile("quick", deadline=None)
settings.register_profile(THOROUGH, deadline=None, print_blob=True)
settings.load_profile("quick")
