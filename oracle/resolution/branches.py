"""Registers after an instruction of which a branch is not decided: what both branches leave alike stays known."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from archloom.oracle.affine import Affine, Bounds
from archloom.oracle.resolution.specialize import Execution, Open
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.isa import Instruction, Isa


def registers_after(
    isa: Isa, instruction: Instruction, values: Mapping[str, Affine], bounds: Bounds, unknown: Callable[[str], Affine]
) -> dict[str, Affine]:
    """New values of the registers that any branch writes; those on which branches differ are ``unknown`` of their key.

    Raises :class:`~.specialize.Open` where something other than a branch is open, and SourceError for what is
    wrong in any of the branches.
    """
    return _Branches(isa, instruction, values, bounds, unknown).updates


class _Branches(Execution):
    """An execution for registers alone, which takes both branches of an IF that is open."""

    def __init__(self, isa: Isa, instruction: Instruction, values: Mapping[str, Affine], bounds: Bounds,
                 unknown: Callable[[str], Affine]) -> None:
        self.unknown = unknown
        super().__init__(isa, instruction, values, bounds, None)

    def block(self, body: tuple[ast.Statement, ...]) -> None:
        for s in body:
            if isinstance(s, (ast.Read, ast.Write, ast.Op, ast.Assert)):
                continue
            if not isinstance(s, ast.If):
                super().block((s,))
                continue
            try:
                taken = self.truth(s.condition)
            except Open:
                self.both(s)
            else:
                self.block(s.then if taken else s.otherwise)

    def both(self, s: ast.If) -> None:
        scope, updates = dict(self.scope), dict(self.updates)
        self.block(s.then)
        then, written = dict(self.scope), dict(self.updates)
        self.scope.clear()  # the evaluator holds this very mapping
        self.scope.update(scope)
        self.updates = updates
        self.block(s.otherwise)
        for key in then.keys() | self.scope.keys():
            if then.get(key) != self.scope.get(key):
                self.scope[key] = self.unknown(key)
        self.updates = {key: self.scope[key] for key in written.keys() | self.updates.keys()}
