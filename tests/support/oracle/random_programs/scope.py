"""The instruction that is being written at random: its names, attributes, statements, and the storage it may touch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from archloom.oracle.resolved import Dim, Shaped
from archloom.oracle.taidl.types import element_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.oracle.random_programs.isas import Declarations

MOST_ELEMENTS = 120
"""About how many elements an operand may have."""


@dataclass(frozen=True)
class Attribute:
    """An attribute of an instruction: it may be ``base + grain * k`` for k in 0..``high``.

    One that is a ``shape`` decides extents, so that most kernels give it a constant.
    """

    name: str
    high: int
    base: int = 0
    grain: int = 1
    shape: bool = False


@dataclass
class Scope:
    """Statements so far; ``budget`` operators may still be used, ``rows`` is an attribute used as an extent."""

    r: Random
    isa: "Declarations"
    budget: int
    storage: bool = True
    """Whether buffers may be read: not in a ``def``."""
    rows: Attribute | None = None
    attributes: dict[str, Attribute] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    tensors: list[tuple[str, Shaped]] = field(default_factory=list)
    integers: list[tuple[str, int]] = field(default_factory=list)
    """Names and the largest values of what expressions may use: attributes, registers, lets, variables of REPEAT."""
    depth: int = 1
    serial: int = 0
    prefix: str = "t"

    # names and statements

    def fresh(self, letter: str = "") -> str:
        self.serial += 1
        return f"{letter or self.prefix}{self.serial}"

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def define(self, name: str, kind: Shaped) -> str:
        self.tensors.append((name, kind))
        return name

    def op(self, type_: Shaped, opcode: str, /, *operands: str, **attributes: object) -> str:
        """``%name = opcode(...)``; the name."""
        name = self.fresh()
        words = [f"%{o}" for o in operands] + [f"{k.rstrip('_')}={show(v)}" for k, v in attributes.items()]
        self.emit(f"%{name}:{type_} = {opcode}({', '.join(words)});")
        self.budget -= 1
        return self.define(name, type_)

    def value(self, kind: Shaped, text: str) -> str:
        """``%name = constant(text)``."""
        name = self.fresh()
        self.emit(f"%{name}:{kind} = constant({text});")
        return self.define(name, kind)

    @contextmanager
    def block(self) -> "Iterator[None]":
        """What is defined inside is not known behind."""
        tensors, integers = len(self.tensors), len(self.integers)
        self.depth += 1
        yield
        self.depth -= 1
        del self.tensors[tensors:], self.integers[integers:]

    # choices

    def chance(self, p: float) -> bool:
        return self.r.random() < p

    def attribute(self, high: int, base: int = 0, grain: int = 1, shape: bool = False) -> str:
        """A new attribute."""
        name = f"a{len(self.attributes)}"
        self.attributes[name] = Attribute(name, high, base, grain, shape)
        if base == 0 and grain == 1:
            self.integers.insert(0, (name, high))
        return name

    def expression(self, high: int) -> str:
        """An integer expression with values in 0..high."""
        r = self.r
        if high <= 0:
            return "0"
        fitting = [(n, h) for n, h in self.integers if h <= high]
        kind = r.randrange(10)
        if kind < 2 and fitting:
            name, most = r.choice(fitting)
            return r.choice([name, f"({name})", f"{name} + {high - most}" if high > most else name])
        if kind == 2 and self.integers:
            name, most = r.choice(self.integers)
            n = r.randint(1, high + 1)
            return r.choice([f"{name} % {n}", f"min({name}, {high})", f"{high} - min({name}, {high})",
                             f"{name} // {most // high + 1}", f"({name} & {(1 << (high + 1).bit_length() - 1) - 1})",
                             f"select({name} < {r.randint(0, most)}, {r.randint(0, high)}, {r.randint(0, high)})",
                             f"({name} >> {max(0, most.bit_length() - (high + 1).bit_length() + 1)})"])
        if kind == 3 and fitting:
            name, most = r.choice(fitting)
            rest = high - most
            return f"{name} + {self.attribute(rest)}" if rest and self.may_add else f"{name}"
        if kind == 4:
            return str(r.randint(0, high))
        if kind == 5 and high > 1 and self.may_add:
            step = r.randint(2, min(high, 4))
            return f"{step} * {self.attribute(high // step)}"
        if kind == 6 and high > 1 and self.may_add:
            return f"{high} - {self.attribute(high)}"
        if kind == 7 and self.isa.arrays:
            name, size, most = r.choice(self.isa.arrays)
            if most <= high:
                return f"{name}[{r.randrange(size)}]"
        return self.attribute(high) if self.may_add else str(r.randint(0, high))

    @property
    def may_add(self) -> bool:
        return self.storage and len(self.attributes) < 7

    # shapes

    def most(self, dim: Dim) -> int:
        """The largest value of a dimension."""
        if isinstance(dim, int):
            return dim
        assert self.rows is not None
        return self.rows.high + self.rows.base

    def size(self, shape: Sequence[Dim]) -> int:
        return math.prod(map(self.most, shape))

    def known(self, kind: Shaped, *, least: int = 0) -> list[str]:
        """The tensors of a type that are in scope."""
        return [n for n, k in self.tensors if k == kind]


def show(value: object) -> str:
    """The value of an operator's attribute as text."""
    if isinstance(value, (tuple, list)):
        return "{" + ", ".join(map(str, value)) + "}"
    return str(value)


def has_nan(dtype: str) -> bool:
    """Whether elements may be NaN, of which a computed one has no particular bits."""
    kind = element_type(dtype)
    return kind.kind == "float" and kind.bits >= 8


def fixed(shape: Sequence[Dim]) -> bool:
    """Whether all extents are numbers."""
    return all(isinstance(d, int) for d in shape)
