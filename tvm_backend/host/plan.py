"""The host part as data: which piece of the host and which region runs when, on what.

A plan takes the place of TVM's ``main`` where XLA computes the whole host. Pieces that are alike share a program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from archloom.tvm_backend.host.program import HostProgram
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.nodes import TupleType

if TYPE_CHECKING:
    from archloom.tvm_backend.ir.compat import IRModule


@dataclass(frozen=True)
class HostCall:
    """One piece of the host, or a region, named by ``symbol``: ``program`` is a number in the plan, None for a region.

    ``constants`` are numbers of the plan's constants; ``inputs`` and ``outputs`` are slots.
    """

    program: int | None
    symbol: str
    constants: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class HostPlan:
    """Calls in order. Slots hold tensors: the first ones the network's inputs, ``fixed`` ones constants (by slot)."""

    inputs: int
    outputs: tuple[int, ...]
    calls: tuple[HostCall, ...]
    programs: tuple[HostProgram, ...]
    constants: tuple[np.ndarray, ...]
    fixed: Mapping[int, int] = field(default_factory=dict)


def plan_of(module: "IRModule") -> HostPlan | None:
    """The plan of a partitioned host module; None where something of it is left to TVM."""
    pieces = {gv.name_hint: f for gv, f in module.functions.items() if ir.codegen_of(f) == "xla"}
    return _Planner(module["main"], pieces).plan()


class _LeftToTvm(Exception):
    """``main`` has an operator of its own."""


@dataclass(eq=False)
class _Planner:
    main: ir.Function
    pieces: Mapping[str, Any]
    slots: dict[Any, list[Any]] = field(default_factory=dict)
    calls: list[HostCall] = field(default_factory=list)
    programs: list[HostProgram] = field(default_factory=list)
    constants: list[np.ndarray] = field(default_factory=list)
    fixed: dict[int, int] = field(default_factory=dict)
    count: int = 0

    def plan(self) -> HostPlan | None:
        for parameter in self.main.params:
            self.slots[parameter] = self.fresh(1)
        try:
            for binding in ir.bindings(self.main):
                self.slots[binding.var] = self.value(binding.value)
            outputs = tuple(self.single(r) for r in ir.outputs_of(self.main))
        except _LeftToTvm:
            return None
        return HostPlan(len(self.main.params), outputs, tuple(self.calls), tuple(self.programs),
                        tuple(self.constants), self.fixed)

    def fresh(self, number: int) -> list[int]:
        self.count += number
        return list(range(self.count - number, self.count))

    def constant(self, array: np.ndarray) -> int:
        self.constants.append(np.ascontiguousarray(array) if array.ndim else array)
        return len(self.constants) - 1

    def single(self, expr: Any) -> int:
        slots = self.value(expr)
        if len(slots) != 1 or not isinstance(slots[0], int):
            raise _LeftToTvm
        return slots[0]

    def value(self, expr: Any) -> list[Any]:
        """The slots of an expression's value: several for a tuple, a list of them for a tuple within one."""
        if ir.is_var(expr):
            return self.slots[expr]
        if ir.is_constant(expr):
            (slot,) = self.fresh(1)
            self.fixed[slot] = self.constant(ir.const_value(expr))
            return [slot]
        fields = ir.tuple_fields(expr)
        if fields is not None:
            return [self.single(f) for f in fields]
        access = ir.is_tuple_get(expr)
        if access is not None:
            found = self.value(access[0])[access[1]]
            return found if isinstance(found, list) else [found]
        called = ir.of(expr).external_call(expr)
        if called is None:
            raise _LeftToTvm
        types = ir.fields_of(ir.type_of(expr))
        return self.call(*called, [len(ty.fields) if isinstance(ty, TupleType) else 0 for ty in types])

    def call(self, symbol: str, arguments: Sequence[Any], arities: Sequence[int]) -> list[Any]:
        """``arities``: for each result the fields of a tuple, or 0 for a tensor; tensors of tuples go one by one."""
        inputs = tuple(slot for a in arguments for slot in _flat(self.value(a)))
        program: int | None = None
        constants: list[int] = []
        if symbol in self.pieces:
            program, constants = self.piece(self.pieces[symbol])
        outputs = [self.fresh(fields) if fields else self.fresh(1)[0] for fields in arities]
        self.calls.append(HostCall(program, symbol, tuple(constants), inputs,
                                   tuple(_flat(outputs))))
        return outputs

    def piece(self, function: ir.Function) -> tuple[int, list[int]]:
        """The number of a piece's program, which it may share, and of its constants."""
        from archloom.tvm_backend.host.functions import translate

        key, arguments, run, constants = translate(function)
        number = next((i for i, p in enumerate(self.programs) if p.key == key), len(self.programs))
        if number == len(self.programs):
            self.programs.append(HostProgram(key, arguments, run))
        return number, [self.constant(c) for c in constants]


def _flat(slots: Sequence[Any]) -> list[int]:
    return [slot for group in slots for slot in (group if isinstance(group, list) else [group])]
