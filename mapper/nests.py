"""Nests of loops over scalar operations on tensors: what a vector unit is given, as data, and their meaning in NumPy.

A nest has parallel axes, and for each of their points passes one after the other, each over axes of its own. A pass
computes numbers (its code, in which an operation names earlier ones by their places), stores some of them, and folds
others over its axes into results by name, which later passes read. Softmax of rows is the axis of rows, and three
passes along them: the largest score, exponentials and their sum, and quotients. Addresses count elements and are linear
in the axes; all numbers are of 32 bits, float32 or int32 as operations take them. In memory they are words of 32 bits,
or of :data:`ITEMS`: made wider where they are loaded, and narrower where they are stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import ml_dtypes  # noqa: F401  (NumPy then knows bfloat16)
import numpy as np

from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError

LOAD, NUMBER, WHOLE, HELD, GATHER = "load", "number", "whole", "held", "gather"
"""Operations without arithmetic: an element of a tensor; a float32; an int32; what an earlier pass has found; an
element of a tensor, so many elements behind its address as an int32 says."""

COMPARISONS = frozenset({"less", "less_equal", "equal", "whole_less", "whole_equal", "unsigned_less"})
"""Operations that give a truth, for ``select``."""

ZERO = Affine(0)

ITEMS: Mapping[str, int] = {"": 4, "int8": 1, "uint8": 1, "float16": 2, "bfloat16": 2}
"""Types of elements in memory, and their bytes: words as they are; integers, which are int32 as numbers, and next to
that where they are stored; the others (:data:`HALVES`), which are float32 as numbers, and rounded where they are
stored."""
HALVES = ("float16", "bfloat16")

FOLDS = ("sum", "maximum", "minimum", "whole_maximum", "whole_minimum")
"""How a pass makes one number of those of all points of its axes."""


@dataclass(frozen=True)
class Axis:
    """A loop from 0 on."""

    name: str
    extent: int


@dataclass(frozen=True)
class Operation:
    """One number for each point: ``name`` is one of those above, or of :data:`SCALAR`, of the numbers ``args``.

    ``of`` is the tensor, or what is held; ``at`` the address of the element, whose type is ``item`` where it is no
    word; ``value`` the number.
    """

    name: str
    args: tuple[int, ...] = ()
    of: str = ""
    at: Affine = ZERO
    value: float = 0.0
    item: str = ""


@dataclass(frozen=True)
class Store:
    """The number ``value`` is written to an element of a tensor, of type ``item`` where that is no word."""

    of: str
    at: Affine
    value: int
    item: str = ""


@dataclass(frozen=True)
class Fold:
    """The numbers ``value`` of all points of a pass are made one, which later passes know as ``name``. Without axes it
    is that number itself."""

    name: str
    kind: str
    value: int


@dataclass(frozen=True)
class Pass:
    """Code for each point of ``axes``."""

    axes: tuple[Axis, ...]
    code: tuple[Operation, ...]
    stores: tuple[Store, ...] = ()
    folds: tuple[Fold, ...] = ()


@dataclass(frozen=True)
class Nest:
    """Passes for each point of ``axes``, which may be taken in any order."""

    axes: tuple[Axis, ...]
    passes: tuple[Pass, ...]

    @property
    def points(self) -> int:
        """How often any code is run."""
        return sum(map(self._points, self.passes))

    @property
    def products(self) -> int:
        """Products that are summed up."""
        return sum(self._points(p) for p in self.passes for f in p.folds
                   if f.kind == "sum" and p.axes and p.code[f.value].name == "multiply")

    def _points(self, each: Pass) -> int:
        return math.prod(a.extent for a in (*self.axes, *each.axes))


Bits: TypeAlias = np.ndarray
"""Words of 32 bits, as int32."""


class Code:
    """Operations of a pass as they are written: what is the same is computed once."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._places: dict[Operation, int] = {}

    def _add(self, operation: Operation) -> int:
        if operation not in self._places:
            self._places[operation] = len(self.operations)
            self.operations.append(operation)
        return self._places[operation]

    def number(self, value: float) -> int:
        """A float32."""
        return self._add(Operation(NUMBER, value=float(np.float32(value))))

    def whole(self, value: int) -> int:
        """An int32."""
        return self._add(Operation(WHOLE, value=value))

    def load(self, of: str, at: Affine, item: str = "") -> int:
        return self._add(Operation(LOAD, of=of, at=at, item=item))

    def gather(self, of: str, at: Affine, behind: int, item: str = "") -> int:
        """The element of a tensor that lies as many elements behind ``at`` as ``behind`` says."""
        return self._add(Operation(GATHER, (behind,), of, at, item=item))

    def held(self, name: str) -> int:
        return self._add(Operation(HELD, of=name))

    def apply(self, name: str, *args: int) -> int:
        """An operation of :data:`SCALAR`."""
        return self._add(Operation(name, args))

    def again(self, operation: Operation, args: Sequence[int]) -> int:
        """An operation of other code, of these numbers."""
        return self._add(replace(operation, args=tuple(args)))


