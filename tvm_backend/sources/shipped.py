"""Outlines of networks by name that were exported before and are shipped: an estimate of one needs no torch.

There are two forms: float ONNX, of which the quantized network is made (:data:`ONNX`), and plain expressions as TVM
imports them from torch (:data:`FLOATS`), which floats are computed by. They are of the networks' own sizes, and of the
sources that the file ``sources`` beside them names: where these have changed since, networks are exported anew.
``python -m archloom.tvm_backend.sources.shipping`` writes all (``make outlines``).
"""

from __future__ import annotations

import hashlib
import lzma
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from archloom.models import catalogue

DRAWN = ("light_bvlc_alexnet", "light_vgg19", "light_zfnet512")
"""Of the light test networks, those whose weights take seconds to draw; they are ONNX in any numbers."""
CATALOGUE = (*(network.name for network in catalogue.NETWORKS), *catalogue.TRAINED)
"""Networks that torch exports."""
_MODULES = ("models", "tvm_backend/frontends/torch")
_OTHERS = ("models/huggingface.py",)
"""Of these, what makes no network by name."""


@dataclass(frozen=True)
class Form:
    """A form of outlines: in which ``folder``, of which ``networks``, made by which ``packages`` and by which
    ``parts`` of archloom."""

    folder: Path
    networks: tuple[str, ...]
    packages: tuple[str, ...]
    parts: tuple[str, ...]


FOLDER = Path(__file__).parent / "outlines"
ONNX = Form(FOLDER, (*CATALOGUE, *DRAWN), ("torch", "onnx", "onnxscript", "transformers"),
            (*_MODULES, "tvm_backend/frontends/onnx/skeleton.py"))
FLOATS = Form(FOLDER / "floats", CATALOGUE, ("torch", "apache-tvm", "transformers"),
              (*_MODULES, "tvm_backend/ir/bare.py", "tvm_backend/ir/written.py", "tvm_backend/model.py",
               "tvm_backend/passes/constants.py"))
FORMS = (ONNX, FLOATS)


def outline(text: str, form: Form) -> bytes | None:
    """The outline of the network that ``text`` names; None where none is shipped, or the sources have changed."""
    try:
        packed = (form.folder / f"{text}.xz").read_bytes()
        if made_by(form)[0] != sources(form):
            return None
    except OSError:
        return None
    return lzma.decompress(packed)


def made_by(form: Form) -> list[str]:
    """What the outlines that are there were made by: :func:`sources`, then packages with their versions."""
    return (form.folder / "sources").read_text().split()


@cache
def sources(form: Form) -> str:
    """Changes with the code that networks are made and exported by."""
    root, digest = Path(__file__).resolve().parents[2], hashlib.sha256()
    for part in form.parts:
        for file in sorted((root / part).rglob("*.py")) or [root / part]:
            if str(file.relative_to(root)) not in _OTHERS:
                digest.update(file.read_bytes())
    return digest.hexdigest()
