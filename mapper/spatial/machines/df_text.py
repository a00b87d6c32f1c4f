"""The ``df`` dialect, read: descriptions whose declarations fit each other, or errors with line and column."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from archloom.mapper.spatial.machines.affine_map import MOST_DIGITS, AffineMap, MapFault, inside, parse_map
from archloom.mapper.spatial.machines.df import (
    ComputeUnit,
    Cores,
    Description,
    Item,
    Links,
    Memories,
    Scalar,
    SpatialDim,
)
from archloom.oracle.errors import TargetError

_TOKEN = re.compile(r"""\s*(affine_map\s*<(?:[^->]|-[^>]|->)*>|%\w+|[A-Za-z_][\w.]*|-?\d[\w.]*|"[^"]*"|\S)""")
ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "mat": ("shape", "throughput", "latency"),
    "vec": ("shape", "throughput", "latency"),
    "scalar": ("latency",),
    "core": ("scaleout", "scalein"),
    "memory": ("scaleout", "size", "bandwidth", "ports", "latency"),
    "mux": ("map", "bandwidth"),
    "interconnects": ("map", "bandwidth"),
}
"""What each operation of the dialect may state."""
KINDS = ("spatial_dim", *ATTRIBUTES)
_RANKS = {"mat": 3, "vec": 1}


