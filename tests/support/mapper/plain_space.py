"""The space of plans of a product, listed plainly: every plan that a machine can run, and the rules by which
``mapper/spatial/space.py`` leaves some of them out, each a predicate of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product

from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.plan import LEVELS, PATTERNS, Plan, Spread, TileGemm
from archloom.mapper.spatial.space import DEPTHS, SLOTS, check
from archloom.oracle.errors import MappingError

Rule = Callable[[TileGemm, Machine, Plan], bool]


def every_plan(gemm: TileGemm, machine: Machine) -> Iterator[Plan]:
    """All plans, with steps of DEPTHS and of the whole depth, two blocks of streamed operands, and equal steps."""
    for rows, columns in product(_spreads(machine.rows), _spreads(machine.columns)):
        depth = -(-gemm.k // (rows[2] * columns[2]))
        both = any(r > 1 and c > 1 for r, c in zip(rows[:2], columns[:2]))
        for block in product(
                range(1, gemm.m + 1), range(1, gemm.n + 1), sorted({d for d in DEPTHS if d < depth} | {depth})):
            for outer, order, way_a, way_b, level_a, level_b, slots, outputs in product(
                    ("rows", "columns") if both else ("rows",), ("mn", "nm"), PATTERNS, PATTERNS, LEVELS, LEVELS, SLOTS,
                    (1, 2)):
                plan = Plan(
                    block, rows, columns, outer, order, (way_a, level_a),  # type: ignore[arg-type]
                    (way_b, level_b), slots, outputs)  # type: ignore[arg-type]
                if possible(gemm, machine, plan):
                    yield plan


def possible(gemm: TileGemm, machine: Machine, plan: Plan) -> bool:
    try:
        check(gemm, plan, machine)
    except MappingError:
        return False
    return True


def _spreads(extent: int) -> list[Spread]:
    return [over for over in product(range(1, extent + 1), repeat=3) if over[0] * over[1] * over[2] == extent]


def _share(gemm: TileGemm, plan: Plan, loop: int) -> int:
    """Tiles along m or n of a core."""
    return -(-(gemm.m, gemm.n)[loop] // plan.spread(loop))


def _waves(gemm: TileGemm, plan: Plan, loop: int) -> int:
    return -(-_share(gemm, plan, loop) // plan.block[loop])


def large_block(gemm: TileGemm, machine: Machine, plan: Plan) -> bool:
    """A smaller block takes as many waves."""
    return any(plan.block[loop] > -(-_share(gemm, plan, loop) // _waves(gemm, plan, loop)) for loop in (0, 1))


def idle_cores(gemm: TileGemm, machine: Machine, plan: Plan) -> bool:
    """Cores have no work, and another one more than twice as much as with some other spread."""
    def part(m: int, n: int) -> int:
        return -(-gemm.m // m) * -(-gemm.n // n)

    m, n, k = (plan.spread(loop) for loop in range(3))
    spreads = product(_spreads(machine.rows), _spreads(machine.columns))
    others = [(r[0] * c[0], r[1] * c[1]) for r, c in spreads if r[2] * c[2] == k]
    return (m > gemm.m or n > gemm.n) and any(2 * part(*other) < part(m, n) for other in others)


def needless_split(gemm: TileGemm, machine: Machine, plan: Plan) -> bool:
    """Fewer cores along k would have no more tiles of it each."""
    spreads = product(_spreads(machine.rows), _spreads(machine.columns))
    depth = -(-gemm.k // plan.spread(2))
    return any(r[2] * c[2] < plan.spread(2) and -(-gemm.k // (r[2] * c[2])) == depth for r, c in spreads)


def needless_sums(gemm: TileGemm, machine: Machine, plan: Plan) -> bool:
    """Cores add up sums, though C has eight tiles for each."""
    return plan.spread(2) > 1 and gemm.m * gemm.n >= 8 * machine.cores


def unshared_multicast(gemm: TileGemm, machine: Machine, plan: Plan) -> bool:
    """Tiles are sent along a dimension of the mesh along which nobody shares them, but for B's along rows where nobody
    shares any."""
    def alone(pattern: str, loop: int) -> bool:
        one_row, one_column = plan.rows[loop] == 1, plan.columns[loop] == 1
        return {"row": one_column, "column": one_row}.get(pattern, pattern in ("down", "across") and (
            one_row or one_column))

    idle = plan.spread(0) * plan.spread(1) == 1 and plan.b[0] == "row"
    return alone(plan.a[0], 1) or (alone(plan.b[0], 0) and not idle)


def needless_keep(gemm: TileGemm, machine: Machine, plan: Plan) -> bool:
    """Tiles are kept that no other wave uses."""
    return any(way[1] == "keep" and _waves(gemm, plan, 1 - loop) == 1 for loop, way in enumerate((plan.a, plan.b)))


def needless_order(gemm: TileGemm, machine: Machine, plan: Plan) -> bool:
    """The loop over n is the outer one, though nothing is kept, or one of the loops has but one wave."""
    kept = "keep" in (plan.a[1], plan.b[1])
    return plan.order == "nm" and not (kept and all(_waves(gemm, plan, loop) > 1 for loop in (0, 1)))


def mirrored(gemm: TileGemm, machine: Machine, plan: Plan) -> bool:
    """On a square mesh, the other one of two spreads that differ in the dimensions of the mesh."""
    return machine.rows == machine.columns and plan.rows < plan.columns


def other_sums(gemm: TileGemm, machine: Machine, plan: Plan) -> bool:
    """One block of sums, though two fit and there is another wave, or two, though there is none."""
    again = any(_waves(gemm, plan, loop) > 1 for loop in (0, 1))
    two = again and 2 * plan.block[0] * plan.block[1] <= machine.sums
    return plan.outputs != (2 if two else 1)


RULES: Mapping[str, Rule] = {rule.__name__: rule for rule in (
    large_block, idle_cores, needless_split, needless_sums, unshared_multicast, needless_keep, needless_order, mirrored,
    other_sums)}


def left_out(gemm: TileGemm, machine: Machine) -> dict[str, list[Plan]]:
    """Plans that no rule leaves out, by ``""``, and those that a single one does, by its name."""
    found: dict[str, list[Plan]] = {name: [] for name in ("", *RULES)}
    for plan in every_plan(gemm, machine):
        names = [name for name, rule in RULES.items() if rule(gemm, machine, plan)]
        if len(names) < 2:
            found["".join(names)].append(plan)
    return found
