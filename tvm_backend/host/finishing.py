"""The finishes of a network's steps as programs that steps alike share, with their constants on the device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from archloom.tvm_backend.compiled import Step
from archloom.tvm_backend.executors import on_device

if TYPE_CHECKING:
    from archloom.tvm_backend.programs import Program, Programs


class Finishes:
    """Finishes sums that are on the device, of the steps it was made for."""

    def __init__(self, steps: Iterable[Step], programs: "Programs") -> None:
        from archloom.tvm_backend.host.network import compiled

        wanted = {}
        for step in steps:
            if step.finish is not None:
                tensors = {t.name: (t.shape, t.dtype) for t in step.workload.inputs}
                output = step.workload.output
                wanted[step.name] = step.finish, step.finish.program({**tensors, "sums": (output.shape, "int32")})
        distinct = {program.key: program for _, program in wanted.values()}
        made = dict(zip(distinct, compiled(list(distinct.values()), programs), strict=True))
        self._programs: dict[str, tuple[Program, list[Any]]] = {
            name: (made[program.key], [on_device(c) for c in finish.constants])
            for name, (finish, program) in wanted.items()}

    def __call__(self, step: Step, sums: Any, arguments: Mapping[str, Any]) -> Any:
        """The step's result."""
        if step.finish is None:
            return sums
        program, constants = self._programs[step.name]
        given = {**arguments, **step.constants}
        return program(*constants, on_device(sums), *(on_device(given[name]) for name in step.finish.operands))[0]
