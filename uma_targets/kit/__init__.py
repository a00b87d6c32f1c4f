"""A target of matrix products in one short module: what a new accelerator with a GEMM needs, and no more.

A target states a graph (``acadl_models/``), an ISA (``oracle/isas/``), an emission and its tiles as a :class:`GemmKit`,
and one line in ``archloom.tvm_backend.targets.registry.BUILT_IN`` (or an entry point of the group ``archloom.targets``
in another package). With it ``targets``, ``describe``, ``estimate``, ``compile``, ``run`` and ``check`` work.

The worked example is :mod:`archloom.uma_targets.oma`; ``docs/writing_a_target.md`` says what each of them is, which
numbers lie where, what a mapping has, and how candidates are ranked.
"""

from archloom.mapper.costs.rates import Issue, Loop
from archloom.mapper.hardware import Hardware
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.options import GraphOptions, Option
from archloom.mapper.requantization import DOUBLING_HIGH, HALF_EVEN, HALF_UP, TRUNCATED, Requantizer
from archloom.mapper.space import Columns, divided
from archloom.mapper.tiling import Shape, Tiling, square_tiles, tile_loads
from archloom.oracle.stream import Instr
from archloom.uma_targets.kit.gemm import EmitGemm, Gemm
from archloom.uma_targets.kit.nest import Nodes, Piece, ceil_div, each, pieces, repeat
from archloom.uma_targets.kit.target import GemmKit, KitTarget

__all__ = [
    "DOUBLING_HIGH", "HALF_EVEN", "HALF_UP", "TRUNCATED", "Columns", "EmitGemm", "Gemm", "GemmKit", "GraphOptions",
    "Hardware", "Instr", "Issue", "KitTarget", "Loop", "Nodes", "Option", "Piece", "Requantizer", "Shape",
    "TileMapping", "Tiling", "ceil_div", "divided", "each", "pieces", "repeat", "square_tiles", "tile_loads",
]
