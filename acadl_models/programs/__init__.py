"""Programs of ACADL instructions on architecture graphs, without an ISA: run, and timed (docs/acadl.md, "Programs").

``execute`` runs a list of :class:`~archloom.acadl_models.acadl.Instruction` one after the other; ``simulate`` says how
many cycles that takes, too.
"""

from archloom.acadl_models.programs.execution import Run, execute
from archloom.acadl_models.programs.timed import Simulated, simulate

__all__ = ["Run", "Simulated", "execute", "simulate"]
