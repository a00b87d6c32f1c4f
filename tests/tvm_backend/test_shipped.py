"""Outlines of networks that are shipped are those of the present sources, and what is exported."""

from __future__ import annotations

from pathlib import Path

import pytest

from archloom.tvm_backend.frontends.onnx.skeleton import Skeleton
from archloom.tvm_backend.sources import named_networks, shipped
from tests.support.examples import often

MADE_WITH = (shipped.FOLDER / "sources").read_text().split()[1:]
PRESENT = [f"{package}=={named_networks.version(package)}" for package in shipped.PACKAGES]


def test_they_are_of_the_present_sources() -> None:
    assert shipped.outline("resnet50") is not None, "make outlines"
    assert {file.stem for file in shipped.FOLDER.glob("*.xz")} <= set(shipped.names())
    assert sum(file.stat().st_size for file in shipped.FOLDER.iterdir()) < 1 << 20


@pytest.mark.skipif(MADE_WITH != PRESENT, reason=f"they were exported by {' '.join(MADE_WITH)}")
@pytest.mark.parametrize("name", often((file.stem for file in sorted(shipped.FOLDER.glob("*.xz"))), ("squeezenet",)))
def test_they_are_what_is_exported(name: str) -> None:
    assert shipped.outline(name) == named_networks.exported(name).content


def test_others_are_exported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(named_networks, "exported", lambda text: Skeleton(f"exported {text}".encode()))
    monkeypatch.setenv("ARCHLOOM_CACHE_DIR", str(tmp_path))
    assert named_networks.outline("resnet50") == named_networks.outline("resnet50(image=224)")
    assert named_networks.outline("resnet50(image=32)").content == b"exported resnet50(image=32)"
    monkeypatch.setattr(shipped, "sources", lambda: "others")
    assert named_networks.outline("resnet50").content == b"exported resnet50"
