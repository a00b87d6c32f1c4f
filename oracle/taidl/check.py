"""The static checks of TAIDL: names, sorts, types and windows, each complaint with its place.

Every instruction is checked as it stands after its ``def`` blocks are put in place. Dimensions that depend on
attributes or registers are compared as canonical expressions where that decides; what is left open is judged by the
same rules when an instruction is resolved or interpreted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from archloom.oracle.affine import Affine
from archloom.oracle.errors import TaidlError, suggest, together
from archloom.oracle.resolved import Buffer, Dim, Shaped
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import COMPARISONS, Evaluation, evaluate, float_literal, names
from archloom.oracle.taidl.inline import plain
from archloom.oracle.taidl.operators import OPCODES, fault, word
from archloom.oracle.taidl.operators.base import Attribute, AttributeValue, types_differ
from archloom.oracle.taidl.operators.refused import REFUSED
from archloom.oracle.taidl.printer import print_expr, print_slice
from archloom.oracle.taidl.statements import blocks, statement_expressions, statement_names
from archloom.oracle.taidl.types import of_width
from archloom.oracle.taidl.views import view_faults

HBM = "hbm"
"""The global memory, which every ISA has."""

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
            raise together(self.faults)

    def error(self, message: str, node: ast.Node) -> TaidlError:
        return TaidlError(message, node.position, self.isa.text(node.position))

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

    def dim(self, value: Affine) -> Dim:
        return value.constant if value.is_constant else plain(str(value))

    # --- tensors ---

    def type(self, kind: ast.Type) -> Shaped:
        self.integers(kind.dims)
        if len(kind.dims) > MAX_AXES:
            raise self.error(f"a tensor has at most {MAX_AXES} axes, found {len(kind.dims)}", kind)
        shape = tuple(self.dim(canonical(d, self.known)) for d in kind.dims)
        for extent, node in zip(shape, kind.dims, strict=True):
            if isinstance(extent, int) and extent < 1:
                raise self.error(f"a dimension must be at least 1, found {extent}", node)
        if math.prod(d for d in shape if isinstance(d, int)) > MAX_ELEMENTS:
            raise self.error(f"{Shaped(shape, kind.dtype)} has more than 2^40 elements", kind)
        return Shaped(shape, kind.dtype if kind.bits is None else self.width(kind.dtype, kind.bits))

    def width(self, letter: str, bits: ast.Expr) -> str:
        """The element type of that width, or its text where the width is not known yet."""
        self.integers([bits])
        value = self.dim(canonical(bits, self.known))
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
        window = self.window(piece)
        if types_differ(kind, window):
            raise self.error(f"%{plain(name)} is {kind}, but {plain(print_slice(piece))} is {window}", node)

    def window(self, piece: ast.Slice) -> Shaped:
        """The type of what a slice names."""
        if piece.buffer not in self.buffers:
            choices = suggest(piece.buffer, list(self.buffers))
            raise self.error(f"unknown buffer ${piece.buffer}{choices}", piece)
        buffer = self.buffers[piece.buffer]
        hbm = piece.buffer == HBM
        if len(piece.axes) > len(buffer.shape) or (hbm and not piece.axes):
            raise self.error(f"${piece.buffer} has {len(buffer.shape)} axes, {len(piece.axes)} given", piece)
        shape: list[Dim] = []
        for i, size in enumerate(buffer.shape):
            if i < len(piece.axes):
                shape += self.axis(piece.axes[i], None if hbm else size, piece)
            else:
                shape.append(size)
        return Shaped(tuple(shape), buffer.dtype)

    def axis(self, axis: ast.Axis, size: int | None, piece: ast.Slice) -> list[Dim]:
        if isinstance(axis, ast.At):
            base, entries = canonical(axis.index, self.known), [(Affine(1), Affine(1))]
        elif isinstance(axis, ast.Walk):
            base = canonical(axis.base, self.known)
            entries = [(canonical(e, self.known), canonical(s, self.known)) for e, s in axis.entries]
        else:
            base, entries = self.range(axis, size, piece)
        last = base
        for extent, stride in entries:
            if (extent.is_constant and extent.constant < 1) or (stride.is_constant and stride.constant < 0):
                raise self.error(f"extent {extent} and stride {stride} of {plain(print_slice(piece))}: an extent is "
                                 "at least 1, a stride at least 0", piece)
            last = last + (extent - 1) * stride if extent.is_constant or stride.is_constant else Affine.variable("?")
        low = base.constant if base.is_constant else 0
        high = last.constant if last.is_constant else 0
        if low < 0 or (size is not None and high >= size):
            raise self.error(f"{plain(print_slice(piece))} spans {base}..{last}, outside of an axis of extent {size}",
                             piece)
        return [self.dim(extent) for extent, _ in entries]

    def range(self, axis: ast.Range, size: int | None, piece: ast.Slice) -> tuple[Affine, list[tuple[Affine, Affine]]]:
        if size is None and axis.stop is None:
            raise self.error(f"{plain(print_slice(piece))} needs an end: the size of HBM is not known here", piece)
        start = canonical(axis.start, self.known) if axis.start is not None else Affine(0)
        stop = canonical(axis.stop, self.known) if axis.stop is not None else Affine(size or 0)
        step = canonical(axis.step, self.known) if axis.step is not None else Affine(1)
        if not step.is_constant:
            return start, [(Affine.variable("?"), step)]
        if step.constant < 1:
            raise self.error(f"the step of {plain(print_slice(piece))} must be at least 1", piece)
        return start, [(-((start - stop) // step.constant), step)]

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
            return tuple(self.dim(canonical(i, self.known)) for i in value.items)
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
        return self.dim(canonical(value, self.known))


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


class _Canonical(Evaluation[Affine]):
    """Affine forms over names and over the texts of what is not affine."""

    def __init__(self, known: Mapping[str, int]) -> None:
        self.known = known

    def number(self, e: ast.Number) -> Affine:
        return Affine(e.value) if isinstance(e.value, int) else self.opaque(e)

    def name(self, e: ast.Name) -> Affine:
        return Affine(self.known[e.name]) if e.name in self.known else Affine.variable(e.name)

    def opaque(self, e: ast.Expr) -> Affine:
        return Affine.variable(print_expr(e))

    element = inverted = opaque

    def operation(self, e: ast.Binary, left: Affine, right: Affine) -> Affine:
        if left.is_constant and right.is_constant:
            return self.folded(replace(e, left=ast.Number(left.constant), right=ast.Number(right.constant)))
        match e.operator:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*" if left.is_constant or right.is_constant:
                return left * right
            case "//" if right.is_constant and right.constant > 0:
                return left // right.constant
            case "%" if right.is_constant and right.constant > 0:
                return left % right.constant
        return Affine.variable(f"({left}) {e.operator} ({right})")

    def select(self, condition: ast.Expr, then: ast.Expr, otherwise: ast.Expr) -> Affine:
        return self.function(ast.Call("select", ()), [self.value(e) for e in (condition, then, otherwise)])

    def function(self, e: ast.Call, values: list[Affine]) -> Affine:
        if all(v.is_constant for v in values):
            return self.folded(replace(e, arguments=tuple(ast.Number(v.constant) for v in values)))
        return Affine.variable(f"{e.function}({', '.join(map(str, values))})")

    def folded(self, e: ast.Expr) -> Affine:
        return Affine(int(evaluate(e, {})))


def canonical(expr: ast.Expr, known: Mapping[str, int]) -> Affine:
    """The expression as an affine form over names and over the texts of its parts that are not affine.

    Two expressions of equal form have equal values; conditions become 0 or 1 where they are decided.
    """
    return _Canonical(known).value(expr)


# --- declarations -------------------------------------------------------------------------------------------------


def check_declarations(isa: ast.IsaDef) -> Iterator[TaidlError]:
    """The faults of declarations: names that are there twice, ``def`` blocks that use what they are not given."""
    for include in isa.includes:
        yield _fault(f"{include.name}.taidl is not there: what includes others is read from a file", include, isa)
    integers: list[ast.Node] = [*isa.parameters, *isa.constants, *isa.registers]
    for group in (integers, isa.buffers, isa.definitions, isa.instructions):
        seen: dict[str, ast.Node] = {}
        for node in group:
            name = _name(node)
            if name in seen:
                yield _fault(f"{name!r} is already declared at line {seen[name].position.line}", node, isa)
            seen[name] = node
    for buffer in isa.buffers:
        if buffer.name == HBM:
            yield _fault("'hbm' is the global memory, which is always there", buffer, isa)
    yield from view_faults(isa)
    declared = {_name(n): n for n in integers}
    parts: list[tuple[ast.Node, str, tuple[str, ...]]] = [(i, "attribute", i.attributes) for i in isa.instructions]
    for part, what, given in [*parts, *((d, "parameter", d.parameters) for d in isa.definitions)]:
        for i, name in enumerate(given):
            if name in given[:i]:
                yield _fault(f"{name!r} appears twice in ({', '.join(given)})", part, isa)
            if name in declared:
                line = declared[name].position.line
                yield _fault(f"{what} {name!r} of {_name(part)} has the name of the declaration at line {line}", part,
                             isa)
    yield from _alias_faults(isa)
    known = set(declared)
    for definition in isa.definitions:
        yield from _closed(definition.body, known | set(definition.parameters), definition, isa)


def _alias_faults(isa: ast.IsaDef) -> Iterator[TaidlError]:
    """Aliases of what is no instruction, of another instruction's name, or with attributes that tell nothing apart."""
    instructions = {i.name: i for i in isa.instructions}
    ways = {(i.name, frozenset(i.attributes)) for i in isa.instructions}
    targets = {i.name: i.name for i in isa.instructions}
    for alias in isa.aliases:
        written, target = f"alias {alias.name}({', '.join(alias.attributes)})", instructions.get(alias.instruction)
        fault = ""
        if target is None:
            fault = f"unknown instruction {alias.instruction!r}{suggest(alias.instruction, list(instructions))}"
        elif len(alias.attributes) != len(target.attributes) or len(set(alias.attributes)) != len(alias.attributes):
            fault = (f"{written} must have {len(target.attributes)} different attributes, one for each of "
                     f"{target.name}({', '.join(target.attributes)})")
        elif targets.setdefault(alias.name, target.name) != target.name:
            fault = f"{alias.name!r} already stands for {targets[alias.name]}"
        elif (alias.name, frozenset(alias.attributes)) in ways:
            fault = f"{written} has the name and the attributes of another way to write {target.name}"
        if fault:
            yield _fault(fault, alias, isa)
        ways.add((alias.name, frozenset(alias.attributes)))


def _closed(
    body: Sequence[ast.Statement], known: set[str], owner: ast.Definition, isa: ast.IsaDef
) -> Iterator[TaidlError]:
    for statement in body:
        for node in statement_names(statement):
            if node.name not in known:
                yield _fault(f"unknown name {node.name!r} in def {owner.name}{suggest(node.name, sorted(known))}", node,
                             isa)
        if isinstance(statement, ast.Let):
            known.add(statement.name)
        for block in blocks(statement):
            inner = {statement.variable} if isinstance(statement, ast.Repeat) else set()
            yield from _closed(block, known | inner, owner, isa)


def _fault(message: str, node: ast.Node, isa: ast.IsaDef) -> TaidlError:
    return TaidlError(message, node.position, isa.text(node.position))


def _name(node: ast.Node) -> str:
    return str(getattr(node, "name", ""))