class DfFault(TargetError):
    """Something wrong at a column (from 1 on) of a line."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message)
        self.column = column


@dataclass(frozen=True)
class Declared:
    """A declaration, and the columns of what its line names: its own name, operands and attributes."""

    item: Item
    columns: Mapping[str, int]

    def column(self, *names: str) -> int:
        """Of the first of these that the line has."""
        return next((self.columns[name] for name in names if name in self.columns), 1)


class _Line:
    """Recursive descent over the words of a line without comments; DfFault tells column, expected and found."""

    def __init__(self, line: str) -> None:
        self.words: list[tuple[str, int]] = []
        place = 0
        while found := _TOKEN.match(line, place):
            self.words.append((found[1], found.start(1) + 1))
            place = found.end()
        self.end = len(line.rstrip()) + 1
        self.place = 0
        self.columns: dict[str, int] = {}

    # --- words ---------------------------------------------------------------------------------------------------
    def peek(self) -> str:
        return self.words[self.place][0] if self.place < len(self.words) else ""

    def column(self) -> int:
        return self.words[self.place][1] if self.place < len(self.words) else self.end

    def fault(self, expected: str) -> DfFault:
        found = repr(self.peek()) if self.peek() else "the end of the line"
        return DfFault(f"expected {expected}, found {found}", self.column())

    def next(self) -> str:
        word = self.peek()
        self.place += 1
        return word

    def take(self, word: str, expected: str = "") -> None:
        if self.peek() != word:
            raise self.fault(expected or repr(word))
        self.place += 1

    def name(self, what: str) -> str:
        """``%name``; its column is kept."""
        if not re.fullmatch(r"%\w+", self.peek()):
            raise self.fault(f"{what} as %name")
        self.columns.setdefault(self.peek(), self.column())
        return self.next()[1:]

    # --- declarations --------------------------------------------------------------------------------------------
    def declared(self) -> Declared:
        if not self.peek().startswith("%"):
            raise self.fault("'%name = df.operation operands {attributes}'")
        self.columns["name"] = self.column()
        name = self.name("what is declared")
        self.take("=")
        column, word = self.column(), self.peek()
        if not word.startswith("df."):
            raise self.fault("an operation df.*")
        kind = self.next()[3:]
        if kind not in KINDS:
            raise DfFault(f"df.{kind} is no operation of the dialect (there are: {', '.join(KINDS)})", column)
        item = SpatialDim(name, self.whole("size")) if kind == "spatial_dim" else self.attributed(name, kind)
        if self.peek():
            raise self.fault("the end of the line")
        return Declared(item, self.columns)

    def attributed(self, name: str, kind: str) -> Item:
        if self.peek().startswith('"'):
            self.next()  # a label
        operands = self.operands(kind)
        self.columns["{"] = self.column()
        found = self.attributes(name, kind)
        return self.made(name, kind, operands, found)

    def operands(self, kind: str) -> list[str]:
        """Names before the attributes."""
        found = []
        while self.peek().startswith("%"):
            found.append(self.name("an operand"))
            if self.peek() == ",":
                self.next()
        wanted = 2 if kind in ("mux", "interconnects") else 0
        if len(found) != wanted:
            what = f"joins two sets of components, found {len(found)}" if wanted else "takes no operands"
            raise DfFault(f"df.{kind} {what}", self.column())
        return found

    def attributes(self, name: str, kind: str) -> dict[str, Any]:
        self.take("{", "'{' and attributes")
        found: dict[str, Any] = {}
        while self.peek() != "}":
            column, key = self.column(), self.peek()
            if key not in ATTRIBUTES[kind]:
                known = ", ".join(ATTRIBUTES[kind])
                raise DfFault(f"expected an attribute of df.{kind} ({known}) or '}}', found {key!r}", column)
            if key in found:
                raise DfFault(f"{key} of %{name} is stated a second time", column)
            self.next()
            self.take("=")
            self.columns[key] = self.column()
            found[key] = self.value(kind, key)
            if self.peek() != "}":
                self.take(",", "',' or '}'")
        self.take("}")
        return found

    def value(self, kind: str, key: str) -> Any:
        readers: dict[str, Callable[[], Any]] = {
            "shape": lambda: self.listed("an extent of shape"), "scaleout": self.scaleout, "scalein": self.scalein,
            "map": self.map}
        if key in readers:
            return readers[key]()
        return self.rate(key) if (kind, key) == ("memory", "bandwidth") else self.whole(key)

    def made(self, name: str, kind: str, operands: list[str], found: dict[str, Any]) -> Item:
        def needed(key: str) -> Any:
            if key not in found:
                raise DfFault(f"the attribute {key} is missing: df.{kind} %{name} must state it", self.columns["{"])
            return found[key]

        if kind in _RANKS:
            if len(needed("shape")) != _RANKS[kind]:
                raise DfFault(f"shape of df.{kind} %{name} must be {_RANKS[kind]} extents of at least 1, not "
                              f"{list(found['shape'])}", self.columns["shape"])
            return ComputeUnit(name, kind, found["shape"], needed("throughput"), found.get("latency"))
        if kind == "scalar":
            return Scalar(name, needed("latency"))
        if kind == "core":
            return Cores(name, needed("scaleout"), found.get("scalein", ()))
        if kind == "memory":
            more = [found.get(key) for key in ("bandwidth", "ports", "latency")]
            return Memories(name, needed("scaleout"), needed("size"), *more)
        if "map" not in found:
            raise DfFault(f"df.{kind} %{name} has no map = affine_map<...>", self.columns["{"])
        return Links(name, kind, operands[0], operands[1], found["map"], found.get("bandwidth"))

    # --- values --------------------------------------------------------------------------------------------------
    def whole(self, what: str) -> int:
        word = self.peek()
        if word.isdecimal() and len(word) > MOST_DIGITS:
            raise DfFault(f"{what} must be an integer of at least 1 and below 10^{MOST_DIGITS}, not {word[:9]}...",
                          self.column())
        if not re.fullmatch(r"[0-9]+", word) or int(word) < 1:
            raise DfFault(f"{what} must be an integer of at least 1, not {word!r}", self.column())
        return int(self.next())

    def rate(self, what: str) -> int | float:
        """A number above zero, which need not be whole."""
        word = self.peek()
        if len(word.partition(".")[0]) > MOST_DIGITS:
            raise DfFault(f"{what} must be below 10^{MOST_DIGITS}, not {word[:9]}...", self.column())
        if re.fullmatch(r"[0-9]+\.[0-9]+", word) and float(word) > 0:
            found = float(self.next())
            return int(found) if found.is_integer() else found
        if "." in word:
            raise DfFault(f"{what} must be a number above 0, not {word!r}", self.column())
        return self.whole(what)

    def listed(self, what: str) -> tuple[int, ...]:
        """``[1, 2, ...]``."""
        self.take("[")
        found = [] if self.peek() == "]" else [self.whole(what)]
        while self.peek() == ",":
            self.next()
            found.append(self.whole(what))
        self.take("]", "',' or ']'")
        return tuple(found)

    def scaleout(self) -> tuple[str, ...]:
        if self.peek().startswith("%"):
            return (self.name("a dimension"),)
        self.take("(", "'(' or a dimension as %name")
        found = [] if self.peek() == ")" else [self.name("a dimension")]
        while self.peek() == ",":
            self.next()
            found.append(self.name("a dimension"))
        self.take(")", "',' or ')'")
        return tuple(found)

    def scalein(self) -> tuple[tuple[str, int], ...]:
        """``(%unit, ..., [count, ...])``."""
        column = self.column()
        self.take("(")
        units = []
        while self.peek() != "[":
            units.append(self.name("a unit, or '[' and counts,"))
            self.take(",", "',' and a unit or '[' and counts")
        counts = self.listed("a count of scalein")
        self.take(")")
        if len(units) != len(counts):
            raise DfFault(f"scalein names {len(units)} units but {len(counts)} counts", column)
        return tuple(zip(units, counts))

    def map(self) -> AffineMap:
        column, word = self.column(), self.peek()
        found = re.fullmatch(r"affine_map\s*<(.*)>", word)
        if not found:
            raise self.fault("affine_map<(...) -> (...)>")
        try:
            made = parse_map(found[1])
        except MapFault as error:
            raise DfFault(str(error), column + found.start(1) + error.place) from None
        self.next()
        return made


_MODULE = re.compile(r"\s*module(?:\s+@(\w+))?(?:\s+attributes\s*\{\s*clock_hz\s*=\s*([^}]*?)\s*\})?\s*\{\s*$")
MOST_POINTS = 1 << 20
LONGEST = 300
"""Characters of what is wrong with a line that are told: a line may be of any length."""


def _points(extents: tuple[int, ...], images: int) -> Iterator[tuple[int, ...]]:
    if math.prod(extents) * images > MOST_POINTS:
        of_each = f" with {images} images each" if images > 1 else ""
        raise TargetError(f"{' x '.join(map(str, extents))} instances{of_each} are more than {MOST_POINTS}")
    return itertools.product(*map(range, extents))


RATES = ("cycles", "operations")


def read(text: str, rates: str = "cycles") -> Description:
    """The description in ``text`` (``//`` begins a comment); TargetError names line and column, what was expected
    there, and what was found.

    ``rates``: what ``throughput`` means, as the paper's listings use both: ``"cycles"`` for operands of the shape
    (listing 8), or ``"operations"`` in a cycle, multiply-accumulates of a df.mat (listing 9).
    """
    if rates not in RATES:
        raise TargetError(f"rates must be one of {', '.join(RATES)}, not {rates!r}")
    items: dict[str, Item] = {}
    name: str | None = None
    clock: float | None = None
    begun = False
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("//")[0].rstrip()
        try:
            if re.match(r"\s*module\b", line):
                if begun:
                    raise DfFault("a second module: a text describes one machine", line.index("m") + 1)
                begun = True
                name, clock = _module(line)
            elif line.strip() not in ("", "}"):
                item = _item(line, items, rates == "operations")
                items[item.name] = item
        except DfFault as error:
            what = str(error) if len(str(error)) <= LONGEST else f"{str(error)[:LONGEST]}..."
            raise TargetError(f"df, line {number}, column {error.column}: {what}") from None
    return Description(tuple(items.values()), name, clock)


def _module(line: str) -> tuple[str | None, float | None]:
    """Name and clock."""
    found = _MODULE.match(line)
    if not found:
        raise DfFault("expected 'module @name attributes {clock_hz = number} {', the last three as they are wanted",
                      len(line) - len(line.lstrip()) + 1)
    return found[1], _clock(found[2], found.start(2) + 1) if found[2] is not None else None


def _clock(text: str, column: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise DfFault(f"clock_hz must be a positive number, not {text!r}", column)
    return value


def _item(line: str, before: Mapping[str, Item], operations: bool) -> Item:
    found = _Line(line).declared()
    item = found.item
    if isinstance(item, ComputeUnit) and operations:
        item = _by_operations(item, found.column("throughput"))
    _check(found, before)
    return item


def _by_operations(unit: ComputeUnit, column: int) -> ComputeUnit:
    cycles, rest = divmod(math.prod(unit.shape), unit.throughput)
    if rest:
        raise DfFault(
            f"%{unit.name} does {unit.throughput} operations in a cycle, which do not divide the "
            f"{math.prod(unit.shape)} of {list(unit.shape)}", column)
    return ComputeUnit(unit.name, unit.kind, unit.shape, cycles, unit.latency)


def _check(found: Declared, known: Mapping[str, Item]) -> None:
    """Whether a declaration goes with those before it."""
    item = found.item
    if item.name in known:
        raise DfFault(f"%{item.name} is declared a second time", found.column("name"))
    if isinstance(item, (Cores, Memories)):
        for name in item.scaleout:
            _require(found, known, name, SpatialDim, "a df.spatial_dim")
        if not item.scaleout:
            raise DfFault(f"%{item.name} is replicated over no dimension: scaleout is empty", found.column("scaleout"))
    if isinstance(item, Cores):
        for name, _ in item.units:
            _require(found, known, name, (ComputeUnit, Scalar), "a df.mat, df.vec or df.scalar")
    if isinstance(item, Links):
        for name in (item.source, item.target):
            _require(found, known, name, (Cores, Memories), "a df.core or df.memory")
        try:
            _check_map(item, Description(tuple(known.values())))
        except TargetError as error:
            raise DfFault(str(error), found.column("map")) from None


def _require(
    found: Declared, known: Mapping[str, Item], name: str, kinds: type[Item] | tuple[type[Item], ...], what: str
) -> None:
    if name not in known:
        raise DfFault(f"%{name} is not declared before it is used", found.column(f"%{name}"))
    if not isinstance(known[name], kinds):
        raise DfFault(f"%{name} must be {what}", found.column(f"%{name}"))


def _check_map(links: Links, description: Description) -> None:
    """Every point of the source has an image among the targets."""
    source, target = description.extents(links.source), description.extents(links.target)
    if len(links.map.dims) != len(source) or len(links.map.results) != len(target):
        raise TargetError(
            f"the map of %{links.name} goes from {len(links.map.dims)} to {len(links.map.results)} dimensions; "
            f"%{links.source} has {len(source)}, %{links.target} {len(target)}"
        )
    for point in _points(source, math.prod(links.map.freedom(target))):
        for image in links.map.images(point, target):
            if inside(image, target):
                continue
            raise TargetError(
                f"the map of %{links.name} takes {point} of %{links.source} to {image}, but %{links.target} has "
                f"{' x '.join(map(str, target))} instances"
            )
