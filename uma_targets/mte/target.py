"""The UMA target ``mte``: networks of float32, float16, bfloat16, and quantized ones on a vector core with tiles in
its registers, or with vectors alone.

:mod:`.emit` has the instructions of products, :mod:`.convolution` what makes convolutions sums of such, the kit's
vector code those of all else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archloom.acadl_models.acadl import ArchitectureGraph, RegisterFile
from archloom.acadl_models.mte import macs_per_cycle, mte
from archloom.mapper.nests import HALVES
from archloom.mapper.packing import Place
from archloom.mapper.workload import Workload
from archloom.oracle.affine import Affine
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Tiling
from archloom.uma_targets.kit.attention import Kernel
from archloom.uma_targets.kit.vectors import RiscvV, VectorKit
from archloom.uma_targets.mte import convolution
from archloom.uma_targets.mte.emit import BITS, TYPES, Machine, emit
from archloom.uma_targets.mte.tiling import Walk, tiling

GRAPH = kit.GraphOptions(mte)


def _machine(options: Mapping[str, Any]) -> Machine:
    return Machine(**GRAPH.graph(options).parameters)


def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> Tiling:
    return tiling(shape, hardware, _machine(options), Walk.of_matrix(shape.m))


def _unit(parameters: Mapping[str, int]) -> RiscvV:
    return RiscvV(parameters["vlen"], parameters["registers"])


def _free(graph: ArchitectureGraph) -> int:
    """Physical registers beyond those with names: one instruction writes no more."""
    file = graph.objects[graph.buffers["v"][0].storage]
    assert isinstance(file, RegisterFile) and file.physical_registers is not None
    return file.physical_registers - graph.parameters["registers"]


def _layouts(work: Workload, sizes: Mapping[str, Any]) -> Mapping[str, Place]:
    """A constant B of bytes lies column by column where there are tiles; so do the matrices of a kernel."""
    if not TYPES[work.inputs[1].item_bytes].mixed or sizes["rlen"] == sizes["vlen"]:
        return {}
    return {"B": (Affine.variable("n"), Affine.variable("k"))} if work.kind == "gemm" else {
        "W": convolution.place(work)}


class Mte(kit.KitTarget):
    """Products of float32 by tiles, or by vectors."""

    kit = kit.GemmKit(
        name="mte", isa="mte", graph=GRAPH.graph, options=GRAPH.options(), emit=emit, tiling=_tiling,
        description="a vector core whose registers hold tiles of matrices, and those it is compared with (MTE)",
        macs_per_cycle=macs_per_cycle,
        rates={"int8": BITS // 8, **dict.fromkeys(HALVES, BITS // 16)}, numbers="float32",
        residual=True, sums_of_bytes=True, halves=lambda options: _machine(options).rows > 1,
        kernels={"conv2d": Kernel(convolution.stream, convolution.space(_machine))}, in_place=convolution.pays,
        layouts=_layouts, vectors=VectorKit(_unit, _free))
