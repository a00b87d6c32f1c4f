"""Graphs of described machines: meshes whose cores have an L1 each, and rings on which cores share their L1s."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.mesh import mesh
from archloom.acadl_models.mesh.sizes import STAT_BYTES, TILE_BYTES
from archloom.acadl_models.triple_ring import triple_ring
from archloom.mapper.spatial.machines.affine_map import Point
from archloom.mapper.spatial.machines.df import ComputeUnit, Cores, Description, Links, Memories, Scalar
from archloom.mapper.spatial.machines.machine import SIDE
from archloom.oracle.errors import TargetError

_PARTS = {"acc": ("sums", 2 * TILE_BYTES), "stat": ("stats", STAT_BYTES), "semaphore": ("semaphores", 4)}
"""Memories of a core beside the one of its operands, by name: what they hold, and how many bytes each takes."""

_OUTSIDE_L1 = ("semaphore",)


def graph_of(description: Description) -> "ArchitectureGraph":
    """The graph of a described machine: :func:`archloom.acadl_models.mesh.mesh`, or
    :func:`archloom.acadl_models.triple_ring.triple_ring` where cores share their L1s. TargetError names the object that
    neither of them has.

    Read are: cores of one or two dimensions (the last one is that of the columns); their local memories, which a
    ``df.mux`` joins with them, of which ``acc`` and ``stat`` are sums and statistics; links from core to core, which
    are rings or open lines of one bandwidth, the ways from memory included; memory off chip; one df.mat and one df.vec;
    a df.scalar outside of cores as the time until they begin. What a text does not state has the machine's default.
    """
    machine = _Machine(description)
    return machine.ring() if machine.shares else machine.mesh()


@dataclass(frozen=True)
class _Machine:
    text: Description

    @cached_property
    def cores(self) -> Cores:
        found = [item for item in self.text.items if isinstance(item, Cores)]
        if len(found) != 1:
            raise TargetError(f"a machine has one df.core, this text has {len(found)}")
        if len(found[0].scaleout) > 2:
            raise TargetError(
                f"%{found[0].name} has {len(found[0].scaleout)} dimensions; meshes of one or two are built")
        return found[0]

    @cached_property
    def extents(self) -> Point:
        return self.text.extents(self.cores.name)

    @cached_property
    def links(self) -> list[Links]:
        return [item for item in self.text.items if isinstance(item, Links)]

    def memory(self, name: str) -> Memories | None:
        return next((item for item in self.text.items if isinstance(item, Memories) and item.name == name), None)

    @cached_property
    def local(self) -> dict[str, Memories]:
        """Memories that belong to cores, by what they are for: ``l1``, ``acc``, ``stat``."""
        muxed = [self.memory(k.target) for k in self.links if k.kind == "mux" and k.source == self.cores.name]
        mine = {m.name: m for m in muxed if m is not None and set(m.scaleout) <= set(self.cores.scaleout)}
        rest = [m for name, m in mine.items() if name not in _PARTS]
        if len(rest) != 1:
            names = "".join(f", %{m.name}" for m in rest)
            raise TargetError(
                f"each core needs a memory of its own, by one df.mux from %{self.cores.name}; found {len(rest)}{names}")
        return {"l1": rest[0], **{name: mine[name] for name in _PARTS if name in mine}}

    @cached_property
    def shares(self) -> bool:
        """Whether cores share their L1."""
        return self.local["l1"].scaleout != self.cores.scaleout

    @cached_property
    def off_chip(self) -> Memories:
        mine = {m.name for m in self.local.values()}
        found = [m for m in self.text.items if isinstance(m, Memories) and m.name not in mine]
        if len(found) != 1:
            names = ", ".join(f"%{m.name}" for m in found) or "none"
            raise TargetError(f"a machine has one set of memories off chip, this text has {names}")
        if found[0].bandwidth is None:
            raise TargetError(f"%{found[0].name} states no bandwidth")
        return found[0]

    @property
    def off_chip_bytes(self) -> int | float:
        """Bytes a cycle of each memory off chip."""
        width = self.off_chip.bandwidth
        assert width is not None
        return width

    def mesh(self) -> "ArchitectureGraph":
        rows, columns = (1, *self.extents) if len(self.extents) == 1 else self.extents
        instances = math.prod(self.text.extents(self.off_chip.name))
        noc, l1 = self.network(), self.local["l1"]
        return self.built(
            mesh, x=columns, y=rows, **self.common(rows, columns, 1), torus=self.torus, noc_bytes_per_cycle=noc,
            # what networks bring at most never waits for a port of as many bytes
            l1_bytes_per_cycle=_whole(l1),
            dram_bytes=instances * self.off_chip.size, dram_channels=instances,
            dram_bytes_per_cycle=round(instances * self.off_chip_bytes))

    def ring(self) -> "ArchitectureGraph":
        l1 = self.local["l1"]
        if len(l1.scaleout) != 1 or len(self.extents) != 2:
            raise TargetError(
                f"%{l1.name} is shared by cores: machines are built whose L1s lie along one of two dimensions of "
                f"%{self.cores.name}")
        axis = self.cores.scaleout.index(l1.scaleout[0])
        columns, rows = self.extents[axis], self.extents[1 - axis]
        if l1.bandwidth is None:
            raise TargetError(f"%{l1.name} states no bandwidth")
        for link, along, torus in self.hops:
            if along == axis and not torus:
                raise TargetError(f"%{link.name} is no ring: it does not lead from the last of %{l1.scaleout[0]} on")
        small = self.width([k for k, along, _ in self.hops if along == axis], f"cores along %{l1.scaleout[0]}")
        large = self.width([k for k in self.links if k.source == k.target == l1.name], f"the memories %{l1.name}")
        return self.built(
            triple_ring, columns=columns, rows=rows, **self.common(rows, columns, rows), l1_bytes_per_cycle=_whole(l1),
            small_ring_bytes_per_cycle=small, large_ring_bytes_per_cycle=large,
            memories=math.prod(self.text.extents(self.off_chip.name)), dram_bytes=self.off_chip.size,
            dram_bytes_per_cycle=round(self.off_chip_bytes))

    def built(self, make: "Callable[..., ArchitectureGraph]", **options: Any) -> "ArchitectureGraph":
        """The machine with these options; where one is refused, the text's figure that it was read off is named."""
        try:
            return make(**options)
        except TargetError as error:
            told = [f"{option} is the {where}" for option, where in self.stated().items()
                    if re.search(rf"\b{option}( must|=)", str(error))]
            raise TargetError(f"{error} ({'; '.join(told)})" if told else str(error)) from error

    def stated(self) -> dict[str, str]:
        """What of the text each option of a machine is read off."""
        mat, vec, l1, far = self.unit("mat").name, self.unit("vec").name, self.local["l1"].name, self.off_chip.name
        found = {
            "array": f"shape of %{mat} over {SIDE}", "product_cycles": f"throughput of %{mat}",
            "block_cycles": f"latency of %{mat}", "vector_width": f"shape of %{vec}",
            "vector_cycles": f"throughput of %{vec}", "l1_bytes": f"size of %{l1} and what lies in it",
            "l1_bytes_per_cycle": f"bandwidth of %{l1}", "dram_bytes": f"size of %{far}",
            "dram_bytes_per_cycle": f"bandwidth of %{far}", "dram_latency_cycles": f"latency of %{far}",
            "dram_channels": f"extent of %{far}", "memories": f"extent of %{far}",
            "launch_cycles": "latency of the df.scalar outside of cores",
            **dict.fromkeys(("noc_bytes_per_cycle", "small_ring_bytes_per_cycle", "large_ring_bytes_per_cycle"),
                            "bandwidth of the df.interconnects"),
            **dict.fromkeys(("x", "y", "rows", "columns"), f"extent of %{self.cores.name}"),
        }
        return found | {option: f"size of %{part} over {each}" for part, (option, each) in _PARTS.items()}

    def common(self, rows: int, columns: int, sharing: int) -> dict[str, Any]:
        """What both kinds of machines are made from; ``sharing`` cores have parts of one L1."""
        mat, vec = self.unit("mat"), self.unit("vec")
        side = mat.shape[0]
        if len(set(mat.shape)) > 1 or side % SIDE:
            raise TargetError(
                f"%{mat.name} works on {list(mat.shape)}; cores are built for products of equal multiples of {SIDE}")
        found: dict[str, Any] = {
            "array": side // SIDE, "product_cycles": mat.throughput, "vector_width": vec.shape[0],
            "vector_cycles": vec.throughput, "name": self.text.name, "clock_hz": self.text.clock_hz,
            "dram_latency_cycles": self.off_chip.latency,
        }
        l1_bytes = self.local["l1"].size
        for name, (option, each) in _PARTS.items():
            if name in self.local:
                part = self.local[name]
                if part.size % each:
                    raise TargetError(f"size = {part.size} of %{name} is no multiple of {each} bytes")
                found[option] = part.size // each
                l1_bytes += sharing * part.size if name not in _OUTSIDE_L1 else 0
        outside = [i for i in self.text.items if isinstance(i, Scalar) and i.name not in dict(self.cores.units)]
        if len(outside) == 1:
            found["launch_cycles"] = outside[0].latency
        if mat.latency is not None or outside:
            found["block_cycles"] = mat.latency or 0
        return {"l1_bytes": l1_bytes, **{name: value for name, value in found.items() if value is not None}}

    def unit(self, kind: str) -> ComputeUnit:
        """The first unit of a kind in a core."""
        known = {item.name: item for item in self.text.items if isinstance(item, ComputeUnit)}
        for name, _ in self.cores.units:
            if name in known and known[name].kind == kind:
                return known[name]
        raise TargetError(f"%{self.cores.name} has no df.{kind}")

    # --- links from core to core ---------------------------------------------------------------------------------
    @cached_property
    def hops(self) -> list[tuple[Links, int, bool]]:
        """Links from each core to the next along a dimension, and whether the last leads to the first."""
        places = {self.cores.name} if self.shares else {self.cores.name, self.local["l1"].name}
        found = []
        for link in self.links:
            if link.kind == "interconnects" and link.source == link.target in places and not link.map.symbols:
                found.append((link, *self.along(link)))
        return found

    def along(self, link: Links) -> tuple[int, bool]:
        if math.prod(self.extents) == 1:
            return 0, True
        for axis, torus in itertools.product(range(len(self.extents)), (True, False)):
            if all(link.map(p) == self.next(p, axis, torus) for p in self.points()):
                return axis, torus
        wrong = next(p for p in self.points() if all(
            link.map(p) != self.next(p, axis, torus) for axis in range(len(self.extents)) for torus in (True, False)))
        raise TargetError(
            f"%{link.name} leads from {wrong} to {link.map(wrong)}, which is no neighbour: rings and lines of cores "
            f"are built")

    def points(self) -> list[Point]:
        return list(itertools.product(*map(range, self.extents)))

    def next(self, point: Point, axis: int, torus: bool) -> Point:
        after = point[axis] + 1
        after = after % self.extents[axis] if torus else min(after, self.extents[axis] - 1)
        return (*point[:axis], after, *point[axis + 1:])

    @property
    def torus(self) -> bool:
        """Whether lines of cores are rings."""
        kinds = {torus for _, axis, torus in self.hops if self.extents[axis] > 1}
        if len(kinds) > 1:
            ways = ", ".join(f"%{link.name}: {'a ring' if torus else 'open'}" for link, _, torus in self.hops)
            raise TargetError(f"links among cores must be all rings or all open; found {ways}")
        return kinds.pop() if kinds else True

    def network(self) -> int:
        """The bandwidth of the links among cores; every dimension has some."""
        for axis, (name, extent) in enumerate(zip(self.cores.scaleout, self.extents)):
            if extent > 1 and all(along != axis for _, along, _ in self.hops):
                raise TargetError(f"no df.interconnects joins the cores along %{name}")
        names = {self.cores.name, *(m.name for m in self.local.values())}
        if math.prod(self.extents) == 1:
            names.add(self.off_chip.name)
        return self.width(
            [k for k in self.links if k.kind == "interconnects" and {k.source, k.target} <= names], "cores")

    def width(self, links: list[Links], among: str) -> int:
        """The one bandwidth of links."""
        widths = {k.bandwidth for k in links}
        if len(widths) != 1 or None in widths:
            names = ", ".join(f"%{k.name}: {k.bandwidth}" for k in links) or "none"
            raise TargetError(f"links among {among} must have one bandwidth; found {names}")
        return next(w for w in widths if w is not None)


def _whole(memory: Memories) -> int:
    """The bandwidth of a memory whose port moves whole bytes, 0: no limit."""
    if isinstance(memory.bandwidth, float):
        raise TargetError(f"bandwidth = {memory.bandwidth} of %{memory.name}: an L1 moves whole bytes in a cycle")
    return memory.bandwidth or 0
