"""Unrolled repetitions of a stream as loops again: :func:`roll`.

A kernel whose Python loops were unrolled is thousands of instructions long, though it says little. Where ``n`` groups
of ``p`` consecutive nodes follow each other that differ only in constants which grow by the same steps from group to
group, they are one loop of ``n`` iterations over the first group. The instances, their order and their attributes
stay exactly what they were.

Groups are found by comparing a sequence with itself shifted by ``p`` and ``2p``: nodes must be alike but for their
constants, and the second difference of the constants must be zero. Constants are compared by one linear hash for each
node, so that a period costs a few array operations; what the hash suggests is verified.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from archloom.oracle.affine import Affine
from archloom.oracle.nests import instructions, loops, with_attributes
from archloom.oracle.stream import Instr, Loop, Node, Stream

LEAST = 3
"""Iterations that a loop must have: two groups always differ by some step."""

_WORK = 1 << 25
"""Comparisons in one search of a sequence, which bounds the periods tried in long ones."""

Shape: TypeAlias = tuple[object, ...]


def roll(stream: Stream, least: int = LEAST) -> Stream:
    """``stream`` with its unrolled repetitions of ``least`` groups as loops; itself where there are none.

    With 2, whatever two groups differ by counts as a step.
    """
    names = {loop.var for loop in loops(stream.body)}
    prefix = "u"
    while any(n.startswith(prefix) for n in names):
        prefix += "u"
    body = _Roller(prefix, least).nodes(stream.body)
    return stream if body == stream.body else replace(stream, body=body)


@dataclass(frozen=True)
class _Run:
    """``count`` groups of ``period`` nodes from ``start`` on."""

    start: int
    period: int
    count: int

    @property
    def stop(self) -> int:
        return self.start + self.period * self.count


@dataclass
class _Roller:
    prefix: str
    least: int

    def nodes(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """A sequence with loops for its repetitions, inside of its loops first."""
        made = [n if isinstance(n, Instr) else replace(n, body=self.nodes(n.body)) for n in nodes]
        while len(made) >= self.least:
            runs = _best(made, self.least)
            rolled = self.replaced(made, runs)
            if rolled is None:
                break
            made = rolled
        return tuple(made)

    def replaced(self, nodes: list[Node], runs: list[_Run]) -> list[Node] | None:
        """The sequence with a loop for each run; None where no run holds."""
        made: list[Node] = []
        end, changed = 0, False
        for run in runs:
            loop = self.loop(nodes, run)
            if loop is None:
                continue
            made += [*nodes[end:run.start], loop]
            end, changed = run.stop, True
        return [*made, *nodes[end:]] if changed else None

    def loop(self, nodes: list[Node], run: _Run) -> Loop | None:
        """The run as a loop; None if it is none after all."""
        first = nodes[run.start:run.start + run.period]
        start = [c for n in first for c in _constants(n)]
        after = [c for n in nodes[run.start + run.period:run.start + 2 * run.period] for c in _constants(n)]
        steps = [b - a for a, b in zip(start, after, strict=True)]
        shapes = [_shape(n) for n in first]
        for k in range(1, run.count):
            group = nodes[run.start + k * run.period:run.start + (k + 1) * run.period]
            if [_shape(n) for n in group] != shapes:
                return None
            if [c for n in group for c in _constants(n)] != [a + k * s for a, s in zip(start, steps, strict=True)]:
                return None
        # what is inside decides on the name, so that loops with equal bodies are equal
        pending, passing = iter(steps), f"{self.prefix}?"
        while any(passing in v.variables() for i in instructions(first) for _, v in i.attributes):
            passing += "?"
        by = Affine.variable(passing)
        body = self.nodes([with_attributes(n, lambda value: value + by * next(pending)) for n in first])
        var = f"{self.prefix}{max(_height(n, self.prefix) for n in body)}"
        at = {passing: Affine.variable(var)}
        return Loop(var, 0, run.count, 1, tuple([with_attributes(n, lambda value: value.substitute(at)) for n in body]))


def _best(nodes: Sequence[Node], least: int) -> list[_Run]:
    """The runs of that period which saves most nodes, the smallest of those that save the same."""
    kinds: dict[Shape, int] = {}
    kind = np.array([kinds.setdefault(_shape(n), len(kinds)) for n in nodes])
    hashed = np.array([_hash(n) for n in nodes], np.uint64)
    best: list[_Run] = []
    most = 0
    for period in range(1, min(len(nodes) // least, max(1, _WORK // len(nodes))) + 1):
        runs = _runs(kind, hashed, period, least)
        saved = sum((r.count - 1) * period - 1 for r in runs)
        if saved > most:
            best, most = runs, saved
    return best


def _runs(kind: np.ndarray, hashed: np.ndarray, period: int, least: int) -> list[_Run]:
    """Disjoint runs of groups of ``period``, from left to right."""
    alike = kind[:-period] == kind[period:]
    if np.count_nonzero(alike) < (least - 1) * period:
        return []
    step = hashed[period:] - hashed[:-period]
    even = alike[:-period] & alike[period:] & (step[:-period] == step[period:])
    runs = _disjoint([], even, period, LEAST)
    return runs if least >= LEAST else _disjoint(runs, alike, period, 2)


def _disjoint(runs: list[_Run], holds: np.ndarray, period: int, groups: int) -> list[_Run]:
    """``runs`` and, between them, one for each stretch in which ``holds`` suffices for ``groups`` and more groups."""
    free = holds.copy()
    for run in runs:
        free[max(0, run.start - (groups - 1) * period):run.stop] = False
    edges = np.flatnonzero(np.diff(np.concatenate([[False], free, [False]]).astype(np.int8)))
    made, end = list(runs), 0
    for start, stop in edges.reshape(-1, 2).tolist():
        start = max(start, end)
        if stop - start >= (1 if groups == 2 else groups - 2) * period:
            count = 2 if groups == 2 else (stop - start) // period + 2
            made.append(_Run(start, period, count))
            end = made[-1].stop
    return sorted(made, key=lambda r: r.start)


# --- nodes without and with their constants -------------------------------------------------------------------------


def _shape(node: Node) -> Shape:
    """All of a node but the constants of its attributes."""
    if isinstance(node, Instr):
        return (node.mnemonic, tuple([(k, v.terms) for k, v in node.attributes]))
    head: Shape = (node.var, node.start, node.stop, node.step) if isinstance(node, Loop) \
        else (node.var, node.extent, node.dim)
    return (*head, tuple([_shape(n) for n in node.body]))


def _constants(node: Node) -> Iterator[int]:
    """The constants of a node's attributes, in textual order."""
    for instr in instructions((node,)):
        for _, value in instr.attributes:
            yield value.constant


def _height(node: Node, prefix: str) -> int:
    """How many loops made here are nested in a node: what numbers the variable of the one around it."""
    if isinstance(node, Instr):
        return 0
    own = 1 if isinstance(node, Loop) and node.var.startswith(prefix) else 0
    return own + max((_height(n, prefix) for n in node.body), default=0)


def _factors(count: int) -> np.ndarray:
    """Random factors of the linear hash, the same ones in each process."""
    return np.random.default_rng(0x1F83D9AB).integers(1, 1 << 63, count, np.uint64)


_FACTORS: list[int] = _factors(64).tolist()


def _hash(node: Node) -> int:
    """A linear combination of a node's constants modulo 2^64."""
    total = 0
    for n, constant in enumerate(_constants(node)):
        if n >= len(_FACTORS):
            _FACTORS[:] = _factors(4 * len(_FACTORS)).tolist()
        total += constant * _FACTORS[n]
    return total & 0xFFFFFFFFFFFFFFFF


