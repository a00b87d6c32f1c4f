"""Outlines of networks by name that were exported before and are shipped: an estimate of one needs no torch.

They are of the networks' own sizes, and of the sources that their folder's file ``sources`` names: where these have
changed since, networks are exported anew. ``python -m archloom.tvm_backend.sources.shipping`` writes all (``make
outlines``).
"""

from __future__ import annotations

import hashlib
import lzma
from functools import cache
from pathlib import Path

from archloom.models import catalogue

FOLDER = Path(__file__).parent / "outlines"
PACKAGES = ("torch", "onnx", "onnxscript", "transformers")
"""What networks are exported by."""
DRAWN = ("light_bvlc_alexnet", "light_vgg19", "light_zfnet512")
"""Of the light test networks, those whose weights take seconds to draw."""
_PARTS = ("models", "tvm_backend/frontends/torch", "tvm_backend/frontends/onnx/skeleton.py")


def outline(text: str) -> bytes | None:
    """The outline of the network that ``text`` names; None where none is shipped, or the sources have changed."""
    try:
        packed = (FOLDER / f"{text}.xz").read_bytes()
        if (FOLDER / "sources").read_text().split()[0] != sources():
            return None
    except OSError:
        return None
    return lzma.decompress(packed)


def names() -> list[str]:
    """Of all networks that have an outline."""
    return [*(network.name for network in catalogue.NETWORKS), *catalogue.TRAINED, *DRAWN]


@cache
def sources() -> str:
    """Changes with the code that networks are made and exported by."""
    root, digest = Path(__file__).resolve().parents[2], hashlib.sha256()
    for part in _PARTS:
        for file in sorted((root / part).rglob("*.py")) or [root / part]:
            digest.update(file.read_bytes())
    return digest.hexdigest()
