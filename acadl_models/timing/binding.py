"""Binding: the walk over a stream that finds units and storages for every instruction, and takes loops apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, Union

import numpy as np

from acadl_models.acadl import ArchitectureGraph, FunctionalUnit
from acadl_models.timing.instances import Table, TooMany, rows, tell_apart
from acadl_models.timing.placing import places, unknown_names
from acadl_models.timing.program import AccessPlan, StaticInstruction, StaticLoop, StaticNode
from acadl_models.timing.routing import Used, routes, routing, uniform
from acadl_models.timing.unrolling import Names, Piece, Substitution, classes, take_apart
from oracle.accesses import accesses
from oracle.affine import Affine
from oracle.errors import GraphError
from oracle.resolved import Access, Buffer, ResolvedInstr, ResolvedLoop, ResolvedNode, ResolvedStream

MOST_INSTRUCTIONS = 200_000
"""Static instructions of a program: more are an error, not a program that never ends."""

MOST_FAULTS = 20
"""How many faults of one kind are listed before the others are counted."""

Takers: TypeAlias = Mapping[str, FunctionalUnit]


@dataclass(frozen=True, eq=False)
class _Site:
    """An instruction of the stream: its accesses, and who takes which instance."""

    node: ResolvedInstr
    accesses: tuple[Access, ...]
    table: Table


@dataclass(frozen=True, eq=False)
class _Nest:
    """A loop of the stream over sites, and the tables below that depend on it."""

    loop: ResolvedLoop
    body: tuple["_Node", ...]
    deciding: tuple[Table, ...]


_Node: TypeAlias = Union[_Site, _Nest]


class Binder:
    """Walks the stream and notes every fault."""

    def __init__(self, graph: ArchitectureGraph, stream: ResolvedStream) -> None:
        self.graph = graph
        self.stream = stream
        self.buffers = {b.name: b for b in stream.buffers}
        self.buffers.setdefault("hbm", Buffer("hbm", (stream.hbm_bytes,), "i8"))
        self.parameters = frozenset(name for name, _ in stream.parameters)
        self.faults: dict[str, None] = {}
        self.instructions: list[StaticInstruction] = []
        self.names = Names()
        self.loops: dict[str, int] = {}

    def bound(self) -> tuple[StaticNode, ...]:
        """The body of the program; :attr:`faults` are complete afterwards."""
        body = self._nodes(self.stream.body)
        if body is not None:
            return body
        self.instructions.clear()
        self.loops.clear()
        return self._emit(self._survey(self.stream.body, ()), Substitution({}), {}, {})

    def listed(self) -> list[str]:
        """The faults, cut where one instruction makes very many."""
        shown = list(self.faults)[:MOST_FAULTS]
        more = len(self.faults) - len(shown)
        return [*shown, f"and {more} more faults of these kinds"] if more > 0 else shown

    def _fault(self, text: str) -> None:
        self.faults[text] = None

    # --- where every instance goes the same way ------------------------------------------------------------------
    def _nodes(self, body: tuple[ResolvedNode, ...]) -> tuple[StaticNode, ...] | None:
        """The program of a stream whose loops all stay; None where an instruction depends on its instance."""
        found: list[StaticNode] = []
        for node in body:
            bound: StaticNode | None
            if isinstance(node, ResolvedLoop):
                number = self.loops.setdefault(node.var, len(self.loops))
                inner = self._nodes(node.body)
                values = range(node.start, node.stop, node.step)
                bound = None if inner is None else StaticLoop(node.var, values, inner, number)
            else:
                touched = accesses(node)
                decided = uniform(self.graph, node.mnemonic, _used(touched))
                bound = None if decided is None else self._static(node, touched, *decided)
            if bound is None:
                return None
            found.append(bound)
        return tuple(found)

    def _static(
        self, node: ResolvedInstr, touched: Sequence[Access], takers: Takers, why: str,
        bounds: Mapping[str, tuple[int, int]] | None = None, fixed: tuple[tuple[str, Affine], ...] = (),
    ) -> StaticInstruction:
        """The instruction with its plans; with ``bounds``, an access to one bank alone names only that."""
        units = tuple(unit.name for unit in takers.values())
        plans = tuple(p for access in touched if (p := self._plan(node, access, units, bounds)) is not None)
        if why:
            self._fault(f"no unit processes {node.mnemonic!r}: {why}")
        stages = tuple(takers)
        names = frozenset(name for name, _ in (*node.attributes, *node.registers)) | self.parameters
        storages = tuple(sorted({(bank.storage, plan.is_read) for plan in plans for bank in plan.banks}))
        for fault in unknown_names(self.graph, node.mnemonic, stages, storages, names):
            self._fault(fault)
        static = StaticInstruction(
            len(self.instructions), node, plans, takers, routes(self.graph, stages), fixed
        )
        self.instructions.append(static)
        if len(self.instructions) > MOST_INSTRUCTIONS:
            raise GraphError(self.graph.name, [
                f"stream {self.stream.name!r} has more than {MOST_INSTRUCTIONS} instructions after loops were taken "
                "apart by the units that take their instances: let loops over units be short"
            ])
        return static

    def _plan(
        self, node: ResolvedInstr, access: Access, units: tuple[str, ...],
        bounds: Mapping[str, tuple[int, int]] | None,
    ) -> AccessPlan | None:
        buffer = self.buffers[access.window.buffer]
        banks = None
        if bounds is not None and (place := rows(self.graph, access, buffer)) is not None:
            touched = place.touched(bounds)
            banks = touched if len(touched) == 1 else None
        found = places(self.graph, buffer, access.kind == "read", units, banks)
        if isinstance(found, str):
            self._fault(f"{node.mnemonic} {access.kind}s {found}")
            return None
        return AccessPlan(access, buffer, *found)

    # --- where instances go different ways -----------------------------------------------------------------------
    def _survey(self, body: tuple[ResolvedNode, ...], around: tuple[ResolvedLoop, ...]) -> tuple[_Node, ...]:
        found: list[_Node] = []
        for node in body:
            if isinstance(node, ResolvedLoop):
                self.loops.setdefault(node.var, len(self.loops))
                if node.extent:
                    inner = self._survey(node.body, (*around, node))
                    found.append(_Nest(node, inner, tuple(t for t in _tables(inner) if node.var in t.loops)))
                continue
            touched = accesses(node)
            decided = uniform(self.graph, node.mnemonic, _used(touched))
            if decided is not None:
                table = Table((), _NOTHING, (decided[0],))
                faults = [f"no unit processes {node.mnemonic!r}: {decided[1]}"] if decided[1] else []
            else:
                table, faults = self._tell_apart(node, touched, around)
            for fault in faults:
                self._fault(fault)
            found.append(_Site(node, touched, table))
        return tuple(found)

    def _tell_apart(
        self, node: ResolvedInstr, touched: Sequence[Access], around: Sequence[ResolvedLoop]
    ) -> tuple[Table, list[str]]:
        pairs = [(access, self.buffers[access.window.buffer]) for access in touched]
        try:
            return tell_apart(routing(self.graph), node, pairs, around)
        except TooMany as error:
            raise GraphError(self.graph.name, [str(error)]) from None

    def _emit(
        self, nodes: tuple[_Node, ...], known: Substitution, indices: dict[str, int],
        bounds: dict[str, tuple[int, int]],
    ) -> tuple[StaticNode, ...]:
        """The program of the nodes, where ``indices`` stand for the iterations of the loops around."""
        found: list[StaticNode] = []
        for node in nodes:
            if isinstance(node, _Nest):
                found += self._loop(node, known, indices, bounds)
            else:
                found.append(self._instance(node, known, indices, bounds))
        return tuple(found)

    def _instance(
        self, site: _Site, known: Substitution, indices: dict[str, int], bounds: dict[str, tuple[int, int]]
    ) -> StaticInstruction:
        takers, node, touched = site.table.at(indices), site.node, site.accesses
        if known.values:
            node = replace(
                node, attributes=tuple((name, known(e)) for name, e in node.attributes),
                registers=tuple((name, known(e)) for name, e in node.registers),
            )
            touched = tuple(
                replace(a, window=replace(a.window, offsets=tuple(known(o) for o in a.window.offsets))) for a in touched
            )
        return self._static(node, touched, takers, "", bounds, tuple(known.fixed()))

    def _loop(
        self, nest: _Nest, known: Substitution, indices: dict[str, int], bounds: dict[str, tuple[int, int]]
    ) -> list[StaticNode]:
        loop = nest.loop
        values = range(loop.start, loop.stop, loop.step)
        tables = [(t.choice[tuple(_index(v, indices) for v in t.loops)], 0) for t in nest.deciding]
        parts = take_apart(values, classes(len(values), tables))
        base = Affine(0)
        inner = bounds
        if parts.repeat > 1:
            var = self.names.new(loop.var)
            repeats = range(0, parts.repeat * parts.stride, parts.stride)
            base, inner = Affine.variable(var), {**bounds, var: _limits(repeats)}
        found = [n for piece in parts.pieces for n in self._piece(nest, piece, base, known, indices, inner)]
        return [StaticLoop(var, repeats, tuple(found), self.loops[loop.var])] if parts.repeat > 1 else found

    def _piece(
        self, nest: _Nest, piece: Piece, base: Affine, known: Substitution, indices: dict[str, int],
        bounds: dict[str, tuple[int, int]],
    ) -> tuple[StaticNode, ...]:
        var, at = nest.loop.var, {**indices, nest.loop.var: piece.index}
        if piece.count == 1:
            return self._emit(nest.body, known.extended(var, base + piece.values[0]), at, bounds)
        whole = piece.count == nest.loop.extent
        name = self.names.same(var) if whole else self.names.new(var)
        body = self._emit(
            nest.body, known.extended(var, base + Affine.variable(name)), at, {**bounds, name: _limits(piece.values)}
        )
        return (StaticLoop(name, piece.values, body, self.loops[var]),)


_NOTHING = np.zeros((), np.int64)


def _used(touched: Sequence[Access]) -> Used:
    used: dict[str, set[str]] = {}
    for access in touched:
        used.setdefault(access.window.buffer, set()).add(access.kind)
    return tuple((buffer, tuple(sorted(kinds))) for buffer, kinds in sorted(used.items()))


def _tables(nodes: tuple[_Node, ...]) -> Iterator[Table]:
    """The tables of all sites below."""
    for node in nodes:
        if isinstance(node, _Site):
            yield node.table
        else:
            yield from _tables(node.body)


def _index(var: str, indices: Mapping[str, int]) -> int | slice:
    return indices[var] if var in indices else slice(None)


def _limits(values: range) -> tuple[int, int]:
    return min(values[0], values[-1]), max(values[0], values[-1])
