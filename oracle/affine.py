"""Integer expressions that are affine in loop variables, with floor division and modulo by constants.

Every address, size and register value in a stream is one of these. They are immutable, hashable and canonical:
two expressions built in different ways compare equal when their canonical forms are the same. Canonical means: like
terms collected, no zero coefficients, terms in a fixed order (variables by name, then divisions and modulos by their
text), what is a multiple of a divisor taken out of its division, and coefficients below a modulo reduced by it.
The operators keep this form; construct with them, with :meth:`Affine.of` or with :meth:`Affine.build`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, Union, overload

from archloom.oracle.errors import StreamError
from archloom.oracle.memory import Remembered

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
"""A variable (of a loop, or a :class:`~archloom.oracle.variables.Variable`), a division or a modulo."""
Term: TypeAlias = tuple[Atom, int]


@lru_cache(maxsize=1 << 13)
def _text_key(atom: Div | Mod) -> str:
    return _atom_text(atom)


def _key(term: Term) -> tuple[int, str]:
    atom = term[0]
    return (0, atom) if isinstance(atom, str) else (1, _text_key(atom))


@dataclass(frozen=True, init=False, eq=False)
class Affine:
    """``constant + sum(coefficient * atom)``; an atom is a loop variable, a floor division or a modulo.

    A compilation makes millions of them: what is asked of one again and again (hash, linearity) it remembers. Constants
    equal integers; whether another one does is a StreamError, as it is written once for all values of its variables.
    """

    __slots__ = ("_hash", "_linear", "constant", "terms")

    constant: int
    terms: tuple[Term, ...]

    def __init__(self, constant: int = 0, terms: tuple[Term, ...] = ()) -> None:
        _set_constant(self, constant)
        _set_terms(self, terms)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if other.__class__ is not Affine:
            if not isinstance(other, int):
                return NotImplemented
            if self.terms:
                raise StreamError(f"{self} == {other} cannot be decided where instructions are written, once for all "
                                  "iterations: make a loop of its own of those that differ")
            return self.constant == other
        return self.constant == other.constant and self.terms == other.terms  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        try:
            return self._hash  # type: ignore[attr-defined,no-any-return]
        except AttributeError:
            value = hash((self.constant, self.terms)) if self.terms else hash(self.constant)
            _set_hash(self, value)
            return value

    def __reduce__(self) -> "tuple[type[Affine], tuple[int, tuple[Term, ...]]]":
        return Affine, (self.constant, self.terms)

    @staticmethod
    def variable(name: str) -> "Affine":
        return Affine(0, ((name, 1),))

    @staticmethod
    def of(value: "Affine | int | str") -> "Affine":
        """``value`` as an expression: an integer is a constant, a string the variable of that name."""
        if isinstance(value, Affine):
            return value
        return Affine(0, ((value, 1),)) if isinstance(value, str) else Affine.number(operator.index(value))

    @staticmethod
    @lru_cache(maxsize=1 << 12)
    def number(value: int) -> "Affine":
        """A constant; the same object for the same number, as a rule."""
        return Affine(value)

    @staticmethod
    def build(constant: int, terms: Iterable[Term]) -> "Affine":
        """Collect like terms and drop zeros: the canonical form."""
        merged: dict[Atom, int] = {}
        for atom, coefficient in terms:
            merged[atom] = merged[atom] + coefficient if atom in merged else coefficient
        kept = [t for t in merged.items() if t[1]]
        if len(kept) > 1:
            # the order is that of _key; names alone compare faster without it
            for atom in merged:
                if not isinstance(atom, str):
                    kept.sort(key=_key)
                    break
            else:
                kept.sort()  # type: ignore[call-overload]
        return Affine(constant, tuple(kept))

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def __int__(self) -> int:
        if self.terms:
            raise ValueError(f"{self} is not a constant")
        return self.constant

    def __add__(self, other: "Affine | int") -> "Affine":
        if not isinstance(other, Affine):
            return Affine(self.constant + operator.index(other), self.terms) if other else self
        if not other.terms:
            return Affine(self.constant + other.constant, self.terms) if other.constant else self
        if not self.terms:
            return Affine(self.constant + other.constant, other.terms) if self.constant else other
        return Affine.build(self.constant + other.constant, self.terms + other.terms)

    __radd__ = __add__

    def __neg__(self) -> "Affine":
        return Affine(-self.constant, tuple([(a, -c) for a, c in self.terms]))

    def __sub__(self, other: "Affine | int") -> "Affine":
        return self + -other

    def __rsub__(self, other: int) -> "Affine":
        return -self + other

    def __mul__(self, other: "Affine | int") -> "Affine":
        """Product; one side must be a constant."""
        if isinstance(other, Affine):
            if other.terms:
                if self.terms:
                    raise ValueError(f"({self}) * ({other}) is not affine")
                return other * self.constant
            other = other.constant
        if other == 1:
            return self
        other = operator.index(other)
        return Affine(self.constant * other, tuple([(a, c * other) for a, c in self.terms])) if other else Affine(0)

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> "Affine":
        d = _positive(divisor)
        if d == 1:
            return self
        if not self.terms:
            return Affine(self.constant // d)
        # (d*q + r) // d = q + r // d; each coefficient is split towards zero, so that q and r grow in the same
        # direction and the range of the sum stays exact
        whole = Affine(self.constant // d, tuple([(a, _quotient(c, d)) for a, c in self.terms if abs(c) >= d]))
        rest = tuple([(a, c - d * _quotient(c, d)) for a, c in self.terms if c % d])
        return whole + Affine(0, ((Div(Affine(self.constant % d, rest), d), 1),)) if rest else whole

    def __mod__(self, divisor: int) -> "Affine":
        d = _positive(divisor)
        # (d*q + r) % d = r % d, also for the multiple of d within (x % (d*m)) = x - d*m*(x // (d*m))
        if any(isinstance(a, Mod) and a.divisor % d == 0 for a, _ in self.terms):
            return _inner_mods(self, d) % d
        rest = tuple([(a, c % d) for a, c in self.terms if c % d])
        return Affine(0, ((Mod(Affine(self.constant % d, rest), d), 1),)) if rest else Affine(self.constant % d)

    @overload
    def evaluate(self, values: Mapping[str, int]) -> int: ...
    @overload
    def evaluate(self, values: "Mapping[str, NDArray[Any]]") -> Any: ...
    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The value where each variable has the value given; KeyError for a variable that is missing.

        Values may also be NumPy integer arrays that broadcast together; then so is the result (an int where the
        expression is constant).
        """
        total: Any = self.constant
        for atom, coefficient in self.terms:
            # no += : it would write into an array
            if isinstance(atom, str):
                total = total + coefficient * values[atom]
            elif isinstance(atom, Div):
                total = total + coefficient * (atom.numerator.evaluate(values) // atom.divisor)
            else:
                total = total + coefficient * (atom.numerator.evaluate(values) % atom.divisor)
        return total

    def substitute(self, values: Mapping[str, "Affine | int"]) -> "Affine":
        """Replace variables by expressions, all at once; variables that are not named stay."""
        if not values:
            return self
        constant = self.constant
        terms: list[Term] = []
        changed = more = False
        for term in self.terms:
            atom, coefficient = term
            if isinstance(atom, str):
                given = values.get(atom)
                if given is None:
                    terms.append(term)
                    continue
                new = given if given.__class__ is Affine else Affine.of(given)  # type: ignore[assignment]
            else:
                inner = atom.numerator.substitute(values)
                if inner is atom.numerator:
                    terms.append(term)
                    continue
                new = inner // atom.divisor if isinstance(atom, Div) else inner % atom.divisor
            changed = True
            constant += coefficient * new.constant
            if new.terms:
                more = True
                terms += new.terms if coefficient == 1 else [(a, c * coefficient) for a, c in new.terms]
        if not changed:
            return self
        return Affine.build(constant, terms) if more and len(terms) > 1 else Affine(constant, tuple(terms))

    def simplify(self, bounds: Bounds) -> "Affine":
        """Remove divisions and modulos that the ranges of the variables decide; pair up ``d*(x//d) + x%d``.

        The value is unchanged wherever every variable lies in its bounds; variables without bounds may have any value.
        """
        if not self.terms:
            return self
        constant = self.constant
        terms: list[Term] = []
        changed = False
        for term in self.terms:
            atom, coefficient = term
            if isinstance(atom, str):
                low, high = bounds.get(atom, _WIDE)
                if low != high:
                    terms.append(term)
                    continue
                new = Affine(low)
            else:
                new = _simplified(atom, bounds)
                if len(new.terms) == 1 and new.terms[0] == (atom, 1) and not new.constant:
                    terms.append(term)
                    continue
            changed = True
            constant += coefficient * new.constant
            terms += [(a, c * coefficient) for a, c in new.terms]
        result = Affine.build(constant, terms) if changed else self
        return result if result.is_linear else _pair(result)

    def range(self, bounds: Bounds) -> tuple[int, int]:
        """Bounds of the value (inclusive): exact without ``//`` and ``%``, never too narrow with them.

        KeyError for a variable without bounds.
        """
        low = high = self.constant
        for atom, coefficient in self.terms:
            a, b = bounds[atom] if isinstance(atom, str) else _atom_range(atom, bounds)
            if coefficient > 0:
                low += coefficient * a
                high += coefficient * b
            else:
                low += coefficient * b
                high += coefficient * a
        return low, high

    def variables(self) -> frozenset[str]:
        names: set[str] = set()
        for atom, _ in self.terms:
            if isinstance(atom, str):
                names.add(atom)
            else:
                names |= atom.numerator.variables()
        return frozenset(names)

    def coefficient(self, variable: str) -> int:
        """The coefficient of ``variable`` outside of ``//`` and ``%``."""
        return next((c for a, c in self.terms if a == variable), 0)

    @property
    def largest(self) -> int:
        """The greatest number that it is written with, signs aside."""
        inner = (max(a.divisor, a.numerator.largest) for a, _ in self.terms if not isinstance(a, str))
        return max([abs(self.constant), *(abs(c) for _, c in self.terms), *inner])

    @property
    def is_linear(self) -> bool:
        """Whether no ``//`` or ``%`` is left."""
        try:
            return self._linear  # type: ignore[attr-defined,no-any-return]
        except AttributeError:
            pass
        value = True
        for atom, _ in self.terms:
            if not isinstance(atom, str):
                value = False
                break
        _set_linear(self, value)
        return value

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


_set_constant, _set_terms, _set_hash, _set_linear = (
    Affine.__dict__[name].__set__ for name in ("constant", "terms", "_hash", "_linear")
)
_WIDE = (0, 1)
"""Bounds of a variable that has none, as far as it matters there: not a single value."""


def _positive(divisor: "int | Affine") -> int:
    d = int(divisor)
    if d <= 0:
        raise ValueError(f"a divisor must be a positive constant, not {divisor}")
    return d


def _inner_mods(e: Affine, d: int) -> Affine:
    """``e`` with ``x`` for each ``x % (d*m)``: the same value modulo ``d``."""
    result = Affine(e.constant)
    for atom, c in e.terms:
        inner = atom.numerator if isinstance(atom, Mod) and atom.divisor % d == 0 else Affine(0, ((atom, 1),))
        result = result + inner * c
    return result


def _quotient(c: int, d: int) -> int:
    """``c / d`` rounded towards zero."""
    return c // d if c >= 0 else -(-c // d)


def _atom_text(atom: Atom) -> str:
    if isinstance(atom, str):
        return atom
    sign = "//" if isinstance(atom, Div) else "%"
    inner = str(atom.numerator)
    if len(atom.numerator.terms) > 1 or atom.numerator.constant:
        inner = f"({inner})"
    return f"({inner} {sign} {atom.divisor})"


def _atom_range(atom: Div | Mod, bounds: Bounds) -> tuple[int, int]:
    low, high = atom.numerator.range(bounds)
    if isinstance(atom, Div):
        return low // atom.divisor, high // atom.divisor
    if low // atom.divisor == high // atom.divisor:
        return low % atom.divisor, high % atom.divisor
    step = math.gcd(atom.divisor, *(c for _, c in atom.numerator.terms))
    first = atom.numerator.constant % step
    return first, atom.divisor - step + first


def _simplified(atom: Div | Mod, bounds: Bounds) -> Affine:
    """:func:`_simplify_atom`, remembered: the same atoms come back thousands of times when streams are raised."""
    key = (atom, tuple([bounds.get(name) for name in _names(atom)]))
    found = _known.get(key)
    if found is None:
        found = _known[key] = _simplify_atom(atom, bounds)
    return found


_known: Remembered[tuple[Atom, tuple[tuple[int, int] | None, ...]], Affine] = Remembered(1 << 13)


@lru_cache(maxsize=1 << 13)
def _names(atom: Div | Mod) -> tuple[str, ...]:
    return tuple(sorted(atom.numerator.variables()))


def _simplify_atom(atom: Div | Mod, bounds: Bounds) -> Affine:
    d = atom.divisor
    inner = atom.numerator.simplify(bounds)
    # x = d*w + r where w takes the terms that are multiples of d; where r stays in one block of d, x//d = w + r//d
    whole = Affine(0, tuple([(a, c // d) for a, c in inner.terms if c % d == 0]))
    rest = Affine(inner.constant, tuple([(a, c) for a, c in inner.terms if c % d]))
    try:
        low, high = rest.range(bounds)
    except KeyError:
        return inner // d if isinstance(atom, Div) else inner % d
    q = low // d
    if q != high // d:
        return _of_remainder(atom, inner, bounds) or _coarsen(atom, inner, bounds)
    return whole + q if isinstance(atom, Div) else rest - q * d


def _of_remainder(atom: Div | Mod, inner: Affine, bounds: Bounds) -> Affine | None:
    """``(x % (d*m)) // d = x//d - m * (x//(d*m))``: a sum of divisions alone; None for others."""
    if len(inner.terms) != 1 or inner.constant or not isinstance(atom, Div):
        return None
    (of, coefficient), = inner.terms
    if not isinstance(of, Mod) or coefficient != 1 or of.divisor % atom.divisor:
        return None
    x, d = of.numerator, atom.divisor
    return (x // d - x // of.divisor * (of.divisor // d)).simplify(bounds)


def _coarsen(atom: Div | Mod, inner: Affine, bounds: Bounds) -> Affine:
    """``(g*x + r) // (g*m) = x // m`` and ``(g*x + r) % (g*m) = g*(x % m) + r`` where r stays in one block of g."""
    d = atom.divisor
    for g in sorted({math.gcd(d, c) for _, c in inner.terms} - {1, d}, reverse=True):
        fine = Affine(inner.constant, tuple([(a, c) for a, c in inner.terms if c % g]))
        low, high = fine.range(bounds)
        q = low // g
        if q == high // g:
            x = Affine(q, tuple([(a, c // g) for a, c in inner.terms if c % g == 0]))
            if isinstance(atom, Div):
                return (x // (d // g)).simplify(bounds)
            return (x % (d // g)).simplify(bounds) * g + (fine - q * g)
    return inner // d if isinstance(atom, Div) else inner % d


def _pair(e: Affine) -> Affine:
    """``c*d*(x//d) + c*(x%d) = c*x``, ``c*x - c*d*(x//d) = c*(x%d)`` and ``c*x - c*(x%d) = c*d*(x//d)``."""
    for atom, k in e.terms:
        if isinstance(atom, str) or (isinstance(atom, Div) and k % atom.divisor):
            continue
        c, x = -(k // atom.divisor if isinstance(atom, Div) else k), atom.numerator
        terms = dict(e.terms)
        if all(terms.get(a) == c * n for a, n in x.terms):
            rest = Affine(e.constant, tuple([t for t in e.terms if t[0] != atom])) - x * c
            made = x % atom.divisor if isinstance(atom, Div) else x // atom.divisor * atom.divisor
            return _pair(rest + made * c)
    for atom, c in e.terms:
        if isinstance(atom, Mod):
            for other, k in e.terms:
                if not isinstance(other, Div) or other.divisor != atom.divisor or k != c * atom.divisor:
                    continue
                if other.numerator % atom.divisor == Affine(0, ((atom, 1),)):
                    rest = Affine(e.constant, tuple(t for t in e.terms if t[0] not in (atom, other)))
                    return _pair(rest + other.numerator * c)
    return e
