"""What became of a stream: which results, parts and buffers were raised, which stay loops, and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from archloom.oracle.nests import instructions, touching, walk
from archloom.oracle.resolved import ResolvedLoop, ResolvedNode, ResolvedStream
from archloom.oracle.xla.loops.outlining import Box, Nest, Path, boxes_at, show
from archloom.oracle.xla.notation.fallbacks import OracleFallback
from archloom.oracle.xla.notation.traits import wholes
from archloom.oracle.xla.strategies import Attempt, Outcome, Raised, left_at


@dataclass(frozen=True)
class ResultReport:
    """How one result is computed: by raised operations, or with loops of the stream for the ``reason`` given.

    ``operations`` has the heavy operations, loops that stay in the midst of raised ones among them.
    """

    result: str
    raised: bool
    reason: str
    operations: tuple[str, ...]

    def __str__(self) -> str:
        how = "; ".join(self.operations)
        if self.raised:
            return f"{self.result}: raised to {how or 'element-wise operations'}"
        return f"{self.result}: {how or 'loops'}, because {self.reason}"


@dataclass(frozen=True)
class PartReport:
    """A part of the stream: ``place`` numbers the nodes of each body from 1 (``2.1``, or ``3-5`` for neighbours).

    ``instructions`` counts executed instructions by mnemonic, ``numbers`` are the first and the last of its
    instructions in the stream's text, from 1. ``boxes`` are the parts of buffers that its loops run on.
    """

    place: str
    what: str
    instructions: dict[str, int]
    numbers: tuple[int, int]
    raised: bool
    reason: str = ""
    boxes: tuple[str, ...] = ()

    def __str__(self) -> str:
        first, last = self.numbers
        where = f"instruction {first}" if first == last else f"instructions {first}-{last}"
        counted = ", ".join(f"{name} x {n}" if n > 1 else name for name, n in self.instructions.items())
        lines = [f"{self.place}: {self.what} ({where}: {counted}): {'raised' if self.raised else 'stays'}"]
        if not self.raised:
            lines[0] += f", because {self.reason}"
            lines += [f"    on {box}" for box in self.boxes]
        return "\n".join(lines)


@dataclass(frozen=True)
class BufferReport:
    """A tensor buffer of shape and element type ``type``: at run time it exists only in the parts at ``places``."""

    buffer: str
    type: str
    places: tuple[str, ...]

    def __str__(self) -> str:
        where = f"exists in loops at {', '.join(self.places)}" if self.places else "vanishes"
        return f"{self.buffer} ({self.type}): {where}"


@dataclass(frozen=True)
class OracleReport:
    """How a stream became a JAX function. ``reassociated`` tells that floating-point sums may be reordered.

    ``strategies`` are those that were tried to raise it, in order; ``fallbacks`` what is computed in another way than
    wanted. Results do not depend on either.
    """

    stream: str
    reassociated: bool
    results: tuple[ResultReport, ...]
    parts: tuple[PartReport, ...] = ()
    buffers: tuple[BufferReport, ...] = ()
    strategies: tuple[Attempt, ...] = ()
    fallbacks: tuple[OracleFallback, ...] = ()

    @property
    def raised(self) -> bool:
        """Whether no loop over the instructions is left."""
        return all(r.raised for r in self.results)

    def __str__(self) -> str:
        head = f"oracle of {self.stream}" + (" (floating-point sums reordered)" if self.reassociated else "")
        return "\n".join([head, *(f"  {r}" for r in self.results)])

    @property
    def explanation(self) -> str:
        """The results, what became of each part and buffer of the stream, and what was tried and not done as wanted."""
        lines = [str(self), "parts"]
        for part in self.parts:
            lines += [f"  {line}" for line in str(part).splitlines()]
        lines += ["buffers", *(f"  {b}" for b in self.buffers)]
        lines += ["strategies", *(f"  {s}" for s in self.strategies)] if self.strategies else []
        lines += ["fallbacks", *(f"  {f}" for f in self.fallbacks)] if self.fallbacks else []
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "raised": self.raised}


def report(
    name: str, stream: ResolvedStream, outcome: Outcome, reassociated: bool, operations: Sequence[tuple[str, ...]],
    fallbacks: tuple[OracleFallback, ...],
) -> OracleReport:
    """The report of a stream of which came what the outcome says."""
    raising, reason = outcome.raising, outcome.reason
    left = raising.left if raising else tuple(
        left_at(stream, (number,), reason) for number in range(len(stream.body)))
    why = {part.path: part.reason for part in left}
    results = []
    for number, tensor in enumerate(stream.results):
        reasons = _reasons(raising.results[number], why) if raising else [reason]
        results.append(ResultReport(tensor.name, not reasons, "; ".join(reasons), operations[number]))
    boxes = {part.path: boxes_at(stream, part.path) for part in left}
    parts = tuple(_parts(stream.body, (), why, boxes))
    buffers = tuple(_buffers(stream, boxes))
    return OracleReport(name, reassociated, tuple(results), parts, buffers, outcome.attempts, fallbacks)


def _reasons(result: Raised, why: Mapping[Path, str]) -> list[str]:
    """Why what the result is made of holds loops."""
    places = {w.function.place: len(w.function.body) for w in wholes([result.value]) if isinstance(w.function, Nest)}
    found = []
    for place, count in places.items():
        found += [why[path] for n in range(count) if (path := (*place[:-1], place[-1] + n)) in why]
    return list(dict.fromkeys(found))


def _parts(
    nodes: Sequence[ResolvedNode], path: Path, why: Mapping[Path, str], boxes: Mapping[Path, Sequence[Box]]
) -> Iterator[PartReport]:
    """Neighbours that are raised together; what stays, and what is around it, by itself."""
    run: list[int] = []
    for number, node in enumerate(nodes):
        here = (*path, number)
        if not any(p[:len(here)] == here for p in why):
            run.append(number)
            continue
        yield from _raised(nodes, path, run)
        run = []
        if here in why:
            yield _part(show(here), _what(node), [node], False, why[here], tuple(map(_box, boxes[here])))
        else:
            assert isinstance(node, ResolvedLoop)
            yield from _parts(node.body, here, why, boxes)
    yield from _raised(nodes, path, run)


def _raised(nodes: Sequence[ResolvedNode], path: Path, run: Sequence[int]) -> Iterator[PartReport]:
    if run:
        first, last = run[0], run[-1]
        place = show((*path, first)) + (f"-{last + 1}" if last > first else "")
        neighbours = list(nodes[first:last + 1])
        what = ", ".join(map(_what, neighbours)) if last - first < 3 else f"{len(run)} nodes"
        yield _part(place, what, neighbours, True)


def _part(
    place: str, what: str, nodes: Sequence[ResolvedNode], raised: bool, reason: str = "", boxes: tuple[str, ...] = ()
) -> PartReport:
    every = [instr.source + 1 for instr in instructions(nodes)]
    counted: Counter[str] = Counter()
    for instr, around in walk(nodes):
        counted[instr.mnemonic] += math.prod(loop.extent for loop in around)
    return PartReport(place, what, dict(counted), (min(every), max(every)), raised, reason, boxes)


def _what(node: ResolvedNode) -> str:
    return f"loop {node.var} of {node.extent}" if isinstance(node, ResolvedLoop) else node.mnemonic


def _box(box: Box) -> str:
    ranges = ", ".join(f"{o}+{n}" for o, n in zip(box.place.offsets, box.buffer.shape, strict=True))
    return f"{box.place.buffer}[{ranges}]"


def _buffers(stream: ResolvedStream, boxes: Mapping[Path, Sequence[Box]]) -> Iterator[BufferReport]:
    named = {s.window.buffer for s, _ in touching(stream.body)}
    for buffer in stream.buffers:
        if buffer.name in named:
            places = tuple(show(path) for path, touched in boxes.items()
                           if any(b.place.buffer == buffer.name for b in touched))
            yield BufferReport(buffer.name, f"{'x'.join(map(str, buffer.shape))} {buffer.dtype}", places)
