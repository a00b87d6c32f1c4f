"""The ``df`` dialect of the TL paper (section 2.4): a machine of many cores as text, read, checked and written.

``throughput`` of ``df.mat`` is read as the cycles of a product of its shape, that of ``df.vec`` as the cycles of an
operation on its shape; bandwidths are bytes a cycle, sizes bytes. Numbers of a scaleout stand for each instance.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, Union

from mapper.spatial.affine_map import AffineMap, parse_map
from mapper.spatial.fitting import inside
from oracle.errors import TargetError


@dataclass(frozen=True)
class SpatialDim:
    """``df.spatial_dim``: along which hardware is replicated."""

    name: str
    size: int

    def __str__(self) -> str:
        return f"%{self.name} = df.spatial_dim {self.size}"


@dataclass(frozen=True)
class ComputeUnit:
    """``df.mat`` or ``df.vec``: ``throughput`` cycles for operands of ``shape``, ``latency`` more for many of them."""

    name: str
    kind: str
    shape: tuple[int, ...]
    throughput: int
    latency: int | None = None

    def __str__(self) -> str:
        more = _also(latency=self.latency)
        return f"%{self.name} = df.{self.kind} {{shape = [{_list(self.shape)}], throughput = {self.throughput}{more}}}"


@dataclass(frozen=True)
class Scalar:
    """``df.scalar``: ``latency`` cycles for an operation."""

    name: str
    latency: int

    def __str__(self) -> str:
        return f"%{self.name} = df.scalar {{latency = {self.latency}}}"


@dataclass(frozen=True)
class Cores:
    """``df.core``: one core for each point of ``scaleout``, each with so many of its units."""

    name: str
    scaleout: tuple[str, ...]
    units: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        inside = ", ".join(f"%{unit}" for unit, _ in self.units)
        counts = _list([count for _, count in self.units])
        units = f", scalein = ({inside}, [{counts}])" if self.units else ""
        return f"%{self.name} = df.core {{scaleout = ({_names(self.scaleout)}){units}}}"


@dataclass(frozen=True)
class Memories:
    """``df.memory``: one for each point of ``scaleout``, of ``size`` bytes; ``bandwidth`` of a port, None: no limit.

    ``ports`` (None: one) and ``latency`` in cycles (None: not stated) are this project's additions.
    """

    name: str
    scaleout: tuple[str, ...]
    size: int
    bandwidth: int | None
    ports: int | None = None
    latency: int | None = None

    def __str__(self) -> str:
        more = _also(bandwidth=self.bandwidth, ports=self.ports, latency=self.latency)
        return f"%{self.name} = df.memory {{scaleout = ({_names(self.scaleout)}), size = {self.size}{more}}}"


@dataclass(frozen=True)
class Links:
    """``df.mux`` or ``df.interconnects``: from each point of ``source`` to its image among ``target``."""

    name: str
    kind: str
    source: str
    target: str
    map: AffineMap
    bandwidth: int | None

    def __str__(self) -> str:
        width = "" if self.bandwidth is None else f", bandwidth = {self.bandwidth}"
        return f"%{self.name} = df.{self.kind} %{self.source}, %{self.target} {{map = {self.map}{width}}}"


Item: TypeAlias = Union[SpatialDim, ComputeUnit, Scalar, Cores, Memories, Links]


@dataclass(frozen=True)
class Description:
    """All declarations of a ``df`` text, in order; :func:`read` has checked that they fit each other.

    ``name`` and ``clock_hz``: of the module, where it states them.
    """

    items: tuple[Item, ...]
    name: str | None = None
    clock_hz: float | None = None

    def __str__(self) -> str:
        head = "module" + (f" @{self.name}" if self.name else "")
        head += f" attributes {{clock_hz = {_plain(self.clock_hz)}}}" if self.clock_hz else ""
        return "\n".join([f"{head} {{", *(f"  {item}" for item in self.items), "}"]) + "\n"

    def of(self, kind: type[Item]) -> list[Item]:
        """The declarations of one kind."""
        return [item for item in self.items if isinstance(item, kind)]

    def extents(self, name: str) -> tuple[int, ...]:
        """Sizes of the dimensions over which ``name`` is replicated."""
        place = next(item for item in self.items if item.name == name)
        assert isinstance(place, (Cores, Memories))
        sizes = {item.name: item.size for item in self.items if isinstance(item, SpatialDim)}
        return tuple(sizes[dim] for dim in place.scaleout)


RATES = ("cycles", "operations")


def read(text: str, rates: str = "cycles") -> Description:
    """The description in ``text`` (``//`` begins a comment); TargetError names line and figure that are wrong.

    ``rates``: what ``throughput`` means, as the paper's listings use both: ``"cycles"`` for operands of the shape
    (listing 8), or ``"operations"`` in a cycle, multiply-accumulates of a df.mat (listing 9).
    """
    if rates not in RATES:
        raise TargetError(f"rates must be one of {', '.join(RATES)}, not {rates!r}")
    items: list[Item] = []
    name: str | None = None
    clock: float | None = None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("//")[0].strip()
        try:
            module = _MODULE.match(line)
            if module:
                name = module[1]
                clock = _clock(module[2]) if module[2] is not None else None
            elif line and line != "}":
                item = _item(line)
                if isinstance(item, ComputeUnit) and rates == "operations":
                    item = _by_operations(item)
                _check(item, items)
                items.append(item)
        except TargetError as error:
            raise TargetError(f"df, line {number}: {error}") from None
    return Description(tuple(items), name, clock)


_MODULE = re.compile(r"module(?:\s+@(\w+))?(?:\s+attributes\s*\{\s*clock_hz\s*=\s*([^}]*?)\s*\})?\s*\{$")


def _clock(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise TargetError(f"clock_hz must be a positive number, not {text!r}")
    return value


def _by_operations(unit: ComputeUnit) -> ComputeUnit:
    cycles, rest = divmod(math.prod(unit.shape), unit.throughput)
    if rest:
        raise TargetError(
            f"%{unit.name} does {unit.throughput} operations in a cycle, which do not divide the "
            f"{math.prod(unit.shape)} of {list(unit.shape)}")
    return ComputeUnit(unit.name, unit.kind, unit.shape, cycles, unit.latency)


_LINE = re.compile(r"%(\w+)\s*=\s*df\.(\w+)\s*([^{]*?)\s*(?:\{(.*)\})?\s*$")
_MAP = re.compile(r"affine_map<(.*)>")


def _item(line: str) -> Item:
    found = _LINE.match(line)
    if not found:
        raise TargetError(f"expected '%name = df.operation operands {{attributes}}', found {line!r}")
    name, kind, operands, inside = found[1], found[2], re.findall(r"[%\w]+", found[3]), found[4] or ""
    if kind == "spatial_dim":
        return SpatialDim(name, _number("size", operands[0] if operands else ""))
    if kind in ("mat", "vec"):
        shape = tuple(int(n) for n in re.findall(r"\d+", _attribute(inside, "shape", r"\[([^\]]*)\]")))
        unit = ComputeUnit(name, kind, shape, _figure(inside, "throughput"), _optional(inside, "latency"))
        wanted = 3 if kind == "mat" else 1
        if len(shape) != wanted or 0 in shape:
            raise TargetError(f"shape of df.{kind} %{name} must be {wanted} extents of at least 1, not {list(shape)}")
        return unit
    if kind == "scalar":
        return Scalar(name, _figure(inside, "latency"))
    if kind in ("core", "memory"):
        scaleout = tuple(re.findall(r"%(\w+)", _attribute(inside, "scaleout", r"(\([^)]*\)|%\w+)")))
        if kind == "memory":
            more = [_optional(inside, what) for what in ("bandwidth", "ports", "latency")]
            return Memories(name, scaleout, _figure(inside, "size"), *more)
        return Cores(name, scaleout, _units(inside))
    if kind in ("mux", "interconnects"):
        ends = [word.lstrip("%") for word in operands if word.startswith("%")]
        if len(ends) != 2:
            raise TargetError(f"df.{kind} %{name} joins two sets of components, found {len(ends)}")
        text = _MAP.search(inside)
        if not text:
            raise TargetError(f"df.{kind} %{name} has no map = affine_map<...>")
        return Links(name, kind, ends[0], ends[1], parse_map(text[1]), _optional(_MAP.sub("", inside), "bandwidth"))
    known = "spatial_dim, core, memory, mux, interconnects, mat, vec, scalar"
    raise TargetError(f"df.{kind} is no operation of the dialect (there are: {known})")


def _units(inside: str) -> tuple[tuple[str, int], ...]:
    found = re.search(r"scalein\s*=\s*\(([^\[]*)\[([^\]]*)\]\s*\)", inside)
    if not found:
        return ()
    names, counts = re.findall(r"%(\w+)", found[1]), [int(n) for n in re.findall(r"\d+", found[2])]
    if len(names) != len(counts):
        raise TargetError(f"scalein names {len(names)} units but {len(counts)} counts")
    return tuple(zip(names, counts))


def _attribute(inside: str, name: str, pattern: str) -> str:
    found = re.search(rf"\b{name}\s*=\s*{pattern}", inside)
    if not found:
        raise TargetError(f"the attribute {name} is missing in {{{inside}}}")
    return found[1]


def _figure(inside: str, name: str) -> int:
    return _number(name, _attribute(inside, name, r"([^,}\s]+)"))


def _optional(inside: str, name: str) -> int | None:
    return _figure(inside, name) if re.search(rf"\b{name}\s*=", inside) else None


def _number(name: str, text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise TargetError(f"{name} must be an integer of at least 1, not {text!r}")
    return int(text)


def _check(item: Item, before: Sequence[Item]) -> None:
    known = {other.name: other for other in before}
    if item.name in known:
        raise TargetError(f"%{item.name} is declared a second time")
    if isinstance(item, (Cores, Memories)):
        for name in item.scaleout:
            _require(known, name, SpatialDim, "a df.spatial_dim")
        if not item.scaleout:
            raise TargetError(f"%{item.name} is replicated over no dimension: scaleout is empty")
    if isinstance(item, Cores):
        for name, _ in item.units:
            _require(known, name, (ComputeUnit, Scalar), "a df.mat, df.vec or df.scalar")
    if isinstance(item, Links):
        for name in (item.source, item.target):
            _require(known, name, (Cores, Memories), "a df.core or df.memory")
        _check_map(item, Description(tuple(before)))


def _require(known: dict[str, Item], name: str, kinds: type[Item] | tuple[type[Item], ...], what: str) -> None:
    if name not in known:
        raise TargetError(f"%{name} is not declared before it is used")
    if not isinstance(known[name], kinds):
        raise TargetError(f"%{name} must be {what}")


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


MOST_POINTS = 1 << 20


def _points(extents: tuple[int, ...], images: int) -> Iterator[tuple[int, ...]]:
    if math.prod(extents) * images > MOST_POINTS:
        of_each = f" with {images} images each" if images > 1 else ""
        raise TargetError(f"{' x '.join(map(str, extents))} instances{of_each} are more than {MOST_POINTS}")
    return itertools.product(*map(range, extents))


def _also(**attributes: int | None) -> str:
    return "".join(f", {name} = {value}" for name, value in attributes.items() if value is not None)


def _plain(number: float | None) -> str:
    return str(int(number)) if number is not None and number == int(number) else repr(number)


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"%{name}" for name in names)
