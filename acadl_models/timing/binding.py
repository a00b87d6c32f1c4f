"""Binding: the walk over a stream that finds units and storages for every instruction, and takes loops apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, Union

import numpy as np

from archloom.acadl_models.acadl import ArchitectureGraph, FunctionalUnit
from archloom.acadl_models.acadl.graph import per_graph
from archloom.acadl_models.timing.instances import Rows, Table, TooMany, rows, tell_apart, told_by
from archloom.acadl_models.timing.placing import latencies, places, unknown_names
from archloom.acadl_models.timing.program import AccessPlan, Place, StaticInstruction, StaticLoop, StaticNode, limits
from archloom.acadl_models.timing.routing import Used, routes, routing, uniform
from archloom.acadl_models.timing.unrolling import NOTHING, Names, Parts, Substitution, classes, take_apart
from archloom.oracle.accesses import Touching, accesses
from archloom.oracle.affine import Affine
from archloom.oracle.errors import GraphError
from archloom.oracle.memory import Remembered
from archloom.oracle.resolved import Access, Buffer, ResolvedInstr, ResolvedLoop, ResolvedNode, ResolvedStream

MOST_INSTRUCTIONS = 200_000
"""Static instructions of a program: more are an error, not a program that never ends."""

MOST_FAULTS = 20
"""How many faults of one kind are listed before the others are counted."""

_FORMS = 1 << 13
"""How many forms of instructions are kept, as streams on a graph have the same: an array of units has thousands."""

_BUFFERS = 64
"""How many buffers of streams are told apart by the forms."""

Takers: TypeAlias = Mapping[str, FunctionalUnit]

Touch: TypeAlias = tuple[str, str]
"""A buffer and the kind of an access to it."""


@dataclass(frozen=True, eq=False)
class _Form:
    """What instructions have in common that touch the same ``buffers`` in the same order and go to the same units.

    ``places``: for each access, where it goes, or why it can go nowhere; ``needed``: names that latencies on the way
    must find.
    """

    takers: Takers
    buffers: tuple[Buffer, ...]
    places: tuple[Place | str, ...]
    routed: frozenset[str]
    storages: tuple[tuple[str, bool], ...]
    needed: frozenset[str]


@per_graph
def _known_forms(graph: ArchitectureGraph) -> Remembered[tuple[object, ...], _Form]:
    """The forms of all streams: by the mnemonic, the identity of the takers, and for each access the identity of the
    buffer, its kind, and the number of the bank to which it goes, if that is one alone (else None). A form holds what
    its key has the identity of."""
    return Remembered(_FORMS)


@per_graph
def _known_buffers(graph: ArchitectureGraph) -> Remembered[Buffer, Buffer]:
    """Of equal buffers of streams always the same one."""
    return Remembered(_BUFFERS)


@dataclass(frozen=True, eq=False)
class _Site:
    """An instruction of the stream: its accesses, the words of those that several banks may hold, and who takes which
    instance."""

    node: ResolvedInstr
    accesses: tuple[Access, ...]
    words: tuple[Rows | None, ...]
    table: Table

    @cached_property
    def moving(self) -> tuple[bool, ...]:
        """Which accesses lie elsewhere in other instances."""
        return tuple([any(o.terms for o in access.window.offsets) for access in self.accesses])


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
        known = _known_buffers(graph)
        buffers = {"hbm": Buffer("hbm", (stream.hbm_bytes,), "i8"), **{b.name: b for b in stream.buffers}}
        self.buffers = {name: known.once(b, lambda b=b: b) for name, b in buffers.items()}  # type: ignore[misc]
        self.parameters = {name: Affine(value) for name, value in stream.parameters}
        self.uniform: dict[tuple[str, tuple[Touch, ...]], tuple[Takers, str] | None] = {}
        self.forms = _known_forms(graph)
        self.tables: dict[tuple[object, ...], tuple[Table, tuple[str, ...]]] = {}
        self.alike: dict[tuple[str, object], tuple[Takers, str, _Form] | None] = {}
        """By mnemonic and what instructions are alike in: who takes every instance, or why nobody does, and the form;
        None where that depends on the instance."""
        self.faults: dict[str, None] = {}
        self.instructions: list[StaticInstruction] = []
        self.names = Names()
        self.loops: dict[str, int] = {}
        self.parts: dict[tuple[object, ...], Parts] = {}
        """How loops are taken apart, by their extents and what of which choices decides it; sites hold these."""

    def bound(self) -> tuple[StaticNode, ...]:
        """The body of the program; :attr:`faults` are complete afterwards."""
        body = self._nodes(self.stream.body)
        if body is not None:
            return body
        self.instructions.clear()
        self.loops.clear()
        return self._emit(self._survey(self.stream.body, ()), NOTHING, {}, {})

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
                bound = None if inner is None else StaticLoop(node.var, node.values, inner, number)
            else:
                touched = accesses(node)
                decided = self._decided(node, touched)
                bound = None if decided is None else self._static(node, touched, *decided)
            if bound is None:
                return None
            found.append(bound)
        return tuple(found)

    def _decided(self, node: ResolvedInstr, touched: Sequence[Access]) -> tuple[Takers, str, _Form] | None:
        """Who takes every instance, or why nobody does, and the form; None where that depends on the instance."""
        alike = node.statements.alike if isinstance(node.statements, Touching) else None
        key = node.mnemonic, alike
        if alike is not None and key in self.alike:
            return self.alike[key]
        decided = self._uniform(node.mnemonic, touched)
        found = None if decided is None else (
            *decided, self._form(node.mnemonic, touched, decided[0], (None,) * len(touched)))
        if alike is not None:
            self.alike[key] = found
        return found

    def _uniform(self, mnemonic: str, touched: Sequence[Access]) -> tuple[Takers, str] | None:
        """Who takes every instance, or why nobody does; None where that depends on the instance."""
        key = mnemonic, tuple([(a.window.buffer, a.kind) for a in touched])
        try:
            return self.uniform[key]
        except KeyError:
            found = self.uniform[key] = uniform(self.graph, mnemonic, _used(touched))
            return found

    def _static(
        self, node: ResolvedInstr, touched: Sequence[Access], takers: Takers, why: str, form: _Form,
        known: Substitution = NOTHING,
    ) -> StaticInstruction:
        """The instruction with its plans, where variables are ``known``."""
        plans = tuple([
            AccessPlan(access, self.buffers[access.window.buffer], place)
            for access, place in zip(touched, form.places) if isinstance(place, Place)
        ])
        names = self._names(node, form.needed, known)
        if why or len(plans) < len(touched) or len(names) < len(form.needed):
            self._note_faults(node, touched, form, why)
        static = StaticInstruction(len(self.instructions), node, plans, takers, form.routed, names, known.fixed)
        self.instructions.append(static)
        if len(self.instructions) > MOST_INSTRUCTIONS:
            raise GraphError(self.graph.name, [
                f"stream {self.stream.name!r} has more than {MOST_INSTRUCTIONS} instructions after loops were taken "
                "apart by the units that take their instances: let loops over units be short"
            ])
        return static

    def _names(self, node: ResolvedInstr, needed: frozenset[str], known: Substitution) -> dict[str, Affine]:
        """Of the names that are needed those that there are: attributes before registers before parameters."""
        found = {name: known(value) for name, value in node.attributes if name in needed}
        if len(found) == len(needed):
            return found
        registers = {name: known(value) for name, value in node.registers if name in needed}
        parameters = {name: self.parameters[name] for name in needed if name in self.parameters}
        return {**parameters, **registers, **found}

    def _form(
        self, mnemonic: str, touched: Sequence[Access], takers: Takers, banks: tuple[int | None, ...],
    ) -> _Form:
        """``banks``: for an access that goes to one bank alone of several, the number of that one."""
        buffers = tuple([self.buffers[a.window.buffer] for a in touched])
        key = mnemonic, id(takers), banks, *[(id(b), a.kind) for b, a in zip(buffers, touched)]
        form = self.forms.get(key)
        if form is None:
            form = self.forms[key] = self._new_form(mnemonic, touched, takers, banks, buffers)
        return form

    def _new_form(
        self, mnemonic: str, touched: Sequence[Access], takers: Takers, banks: Sequence[int | None],
        buffers: tuple[Buffer, ...],
    ) -> _Form:
        stages, units = tuple(takers), tuple(unit.name for unit in takers.values())
        found = tuple(
            places(self.graph, buffer, access.kind == "read", units,
                   None if bank is None else (self.graph.buffers[buffer.name][bank],))
            for access, buffer, bank in zip(touched, buffers, banks)
        )
        storages = tuple(sorted({
            (bank.storage, access.kind == "read")
            for access, place in zip(touched, found) if isinstance(place, Place)
            for bank in place.banks
        }))
        needed = frozenset().union(*(
            expression.names - also for _, expression, also in latencies(self.graph, mnemonic, stages, storages)
        ))
        return _Form(takers, buffers, found, routes(self.graph, stages), storages, needed)

    def _note_faults(self, node: ResolvedInstr, touched: Sequence[Access], form: _Form, why: str) -> None:
        for access, place in zip(touched, form.places):
            if isinstance(place, str):
                self._fault(f"{node.mnemonic} {access.kind}s {place}")
        if why:
            self._fault(f"no unit processes {node.mnemonic!r}: {why}")
        known = frozenset(name for name, _ in (*node.attributes, *node.registers)) | self.parameters.keys()
        for fault in unknown_names(self.graph, node.mnemonic, tuple(form.takers), form.storages, known):
            self._fault(fault)

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
            words = tuple([rows(self.graph, access, self.buffers[access.window.buffer]) for access in touched])
            decided = self._uniform(node.mnemonic, touched)
            if decided is not None:
                table = Table((), _NOTHING, (decided[0],))
                faults = [f"no unit processes {node.mnemonic!r}: {decided[1]}"] if decided[1] else []
            else:
                table, faults = self._tell_apart(node, touched, words, around)
            for fault in faults:
                self._fault(fault)
            found.append(_Site(node, touched, words, table))
        return tuple(found)

    def _tell_apart(
        self, node: ResolvedInstr, touched: Sequence[Access], words: Sequence[Rows | None],
        around: Sequence[ResolvedLoop],
    ) -> tuple[Table, list[str]]:
        key, names = told_by(node, touched, words, around)
        if (known := self.tables.get(key)) is not None:
            return known[0].named(known[1], names), []
        try:
            table, faults = tell_apart(routing(self.graph), node, touched, words, around)
        except TooMany as error:
            raise GraphError(self.graph.name, [str(error)]) from None
        if not faults:  # they name loops
            self.tables[key] = table, names
        return table, faults

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
            touched = tuple([
                Access(a.window.with_offsets(known), a.kind) if moves else a for a, moves in zip(touched, site.moving)
            ])
        held = [_NO_BANKS if words is None else words.touched(bounds, known(words.first)) for words in site.words]
        banks = tuple([found.start if len(found) == 1 else None for found in held])
        form = self._form(node.mnemonic, touched, takers, banks)
        return self._static(node, touched, takers, "", form, known)

    def _loop(
        self, nest: _Nest, known: Substitution, indices: dict[str, int], bounds: dict[str, tuple[int, int]]
    ) -> list[StaticNode]:
        loop, parts = nest.loop, self._parts(nest, indices)
        base = Affine(0)
        inner = bounds
        if parts.repeat > 1:
            var = self.names.new(loop.var)
            repeats = range(0, loop.extent, parts.period)
            base, inner = Affine.variable(var), {**bounds, var: limits(repeats)}
        found = [n for piece in parts.pieces for n in self._piece(nest, piece, base, known, indices, inner)]
        return [StaticLoop(var, repeats, tuple(found), self.loops[loop.var])] if parts.repeat > 1 else found

    def _parts(self, nest: _Nest, indices: dict[str, int]) -> Parts:
        """The loop of a nest taken apart, where indices are known of the loops around it."""
        deciding = nest.deciding
        key = nest.loop.extent, *[(id(t.choice), *[indices.get(v) for v in t.loops]) for t in deciding]
        parts = self.parts.get(key)
        if parts is None:
            tables = [t.choice[tuple(indices.get(v, slice(None)) for v in t.loops)] for t in deciding]
            parts = self.parts[key] = take_apart(classes(nest.loop.extent, tables))
        return parts

    def _piece(
        self, nest: _Nest, piece: range, base: Affine, known: Substitution, indices: dict[str, int],
        bounds: dict[str, tuple[int, int]],
    ) -> tuple[StaticNode, ...]:
        var, at = nest.loop.var, {**indices, nest.loop.var: piece.start}
        if len(piece) == 1:
            return self._emit(nest.body, known.extended(var, base + piece.start), at, bounds)
        whole = len(piece) == nest.loop.extent
        name = self.names.same(var) if whole else self.names.new(var)
        body = self._emit(
            nest.body, known.extended(var, base + Affine.variable(name)), at, {**bounds, name: limits(piece)}
        )
        return (StaticLoop(name, piece, body, self.loops[var]),)


_NOTHING = np.zeros((), np.int64)
_NO_BANKS = range(0)


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
