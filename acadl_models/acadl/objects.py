"""All classes of ACADL (section 3 of the paper) in one place; each kind has its own module."""

from __future__ import annotations

from archloom.acadl_models.acadl.base import ACADLObject, Data, Instruction
from archloom.acadl_models.acadl.caches import CacheInterface, ReplacementPolicy, SetAssociativeCache
from archloom.acadl_models.acadl.links import Link
from archloom.acadl_models.acadl.stages import ExecuteStage, InstructionFetchStage, PipelineStage
from archloom.acadl_models.acadl.storages import DRAM, SRAM, DataStorage, MemoryInterface, RegisterFile
from archloom.acadl_models.acadl.units import FunctionalUnit, InstructionMemoryAccessUnit, MemoryAccessUnit, UnitLatency

__all__ = [
    "ACADLObject", "CacheInterface", "DRAM", "Data", "DataStorage", "ExecuteStage", "FunctionalUnit", "Instruction",
    "InstructionFetchStage", "InstructionMemoryAccessUnit", "Link", "MemoryAccessUnit", "MemoryInterface",
    "PipelineStage", "RegisterFile", "ReplacementPolicy", "SRAM", "SetAssociativeCache", "UnitLatency",
]
