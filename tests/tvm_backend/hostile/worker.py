"""Runs the command line on one hostile network after the other, each in a process of its own with limits.

``python worker.py N COMMAND...``: a line of JSON for every Nth network. ``python worker.py fuzz N``: N networks that
Hypothesis mutates.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from random import Random

import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# what each child needs, imported once
from archloom.tvm_backend import cli
from archloom.tvm_backend.ir import compat  # noqa: F401
from archloom.tvm_backend.sources import source  # noqa: F401
from archloom.tvm_backend.targets import lower, partition  # noqa: F401
from tests.fuzz import mutators
from tests.support.limited import limited
from tests.tvm_backend.hostile.cases import CASES, conv, product, quantized, write


def all_cases(step: int, words: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        os.chdir(folder)
        for name in list(CASES)[::step]:
            found = limited(lambda name=name: cli.main([words[0], f"{name}.onnx", *words[1:]]))  # type: ignore[misc]
            print(json.dumps({"name": name, "status": found.status, "printed": found.printed}), flush=True)


def check(content: bytes) -> None:
    path = Path(tempfile.gettempdir()) / f"fuzzed-{os.getpid()}.onnx"
    path.write_bytes(content)
    try:
        for words in (["compile", str(path), "--coverage"], ["estimate", str(path), "--no-cache"]):
            found = limited(lambda words=words: cli.main(words))  # type: ignore[misc]
            assert found.kind in ("accepted", "refused"), (words[0], found.status, found.printed[-2000:])
    finally:
        path.unlink()


def fuzz(count: int) -> None:
    made = st.sampled_from([product(), conv(), quantized(0.1)])
    options = settings(max_examples=count, deadline=None, derandomize=True, database=None,
                       suppress_health_check=list(HealthCheck))

    @options
    @given(made, st.randoms(use_true_random=False))
    def of_bytes(network: onnx.ModelProto, rng: Random) -> None:
        check(mutators.changed_bytes(rng, network.SerializeToString()))

    @options
    @given(made, st.randoms(use_true_random=False))
    def of_fields(network: onnx.ModelProto, rng: Random) -> None:
        check(mutators.changed_network(rng, network).SerializeToString())

    of_bytes()
    of_fields()


if __name__ == "__main__":
    if sys.argv[1] == "fuzz":
        fuzz(int(sys.argv[2]))
    else:
        all_cases(int(sys.argv[1]), sys.argv[2:])
