"""Which control registers an instruction may read and write, from its text alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import register_key
from archloom.oracle.taidl.isa import Instruction


def _expressions(s: ast.Statement) -> Iterator[ast.Expr | None]:
    """The integer expressions of one statement, without those of nested blocks."""
    match s:
        case ast.Read():
            yield from s.type.dims
            yield from _slice_expressions(s.source)
        case ast.Write():
            yield from s.type.dims if s.type else ()
            yield from _slice_expressions(s.target)
        case ast.Op():
            yield from s.type.dims
            yield from (o for o in s.operands if not isinstance(o, ast.Tensor))
            for _, value in s.attributes:
                if isinstance(value, ast.Region):
                    yield from _body_expressions(value.body)
                else:
                    yield from value.items if isinstance(value, ast.Group) else (value,)
        case ast.Assign():
            yield from (s.index, s.value)
        case ast.Let():
            yield s.value
        case ast.Assert() | ast.If():
            yield s.condition
        case ast.Repeat():
            yield s.count


def _body_expressions(body: tuple[ast.Statement, ...]) -> Iterator[ast.Expr | None]:
    for s in body:
        yield from _expressions(s)
        for block in (s.then, s.otherwise) if isinstance(s, ast.If) else (s.body,) if isinstance(s, ast.Repeat) else ():
            yield from _body_expressions(block)


def _slice_expressions(piece: ast.Slice) -> Iterator[ast.Expr | None]:
    for axis in piece.axes:
        if isinstance(axis, ast.At):
            yield axis.index
        elif isinstance(axis, ast.Range):
            yield from (axis.start, axis.stop, axis.step)
        else:
            yield axis.base
            for entry in axis.entries:
                yield from entry


def names_in(e: ast.Expr | None) -> Iterator[tuple[str, int | None]]:
    """Names in an expression; of register arrays with the index, -1 where it is no number."""
    match e:
        case ast.Name():
            yield e.name, None
        case ast.Element():
            yield e.name, e.index.value if isinstance(e.index, ast.Number) else -1  # type: ignore[misc]
            yield from names_in(e.index)
        case ast.Unary():
            yield from names_in(e.operand)
        case ast.Binary():
            yield from names_in(e.left)
            yield from names_in(e.right)
        case ast.Call():
            for a in e.arguments:
                yield from names_in(a)


@dataclass
class Flow:
    """Which registers a body may read and write, which it may read before it assigns them, which it always assigns."""

    keys: Mapping[str, tuple[str, ...]]
    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    live: set[str] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)

    def block(self, body: tuple[ast.Statement, ...]) -> None:
        for s in body:
            used = {k for e in _expressions(s) for name, index in names_in(e) for k in self.elements(name, index)}
            self.read |= used
            self.live |= used - self.assigned
            match s:
                case ast.Assign():
                    index = None if s.index is None else s.index.value if isinstance(s.index, ast.Number) else -1
                    keys = self.elements(s.register, index)
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

    def elements(self, name: str, index: int | float | None) -> set[str]:
        """The keys of a register, or of an element of an array of them; of all where the index is an expression."""
        if name not in self.keys:
            return set()
        return set(self.keys[name]) if index == -1 else {register_key(name, None if index is None else int(index))}


def flow_of(instruction: Instruction, keys: Mapping[str, tuple[str, ...]]) -> Flow:
    """The flow of an instruction's body with registers of these ``keys``; ISAs that share it work it out once."""
    key = "flow", *keys.items()
    if key not in instruction.derived:
        flow = instruction.derived[key] = Flow(keys)
        flow.block(instruction.body)
    flow = instruction.derived[key]
    assert isinstance(flow, Flow)
    return flow
