"""The static checks of TAIDL: names, sorts, types and windows, each complaint with its place.

Every instruction is checked as it stands after its ``def`` blocks are put in place. Dimensions that depend on
attributes or registers are compared as canonical expressions where that decides; what is left open is judged by the
same rules when an instruction is resolved or interpreted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from archloom.oracle.errors import TaidlError, combined, suggest
from archloom.oracle.resolved import Buffer, Shaped
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.canonical import canonical
from archloom.oracle.taidl.declarations import fault_at
from archloom.oracle.taidl.evaluate import COMPARISONS, float_literal, names
from archloom.oracle.taidl.inline import plain
from archloom.oracle.taidl.operators import OPCODES, fault, word
from archloom.oracle.taidl.operators.base import Attribute, AttributeValue, types_differ
from archloom.oracle.taidl.operators.refused import REFUSED
from archloom.oracle.taidl.printer import print_expr, print_slice
from archloom.oracle.taidl.slice_types import SliceTypes, dim
from archloom.oracle.taidl.statements import blocks, statement_expressions
from archloom.oracle.taidl.types import of_width

MAX_AXES = 64
"""As many axes as NumPy's arrays may have."""

MAX_ELEMENTS = 1 << 40
"""How many elements a tensor or a buffer may have."""


@dataclass
class _Scope:
    """What is visible at a statement; ``lost`` are names that only some paths to it define."""

    integers: set[str]
    tensors: dict[str, Shaped] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    """Tensors whose definitions are at fault, so that nothing is said about their uses."""

    def copy(self) -> _Scope:
        return _Scope(set(self.integers), dict(self.tensors), set(self.lost), set(self.broken))


class _Consequence(TaidlError):
    """A fault that is only there because of another one."""


