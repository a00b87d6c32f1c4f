"""Draws the architecture graphs of the pages: ``python docs/drawings.py``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from archloom.acadl_models.acadl import ArchitectureGraph, to_svg
from archloom.acadl_models.ai_engine import ai_engine
from archloom.acadl_models.eyeriss import eyeriss
from archloom.acadl_models.gemmini import gemmini
from archloom.acadl_models.mesh import mesh
from archloom.acadl_models.plasticine import plasticine
from archloom.acadl_models.qkv import qkv
from archloom.acadl_models.systolic_array import systolic_array
from archloom.acadl_models.tpu_v1 import tpu_v1
from archloom.acadl_models.triple_ring import triple_ring
from archloom.acadl_models.ultratrail import ultratrail
from archloom.acadl_models.wormhole import wormhole

HERE = Path(__file__).parent
GRAPHS: dict[str, Callable[[], ArchitectureGraph]] = {
    "ai_engine_core.svg": partial(ai_engine, columns=1),
    "eyeriss.svg": partial(eyeriss, psum_bits=32),
    "gemmini.svg": gemmini,
    "images/systolic_array_scalar.svg": partial(systolic_array, 32, 32, "os", level="scalar"),
    "images/systolic_array_tensor.svg": partial(systolic_array, 256, 256, "os"),
    "mesh.svg": mesh,
    "plasticine.svg": plasticine,
    "qkv.svg": qkv,
    "tpu_v1.svg": tpu_v1,
    "triple_ring.svg": triple_ring,
    "ultratrail.svg": ultratrail,
    "wormhole.svg": wormhole,
}


def main() -> None:
    for name, graph in GRAPHS.items():
        (HERE / name).write_text(to_svg(graph()), encoding="utf-8")


if __name__ == "__main__":
    main()
