"""A line of ``df`` text as a declaration; what is wrong is told with its column and what was expected there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from archloom.mapper.spatial.affine_map import MOST_DIGITS, AffineMap, MapFault, parse_map
from archloom.mapper.spatial.df import ComputeUnit, Cores, Item, Links, Memories, Scalar, SpatialDim
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


def declared(line: str) -> Declared:
    """The declaration in a line without comments; DfFault tells column, expected and found."""
    return _Line(line).declared()


class _Line:
    """Recursive descent over the words of a line."""

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
        item = self.spatial_dim(name) if kind == "spatial_dim" else self.attributed(name, kind)
        if self.peek():
            raise self.fault("the end of the line")
        return Declared(item, self.columns)

    def spatial_dim(self, name: str) -> SpatialDim:
        return SpatialDim(name, self.whole("size"))

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
            "shape": self.shape, "scaleout": self.scaleout, "scalein": self.scalein, "map": self.map}
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

    def shape(self) -> tuple[int, ...]:
        return self.listed("an extent of shape")

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