@dataclass
class BodyChecker:
    """Checks the inlined body of an instruction."""

    isa: ast.IsaDef
    known: Mapping[str, int]
    buffers: Mapping[str, Buffer]
    registers: Mapping[str, int | None]
    """Size of each register array, None for a single register."""

    faults: list[TaidlError] = field(default_factory=list)

    def check(self, attributes: Sequence[str], body: Sequence[ast.Statement]) -> None:
        """TaidlError for the faults in the body."""
        self.attributes = set(attributes)
        self.faults = []
        self.block(body, _Scope({*self.known, *self.registers, *attributes}))
        if self.faults:
            raise combined(self.faults)

    def error(self, message: str, node: ast.Node) -> TaidlError:
        return fault_at(message, node, self.isa)

    def block(self, body: Sequence[ast.Statement], scope: _Scope) -> None:
        for statement in body:
            try:
                for expr in self.own(statement):
                    self.resolve(expr, scope)
                self.statement(statement, scope)
            except TaidlError as fault:
                if not isinstance(fault, _Consequence):
                    self.faults.append(fault)
                self.recover(statement, scope)

    def recover(self, s: ast.Statement, scope: _Scope) -> None:
        """After a fault the names that the statement defines are there, tensors with their declared types."""
        if isinstance(s, ast.Let):
            scope.integers.add(s.name)
        elif isinstance(s, ast.Read | ast.Op) and s.dst not in scope.tensors:
            try:
                scope.tensors[s.dst] = self.type(s.type)
            except TaidlError:
                scope.broken.add(s.dst)
        for block in blocks(s):
            for inner in block:
                self.recover(inner, scope)

    def own(self, s: ast.Statement) -> Iterator[ast.Expr]:
        """The expressions of a statement without those of a region, which has names of its own."""
        if isinstance(s, ast.Op):
            s = replace(s, attributes=tuple(a for a in s.attributes if not isinstance(a[1], ast.Region)))
        return statement_expressions(s)

    def statement(self, s: ast.Statement, scope: _Scope) -> None:
        match s:
            case ast.Read():
                self.integers(statement_expressions(s))
                self.moved(s.dst, self.type(s.type), s.source, s)
                self.define(s.dst, self.type(s.type), s, scope)
            case ast.Write():
                self.integers(statement_expressions(s))
                kind = self.tensor(s.src, s, scope)
                if s.type is not None and types_differ(kind, self.type(s.type)):
                    raise self.error(f"%{plain(s.src)} is {kind}, but is written as {self.type(s.type)}", s)
                self.moved(s.src, kind, s.target, s)
            case ast.Op():
                self.operation(s, scope)
            case ast.Assign():
                self.assign(s)
            case ast.Let():
                self.integers([s.value])
                self.symbolic(s.value)
                if s.name in scope.integers:
                    raise self.error(f"{plain(s.name)!r} is already defined", s)
                scope.integers.add(s.name)
            case ast.Assert():
                self.sort(s.condition, "a condition")
                self.symbolic(s.condition)
            case ast.If():
                self.branch(s, scope)
            case ast.Repeat():
                self.integers([s.count])
                self.symbolic(s.count)
                inner = scope.copy()
                inner.integers.add(s.variable)
                self.block(s.body, inner)
                scope.lost |= set(inner.tensors) - set(scope.tensors)
            case ast.Invoke():
                raise AssertionError("defs are in place before the check")

    def branch(self, s: ast.If, scope: _Scope) -> None:
        self.sort(s.condition, "a condition")
        then, otherwise = scope.copy(), scope.copy()
        # a branch that the parameters close may be meaningless for them
        decided = self.symbolic(s.condition)
        if decided is None or decided:
            self.block(s.then, then)
        if decided is None or not decided:
            self.block(s.otherwise, otherwise)
        if decided is not None:
            then = otherwise = then if decided else otherwise
        for name in {**then.tensors, **otherwise.tensors}:
            if name in then.tensors and name in otherwise.tensors:
                a, b = then.tensors[name], otherwise.tensors[name]
                if types_differ(a, b):
                    raise self.error(f"%{plain(name)} is {a} in one branch of this IF and {b} in the other", s)
                scope.tensors[name] = a
            else:
                scope.lost.add(name)
        scope.integers |= then.integers & otherwise.integers
        scope.lost |= then.lost | otherwise.lost | (then.integers ^ otherwise.integers)
        scope.lost -= set(scope.tensors) | scope.integers

    # --- integers ---

    def resolve(self, expr: ast.Expr, scope: _Scope) -> None:
        for node in names(expr):
            if isinstance(node, ast.Element):
                self.element(node.name, node.index, node)
            elif node.name in self.registers and self.registers[node.name] is not None:
                raise self.error(f"{node.name} is an array of {self.registers[node.name]} registers; "
                                 f"name one as {node.name}[i]", node)
            elif node.name not in scope.integers:
                raise self.error(self.unknown("name", node.name, sorted(scope.integers), scope), node)

    def unknown(self, what: str, name: str, choices: list[str], scope: _Scope) -> str:
        if name.lstrip("%") in scope.lost:
            return f"{what} {plain(name)!r} is defined on some of the paths to here only"
        return f"unknown {what} {plain(name)!r}{suggest(plain(name), [c for c in choices if '~' not in c])}"

    def element(self, name: str, index: ast.Expr, node: ast.Node) -> None:
        if name not in self.registers:
            raise self.error(f"unknown register {name!r}{suggest(name, list(self.registers))}", node)
        size, at = self.registers[name], self.symbolic(index)
        if size is None:
            raise self.error(f"{name} is a single register, not an array", node)
        if isinstance(at, int) and not 0 <= at < size:
            raise self.error(f"{name}[{at}] is not one of its {size} elements", node)

    def assign(self, s: ast.Assign) -> None:
        self.integers([s.value, *([s.index] if s.index is not None else [])])
        self.symbolic(s.value)
        for kind, group in (("an attribute", self.attributes), ("a parameter or constant", set(self.known))):
            if s.register in group:
                raise self.error(f"cannot assign to {s.register}: it is {kind}", s)
        if s.register not in self.registers:
            raise self.error(f"unknown register {s.register!r}{suggest(s.register, list(self.registers))}", s)
        if s.index is not None:
            self.element(s.register, s.index, s)
        elif self.registers[s.register] is not None:
            raise self.error(f"{s.register} is an array; name one of its elements", s)

    def integers(self, exprs: Iterator[ast.Expr] | Sequence[ast.Expr]) -> None:
        for expr in exprs:
            self.sort(expr, "an integer")

    def sort(self, expr: ast.Expr, wanted: str) -> None:
        """Conditions where conditions belong, integers where integers belong, all the way down."""
        found = "an integer"
        match expr:
            case ast.Unary("!", operand):
                found = "a condition"
                self.sort(operand, found)
            case ast.Unary(_, operand):
                self.sort(operand, found)
            case ast.Binary(operator, left, right):
                inner = "a condition" if operator in ("&&", "||") else "an integer"
                found = "a condition" if operator in COMPARISONS else inner
                self.sort(left, inner)
                self.sort(right, inner)
            case ast.Call(function, arguments):
                for i, argument in enumerate(arguments):
                    self.sort(argument, "a condition" if function == "select" and i == 0 else found)
            case ast.Element(_, index):
                self.sort(index, found)
            case ast.Number(value) if isinstance(value, float):
                found = "a float"
        if found != wanted:
            raise self.error(f"expected {wanted}, found {found}: {plain(print_expr(expr))}", expr)

    def symbolic(self, expr: ast.Expr) -> int | None:
        """The value where parameters and constants decide it."""
        value = canonical(expr, self.known)
        return value.constant if value.is_constant else None

    # --- tensors ---

    def type(self, kind: ast.Type) -> Shaped:
        self.integers(kind.dims)
        if len(kind.dims) > MAX_AXES:
            raise self.error(f"a tensor has at most {MAX_AXES} axes, found {len(kind.dims)}", kind)
        shape = tuple(dim(canonical(d, self.known)) for d in kind.dims)
        for extent, node in zip(shape, kind.dims, strict=True):
            if isinstance(extent, int) and extent < 1:
                raise self.error(f"a dimension must be at least 1, found {extent}", node)
        if math.prod(d for d in shape if isinstance(d, int)) > MAX_ELEMENTS:
            raise self.error(f"{Shaped(shape, kind.dtype)} has more than 2^40 elements", kind)
        return Shaped(shape, kind.dtype if kind.bits is None else self.width(kind.dtype, kind.bits))

    def width(self, letter: str, bits: ast.Expr) -> str:
        """The element type of that width, or its text where the width is not known yet."""
        self.integers([bits])
        value = dim(canonical(bits, self.known))
        try:
            return of_width(letter, value) if isinstance(value, int) else f"{letter}{{{value}}}"
        except ValueError as error:
            raise self.error(str(error), bits) from None

    def define(self, name: str, kind: Shaped, s: ast.Node, scope: _Scope) -> None:
        if name in scope.tensors:
            raise self.error(f"%{plain(name)} is already defined", s)
        scope.tensors[name] = kind

    def tensor(self, name: str, node: ast.Node, scope: _Scope) -> Shaped:
        if name in scope.broken:
            raise _Consequence(name)
        if name not in scope.tensors:
            raise self.error(self.unknown("tensor", f"%{name}", [f"%{t}" for t in scope.tensors], scope), node)
        return scope.tensors[name]

    def moved(self, name: str, kind: Shaped, piece: ast.Slice, node: ast.Node) -> None:
        window = SliceTypes(self.isa, self.known, self.buffers).type_of(piece)
        if types_differ(kind, window):
            raise self.error(f"%{plain(name)} is {kind}, but {plain(print_slice(piece))} is {window}", node)

    def operation(self, s: ast.Op, scope: _Scope) -> None:
        opcode = OPCODES.get(s.opcode)
        if s.opcode in REFUSED:
            raise self.error(f"TAIDL does not have XLA's {s.opcode}: {REFUSED[s.opcode]}", s)
        if opcode is None:
            raise self.error(f"unknown operator {s.opcode!r}{suggest(s.opcode, list(OPCODES))}", s)
        tensors = [self.tensor(o.name, o, scope) for o in s.operands if isinstance(o, ast.Tensor)]
        values = [o for o in s.operands if not isinstance(o, ast.Tensor)]
        if opcode.value:
            arity = len(values) == 1 and not tensors
        else:
            enough = len(tensors) >= opcode.least if opcode.operands is None else len(tensors) == opcode.operands
            arity = not values and enough
        if not arity:
            raise self.error(f"{s.opcode} takes {opcode.arity}{'' if opcode.value else ' tensors'}, "
                             f"{len(s.operands)} given", s)
        for value in values:
            self.number(value)
        attributes = self.read_attributes(s, opcode.attributes, scope)
        kind = self.type(s.type)
        complaint = fault(s.opcode, kind, tensors, attributes)
        if complaint:
            raise self.error(f"%{plain(s.dst)}{complaint}", s)
        self.define(s.dst, kind, s, scope)

    def number(self, value: ast.Expr) -> None:
        if float_literal(value) is None:
            self.integers([value])

    def read_attributes(self, s: ast.Op, known: tuple[Attribute, ...], scope: _Scope) -> dict[str, AttributeValue]:
        given = dict(s.attributes)
        valid = [a.name for a in known]
        for name in given:
            if name not in valid:
                hint = suggest(name, valid) if valid else " (it has none)"
                raise self.error(f"{s.opcode} has no attribute {name!r}{hint}", s)
        if len(given) != len(s.attributes):
            raise self.error(f"an attribute of {s.opcode} is given twice", s)
        values: dict[str, AttributeValue] = {}
        for attribute in known:
            if attribute.name in given:
                values[attribute.name] = self.attribute(s, attribute, given[attribute.name], scope)
            elif attribute.default is None:
                raise self.error(f"{s.opcode} needs the attribute {attribute.name}", s)
            else:
                values[attribute.name] = attribute.default
        return values

    def attribute(self, s: ast.Op, attribute: Attribute, value: ast.Attribute, scope: _Scope) -> AttributeValue:
        if isinstance(value, ast.Region):
            return CheckedRegion(value.name, value, self, scope)
        grouped = isinstance(value, ast.Group)
        if grouped != (attribute.kind == "integers"):
            wanted = "a list {...}" if attribute.kind == "integers" else "a single value"
            raise self.error(f"attribute {attribute.name} of {s.opcode} is {wanted}", s)
        if isinstance(value, ast.Group):
            self.integers(value.items)
            return tuple(dim(canonical(i, self.known)) for i in value.items)
        if attribute.kind in ("name", "function"):
            if not isinstance(value, ast.Name):
                raise self.error(f"attribute {attribute.name} of {s.opcode} is the name of a function; found "
                                 f"{print_expr(value)}", s)
            return value.name
        if attribute.kind == "word":
            if word(value) not in attribute.words:
                raise self.error(f"attribute {attribute.name} of {s.opcode} is one of {', '.join(attribute.words)}; "
                                 f"found {print_expr(value)}", s)
            return word(value)
        if attribute.kind == "number":
            self.number(value)
            return 0
        self.integers([value])
        return dim(canonical(value, self.known))


@dataclass(frozen=True)
class CheckedRegion:
    """A ``def`` as an operator's attribute: checked for the types that the operator gives it."""

    name: str
    region: ast.Region
    checker: BodyChecker
    scope: _Scope

    def outputs(self, inputs: Sequence[Shaped]) -> tuple[Shaped, ...]:
        """The types that it gives; TaidlError for a fault in it."""
        names, region = self.region.parameters, self.region
        if len(names) <= len(inputs):
            raise self.checker.error(f"def {self.name} needs {len(inputs)} parameters for what it takes and at least "
                                     f"one for what it gives, found {len(names)}", region)
        scope = _Scope(set(self.scope.integers) - self.checker.attributes, dict(zip(names, inputs, strict=False)))
        self.checker.block(region.body, scope)
        for name in names[len(inputs):]:
            if name not in scope.tensors:
                raise self.checker.error(f"def {self.name} takes {len(inputs)} tensors here and gives the others, but "
                                         f"does not define %{plain(name)}", region)
        return tuple(scope.tensors[name] for name in names[len(inputs):])
