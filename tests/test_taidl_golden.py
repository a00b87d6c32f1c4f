"""``benchmarks/oracle/taidl_golden.py``: recorded vectors are met, wrong ones and unknown names are told."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.golden_vectors import AMX, exo, tiled_matmul

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "data" / "taidl"


def golden(folder: Path) -> tuple[int, dict[str, Any], str]:
    """Exit status, the JSON object and all of stdout."""
    script = str(ROOT / "benchmarks" / "oracle" / "taidl_golden.py")
    run = subprocess.run([sys.executable, script, "--json", "--data", str(folder)],
                         capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.stdout, run.stderr
    return run.returncode, json.loads(run.stdout.splitlines()[-1]), run.stdout


def test_the_recorded_vectors_are_met() -> None:
    status, result, text = golden(DATA)
    assert status == 0, text
    assert result["vectors"] == result["equal"] == len(list(DATA.glob("*.npz"))) >= 4
    assert result["unequal"] == result["errors"] == 0


@pytest.mark.slow
def test_what_differs_and_what_is_not_known_is_told(tmp_path: Path) -> None:
    name = "gemmini_tiled_matmul_dim16_i4_set0"
    with np.load(DATA / f"{name}.npz") as data:
        arrays = {k: data[k] for k in data.files}
    arrays["C"] = arrays["C"].copy()
    arrays["C"][3, 5] ^= 1
    np.savez(tmp_path / f"{name}.npz", **arrays)
    shutil.copy(tmp_path / f"{name}.npz", tmp_path / "abacus_beads3.npz")
    (tmp_path / "gemmini_tiled_matmul_dim16_i2_set0.npz").write_bytes(b"no archive")
    np.savez(tmp_path / "gemmini_exo_3x4x5_set7.npz", A=arrays["A"], B=arrays["B"], C=arrays["C"])
    np.savez(tmp_path / "gemmini_tiled_matmul_dim16_i4_set9.npz", A=arrays["A"], C=arrays["C"])
    status, result, text = golden(tmp_path)
    assert status == 2 and (result["vectors"], result["equal"], result["unequal"], result["errors"]) == (5, 0, 1, 4)
    assert "OS C: 1 of 1024 elements differ, the first at [3, 5]" in text and "WS C:" in text
    assert "no kernel goes by this name; names are gemmini_tiled_matmul_dim{D}_i{I}_set{S}," in text
    assert "argument A" in text
    assert "there is no array 'B', only A, C" in text


@pytest.mark.slow
def test_vectors_of_other_sizes_are_met(tmp_path: Path) -> None:
    """Sizes that were never recorded, off the multiples of anything, against plain NumPy."""
    rng = np.random.default_rng(0)
    for dim, tiles in ((4, 3), (16, 5)):
        np.savez(tmp_path / f"gemmini_tiled_matmul_dim{dim}_i{tiles}_set3.npz", **tiled_matmul(rng, dim, tiles))
    for n, m, k in ((1, 1, 1), (17, 33, 65)):
        np.savez(tmp_path / f"gemmini_exo_{n}x{m}x{k}_set1.npz", **exo(rng, n, m, k))
    for kernel, blocks in zip(AMX, (1, 2, 3, 5, 7), strict=True):
        np.savez(tmp_path / f"amx_{kernel.__name__}_blocks{blocks}.npz", **kernel(rng, blocks))
    status, result, text = golden(tmp_path)
    assert status == 0 and result["equal"] == 9, text


def test_a_directory_without_vectors_is_refused(tmp_path: Path) -> None:
    script = str(ROOT / "benchmarks" / "oracle" / "taidl_golden.py")
    run = subprocess.run([sys.executable, script, "--data", str(tmp_path)],
                         capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 2 and "no .npz files" in run.stderr


def test_an_unknown_suite_is_refused() -> None:
    run = subprocess.run([sys.executable, str(ROOT / "benchmarks" / "oracle" / "oracle.py"), "--suite", "exo,nonsense"],
                         capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 1 and "there is no suite" in run.stderr and "tiled" in run.stderr


@pytest.mark.slow
def test_the_oracle_s_benchmark_checks_and_times_a_kernel() -> None:
    script = str(ROOT / "benchmarks" / "oracle" / "oracle.py")
    run = subprocess.run(
        [sys.executable, script, "--suite", "tiled", "--only", "_ws_dim16_i2", "--json"],
        capture_output=True, text=True, cwd=ROOT, check=True)
    rows = json.loads(run.stdout.splitlines()[-1])["kernels"]
    assert [r["name"] for r in rows] == ["tiled_ws_dim16_i2", "tiled_ws_dim16_i256"]
    assert all({"oracle_ms", "native_ms", "taidl_ms", "compile_ms"} <= r.keys() for r in rows)
    assert all(r["oracle_ms"] > 0 and r["native_ms"] > 0 for r in rows) and rows[1]["instructions"] == 1284
