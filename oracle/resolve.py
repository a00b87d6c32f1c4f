"""Streams against their ISA: every branch taken, every control register known, every access inside its buffer.

:func:`resolve` interprets a stream abstractly. Attributes and control registers are affine expressions over the loop
variables, and register values flow through the loops without enumerating iterations:

- A loop's registers get closed forms over its iteration number (invariant; the value that the iteration before left
  behind; ``r + c`` and ``(r + c) % m`` counted up), each *verified* by one more abstract pass over the body: that is
  an induction over iterations. A register without such a form is left unknown, which does no harm as long as
  nothing reads it before it is assigned.
- Where an unknown one is read, the first iteration is peeled off and the rest tried again (the value on entry often
  differs from what later iterations see); after a few peels the loop is unrolled.
- Where a branch or a shape depends on a loop variable, the loop is split where the answer changes, or strip-mined by
  the period of the answer, or unrolled.

Unrolling is bounded by ``max_instructions``; beyond it a StreamError says what it was needed for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias, Union

import numpy as np

from oracle.affine import Affine
from oracle.errors import SourceError, StreamError
from oracle.proofs import OPAQUE, Place
from oracle.resolved import (
    Buffer,
    Op,
    Read,
    ResolvedInstr,
    ResolvedLoop,
    ResolvedNode,
    ResolvedStream,
    Statement,
    Window,
    Write,
)
from oracle.specialize import Effect, Judgement, Open, Specializer, specializers
from oracle.stream import Instr, Loop, Node, Parallel, Stream
from oracle.symbolic import Ranges, evaluate_grid, grid, grid_size
from oracle.taidl.isa import HBM, Isa
from oracle.validate import validate

MAX_INSTRUCTIONS = 4096
"""How many resolved instructions a stream may have by default, which bounds unrolling."""

_MAX_PEELS = 3
_MAX_PIECES = 16
_MAX_PERIOD = 16
_SPLIT_GRID = 1 << 22

ZERO = Affine(0)
State: TypeAlias = dict[str, Affine]


def resolve(stream: Stream, isa: Isa, *, max_instructions: int = MAX_INSTRUCTIONS) -> ResolvedStream:
    """``stream`` with every branch decided and every register resolved (see :mod:`oracle.resolved`).

    Raises StreamError, naming the instruction by its place in the stream, for a stream that is malformed, violates an
    assertion of the ISA, leaves a buffer or HBM, or cannot be resolved within ``max_instructions``.
    """
    validate(stream, isa)
    return _resolve(stream, _Hold(isa), max_instructions)


@dataclass(frozen=True, eq=False)
class _Hold:
    """An ISA by identity, for the cache."""

    isa: Isa

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hold) and other.isa is self.isa

    def __hash__(self) -> int:
        return id(self.isa)


@lru_cache(maxsize=256)
def _resolve(stream: Stream, hold: _Hold, max_instructions: int) -> ResolvedStream:
    isa = hold.isa
    resolver = _Resolver(stream, isa, max_instructions)
    state = {k: Affine(v) for k, v in isa.initial_registers().items()}
    body = resolver.nodes(_Numbering(specializers(isa)).nodes(stream.body, ""), state, _Scope())
    return ResolvedStream(
        stream.name, stream.isa, isa.parameters, tuple(resolver.buffers.values()), stream.arguments,
        stream.results, stream.hbm_bytes, tuple(body),
    )


# --- the stream, numbered -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Instr:
    instr: Instr
    source: int
    path: str
    specializer: Specializer

    @property
    def written(self) -> frozenset[str]:
        return self.specializer.written

    @property
    def live(self) -> frozenset[str]:
        return self.specializer.live

    @property
    def assigned(self) -> frozenset[str]:
        return self.specializer.assigned

    size = 1


@dataclass(frozen=True, eq=False)
class _Loop:
    loop: Loop
    path: str
    body: tuple["_Node", ...]
    written: frozenset[str]
    live: frozenset[str]
    assigned: frozenset[str]
    size: int


_Node: TypeAlias = Union[_Instr, _Loop]


@dataclass
class _Numbering:
    """Numbers instructions in textual order and notes which registers each loop writes, and which it reads first."""

    specializers: Mapping[str, Specializer]
    count: int = 0

    def nodes(self, nodes: tuple[Node, ...], path: str) -> tuple[_Node, ...]:
        return tuple(self.node(n, path) for n in nodes)

    def node(self, node: Node, path: str) -> _Node:
        if isinstance(node, Instr):
            self.count += 1
            place = f"{path}instr {self.count - 1} {node.mnemonic}"
            return _Instr(node, self.count - 1, place, self.specializers[node.mnemonic])
        if isinstance(node, Parallel):
            raise StreamError(
                f"{path}parallel {node.var}: expected a stream for one core, found iterations on the cores along "
                f"{node.dim!r}: resolve the stream of each core by itself"
            )
        inner = f"{path}loop {node.var}"
        body = self.nodes(node.body, f"{inner} / ")
        written: frozenset[str] = frozenset().union(*(n.written for n in body))
        live: frozenset[str] = frozenset()
        assigned: frozenset[str] = frozenset()
        for n in body:
            live, assigned = live | n.live - assigned, assigned | n.assigned
        if not node.extent:
            assigned = frozenset()
        return _Loop(node, inner, body, written, live, assigned, sum(n.size for n in body))


# --- scopes and signals -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scope:
    """The loops around a place: the stream's variables over the resolved ones, and the ranges of the resolved ones.

    ``replaced`` are the variables that do not stand for themselves.
    """

    loops: Mapping[str, Affine] = field(default_factory=dict)
    replaced: Mapping[str, Affine] = field(default_factory=dict)
    bounds: Ranges = field(default_factory=Ranges)
    variables: tuple[str, ...] = ()

    def fixed(self, variable: str, value: int) -> "_Scope":
        at = Affine(value)
        return replace(self, loops={**self.loops, variable: at}, replaced={**self.replaced, variable: at})

    def within(self, variable: str, value: Affine, resolved: str, extent: int) -> "_Scope":
        bounds = Ranges(self.bounds)
        bounds[resolved] = (0, extent - 1)
        replaced = {k: v for k, v in self.replaced.items() if k != variable}
        if value != Affine.variable(variable):
            replaced[variable] = value
        return _Scope({**self.loops, variable: value}, replaced, bounds, (*self.variables, resolved))


class _Unknown(Exception):
    """A register value that has no closed form in the loop of ``owner`` (a resolved variable) is needed."""

    def __init__(self, owner: str, what: str) -> None:
        self.owner = owner
        self.what = what
        super().__init__(what)


class _Split(Exception):
    """The answer to a question changes along ``variable``: at ``cuts``, with ``period``, or (neither) irregularly."""

    def __init__(self, variable: str, what: str, cuts: tuple[int, ...] = (), period: int = 0) -> None:
        self.variable = variable
        self.what = what
        self.cuts = cuts
        self.period = period
        super().__init__(what)


@dataclass(frozen=True)
class _Range:
    """Which iterations of a source loop are at hand, how many bodies one resolved iteration has, and peels so far."""

    first: int
    count: int
    factor: int = 1
    peels: int = 0


# --- the resolver -------------------------------------------------------------------------------------------------


class _Resolver:
    def __init__(self, stream: Stream, isa: Isa, max_instructions: int) -> None:
        self.stream = stream
        self.isa = isa
        self.limit = max_instructions
        self.left = max_instructions
        self.buffers: dict[str, Buffer] = {b.name: b for b in (isa.buffer(HBM, stream.hbm_bytes), *isa.buffers)}
        self.names: dict[str, int] = {}
        self.reason = ""
        self.fresh = 0
        self.owners: dict[str, tuple[str, str]] = {}
        self.registers = tuple(isa.initial_registers())

    # nodes

    def nodes(self, nodes: tuple[_Node, ...], state: State, scope: _Scope) -> list[ResolvedNode]:
        """The nodes resolved from the register values ``state``, which becomes that after them."""
        result: list[ResolvedNode] = []
        for node in nodes:
            if isinstance(node, _Instr):
                result.append(self.instr(node, state, scope))
            else:
                result += self.loop(node, state, scope, _Range(0, node.loop.extent))
        return result

    def loop(self, node: _Loop, state: State, scope: _Scope, r: _Range) -> list[ResolvedNode]:
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
            return head + self.unrolled(node, state, scope, _Range(r.first + done, r.count - done), "a remainder")
        saved = dict(self.names), self.left
        before = dict(state)
        var = self.name(node.loop.var)
        try:
            return self.attempt(node, state, scope, r, var)
        except (_Unknown, _Split) as signal:
            if var != (signal.owner if isinstance(signal, _Unknown) else signal.variable):
                raise
            self.names, self.left = saved
            state.clear()
            state.update(before)
            return self.divided(node, state, scope, r, signal)

    def attempt(self, node: _Loop, state: State, scope: _Scope, r: _Range, var: str) -> list[ResolvedNode]:
        """One resolved loop for all of ``r``; raises where its body needs to know more."""
        extent = r.count // r.factor
        entry, _ = self.entry(node, state, scope, r, var, control=False)
        inner = {**state, **entry}
        body: list[ResolvedNode] = []
        for copy in self.copies(node, scope, r, var):
            body += self.nodes(node.body, inner, copy)
        last = {var: Affine(extent - 1)}
        for key in node.written:
            value = inner[key].substitute(last)
            own = [v for v in value.variables() if v in self.owners and self.owners[v][0] == var]
            if own:
                raise _Unknown(var, f"the value of register {key} after it")
            state[key] = value
        return [ResolvedLoop(var, 0, extent, 1, tuple(body))] if body else []

    def copies(self, node: _Loop, scope: _Scope, r: _Range, var: str) -> list[_Scope]:
        """The scopes of the bodies in one resolved iteration."""
        n = Affine.variable(var) * r.factor + r.first
        start, step = node.loop.start, node.loop.step
        return [
            scope.within(node.loop.var, (n + c) * step + start, var, r.count // r.factor) for c in range(r.factor)
        ]

    def divided(
        self, node: _Loop, state: State, scope: _Scope, r: _Range, signal: "_Unknown | _Split"
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

    def unrolled(self, node: _Loop, state: State, scope: _Scope, r: _Range, what: str) -> list[ResolvedNode]:
        self.reason = (
            f"{node.path}: its {r.count} iterations of {node.size} instructions would have to be unrolled, since "
            f"{what} has no form that is affine in its variable"
        )
        if r.count * node.size > self.left:
            raise self.too_many()
        result: list[ResolvedNode] = []
        for i in range(r.first, r.first + r.count):
            result += self.loop(node, state, scope, _Range(i, 1))
        return result

    def too_many(self) -> StreamError:
        reason = self.reason or f"the stream has more than {self.limit} instructions"
        return StreamError(f"{reason}; expected at most {self.limit} resolved instructions (max_instructions)")

    def name(self, variable: str) -> str:
        """A name for a resolved loop's variable that no other has."""
        count = self.names.get(variable, 0)
        self.names[variable] = count + 1
        return f"{variable}.{count}" if count else variable

    # registers over the iterations of a loop

    def entry(
        self, node: _Loop, state: State, scope: _Scope, r: _Range, var: str, control: bool
    ) -> tuple[State, State]:
        """Values of the written registers at the start of an iteration, over ``var``, and at its end.

        The first pass runs over unknown values, which shows how each end depends on its start; further passes verify
        the forms guessed from that. What fails stays unknown, and so does what every iteration assigns before it
        reads it. The values at the end are needed only under ``control``.
        """
        extent = r.count // r.factor
        first_fresh = self.fresh
        guess = {key: self.unknown(key, var) for key in node.written}
        needed = node.written & (node.live | (node.written - node.assigned))
        if not needed and not control:
            return guess, {}
        ending = self.pass_over(node, state, guess, scope, r, var)
        if not needed:
            return guess, ending
        for key in needed:
            guess[key] = self.closed_form(state[key], ending[key], guess[key], var, first_fresh)
        bounds = Ranges(scope.bounds)
        bounds[var] = (0, extent - 2)
        after = {var: Affine.variable(var) + 1}
        while True:
            ending = self.pass_over(node, state, guess, scope, r, var)
            failed = [
                key for key, g in guess.items() if not self.is_unknown(g, first_fresh)
                and ending[key] != (then := g.substitute(after)) and (ending[key] - then).simplify(bounds) != ZERO
            ]
            if not failed:
                return guess, ending
            for key in failed:
                guess[key] = self.unknown(key, var)

    def pass_over(self, node: _Loop, state: State, guess: State, scope: _Scope, r: _Range, var: str) -> State:
        """The registers at the end of an iteration that starts with ``guess``."""
        inner = {**state, **guess}
        for copy in self.copies(node, scope, r, var):
            self.control(node.body, inner, copy)
        return inner

    def closed_form(
        self, initial: Affine, ending: Affine, start: Affine, var: str, first_fresh: int
    ) -> Affine:
        """A guess of the register's value at the start of iteration ``var``, from the effect of one iteration."""
        if ending == start:
            return initial
        n = Affine.variable(var)
        symbol = next(iter(start.variables()))
        if not any(self.is_own(v, first_fresh) for v in ending.variables()):
            before = ending.substitute({var: n - 1})
            return before if before.substitute({var: 0}) == initial else start
        step = ending - start
        if step.is_constant:
            return initial + n * step.constant
        if len(ending.terms) == 1 and ending.variables() == {symbol} and not ending.constant:
            # (r + c) % m, counted from initial: right if initial lies in 0..m-1, which the next pass finds out
            (atom, coefficient), = ending.terms
            if not isinstance(atom, str) and coefficient == 1:
                step = atom.numerator - start
                counted = initial + n * step.constant
                if step.is_constant and (counted % atom.divisor).substitute({var: 0}) == initial:
                    return counted % atom.divisor
        # a fixed point such as max(r, c), where r is c already
        return initial

    def unknown(self, key: str, owner: str) -> Affine:
        self.fresh += 1
        name = f"{OPAQUE}{key}#{self.fresh}"
        self.owners[name] = (owner, key)
        return Affine.variable(name)

    def is_own(self, variable: str, first_fresh: int) -> bool:
        """Whether an unknown arose after ``first_fresh``: within the loop at hand."""
        return variable.startswith(OPAQUE) and int(variable.rpartition("#")[2]) > first_fresh

    def is_unknown(self, value: Affine, first_fresh: int) -> bool:
        return any(self.is_own(v, first_fresh) for v in value.variables())

    # control only: registers, no statements

    def control(self, nodes: tuple[_Node, ...], state: State, scope: _Scope) -> None:
        """Carry the registers through ``nodes``; what cannot be decided becomes unknown."""
        for node in nodes:
            if not node.written:
                continue
            if isinstance(node, _Instr):
                self.control_instr(node, state, scope)
            else:
                self.control_loop(node, state, scope)

    def control_instr(self, node: _Instr, state: State, scope: _Scope) -> None:
        values = self.values(node, state, scope)
        try:
            place = Place(node.path, scope.variables, scope.loops, self.stream.hbm_bytes)
            effect, symbols = node.specializer.specialize(values, scope.bounds, place)
        except (Open, SourceError):
            # a fault that is real shows when the statements are resolved
            state.update({key: self.unknown(key, "") for key in node.written})
        else:
            state.update({k: v.substitute(symbols).simplify(scope.bounds) for k, v in effect.updates})

    def control_loop(self, node: _Loop, state: State, scope: _Scope) -> None:
        extent = node.loop.extent
        if extent == 1:
            self.control(node.body, state, scope.fixed(node.loop.var, node.loop.start))
        elif extent > 1:
            self.fresh += 1
            var = f"{node.loop.var}~{self.fresh}"
            _, ending = self.entry(node, state, scope, _Range(0, extent), var, control=True)
            last = {var: Affine(extent - 1)}
            state.update({key: ending[key].substitute(last) for key in node.written})

    # instructions

    def values(self, node: _Instr, state: State, scope: _Scope) -> State:
        """The inputs of an instruction by name."""
        values: State = {}
        for k, v in node.instr.attributes:
            v = v.substitute(scope.replaced)
            values[k] = v if v.is_linear else v.simplify(scope.bounds)
        for key in node.specializer.inputs[len(node.specializer.instruction.attributes):]:
            values[key] = state[key]
        return values

    def instr(self, node: _Instr, state: State, scope: _Scope) -> ResolvedInstr:
        if not self.left:
            raise self.too_many()
        self.left -= 1
        place = Place(node.path, scope.variables, scope.loops, self.stream.hbm_bytes)
        values = self.values(node, state, scope)
        try:
            effect, symbols = node.specializer.specialize(values, scope.bounds, place)
            instance = _Instance(symbols, scope, place, self.buffers)
            statements = instance.statements(effect)
        except Open as o:
            raise self.signal(o, scope, place) from None
        except SourceError as error:
            raise error if str(error).startswith(node.path) else place.error(str(error)) from None
        registers = tuple([(k, v) for k in self.registers if not (v := state[k]).terms or _known(v)])
        state.update({k: v.substitute(symbols).simplify(scope.bounds) for k, v in effect.updates})
        attributes = tuple((k, values[k]) for k, _ in node.instr.attributes)
        return ResolvedInstr(node.instr.mnemonic, attributes, registers, statements, node.source)

    def signal(self, o: Open, scope: _Scope, place: Place) -> Exception:
        """What to do about a question left open."""
        names = set(o.quantity.variables())
        for v in o.scope.values():
            names |= v.variables()
        for name in sorted(names):
            if name in self.owners and self.owners[name][0]:
                owner, key = self.owners[name]
                return _Unknown(owner, f"the value of register {key} that {place.path} reads")
        return partition(o, scope, place)


