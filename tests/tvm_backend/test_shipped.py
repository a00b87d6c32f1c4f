"""Outlines of networks that are shipped are those of the present sources, and what is exported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from archloom.tvm_backend.frontends.onnx.skeleton import Skeleton
from archloom.tvm_backend.sources import named_networks, shipped, shipping
from archloom.tvm_backend.sources.shipped import FLOATS, FORMS, ONNX, Form
from tests.support.examples import slow

SHIPPED = [(form, file.stem) for form in FORMS for file in sorted(form.folder.glob("*.xz"))]
SOON = ((ONNX, "squeezenet"), (FLOATS, "digits_cnn"))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.folder.name)
def test_they_are_of_the_present_sources(form: Form) -> None:
    assert shipped.outline("resnet50", form) is not None, "make outlines"
    assert {file.stem for file in form.folder.glob("*.xz")} <= set(form.networks)
    assert sum(file.stat().st_size for file in shipped.FOLDER.rglob("*.*")) < 1 << 20


@pytest.mark.parametrize(("form", "name"), [case if case in SOON else slow(*case) for case in SHIPPED])
def test_they_are_what_is_exported(form: Form, name: str) -> None:
    made_with = shipped.made_by(form)[1:]
    if made_with != shipping.present(form)[1:]:
        pytest.skip(f"they were exported by {' '.join(made_with)}")
    assert shipped.outline(name, form) == named_networks.exported(name, form).content


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.folder.name)
def test_others_are_exported(form: Form, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(named_networks, "exported", lambda text, _form: Skeleton(f"exported {text}".encode()))
    monkeypatch.setenv("ARCHLOOM_CACHE_DIR", str(tmp_path))
    outline = named_networks.outline
    assert outline("resnet50", form) == outline("resnet50(image=224)", form)
    assert outline("resnet50(image=32)", form).content == b"exported resnet50(image=32)"
    monkeypatch.setattr(shipped, "sources", lambda _form: "others")
    assert outline("resnet50", form).content == b"exported resnet50"


def test_estimates_of_floats_load_neither_torch_nor_tvm(tmp_path: Path) -> None:
    code = ("import archloom, sys; archloom.estimate('digits_cnn', target='qkv');"
            "print(*[m for m in ('torch', 'tvm') if m in sys.modules])")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                         env={**os.environ, "ARCHLOOM_CACHE_DIR": str(tmp_path)})
    assert run.stdout.strip() == ""
