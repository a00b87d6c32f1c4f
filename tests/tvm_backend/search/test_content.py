"""Candidates are told by what they are, in every process alike."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import onnx
import pytest

from archloom.oracle.errors import InputError, ModelError, TargetError
from archloom.tvm_backend.search import content
from archloom.tvm_backend.search.candidate import Candidate, checked
from tests.support.tvm_backend.small_networks import float_cnn


def built(width: int, *, depth: int = 2) -> str:
    return f"gemm(m={width},n={width},k={depth})"


def around(width: int) -> Any:
    return lambda: built(width)


def module(channels: int) -> Any:
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, channels, 3)), torch.zeros(1, 3, 8, 8)


ALIKE = [
    (lambda: "resnet50", lambda: "resnet50"), (float_cnn, float_cnn),
    (lambda: partial(built, 8), lambda: partial(built, 8)), (lambda: around(8), lambda: around(8)),
    (lambda: module(4), lambda: module(4)),
]
DIFFERENT = [
    (lambda: "resnet50", lambda: "resnet18"), (float_cnn, lambda: float_cnn(1)),
    (lambda: partial(built, 8), lambda: partial(built, 9)),
    (lambda: partial(built, 8), lambda: partial(built, 8, depth=3)),
    (lambda: around(8), lambda: around(9)), (lambda: module(4), lambda: module(5)),
    (lambda: module(4), lambda: (module(4)[0], module(4)[1][:, :, :6])),
]


@pytest.mark.parametrize("a, b", ALIKE)
def test_what_is_alike_has_one_key(a: Any, b: Any) -> None:
    assert Candidate(a()).key == Candidate(b()).key


@pytest.mark.parametrize("a, b", DIFFERENT)
def test_what_differs_has_several(a: Any, b: Any) -> None:
    assert Candidate(a()).key != Candidate(b()).key


def test_a_file_is_its_content(tmp_path: Path) -> None:
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path in paths:
        onnx.save(float_cnn(), path)
    first, second = (Candidate(path).key for path in paths)
    assert first == second == Candidate(str(paths[0])).key
    onnx.save(float_cnn(1), paths[0])
    assert Candidate(paths[0]).key != first
    with pytest.raises(ModelError, match=r"none\.onnx: no such file"):
        _ = Candidate(tmp_path / "none.onnx").key


def test_machine_weights_and_figures_count() -> None:
    plain = Candidate("resnet50", "gemmini", {"dim": 16})
    assert plain.key == Candidate("resnet50").key == Candidate(["resnet50"], "gemmini", {"dim": "16"}).key
    others = [Candidate("resnet50", "gemmini", {"dim": 8}), Candidate("resnet50", "qkv"),
              Candidate("resnet50", weights=[2]), Candidate("resnet50", figures={"score": 1}),
              Candidate("resnet50", figures={"score": around(1)}), Candidate("resnet50", as_int8=True)]
    assert len({plain.key, *(other.key for other in others)}) == len(others) + 1


def test_the_file_of_own_energies_is_its_content(tmp_path: Path) -> None:
    file = tmp_path / "energies.toml"
    keys = []
    for text in ("# one\n", "# another\n"):
        file.write_text(text)
        keys.append(Candidate("resnet50", options={"energy": str(file)}).key)
    assert keys[0] != keys[1] != Candidate("resnet50").key


def test_what_cannot_be_told_is_refused() -> None:
    with pytest.raises(InputError, match="built: expected numbers, texts, tuples and functions .* found object"):
        _ = Candidate(partial(built, object())).key  # type: ignore[arg-type]
    with pytest.raises(TargetError, match="unknown option 'spad_kib'; did you mean"):
        _ = Candidate("resnet50", options={"spad_kib": 64}).key
    with pytest.raises(InputError, match=r"weights: expected 1 positive numbers, .* found \[1.0, 2.0\]"):
        _ = Candidate("resnet50", weights=[1, 2]).key
    with pytest.raises(InputError, match="a space returns a Candidate, a network, or a pair .*; found int"):
        checked(3)
    assert checked("resnet50").networks == ("resnet50",)


def test_titles_say_what_was_given() -> None:
    assert content.title(partial(built, 8, depth=3)) == "built(8, depth=3)"
    assert content.title(Path("net.onnx")) == "net.onnx" and content.title(module(4)) == "Sequential"
