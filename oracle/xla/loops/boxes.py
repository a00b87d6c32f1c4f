"""The boxes of buffers that a part of a stream touches, each as an array of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from archloom.oracle.affine import Affine
from archloom.oracle.nests import touching
from archloom.oracle.resolved import Buffer, Read, ResolvedLoop, ResolvedNode, Window, WindowDim, Write
from archloom.oracle.windows import span
from archloom.oracle.xla.notation.expr import Range

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


def _disjoint(placed: list[_Placed], span: Callable[[_Placed], Range]) -> list[list[_Placed]]:
    """Groups whose spans along the first axis are apart."""
    groups: list[list[_Placed]] = []
    end = 0
    for p in sorted(placed, key=span):
        low, high = span(p)
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
