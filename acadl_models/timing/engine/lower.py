"""From a bound stream to the engine's tables."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from acadl_models.acadl import ArchitectureGraph, FunctionalUnit, InstructionFetchStage, MemoryInterface, PipelineStage
from acadl_models.acadl.latency import Expression, LatencyError, Num, parse
from acadl_models.timing.engine.accessing import Classes, Entry, classify, entry, find_ranges
from acadl_models.timing.engine.latencies import Names, arguments, compile_latency, simplify
from acadl_models.timing.engine.layout import *  # noqa: F403
from acadl_models.timing.engine.periods import Periods
from acadl_models.timing.engine.windows import Pattern, beats, runs, words
from acadl_models.timing.loops import TOP, LoopSites
from acadl_models.timing.machine import Program, StaticInstruction, StaticLoop, StaticNode, fetch_cycles, latency_fault
from oracle.affine import Affine, Atom, Div
from oracle.errors import GraphError

Array = NDArray[np.int64]

LARGEST_CLASS = 128
"""Accesses of a class that are compared one by one before the run; in larger ones whatever meets."""

READS_HOLD = {"finished": READS_UNTIL_FINISH, "started": READS_UNTIL_START, "ignored": READS_NEVER}
"""By the value of ``write_after_read``."""


@dataclass(frozen=True)
class LatencyOwner:
    """Whose latency a program of the tables is: for the message about a bad value."""

    where: str
    expression: Expression
    mnemonic: str
    least: int


@dataclass(frozen=True)
class Lowered:
    """The tables of a bound stream; ``stages`` and ``storages`` are in the tables' order."""

    program: Program
    tables: Array
    stages: tuple[PipelineStage, ...]
    units: tuple[FunctionalUnit, ...]
    storages: tuple[MemoryInterface, ...]
    owners: tuple[LatencyOwner, ...]
    sites: LoopSites


def lower(program: Program) -> Lowered:
    """Tables for :func:`core.run`; raises GraphError for a latency that cannot be computed."""
    return _Lowering(program).lowered()


