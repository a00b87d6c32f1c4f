"""Write an ISA in Python: the same description as its text, which :meth:`Builder.text` gives.

>>> from archloom.oracle.taidl.builder import Builder
>>> isa = Builder("tiny")
>>> dim = isa.param("dim", 4, 2, 64)
>>> ram = isa.buffer("ram", (1024,), (dim, "i8"))
>>> @isa.instruction
... def double(b, row):
...     x = b.read(ram[row], (1, dim, "i8"))
...     b.write(b.add(x, x), ram[row])
>>> isa.build(dim=8).buffer("ram").shape
(1024, 8)

The parameters of a decorated function after the first are the instruction's attributes; the function runs once, and
what it calls on its first argument, a :class:`Body`, are the statements. Operators of Python make expressions:
``(row + 1) % 4``, ``dram + window((rows, stride[0]), (dim, 1))``; what they are is decided when the ISA is checked.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from archloom.oracle.errors import TaidlError, suggest
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.isa import HBM, Isa, check, instantiate
from archloom.oracle.taidl.operators import OPCODES, attribute_named, named
from archloom.oracle.taidl.printer import print_isa
from archloom.oracle.taidl.values import (
    Integer,
    Registers,
    Storage,
    Tensor,
    Typed,
    Value,
    all_of,
    any_of,
    cdiv,
    expr,
    fail,
    greatest,
    here,
    least,
    located,
    negated,
    number,
    select,
    type_of,
    window,
)

__all__ = [
    "Block", "Body", "Builder", "Tensor", "Value", "all_of", "any_of", "cdiv", "greatest", "least", "negated", "number",
    "select", "window",
]


class Builder:
    """A description that grows: declarations by method, instructions and ``def`` blocks by decorator."""

    hbm = Storage(ast.Slice(HBM, ()))
    """Global memory, bytes of type i8."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._declarations: list[ast.Node] = []

    def param(
        self, name: str, default: int, low: int, high: int, where: "Callable[[Value], Value] | None" = None
    ) -> Value:
        """``param name = default in low..high``, and ``where`` gives a condition of it."""
        if not low <= default <= high:
            fail(f"parameter {name} has the default {default}, outside of its range {low}..{high}")
        condition = None if where is None else expr(where(Value(ast.Name(name))))
        self._declarations.append(ast.Parameter(name, default, low, high, condition, position=here()))
        return Value(ast.Name(name))

    def const(self, name: str, value: Integer) -> Value:
        """``const name = value``"""
        self._declarations.append(ast.Constant(name, expr(value), position=here()))
        return Value(ast.Name(name))

    def buffer(self, name: str, rows: Sequence[Integer], base: Typed) -> Storage:
        """``[name] (rows) (base)``; no rows for one base tensor."""
        extents = tuple(expr(r) for r in rows)
        self._declarations.append(ast.BufferDecl(name, extents, type_of(base), position=here()))
        return Storage(ast.Slice(name, ()))

    def view(self, name: str, rows: Sequence[Integer], base: Typed, of: str) -> Storage:
        """``[name] (rows) (base) = of``: the bits of the buffer ``of`` as elements of another type."""
        extents = tuple(expr(r) for r in rows)
        self._declarations.append(ast.BufferDecl(name, extents, type_of(base), of, position=here()))
        return Storage(ast.Slice(name, ()))

    def register(self, name: str, initial: Integer = 0) -> Value:
        """``name = initial``: a control register."""
        self._declarations.append(ast.RegisterDecl(name, None, expr(initial), position=here()))
        return Value(ast.Name(name))

    def registers(self, name: str, size: Integer, initial: Integer = 0) -> Registers:
        """``name[size] = initial``: an array of control registers."""
        self._declarations.append(ast.RegisterDecl(name, expr(size), expr(initial), position=here()))
        return Registers(name)

    def instruction(self, function: Callable[..., None]) -> Callable[..., None]:
        """Decorator: the instruction of the function's name."""
        position, names = here(), _parameters(function)
        statements = self._body(function, [Value(ast.Name(n)) for n in names])
        self._declarations.append(ast.InstructionDecl(function.__name__, tuple(names), statements, position=position))
        return function

    def alias(self, name: str, attributes: Sequence[str], instruction: str) -> None:
        """``alias name(attributes) = instruction``"""
        self._declarations.append(ast.Alias(name, tuple(attributes), instruction, position=here()))

    def block(self, *tensors: str) -> Callable[[Callable[..., None]], Block]:
        """Decorator: a ``def`` of the function's name, whose parameters of these names are tensors.

        A tensor that the block is to define is named by its parameter: ``b.add(x, x, name=Y)``.
        """

        def make(function: Callable[..., None]) -> Block:
            position, names = here(), _parameters(function)
            unknown = [t for t in tensors if t not in names]
            if unknown:
                fail(f"{function.__name__} has no parameter {unknown[0]!r}{suggest(unknown[0], names)}")
            given = [Tensor(n) if n in tensors else Value(ast.Name(n)) for n in names]
            statements = self._body(function, given)
            marked = tuple(f"%{n}" if n in tensors else n for n in names)
            self._declarations.append(ast.Definition(function.__name__, marked, statements, position=position))
            return Block(function.__name__, marked)

        return make

    def _body(self, function: Callable[..., None], given: Sequence[Value | Tensor]) -> tuple[ast.Statement, ...]:
        body = Body()
        function(body, *given)
        return tuple(body.statements)

    def definition(self) -> ast.IsaDef:
        """The syntax tree, equal to that of the text."""
        return ast.IsaDef.of(self.name, self._declarations)

    def text(self) -> str:
        return print_isa(self.definition())

    def build(self, **parameters: int) -> Isa:
        """The checked ISA with these parameters; TaidlError with the places in the Python code."""
        definition = self.definition()
        try:
            instructions = check(definition)
        except TaidlError as error:
            raise located(error) from None
        return instantiate(definition, parameters, instructions)


