"""The pictures of the page of MTE are of what is recorded."""

from __future__ import annotations

import pytest

from docs import mte_pictures


@pytest.mark.parametrize("name", mte_pictures.PICTURES)
def test_the_pictures_are_of_the_recorded_numbers(name: str) -> None:
    digest = mte_pictures.digest(mte_pictures.recorded())
    assert digest in (mte_pictures.IMAGES / name).read_text("utf-8"), "python docs/mte_pictures.py"
