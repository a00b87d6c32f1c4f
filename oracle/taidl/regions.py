"""The bodies of ``def`` blocks that operators apply to tensors, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from archloom.oracle.resolved import Shaped, TensorType
from archloom.oracle.taidl import ast, evaluate
from archloom.oracle.taidl.evaluate import float_literal
from archloom.oracle.taidl.inline import plain
from archloom.oracle.taidl.operators import OPCODES, fault, values_of
from archloom.oracle.taidl.types import of_width


class Violation(Exception):
    """A rule broken by an instruction instance; the machine adds which one."""


@dataclass(frozen=True)
class _Applied:
    """An operator with all its integers known."""

    dst: str
    sources: tuple[str, ...]
    compute: Callable[[Sequence[Any]], Any]


@dataclass
class Bound:
    """A region with the integers that it may name; the types it is given fix the rest (:meth:`outputs`)."""

    name: str
    region: ast.Region
    scope: dict[str, int]
    steps: list[_Applied] = field(default_factory=list)
    results: tuple[str, ...] = ()

    def outputs(self, inputs: Sequence[Shaped]) -> tuple[Shaped, ...]:
        """The types that it gives for inputs of these types; Violation for a fault in it."""
        names = self.region.parameters
        self.steps, self.results = [], names[len(inputs):]
        types = dict(zip(names, inputs, strict=False))
        self.block(self.region.body, types)
        for name in self.results:
            if name not in types:
                raise Violation(f"{self.region.position}: def {self.name} does not define %{plain(name)} on this path")
        return tuple(types[name] for name in self.results)

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """What it gives; its types have been asked for before."""
        tensors = dict(zip(self.region.parameters, inputs, strict=False))
        for s in self.steps:
            tensors[s.dst] = np.asarray(s.compute([tensors[name] for name in s.sources]))
        return tuple(tensors[name] for name in self.results)

    def block(self, body: Sequence[ast.Statement], types: dict[str, Shaped]) -> None:
        for s in body:
            match s:
                case ast.Op():
                    self.operation(s, types)
                case ast.Let():
                    self.scope[s.name] = evaluate.evaluate(s.value, self.scope)
                case ast.If():
                    self.block(s.then if evaluate.evaluate(s.condition, self.scope) else s.otherwise, types)
                case ast.Repeat():
                    for i in range(evaluate.evaluate(s.count, self.scope)):
                        self.scope[s.variable] = i
                        self.block(s.body, types)

    def operation(self, s: ast.Op, types: dict[str, Shaped]) -> None:
        sources = tuple(o.name for o in s.operands if isinstance(o, ast.Tensor))
        shape, bits = tuple(evaluate.evaluate(d, self.scope) for d in s.type.dims), s.type.bits
        width = None if bits is None else evaluate.evaluate(bits, self.scope)
        kind = TensorType(shape, s.type.dtype if width is None else dtype_of(s.type.dtype, width, s))
        opcode = OPCODES[s.opcode]
        values = values_of(s, lambda e: evaluate.evaluate(e, self.scope), self.number,
                           lambda r: Bound(r.name, r, dict(self.scope)))
        if opcode.value:
            (operand,) = s.operands
            assert not isinstance(operand, ast.Tensor)
            values["value"] = self.number(operand)
        complaint = fault(s.opcode, kind, [types[name] for name in sources], values)
        if complaint:
            raise Violation(f"{s.position}: %{plain(s.dst)}{complaint}")
        types[s.dst], given = kind, [types[name].dtype for name in sources]
        self.steps.append(_Applied(s.dst, sources, lambda x: opcode.kernel(kind, x, values, given)))

    def number(self, e: ast.Expr) -> int | float:
        literal = float_literal(e)
        return evaluate.evaluate(e, self.scope) if literal is None else literal


def dtype_of(letter: str, bits: int, node: ast.Node) -> str:
    """The element type of a width; Violation where there is none."""
    try:
        return of_width(letter, bits)
    except ValueError as error:
        raise Violation(f"{node.position}: {error}") from None