@dataclass(frozen=True)
class Block:
    """A ``def``: ``b.call(block, ...)`` puts it in place."""

    name: str
    parameters: tuple[str, ...]


class Body:
    """The statements of an instruction; the operators of TAIDL are methods (``b.add(x, y)``, ``b.and_(x, y)``)."""

    def __init__(self) -> None:
        self.statements: list[ast.Statement] = []
        self._names = 0
        self._closed: ast.If | None = None
        """The IF that an ELSE may follow."""

    # --- tensors ---

    def read(self, source: Storage, type: Typed, name: str | Tensor | None = None) -> Tensor:
        """``%name:type <- source``"""
        kind = type_of(type)
        made = self._define(name, kind)
        self.statements.append(ast.Read(made.name, kind, source.piece, position=here()))
        return made

    def write(self, tensor: Tensor, target: Storage) -> None:
        """``%tensor -> target``"""
        self.statements.append(ast.Write(tensor.name, None, target.piece, position=here()))

    def constant(self, value: Integer | float, type: Typed, name: str | Tensor | None = None) -> Tensor:
        """``%name:type = constant(value)``"""
        kind = type_of(type)
        made = self._define(name, kind)
        self.statements.append(ast.Op(made.name, kind, "constant", (_number(value),), (), position=here()))
        return made

    def op(self, opcode: str, *operands: Tensor, type: Typed | None = None, name: str | Tensor | None = None,
           **attributes: Any) -> Tensor:
        """``%name:type = opcode(operands, attributes)``; without a type, that of the first operand.

        A list is written as a tuple, a word (``kind="max"``) as a string. Gives the tensor that is defined.
        """
        opcode = named(opcode)
        kind = type_of(type) if type is not None else operands[0].type if operands else None
        if kind is None:
            fail(f"{opcode} needs a type: it has no operand whose type is known here")
        made = self._define(name, kind)
        written = tuple((attribute_named(opcode, k), _attribute(v)) for k, v in attributes.items())
        given = tuple(ast.Tensor(t.name, position=here()) for t in operands)
        self.statements.append(ast.Op(made.name, kind, opcode, given, written, position=here()))
        return made

    def __getattr__(self, opcode: str) -> Callable[..., Tensor]:
        if opcode.startswith("__"):
            raise AttributeError(opcode)
        name = named(opcode.removesuffix("_"))
        if name not in OPCODES:
            fail(f"unknown operator {name!r}{suggest(name, list(OPCODES))}")
        return lambda *operands, **options: self.op(name, *operands, **options)

    def _define(self, name: str | Tensor | None, kind: ast.Type) -> Tensor:
        if isinstance(name, Tensor):
            return Tensor(name.name, kind)
        if name is None:
            self._names += 1
            name = f"t{self._names}"
        return Tensor(name, kind)

    # --- integers and control ---

    def let(self, name: str, value: Integer) -> Value:
        """``let name = value``"""
        self.statements.append(ast.Let(name, expr(value), position=here()))
        return Value(ast.Name(name))

    def set(self, register: Value, value: Integer) -> None:
        """``register = value``, for a register or an element of an array of them."""
        match register:
            case Value(expr=ast.Name(name)):
                self.statements.append(ast.Assign(name, None, expr(value), position=here()))
            case Value(expr=ast.Element(name, index)):
                self.statements.append(ast.Assign(name, index, expr(value), position=here()))
            case _:
                fail(f"expected a control register, found {register}")

    def require(self, condition: Value) -> None:
        """``assert(condition)``"""
        self.statements.append(ast.Assert(expr(condition), position=here()))

    def call(self, block: Block, *arguments: Tensor | Integer) -> None:
        """``block(arguments)``; a tensor that the block defines is named: ``b.tensor("Y", type)``."""
        given = tuple(ast.Tensor(a.name, position=here()) if isinstance(a, Tensor) else expr(a) for a in arguments)
        self.statements.append(ast.Invoke(block.name, given, position=here()))

    def tensor(self, name: str, type: Typed) -> Tensor:
        """A tensor that a block will define, or one that both branches of an IF do."""
        return Tensor(name, type_of(type))

    @contextmanager
    def IF(self, condition: Value) -> Iterator[None]:
        """``with b.IF(condition): ...``"""
        position = here()
        with self._inner() as statements:
            yield
        self._closed = ast.If(expr(condition), tuple(statements), (), position=position)
        self.statements.append(self._closed)

    @contextmanager
    def ELSE(self) -> Iterator[None]:
        """``with b.ELSE(): ...``, directly after an IF."""
        before = self.statements[-1] if self.statements else None
        if not isinstance(before, ast.If) or before is not self._closed:
            fail("ELSE must come directly after the IF that it belongs to")
        with self._inner() as statements:
            yield
        self.statements[-1] = ast.If(before.condition, before.then, tuple(statements), position=before.position)
        self._closed = None

    @contextmanager
    def REPEAT(self, variable: str, count: Integer) -> Iterator[Value]:
        """``with b.REPEAT("i", count) as i: ...``"""
        position = here()
        with self._inner() as statements:
            yield Value(ast.Name(variable))
        self.statements.append(ast.Repeat(variable, expr(count), tuple(statements), position=position))

    @contextmanager
    def _inner(self) -> Iterator[list[ast.Statement]]:
        outside, self.statements = self.statements, []
        inside = self.statements
        try:
            yield inside
        finally:
            self.statements = outside


def _parameters(function: Callable[..., None]) -> list[str]:
    names = list(inspect.signature(function).parameters)
    if not names:
        fail(f"{function.__name__} needs a first parameter for its body")
    return names[1:]


def _number(value: Integer | float) -> ast.Expr:
    if not isinstance(value, float):
        return expr(value)
    literal = ast.Number(abs(value), position=here())
    return literal if value >= 0 else ast.Unary("-", literal, position=here())


def _attribute(value: Any) -> ast.Expr | ast.Group:
    if isinstance(value, str):
        return ast.Name(value, position=here())
    if isinstance(value, Block):
        return ast.Name(value.name, position=here())
    if isinstance(value, tuple | list):
        return ast.Group(tuple(expr(v) for v in value), position=here())
    return _number(value)
