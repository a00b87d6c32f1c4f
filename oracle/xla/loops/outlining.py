"""Parts of a stream left as loops, while all around them is raised.

A nest of loops (or neighbours of them, or an instruction) that cannot be raised becomes one instruction: it reads the
boxes of the buffers that the nest touches, runs the nest on them, and writes those in which the nest writes. To the
dataflow it is an instruction as any other, whose operator is computed of whole tensors
(:class:`archloom.oracle.xla.notation.expr.Whole`); inside of loops it is computed for all their iterations, if none
needs another's.

What is left is given by paths: the numbers of the nodes from the stream's body down.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from archloom.oracle import resolved
from archloom.oracle.late_jax import jnp
from archloom.oracle.nests import instructions, ranges, rewritten, variables, walk, with_windows
from archloom.oracle.resolved import Op, Read, ResolvedInstr, ResolvedLoop, ResolvedNode, Window, Write
from archloom.oracle.xla.loops.boxes import Box, Touch, boxes_of, first_written
from archloom.oracle.xla.loops.runner import LoopRunner
from archloom.oracle.xla.lowering.ops import jax_dtype
from archloom.oracle.xla.lowering.wholes import NEST
from archloom.oracle.xla.notation.expr import Range
from archloom.oracle.xla.notation.fallbacks import Record
from archloom.oracle.xla.raising.tree import Block, InstrItem

Path = tuple[int, ...]


@dataclass(frozen=True)
class Nest:
    """The function that runs ``body`` on arrays of ``buffers``: it takes those in ``read``, gives those in ``written``.

    Those that are not read are written before the nest reads them. ``variables`` are of loops around the nest.
    """

    place: Path
    body: tuple[ResolvedNode, ...]
    buffers: tuple[resolved.Buffer, ...]
    read: tuple[str, ...]
    written: tuple[str, ...]
    variables: tuple[str, ...]

    @property
    def in_turn(self) -> str:
        return "addresses that differ between the iterations would be gathers and scatters" if self.variables else ""

    @property
    def title(self) -> str:
        return f"loops at {show(self.place)}"

    def __call__(self, operands: Sequence[Any], values: Mapping[str, Any], record: Record) -> tuple[Any, ...]:
        stream = resolved.ResolvedStream("", "", (), self.buffers, (), (), 0, self.body)
        given = dict(zip(self.read, operands, strict=True))
        state = {b.name: given.get(b.name, jnp.zeros(b.shape, jax_dtype(b.dtype))) for b in self.buffers}
        state = LoopRunner.of(stream, record).on(state, values)
        return tuple(state[name] for name in self.written)


def show(path: Path) -> str:
    """A path as it is printed: the nodes of each body counted from 1."""
    return ".".join(str(n + 1) for n in path)


@dataclass
class Outlined:
    """A stream with its nodes at the paths ``left`` as instructions, and where its nodes come from."""

    original: resolved.ResolvedStream
    left: Collection[Path]
    loops: dict[str, Path] = field(default_factory=dict)
    instructions: dict[int, Path] = field(default_factory=dict)
    """By the identity of an instruction; of a nest the path of its first node."""

    nests: dict[int, ResolvedInstr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        body = self._nodes(self.original.body, (), {})
        self.stream = replace(self.original, body=body)

    def _nodes(self, nodes: tuple[ResolvedNode, ...], path: Path, outer: dict[str, Range]) -> tuple[ResolvedNode, ...]:
        made: list[ResolvedNode] = []
        run: list[ResolvedNode] = []
        for number, node in enumerate(nodes):
            here = (*path, number)
            if here in self.left:
                run.append(node)
                continue
            made += self._nest(run, (*path, number - len(run)), outer)
            run = []
            if isinstance(node, ResolvedLoop):
                self.loops[node.var] = here
                inside = {**outer, node.var: (0, node.extent - 1)}
                body = self._nodes(node.body, here, inside)
                made.append(node if body == node.body else replace(node, body=body))
            else:
                self.instructions.setdefault(id(node), here)
                made.append(node)
        return (*made, *self._nest(run, (*path, len(nodes) - len(run)), outer))

    def _nest(self, nodes: list[ResolvedNode], place: Path, outer: dict[str, Range]) -> Iterator[ResolvedInstr]:
        if not nodes:
            return
        touches = list(_touches(nodes))
        shapes = {b.name: b for b in self.original.buffers}
        boxes = boxes_of(touches, shapes, outer)
        placed = {window: box for box in boxes for window in box.windows}

        def moved(s: Read | Write) -> Window:  # loops without iterations touch nothing
            return placed[s.window].moved(s.window) if s.window in placed else s.window

        body = rewritten(nodes, lambda instr: [with_windows(instr, moved)])
        written = [p for p in boxes if any(t.is_write for t in touches if placed[t.window] is p)]
        if not written:
            return
        read = [p for p in boxes if not first_written(body, p.buffer)]
        names = frozenset[str]().union(*map(variables, instructions(body)))
        nest = Nest(place, body, tuple(p.buffer for p in boxes), tuple(p.buffer.name for p in read),
                    tuple(p.buffer.name for p in written), tuple(v for v in outer if v in names))
        instr = _instruction(nest, read, written)
        self.instructions[id(instr)] = place
        self.nests[id(instr)] = instr
        yield instr

    def path_of(self, item: object) -> Path | None:
        """What to leave as loops next, where raising failed at an item of the tree; None if there is nothing.

        That is the loop or the instruction; the loop around a nest, or the node before one that is in none.
        """
        if isinstance(item, Block):
            path = self.loops.get(item.var)
        else:
            path = self.instructions.get(id(item.instr)) if isinstance(item, InstrItem) else None
        if path is None:
            return None
        if isinstance(item, InstrItem) and id(item.instr) in self.nests:
            path = path[:-1] or ((path[0] - 1,) if path[0] else ())
        return path or None


def _instruction(nest: Nest, read: list[Box], written: list[Box]) -> ResolvedInstr:
    def kind(p: Box) -> resolved.TensorType:
        return resolved.TensorType(p.buffer.shape, p.buffer.dtype)

    statements: list[resolved.Statement] = [Read(p.buffer.name, p.place, kind(p)) for p in read]
    for number, p in enumerate(written):
        attributes = (("nest", nest), ("result", number))
        statements.append(Op(f"new.{p.buffer.name}", NEST, nest.read, attributes, kind(p)))
    statements += [Write(f"new.{p.buffer.name}", p.place, kind(p)) for p in written]
    return ResolvedInstr(nest.title, (), (), tuple(statements), 0)


def _down(stream: resolved.ResolvedStream, path: Path) -> Iterator[ResolvedNode]:
    """The nodes on the way to the one at a path, which is the last."""
    nodes = stream.body
    for number in path:
        node = nodes[number]
        yield node
        nodes = node.body if isinstance(node, ResolvedLoop) else ()


def boxes_at(stream: resolved.ResolvedStream, path: Path) -> tuple[Box, ...]:
    """The boxes of buffers that the node at a path touches, over the variables of the loops around it."""
    *around, node = _down(stream, path)
    outer = {loop.var: (0, loop.extent - 1) for loop in around if isinstance(loop, ResolvedLoop)}
    return boxes_of(_touches([node]), {b.name: b for b in stream.buffers}, outer)


def describe(stream: resolved.ResolvedStream, path: Path) -> str:
    """The loop or the instruction at a path, in words."""
    *_, node = _down(stream, path)
    return f"loop {node.var} in 0..{node.extent}" if isinstance(node, ResolvedLoop) else node.mnemonic


def _touches(nodes: Sequence[ResolvedNode]) -> Iterator[Touch]:
    for instr, around in walk(nodes):
        if all(loop.extent for loop in around):
            inside = ranges(around)
            for s in instr.touching():
                yield Touch(s.window, isinstance(s, Write), inside)
