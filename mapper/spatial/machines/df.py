"""The ``df`` dialect of the TL paper (section 2.4): a machine of many cores as text, read, checked and written.

``throughput`` of ``df.mat`` is read as the cycles of a product of its shape, that of ``df.vec`` as the cycles of an
operation on its shape; bandwidths are bytes a cycle, sizes bytes. Numbers of a scaleout stand for each instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, Union

from archloom.mapper.spatial.machines.affine_map import AffineMap


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
        more = _also(throughput=self.throughput, latency=self.latency)
        return f"%{self.name} = df.{self.kind} {{shape = [{', '.join(map(str, self.shape))}]{more}}}"


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
        counts = ", ".join(str(count) for _, count in self.units)
        units = f", scalein = ({inside}, [{counts}])" if self.units else ""
        return f"%{self.name} = df.core {{scaleout = ({_names(self.scaleout)}){units}}}"


@dataclass(frozen=True)
class Memories:
    """``df.memory``: one for each point of ``scaleout``, of ``size`` bytes; ``bandwidth`` of a port, None: no limit.

    ``ports`` (None: one) and ``latency`` in cycles (None: not stated) are this project's additions. A bandwidth may
    be a channel's share, and need not be whole.
    """

    name: str
    scaleout: tuple[str, ...]
    size: int
    bandwidth: int | float | None
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
    """All declarations of a ``df`` text, in order; :func:`archloom.mapper.spatial.machines.df_text.read` has
    checked that they fit each other.

    ``name`` and ``clock_hz``: of the module, where it states them.
    """

    items: tuple[Item, ...]
    name: str | None = None
    clock_hz: float | None = None

    def __str__(self) -> str:
        head = "module" + (f" @{self.name}" if self.name else "")
        clock = int(self.clock_hz) if self.clock_hz and self.clock_hz == int(self.clock_hz) else self.clock_hz
        head += f" attributes {{clock_hz = {clock!r}}}" if clock else ""
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


def _also(**attributes: int | float | None) -> str:
    return "".join(f", {name} = {value}" for name, value in attributes.items() if value is not None)


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"%{name}" for name in names)
