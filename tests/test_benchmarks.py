"""The folders of benchmarks: every script runs by its name or its path, and says what its figures are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import run
from benchmarks.run_all import RESULTS, read_results, suite

ROOT = Path(__file__).parents[1]


def called(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A script run in a folder without the checkout on Python's path."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run([sys.executable, *words], cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_every_name_is_found_with_and_without_its_folder() -> None:
    for name, path in run.scripts().items():
        assert run.find(name) == run.find(f"benchmarks/{name}.py") == run.find(f"{name}.py") == path
    with pytest.raises(SystemExit, match="did you mean oma_order"):
        run.find("oma_ordr")


def test_every_script_declares_figures_whose_rows_are_those_of_the_results() -> None:
    declared = suite()
    assert {key.split()[0] for key in declared} == {
        f"{name}.py" for name, path in run.scripts().items() if path.parent != RESULTS.parent}
    for script, rows in read_results().items():
        assert [row[0] for row in rows] == [figure.name for figure in declared[script]]


@pytest.mark.parametrize("words", [("run.py", "mapper"), ("mapper/mapper.py",)])
def test_a_script_may_be_named_as_a_package_is(words: tuple[str, ...], tmp_path: Path) -> None:
    found = called(str(ROOT / "benchmarks" / words[0]), *words[1:], "--help", cwd=tmp_path)
    assert found.returncode == 0 and "--json" in found.stdout, found.stderr


def test_no_folder_has_more_modules_than_a_page_shows() -> None:
    for folder in (ROOT / "benchmarks").rglob("*/"):
        assert len(list(folder.glob("*.py"))) <= 25
