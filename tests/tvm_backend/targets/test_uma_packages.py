"""A target of another package on the command line, as TVM's test of its extensions for tvmc had it: test_tvmc."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.support.tvm_backend.networks import Net

ROOT = Path(__file__).parents[3]


def package(folder: Path, name: str, entry: str) -> None:
    """An installed package, as far as Python sees: a module beside its metadata with an entry point."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[archloom.targets]\nvanilla_accelerator = {entry}\n")


@pytest.fixture
def network(tmp_path: Path) -> Path:
    net = Net()
    path = tmp_path / "net.onnx"
    onnx.save(net.model(net.conv(net.input("image", 1, 3, 10, 10), "conv", 3, 5)), path)
    return path


def archloom(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join([str(folder), str(ROOT / "src")])
    return subprocess.run([sys.executable, "-m", "archloom", *words], cwd=folder, capture_output=True, text=True,
                          check=False, env={**os.environ, "PYTHONPATH": path})


@pytest.mark.slow
def test_conv2d(tmp_path: Path, network: Path) -> None:
    own = (ROOT / "tests/support/tvm_backend/vanilla.py").read_text()
    (tmp_path / "vanilla_ext.py").write_text(f"{own}\n\nVanillaAccelerator().register()\n")
    package(tmp_path, "vanilla_ext", "vanilla_ext:VanillaAccelerator")
    done = archloom(tmp_path, "compile", network.name, "-t", "vanilla_accelerator", "-o", "out.loom", "--json")
    assert done.returncode == 0, done.stderr
    assert '"target": "vanilla_accelerator"' in done.stdout and '"offloaded": ["conv"]' in done.stdout
    assert (tmp_path / "out.loom" / "manifest.json").exists()


@pytest.mark.slow
def test_invalid_extensions(tmp_path: Path, network: Path) -> None:
    (tmp_path / "invalid_ext.py").write_text("class NoTarget:\n    pass\n")
    package(tmp_path, "invalid_ext", "invalid_ext:NoTarget")
    done = archloom(tmp_path, "compile", network.name, "-t", "vanilla_accelerator")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "entry point 'vanilla_accelerator' (invalid_ext:NoTarget): expected a target of that name" in done.stderr
