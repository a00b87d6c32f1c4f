"""An instruction's body, executed once, abstractly: attributes and control registers are affine expressions, IFs are
decided by ranges, REPEATs unrolled, and what is left are straight-line statements over affine windows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from archloom.oracle import resolved
from archloom.oracle.affine import Affine, Bounds
from archloom.oracle.errors import StreamError
from archloom.oracle.resolution.accumulation import mark_accumulations
from archloom.oracle.resolution.symbolic import Evaluator, Undecided
from archloom.oracle.resolved import Op, Read, ResolvedRegion, Shaped, Statement, TensorType, Window, WindowDim, Write
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import MAX_REPEATED, float_literal, names, register_key
from archloom.oracle.taidl.isa import Instruction, Isa
from archloom.oracle.taidl.operators import OPCODES, fault, values_of
from archloom.oracle.taidl.printer import print_expr
from archloom.oracle.taidl.types import of_width

Scope: TypeAlias = dict[str, Affine]


@dataclass(eq=False)
class Open(Exception):
    """A decision that the ranges leave open; ``what`` says in words what depends on it.

    Asked is whether ``quantity operator 0`` (with operator ``"int"``, which value ``quantity`` has), or, with
    ``condition``, the truth of that expression in ``scope``.
    """

    operator: str
    quantity: Affine
    what: str
    condition: ast.Expr | None = None
    scope: Mapping[str, Affine] = field(default_factory=dict)


@dataclass(frozen=True)
class Judgement:
    """An assertion that is still to be judged, with the values of the names in it."""

    condition: ast.Expr
    scope: tuple[tuple[str, Affine], ...]


Judge: TypeAlias = Callable[[Judgement, Bounds], None]
"""Judges assertions over the actual ranges; see :mod:`archloom.oracle.resolution.proofs`."""


@dataclass(frozen=True)
class Effect:
    """What an instruction does: statements, new register values (by key) and assertions that must hold."""

    statements: tuple[Statement, ...]
    updates: tuple[tuple[str, Affine], ...]
    asserts: tuple[Judgement, ...]


# --- executing a body ---------------------------------------------------------------------------------------------


class Execution:
    """One abstract execution of an instruction's body; the result is in ``effect()``."""

    def __init__(self, isa: Isa, instruction: Instruction, values: Mapping[str, Affine], bounds: Bounds,
                 judge: Judge | None) -> None:
        self.isa = isa
        self.bounds = bounds
        self.judge = judge
        self.registers = {key for r in isa.registers for key in r.keys}
        self.scope: Scope = {k: Affine(v) for k, v in isa.scope.items()}
        self.scope.update(values)
        self.evaluator = Evaluator(self.scope, bounds)
        self.statements: list[Statement] = []
        self.updates: dict[str, Affine] = {}
        self.asserts: list[Judgement] = []
        self.tensors: dict[str, tuple[str, TensorType]] = {}
        self.used: dict[str, int] = {}
        self.windows: dict[Window, Window] = {}
        """Each once: what is read and written is one object."""
        self.pure = False
        """Whether a region of an operator is executed, in which no number may depend on loops."""
        self.block(instruction.body)

    def effect(self) -> Effect:
        statements = mark_accumulations(tuple(self.statements))
        return Effect(statements, tuple(self.updates.items()), tuple(self.asserts))

    def block(self, body: tuple[ast.Statement, ...]) -> None:
        for s in body:
            match s:
                case ast.Read():
                    self.read(s)
                case ast.Write():
                    self.write(s)
                case ast.Op():
                    self.operation(s)
                case ast.Assign():
                    self.assign(s)
                case ast.Let():
                    self.scope[s.name] = self.value(s.value)
                case ast.Assert():
                    self.check(s)
                case ast.If():
                    self.block(s.then if self.truth(s.condition) else s.otherwise)
                case ast.Repeat():
                    count = self.integer(s.count, "the count of a REPEAT")
                    if count * max(1, len(s.body)) > MAX_REPEATED or len(self.statements) > MAX_REPEATED:
                        raise StreamError(f"a REPEAT of {count} iterations makes this instruction longer than "
                                          f"{MAX_REPEATED} statements")
                    for i in range(count):
                        self.scope[s.variable] = Affine(i)
                        self.block(s.body)

    # integers

    def value(self, e: ast.Expr) -> Affine:
        try:
            return self.evaluator.value(e)
        except Undecided as u:
            raise Open(u.operator, u.quantity, _quote(e)) from None

    def integer(self, e: ast.Expr, what: str) -> int:
        v = self.value(e)
        if v.terms:
            raise Open("int", v, f"{what}, {_quote(e)}")
        return v.constant

    def truth(self, e: ast.Expr) -> bool:
        try:
            return self.evaluator.truth(e)
        except Undecided as u:
            raise Open(u.operator, u.quantity, _quote(e), e, self.named(e)) from None

    def named(self, e: ast.Expr) -> dict[str, Affine]:
        keys: set[str] = set()
        for node in names(e):
            if isinstance(node, ast.Name):
                keys.add(node.name)
            elif isinstance(node.index, ast.Number):
                keys.add(register_key(node.name, int(node.index.value)))
            else:
                every = (register_key(node.name, i) for i in itertools.count())
                keys.update(itertools.takewhile(self.scope.__contains__, every))
        return {k: self.scope[k] for k in sorted(keys)}

    def assign(self, s: ast.Assign) -> None:
        value = self.value(s.value)
        key = register_key(s.register, None if s.index is None else self.integer(s.index, "the index of a register"))
        if key not in self.registers:
            raise StreamError(f"register {key} does not exist")
        self.scope[key] = value
        self.updates[key] = value

    def check(self, s: ast.Assert) -> None:
        try:
            if self.evaluator.truth(s.condition):
                return
        except Undecided:
            pass
        judgement = Judgement(s.condition, tuple(self.named(s.condition).items()))
        if self.judge is None:
            self.asserts.append(judgement)
        else:
            # what follows may rely on it
            self.judge(judgement, self.bounds)

    # tensors

    def type(self, kind: ast.Type) -> TensorType:
        shape = tuple([self.integer(d, "the extent of a tensor") for d in kind.dims])
        if kind.bits is None:
            return TensorType(shape, kind.dtype)
        try:
            return TensorType(shape, of_width(kind.dtype, self.integer(kind.bits, "the width of an element type")))
        except ValueError as error:
            raise StreamError(str(error)) from None

    def define(self, name: str, kind: TensorType) -> str:
        """A name of its own for each definition of a tensor (a REPEAT defines the same one again and again)."""
        count = self.used.get(name, 0)
        self.used[name] = count + 1
        unique = f"{name}.{count}" if count else name
        self.tensors[name] = (unique, kind)
        return unique

    def read(self, s: ast.Read) -> None:
        kind = self.type(s.type)
        window = self.window(s.source)
        _same_shape(window, kind, "read")
        self.statements.append(Read(self.define(s.dst, kind), window, kind))

    def write(self, s: ast.Write) -> None:
        src, kind = self.tensors[s.src]
        if s.type is not None and self.type(s.type) != kind:
            raise StreamError(f"%{s.src} is of type {kind}, but written as {self.type(s.type)}")
        window = self.window(s.target)
        _same_shape(window, kind, "written")
        if any(d.extent > 1 and d.stride == 0 for d in window.dims):
            raise StreamError(f"%{s.src} is written several times to the same elements of ${window.buffer} (stride 0)")
        self.statements.append(Write(src, window, kind))

    def operation(self, s: ast.Op) -> None:
        kind = self.type(s.type)
        opcode = OPCODES[s.opcode]
        attributes = values_of(
            s, lambda e: self.integer(e, "an operator's attribute"), lambda e: self.number(e, fixed=True),
            lambda r: _OpenRegion(r.name, r, self))
        operands = [self.tensors[o.name] for o in s.operands if isinstance(o, ast.Tensor)]
        if opcode.value:
            (operand,) = s.operands
            assert not isinstance(operand, ast.Tensor)
            attributes["value"] = self.number(operand, self.pure)
        complaint = fault(s.opcode, kind, [t for _, t in operands], attributes)
        if complaint:
            raise StreamError(f"%{s.dst} {complaint}")
        for name, value in attributes.items():
            if isinstance(value, _OpenRegion):
                attributes[name] = value.resolved
        if s.opcode in ("reshape", "convert", "bitcast_convert", "copy") and operands[0][1] == kind:
            self.tensors[s.dst] = operands[0]
            return
        names = tuple(name for name, _ in operands)
        unique = self.define(s.dst, kind)
        self.statements.append(Op(unique, s.opcode, names, tuple(sorted(attributes.items())), kind))

    def region(self, region: ast.Region, inputs: Sequence[Shaped]) -> tuple[ResolvedRegion, tuple[Shaped, ...]]:
        """The region for inputs of these types, all its integers known, and the types of what it gives."""
        outside = self.statements, self.tensors, self.pure
        names = region.parameters
        kinds = [TensorType(tuple(int(d) for d in t.shape), t.dtype) for t in inputs]
        self.statements, self.pure = [], True
        self.tensors = {name: (name, kind) for name, kind in zip(names, kinds, strict=False)}
        try:
            self.block(region.body)
            missing = [name for name in names[len(inputs):] if name not in self.tensors]
            if missing:
                raise StreamError(f"def {region.name} does not define %{missing[0]} on this path")
            results = [self.tensors[name] for name in names[len(inputs):]]
            made = tuple(s for s in self.statements if isinstance(s, Op))
        finally:
            self.statements, self.tensors, self.pure = outside
        given = tuple(zip(names, kinds, strict=False))
        found = ResolvedRegion(region.name, given, tuple(name for name, _ in results), made)
        return found, tuple(kind for _, kind in results)

    def number(self, e: ast.Expr, fixed: bool = False) -> int | float | Affine:
        """The value of a constant: an integer expression, or a float literal with or without a sign."""
        literal = float_literal(e)
        if literal is not None:
            return resolved.Real(literal)
        if fixed:
            return self.integer(e, "a number within an operator")
        v = self.value(e)
        return v if v.terms else v.constant

    # windows

    def window(self, piece: ast.Slice) -> Window:
        # HBM's size is the stream's; its windows are proved inside of it there
        buffer = self.isa.buffer(piece.buffer, 0)
        offsets: list[Affine] = []
        dims: list[WindowDim] = []
        for axis, (e, extent) in enumerate(zip(piece.over(len(buffer.shape)), buffer.shape, strict=True)):
            if isinstance(e, ast.At):
                offsets.append(self.value(e.index))
                dims.append(WindowDim(axis, 1, 1))
            elif isinstance(e, ast.Range):
                offset, dim = self.range(e, axis, extent)
                offsets.append(offset)
                dims.append(dim)
            else:
                offsets.append(self.value(e.base))
                for many, stride in e.entries:
                    n, step = self.integer(many, "an extent"), self.integer(stride, "a stride")
                    dims.append(WindowDim(axis, n, step if n != 1 else 1))
        for d in dims:
            if d.extent < 1:
                raise StreamError(f"a window of ${piece.buffer} has the extent {d.extent} on axis {d.axis}")
        made = Window(piece.buffer, tuple(offsets), tuple(dims))
        return self.windows.setdefault(made, made)

    def range(self, e: ast.Range, axis: int, extent: int) -> tuple[Affine, WindowDim]:
        start = self.value(e.start) if e.start is not None else Affine(0)
        stop = self.value(e.stop) if e.stop is not None else Affine(extent)
        step = self.integer(e.step, "a stride") if e.step is not None else 1
        length = (stop - start).simplify(self.bounds)
        if not length.is_constant:
            raise Open("int", length, f"the length of a slice, {length}")
        if step < 1:
            raise StreamError(f"a slice has the step {step}: expected at least 1")
        n = -(-length.constant // step)
        return start, WindowDim(axis, n, step if n != 1 else 1)


class Branches(Execution):
    """An execution for registers alone, which takes both branches of an IF that is open.

    ``updates`` has the new values of the registers that any branch writes; those on which branches differ are
    ``unknown`` of their key. Raises :class:`Open` where something other than a branch is open, and SourceError for
    what is wrong in any of the branches.
    """

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


@dataclass
class _OpenRegion:
    """A region as the type rules see it; ``resolved`` for the types they asked about last."""

    name: str
    region: ast.Region
    execution: Execution
    resolved: ResolvedRegion | None = None

    def outputs(self, inputs: Sequence[Shaped]) -> tuple[Shaped, ...]:
        self.resolved, types = self.execution.region(self.region, inputs)
        return types


def _quote(e: ast.Expr) -> str:
    return f"'{print_expr(e)}'"


def _same_shape(window: Window, kind: TensorType, verb: str) -> None:
    if window.shape != kind.shape:
        shape = "x".join(map(str, window.shape))
        raise StreamError(f"a tensor of type {kind} is {verb} through a window of shape {shape}")
