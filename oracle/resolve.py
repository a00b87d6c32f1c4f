"""Streams against their ISA: every branch taken, every control register known, every access inside its buffer.

:func:`resolve` interprets a stream abstractly. Attributes and control registers are affine expressions over the loop
variables, and register values flow through the loops without enumerating iterations:

- A loop's registers get closed forms over its iteration number (invariant; the value that the iteration before left
  behind; ``r + c`` and ``(r + c) % m`` counted up), each *verified* by one more abstract pass over the body: that is
  an induction over iterations. A register without such a form is left unknown, which does no harm as long as
  nothing reads it before it is assigned.
- What the last loop over the same mnemonics found is tried before: the body is resolved with it at once, which proves
  it, and only where it does not hold are there passes of their own.
- Where an unknown one is read, the first iteration is peeled off and the rest tried again (the value on entry often
  differs from what later iterations see); after a few peels the loop is unrolled.
- Where a branch or a shape depends on a loop variable, the loop is split where the answer changes, or strip-mined by
  the period of the answer, or unrolled.

Unrolling is bounded by ``max_instructions``; beyond it a StreamError says what it was needed for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise

from archloom.oracle.affine import Affine
from archloom.oracle.errors import SourceError, StreamError
from archloom.oracle.memory import Remembered
from archloom.oracle.nests import size, written
from archloom.oracle.resolution.execution import Open
from archloom.oracle.resolution.numbering import Numbered, NumberedInstr, NumberedLoop, Numbering, Scope, Texts
from archloom.oracle.resolution.proofs import Instance, Place, Split, partition
from archloom.oracle.resolution.registers import Iterations, Registers, State
from archloom.oracle.resolution.specialize import Specializer
from archloom.oracle.resolution.symbolic import Ranges
from archloom.oracle.resolution.templates import Done
from archloom.oracle.resolved import Buffer, ResolvedInstr, ResolvedLoop, ResolvedNode, ResolvedStream
from archloom.oracle.stream import Stream
from archloom.oracle.taidl.isa import HBM, Isa
from archloom.oracle.validate import validate
from archloom.oracle.variables import is_known, unknowns

MAX_INSTRUCTIONS = 4096
"""How many resolved instructions a stream may have by default, which bounds unrolling."""

_MAX_PEELS = 3

_NONE = frozenset[str]()


def resolve(
    stream: Stream, isa: Isa, *, max_instructions: int = MAX_INSTRUCTIONS, remember: bool = True
) -> ResolvedStream:
    """``stream`` with every branch decided and every register resolved (see :mod:`archloom.oracle.resolved`).

    Unless told not to ``remember`` it: the streams that a search tries are asked for once.
    Raises StreamError, naming the instruction by its place in the stream, for a stream that is malformed, violates an
    assertion of the ISA, leaves a buffer or HBM, or cannot be resolved within ``max_instructions``.
    """
    validate(stream, isa)
    hold = _Hold(isa)
    if not remember:
        return _resolve(stream, hold, max_instructions)
    return _resolved.once((stream, hold, max_instructions), lambda: _resolve(stream, hold, max_instructions))


@dataclass(frozen=True, eq=False)
class _Hold:
    """An ISA by identity, for the cache."""

    isa: Isa

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hold) and other.isa is self.isa

    def __hash__(self) -> int:
        return id(self.isa)


@lru_cache(maxsize=32)
def _specializers(hold: _Hold) -> Callable[[str], Specializer]:
    """The specializers of an ISA by mnemonic."""
    return cache(lambda mnemonic: Specializer(hold.isa, hold.isa.instructions[mnemonic]))


@lru_cache(maxsize=32)
def _texts(hold: _Hold) -> Texts:
    return Texts()


_resolved: "Remembered[tuple[Stream, _Hold, int], ResolvedStream]" = Remembered(
    1 << 12, lambda found: size(found.body))
"""By what was asked for, so many written instructions, of which each has some fifty tuples: those of all plans that are
tried for some dozens of layers."""


def _resolve(stream: Stream, hold: _Hold, max_instructions: int) -> ResolvedStream:
    isa = hold.isa
    texts = _texts(hold)
    resolver = _Resolver(stream, isa, max_instructions, texts)
    if written(stream.body) > max_instructions:  # each is resolved at least once
        raise resolver.too_many()
    state = {k: Affine.number(v) for k, v in isa.initial_registers().items()}
    body = resolver.nodes(Numbering(_specializers(hold), texts).nodes(stream.body, ""), state, Scope())
    return ResolvedStream(
        stream.name, stream.isa, isa.parameters, tuple(resolver.buffers.values()), stream.arguments,
        stream.results, stream.hbm_bytes, tuple(body),
    )


def _ranges(values: tuple[Affine, ...], bounds: Ranges) -> tuple[tuple[int, int], ...]:
    """The bounds of the variables in some values, in an order that follows from these."""
    found: list[tuple[int, int]] = []
    for value in values:
        if not value.terms:
            continue
        if value.is_linear:
            found += [bounds[atom] for atom, _ in value.terms]  # type: ignore[index]
        else:
            found += [bounds[name] for name in sorted(value.variables())]
    return tuple(found)


# --- scopes and signals -------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Unknown(Exception):
    """A register value that has no closed form in the loop of ``owner`` (a resolved variable) is needed."""

    owner: str
    what: str


# --- the resolver -------------------------------------------------------------------------------------------------


class _Resolver(Registers):
    def __init__(self, stream: Stream, isa: Isa, max_instructions: int, texts: Texts) -> None:
        super().__init__(stream, isa)
        self.texts = texts
        self.limit = max_instructions
        self.left = max_instructions
        self.buffers: dict[str, Buffer] = {b.name: b for b in (isa.buffer(HBM, stream.hbm_bytes), *isa.buffers)}
        self.names: dict[str, int] = {}
        self.reason = ""
        self.registers = bool(isa.initial_registers())
        # of all registers in their order: the values seen last, these with their names where they are known
        self.seen: list[Affine] = []
        self.pairs: list[tuple[str, Affine] | None] = []
        self.all_known: tuple[tuple[str, Affine], ...] | None = None
        self.places = {key: place for place, key in enumerate(isa.initial_registers())}

    # nodes

    def nodes(self, nodes: tuple[Numbered, ...], state: State, scope: Scope) -> list[ResolvedNode]:
        """The nodes resolved from the register values ``state``, which becomes that after them."""
        result: list[ResolvedNode] = []
        for node in nodes:
            if isinstance(node, NumberedInstr):
                result.append(self.instr(node, state, scope))
            else:
                result += self.loop(node, state, scope, Iterations(0, node.loop.extent))
        return result

    def loop(self, node: NumberedLoop, state: State, scope: Scope, r: Iterations) -> list[ResolvedNode]:
        """Iterations ``r`` of a loop; falls back from one loop to several, to unrolled iterations."""
        if r.count <= 0 or not node.body:
            return []
        if r.count == 1:
            value = node.loop.start + node.loop.step * r.first
            return self.nodes(node.body, state, scope.fixed(node.loop.var, value))
        whole, rest = divmod(r.count, r.factor)
        if rest or whole == 1:
            # what does not fill a strip, or fills only one, in single iterations
            done = whole * r.factor if whole > 1 else 0
            head = self.loop(node, state, scope, replace(r, count=done))
            return head + self.unrolled(node, state, scope, Iterations(r.first + done, r.count - done), "a remainder")
        saved = dict(self.names), self.left
        before = dict(state)
        var = self.name(node.loop.var)
        try:
            return self.attempt(node, state, scope, r, var)
        except (_Unknown, Split) as signal:
            if var != (signal.owner if isinstance(signal, _Unknown) else signal.variable):
                raise
            self.names, self.left = saved
            state.clear()
            state.update(before)
            return self.divided(node, state, scope, r, signal)

    def attempt(self, node: NumberedLoop, state: State, scope: Scope, r: Iterations, var: str) -> list[ResolvedNode]:
        """One resolved loop for all of ``r``; raises where its body needs to know more."""
        extent = r.count // r.factor
        found = self.guessed(node, state, scope, r, var)
        if found is None:
            entry, _ = self.entry(node, state, scope, r, var, control=False)
            self.texts.loose[node.text] = frozenset(k for k in node.needed if entry[k] != state[k])
            inner = {**state, **entry}
            body = self.body(node, inner, scope, r, var)
        else:
            body, inner = found
        last = {var: Affine(extent - 1)}
        for key in node.flow.written:
            value = inner[key]
            if value.terms:
                value = value.substitute(last)
                if not is_known(value) and any(v.owner == var for v in unknowns(value)):
                    raise _Unknown(var, f"the value of register {key} after it")
            state[key] = value
        return [ResolvedLoop(var, extent, tuple(body))] if body else []

    def body(self, node: NumberedLoop, inner: State, scope: Scope, r: Iterations, var: str) -> list[ResolvedNode]:
        """One iteration from the register values ``inner``, which become those after it."""
        found: list[ResolvedNode] = []
        for copy in self.copies(node, scope, r, var):
            found += self.nodes(node.body, inner, copy)
        return found

    def guessed(
        self, node: NumberedLoop, state: State, scope: Scope, r: Iterations, var: str
    ) -> tuple[list[ResolvedNode], State] | None:
        """One iteration and the registers after it, where those change that did in the last loop of this text.

        Resolving the iteration proves the guess, in place of the passes of :meth:`entry`; None, and nothing has
        happened, where that may find other values.
        """
        loose, first_fresh, saved = self.texts.loose.get(node.text, _NONE), self.fresh, (dict(self.names), self.left)
        reason, fixed = self.reason, node.needed - loose
        inner = {**state, **{key: self.unknown(key, var) for key in node.flow.written - fixed}}
        try:
            body = self.body(node, inner, scope, r, var)
        except (_Unknown, Split, StreamError):
            body = None
        if body is not None and all(inner[key] == state[key] for key in fixed) and all(
                self.changed(state[key], inner[key], var, first_fresh) for key in loose & node.needed):
            return body, inner
        (self.names, self.left), self.reason = saved, reason
        return None

    def changed(self, initial: Affine, ending: Affine, var: str, first_fresh: int) -> bool:
        """Whether a register ends every iteration with a value that :meth:`closed_form` finds no form for."""
        if self.is_unknown(ending, first_fresh):
            return False
        return ending.substitute({var: Affine.variable(var) - 1}).substitute({var: 0}) != initial

    def divided(
        self, node: NumberedLoop, state: State, scope: Scope, r: Iterations, signal: "_Unknown | Split"
    ) -> list[ResolvedNode]:
        """The iterations ``r`` in parts, as the signal asks."""
        if isinstance(signal, _Unknown):
            if r.peels >= _MAX_PEELS:
                return self.unrolled(node, state, scope, r, signal.what)
            cuts: tuple[int, ...] = (1,)
            r = replace(r, peels=r.peels + 1)
        elif signal.period:
            return self.loop(node, state, scope, replace(r, factor=r.factor * signal.period))
        elif not signal.cuts:
            return self.unrolled(node, state, scope, r, signal.what)
        else:
            cuts = signal.cuts
        result: list[ResolvedNode] = []
        edges = [0, *cuts, r.count // r.factor]
        for first, stop in pairwise(edges):
            count = (stop - first) * r.factor
            result += self.loop(node, state, scope, replace(r, first=r.first + first * r.factor, count=count))
        return result

    def unrolled(self, node: NumberedLoop, state: State, scope: Scope, r: Iterations, what: str) -> list[ResolvedNode]:
        self.reason = (
            f"{node.path}: its {r.count} iterations of {node.size} instructions would have to be unrolled, since "
            f"{what} has no form that is affine in its variable"
        )
        if r.count * node.size > self.left:
            raise self.too_many()
        result: list[ResolvedNode] = []
        for i in range(r.first, r.first + r.count):
            result += self.loop(node, state, scope, Iterations(i, 1))
        return result

    def too_many(self) -> StreamError:
        reason = self.reason or f"the stream has more than {self.limit} instructions"
        return StreamError(f"{reason}; expected at most {self.limit} resolved instructions (max_instructions)")

    def name(self, variable: str) -> str:
        """A name for a resolved loop's variable that no other has."""
        count = self.names.get(variable, 0)
        self.names[variable] = count + 1
        return f"{variable}.{count}" if count else variable

    # instructions

    def instr(self, node: NumberedInstr, state: State, scope: Scope) -> ResolvedInstr:
        if not self.left:
            raise self.too_many()
        self.left -= 1
        try:
            return self.resolved(node, state, scope)
        except StreamError as error:
            error.instruction = node.source
            raise

    def resolved(self, node: NumberedInstr, state: State, scope: Scope) -> ResolvedInstr:
        values = self.values(node, state, scope)
        found = node.specializer.instance(values, scope.bounds, self.stream.hbm_bytes)
        statements, updates = self.proven(node, values, scope) if found is None else found
        registers = self.known(state)
        if updates:
            state.update(updates)
            self.written(updates)
        attributes = tuple([(k, values[k]) for k, _ in node.instr.attributes])
        return ResolvedInstr(node.instr.mnemonic, attributes, registers, statements, node.source)

    def proven(self, node: NumberedInstr, values: State, scope: Scope) -> Done:
        """The instance of an instruction with these values that no template makes."""
        given, done = tuple(values.values()), node.specializer.done
        key = self.stream.hbm_bytes, given, _ranges(given, scope.bounds)
        found = done.get(key)
        if found is None:
            found = done[key] = self.specialized(node, values, scope)
        return found

    def specialized(self, node: NumberedInstr, values: State, scope: Scope) -> Done:
        """What an instruction with these values does, proven for every iteration."""
        place = Place(node.path, scope.variables, scope.loops, self.stream.hbm_bytes)
        try:
            effect, symbols, template, spans, widened = node.specializer.specialize(values, scope.bounds, place.check)
            if template is not None:
                done = template.instance(values, spans, widened, scope.bounds, self.stream.hbm_bytes)
                if done is not None:
                    return done
            instance = Instance(symbols, scope.bounds, place, self.buffers, self.registers)
            statements = instance.statements(effect)
        except Open as o:
            raise self.signal(o, scope, place) from None
        except SourceError as error:
            raise error if str(error).startswith(node.path) else place.error(str(error)) from None
        return statements, tuple([(k, v.substitute(symbols).simplify(scope.bounds)) for k, v in effect.updates])

    def known(self, state: State) -> tuple[tuple[str, Affine], ...]:
        """The registers whose values are known; most instructions find those of the one before, and what it wrote."""
        values = list(state.values())
        if values != self.seen:
            before = zip(self.pairs, self.seen) if self.seen else itertools.repeat((None, None))
            self.pairs = [
                pair if value is old else (key, value) if not value.terms or is_known(value) else None
                for (key, value), (pair, old) in zip(state.items(), before)]
            self.seen, self.all_known = values, None
        if self.all_known is None:
            self.all_known = tuple([pair for pair in self.pairs if pair])
        return self.all_known

    def written(self, updates: tuple[tuple[str, Affine], ...]) -> None:
        """Take up in what :meth:`known` has found the registers that the instruction at hand writes."""
        for pair in updates:
            value, place = pair[1], self.places[pair[0]]
            self.seen[place], self.all_known = value, None
            self.pairs[place] = pair if not value.terms or is_known(value) else None

    def signal(self, o: Open, scope: Scope, place: Place) -> Exception:
        asked = {v for value in (o.quantity, *o.scope.values()) for v in unknowns(value) if v.owner}
        if asked:
            first = min(asked)
            return _Unknown(first.owner, f"the value of register {first.key} that {place.path} reads")
        return partition(o, scope, place)


