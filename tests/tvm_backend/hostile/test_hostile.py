"""Bad and hostile networks: a message that names file and culprit, exit status 2, no crash, bounded memory and time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.tvm_backend.hostile.cases import CASES

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def work(*words: str) -> str:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run([sys.executable, str(HERE / "worker.py"), *words], capture_output=True, text=True,
                          check=False, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@cache
def outcomes(*words: str) -> dict[str, Any]:
    found = [json.loads(line) for line in work(*words).splitlines()]
    return {item["name"]: item for item in found}


def judge(name: str, found: dict[str, Any], message: str | None) -> None:
    printed = found["printed"]
    assert "Traceback" not in printed and "unexpected" not in printed, printed
    if message is None:
        assert found["status"] == 0, printed
        return
    assert found["status"] == 2, printed
    said = [line for line in printed.splitlines() if line.startswith("archloom: ")]
    assert len(said) == 1 and name in said[0], printed
    assert re.search(message, said[0]), said[0]


@pytest.mark.first_case
@pytest.mark.parametrize("name", list(CASES)[::12])
def test_every_twelfth(name: str) -> None:
    judge(name, outcomes("12", "compile", "--coverage")[name], CASES[name][1])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_all(name: str) -> None:
    judge(name, outcomes("1", "compile", "--coverage")[name], CASES[name][1])


@pytest.mark.slow
def test_weights_of_two_gigabytes_are_not_read_for_an_estimate(tmp_path: Path) -> None:
    """The file of the weights is a hole: reading it would take 2 GiB, and the limit leaves room for less."""
    import onnx

    from tests.tvm_backend.hostile.cases import free, model, op, tensor

    size = 23_200
    weight = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[size, size])
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="w.bin")
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(4 * size * size)
    onnx.save(model([op("MatMul", "x w", name="mm")], tensor("x", [1, size]), free(2), [weight]), tmp_path / "net.onnx")
    code = ("import resource; resource.setrlimit(resource.RLIMIT_DATA, (2 << 30,) * 2); import archloom; "
            "print(*[archloom.estimate('net.onnx', target).macs for target in ('gemmini', 'qkv')])")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "src"),
                               "ARCHLOOM_CACHE_DIR": str(tmp_path / "cache")})
    assert done.returncode == 0, done.stderr[-2000:]
    assert [int(word) for word in done.stdout.split()] == [size * size] * 2


def test_pickles_are_not_run(tmp_path: Path) -> None:
    """A file of PyTorch's that would leave a mark when it is unpickled."""
    import pickle

    from archloom.oracle.errors import ModelError

    class Mark:
        def __reduce__(self) -> Any:
            return (os.mkdir, (str(tmp_path / "mark"),))

    import archloom

    for name in ("net.pt", "net.pth", "net.pt2", "net.onnx"):
        (tmp_path / name).write_bytes(pickle.dumps(Mark()))
        with pytest.raises(ModelError, match=re.escape(name)):
            archloom.load(tmp_path / name)
    assert not (tmp_path / "mark").exists()


@pytest.mark.slow
@pytest.mark.parametrize("words", [("compile", "-o", "out.zip"), ("estimate", "--no-cache"), ("compile", "-t", "qkv")])
@pytest.mark.parametrize("name", CASES)
def test_other_commands(name: str, words: tuple[str, ...]) -> None:
    """As above, but estimates do not read weights, and do not see what is wrong with them."""
    message = CASES[name][1]
    found = outcomes("1", *words)[name]
    if words[0] == "estimate" and found["status"] == 0 and message is not None:
        message = None
        assert re.search("weight|scale", name)
    judge(name, found, message)


@pytest.mark.slow
def test_mutated_networks() -> None:
    work("fuzz", "300")
