"""From plans of sweeps to streams."""

from __future__ import annotations

from collections.abc import Callable

from archloom.mapper.spatial.columns_emit import ColumnsEmitter
from archloom.mapper.spatial.elementwise import Elementwise
from archloom.mapper.spatial.elementwise_emit import ElementwiseEmitter
from archloom.mapper.spatial.emit import Nodes
from archloom.mapper.spatial.machine import Machine
from archloom.mapper.spatial.placing import placed, program
from archloom.mapper.spatial.reduction import Columns, Rows
from archloom.mapper.spatial.rows_emit import RowsEmitter
from archloom.mapper.spatial.sweep import Sweep, SweepPlan, check_sweep
from archloom.mapper.spatial.sweep_parts import SweepEmitter
from archloom.oracle.stream import Instr, Stream

_EMITTERS: dict[type[Sweep], Callable[[Sweep, SweepPlan, Machine, tuple[int, ...]], SweepEmitter]] = {
    Elementwise: ElementwiseEmitter, Rows: RowsEmitter, Columns: ColumnsEmitter,
}


def emit_sweep(work: Sweep, plan: SweepPlan, machine: Machine) -> Stream:
    """The stream; tensors lie as ``work.pack`` gives them. MappingError if the plan does not fit."""
    check_sweep(work, plan, machine)
    tensors = placed(work.tensors())
    where = tuple(tensor.address for tensor in tensors)
    body: Nodes = [Instr.make("launch"), *_EMITTERS[type(work)](work, plan, machine, where).nodes()]
    return program(machine, tensors, body, type(work).__name__.lower())
