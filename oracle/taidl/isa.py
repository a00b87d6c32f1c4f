"""A checked ISA with its parameters bound: what streams are resolved and interpreted against."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from archloom.oracle.errors import StreamError, TaidlError, TargetError, combined, suggest
from archloom.oracle.resolved import Buffer
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.check import MAX_AXES, MAX_ELEMENTS, BodyChecker
from archloom.oracle.taidl.declarations import HBM, check_declarations
from archloom.oracle.taidl.evaluate import evaluate, register_key
from archloom.oracle.taidl.inline import inline
from archloom.oracle.taidl.printer import print_expr, print_isa
from archloom.oracle.taidl.slices import definite
from archloom.oracle.taidl.statements import every
from archloom.oracle.taidl.types import of_width
from archloom.oracle.taidl.views import misfit, through

MAX_REGISTERS = 1 << 16
"""How many elements an array of control registers may have."""


@dataclass(frozen=True)
class Register:
    """A control register, or an array of ``size`` of them, each starting as ``initial``."""

    name: str
    size: int | None
    initial: int

    @property
    def keys(self) -> tuple[str, ...]:
        """Its name, or the names of its elements, ``name[i]``, in scopes and in :class:`ResolvedInstr`."""
        return (self.name,) if self.size is None else tuple(register_key(self.name, i) for i in range(self.size))


@dataclass(frozen=True)
class Instruction:
    """Attributes in order, and the body with every ``def`` put in place (no :class:`ast.Invoke` is left)."""

    name: str
    attributes: tuple[str, ...]
    body: tuple[ast.Statement, ...]

    @cached_property
    def derived(self) -> dict[object, Any]:
        """What others work out from the text alone and keep here, by keys of their own."""
        return {}


@dataclass(frozen=True)
class Isa:
    """An ISA for given parameters. Equal descriptions with equal parameters are equal."""

    definition: ast.IsaDef
    parameters: tuple[tuple[str, int], ...]
    constants: tuple[tuple[str, int], ...]
    buffers: tuple[Buffer, ...]
    """Without HBM, whose size is the stream's, and without views, which are no storage."""
    views: tuple[Buffer, ...]
    registers: tuple[Register, ...]
    instructions: Mapping[str, Instruction] = field(compare=False)

    def __hash__(self) -> int:
        return hash((self.name, self.parameters))

    @property
    def name(self) -> str:
        return self.definition.name

    @cached_property
    def digest(self) -> str:
        """A key for caches: the text and the parameters as a hexadecimal SHA-256."""
        whole = self.definition
        text = "".join([*(text for _, text in whole.included), whole.source]) or print_isa(whole)
        return hashlib.sha256(f"{text}\n{self.parameters}".encode()).hexdigest()

    @cached_property
    def ways(self) -> dict[str, tuple[Instruction, tuple[tuple[str, ...], ...]]]:
        """By each name that an instruction may be called by: the instruction, and names for its attributes.

        Its own name and names come first; the others are those of its aliases.
        """
        found: dict[str, tuple[Instruction, tuple[tuple[str, ...], ...]]] = {
            name: (i, (i.attributes,)) for name, i in self.instructions.items()}
        for alias in self.definition.aliases:
            target = self.instructions.get(alias.instruction)
            if target is not None:  # else the parameters leave it out
                _, known = found.get(alias.name, (target, ()))
                found[alias.name] = (target, (*known, alias.attributes))
        return found

    @cached_property
    def scope(self) -> dict[str, int]:
        return dict(self.parameters + self.constants)

    def initial_registers(self) -> dict[str, int]:
        """The registers' values at reset by key (``name`` or ``name[i]``)."""
        return {key: r.initial for r in self.registers for key in r.keys}

    def buffer(self, name: str, hbm_bytes: int = 0) -> Buffer:
        """The buffer of that name; HBM has the size given. StreamError with the nearest name if there is none."""
        if name == HBM:
            return Buffer(HBM, (hbm_bytes,), "i8")
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise StreamError(f"ISA {self.name} has no buffer {name!r}{suggest(name, [b.name for b in self.buffers])}")

    def instruction(self, mnemonic: str) -> Instruction:
        """The instruction of that name; StreamError with the nearest name if there is none."""
        try:
            return self.instructions[mnemonic]
        except KeyError:
            choices = suggest(mnemonic, list(self.instructions))
            raise StreamError(f"ISA {self.name} has no instruction {mnemonic!r}{choices}") from None


    def ordered(self, mnemonic: str, attributes: tuple[str, ...]) -> tuple[str, ...]:
        """The attributes of an instruction in the ISA's order; StreamError unless they are those that are given."""
        expected = self.instruction(mnemonic).attributes
        if attributes != expected and sorted(attributes) != sorted(expected):
            raise StreamError(f"{mnemonic}: expected the attributes ({', '.join(expected)}), found "
                              f"({', '.join(attributes)})")
        return expected