# --- meaning ----------------------------------------------------------------------------------------------------------
def _float(function: Any) -> Any:
    """A function of float32 on words."""
    def of_words(*words: Bits) -> Bits:
        with np.errstate(all="ignore"):
            found = np.asarray(function(*(np.asarray(w).view(np.float32) for w in words)), np.float32)
        return found.view(np.int32)

    return of_words


def _wide(function: Any) -> Any:
    """A function of float64, whose result is rounded to float32."""
    return _float(lambda *x: function(*(a.astype(np.float64) for a in x)))


def _truth(function: Any) -> Any:
    def of_words(*words: Bits) -> Bits:
        return np.asarray(function(*(np.asarray(w).view(np.float32) for w in words)), np.int32)

    return of_words


def _whole(rounded: Any) -> Any:
    """The int32 that ``rounded`` makes of a float32, or the one next to it; NaN is the largest."""
    def of_words(words: Bits) -> Bits:
        with np.errstate(invalid="ignore"):  # a signalling NaN, too, is none that matters here
            real, most = np.asarray(words).view(np.float32).astype(np.float64), 2**31 - 1
        return np.asarray(rounded(np.clip(np.where(np.isnan(real), most, real), -2**31, most))).astype(np.int32)

    return of_words


def _unsigned(function: Any) -> Any:
    """A function of words as unsigned numbers, whose results are words."""
    return lambda *words: np.asarray(function(*(np.asarray(w).view(np.uint32) for w in words))).astype(
        np.uint32).view(np.int32)


def _high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.uint64) * b.astype(np.uint64) >> np.uint64(32)  # type: ignore[no-any-return]


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))  # type: ignore[no-any-return]


