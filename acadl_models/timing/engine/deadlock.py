"""What a machine that can do nothing more is waiting for, in words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.layout import H, Instruction
from archloom.acadl_models.timing.engine.lowering.program import Lowered
from archloom.acadl_models.timing.engine.machine import alive, held
from archloom.acadl_models.timing.engine.state import Instance, M, Phase, Unit
from archloom.acadl_models.timing.machine import MOST_LISTED, more_faults

_STEPS: dict[int, str] = {Phase.READING: "reading", Phase.PROCESSING: "processing", Phase.WRITING: "writing"}


def deadlock_faults(lowered: Lowered, m: NDArray[np.int64]) -> list[str]:
    """The cycle, how many instructions are left, and what each instruction in flight waits for."""
    total = lowered.program.count
    left = total - int(m[M.FINISHED])
    idle = int(m[M.TIME]) + int(m[M.CHANGED] == m[M.TIME])
    faults = [f"deadlock in cycle {idle}: {left} of {total} instructions are left"]
    in_flight = list(alive(m))
    blockers = {unit: slot for slot in in_flight for unit in _waiters(m, slot)}
    for slot in in_flight[:MOST_LISTED]:
        faults.append(f"{_name(lowered, m, slot)} waits for {_waits_for(lowered, m, slot, blockers)}")
    return faults + more_faults(len(in_flight))


def _waiters(m: NDArray[np.int64], slot: int) -> Iterator[int]:
    """The units whose instances wait for this one."""
    unit = int(m[slot + Instance.WAITERS])
    while unit != NONE:
        yield unit
        unit = int(m[unit + Unit.NEXT])


def _name(lowered: Lowered, m: NDArray[np.int64], slot: int) -> str:
    number = int(m[slot + Instance.SEQ])
    static, values = lowered.locator.walk(number)
    where = ", ".join(f"{k}={v}" for k, v in values.items())
    return f"instruction {number} {static.node.mnemonic}" + (f" ({where})" if where else "")


def _waits_for(lowered: Lowered, m: NDArray[np.int64], slot: int, blockers: dict[int, int]) -> str:
    phase, unit = int(m[slot + Instance.PHASE]), int(m[slot + Instance.UNIT])
    if phase == Phase.WAITING:
        number = (unit - int(m[M.UNITS])) // Unit.SIZE
        return f"{_name(lowered, m, blockers[unit])} to finish, in {lowered.graph.units[number]}"
    if unit != NONE:
        number = (unit - int(m[M.UNITS])) // Unit.SIZE
        return f"{_STEPS[phase]} to end, in {lowered.graph.units[number]}"
    stage = next((s for k, s in enumerate(lowered.graph.stages) if slot in held(m, k)), lowered.program.fetch)
    number = (int(m[slot + Instance.STATIC]) - int(lowered.tables[H.STATIC_TABLE])) // Instruction.SIZE
    routed = lowered.program.instructions[number].routed
    after = [s for s in lowered.program.graph.successors(stage) if s.name in routed]
    return f"room in {' or '.join(map(str, after)) or 'no stage at all'}, in {stage}"
