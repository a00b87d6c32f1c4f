"""The pages on TPU v1 and QKV print what they show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["tpu_v1", "qkv"])
def test_the_page_prints_what_it_shows(
    page: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    path = ROOT / "docs" / f"{page}.md"
    scope: dict[str, object] = {"__name__": "page"}
    blocks = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", path.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 2
    for block, shown in blocks:
        exec(compile(block, str(path), "exec"), scope)
        assert capsys.readouterr().out == shown, block