def check(definition: ast.IsaDef, values: Mapping[str, int] | None = None) -> Mapping[str, Instruction]:
    """Check a description with these parameters, defaults for the others; its instructions, every ``def`` in place.

    TaidlError for all faults: those of the declarations, or, where there are none, those of the instructions.
    """
    isa, instructions, faults = _declared(definition, values or {}, None), dict[str, Instruction](), list[TaidlError]()
    # of a buffer that is absent with these parameters the extent is not known
    known = [Buffer(b.name, (MAX_ELEMENTS, *b.shape[1:]), b.dtype) if 0 in b.shape else b
             for b in (*isa.buffers, *isa.views)]
    buffers = {b.name: b for b in (*known, isa.buffer(HBM))}
    checker = BodyChecker(definition, isa.scope, buffers, {r.name: r.size for r in isa.registers})
    for i in definition.instructions:
        try:
            body = definite(definition, inline(definition, i))
            checker.check(i.attributes, body)
            instructions[i.name] = Instruction(i.name, i.attributes, through(definition, body))
        except TaidlError as error:
            faults.append(_located(error, definition))
    if faults:
        raise combined(faults)
    return instructions


def declare(definition: ast.IsaDef, values: Mapping[str, int]) -> Isa:
    """A description without its instructions, with these parameters and defaults for the others.

    TaidlError for all faults of the declarations, TargetError for an unknown parameter or a value out of range.
    """
    return _declared(definition, values, {})


def _declared(
    definition: ast.IsaDef, values: Mapping[str, int], instructions: Mapping[str, Instruction] | None
) -> Isa:
    faults = list(check_declarations(definition))
    if faults:
        raise combined(faults)
    try:
        return _bound(definition, bind(definition, values), instructions)
    except TaidlError as error:
        raise _located(error, definition) from None


def _located(error: TaidlError, definition: ast.IsaDef) -> TaidlError:
    """The error with the lines of the text, which evaluation does not know."""
    return combined([TaidlError(f.message, f.position, definition.text(f.position) if f.position else None)
                     for f in error.faults])


def instantiate(
    definition: ast.IsaDef, values: Mapping[str, int], instructions: Mapping[str, Instruction] | None = None
) -> Isa:
    """Bind parameters, defaults where none is given; ``instructions`` are those that :func:`check` gave.

    TargetError for an unknown parameter or a value out of range, TaidlError for a fault of the description.
    """
    parameters = bind(definition, values)
    return _bound(definition, parameters, check(definition) if instructions is None else instructions)


def _bound(
    definition: ast.IsaDef, parameters: tuple[tuple[str, int], ...], instructions: Mapping[str, Instruction] | None
) -> Isa:
    """The ISA with these parameters; without instructions as it is declared, for them to be checked."""
    scope = dict(parameters)
    constants = []
    for c in definition.constants:
        scope[c.name] = evaluate(c.value, scope)
        constants.append((c.name, scope[c.name]))
    declared = {b.name: _buffer(b, scope) for b in definition.buffers}
    buffers = tuple(declared[b.name] for b in definition.buffers if b.of is None)
    views = tuple(_view(b, declared) for b in definition.buffers if b.of is not None)
    registers = tuple(_register(r, scope) for r in definition.registers)
    absent = {b.name for b in buffers if 0 in b.shape}
    if instructions is not None and absent:
        buffers, views = (tuple(b for b in group if 0 not in b.shape) for group in (buffers, views))
        instructions = {k: i for k, i in instructions.items() if absent.isdisjoint(touched_buffers(i.body))}
    return Isa(definition, parameters, tuple(constants), buffers, views, registers, instructions or {})


