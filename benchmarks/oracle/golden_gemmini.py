"""The runners of vectors recorded from Spike: the tiled matmul in both dataflows, and Exo's GEMMs."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from archloom.oracle.kernel import Kernel
from benchmarks.oracle.golden_runner import Arrays, Runner
from examples.gemmini_kernels import exo_matmul, tiled_matmul


def computed(kernel: Kernel, arrays: Arrays) -> Arrays:
    """The kernel's results by name."""
    results = kernel.function(*(arrays[t.name] for t in kernel.arguments))
    return {t.name: np.asarray(x) for t, x in zip(kernel.results, results, strict=True)}


def tiled(match: re.Match[str], arrays: Arrays) -> Iterator[tuple[str, Arrays]]:
    dim, tiles = int(match["dim"]), int(match["i"])
    yield "OS", computed(tiled_matmul(dim, tiles, "OS"), arrays)
    yield "WS", computed(tiled_matmul(dim, tiles, "WS"), arrays)


def exo(match: re.Match[str], arrays: Arrays) -> Iterator[tuple[str, Arrays]]:
    n, m, k = (int(match[s]) for s in "nmk")
    yield "int32", computed(exo_matmul(n, m, k), arrays)
    narrow = computed(exo_matmul(n, m, k, out="int8"), arrays)["C"]
    yield "int8", {"C": narrow.astype(np.int32)}


def runners() -> list[Runner]:
    return [
        Runner(r"gemmini_tiled_matmul_dim(?P<dim>\d+)_i(?P<i>\d+)(_set\d+)?", tiled,
               names="gemmini_tiled_matmul_dim{D}_i{I}_set{S}"),
        Runner(r"gemmini_exo_(?P<n>\d+)x(?P<m>\d+)x(?P<k>\d+)(_set\d+)?", exo, names="gemmini_exo_{N}x{M}x{K}_set{S}"),
    ]