def _known(value: Affine) -> bool:
    return not any(v.startswith(OPAQUE) for v in value.variables())


# --- where answers change -----------------------------------------------------------------------------------------


def partition(o: Open, scope: _Scope, place: Place) -> Exception:
    """Along which loop, and where, the answer to an open question changes: the outermost that helps."""
    what = f"{o.what} in {place.path}"
    values = dict(o.scope) if o.condition is not None else {"quantity": o.quantity}
    names = frozenset().union(*(v.variables() for v in values.values()))
    variables = tuple(v for v in scope.variables if v in names)
    if not variables:
        return place.error(f"cannot decide {o.what}")
    if grid_size(variables, scope.bounds) > _SPLIT_GRID:
        return _Split(variables[0], what)
    axes = grid(variables, scope.bounds)
    arrays = {k: np.asarray(v.evaluate(axes)) for k, v in values.items()}  # type: ignore[arg-type]
    if o.condition is not None:
        answer = np.asarray(evaluate_grid(o.condition, arrays.__getitem__))
    else:
        answer = _answer(o.operator, arrays["quantity"])
    answer = np.broadcast_to(answer, tuple(axes[v].size for v in variables)).astype(np.int64)
    for axis, variable in enumerate(variables):
        summary = _summary(np.moveaxis(answer, axis, 0).reshape(answer.shape[axis], -1))
        changes = np.flatnonzero(np.any(summary[1:] != summary[:-1], axis=1)) + 1
        if not len(changes):
            continue
        if len(changes) < _MAX_PIECES:
            return _Split(variable, what, cuts=tuple(int(c) for c in changes))
        return _Split(variable, what, period=_period(summary))
    return _Split(min(variables, key=lambda v: scope.bounds[v][1]), what)


