"""What control registers hold on their way through a stream: closed forms over the iterations of its loops."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from archloom.oracle.affine import Affine, Mod
from archloom.oracle.errors import SourceError
from archloom.oracle.resolution.execution import Branches, Open
from archloom.oracle.resolution.numbering import Numbered, NumberedInstr, NumberedLoop, Scope
from archloom.oracle.resolution.proofs import Place
from archloom.oracle.resolution.symbolic import Ranges
from archloom.oracle.stream import Stream
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.variables import Unknown, unknowns

ZERO = Affine(0)
State: TypeAlias = dict[str, Affine]


@lru_cache(maxsize=1 << 13)
def _unknown(key: str, owner: str, number: int) -> Affine:
    """An unknown value; streams that are tried for one layer ask for the same ones."""
    return Unknown(key, owner, number).expression()


@dataclass(frozen=True)
class Iterations:
    """Which iterations of a source loop are at hand, how many bodies one resolved iteration has, and peels so far."""

    first: int
    count: int
    factor: int = 1
    peels: int = 0


def _remainder(value: Affine) -> Mod | None:
    """The remainder that a value is, if it is one."""
    if value.constant or len(value.terms) != 1:
        return None
    (atom, coefficient), = value.terms
    return atom if isinstance(atom, Mod) and coefficient == 1 else None


def _is_below(modulus: int, value: Affine, bounds: Ranges) -> bool:
    """Whether a value is its own remainder, for all that it may depend on."""
    low, high = value.range(bounds)
    return low >= 0 and high < modulus


class Registers:
    """The register values of one stream. Values without a form over a loop are unknown, each a variable of its own."""

    def __init__(self, stream: Stream, isa: Isa) -> None:
        self.stream = stream
        self.isa = isa
        self.fresh = 0

    def copies(self, node: NumberedLoop, scope: Scope, r: Iterations, var: str) -> list[Scope]:
        """The scopes of the bodies in one resolved iteration."""
        n = Affine.variable(var) * r.factor + r.first
        start, step = node.loop.start, node.loop.step
        if r.factor == 1:
            return [scope.within(node.loop.var, n * step + start, var, r.count)]
        return [scope.within(node.loop.var, (n + c) * step + start, var, r.count // r.factor) for c in range(r.factor)]

    def entry(
        self, node: NumberedLoop, state: State, scope: Scope, r: Iterations, var: str, control: bool
    ) -> tuple[State, State]:
        """Values of the written registers at the start of an iteration, over ``var``, and at its end.

        Where the first pass finds them changed, one runs over unknown values, which shows how each end depends on its
        start, and one more where loops within count modulo a number and have to know that they start below it;
        further passes verify the forms guessed from that. What fails stays unknown, and so does what every iteration
        assigns before it reads it. The values at the end are needed only under ``control``.
        """
        extent = r.count // r.factor
        first_fresh = self.fresh
        needed = node.needed
        guess = {key: self.unknown(key, var) for key in node.flow.written - needed}
        if not needed and not control:
            return guess, {}
        if needed:
            # most registers are the same in all iterations: where one pass leaves them as they were, that is proven
            same = {key: state[key] for key in needed}
            ending = self.pass_over(node, state, {**guess, **same}, scope, r, var)
            if all(ending[key] == value for key, value in same.items()):
                return {**guess, **same}, ending
            guess.update({key: self.unknown(key, var) for key in needed})
        ending = self.pass_over(node, state, guess, scope, r, var)
        if not needed:
            return guess, ending
        below = {key: self.below(state[key], ending[key], guess[key], scope.bounds) for key in needed}
        if any(below[key] is not guess[key] for key in needed):
            guess.update(below)
            ending = self.pass_over(node, state, guess, scope, r, var)
        for key in needed:
            guess[key] = self.closed_form(state[key], ending[key], guess[key], var, first_fresh, scope.bounds)
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

    def pass_over(self, node: NumberedLoop, state: State, guess: State, scope: Scope, r: Iterations, var: str) -> State:
        """The registers at the end of an iteration that starts with ``guess``."""
        inner = {**state, **guess}
        for copy in self.copies(node, scope, r, var):
            self.control(node.body, inner, copy)
        return inner

    def below(self, initial: Affine, ending: Affine, start: Affine, bounds: Ranges) -> Affine:
        """The unknown ``start`` of an iteration modulo what its end is a remainder of, where the first start is one,
        too, and the end does not show how it depends on the start; else ``start`` itself."""
        end = _remainder(ending)
        if end is None or end.numerator.variables() == start.variables() or not _is_below(end.divisor, initial, bounds):
            return start
        return start % end.divisor

    def closed_form(
        self, initial: Affine, ending: Affine, start: Affine, var: str, first_fresh: int, bounds: Ranges
    ) -> Affine:
        """A guess of the register's value at the start of iteration ``var``, from the effect of one iteration."""
        if ending == start:
            return initial
        n = Affine.variable(var)
        symbol = next(iter(start.variables()))
        if not self.is_unknown(ending, first_fresh):
            before = ending.substitute({var: n - 1})
            return before if before.substitute({var: 0}) == initial else start
        step = ending - start
        if step.is_constant:
            return initial + n * step.constant
        end = _remainder(ending)
        if end is not None and _is_below(end.divisor, initial, bounds):
            # (r + c) % m, counted from initial
            step = end.numerator - Affine.variable(symbol)
            if step.is_constant:
                return (initial + n * step.constant) % end.divisor
        # a fixed point such as max(r, c), where r is c already
        return initial

    def unknown(self, key: str, owner: str) -> Affine:
        self.fresh += 1
        return _unknown(key, owner, self.fresh)

    def is_unknown(self, value: Affine, first_fresh: int) -> bool:
        """Whether a value depends on an unknown that arose after ``first_fresh``: within the loop at hand."""
        return any(v.number > first_fresh for v in unknowns(value))

    # control only: registers, no statements

    def control(self, nodes: tuple[Numbered, ...], state: State, scope: Scope) -> None:
        """Carry the registers through ``nodes``; what cannot be decided becomes unknown."""
        for node in nodes:
            if not node.flow.written:
                continue
            if isinstance(node, NumberedInstr):
                self.control_instr(node, state, scope)
            else:
                self.control_loop(node, state, scope)

    def control_instr(self, node: NumberedInstr, state: State, scope: Scope) -> None:
        values = self.values(node, state, scope)
        try:
            place = Place(node.path, scope.variables, scope.loops, self.stream.hbm_bytes)
            effect, symbols, *_ = node.specializer.specialize(values, scope.bounds, place.check)
        except (Open, SourceError):
            # a fault that is real shows when the statements are resolved
            state.update(self.either(node, values, scope))
        else:
            state.update({k: v.substitute(symbols).simplify(scope.bounds) for k, v in effect.updates})

    def either(self, node: NumberedInstr, values: State, scope: Scope) -> State:
        """What an instruction leaves in the registers that it writes, where not all of its branches are decided."""
        instruction = node.specializer.instruction
        try:
            return Branches(self.isa, instruction, values, scope.bounds, lambda key: self.unknown(key, "")).updates
        except (Open, SourceError):
            return {key: self.unknown(key, "") for key in node.flow.written}

    def control_loop(self, node: NumberedLoop, state: State, scope: Scope) -> None:
        extent = node.loop.extent
        if extent == 1:
            self.control(node.body, state, scope.fixed(node.loop.var, node.loop.start))
        elif extent > 1:
            self.fresh += 1
            var = f"{node.loop.var}~{self.fresh}"
            _, ending = self.entry(node, state, scope, Iterations(0, extent), var, control=True)
            last = {var: Affine(extent - 1)}
            state.update({key: ending[key].substitute(last) for key in node.flow.written})

    def values(self, node: NumberedInstr, state: State, scope: Scope) -> State:
        replaced = scope.replaced
        values = dict(node.instr.attributes)
        for k, v in node.instr.attributes:
            if v.terms:
                if replaced:
                    v = values[k] = v.substitute(replaced)
                if not v.is_linear:
                    values[k] = v.simplify(scope.bounds)
        for key in node.specializer.read:
            values[key] = state[key]
        return values