def touched_buffers(body: Iterable[ast.Statement]) -> set[str]:
    """The buffers that statements with every ``def`` in place read or write."""
    return {(s.source if isinstance(s, ast.Read) else s.target).buffer
            for s in every(body) if isinstance(s, ast.Read | ast.Write)}


def _buffer(declared: ast.BufferDecl, scope: Mapping[str, int]) -> Buffer:
    """The buffer with its extents; without rows only where parameters say so: the ISA is then one without it."""
    shape = tuple(evaluate(d, scope) for d in declared.rows + declared.base.dims)
    optional = declared.rows and not isinstance(declared.rows[0], ast.Number) and shape[0] == 0
    if any(n < 1 for n in (shape[1:] if optional else shape)):
        raise TaidlError(f"every axis of buffer {declared.name} must have at least one element, found "
                         f"{'x'.join(map(str, shape))}", declared.position)
    if len(shape) > MAX_AXES or math.prod(shape) > MAX_ELEMENTS:
        raise TaidlError(f"buffer {declared.name} has more than {MAX_AXES} axes or 2^40 elements", declared.position)
    base = declared.base
    try:
        dtype = base.dtype if base.bits is None else of_width(base.dtype, evaluate(base.bits, scope))
    except ValueError as error:
        raise TaidlError(f"buffer {declared.name}: {error}", declared.position) from None
    return Buffer(declared.name, shape, dtype)


def _view(declared: ast.BufferDecl, buffers: Mapping[str, Buffer]) -> Buffer:
    """The view with its extents; TaidlError where it does not show just the bits of its buffer."""
    view = buffers[declared.name]
    if (fault := misfit(view, buffers[declared.of or ""])) is not None:
        raise TaidlError(fault, declared.position)
    return view


def _register(declared: ast.RegisterDecl, scope: Mapping[str, int]) -> Register:
    size = None if declared.size is None else evaluate(declared.size, scope)
    if size is not None and size < 1:
        raise TaidlError(f"register array {declared.name} must have at least one element, found {size}",
                         declared.position)
    if size is not None and size > MAX_REGISTERS:
        raise TaidlError(f"register array {declared.name} has {size} elements, more than {MAX_REGISTERS}",
                         declared.position)
    return Register(declared.name, size, evaluate(declared.initial, scope))


def bind(definition: ast.IsaDef, values: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The value of each parameter, in the order of their declarations."""
    names = [p.name for p in definition.parameters]
    for name in values:
        if name not in names:
            raise TargetError(f"ISA {definition.name} has no parameter {name!r}{suggest(name, names)}")
    bound = []
    whose = f"of ISA {definition.name}"
    for p in definition.parameters:
        value = values.get(p.name, p.default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise TargetError(f"parameter {p.name} {whose} must be an integer in {p.low}..{p.high}, found {value!r}")
        if not p.low <= value <= p.high:
            raise TargetError(f"parameter {p.name} {whose} must be in {p.low}..{p.high}, found {value}")
        bound.append((p.name, value))
        if p.condition is not None:
            _keep(p, p.condition, bound, p.name in values, whose)
    return tuple(bound)


def _keep(
    p: ast.Parameter, condition: ast.Expr, bound: Sequence[tuple[str, int]], given: bool, whose: str
) -> None:
    """TargetError unless a parameter keeps its condition; TaidlError where the default does not, or it is none."""
    kept = evaluate(condition, dict(bound))
    if not isinstance(kept, bool):
        raise TaidlError(f"parameter {p.name}: expected a condition, found {print_expr(condition)}", p.position)
    if not kept:
        told = f"parameter {p.name} {whose} must keep {print_expr(condition)}, found {bound[-1][1]}"
        raise TargetError(told) if given else TaidlError(told, p.position)
