"""Networks and Gemmini together: each network is trained once, whatever machines it is tried on."""

from pathlib import Path

import pytest

from archloom.tvm_backend.page.search import search_view
from examples import codesign_digits


def test_a_network_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages, asked = (((4, 1),), ((8, 1),)), []
    monkeypatch.setattr(codesign_digits.nas_digits, "suggest", lambda trial: codesign_digits.Choice(stages))
    monkeypatch.setattr(codesign_digits.nas_digits, "train", lambda *given: asked.append(given))
    codesign_digits.trained.cache_clear()
    found = codesign_digits.search(tmp_path, 4, epochs=0)
    assert len(asked) == 1 and found.front and not found.counts["failed"]
    (accuracy,) = {row.figures["accuracy"] for row in found.rows()}
    assert accuracy == codesign_digits.accuracy(stages, 0)
    view = search_view(tmp_path, reports=1)
    assert view["count"] == sum(found.counts.values()) and view["reports"] == {}
