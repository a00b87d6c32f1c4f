"""The page on ACADL runs as it stands; graphs as text and as drawings; the package stays light."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from acadl_models.acadl import describe, to_dot, to_svg
from acadl_models.gemmini import gemmini
from oracle.errors import InputError

PAGE = Path(__file__).parents[2] / "docs" / "acadl.md"


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (isa,) = re.findall(r"```taidl\n(.*?)```", text, re.DOTALL)
    scope: dict[str, object] = {"__name__": "page", "ISA": isa}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
        exec(compile(block, f"{PAGE}[{number}]", "exec"), scope)
    printed = capsys.readouterr().out
    assert "dma.unit (MemoryAccessUnit)" in printed
    # 16 rows of 8 bytes come in; each addition takes its start and interval of one cycle
    assert printed.splitlines()[-1].split()[1:] == ["16", "128"]


def test_description() -> None:
    text = describe(gemmini(dim=8))
    lines = text.splitlines()
    assert lines[0] == "gemmini: 20 objects, 37 edges, clock 1 GHz"
    assert "parameters: dim=8, dma_bytes=64" in lines
    assert "buffer acc: 64 KiB in accumulator[0] rows 0..1023, accumulator[1] rows 1024..2047" in lines
    assert "    load.stage (ExecuteStage)  [latency = 1]" in lines
    assert any(line.startswith("scratchpad[3] (SRAM) 64 KiB  [data_width = 64,") for line in lines)
    assert all(name in text for name in gemmini(dim=8).objects)


def test_dot_has_every_object_and_edge() -> None:
    graph = gemmini()
    dot = to_dot(graph)
    for name in graph.objects:
        assert f'"{name}" [shape=' in dot
    assert dot.count(" -> ") == sum(edge.kind.name != "CONTAINS" for edge in graph.edges)
    assert dot.count("{") == dot.count("}") == 1 + len(graph.stages)


def test_svg_needs_graphviz(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(InputError, match="drawing needs Graphviz's program 'dot', which is not installed"):
        to_svg(gemmini())


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_svg() -> None:
    assert "<svg" in to_svg(gemmini())


def test_the_language_imports_nothing_heavy() -> None:
    code = (
        "import sys, acadl_models.acadl, acadl_models.gemmini, acadl_models.fit, acadl_models.timing\n"
        "print(sorted({'jax', 'tvm', 'torch', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PAGE.parents[1])
    assert done.stdout.strip() == "[]"
