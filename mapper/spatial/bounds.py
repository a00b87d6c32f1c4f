"""What a plan of a product needs of a machine."""

from __future__ import annotations

from collections.abc import Iterator

from archloom.mapper.spatial.machine import Machine
from archloom.mapper.spatial.plan import Plan, TileGemm
from archloom.oracle.errors import MappingError


def footprint(gemm: TileGemm, plan: Plan) -> tuple[int, int]:
    """Tiles of operands, and of sums, that the plan needs in a core."""
    bm, bn, bk = plan.block
    depth = gemm.k // plan.spread(2)
    counts = (-(-gemm.m // (bm * plan.spread(0))), -(-gemm.n // (bn * plan.spread(1))))
    tiles = 0
    for size, (_, level), mine, outer in ((bm, plan.a, counts[0], "m"), (bn, plan.b, counts[1], "n")):
        kept = depth * (1 if plan.order[0] == outer else mine)
        tiles += size * (plan.slots * min(bk, depth) if level == "stream" else kept)
    return tiles, bm * bn * plan.outputs


def check(gemm: TileGemm, plan: Plan, machine: Machine) -> None:
    """MappingError that names every bound which the plan breaks."""
    faults = []
    for name, over, extent in (("rows", plan.rows, machine.rows), ("columns", plan.columns, machine.columns)):
        if over[0] * over[1] * over[2] != extent:
            faults.append(f"it spreads loops over {over[0] * over[1] * over[2]} {name}, of which there are {extent}")
    if gemm.k % plan.spread(2):
        faults.append(f"{gemm.k} tiles of the reduction cannot be dealt out evenly to {plan.spread(2)} cores")
    faults += _unconnected(plan)
    whole = {"down", "across"}
    for name, pattern, loop in (("A", plan.a[0], 1), ("B", plan.b[0], 0)):
        if pattern in whole and plan.spread(loop) != machine.cores:
            faults.append(f"{name} goes to all cores ({pattern}), but only {plan.spread(loop)} cores share its tiles")
    if not faults:
        tiles, sums = footprint(gemm, plan)
        for what, needed, held in (("tiles of operands", tiles, machine.tiles), ("sums", sums, machine.sums)):
            if needed > held:
                faults.append(f"it needs {needed} {what} in a core, which holds {held}")
    if faults:
        raise MappingError(f"plan {plan} for {gemm.m} x {gemm.n} x {gemm.k} tiles: " + "; ".join(faults))


def _unconnected(plan: Plan) -> Iterator[str]:
    """Waves need cores that share tiles along one dimension of the mesh, each beside the next."""
    for name, pattern, loop in (("A", plan.a[0], 1), ("B", plan.b[0], 0)):
        if pattern == "wave":
            along = [over for over in (plan.rows, plan.columns) if over[loop] > 1]
            if len(along) != 1 or any(count > 1 for count in along[0][loop + 1:]):
                yield f"{name} passes from core to core, but those that share its tiles are not in one line"
