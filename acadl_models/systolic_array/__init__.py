"""The parameterizable systolic array of the ACADL paper (section 4.2), at two levels.

At scalar level every PE is an object and every multiplication an instruction; at tensor level the array is one unit,
and an instruction is a step of all its PEs. Both take the same problems in the same cycles. What is charged for a fold
that does not fill the array, and what is counted, are options (:mod:`.conventions`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archloom.acadl_models.systolic_array.conventions import CONVENTIONS, EQUEUE, SCALE_SIM, Convention
from archloom.acadl_models.systolic_array.design import DATAFLOWS, LEVELS, Design

if TYPE_CHECKING:
    from archloom.acadl_models.acadl import ArchitectureGraph

__all__ = [
    "CONVENTIONS", "Convention", "DATAFLOWS", "Design", "EQUEUE", "LEVELS", "SCALE_SIM", "graph_of", "systolic_array",
]


def systolic_array(rows: int, columns: int, dataflow: str, **options: Any) -> "ArchitectureGraph":
    """The architecture graph of an array of ``rows`` × ``columns`` PEs.

    ``dataflow``: what stays in the PEs, the sums (``"os"``), the weights (``"ws"``) or the inputs (``"is"``). The
    other options are those of :class:`Design`: ``level``, ``convention``, sizes of the memories, ``clock_hz``. Raises
    TargetError that lists every option that is wrong.
    """
    return graph_of(Design.of(rows=rows, columns=columns, dataflow=dataflow, **options))


def graph_of(design: Design) -> "ArchitectureGraph":
    """The architecture graph of ``design``."""
    if design.level == "tensor":
        from archloom.acadl_models.systolic_array import tensor

        return tensor.build(design)
    from archloom.acadl_models.systolic_array import scalar

    return scalar.build(design)
