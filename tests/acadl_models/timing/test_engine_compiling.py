"""Compiling the engine: the version of Numba that it is written for, and what happens with another one."""

from __future__ import annotations

import configparser
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from packaging.requirements import Requirement

from archloom.acadl_models.timing.engine.compiling import NUMBA, compilers

ROOT = Path(__file__).parents[3]

OTHER = """
import warnings
import numba
numba.__version__ = "0.99.1"
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    from archloom.acadl_models.timing.engine import jit
assert [str(w.message) for w in found if w.category is RuntimeWarning] == [
    "the timing engine is compiled slowly and without a cache: it expects numba 0.68, not 0.99.1"
], found
"""


def required() -> Requirement:
    """What setup.cfg asks for."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    found = [line for line in setup["options"]["install_requires"].splitlines() if line.startswith("numba ")]
    return Requirement(found[0])


def test_the_package_asks_for_the_series_of_numba_that_it_is_written_for() -> None:
    major, minor = NUMBA
    asked = required().specifier
    assert f"{major}.{minor}.0" in asked and f"{major}.{minor}.9" in asked
    assert f"{major}.{minor - 1}.9" not in asked and f"{major}.{minor + 1}.0" not in asked
    assert numba.__version__ in asked
    assert all(compilers(numba.__version__))


@pytest.mark.parametrize("version", ["0.61.2", "0.67.0", "0.69.0rc1", "1.68.0"])
def test_another_series_is_told(version: str) -> None:
    with pytest.warns(RuntimeWarning, match=f"expects numba 0.68, not {version}"):
        assert compilers(version) == ({}, {})


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", OTHER + code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_parts_compile_with_another_series() -> None:
    run("""
import numpy as np
from archloom.acadl_models.timing.engine.phases.meeting import connect
kinds, low, high = np.ones(3, np.int64), np.array([[0], [3], [9]]), np.array([[4], [5], [9]])
label, related = np.empty(3, np.int64), np.empty(3, np.int64)
pairs = connect(kinds, low, high, np.full(3, 3), np.zeros(3, np.int64), label, related)
assert pairs == 1 and label[0] == label[1] != label[2] and related.tolist() == [1, 1, 1], (pairs, label, related)
""")


@pytest.mark.slow
def test_a_stream_takes_as_long_with_another_series() -> None:
    run("""
import sys
sys.path.insert(0, ".")
from random import Random
from tests.support.acadl_models.engine_strategies import random_graph, random_stream
from tests.support.acadl_models.simulators import check_equal
for seed in range(12):
    r = Random(seed)
    graph = random_graph(r)
    check_equal(graph, random_stream(r, graph, 60))
""")
