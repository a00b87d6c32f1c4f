"""From architecture graphs of meshes to ``df`` descriptions, and from descriptions of meshes to graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mapper.spatial.affine_map import AffineMap, identity, shifted
from mapper.spatial.df import ComputeUnit, Cores, Description, Item, Links, Memories, SpatialDim
from mapper.spatial.machine import SIDE, Machine
from oracle.errors import TargetError

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph


def described(graph: "ArchitectureGraph") -> Description:
    """The hardware view of a mesh of cores; TargetError for a graph that is none."""
    machine = Machine.of(graph)
    dims = ("rows", "columns")
    l1_bytes = sum(
        storage.size_bytes for storage in graph.storages  # type: ignore[attr-defined]
        if storage.name.startswith("core[0][0].")
    )
    items: list[Item] = [
        SpatialDim("rows", machine.rows), SpatialDim("columns", machine.columns), SpatialDim("channel", 1),
        ComputeUnit("FPU", "mat", (SIDE, SIDE, SIDE), machine.product_cycles),
        ComputeUnit("SFPU", "vec", (SIDE,), machine.vector_cycles // SIDE),
        Cores("cores", dims, (("FPU", 1), ("SFPU", 1))),
        Memories("L1", dims, l1_bytes, None),
        Links("core_to_L1", "mux", "cores", "L1", identity(2), None),
        Links("noc_h", "interconnects", "L1", "L1", shifted(2, 1, machine.columns), machine.ring_bytes),
        Links("noc_v", "interconnects", "L1", "L1", shifted(2, 0, machine.rows), machine.ring_bytes),
        Memories("dram", ("channel",), graph.bytes_of("hbm"), machine.dram_bytes),
        Links("to_dram", "interconnects", "L1", "dram", AffineMap(("d0", "d1"), (0,)), machine.core_bytes),
    ]
    return Description(tuple(items))


def graph_of(description: Description) -> "ArchitectureGraph":
    """The graph of a described mesh: cores in one or two dimensions, a memory for each, rings along the dimensions, and
    memories off chip, whose instances are taken together. TargetError says what is no such mesh."""
    from acadl_models.wormhole import wormhole

    cores = _only(description, Cores, "df.core")
    assert isinstance(cores, Cores)
    extents = description.extents(cores.name)
    if len(extents) > 2:
        raise TargetError(f"%{cores.name} has {len(extents)} dimensions; meshes of one or two are built")
    rows, columns = (1, *extents) if len(extents) == 1 else extents
    local = _local(description, cores)
    rings = _rings(description, {cores.name, local.name})
    off_chip = _off_chip(description, local)
    units = {unit.name: unit for unit in description.items if isinstance(unit, ComputeUnit)}
    mat = _unit(cores, units, "mat", (SIDE, SIDE, SIDE))
    vec = _unit(cores, units, "vec", (SIDE,))
    instances = 1
    for extent in description.extents(off_chip.name):
        instances *= extent
    if off_chip.bandwidth is None:
        raise TargetError(f"%{off_chip.name} states no bandwidth")
    return wormhole(
        rows=rows, columns=columns, l1_bytes=local.size, product_cycles=mat.throughput, vector_cycles=vec.throughput,
        noc_bytes_per_cycle=rings, dram_bytes_per_cycle=instances * off_chip.bandwidth,
        dram_bytes=instances * off_chip.size,
    )


def _only(description: Description, kind: type[Item], what: str) -> Item:
    found = description.of(kind)
    if len(found) != 1:
        raise TargetError(f"a machine has one {what}, this text has {len(found)}")
    return found[0]


def _local(description: Description, cores: Cores) -> Memories:
    """The memory that each core has for itself."""
    found = [m for m in description.of(Links) if isinstance(m, Links) and m.kind == "mux" and m.source == cores.name]
    if len(found) != 1:
        raise TargetError(f"each core needs a memory of its own, by one df.mux from %{cores.name}; found {len(found)}")
    mux = found[0]
    place = next(item for item in description.items if item.name == mux.target)
    if not isinstance(place, Memories) or place.scaleout != cores.scaleout:
        raise TargetError(f"%{mux.target} is shared by cores: meshes are built whose cores have a memory each")
    return place


def _rings(description: Description, places: set[str]) -> int:
    """The bandwidth of the links among cores, which must be one."""
    links = [k for k in description.of(Links) if isinstance(k, Links) and {k.source, k.target} <= places
             and k.kind == "interconnects"]
    widths = {k.bandwidth for k in links}
    if len(widths) != 1 or None in widths:
        names = ", ".join(f"%{k.name}: {k.bandwidth}" for k in links) or "none"
        raise TargetError(f"links among cores must have one bandwidth; found {names}")
    return next(w for w in widths if w is not None)


def _off_chip(description: Description, local: Memories) -> Memories:
    """The memory that is not in the cores."""
    found = [m for m in description.of(Memories) if isinstance(m, Memories) and m.name != local.name]
    if len(found) != 1:
        raise TargetError(f"a machine has one memory off chip, this text has {len(found)}")
    return found[0]


def _unit(cores: Cores, units: dict[str, ComputeUnit], kind: str, shape: tuple[int, ...]) -> ComputeUnit:
    for name, _ in cores.units:
        unit = units.get(name)
        if unit is not None and unit.kind == kind:
            if unit.shape != shape:
                raise TargetError(f"%{name} works on {list(unit.shape)}; meshes are built for {list(shape)}")
            return unit
    raise TargetError(f"%{cores.name} has no df.{kind}")
