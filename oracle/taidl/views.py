"""Views: the bits of a buffer under another name, as elements of another type.

An element of a view is one of the buffer's or several that lie side by side along the last axis. What reads and writes
views is checked as it stands; then each read becomes one of the buffer and a ``bitcast_convert``, each write a
``bitcast_convert`` and a write of the buffer, so that a view is no storage to anyone behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from archloom.oracle.errors import TaidlError, suggest
from archloom.oracle.resolved import Buffer, Shaped
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.operators import fault
from archloom.oracle.taidl.operators.conversion import width

_ZERO, _ONE = ast.Number(0), ast.Number(1)


def misfit(view: Buffer, of: Buffer) -> str | None:
    """Why a view does not show all bits of the buffer, each once, in their order; None if it does."""
    parts, rest = divmod(width(view.dtype), width(of.dtype))
    if rest or not parts:
        return (f"an element of view {view.name} has {width(view.dtype)} bits: expected the {width(of.dtype)} of an "
                f"element of {of.name}, or a multiple")
    if fault("bitcast_convert", Shaped((), view.dtype), [Shaped((parts,) if parts > 1 else (), of.dtype)], {}):
        return f"view {view.name} shows {of.dtype} as {view.dtype}, for which there is no bitcast_convert"
    shown = (*view.shape[:-1], *(n * parts for n in view.shape[-1:]))
    if shown != of.shape or (parts > 1 and not of.shape):
        return (f"view {view.name} is {_by(view.shape)} elements, each as wide as {parts} of {of.name}, which is "
                f"{_by(of.shape)}")
    return None


def _by(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "1"


def view_faults(isa: ast.IsaDef) -> Iterator[TaidlError]:
    """The views that are of no buffer."""
    buffers = {b.name: b for b in isa.buffers}
    choices = [b.name for b in isa.buffers if b.of is None]
    for view in isa.buffers:
        fault = None
        if view.of == "hbm":
            fault = f"{view.name!r} cannot be a view of hbm, whose addresses are those of bytes"
        elif view.of is not None and view.of not in buffers:
            fault = f"{view.name!r} is a view of an unknown buffer {view.of!r}{suggest(view.of, choices)}"
        elif view.of is not None and (of := buffers[view.of]).of is not None:
            fault = f"{view.name!r} is a view of {view.of!r}, which is itself a view of {of.of!r}: name that"
        elif view.of is not None and view.base.bits != of.base.bits:
            fault = f"the widths of {view.name!r} and of {view.of!r} must be numbers, or the same expression"
        if fault:
            yield TaidlError(fault, view.position, isa.text(view.position))


def through(isa: ast.IsaDef, body: tuple[ast.Statement, ...]) -> tuple[ast.Statement, ...]:
    """The checked body of an instruction, its slices definite, with buffers in place of views."""
    declared = {b.name: b for b in isa.buffers}
    views = {b.name: _View(b, declared[b.of].base) for b in isa.buffers if b.of is not None}
    return tuple(_Through(views).block(body)) if views else body


@dataclass(frozen=True)
class _View:
    """A view with the element type of its buffer."""

    declared: ast.BufferDecl
    base: ast.Type

    @property
    def parts(self) -> int:
        """Elements of the buffer that one of the view is."""
        open_width = self.base.bits is not None
        return 1 if open_width else width(self.declared.base.dtype) // width(self.base.dtype)

    def spans(self, piece: ast.Slice) -> list[tuple[ast.Expr, tuple[tuple[ast.Expr, ast.Expr], ...]]]:
        """Where each axis of a slice begins, with its extents and strides."""
        extents = self.declared.rows + self.declared.base.dims
        return [_span(a, n) for a, n in zip(piece.over(len(extents)), extents, strict=True)]

    def slice(self, piece: ast.Slice) -> ast.Slice:
        """The same bits as a slice of the buffer, which has one axis more where elements are several of it."""
        of = replace(piece, buffer=str(self.declared.of))
        if self.parts == 1:
            return of
        spans = self.spans(piece)
        start, entries = spans[-1]
        inner = tuple((extent, _times(stride, self.parts)) for extent, stride in entries)
        last = ast.Walk(_times(start, self.parts), (*inner, (ast.Number(self.parts), _ONE)), position=piece.position)
        return replace(of, axes=(*piece.over(len(spans))[:-1], last))

    def type(self, dims: tuple[ast.Expr, ...], kind: ast.Type | ast.Slice) -> ast.Type:
        """The type of what lies in the buffer as a tensor of these extents of the view."""
        more = (ast.Number(self.parts),) if self.parts > 1 else ()
        return replace(self.base, dims=(*dims, *more), position=kind.position)


def _times(e: ast.Expr, n: int) -> ast.Expr:
    if isinstance(e, ast.Number):
        return replace(e, value=e.value * n)
    return ast.Binary("*", e, ast.Number(n), position=e.position)


def _span(axis: ast.Axis, size: ast.Expr) -> tuple[ast.Expr, tuple[tuple[ast.Expr, ast.Expr], ...]]:
    if isinstance(axis, ast.At):
        return axis.index, ((_ONE, _ONE),)
    if isinstance(axis, ast.Walk):
        return axis.base, axis.entries
    start, stop = axis.start or _ZERO, axis.stop or size
    length = stop if axis.start is None else ast.Binary("-", stop, start, position=axis.position)
    if axis.step is None:
        return start, ((length, _ONE),)
    return start, ((ast.Call("cdiv", (length, axis.step), position=axis.position), axis.step),)


@dataclass
class _Through:
    views: Mapping[str, _View]
    moves: int = field(default=0)

    def block(self, body: tuple[ast.Statement, ...]) -> Iterator[ast.Statement]:
        for s in body:
            match s:
                case ast.Read() if s.source.buffer in self.views:
                    yield from self.read(s, self.views[s.source.buffer])
                case ast.Write() if s.target.buffer in self.views:
                    yield from self.write(s, self.views[s.target.buffer])
                case ast.If():
                    yield replace(s, then=tuple(self.block(s.then)), otherwise=tuple(self.block(s.otherwise)))
                case ast.Repeat():
                    yield replace(s, body=tuple(self.block(s.body)))
                case _:
                    yield s

    def read(self, s: ast.Read, view: _View) -> Iterator[ast.Statement]:
        held = self.name(s.dst)
        yield ast.Read(held, view.type(s.type.dims, s.type), view.slice(s.source), position=s.position)
        yield _made(s.dst, s.type, "bitcast_convert", held, s)

    def write(self, s: ast.Write, view: _View) -> Iterator[ast.Statement]:
        held, src = self.name(s.src), s.src
        if s.type is not None:  # what it is said to be is judged where extents are known
            src = self.name(s.src)
            yield _made(src, s.type, "copy", s.src, s)
        dims = tuple(extent for _, entries in view.spans(s.target) for extent, _ in entries)
        yield _made(held, view.type(dims, s.target), "bitcast_convert", src, s)
        yield ast.Write(held, None, view.slice(s.target), position=s.position)

    def name(self, name: str) -> str:
        """A name that no other tensor has."""
        self.moves += 1
        return f"{name}~00{self.moves}"


def _made(dst: str, kind: ast.Type, opcode: str, src: str, s: ast.Node) -> ast.Op:
    return ast.Op(dst, kind, opcode, (ast.Tensor(src, position=s.position),), (), position=s.position)
