"""The target of docs/tutorials/own_accelerator.md is as short as the page says, and all commands take its file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from archloom.oracle.errors import TargetError
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.targets.choice import names_of
from tests.support.pages import files
from tests.support.tutorial import PAGE, write_tiles
from tests.support.tvm_backend.registered import forgotten_after

ROOT = Path(__file__).parents[2]


def run(command: list[str], directory: Path) -> str:
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{directory}"}
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=300,
                          env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_user_writes_fewer_than_a_hundred_lines() -> None:
    assert set(files(PAGE)) == {"tiles.taidl", "tiles.py"}
    lines = [line for text in files(PAGE).values() for line in text.splitlines() if line.strip()]
    assert len(lines) < 100
    assert f"in {len(lines)} lines of one's own" in PAGE.read_text(encoding="utf-8").replace("\n", " ")


@pytest.mark.slow
def test_the_file_is_described(tmp_path: Path) -> None:
    write_tiles(tmp_path)
    text = run([sys.executable, "-m", "archloom", "describe", "tiles.py", "-O", "dim=16"], tmp_path)
    assert "tiles: an engine of tiles for float32" in text and "load_x" in text and "rows and columns of a tile" in text


@pytest.mark.slow
def test_files_that_register_no_target(tmp_path: Path) -> None:
    for name, text, message in (
        ("none.py", "x = 1\n", "none.py: expected a file that registers one target (Mine().register()), found none"),
        ("broken.py", "1 / 0\n", "broken.py:1: ZeroDivisionError: division by zero"),
        ("gone.py", None, "gone.py: no such file"),
    ):
        if text is not None:
            (tmp_path / name).write_text(text)
        done = subprocess.run([sys.executable, "-m", "archloom", "estimate", "gemm(m=1,n=1,k=1)", "-t", name],
                              cwd=tmp_path, capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
        assert done.returncode == 2 and done.stderr.strip() == f"archloom: {message}"


MORE = """
from dataclasses import replace
from tiles import Tiles

class Wide(Tiles):
    kit = replace(Tiles.kit, name="wide")

class Narrow(Tiles):
    kit = replace(Tiles.kit, name="narrow")

Wide().register()
Narrow().register()
"""


@pytest.mark.parametrize("first", ["tiles.py", "more.py:wide"])
def test_several_targets_in_a_file_that_imports_another(tmp_path: Path, first: str) -> None:
    write_tiles(tmp_path)
    (tmp_path / "more.py").write_text(MORE, encoding="utf-8")
    more = tmp_path / "more.py"
    with forgotten_after():
        names_of(str(tmp_path / first))
        assert names_of(f"{more}:wide,{more}:narrow,{tmp_path / 'tiles.py'}") == ("wide", "narrow", "tiles")
        with pytest.raises(TargetError, match=r"found .*more\.py:narrow and .*more\.py:wide"):
            names_of(str(more))
        with pytest.raises(TargetError, match=r"it registers no target 'wider'; did you mean 'wide'\?"):
            names_of(f"{more}:wider")
    sys.modules.pop("tiles", None)  # where the other file has imported it


@pytest.mark.slow
def test_streams_and_listings_know_ones_own_targets(tmp_path: Path) -> None:
    write_tiles(tmp_path)
    command = [sys.executable, "-m", "archloom"]
    run([*command, "compile", "gemm(m=5,n=3,k=9)", "-t", "tiles.py", "-o", "a.loom"], tmp_path)
    assert "isa tiles" in run([*command, "asm", "a.loom", "-t", "tiles.py"], tmp_path)
    assert "tiles: an engine of tiles for float32" in run([*command, "targets", "tiles.py"], tmp_path)


@pytest.mark.slow
def test_a_file_is_read_as_it_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own cache of compiled files takes two texts of one size within a second for the same."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for value in (1, 2):
        monkeypatch.setattr(registry, "_ran", {})
        (tmp_path / "mine.py").write_text(f"x = {value}\n", encoding="utf-8")
        os.utime(tmp_path / "mine.py", (1, 1))
        assert registry.run_file(tmp_path / "mine.py").values["x"] == value
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


@pytest.mark.slow
def test_an_artifact_of_the_target_runs_where_its_file_is_named(tmp_path: Path) -> None:
    import numpy as np

    write_tiles(tmp_path)
    run([sys.executable, "-m", "archloom", "compile", "gemm(m=5,n=3,k=9)", "-t", "tiles.py", "-o", "a.loom"],
        tmp_path)
    a = np.random.default_rng(0).standard_normal((5, 9)).astype(np.float32)
    np.savez(tmp_path / "in.npz", A=np.concatenate([a, 2 * a]))
    words = [sys.executable, "-m", "archloom", "run", "a.loom", "-i", "in.npz", "-o", "out.npz"]
    lost = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
    assert lost.returncode == 2 and "unknown target 'tiles'" in lost.stderr and "ARCHLOOM_TARGETS" in lost.stderr
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True,
                   env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "ARCHLOOM_TARGETS": "tiles.py"})
    once, twice = np.load(tmp_path / "out.npz")["Y"].reshape(2, 5, 3)
    assert once.any()
    np.testing.assert_array_equal(twice, 2 * once)
