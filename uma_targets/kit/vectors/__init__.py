"""Vector code for nests of loops over scalar operations (:mod:`archloom.mapper.nests`): one generator for all.

A target brings a :class:`~archloom.uma_targets.kit.vectors.unit.Unit`; that of RISC-V V is here, too.
"""

from archloom.uma_targets.kit.vectors.emit import Choice, Words, choices_of, nodes_of
from archloom.uma_targets.kit.vectors.operators import VectorKit
from archloom.uma_targets.kit.vectors.riscv import RiscvV
from archloom.uma_targets.kit.vectors.unit import Unit

__all__ = ["Choice", "RiscvV", "Unit", "VectorKit", "Words", "choices_of", "nodes_of"]