def _answer(operator: str, quantity: np.ndarray) -> np.ndarray:
    if operator == "int":
        return quantity
    return {"<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal}[operator](quantity, 0)


def _summary(answer: np.ndarray) -> np.ndarray:
    """For each row its least and greatest answer, so that rows of one answer and mixed rows are told apart."""
    mixed = answer.min(axis=1) != answer.max(axis=1)
    return np.stack([mixed, np.where(mixed, 0, answer[:, 0])], axis=1)


def _period(summary: np.ndarray) -> int:
    """The smallest period of the rows, 0 if there is none that is small."""
    for p in range(2, _MAX_PERIOD + 1):
        if np.array_equal(summary[p:], summary[:-p]):
            return p
    return 0


# --- instances of a kept specialization ---------------------------------------------------------------------------


class _Instance:
    """Puts actual values for the symbols of an effect and proves what is left to prove."""

    def __init__(self, symbols: State, scope: _Scope, place: Place, buffers: Mapping[str, Buffer]) -> None:
        self.symbols = symbols
        self.bounds = scope.bounds
        self.place = place
        self.buffers = buffers
        self.expressions: dict[Affine, Affine] = {}
        self.windows: dict[Window, Window] = {}

    def statements(self, effect: Effect) -> tuple[Statement, ...]:
        for judgement in effect.asserts:
            scope = tuple((k, self.expression(v)) for k, v in judgement.scope)
            self.place.check(Judgement(judgement.condition, scope), self.bounds)
        return tuple([self.statement(s) for s in effect.statements])

    def expression(self, e: Affine) -> Affine:
        if not e.terms:
            return e
        known = self.expressions.get(e)
        if known is None:
            known = e.substitute(self.symbols)
            if not known.is_linear:
                known = known.simplify(self.bounds)
            if not _known(known):
                raise Open("int", known, "an operand")
            self.expressions[e] = known
        return known

    def statement(self, s: Statement) -> Statement:
        if isinstance(s, Op):
            if any(isinstance(v, Affine) for _, v in s.attributes):
                return replace(s, attributes=tuple((k, self.attribute(v)) for k, v in s.attributes))
            return s
        window = self.window(s.window, "reads" if isinstance(s, Read) else "writes")
        if isinstance(s, Read):
            return Read(s.dst, window, s.type)
        return Write(s.src, window, s.type, s.kind)

    def attribute(self, value: object) -> object:
        if not isinstance(value, Affine):
            return value
        e = self.expression(value)
        return e.constant if e.is_constant else e

    def window(self, w: Window, verb: str) -> Window:
        known = self.windows.get(w)
        if known is None:
            known = self.windows[w] = Window(w.buffer, tuple([self.expression(o) for o in w.offsets]), w.dims)
            self.place.inside(known, self.buffers[w.buffer], self.bounds, verb)
        return known
