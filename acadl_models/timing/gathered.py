"""Where reads lie whose places are data: of an instruction that gathers from memory what it reads.

Which elements it takes is not known to a stream, only what they may be of. Timing takes them for as many places of
that, evenly spread, and for other ones in each instance as long as there are others: so that elements lie in lines of
their own, and none finds there what an earlier one has brought, where that can be. This holds where the stream writes
nothing there, so that the places decide about no hazard; elsewhere, and where a stream gathers as much as it may reach,
an instance reads all of that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from archloom.acadl_models.acadl.graph import HBM
from archloom.oracle.accesses import Touching, accesses
from archloom.oracle.affine import Affine
from archloom.oracle.resolved import (
    Access,
    Op,
    Read,
    ResolvedInstr,
    ResolvedLoop,
    ResolvedNode,
    ResolvedStream,
    Window,
    WindowDim,
)
from archloom.oracle.windows import footprint


@dataclass(frozen=True)
class _Gather:
    """A read that an instruction takes ``count`` times ``size`` elements of, and the loops around it."""

    window: Window
    count: int
    size: int
    loops: tuple[ResolvedLoop, ...]

    @property
    def reach(self) -> int:
        return self.window.dims[0].extent

    @property
    def room(self) -> int:
        """Instances that may each have places of their own."""
        return self.reach // (self.size * self.count)

    @property
    def instances(self) -> int:
        return math.prod(loop.extent for loop in self.loops)

    @property
    def bounds(self) -> tuple[int, int]:
        """The first and the last byte that any instance may read."""
        return footprint(self.window, {loop.var: (0, loop.extent - 1) for loop in self.loops})[0]


def placed(stream: ResolvedStream) -> ResolvedStream:
    """The stream, of which what is gathered from memory lies in places; the same where it gathers nothing."""
    sites = list(_sites(stream.body, ()))
    if not sites:
        return stream
    written = list(_written(stream.body, ()))
    free = [not any(low <= site.bounds[1] and site.bounds[0] <= high for low, high in written) for site in sites]
    instances = sum(site.instances for site, is_free in zip(sites, free) if is_free)
    windows: list[Window] = []
    first = 0
    for site, is_free in zip(sites, free):
        window = site.window
        if is_free:
            window, first = _spread(site, instances, first)
        windows.append(window)
    return replace(stream, body=_rewritten(stream.body, iter(windows)))


def _rewritten(body: Sequence[ResolvedNode], windows: Iterator[Window]) -> tuple[ResolvedNode, ...]:
    """The nodes with other windows where they gather, in their order."""
    found: list[ResolvedNode] = []
    for node in body:
        if isinstance(node, ResolvedLoop):
            found.append(replace(node, body=_rewritten(node.body, windows)))
            continue
        mine = {site.window: next(windows) for site in _of(node, ())}
        if mine:
            statements = Touching(node.statements)
            statements.accesses = tuple(
                Access(mine.get(a.window, a.window), a.kind) if a.kind == "read" else a for a in accesses(node))
            node = replace(node, statements=statements)
        found.append(node)
    return tuple(found)


def _sites(body: Sequence[ResolvedNode], around: tuple[ResolvedLoop, ...]) -> Iterator[_Gather]:
    for node in body:
        if isinstance(node, ResolvedLoop):
            yield from _sites(node.body, (*around, node))
        else:
            yield from _of(node, around)


def _of(node: ResolvedInstr, around: tuple[ResolvedLoop, ...]) -> Iterator[_Gather]:
    """Reads of an instruction that it only gathers from, fewer elements than they have."""
    if not any(isinstance(s, Op) and s.opcode == "gather" for s in node.statements):
        return
    for read in node.touching(HBM):
        if not isinstance(read, Read):
            continue
        users = [s for s in node.statements if isinstance(s, Op) and read.dst in s.operands]
        dims = read.window.dims
        if len(users) != 1 or users[0].opcode != "gather" or users[0].operands.index(read.dst) or len(dims) != 1:
            continue
        sizes = users[0].attribute("slice_sizes")
        assert isinstance(sizes, tuple)
        size = math.prod(sizes)
        count = math.prod(users[0].type.shape) // size
        if dims[0].stride == 1 and 0 < count * size < dims[0].extent:
            yield _Gather(read.window, count, size, around)


def _written(body: Sequence[ResolvedNode], around: tuple[ResolvedLoop, ...]) -> Iterator[tuple[int, int]]:
    """Ranges of memory that instructions write."""
    for node in body:
        if isinstance(node, ResolvedLoop):
            yield from _written(node.body, (*around, node))
            continue
        bounds = {e.var: (0, e.extent - 1) for e in around}
        for access in accesses(node):
            if access.window.buffer == HBM and access.kind != "read":
                yield footprint(access.window, bounds)[0]


def _spread(site: _Gather, instances: int, first: int) -> tuple[Window, int]:
    """The places of a read, of the instances of a stream that gather, those from number ``first`` on; and which is the
    next. Element ``l`` of instance ``q`` is number ``l * instances + q`` of all, equally far apart. Where there is no
    room for all instances, those of outer loops have the same places."""
    share = min(instances, site.room)
    counted, number = 1, Affine(0)
    for loop in reversed(site.loops):
        if counted * loop.extent > share:
            break
        number = number + Affine.variable(loop.var) * counted
        counted *= loop.extent
    if first + counted > share:
        first = 0
    unit = (site.reach - site.size) // max(1, site.count * share - 1) // site.size * site.size
    offset = site.window.offsets[0] + (number + first) * unit
    dims = (WindowDim(0, site.count, unit * share), WindowDim(0, site.size, 1))
    return Window(site.window.buffer, (offset,), dims), first + counted
