"""Parts of a stream left as loops, while all around them is raised.

A nest of loops (or neighbours of them, or an instruction) that cannot be raised becomes one instruction: it reads the
boxes of the buffers that the nest touches, runs the nest on them, and writes those in which the nest writes. To the
dataflow it is an instruction as any other, whose operator is computed of whole tensors
(:class:`archloom.oracle.xla.notation.expr.Whole`); inside of loops it is computed for all their iterations, if none
needs another's.

What is left is given by paths: the numbers of the nodes from the stream's body down. The boxes that it touches are
arrays of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from archloom.oracle import resolved
from archloom.oracle.affine import Affine
from archloom.oracle.late_jax import jnp
from archloom.oracle.nests import instructions, ranges, rewritten, size, touching, variables, walk, with_windows
from archloom.oracle.resolved import Buffer, Read, ResolvedInstr, ResolvedLoop, ResolvedNode, Window, WindowDim, Write
from archloom.oracle.windows import span
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
    buffers: tuple[Buffer, ...]
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
        state = LoopRunner(stream, record).on(state, values)
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
        statements.append(resolved.Op(f"new.{p.buffer.name}", NEST, nest.read, attributes, kind(p)))
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


def written_at(stream: resolved.ResolvedStream, path: Path) -> int:
    """How many instructions are written down in the node at a path."""
    *_, node = _down(stream, path)
    return size([node])


def _touches(nodes: Sequence[ResolvedNode]) -> Iterator[Touch]:
    for instr, around in walk(nodes):
        if all(loop.extent for loop in around):
            inside = ranges(around)
            for s in instr.touching():
                yield Touch(s.window, isinstance(s, Write), inside)


# --- boxes --------------------------------------------------------------------------------------------------------

Form = tuple[Affine, ...]


@dataclass(frozen=True)
class Touch:
    """A window that is read or written, and the ranges of the loops around it inside of the part."""

    window: Window
    is_write: bool
    ranges: Mapping[str, Range]


@dataclass(frozen=True)
class Box:
    """Part of a buffer: ``place`` says which, ``buffer`` stands for it, ``windows`` are those that lie in it."""

    buffer: Buffer
    place: Window
    windows: tuple[Window, ...]

    def moved(self, window: Window) -> Window:
        """One of the windows, in the box."""
        offsets = tuple(o - origin for o, origin in zip(window.offsets, self.place.offsets, strict=True))
        return Window(self.buffer.name, offsets, window.dims)


@dataclass(frozen=True)
class _Placed:
    """A window at ``base`` (a form for each axis over the loops around the part) and what it spans from there."""

    window: Window
    base: Form
    spans: tuple[Range, ...]


def boxes_of(touches: Iterable[Touch], buffers: Mapping[str, Buffer], outer: Mapping[str, Range]) -> tuple[Box, ...]:
    """Boxes of which no two share an element in the same iteration of the loops ``outer`` around the part."""
    found: dict[str, dict[Window, _Placed]] = {}
    for touch in touches:
        found.setdefault(touch.window.buffer, {}).setdefault(touch.window, _placed(touch, outer))
    made: list[Box] = []
    for name, placed in found.items():
        for group in _disjoint(list(placed.values()), lambda p: _absolute(p, outer)[0]):
            if len({p.base for p in group}) > 1:
                zero = (Affine(0),) * len(group[0].base)
                group = [replace(p, base=zero, spans=_absolute(p, outer)) for p in group]
            for cluster in _disjoint(group, lambda p: p.spans[0]):
                made.append(_box(f"{name}.{len(made)}", buffers[name], cluster))
    return tuple(made)


def _placed(touch: Touch, outer: Mapping[str, Range]) -> _Placed:
    base, spans = [], []
    for axis, offset in enumerate(touch.window.offsets):
        around = Affine(0, tuple(t for t in offset.terms if Affine(0, (t,)).variables() <= outer.keys()))
        low, high = (offset - around).range({**outer, **touch.ranges})
        below, above = span(touch.window, axis)
        base.append(around)
        spans.append((low + below, high + above))
    return _Placed(touch.window, tuple(base), tuple(spans))


def _absolute(p: _Placed, outer: Mapping[str, Range]) -> tuple[Range, ...]:
    """What the window spans in all iterations of the loops around."""
    ranges = [form.range(outer) for form in p.base]
    return tuple((a + low, b + high) for (a, b), (low, high) in zip(ranges, p.spans, strict=True))


def _disjoint(placed: list[_Placed], spanned: Callable[[_Placed], Range]) -> list[list[_Placed]]:
    """Groups whose spans along the first axis are apart."""
    groups: list[list[_Placed]] = []
    end = 0
    for p in sorted(placed, key=spanned):
        low, high = spanned(p)
        if groups and low <= end:
            groups[-1].append(p)
            end = max(end, high)
        else:
            groups.append([p])
            end = high
    return groups


def _box(name: str, buffer: Buffer, placed: Sequence[_Placed]) -> Box:
    spans = [(min(p.spans[axis][0] for p in placed), max(p.spans[axis][1] for p in placed))
             for axis in range(len(buffer.shape))]
    shape = tuple(high - low + 1 for low, high in spans)
    origin = tuple(base + low for base, (low, _) in zip(placed[0].base, spans, strict=True))
    dims = tuple(WindowDim(axis, extent, 1) for axis, extent in enumerate(shape))
    return Box(Buffer(name, shape, buffer.dtype), Window(buffer.name, origin, dims), tuple(p.window for p in placed))


# --- written before they are read ---------------------------------------------------------------------------------


def first_written(nodes: Sequence[ResolvedNode], box: Buffer) -> bool:
    """Whether the nodes write all of the box before they read any of it, as far as can be seen at their beginning."""
    for node in nodes:
        if isinstance(node, ResolvedLoop):
            found = list(touching([node], box.name))
            if found:
                return first_written(node.body, box) or (len(found) == 1 and _fills(*found[0], box))
            continue
        for s in node.touching(box.name):
            return _fills(s, (), box)
    return False


def _fills(s: "Read | Write", around: tuple[ResolvedLoop, ...], box: Buffer) -> bool:
    """Whether a write fills the box in the iterations of the loops around it."""
    if not isinstance(s, Write) or s.kind != "write":
        return False
    extents = {loop.var: loop.extent for loop in around}
    walking: list[str] = []
    for axis, offset in enumerate(s.window.offsets):
        if offset.constant or not all(isinstance(a, str) and a in extents for a, _ in offset.terms):
            return False
        steps = [(c, extents[str(a)], str(a)) for a, c in offset.terms]
        steps += [(d.stride, d.extent, "") for d in s.window.dims if d.axis == axis and d.extent > 1]
        size = 1
        for stride, extent, _ in sorted(steps):
            if stride != size:
                return False
            size *= extent
        if size != box.shape[axis]:
            return False
        walking += [a for _, _, a in steps if a]
    return len(walking) == len(set(walking))  # a loop along two axes walks a diagonal
