"""Integer expressions that are affine in loop variables, with floor division and modulo by constants.

Every address, size and register value in a stream is one of these. They are immutable, hashable and canonical:
two expressions built in different ways compare equal when their canonical forms are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, Union

Bounds: TypeAlias = Mapping[str, tuple[int, int]]
"""For each loop variable the smallest and the largest value that it takes (both inclusive)."""


@dataclass(frozen=True)
class Div:
    """``numerator // divisor`` (floor)."""

    numerator: "Affine"
    divisor: int


@dataclass(frozen=True)
class Mod:
    """``numerator % divisor`` (result in ``0 .. divisor-1``)."""

    numerator: "Affine"
    divisor: int


Atom: TypeAlias = Union[str, Div, Mod]


@lru_cache(maxsize=65536)
def _key(atom: Atom) -> tuple[int, str]:
    return (0, atom) if isinstance(atom, str) else (1, str(Affine(0, ((atom, 1),))))


@dataclass(frozen=True)
class Affine:
    """``constant + sum(coefficient * atom)``; an atom is a loop variable, a floor division or a modulo."""

    constant: int = 0
    terms: tuple[tuple[Atom, int], ...] = ()

    @staticmethod
    def variable(name: str) -> "Affine":
        return Affine(0, ((name, 1),))

    @staticmethod
    def of(value: "Affine | int | str") -> "Affine":
        """``value`` as an expression: an integer is a constant, a string the variable of that name."""
        if isinstance(value, Affine):
            return value
        return Affine.variable(value) if isinstance(value, str) else Affine(int(value))

    @staticmethod
    def build(constant: int, terms: Iterable[tuple[Atom, int]]) -> "Affine":
        """Collect like terms and drop zeros: the canonical form."""
        merged: dict[Atom, int] = {}
        for atom, coefficient in terms:
            merged[atom] = merged.get(atom, 0) + coefficient
        kept = [(a, c) for a, c in merged.items() if c]
        return Affine(constant, tuple(sorted(kept, key=lambda term: _key(term[0]))))

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def __int__(self) -> int:
        if self.terms:
            raise ValueError(f"{self} is not a constant")
        return self.constant

    def __add__(self, other: "Affine | int") -> "Affine":
        o = Affine.of(other)
        return Affine.build(self.constant + o.constant, self.terms + o.terms)

    __radd__ = __add__

    def __neg__(self) -> "Affine":
        return self * -1

    def __sub__(self, other: "Affine | int") -> "Affine":
        return self + (-Affine.of(other))

    def __rsub__(self, other: int) -> "Affine":
        return Affine.of(other) - self

    def __mul__(self, other: "Affine | int") -> "Affine":
        """Product; one side must be a constant."""
        o = Affine.of(other)
        if not o.is_constant:
            if not self.is_constant:
                raise ValueError(f"({self}) * ({o}) is not affine")
            return o * self.constant
        return Affine.build(self.constant * o.constant, ((a, c * o.constant) for a, c in self.terms))

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> "Affine":
        d = _positive(divisor)
        if d == 1:
            return self
        # (d*q + r) // d = q + r // d, for the part of each term that is a multiple of d
        whole = Affine.build(self.constant // d, ((a, c // d) for a, c in self.terms if c % d == 0))
        rest = Affine.build(self.constant % d, ((a, c) for a, c in self.terms if c % d))
        return whole if rest.is_constant else whole + Affine(0, ((Div(rest, d), 1),))

    def __mod__(self, divisor: int) -> "Affine":
        d = _positive(divisor)
        # (d*q + r) % d = r % d
        rest = Affine.build(self.constant % d, ((a, c % d) for a, c in self.terms))
        return rest if rest.is_constant else Affine(0, ((Mod(rest, d), 1),))

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value where each variable has the value given; KeyError for a variable that is missing."""
        total = self.constant
        for atom, coefficient in self.terms:
            if isinstance(atom, str):
                total += coefficient * values[atom]
            elif isinstance(atom, Div):
                total += coefficient * (atom.numerator.evaluate(values) // atom.divisor)
            else:
                total += coefficient * (atom.numerator.evaluate(values) % atom.divisor)
        return total

    def substitute(self, values: Mapping[str, "Affine | int"]) -> "Affine":
        """Replace variables by expressions; variables that are not named stay."""
        result = Affine(self.constant)
        for atom, coefficient in self.terms:
            result = result + _rebuild(atom, lambda e: e.substitute(values), values) * coefficient
        return result

    def simplify(self, bounds: Bounds) -> "Affine":
        """Remove divisions and modulos that the ranges of the variables decide; pair up ``d*(x//d) + x%d``."""
        result = Affine(self.constant)
        for atom, coefficient in self.terms:
            result = result + _simplify_atom(atom, bounds) * coefficient
        return _pair(result)

    def range(self, bounds: Bounds) -> tuple[int, int]:
        """Bounds of the value (inclusive): exact without ``//`` and ``%``, never too narrow with them."""
        low = high = self.constant
        for atom, coefficient in self.terms:
            a, b = _atom_range(atom, bounds)
            low += coefficient * (a if coefficient > 0 else b)
            high += coefficient * (b if coefficient > 0 else a)
        return low, high

    def variables(self) -> frozenset[str]:
        names: set[str] = set()
        for atom, _ in self.terms:
            names |= {atom} if isinstance(atom, str) else atom.numerator.variables()
        return frozenset(names)

    def coefficient(self, variable: str) -> int:
        """The coefficient of ``variable`` outside of ``//`` and ``%``."""
        return next((c for a, c in self.terms if a == variable), 0)

    @property
    def is_linear(self) -> bool:
        """Whether no ``//`` or ``%`` is left."""
        return all(isinstance(a, str) for a, _ in self.terms)

    def __str__(self) -> str:
        parts: list[str] = []
        for atom, c in self.terms:
            text = _atom_text(atom)
            sign = "-" if c < 0 else "+"
            parts.append(f" {sign} {text}" if abs(c) == 1 else f" {sign} {abs(c)}*{text}")
        if self.constant or not parts:
            parts.append(f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}")
        text = "".join(parts)[1:]
        return text[2:] if text.startswith("+ ") else "-" + text[2:]


def _positive(divisor: int) -> int:
    if isinstance(divisor, Affine):
        divisor = int(divisor)
    if divisor <= 0:
        raise ValueError(f"a divisor must be a positive constant, not {divisor}")
    return divisor


def _atom_text(atom: Atom) -> str:
    if isinstance(atom, str):
        return atom
    sign = "//" if isinstance(atom, Div) else "%"
    return f"(({atom.numerator}) {sign} {atom.divisor})"


def _rebuild(atom: Atom, f: Callable[[Affine], Affine], values: Mapping[str, Affine | int]) -> Affine:
    if isinstance(atom, str):
        return Affine.of(values[atom]) if atom in values else Affine.variable(atom)
    inner = f(atom.numerator)
    return inner // atom.divisor if isinstance(atom, Div) else inner % atom.divisor


def _atom_range(atom: Atom, bounds: Bounds) -> tuple[int, int]:
    if isinstance(atom, str):
        return bounds[atom]
    low, high = atom.numerator.range(bounds)
    if isinstance(atom, Div):
        return low // atom.divisor, high // atom.divisor
    if low // atom.divisor == high // atom.divisor:
        return low % atom.divisor, high % atom.divisor
    step = math.gcd(atom.divisor, *(c for _, c in atom.numerator.terms))
    first = atom.numerator.constant % step
    return first, atom.divisor - step + first


def _simplify_atom(atom: Atom, bounds: Bounds) -> Affine:
    if isinstance(atom, str):
        low, high = bounds.get(atom, (0, -1))
        return Affine(low) if low == high else Affine.variable(atom)
    d = atom.divisor
    inner = atom.numerator.simplify(bounds)
    # split off what cannot carry: x = d*q + g*y + r with r in 0..g-1, so that x//d = q + (g*y)//d
    low, high = inner.range(bounds)
    if low // d == high // d:
        q = low // d
        return Affine(q) if isinstance(atom, Div) else inner - q * d
    if isinstance(atom, Div):
        return inner // d if not _carry_free(inner, d, bounds) else _split_div(inner, d, bounds)
    return inner % d if not _carry_free(inner, d, bounds) else inner - d * _split_div(inner, d, bounds)


def _parts(inner: Affine, d: int, bounds: Bounds) -> tuple[Affine, Affine]:
    whole = Affine.build(0, ((a, c) for a, c in inner.terms if c % d == 0))
    return whole, inner - whole


def _carry_free(inner: Affine, d: int, bounds: Bounds) -> bool:
    """Whether the part of ``inner`` that is no multiple of ``d`` stays within one block of ``d``."""
    _, rest = _parts(inner, d, bounds)
    low, high = rest.range(bounds)
    return low // d == high // d


def _split_div(inner: Affine, d: int, bounds: Bounds) -> Affine:
    whole, rest = _parts(inner, d, bounds)
    return whole // d + rest.range(bounds)[0] // d


def _pair(e: Affine) -> Affine:
    """``c*d*(x//d) + c*(x%d) = c*x``."""
    for atom, c in e.terms:
        if isinstance(atom, Mod):
            other = Div(atom.numerator, atom.divisor)
            if any(a == other and k == c * atom.divisor for a, k in e.terms):
                rest = Affine(e.constant, tuple(t for t in e.terms if t[0] not in (atom, other)))
                return _pair(rest + atom.numerator * c)
    return e
