"""The MTE paper's convolutions as they are measured: what they compute, and what of a table they are."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.mte import ARCHITECTURES
from archloom.mapper.mapping import Mapping
from archloom.oracle import interpreter, taidl
from archloom.uma_targets.mte.emit import Machine
from archloom.uma_targets.mte.target import Mte
from benchmarks.published.mte_kernels import (
    CATEGORIES,
    Convolution,
    category,
    configuration_of,
    convolutions,
    counted,
    mapping_of,
    products,
)
from tests.support.examples import examples, randoms

MACHINES = [Machine(512, 128, 32), Machine(512, 512, 32)]


def laid_out(case: Convolution, image: np.ndarray) -> np.ndarray:
    """[images, rows, columns, channels] as the stream reads it: columns sorted by their remainder."""
    padded = np.zeros((image.shape[0], case.height, case.stride * case.plane, case.inputs), np.float32)
    padded[:, :image.shape[1], :image.shape[2]] = image
    sorted_columns = [padded[:, :, first::case.stride] for first in range(case.stride)]
    return np.concatenate(sorted_columns, axis=2).transpose(1, 2, 0, 3).reshape(-1, case.inputs)


def convolved(case: Convolution, image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """[rows, columns, images, channels] in float64."""
    total = np.zeros((case.rows, case.columns, case.images, case.channels))
    for y in range(case.window[0]):
        for x in range(case.window[1]):
            seen = image[:, y:y + case.rows * case.stride:case.stride, x:x + case.columns * case.stride:case.stride]
            total += seen.transpose(1, 2, 0, 3).astype(np.float64) @ weights[y, x]
    return total


@examples(4, 200)
@given(randoms)
def test_convolutions_of_any_window_and_stride(r: Random) -> None:
    machine, stride = r.choice(MACHINES), r.randint(1, 2)
    window = (r.randint(1, 3), r.randint(1, 3))
    rows, columns = r.randint(1, 3), r.randint(1, 3)
    width = (columns - 1) * stride + window[1] + r.randint(0, 1)
    case = Convolution("", r.randint(1, 4), r.randint(1, 6), r.randint(1, 9), window, stride, rows, columns, width)
    mapping = Mapping("gemm", "", (("m", r.randint(1, 2) * machine.rows), ("n", machine.columns()), ("k", case.inputs)),
                      ("m", "n", "k"), buffers=(("B", r.randint(1, 3)),))
    rng = np.random.default_rng(r.getrandbits(32))
    image = rng.standard_normal((case.images, case.height, width, case.inputs)).astype(np.float32)
    weights = rng.standard_normal((*window, case.inputs, case.channels)).astype(np.float32)
    stream = case.stream(mapping, machine, rows, columns * case.images)
    inputs = {"A": laid_out(case, image), "B": weights.reshape(-1, case.channels)}
    found = interpreter.run(stream, taidl.load("mte", **vars(machine)), inputs)["C"]
    np.testing.assert_allclose(found, convolved(case, image, weights).reshape(-1, case.channels), atol=1e-4)


@pytest.mark.slow
@examples(12, 300)
@given(randoms, st.sampled_from(sorted(ARCHITECTURES)))
def test_what_is_in_proportion_is_near_all_of_it_and_over_its_bound(r: Random, architecture: str) -> None:
    """No convolution takes fewer cycles than its products do at the peak."""
    configuration = configuration_of(architecture)
    window, columns = (r.randint(1, 3), r.randint(1, 3)), r.randint(9, 16)
    case = Convolution("", 16, r.randint(16, 64), 16 * r.randint(1, 6), window, 1, r.randint(9, 16), columns,
                       columns + window[1] - 1)
    mapping = mapping_of(case, configuration)
    found, whole = (case.cost(configuration, mapping, exact=exact).cycles for exact in (False, True))
    assert found >= case.macs / Mte.kit.macs_per_cycle(configuration.graph)
    assert abs(found / whole - 1) <= 0.35  # where later blocks evict what earlier ones keep, 30.1 % were seen


def test_the_workloads_are_those_of_the_paper() -> None:
    """Numbers that its text states, and categories by channels."""
    assert len(products()) == 18 and len(convolutions("work75")) == 75
    assert {category(case) for case in convolutions("work75")} == set(CATEGORIES)
    assert sum(case.channels <= CATEGORIES["IV"] for case in convolutions("work75")) == 52


def test_scalar_instructions_are_not_counted() -> None:
    """A step of a block of 2 rows of vectors: a vector of B, two numbers of A, two multiply-adds."""
    machine, case = MACHINES[1], Convolution("", 2, 1, 16, (1, 1), 1, 1, 1, 1)
    mapping = Mapping("gemm", "", (("m", 2), ("n", 16), ("k", 1)), ("m", "n", "k"), buffers=(("B", 1),))
    assert counted(case.stream(mapping, machine, 1, 2).body) == 2 + 1 + 2 + 2  # begin, B, products, store