class _Lowering:
    def __init__(self, program: Program) -> None:
        graph = program.graph
        self.program = program
        self.sites = LoopSites(program)
        self.stages = tuple(s for s in program.forwarding_order if s is not program.fetch)
        self.units = graph.functional_units
        self.stage_numbers = {s.name: k for k, s in enumerate(self.stages)}
        self.unit_numbers = {u.name: k for k, u in enumerate(self.units)}
        self.signatures: list[int] = []
        placed = {bank.storage for banks in graph.buffers.values() for bank in banks}
        self.storages = tuple(s for s in graph.storages if s.name in placed and isinstance(s, MemoryInterface))
        self.storage_numbers = {s.name: k for k, s in enumerate(self.storages)}
        self.data: list[int] = [0] * H_SIZE
        self.shift = 0  # words between the header and what follows it in ``data``
        self.met: list[int] = []
        self.ranks: list[int] = []
        self.loops: list[StaticLoop] = []
        self.loops_around: list[tuple[str, ...]] = []
        self.loop_statics: dict[str, tuple[int, int]] = {}
        self.statics: list[StaticInstruction] = []
        self.around: list[tuple[str, ...]] = []
        self.code: list[int] = []
        self._walk(program.body, ())
        self.code += [OP_END, 0]
        self.bounds = {loop.var: _bounds(loop.values) for loop in self.loops}
        self.values: dict[Atom, int] = {loop.var: k for k, loop in enumerate(self.loops)}
        self.atoms: list[tuple[int, int, int, frozenset[str]]] = []
        self.expressions: dict[Affine, int] = {}
        self.patterns: dict[Pattern, int] = {}
        self.owners: list[LatencyOwner] = []
        self.places: list[int] = []
        self.arguments: list[tuple[tuple[str, ...], Affine]] = []
        self.names: list[Names] = []

    def _walk(self, nodes: Iterable[StaticNode], around: tuple[str, ...]) -> bool:
        """Emit the code of the nest; returns whether there is any. Loops without instances vanish."""
        before = len(self.statics)
        for node in nodes:
            if isinstance(node, StaticInstruction):
                self.code += [OP_INSTRUCTION, len(self.statics)]
                self.statics.append(node)
                self.around.append(around)
                continue
            number, begin = len(self.loops), len(self.code)
            self.loops.append(node)
            self.loops_around.append(around)
            self.code += [OP_LOOP, number]
            first = len(self.statics)
            if len(node.values) and self._walk(node.body, (*around, node.var)):
                self.code += [OP_BACK, number]
                self.loop_statics[node.var] = first, len(self.statics)
            else:
                del self.loops[number:], self.loops_around[number:], self.code[begin:]
        return len(self.statics) > before

    def lowered(self) -> Lowered:
        parameters = {k: Affine(v) for k, v in self.program.stream.parameters}
        self.names = [{**parameters, **dict(s.node.registers), **dict(s.node.attributes)} for s in self.statics]
        plans = [(k, plan) for k, s in enumerate(self.statics) for plan in s.plans if plan.tracked or plan.banks]
        entries = [entry(plan, k, self.around[k], order) for order, (k, plan) in enumerate(plans)]
        find_ranges(entries, self.bounds)
        classes = classify(entries)
        d = self.data
        self.met, self.ranks, whether = _met(classes, entries)
        self.shift = len(whether)
        d[H_CLASSES], d[H_MAX_AXES] = len(classes.members), max((len(e.axes) for e in entries), default=0)
        self._graph_tables()
        self._instruction_tables(entries)
        d[H_PROGRAM] = self._put(self.code)
        self._loop_tables(entries, classes)
        d[H_VALUES] = len(self.loops) + len(self.atoms)
        d[H_ATOM_TABLE] = self._put(v for a in self.atoms for v in a[:3])
        d[H_ACCESSES], d[H_SITES] = len(entries), len(self.sites.sites)
        flat = np.array(d, dtype=np.int64)
        tables = np.concatenate([flat[:H_SIZE], whether, flat[H_SIZE:]])
        return Lowered(self.program, tables, self.stages, self.units, self.storages, tuple(self.owners), self.sites)

    # --- pieces ------------------------------------------------------------------------------------------------
    def _put(self, values: Iterable[int]) -> int:
        position = len(self.data) + self.shift
        self.data.extend(values)
        return position

    def _expression(self, e: Affine) -> int:
        """Position of an expression in the tables, with its atoms."""
        if e not in self.expressions:
            terms = [v for atom, coefficient in e.terms for v in (self._value(atom), coefficient)]
            self.expressions[e] = self._put([e.constant, len(e.terms), *terms])
        return self.expressions[e]

    def _value(self, atom: Atom) -> int:
        """Number of a loop variable or atom; atoms inside an atom come before it."""
        if atom not in self.values:
            assert not isinstance(atom, str), atom
            numerator = self._expression(atom.numerator)
            self.values[atom] = len(self.loops) + len(self.atoms)
            self.atoms.append((int(not isinstance(atom, Div)), atom.divisor, numerator, atom.numerator.variables()))
        return self.values[atom]

    def _pattern(self, pattern: Pattern) -> int:
        if pattern not in self.patterns:
            self.patterns[pattern] = self._put(pattern.flat())
        return self.patterns[pattern]

    # --- the graph ---------------------------------------------------------------------------------------------
    def _graph_tables(self) -> None:
        d, graph, fetch = self.data, self.program.graph, self.program.fetch
        d[H_STAGES], d[H_UNITS], d[H_STORES] = len(self.stages), len(self.units), len(self.storages)
        d[H_STATICS], d[H_LOOPS], d[H_TOTAL] = len(self.statics), len(self.loops), self.program.count
        d[H_ISSUE_SIZE] = fetch.issue_buffer_size
        _, memory = graph.instruction_memory(fetch)
        d[H_FETCH_WIDTH], d[H_FETCH_LATENCY] = memory.port_width, fetch_cycles(self.program)
        semantics = graph.semantics
        d[H_FETCH_FLIGHTS] = min(semantics.fetches_in_flight, d[H_FETCH_LATENCY])  # at most one starts in a cycle
        d[H_IN_ORDER] = int(semantics.issue == "in_order")
        d[H_LATENCY_ADDED] = int(semantics.stage_latency == "added")
        d[H_EDGE_ORDER] = int(semantics.arbitration == "edge_order")
        d[H_READS_HOLD] = READS_HOLD[semantics.write_after_read]
        self._stage_tables(graph, fetch)
        d[H_UNIT_TABLE] = self._put(
            v
            for u in self.units
            for v in (u.in_flight, int(u.interval is not None), self.stage_numbers[graph.stage_of(u).name])
        )
        d[H_STORE_TABLE] = self._put(
            v for m in self.storages for v in (
                m.max_concurrent_requests, m.port_width, int(m.shared_port),
                int(m.shared_port or m.max_concurrent_requests == 1),
            )
        )

    def _stage_tables(self, graph: ArchitectureGraph, fetch: InstructionFetchStage) -> None:
        receivers = [s.name for s in graph.successors(fetch)]
        found: dict[frozenset[str], int] = {}
        for static in self.statics:
            names = static.routed.intersection(receivers)
            self.signatures.append(found.setdefault(names, len(found)))
        offered: dict[str, list[int]] = {name: [] for name in receivers}
        groups: list[int] = []
        for names, number in found.items():
            groups += self._list(sorted(self.stage_numbers[name] for name in names))
            for name in names:
                offered[name].append(number)
        self.data[H_SIGNATURES], self.data[H_SIGNATURE_TABLE] = len(found), self._put(groups)
        records: list[int] = []
        for stage in self.stages:
            records += [
                stage.depth,
                *self._list([self.unit_numbers[u.name] for u in graph.units(stage)]),
                *self._list([self.stage_numbers.get(p.name, FETCH) for p in graph.predecessors(stage)]),
                *self._list([self.stage_numbers[s.name] for s in graph.successors(stage)]),
                *self._list(sorted(offered.get(stage.name, ()))),
            ]
        self.data[H_STAGE_TABLE] = self._put(records)

    def _list(self, values: list[int]) -> tuple[int, int]:
        """Position and length of a list."""
        return self._put(values), len(values)

    # --- instructions ------------------------------------------------------------------------------------------
    def _instruction_tables(self, entries: list[Entry]) -> None:
        d = self.data
        of_static: list[list[Entry]] = [[] for _ in self.statics]
        for e in entries:
            of_static[e.static].append(e)
        varying: list[list[int]] = [[] for _ in self.statics]
        records: list[int] = []
        for k, found in enumerate(of_static):
            record = [0] * TI_SIZE
            record[TI_SIGNATURE] = self.signatures[k]
            record[TI_LOOP] = self.values[self.around[k][-1]] if self.around[k] else NONE
            record[TI_ROUTES], record[TI_ROUTE_COUNT] = self._routes(k, found, varying)
            record[TI_ACCESSES], record[TI_ACCESS_COUNT] = self._access_table(k, found), len(found)
            record[TI_LATENCIES], record[TI_LATENCY_COUNT] = self._put(varying[k]), len(varying[k])
            home = self.sites.home[self.statics[k].index]
            record[TI_SITE] = len(self.sites.sites) if home == TOP else home
            records += record
        d[H_STATIC_TABLE] = self._put(records)
        d[H_MAX_ACCESSES] = max(map(len, of_static), default=0)
        d[H_MAX_REQUESTS] = max((sum(len(e.plan.banks) for e in found) for found in of_static), default=0)
        d[H_MAX_LATENCIES] = max(map(len, varying), default=0)
        d[H_SLOT_REQUESTS] = I_SIZE
        d[H_SLOT_ACCESSES] = I_SIZE + d[H_MAX_REQUESTS] * R_SIZE
        d[H_ACCESS_SIZE] = A_OFFSETS + d[H_MAX_AXES]
        d[H_SLOT_LATENCIES] = d[H_SLOT_ACCESSES] + d[H_MAX_ACCESSES] * d[H_ACCESS_SIZE]
        d[H_SLOT_SIZE] = d[H_SLOT_LATENCIES] + d[H_MAX_LATENCIES]

    def _routes(self, k: int, found: list[Entry], varying: list[list[int]]) -> tuple[int, int]:
        """The records of an instruction in the stages into which it may come, and how many."""
        static = self.statics[k]
        numbers = sorted(self.stage_numbers[name] for name in static.routed if name in self.stage_numbers)
        added = bool(self.data[H_LATENCY_ADDED])
        records: list[int] = []
        for number in numbers:
            stage = self.stages[number]
            unit = static.takers.get(stage.name)
            held, latency, interval = 1, 1, 1
            if unit is None or added:
                held = self._latency(k, stage.latencies()["latency"], 1, f"{stage}: latency", varying)
            if unit is not None:
                least = 0 if any(e.plan.banks for e in found) else 1
                mnemonic = static.node.mnemonic
                latency = self._latency(k, unit.latency_of(mnemonic), least, f"{unit}: latency", varying)
                rate = unit.interval_of(mnemonic)
                interval = 1 if rate is None else self._latency(k, rate, 1, f"{unit}: interval", varying)
            records += [number, NONE if unit is None else self.unit_numbers[unit.name], held, latency, interval]
        return self._put(records), len(numbers)

    def _latency(self, static: int, expression: Expression, least: int, where: str, varying: list[list[int]]) -> int:
        """The value, or ``-1 - n``: the ``n``-th of the latencies that each instance evaluates when it is made."""
        code = self._value_or_program(static, expression, self.names[static], least, where)
        if code >= 0:
            return code
        varying[static].append(-1 - code)
        return -len(varying[static])

    def _value_or_program(self, static: int, expression: Expression, names: Names, least: int, where: str) -> int:
        """The value, or ``-1 - position`` of a program where it varies or is an error when it is used."""
        if isinstance(expression.root, Num) and expression.root.value >= least:
            return expression.root.value
        owner = LatencyOwner(where, expression, self.statics[static].node.mnemonic, least)
        try:
            root = simplify(expression, names, self.bounds)
            code = compile_latency(root, names, self._expression)
        except LatencyError as error:
            raise bad_latency(self.program, owner, str(error)) from None
        if isinstance(root, Num) and root.value >= least:
            return root.value
        self.arguments += [(self.around[static], a) for a in arguments(root, names)]
        self.owners.append(owner)
        return -1 - self._put([least, len(self.owners) - 1, len(code), *(v for pair in code for v in pair)])

    def _access_table(self, static: int, found: list[Entry]) -> int:
        records: list[int] = []
        for e in found:
            banks = e.plan.banks
            record = [0] * TA_SIZE
            record[TA_MET], record[TA_RANK] = self.met[e.order], self.ranks[e.order]
            record[TA_KIND], record[TA_CLASS], record[TA_AXES] = e.kind, e.conflict_class, len(e.axes)
            record[TA_EXPRESSIONS] = self._put([self._expression(e.offsets[a]) for a in e.axes])
            record[TA_PATTERNS] = self._put([self._pattern(e.shapes[a]) for a in e.axes])
            record[TA_STORES], record[TA_STORE_COUNT] = self._bank_table(static, e), len(banks)
            record[TA_WORD] = self._expression(e.word) if len(banks) > 1 else NONE
            same = (column for column, axis in enumerate(e.axes) if e.offsets[axis] == e.word)
            record[TA_WORD_AXIS] = next(same, NONE) if e.conflict_class != NONE else NONE
            sizes = {(b.stop or 0) - b.start for b in banks}
            size = sizes.pop() if len(sizes) == 1 else 0
            record[TA_BANK_SHIFT] = size.bit_length() - 1 if size and size & (size - 1) == 0 else NONE
            shape_runs = runs(e.word_shape) if len(banks) > 1 else ()
            record[TA_RUNS], record[TA_RUN_COUNT] = self._put(v for r in shape_runs for v in r), len(shape_runs)
            record[TA_SPAN], record[TA_WORDS] = e.word_shape.span + 1, words(e.word_shape)
            record[TA_ORDER], record[TA_DATA_WIDTH] = e.order, e.plan.data_width
            records += record
        position = self._put(records)
        self.places += [position + k * TA_SIZE for k in range(len(found))]
        return position

    def _bank_table(self, static: int, e: Entry) -> int:
        records: list[int] = []
        count = words(e.word_shape)
        for bank in e.plan.banks:
            number = self.storage_numbers[bank.storage]
            storage = self.storages[number]
            latency = self._request_latency(static, e, storage, count if len(e.plan.banks) == 1 else None)
            records += [number, bank.start, bank.stop or 0, beats(e.word_shape, storage.port_width), latency]
        return self._put(records)

    def _request_latency(self, static: int, e: Entry, storage: MemoryInterface, count: int | None) -> int:
        """Latency of the requests of an access; ``count``: their words, where all have as many."""
        attribute = "read_latency" if e.kind == READ else "write_latency"
        expression = parse(getattr(storage, attribute))
        names: Names = {}
        if expression.names:
            names = {n: v for n, v in self.names[static].items() if n not in ("words", "bytes")}
            if count is not None:
                names |= {"words": Affine(count), "bytes": Affine(-(-count * storage.data_width // 8))}
        return self._value_or_program(static, expression, names, 1, f"{storage}: {attribute}")

    # --- loops -------------------------------------------------------------------------------------------------
    def _loop_tables(self, entries: list[Entry], classes: Classes) -> None:
        periods = Periods({loop.var: loop.values.step for loop in self.loops})
        firsts = np.searchsorted([e.static for e in entries], range(len(self.statics) + 1)).tolist()
        records: list[int] = []
        for number, loop in enumerate(self.loops):
            first, last = (firsts[s] for s in self.loop_statics[loop.var])
            records += self._loop_record(number, loop, entries[first:last], classes, periods)
        self.data[H_LOOP_TABLE] = self._put(records)
        self.data[H_PLACES] = self._put(self.places)

    def _loop_record(
        self, number: int, loop: StaticLoop, below: list[Entry], classes: Classes, periods: Periods
    ) -> list[int]:
        extent, around = len(loop.values), self.loops_around[number]
        period, shifts = self._shifts(loop, below, periods)
        first = below[0].order if below else 0
        clashes = _clashes(classes, first, shifts[:, :-1]) if 0 < 2 * period < extent else []
        moving = [self.places[e.order] for e, s in zip(below, shifts[:, -1].tolist()) if s]
        dependent = [len(self.loops) + k for k, atom in enumerate(self.atoms) if loop.var in atom[3]]
        record = [0] * TL_SIZE
        record[TL_START], record[TL_STEP], record[TL_EXTENT] = loop.values.start, loop.values.step, extent
        record[TL_BODY], record[TL_END] = self._body(number)
        record[TL_ATOMS], record[TL_ATOM_COUNT] = self._put(dependent), len(dependent)
        record[TL_PERIOD] = period if 2 * period < extent else 0
        record[TL_REPEATS], record[TL_SHIFTS] = period, self._put(shifts.reshape(-1).tolist())
        record[TL_PARENT] = self.values[around[-1]] if around else NONE
        record[TL_WATCHED] = int(_size(loop) >= LEAST_BODY * extent)
        record[TL_FIRST_ACCESS], record[TL_ACCESS_COUNT] = first, len(below)
        places = [self.places[order] for pair in clashes for order in pair]
        record[TL_CLASHES], record[TL_CLASH_COUNT] = self._put(places), len(clashes)
        record[TL_MOVING], record[TL_MOVING_COUNT] = self._put(moving), len(moving)
        record[TL_HISTORY] = self.data[H_HISTORIES]
        record[TL_SITE] = self.sites.of_loop[id(loop)]
        self.data[H_HISTORIES] += int(record[TL_PERIOD] > 0)
        return record

    def _body(self, number: int) -> tuple[int, int]:
        """Program positions of the first operation and of the back edge of a loop."""
        pairs = list(zip(self.code[::2], self.code[1::2]))
        return pairs.index((OP_LOOP, number)) + 1, pairs.index((OP_BACK, number))

    def _shifts(self, loop: StaticLoop, below: list[Entry], periods: Periods) -> tuple[int, Array]:
        """The smallest period of everything below a loop, and how far each axis and word moves in it.

        The period is 0 where a latency below the loop never repeats.
        """
        last = self.data[H_MAX_AXES]
        found = []
        for row, e in enumerate(below):
            places = [(column, e.offsets[axis]) for column, axis in enumerate(e.axes)]
            places += [(last, e.word)] if len(e.plan.banks) > 1 else []
            found += [(row, column, periods.of(x, loop.var)) for column, x in places if x.terms]
        latencies = [periods.of(x, loop.var) for around, x in self.arguments if loop.var in around]
        period = math.lcm(*(p.iterations for _, _, p in found), *(p.iterations for p in latencies))
        table = np.zeros((len(below), last + 1), np.int64)
        for row, column, p in found:
            if p.shift:
                table[row, column] = p.shift * (period // p.iterations)
        return (0 if any(p.shift for p in latencies) else period), table


def bad_latency(program: Program, owner: LatencyOwner, found: str) -> GraphError:
    """The error about a latency without a legal value."""
    fault = latency_fault(owner.where, owner.expression, owner.mnemonic, found, owner.least)
    return GraphError(program.graph.name, [fault])


def _size(node: StaticNode) -> int:
    """Instances of a node."""
    return len(node.values) * sum(map(_size, node.body)) if isinstance(node, StaticLoop) else 1


def _met(classes: Classes, entries: list[Entry]) -> tuple[list[int], list[int], Array]:
    """For each access where in the tables the row of its class lies, and its rank there; and these rows."""
    rows, ranks = [NONE] * len(entries), [0] * len(entries)
    blocks: list[Array] = []
    numbers = np.array([entries[k].conflict_class for k in classes.first.tolist()], np.int64)
    place = H_SIZE
    for number, members in enumerate(classes.members):
        size = len(members)
        if size > LARGEST_CLASS:
            continue
        inside = numbers == number
        block = np.zeros((size, size), np.int64)
        a, b = (np.searchsorted(members, x[inside]) for x in (classes.first, classes.second))
        block[a, b] = block[b, a] = 1
        for k, order in enumerate(members.tolist()):
            rows[order], ranks[order] = place + k * size, k
            block[k, k] = int(entries[order].kind == WRITE)
        blocks.append(block.reshape(-1))
        place += size * size
    return rows, ranks, np.concatenate([*blocks, np.zeros(0, np.int64)])


def _clashes(classes: Classes, first: int, shifts: Array) -> list[tuple[int, int]]:
    """Pairs below a loop that may meet and do not move together: only their ranges can prove that they never do."""
    if (shifts == shifts[:1]).all():
        return []
    a, b = classes.first, classes.second
    below = (a >= first) & (b < first + len(shifts))
    a, b = a[below], b[below]
    apart = (shifts[a - first] != shifts[b - first]).any(axis=1)
    return list(zip(a[apart].tolist(), b[apart].tolist()))


def _bounds(values: range) -> tuple[int, int]:
    return min(values[0], values[-1]), max(values[0], values[-1])


__all__ = ["LatencyOwner", "Lowered", "bad_latency", "lower"]
