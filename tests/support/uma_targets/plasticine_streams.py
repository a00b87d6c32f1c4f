"""Products on Plasticine as whole streams, with a tiling of one's own."""

from __future__ import annotations

from collections.abc import Mapping

from archloom.mapper.memory import align, place
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Stream
from archloom.uma_targets.plasticine.plan import WORD_BYTES, Machine, Tiling
from archloom.uma_targets.plasticine.target import Tiled


def gemm_stream(
    m: int, n: int, k: int, parameters: Mapping[str, int], tiling: Tiling, *, name: str = "gemm"
) -> Stream:
    """``A[m, k] . B[k, n] -> C[m, n]``, all float32. MappingError if the tiling does not fit."""
    machine = Machine.of(parameters)
    shapes = (("A", (m, k)), ("B", (k, n)), ("C", (m, n)))
    placed = place((name, dims, "float32", dims[0] * dims[1] * WORD_BYTES) for name, dims in shapes)
    a, b, c = (Affine(t.address) for t in placed)
    sizes = WORD_BYTES, WORD_BYTES, WORD_BYTES
    body = Tiled(m, n, k, a, b, None, c, *sizes, False, 1.0, Affine(0), None, tiling, machine).nodes()
    end = align(placed[2].address + m * n * WORD_BYTES)
    return Stream(
        "plasticine", tuple(sorted(parameters.items())), tuple(placed[:2]), (placed[2],), end, tuple(body), name)
