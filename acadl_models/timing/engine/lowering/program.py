"""From a bound stream to the engine's tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.layout import AccessSpec, Code, H, Instruction, OfferSpec, OperandSpec, Route
from archloom.acadl_models.timing.engine.lowering import expressions
from archloom.acadl_models.timing.engine.lowering.accesses import Accesses, Offsets, Placed
from archloom.acadl_models.timing.engine.lowering.conflicts import access_lists, classify
from archloom.acadl_models.timing.engine.lowering.expressions import Expressions, Latencies, LatencyOwner
from archloom.acadl_models.timing.engine.lowering.forms import Form
from archloom.acadl_models.timing.engine.lowering.graph_tables import GraphTables, graph_tables
from archloom.acadl_models.timing.engine.lowering.loops import LoopLowering, LoopText
from archloom.acadl_models.timing.engine.lowering.records import RecordLowering, deciding_lists
from archloom.acadl_models.timing.engine.lowering.registers import RegisterLowering
from archloom.acadl_models.timing.engine.lowering.routes import SharedRoutes, first_record, linked, route_records
from archloom.acadl_models.timing.engine.lowering.tables import Array, Tables
from archloom.acadl_models.timing.engine.memory_state import MOST_LOOKS
from archloom.acadl_models.timing.engine.state import Access, Instance, Operand, Request
from archloom.acadl_models.timing.loops import TOP, LoopSites
from archloom.acadl_models.timing.machine import fetch_cycles
from archloom.acadl_models.timing.program import Program, StaticInstruction, StaticLoop, StaticNode, limits
from archloom.oracle.errors import GraphError


@dataclass(frozen=True)
class Lowered:
    """The tables of a bound stream; ``graph`` has the objects in the tables' order."""

    program: Program
    tables: Array
    graph: GraphTables
    owners: tuple[LatencyOwner, ...]
    sites: LoopSites


def lower(program: Program) -> Lowered:
    """Tables for :func:`core.run`; raises GraphError for a latency that cannot be computed."""
    try:
        return _Lowering(program).lowered()
    except expressions.BadLatencyError as error:
        raise GraphError(program.graph.name, [str(error)]) from None


