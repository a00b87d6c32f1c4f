"""The kernel of the page of what works and the example of two accelerators run, and print what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import archloom

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_the_kernel_of_what_works_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "what_works.md").read_text(encoding="utf-8")
    (block,) = [b for b in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "gemmini.api" in b]
    x = np.random.default_rng(0).integers(-128, 128, (64, 16, 16)).astype(np.int8)
    scope: dict[str, object] = {"archloom": archloom, "x": x}
    exec(compile(block, "what_works.md", "exec"), scope)
    assert np.array_equal(scope["y"], x)  # type: ignore[arg-type]
    assert capsys.readouterr().out.count("row: ") == 64
    assert np.array_equal(archloom.load_kernel("copy.kernel").run(x), x)


@pytest.mark.slow
def test_the_example_of_two_accelerators_runs() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "examples" / "two_accelerators.py")], capture_output=True,
                          text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[:3] == [
        "NumPy: AMX and Gemmini agree on 256 elements", "JAX: both in one compiled function",
        "PyTorch: Tensor in, Tensor out"]
    assert done.stdout.count("raised to dot 16x16x64 int8 x int8 -> i32") == 2
