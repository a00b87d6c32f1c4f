"""Tests keep their plans and reports apart from the user's, below ``build/``."""

import os
from pathlib import Path

os.environ.setdefault("ARCHLOOM_CACHE_DIR", str(Path(__file__).parent.parent / "build" / "test-cache"))
