"""The wheel and the source distribution: one package in an environment of a user who has ``models``, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from archloom.tvm_backend.page.document import SCRIPTS, STYLE
from tests.support.tutorial import write_tiles

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="builds from what git knows of a checkout")
OWN = """
import models, oracle
import archloom
import mapper
from archloom.mapper.workload import gemm
from archloom.oracle.errors import ArchloomError
import json, sys
assert (models.NAME, mapper.NAME, oracle.NAME) == ("my models", "my mapper", "my oracle")
assert "site-packages" in archloom.__file__ and "site-packages" in sys.modules["archloom.mapper"].__file__
report = archloom.estimate("gemm(m=16,n=16,k=16)", target="gemmini", options={"dim": 16})
checked = archloom.check("gemm(m=16,n=16,k=16)", target="gemmini", options={"dim": 16})
own = archloom.estimate("gemm(m=5,n=3,k=9)", target="tiles.py")
print(json.dumps([report.cycles, all(layer.bit_exact for layer in checked.layers), own.cycles]))
"""


def done(words: Sequence[object], folder: Path, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    run = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True, check=False,
                         env={**kept, **environment})
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    return run.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source distribution from which it is built, of a copy of what git knows of the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True,
                            check=True)
    names = [name for name in listed.stdout.decode().split("\0") if name and os.path.lexists(ROOT / name)]
    tree = folder / "tree"
    with tarfile.open(folder / "tree.tar", "w") as archive:
        for name in names:
            archive.add(ROOT / name, name)
    with tarfile.open(folder / "tree.tar") as archive:
        archive.extractall(tree, filter="tar")
    done([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, tree], folder)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


@pytest.fixture(scope="module")
def python(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new virtual environment with the wheel; what archloom needs comes from this one's."""
    folder = tmp_path_factory.mktemp("user") / "env"
    done([sys.executable, "-m", "venv", "--without-pip", folder], folder.parent)
    found: Path = folder / "bin" / "python"
    done([sys.executable, "-m", "pip", "--python", found, "install", "--quiet", "--no-deps", "--no-index",
          distributions[0]], folder.parent)
    site = done([found, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder.parent).strip()
    # a line in a .pth is a folder, in which further .pth files are not read: this checkout is not on the path
    Path(site, "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return found


def test_only_archloom_is_installed(distributions: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(distributions[0]) as wheel:
        names = wheel.namelist()
    assert {name.split("/")[0] for name in names} == {
        "archloom", next(name for name in names if ".dist-info" in name).split("/")[0]}
    inside = {name.removeprefix("archloom/") for name in names}
    assert {"py.typed", "oracle/isas/gemmini.taidl", "oracle/taidl/grammar.lark"} <= inside
    assert any(name.startswith("tvm_backend/host/profiles/") for name in inside)
    assert {f"tvm_backend/page/assets/{name}" for name in (STYLE, *SCRIPTS)} <= inside
    shipped = "tvm_backend/sources/outlines"
    assert {f"{shipped}{form}/{name}" for form in ("", "/floats") for name in ("sources", "resnet50.xz")} <= inside
    assert not any(name.startswith(("tests", "benchmarks", "examples")) for name in inside)


def test_the_source_distribution_has_what_its_tests_need(distributions: tuple[Path, Path]) -> None:
    with tarfile.open(distributions[1]) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    listed = subprocess.run(["git", "ls-files", "docs", "examples", "tests", "benchmarks"], cwd=ROOT,
                            capture_output=True, text=True, check=True)
    assert {name for name in listed.stdout.splitlines() if (ROOT / name).exists()} <= names
    assert {"Makefile", "constraints.txt", "ruff.toml", "CHANGELOG.md", "LICENSE", "README.md"} <= names


@pytest.mark.slow
def test_a_users_own_packages_of_the_same_names_are_left_alone(python: Path, tmp_path: Path) -> None:
    for name in ("models", "oracle"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"NAME = 'my {name}'\n")
    (tmp_path / "mapper.py").write_text("NAME = 'my mapper'\n")
    write_tiles(tmp_path)
    (tmp_path / "run.py").write_text(OWN)
    found = done([python, "run.py"], tmp_path, ARCHLOOM_CACHE_DIR=str(tmp_path / "cache"))
    cycles, exact, own = json.loads(found.splitlines()[-1])
    assert cycles > 0 and exact is True and own > 0
    assert "gemmini" in done([python.parent / "archloom", "targets"], tmp_path)


@pytest.mark.slow
def test_the_source_distribution_passes_its_own_tests(distributions: tuple[Path, Path], tmp_path: Path) -> None:
    with tarfile.open(distributions[1]) as source:
        source.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    done([sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "not slow"], folder)
