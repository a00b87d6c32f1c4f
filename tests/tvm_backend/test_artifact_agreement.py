"""The files of an artifact that somebody has changed, checksums included, agree with one another or are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.oracle.errors import ArchloomError, ArtifactError
from archloom.tvm_backend.artifact import files as artifact_files
from archloom.tvm_backend.executable import open_packed
from tests.fuzz import mutators
from tests.support.examples import examples, randoms
from tests.tvm_backend.hostile.cases import quantized

NETWORK, HOST = "network.json", "host.json"


@cache
def sound() -> dict[str, bytes]:
    made = archloom.compile(archloom.load(quantized(0.1)), target="gemmini").packed()
    return {name: data for name, data in mutators.unpacked(made).items() if name != artifact_files.MANIFEST}


def ran(files: dict[str, bytes]) -> None:
    packed = mutators.packed(artifact_files.with_manifest(files))
    open_packed(packed, "net.zip").run({"x": np.ones((2, 4), np.float32)}, executor="interpreter")


@given(name=st.sampled_from((NETWORK, HOST)), rng=randoms)
@examples(20, 2000)
def test_changed_files_are_refused_or_run(name: str, rng: Random) -> None:
    try:
        ran({**sound(), name: mutators.changed_json(rng, sound()[name])})
    except ArchloomError as error:
        assert str(error)


@pytest.mark.parametrize(("change", "message"), [
    (lambda region: region.update(steps=[]), "region 'gemmini_0' gives 'qm': expected one of qx"),
    (lambda region: region.update(inputs=[]), "step 'mm' reads 'qx'"),
    (lambda region: region.update(symbol="other"),
     "its host part calls region 'gemmini_0' with 1 tensors, expected one of: 'other' of 1 tensors"),
    (lambda region: region.update(inputs=["qx", "qm"]), "with 1 tensors, expected one of: 'gemmini_0' of 2 tensors"),
    (lambda region: region["values"].pop(), "region 'gemmini_0' states no 'qm'"),
])
def test_what_does_not_fit_together_is_said(change: Callable[[dict[str, Any]], object], message: str) -> None:
    network = json.loads(sound()[NETWORK])
    change(network["regions"][0])
    with pytest.raises(ArtifactError, match=message):
        ran({**sound(), NETWORK: json.dumps(network).encode()})


def test_results_of_another_number_are_said() -> None:
    network = json.loads(sound()[NETWORK])
    network["outputs"] *= 2
    with pytest.raises(ArtifactError, match="its host part gives 1 results, expected 2"):
        ran({**sound(), NETWORK: json.dumps(network).encode()})
