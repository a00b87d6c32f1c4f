"""The page on ACADL runs as it stands; the package stays light."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from archloom.acadl_models.acadl import to_svg
from docs.drawings import GRAPHS
from tests.support import pages

PAGE = pages.DOCS / "acadl.md"


@pytest.mark.slow
def test_the_examples_of_the_page_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in pages.files(PAGE).items():
        Path(name).write_text(text)
    scope: dict[str, object] = {"__name__": "page"}
    for block in pages.blocks(PAGE):
        if block.kind == "python":
            exec(compile(block.text, block.name, "exec"), scope)
    printed = capsys.readouterr().out
    assert "\n  unit (MemoryAccessUnit)  [latency = 0, interval = 1, in_flight = 4]\n" in printed
    # 16 rows of 8 bytes come in; each addition takes its start and interval of one cycle
    assert any(line.split()[1:] == ["16", "128"] for line in printed.splitlines())
    drawn = (PAGE.parent / "acadl_chain.svg").read_text(encoding="utf-8")
    assert _texts(drawn) == _texts(to_svg(scope["chain"]))  # type: ignore[arg-type]
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert shown in printed
    cycles, instructions = printed.splitlines()[-1].split(maxsplit=1)
    # a value every six cycles: four of the memory, one of the link, one of the unit; cells follow one cycle apart
    assert instructions == "[100, 100, 100, 100]" and 600 <= int(cycles) <= 610


def _texts(svg: str) -> list[str]:
    """What is written in a drawing: places and fonts depend on the version of Graphviz."""
    return sorted(node.text or "" for node in ElementTree.fromstring(svg.encode()).iter() if node.tag.endswith("}text"))


@pytest.mark.slow
def test_the_language_imports_nothing_heavy() -> None:
    code = (
        "import sys, archloom.acadl_models.acadl, archloom.acadl_models.gemmini\n"
        "import archloom.acadl_models.fit, archloom.acadl_models.timing\n"
        "print(sorted({'jax', 'tvm', 'torch', 'llvmlite'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PAGE.parents[1])
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", GRAPHS)
def test_the_drawings_are_of_the_graphs(name: str) -> None:
    assert _texts((pages.DOCS / name).read_text(encoding="utf-8")) == _texts(to_svg(GRAPHS[name]()))
