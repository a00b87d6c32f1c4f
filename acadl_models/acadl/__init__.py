"""ACADL, the abstract computer architecture description language (arXiv:2402.00069): classes, edges and graphs."""

from archloom.acadl_models.acadl.base import ACADLObject, Data, Instruction
from archloom.acadl_models.acadl.components import Included, Logic, Memory, OffChip, Technology, Wire
from archloom.acadl_models.acadl.describe import describe
from archloom.acadl_models.acadl.draw import to_dot, to_svg
from archloom.acadl_models.acadl.edges import ACADLDanglingEdge, ACADLEdge, EdgeKind, connect_dangling_edge
from archloom.acadl_models.acadl.generate import Generated, Template, architecture, create_ag, generate
from archloom.acadl_models.acadl.graph import ArchitectureGraph, Bank
from archloom.acadl_models.acadl.semantics import Semantics
from archloom.acadl_models.acadl.stages import ExecuteStage, InstructionFetchStage, PipelineStage
from archloom.acadl_models.acadl.storages import (
    DRAM,
    SRAM,
    BufferStorage,
    CacheInterface,
    DataStorage,
    Link,
    MemoryInterface,
    RegisterFile,
    ReplacementPolicy,
    SetAssociativeCache,
)
from archloom.acadl_models.acadl.units import FunctionalUnit, InstructionMemoryAccessUnit, MemoryAccessUnit

CONTAINS, FORWARD, READ_DATA, WRITE_DATA, BACKED_BY = EdgeKind

__all__ = [
    "ACADLDanglingEdge", "ACADLEdge", "ACADLObject", "ArchitectureGraph", "BACKED_BY", "Bank",
    "BufferStorage", "CONTAINS",
    "CacheInterface", "DRAM", "Data", "DataStorage", "EdgeKind", "ExecuteStage", "FORWARD", "FunctionalUnit",
    "Generated", "Included", "Instruction", "InstructionFetchStage", "InstructionMemoryAccessUnit", "Link", "Logic",
    "Memory", "MemoryAccessUnit", "MemoryInterface", "OffChip", "PipelineStage", "READ_DATA", "RegisterFile",
    "ReplacementPolicy", "SRAM", "Semantics", "SetAssociativeCache", "Technology", "Template", "WRITE_DATA", "Wire",
    "architecture", "connect_dangling_edge", "create_ag", "describe", "generate", "to_dot", "to_svg",
]
