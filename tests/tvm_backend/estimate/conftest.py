"""A cache of its own for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from archloom.tvm_backend.estimate import network as estimate


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHLOOM_CACHE_DIR", str(tmp_path / "cache"))
    estimate.forget()
