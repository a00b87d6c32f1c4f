"""What a kernel function does while it is traced: its instruction calls, loops and debug points, in order."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias, Union

from archloom.oracle.affine import Affine
from archloom.oracle.assembly import MAX_DEPTH
from archloom.oracle.errors import StreamError
from archloom.oracle.kernel.index import Index, Site, constant, fault
from archloom.oracle.stream import Instr, Loop, Node, Parallel
from archloom.oracle.taidl.isa import Isa

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_LETTERS = "ijklmn"


@dataclass(frozen=True, eq=False)
class InstrCall:
    """An instruction with the line that called it."""

    instr: Instr
    site: Site


@dataclass(frozen=True, eq=False)
class Nest:
    """A loop of the stream (with an empty body) around what was recorded in it."""

    loop: Loop | Parallel
    body: list["Recorded"]


@dataclass(frozen=True)
class Part:
    """Elements of a tensor buffer: for each axis where they begin, how many they are, and their stride.

    ``kept`` tells the axes that the printed array has: those that were given as slices and not as an index.
    """

    buffer: str
    starts: tuple[Affine, ...]
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    kept: tuple[bool, ...]


@dataclass(frozen=True)
class Registers:
    """Control registers by key (``name`` or ``name[i]``); with ``single``, the value alone is printed."""

    keys: tuple[str, ...]
    single: bool


Data: TypeAlias = Union[Part, Registers, Affine]
"""What a point shows: a part of a buffer, registers, or an expression over loop variables."""


@dataclass(frozen=True, eq=False)
class Point:
    """``debug(prefix, data)`` at a place of a kernel."""

    prefix: str
    data: Data | None
    site: Site


Recorded: TypeAlias = Union[InstrCall, Nest, Point]


@dataclass(eq=False)
class Recorder:
    """One trace of a kernel function for ``isa``."""

    isa: Isa
    kernel: str
    body: list[Recorded] = field(default_factory=list)
    _open: list[Nest] = field(default_factory=list)

    def add(self, node: Recorded) -> None:
        """Append to the innermost open loop."""
        (self._open[-1].body if self._open else self.body).append(node)

    @contextmanager
    def within(self, loop: Loop | Parallel) -> Iterator[Index]:
        """Record into a loop; its variable."""
        nest = Nest(loop, [])
        self.add(nest)
        self._open.append(nest)
        try:
            yield Index(Affine.variable(loop.var), frozenset({nest}))
        finally:
            self._open.pop()

    @property
    def loops(self) -> list[Loop | Parallel]:
        """The open loops, outermost first."""
        return [n.loop for n in self._open]

    def variable(self, name: str | None) -> str:
        """``name``, or a letter that no open loop has."""
        taken = {loop.var for loop in self.loops}
        if len(taken) >= MAX_DEPTH:
            raise fault(f"loops nest deeper than {MAX_DEPTH}")
        if name is None:
            first = [*_LETTERS, *(f"i{n}" for n in range(MAX_DEPTH))]
            return next(v for v in first if v not in taken)
        if not isinstance(name, str) or not _IDENTIFIER.match(name) or name in ("loop", "parallel"):
            raise fault(f"expected an identifier as the name of a loop, found {name!r}")
        if name in taken:
            raise fault(f"the loop variable {name!r} is that of an enclosing loop already")
        return name

    def expression(self, value: Any, what: str) -> Affine:
        """An integer or an expression over open loops as the stream's; StreamError, naming ``what`` it is for."""
        if isinstance(value, Index):
            if not value.loops <= set(self._open):
                raise fault(f"{what} = {value} names a loop variable outside of its loop")
            return value.expression
        return literal(constant(value, what))


@lru_cache(maxsize=1 << 14)
def literal(value: int) -> Affine:
    return Affine(value)


_local = threading.local()


def current() -> Recorder | None:
    """The trace that is under way in this thread."""
    return getattr(_local, "recorder", None)


@contextmanager
def tracing(recorder: Recorder) -> Iterator[None]:
    outer = current()
    if outer is not None:
        raise fault(f"kernel {recorder.kernel} is traced within kernel {outer.kernel}: make it outside")
    _local.recorder = recorder
    try:
        yield
    finally:
        _local.recorder = None


def recorder(what: str, isa: Isa | None = None) -> Recorder:
    """The current trace, which must be of a kernel of ``isa``; StreamError, naming ``what`` is called, otherwise."""
    active = current()
    if active is None:
        raise fault(f"{what} is called outside of a kernel function (one with the decorator @isa.kernel)")
    if isa is not None and active.isa is not isa and active.isa != isa:
        raise fault(f"{what} of ISA {isa.name} is called in kernel {active.kernel}, which is for {active.isa.name}"
                    + (" with other parameters" if isa.name == active.isa.name else ""))
    return active


def nodes(recorded: list[Recorded], sites: list[Site]) -> tuple[Node, ...]:
    """The stream's nodes without debug points and empty loops; appends the line of each instruction to ``sites``."""
    made: list[Node] = []
    for node in recorded:
        if isinstance(node, InstrCall):
            sites.append(node.site)
            made.append(node.instr)
        elif isinstance(node, Nest):
            body = nodes(node.body, sites)
            if body:
                made.append(replace(node.loop, body=body))
    return tuple(made)


@contextmanager
def loop(*bounds: Any, name: str | None = None) -> Iterator[Index]:
    """A loop that stays one loop of the stream: ``with loop(n) as i``, ``loop(start, stop, step)``, ``loop("i", n)``.

    Bounds are constants, as in Python's ``range``. The variable is an integer expression for attributes.
    """
    if bounds and isinstance(bounds[0], str):
        name, bounds = bounds[0], bounds[1:]
    active = recorder("a loop")
    if not 1 <= len(bounds) <= 3:
        raise fault(f"expected loop(stop), loop(start, stop) or loop(start, stop, step), found {len(bounds)} bounds")
    values = [constant(b, f"bound {n} of a loop") for n, b in enumerate(bounds)]
    start, stop = (0, values[0]) if len(values) == 1 else values[:2]
    var = active.variable(name)
    try:
        made = Loop(var, start, stop, values[2] if len(values) == 3 else 1, ())
    except StreamError as error:
        raise fault(str(error)) from None
    with active.within(made) as index:
        yield index


@contextmanager
def parallel(extent: int, along: str, name: str | None = None) -> Iterator[Index]:
    """One iteration on each core along the dimension ``along`` of the graph, at the same time."""
    active = recorder("a parallel loop")
    count = constant(extent, "the number of cores")
    if count < 1:
        raise fault(f"expected at least one core along {along!r}, found {count}")
    with active.within(Parallel(active.variable(name), count, along, ())) as index:
        yield index