SCALAR: Mapping[str, Any] = {
    "add": _float(np.add), "subtract": _float(np.subtract), "multiply": _float(np.multiply),
    "divide": _float(np.divide), "maximum": _float(np.fmax), "minimum": _float(np.fmin),
    "multiply_add": _wide(lambda a, b, c: a * b + c),
    "negate": _float(np.negative), "abs": _float(np.abs), "sqrt": _float(np.sqrt), "with_sign": _float(np.copysign),
    "to_whole": _whole(np.rint), "truncated": _whole(np.trunc),
    "to_float": lambda w: w.astype(np.float32).view(np.int32),
    "whole_add": np.add, "whole_subtract": np.subtract, "whole_multiply": np.multiply, "whole_minimum": np.minimum,
    "whole_maximum": np.maximum, "whole_and": np.bitwise_and, "whole_or": np.bitwise_or,
    "shift_left": lambda a, b: np.left_shift(a, b & 31), "shift_right": lambda a, b: np.right_shift(a, b & 31),
    "unsigned_shift_right": _unsigned(lambda a, b: a >> (b & np.uint32(31))), "multiply_high": _unsigned(_high),
    "less": _truth(np.less), "less_equal": _truth(np.less_equal), "equal": _truth(np.equal),
    "whole_less": lambda a, b: np.less(a, b).astype(np.int32),
    "whole_equal": lambda a, b: np.equal(a, b).astype(np.int32), "unsigned_less": _unsigned(np.less),
    "select": lambda c, a, b: np.where(np.asarray(c) != 0, a, b),
    "exp": _wide(np.exp), "erf": _wide(_erf), "tanh": _wide(np.tanh), "sigmoid": _wide(_sigmoid),
    "sin": _wide(np.sin), "cos": _wide(np.cos),
}
"""What each operation makes of words: the definition, by NumPy. Arithmetic is of float32, rounded once, but for what is
called ``whole`` (int32; ``to_whole`` rounds, ``truncated`` cuts off what is behind the point), ``unsigned`` (uint32) or
shifts, by the last five bits of the second; ``multiply_high`` gives the upper half of a product of unsigned numbers;
``less`` and its like give a truth, which ``select`` takes. Of NaN they are RISC-V's: ``maximum`` and ``minimum`` of a
number and a NaN are the number, and ``to_whole`` and ``truncated`` make the largest int32 of it."""


def evaluate(nest: Nest, words: Mapping[str, Bits]) -> None:
    """Run a nest on tensors as flat arrays of words, or of the types that these have in memory, in place: plain, for
    tests. Sums are of float64."""
    outer = _points(nest.axes)
    held: dict[str, Bits] = {}
    for each in nest.passes:
        _run(each, nest.axes, outer, words, held)


def _run(each: Pass, axes: tuple[Axis, ...], outer: Mapping[str, np.ndarray], words: Mapping[str, Bits],
         held: dict[str, Bits]) -> None:
    points = _points((*axes, *each.axes))
    shape = tuple(a.extent for a in (*axes, *each.axes))
    behind = tuple(range(len(axes), len(shape)))
    found: list[Bits] = []
    for operation in each.code:
        found.append(_value(operation, found, points, words, held, len(each.axes)))
    for store in each.stores:
        words[store.of][store.at.evaluate(points)] = _stored(np.broadcast_to(found[store.value], shape), store.item)
    for fold in each.folds:
        numbers = np.broadcast_to(found[fold.value], shape)
        held[fold.name] = _folded(fold.kind, numbers, behind) if behind else numbers


def _value(operation: Operation, found: Sequence[Bits], points: Mapping[str, np.ndarray], words: Mapping[str, Bits],
           held: Mapping[str, Bits], inner: int) -> Bits:
    match operation.name:
        case "load":
            return _widened(words[operation.of][operation.at.evaluate(points)], operation.item)
        case "gather":
            place = operation.at.evaluate(points) + found[operation.args[0]]
            return _widened(words[operation.of][place], operation.item)
        case "number":
            return np.asarray(operation.value, np.float32).view(np.int32)
        case "whole":
            return np.asarray(operation.value, np.int32)
        case "held":
            value = held[operation.of]
            return value.reshape(value.shape + (1,) * inner)
    return SCALAR[operation.name](*(found[a] for a in operation.args))  # type: ignore[no-any-return]


def _widened(elements: np.ndarray, item: str) -> Bits:
    """The numbers that elements of a type in memory are."""
    if item in HALVES:
        return elements.astype(np.float32).view(np.int32)
    return elements.astype(np.int32) if item else elements


def _stored(numbers: Bits, item: str) -> np.ndarray:
    """Numbers as elements of a type in memory."""
    if not item:
        return numbers
    if item in HALVES:
        with np.errstate(over="ignore"):
            return numbers.view(np.float32).astype(np.dtype(item))
    limits = np.iinfo(item)
    return np.clip(numbers, limits.min, limits.max).astype(item)


