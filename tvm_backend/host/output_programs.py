"""Output stages as programs, compiled, for sums that are on the device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from archloom.tvm_backend.compiled import Step
from archloom.tvm_backend.executors import on_device
from archloom.tvm_backend.host.network import compiled
from archloom.tvm_backend.programs import Programs

if TYPE_CHECKING:
    from archloom.tvm_backend.programs import Program


class OutputStages:
    """The output stages of a network's steps, for sums that are on the device: programs that stages alike share, with
    their constants on the device."""

    def __init__(self, steps: Iterable[Step], programs: Programs) -> None:
        wanted = {}
        for step in steps:
            if step.output_stage is not None:
                tensors = {t.name: (t.shape, t.dtype) for t in step.workload.inputs}
                sums = step.workload.output.shape, "int32"
                wanted[step.name] = step.output_stage, step.output_stage.program({**tensors, "sums": sums})
        distinct = {program.key: program for _, program in wanted.values()}
        made = dict(zip(distinct, compiled(list(distinct.values()), programs), strict=True))
        self._programs: dict[str, tuple[Program, list[Any]]] = {
            name: (made[program.key], [on_device(c) for c in stage.constants])
            for name, (stage, program) in wanted.items()}

    def __call__(self, step: Step, sums: Any, arguments: Mapping[str, Any]) -> Any:
        if step.output_stage is None:
            return sums
        program, constants = self._programs[step.name]
        given = {**arguments, **step.constants}
        return program(*constants, on_device(sums), *(on_device(given[n]) for n in step.output_stage.operands))[0]
