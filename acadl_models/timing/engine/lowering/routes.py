"""Lowering routes: the stages into which instructions may come, and how long each takes there."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from archloom.acadl_models.acadl.latency import Expression
from archloom.acadl_models.timing.engine.fields import FOREVER, NONE
from archloom.acadl_models.timing.engine.layout import H, Route
from archloom.acadl_models.timing.engine.lowering.expressions import BadLatencyError, Expressions, Latencies
from archloom.acadl_models.timing.engine.lowering.forms import Ranges, Shared, Way
from archloom.acadl_models.timing.engine.lowering.graph_tables import GraphTables
from archloom.acadl_models.timing.engine.lowering.latencies import Names
from archloom.acadl_models.timing.engine.lowering.tables import Tables
from archloom.acadl_models.timing.program import StaticInstruction, StaticLoop
from archloom.oracle.affine import Affine, Bounds
from archloom.oracle.memory import Remembered


class SharedRoutes:
    """Finds the routes of instructions among the words that streams share, and adds those that are not there.

    Instructions that the same units take share them, in other streams, too, as far as the ranges of what latencies name
    decide these.
    """

    def __init__(self, graph: GraphTables, shared: Shared, bounds: Bounds) -> None:
        self.graph, self.shared, self.bounds = graph, shared, bounds

    def find(self, static: StaticInstruction, requests: bool) -> tuple[int, int, int] | None:
        """Position and number of the Route records of an instruction, its ``FIRST``.

        None where the ranges leave a latency open.
        """
        way = self.shared.way(static.takers, static.routed, static.mnemonic, requests)
        ranges = tuple([self._range(static.names.get(name)) for name in way.names]) if way.names else ()
        try:
            return way.routes[ranges]
        except KeyError:
            pass
        wide = tuple(map(_widened, ranges))
        if wide not in way.routes:
            way.routes[wide] = self._new(way, wide, static, requests)
        found = way.routes[wide]
        if found is None and wide != ranges:
            found = way.routes[ranges] = self._new(way, ranges, static, requests)
        return found

    def _range(self, value: Affine | None) -> tuple[int, int] | None:
        if value is None:
            return None
        return value.range(self.bounds) if value.terms else (value.constant, value.constant)

    def _new(
        self, way: Way, ranges: Ranges, static: StaticInstruction, requests: bool
    ) -> tuple[int, int, int] | None:
        # each name is a variable of its own: of what is known of the values, the ranges alone may decide
        known = {name: bounds for name, bounds in zip(way.names, ranges) if bounds is not None}
        loops = [StaticLoop(name, range(low, high + 1), ()) for name, (low, high) in known.items()]
        names = {name: Affine(low) if low == high else Affine.variable(name) for name, (low, high) in known.items()}
        probe = _Probe(Expressions(Tables(), loops), known, self.shared.latencies)
        try:
            records, varying = route_records(self.graph, static, names, requests, probe, ())
        except BadLatencyError:  # it may have a value where more is known
            return None
        if varying:
            return None
        position = self.shared.place(lambda position: linked(records, position))
        return position, len(records) // Route.SIZE, first_record(self.graph, records, position)


_BLOCK = 26
"""Bits of the blocks to which ranges are widened, a free choice: more than most buffers have addresses, so that what
one block decides is decided for all of them."""


def _widened(span: tuple[int, int] | None) -> tuple[int, int] | None:
    """The whole blocks in which the values of a name lie, if there are several."""
    if span is None or span[0] == span[1]:
        return span
    return span[0] >> _BLOCK << _BLOCK, ((span[1] >> _BLOCK) + 1 << _BLOCK) - 1


class _Probe(Latencies):
    """Latencies of names of which the ranges are known alone; those that these decide are ``decided`` for all streams
    on a graph, by the expression, its least value and the ranges of its names."""

    def __init__(
        self, expressions: Expressions, bounds: Bounds, decided: Remembered[tuple[str, int, Ranges], int]
    ) -> None:
        super().__init__(expressions, bounds)
        self.decided = decided

    def code(
        self, expression: Expression, names: Names, mnemonic: str, least: int, where: str, around: Sequence[str]
    ) -> int:
        key = expression.text, least, tuple([self.bounds.get(name) for name in sorted(expression.names)])
        value = self.decided.get(key)
        if value is None:
            value = super().code(expression, names, mnemonic, least, where, around)
            if value >= 0:
                self.decided[key] = value
        return value


def route_records(
    graph: GraphTables, static: StaticInstruction, names: Names, requests: bool, latencies: Latencies,
    around: Sequence[str],
) -> tuple[list[int], list[int]]:
    """The Route records of an instruction in all stages, and the positions of the programs of what varies in them.

    ``names``: what latencies may name. ``Route.NEXT`` is the number of the next record among them, see
    :func:`linked`.
    """
    mnemonic = static.mnemonic
    numbers = sorted(graph.stage_numbers[name] for name in static.routed if name in graph.stage_numbers)
    records: list[int] = []
    varying: list[int] = []

    def code(expression: Expression, least: int, where: str) -> int:
        value = latencies.code(expression, names, mnemonic, least, where, around)
        if value >= 0:
            return value
        varying.append(-1 - value)
        return -len(varying)

    for number in numbers:
        stage = graph.stages[number]
        unit = static.takers.get(stage.name)
        held = latency = interval = 1
        first = FOREVER
        if unit is None or graph.header[H.LATENCY_ADDED]:
            held = code(graph.stage_latencies[number], 1, f"{stage}: latency")
        if unit is not None:
            latency = code(unit.latency_of(mnemonic), 0 if requests else 1, f"{unit}: latency")
            rate, start = unit.interval_of(mnemonic), unit.first_latency_of(mnemonic)
            interval = 1 if rate is None else code(rate, 1, f"{unit}: interval")
            first = FOREVER if start is None else code(start, 0, f"{unit}: first_latency")
        next_record = _only(graph.followers[number], numbers)
        taker = NONE if unit is None else graph.unit_numbers[unit.name]
        records += [next_record, number, taker, held, latency, interval, first]
    return records, varying


def linked(records: Sequence[int], position: int) -> list[int]:
    """The Route records of an instruction as they are put at a position."""
    found = list(records)
    found[Route.NEXT :: Route.SIZE] = [
        NONE if k == NONE else position + k * Route.SIZE for k in records[Route.NEXT :: Route.SIZE]
    ]
    return found


def first_record(graph: GraphTables, records: Sequence[int], position: int) -> int:
    """``Instruction.FIRST`` of an instruction whose Route records are put at a position."""
    k = _only(graph.first_stages, records[Route.STAGE :: Route.SIZE])
    return NONE if k == NONE else position + k * Route.SIZE


def _only(stages: Collection[int], numbers: Sequence[int]) -> int:
    """The index of the only one among stages that is in a collection, or NONE."""
    found = [k for k, number in enumerate(numbers) if number in stages]
    return found[0] if len(found) == 1 else NONE