def _folded(kind: str, numbers: Bits, axes: tuple[int, ...]) -> Bits:
    real = numbers.view(np.float32)
    if kind == "sum":
        return real.astype(np.float64).sum(axes).astype(np.float32).view(np.int32)
    if kind not in FOLDS:
        raise MappingError(f"expected one of {', '.join(FOLDS)}, found {kind!r}")
    if kind.startswith("whole_"):
        return (np.maximum if kind == "whole_maximum" else np.minimum).reduce(numbers, axes)
    return (np.fmax if kind == "maximum" else np.fmin).reduce(real, axes).view(np.int32)


def _points(axes: Sequence[Axis]) -> dict[str, np.ndarray]:
    """For each axis its values, shaped so that they broadcast to all points."""
    return {a.name: np.arange(a.extent).reshape([-1 if i == k else 1 for i in range(len(axes))])
            for k, a in enumerate(axes)}


# --- other forms of the same nest -------------------------------------------------------------------------------------
def addresses(each: Pass) -> Iterator[tuple[Affine, str]]:
    """Of all elements that a pass reads and writes, with their types in memory."""
    yield from ((o.at, o.item) for o in each.code if o.name in (LOAD, GATHER))
    yield from ((s.at, s.item) for s in each.stores)


def joined(nest: Nest) -> Nest:
    """The nest with axes joined where one goes on where the other ends, so that loops are few and long."""
    axes, passes = _joined(nest.axes, nest.passes)
    return Nest(axes, tuple(replace(each, axes=own) for own, (each,) in (_joined(p.axes, (p,)) for p in passes)))


def _joined(axes: tuple[Axis, ...], passes: tuple[Pass, ...]) -> tuple[tuple[Axis, ...], tuple[Pass, ...]]:
    kept: list[Axis] = []
    for axis in axes:
        if axis.extent == 1:
            passes = tuple(_without(p, axis.name) for p in passes)
            continue
        while kept and all(a.coefficient(kept[-1].name) == a.coefficient(axis.name) * axis.extent
                           for p in passes for a, _ in addresses(p)):
            outer = kept.pop()
            passes = tuple(_without(p, outer.name) for p in passes)
            axis = replace(axis, extent=axis.extent * outer.extent)
        kept.append(axis)
    return tuple(kept), passes


def _without(each: Pass, name: str) -> Pass:
    """A pass at 0 of an axis."""
    code = tuple(replace(o, at=o.at.substitute({name: 0})) for o in each.code)
    return replace(each, code=code, stores=tuple(replace(s, at=s.at.substitute({name: 0})) for s in each.stores))


# --- as JSON ----------------------------------------------------------------------------------------------------------
def to_json(nest: Nest) -> Any:
    """Lists of names, numbers and texts, from which :func:`from_json` makes the equal nest."""
    def address(at: Affine) -> list[Any]:
        return [at.constant, *map(list, at.terms)]

    return [[[a.name, a.extent] for a in nest.axes], [[
        [[a.name, a.extent] for a in p.axes],
        [[o.name, list(o.args), o.of, address(o.at), o.value, o.item] for o in p.code],
        [[s.of, address(s.at), s.value, s.item] for s in p.stores], [[f.name, f.kind, f.value] for f in p.folds],
    ] for p in nest.passes]]


def from_json(data: Any) -> Nest:
    """The nest that :func:`to_json` has written; ValueError or TypeError for anything else."""
    def address(at: Sequence[Any]) -> Affine:
        return Affine.build(at[0], [(str(name), int(step)) for name, step in at[1:]])

    def axes(given: Sequence[Any]) -> tuple[Axis, ...]:
        return tuple(Axis(str(name), int(extent)) for name, extent in given)

    return Nest(axes(data[0]), tuple(Pass(
        axes(own), tuple(Operation(name, tuple(args), of, address(at), *more)
                         for name, args, of, at, *more in code),
        tuple(Store(of, address(at), *more) for of, at, *more in stores), tuple(Fold(*f) for f in folds))
        for own, code, stores, folds in data[1]))
