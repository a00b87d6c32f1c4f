"""The documentation's blocks run in order and print what the pages show; nothing is left out without a reason."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support import pages

WITH_BLOCKS = pages.with_blocks()


@pytest.fixture(scope="session")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the reader's own networks."""
    folder = tmp_path_factory.mktemp("earlier")
    pages.make_earlier(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.stem)
def test_the_page_prints_what_it_shows(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    found = pages.faults(page, tmp_path, lambda: request.getfixturevalue("earlier"))
    assert "\n".join(dict.fromkeys(filter(None, found))) == ""


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.stem)
def test_its_blocks_are_python(page: Path) -> None:
    for block in pages.blocks(page):
        if block.kind == "python":
            ast.parse(block.text, block.name)


def test_commands_stand_in_blocks_of_sh() -> None:
    for page in pages.PAGES:
        for fence in pages.FENCE.finditer(page.read_text(encoding="utf-8")):
            first = fence["text"].lstrip("$ ").split(" ")[0]
            assert fence["kind"] == "sh" or first not in ("archloom", "python"), f"{page.name}: {fence['text']}"


def test_what_is_shown_is_compared() -> None:
    block = pages.Block("sh", "page", "archloom x\n", "a ... c\nd\n")
    assert pages.difference(block, "a b c\nd\n") == ""
    assert "Expected:" in pages.difference(block, "a b c\ne\n")
