"""Which control registers an instruction may read and write, from its text alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import register_key
from archloom.oracle.taidl.isa import Instruction
from archloom.oracle.taidl.statements import statement_names


@dataclass
class Flow:
    """Which registers a body may read and write, which it may read before it assigns them, which it always assigns."""

    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    live: set[str] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)

    def block(self, body: tuple[ast.Statement, ...]) -> None:
        for s in body:
            used: set[str] = set()
            for node in statement_names(s):
                used |= self.elements(node.name, node.index if isinstance(node, ast.Element) else None)
            self.read |= used
            self.live |= used - self.assigned
            match s:
                case ast.Assign():
                    keys = self.elements(s.register, s.index)
                    self.written |= keys
                    self.assigned |= keys if len(keys) == 1 else set()
                case ast.If():
                    before = set(self.assigned)
                    self.block(s.then)
                    then, self.assigned = self.assigned, before
                    self.block(s.otherwise)
                    self.assigned &= then
                case ast.Repeat():
                    # there may be no iteration
                    before = set(self.assigned)
                    self.block(s.body)
                    self.assigned = before

    def then(self, after: Flow) -> None:
        """Add what is done afterwards."""
        self.written |= after.written
        self.live |= after.live - self.assigned
        self.assigned |= after.assigned

    def elements(self, name: str, index: ast.Expr | None) -> set[str]:
        """The keys of a register, or of an element of an array of them; of all where the index is an expression."""
        keys = self.keys.get(name, ())
        if not keys or index is None:
            return {name} if keys else set()
        return {register_key(name, int(index.value))} if isinstance(index, ast.Number) else set(keys)


def flow_of(instruction: Instruction, keys: Mapping[str, tuple[str, ...]]) -> Flow:
    """The flow of an instruction's body with registers of these ``keys``; ISAs that share it work it out once."""
    key = "flow", *keys.items()
    if key not in instruction.derived:
        flow = instruction.derived[key] = Flow(keys)
        flow.block(instruction.body)
    flow = instruction.derived[key]
    assert isinstance(flow, Flow)
    return flow
