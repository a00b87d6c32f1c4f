"""A stream's nest with its instructions numbered, and the scopes in which it is resolved."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, Union

from archloom.oracle.affine import Affine
from archloom.oracle.errors import StreamError
from archloom.oracle.memory import Remembered
from archloom.oracle.resolution.flow import Flow
from archloom.oracle.resolution.specialize import Specializer
from archloom.oracle.resolution.symbolic import Ranges
from archloom.oracle.stream import Instr, Loop, Node, Parallel


@dataclass(frozen=True, eq=False)
class _Numbered:
    """A node of the stream at ``path``, how many instructions it has, and what it does to registers."""

    path: str
    size: int
    flow: Flow


@dataclass(frozen=True, eq=False)
class NumberedInstr(_Numbered):
    instr: Instr
    source: int
    specializer: Specializer


@dataclass(frozen=True, eq=False)
class NumberedLoop(_Numbered):
    """``text`` is the same for loops over the same mnemonics in the same nest; ``needed``: registers whose values at
    the start of an iteration its body, or what follows, may depend on."""

    loop: Loop
    body: tuple["Numbered", ...]
    text: int
    needed: frozenset[str]


Numbered: TypeAlias = Union[NumberedInstr, NumberedLoop]

_KEPT = 4096
"""Texts of loops of an ISA that are kept."""


@dataclass
class Texts:
    """Numbers of loops' texts; ``loose``: by text, the needed registers that changed in the last loop of that text;
    ``flows``: by text, and whether there are iterations, what a loop does to registers, and those needed."""

    numbers: Remembered[tuple[int | str, ...], int] = field(default_factory=lambda: Remembered(_KEPT))
    loose: Remembered[int, frozenset[str]] = field(default_factory=lambda: Remembered(_KEPT))
    flows: Remembered[tuple[int, bool], tuple[Flow, frozenset[str]]] = field(default_factory=lambda: Remembered(_KEPT))
    fresh: Iterator[int] = field(default_factory=itertools.count)

    def of(self, body: tuple["Numbered", ...]) -> int:
        """The number of a loop over ``body``."""
        key = tuple([n.instr.mnemonic if isinstance(n, NumberedInstr) else n.text for n in body])
        if (found := self.numbers.get(key)) is None:
            found = self.numbers[key] = next(self.fresh)
        return found

    def flow(self, text: int, body: tuple["Numbered", ...], runs: bool) -> tuple[Flow, frozenset[str]]:
        """The flow of a loop over ``body``, which has this text, and the registers that it needs."""
        found = self.flows.get((text, runs))
        if found is None:
            flow = Flow()
            for n in body:
                flow.then(n.flow)
            if not runs:
                flow.assigned = set()
            needed = frozenset(flow.written & (flow.live | (flow.written - flow.assigned)))
            found = self.flows[text, runs] = flow, needed
        return found


@dataclass
class Numbering:
    """Numbers instructions in textual order and notes which registers each loop writes, and which it reads first."""

    specializers: Callable[[str], Specializer]
    texts: Texts = field(default_factory=Texts)
    count: int = 0

    def nodes(self, nodes: tuple[Node, ...], path: str) -> tuple[Numbered, ...]:
        return tuple([self.node(n, path) for n in nodes])

    def node(self, node: Node, path: str) -> Numbered:
        if isinstance(node, Instr):
            self.count += 1
            place = f"{path}instr {self.count - 1} {node.mnemonic}"
            specializer = self.specializers(node.mnemonic)
            return NumberedInstr(place, 1, specializer.flow, node, self.count - 1, specializer)
        if isinstance(node, Parallel):
            raise StreamError(
                f"{path}parallel {node.var}: expected a stream for one core, found iterations on the cores along "
                f"{node.dim!r}: resolve the stream of each core by itself"
            )
        inner = f"{path}loop {node.var}"
        body = self.nodes(node.body, f"{inner} / ")
        text = self.texts.of(body)
        flow, needed = self.texts.flow(text, body, node.extent > 0)
        return NumberedLoop(inner, sum([n.size for n in body]), flow, node, body, text, needed)


@dataclass(frozen=True)
class Scope:
    """The loops around a place: the stream's variables over the resolved ones, and the ranges of the resolved ones.

    ``replaced`` are the variables that do not stand for themselves.
    """

    loops: Mapping[str, Affine] = field(default_factory=dict)
    replaced: Mapping[str, Affine] = field(default_factory=dict)
    bounds: Ranges = field(default_factory=Ranges)
    variables: tuple[str, ...] = ()

    def fixed(self, variable: str, value: int) -> "Scope":
        at = Affine.number(value)
        return Scope(
            {**self.loops, variable: at}, {**self.replaced, variable: at}, self.bounds, self.variables)

    def within(self, variable: str, value: Affine, resolved: str, extent: int) -> "Scope":
        bounds = Ranges(self.bounds)
        bounds[resolved] = (0, extent - 1)
        replaced = self.replaced
        if value.terms != ((variable, 1),) or value.constant:
            replaced = {**replaced, variable: value}
        elif variable in replaced:
            replaced = {k: v for k, v in replaced.items() if k != variable}
        return Scope({**self.loops, variable: value}, replaced, bounds, (*self.variables, resolved))