class _Lowering:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.sites = LoopSites(program)
        self.graph = graph_tables(program.graph)
        self.shared = self.graph.shared()
        self.loops: list[StaticLoop] = []
        self.texts: dict[int, LoopText] = {}
        self.bounds: dict[str, tuple[int, int]] = {}
        self.statics: list[StaticInstruction] = []
        self.forms: list[Form] = []  # of the accesses that the engine must know
        self.offsets: list[Offsets] = []
        self.counts: list[int] = []  # of these, for each instruction
        self.around: list[tuple[str, ...]] = []
        self.innermost: list[int] = []
        self.code: list[int] = []
        self.total = self._walk(program.body, (), NONE)
        self.code += [Code.END, 0]

    def _walk(self, nodes: Iterable[StaticNode], around: tuple[str, ...], parent: int) -> int:
        """Emit the code of the nest; returns its number of instances. Loops without instances vanish."""
        total = 0
        for node in nodes:
            first = len(self.forms)
            if isinstance(node, StaticInstruction):
                self.code += [Code.INSTRUCTION, len(self.statics)]
                self.statics.append(node)
                self.around.append(around)
                self.innermost.append(parent)
                for plan in node.plans:
                    if plan.place.tracked or plan.place.banks:
                        self.forms.append(self.shared.form(plan))
                        self.offsets.append(plan.access.window.offsets)
                self.counts.append(len(self.forms) - first)
                total += 1
                continue
            number, begin, size = len(self.loops), len(self.code), 0
            self.loops.append(node)
            self.code += [Code.LOOP, number]
            if node.values:
                self.bounds[node.var] = limits(node.values)
                size = len(node.values) * self._walk(node.body, (*around, node.var), number)
            if size:
                body, end, below = begin // 2 + 1, len(self.code) // 2, len(self.forms) - first
                self.texts[number] = LoopText(node, parent, len(around), body, end, size, first, below)
                self.code += [Code.BACK, number]
            else:
                del self.loops[number:], self.code[begin:]
            total += size
        return total

    def lowered(self) -> Lowered:
        shared, accesses = self.shared, Accesses(self.forms, self.offsets, self.counts, self.bounds)
        classes = classify(accesses)
        lists = deciding_lists(accesses, classes, shared)
        shared_routes = SharedRoutes(self.graph, shared, self.bounds)
        requests = (np.bincount(accesses.static[accesses.banks > 0], minlength=len(self.statics)) > 0).tolist()
        routes = list(map(shared_routes.find, self.statics, requests))
        known = shared.words()
        self.tables = Tables(self.graph.words, known, classes.met)
        self.expressions = Expressions(self.tables, self.loops)
        self.latencies = Latencies(self.expressions, self.bounds)
        d = self.tables.header
        for field, value in self.graph.header.items():
            d[field] = value
        d[H.STATICS], d[H.LOOPS], d[H.TOTAL] = len(self.statics), len(self.loops), self.total
        d[H.LOOKS] = min(MOST_LOOKS, 1 << (8 * self.total).bit_length()) if d[H.CACHES] else 0
        d[H.FETCH_LATENCY] = fetch_cycles(self.program.graph, self.program.stream.parameters)
        flights = self.program.graph.semantics.fetches_in_flight
        d[H.FETCH_FLIGHTS] = min(flights, d[H.FETCH_LATENCY])  # at most one starts in a cycle
        d[H.CLASSES], d[H.MAX_AXES] = classes.count, int(classes.axes.sum(axis=1).max(initial=0))
        d[H.ACCESSES], d[H.SITES], d[H.SITE_COUNTERS] = len(accesses), len(self.sites.sites), len(self.sites.sites) + 1
        records = self._instructions(accesses, requests, routes)
        lowering = RecordLowering(self.tables, self.graph, self.latencies, accesses, classes,
                                  Placed(accesses, self.expressions), self.statics, self.around)
        places = lowering.records(lists, H.SIZE + len(self.graph.words) + len(known))
        first = d[H.ACCESS_TABLE] = self.tables.put_array(places)
        records[:, Instruction.ACCESSES] = first + AccessSpec.SIZE * (np.cumsum(accesses.counts) - accesses.counts)
        table = np.hstack((records, access_lists(self.tables, accesses, classes, first, places)))
        d[H.STATIC_TABLE] = self.tables.put_array(table)
        d[H.PROGRAM] = self.tables.put_array(self._program())
        loops = LoopLowering(
            self.tables, self.expressions, self.latencies, accesses, classes, first, self.sites, self.graph.memories,
            [self.texts[k] for k in range(len(self.loops))],
        )
        d[H.LOOP_TABLE] = self.tables.put(loops.records())
        d[H.DEPTHS] = max((len(around) for around in self.around), default=0)
        d[H.VALUES] = len(self.loops) + len(self.expressions.atoms)
        d[H.ATOM_TABLE] = self.tables.put([v for a in self.expressions.atoms for v in a[:3]])
        return Lowered(self.program, self.tables.flat(), self.graph, tuple(self.latencies.owners), self.sites)

    def _program(self) -> Array:
        """The code of the nest with the positions of the instructions' records."""
        code = np.array(self.code, np.int64).reshape(-1, 2)
        code[code[:, 0] == Code.INSTRUCTION, 1] *= Instruction.SIZE
        code[code[:, 0] == Code.INSTRUCTION, 1] += self.tables.header[H.STATIC_TABLE]
        return code

    # --- instructions ------------------------------------------------------------------------------------------
    def _instructions(
        self, accesses: Accesses, requests: list[bool], routes: list[tuple[int, int, int] | None]
    ) -> Array:
        """The records of the instructions up to ``Instruction.NODES``, int64 [instruction, field]; those of accesses
        are still open. Lays out the slots of instances."""
        d, put = self.tables.header, self.tables.put
        signatures, home, top = self._signatures(), self.sites.home, len(self.sites.sites)
        records: list[int] = []
        d[H.MAX_LATENCIES] = 0
        registers = RegisterLowering(self.program, self.latencies.repeating)
        operands = list(map(registers.operands, self.statics, self.around))
        registers.finish(self.tables)
        for k, static in enumerate(self.statics):
            way, varying = routes[k], list[int]()
            if way is None:
                around = self.around[k]
                found, varying = route_records(
                    self.graph, static, static.names, requests[k], self.latencies, around
                )
                position = put([])
                way = put(linked(found, position)), len(found) // Route.SIZE, first_record(self.graph, found, position)
                d[H.MAX_LATENCIES] = max(d[H.MAX_LATENCIES], len(varying))
            site = home[static.index]
            records += (
                self.innermost[k], signatures[k], way[0], way[1], NONE, self.counts[k], put(varying),
                len(varying), top if site == TOP else site, way[2], put(operands[k]),
                len(operands[k]) // OperandSpec.SIZE,
            )  # fmt: skip
        d[H.MAX_OPERANDS] = max(map(len, operands), default=0) // OperandSpec.SIZE
        self._lay_out_slots(accesses)
        return np.array(records, np.int64).reshape(-1, Instruction.NODES)

    def _lay_out_slots(self, accesses: Accesses) -> None:
        """Where the parts of instances lie in their slots."""
        d = self.tables.header
        d[H.MAX_ACCESSES] = max(self.counts, default=0)
        asked = np.bincount(accesses.static, accesses.requests, minlength=len(self.statics))
        d[H.MAX_REQUESTS] = int(asked.max(initial=0))
        d[H.ACCESS_SIZE] = Access.OFFSETS + max(1, d[H.MAX_AXES])
        d[H.SLOT_ACCESSES] = Instance.SIZE
        d[H.SLOT_OPERANDS] = Instance.SIZE + d[H.MAX_ACCESSES] * d[H.ACCESS_SIZE]
        d[H.SLOT_REQUESTS] = d[H.SLOT_OPERANDS] + d[H.MAX_OPERANDS] * Operand.SIZE
        d[H.SLOT_LATENCIES] = d[H.SLOT_REQUESTS] + d[H.MAX_REQUESTS] * Request.SIZE
        d[H.SLOT_TAILS] = d[H.SLOT_LATENCIES] + d[H.MAX_LATENCIES]
        d[H.SLOT_SIZE] = d[H.SLOT_TAILS] + d[H.MAX_REQUESTS] * d[H.TAIL_SIZE]

    def _signatures(self) -> list[int]:
        """Number the sets of stages to which the fetch stage may pass an instruction, and put them by both sides."""
        graph, found = self.graph, dict[frozenset[str], int]()
        by_route: dict[int, int] = {}
        numbers: list[int] = []
        for static in self.statics:
            number = by_route.get(id(static.routed))
            if number is None:
                number = found.setdefault(static.routed & graph.receivers, len(found))
                by_route[id(static.routed)] = number
            numbers.append(number)
        offered: dict[int, list[int]] = {}
        groups: list[int] = []
        for names, number in found.items():
            stages = sorted(graph.stage_numbers[name] for name in names)
            groups += self.tables.list(stages)
            for stage in stages:
                offered.setdefault(stage, []).append(number)
        lists = [0, 0, NONE] * len(graph.stages)
        for stage, numbers_there in offered.items():
            only = numbers_there[0] if len(numbers_there) == 1 else NONE
            lists[OfferSpec.SIZE * stage : OfferSpec.SIZE * (stage + 1)] = *self.tables.list(numbers_there), only
        d = self.tables.header
        d[H.SIGNATURES], d[H.SIGNATURE_TABLE], d[H.OFFERS] = len(found), self.tables.put(groups), self.tables.put(lists)
        return numbers
