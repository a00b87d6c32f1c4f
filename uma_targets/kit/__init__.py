"""A target of matrix products in one short module: what a new accelerator with a GEMM needs, and no more.

A target states a graph (``acadl_models/``), an ISA (``oracle/isas/``), an emission and its tiles::

    # uma_targets/mine/target.py
    def emit(gemm: Gemm, mapping: Mapping, parameters: Mapping[str, int]) -> Nodes:
        # one product C[m, n] = A[m, k] · B[k, n] + bias[n]; loops stay loops
        return each("mt", pieces(gemm.m, mapping.size("m")), lambda i, run: [
            Instr.make("load", dram=gemm.a_at(i * mapping.size("m"), 0), rows=run.size, stride=gemm.strides[0]), ...])

    def tiling(shape: Shape, hardware: Hardware, options: Mapping[str, Any]) -> Tiling:
        dim = hardware.dim
        return Tiling({d: divided(e, dim, most=8 * dim) for d, e in (("m", shape.m), ("n", shape.n), ("k", shape.k))},
                      demand={"spad": lambda c: c["m"] * c["k"] // dim}, room={"spad": hardware.memory("spad").rows})

    MINE = GemmKit(name="mine", description="one line", options=OPTIONS, isa="mine", graph=graph_of_options,
                   isa_parameters=lambda graph: graph.parameters, emit=emit, tiling=tiling,
                   macs_per_cycle=lambda graph: graph.parameters["dim"] ** 2)

    class Mine(KitTarget):
        kit = MINE

and one line in ``archloom.tvm_backend.targets.registry.BUILT_IN`` (or an entry point of the group ``archloom.targets``
in another package). With it ``targets``, ``describe``, ``estimate``, ``compile``, ``run`` and ``check`` work.

The worked example is :mod:`archloom.uma_targets.oma`; ``docs/writing_a_target.md`` explains it, and says which
numbers lie where, what a mapping has, and how candidates are ranked.
"""

from archloom.mapper.hardware import Hardware
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.options import GraphOptions, Option
from archloom.mapper.pipeline import Issue, Loop
from archloom.mapper.space import Columns, divided
from archloom.mapper.tiling import Shape, Tiling, square_tiles, tile_loads
from archloom.oracle.stream import Instr
from archloom.uma_targets.kit.gemm import EmitGemm, Gemm
from archloom.uma_targets.kit.nest import Nodes, Piece, ceil_div, each, pieces, repeat
from archloom.uma_targets.kit.target import GemmKit, KitTarget

__all__ = [
    "Columns", "EmitGemm", "Gemm", "GemmKit", "GraphOptions", "Hardware", "Instr", "Issue", "KitTarget", "Loop",
    "Nodes", "Option", "Piece", "Shape", "TileMapping", "Tiling", "ceil_div", "divided", "each", "pieces", "repeat",
    "square_tiles", "tile_loads",
]
