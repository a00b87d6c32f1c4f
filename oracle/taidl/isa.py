"""A checked ISA with its parameters bound: what streams are resolved and interpreted against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from oracle.errors import StreamError, TargetError, suggest
from oracle.resolved import Buffer
from oracle.taidl import ast
from oracle.taidl.evaluate import evaluate, register_key
from oracle.taidl.inline import inline

HBM = "hbm"
"""The implicit buffer: global memory, bytes."""


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


@dataclass(frozen=True)
class Isa:
    """An ISA for given parameters. Equal descriptions with equal parameters are equal."""

    definition: ast.IsaDef
    parameters: tuple[tuple[str, int], ...]
    constants: tuple[tuple[str, int], ...]
    buffers: tuple[Buffer, ...]
    """Without HBM, whose size is the stream's."""
    registers: tuple[Register, ...]
    instructions: Mapping[str, Instruction] = field(compare=False)

    @property
    def name(self) -> str:
        return self.definition.name

    @cached_property
    def scope(self) -> dict[str, int]:
        """Parameters and constants by name."""
        return dict(self.parameters + self.constants)

    def initial_registers(self) -> dict[str, int]:
        """The registers' values at reset by key (``name`` or ``name[i]``)."""
        return {key: r.initial for r in self.registers for key in r.keys}

    def buffer(self, name: str, hbm_bytes: int = 0) -> Buffer:
        """The buffer of that name; HBM has the size given."""
        if name == HBM:
            return Buffer(HBM, (hbm_bytes,), "i8")
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise KeyError(name)

    def instruction(self, mnemonic: str) -> Instruction:
        """The instruction of that name; StreamError with the nearest name if there is none."""
        try:
            return self.instructions[mnemonic]
        except KeyError:
            choices = suggest(mnemonic, list(self.instructions))
            raise StreamError(f"ISA {self.name} has no instruction {mnemonic!r}{choices}") from None


def instantiate(definition: ast.IsaDef, values: Mapping[str, int]) -> Isa:
    """Bind parameters (defaults where none is given); TargetError for an unknown one or a value out of range."""
    parameters = bind(definition, values)
    scope = dict(parameters)
    constants = []
    for c in definition.constants:
        scope[c.name] = evaluate(c.value, scope)
        constants.append((c.name, scope[c.name]))
    buffers = tuple(
        Buffer(b.name, tuple(evaluate(d, scope) for d in b.rows + b.base.dims), b.base.dtype)
        for b in definition.buffers
    )
    registers = tuple(
        Register(r.name, None if r.size is None else evaluate(r.size, scope), evaluate(r.initial, scope))
        for r in definition.registers
    )
    instructions = {
        i.name: Instruction(i.name, i.attributes, inline(definition, i)) for i in definition.instructions
    }
    return Isa(definition, parameters, tuple(constants), buffers, registers, instructions)


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
    return tuple(bound)
