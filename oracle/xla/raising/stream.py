"""From a resolved stream to one expression for each of its results.

What cannot be raised is left as loops, as little of it as is found: where raising fails at a loop or an instruction,
that is made a :mod:`nest <archloom.oracle.xla.nests>`, and raising begins again.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from archloom.oracle.affine import Affine
from archloom.oracle.resolved import ResolvedLoop, ResolvedNode, ResolvedStream
from archloom.oracle.stream import HbmTensor
from archloom.oracle.xla.nests import Nested, Path, describe
from archloom.oracle.xla.notation.build import fresh, from_bytes
from archloom.oracle.xla.notation.expr import Element, Expr, Range, Sum, children, width
from archloom.oracle.xla.notation.work import bounded_work
from archloom.oracle.xla.raising.dataflow import taidl_dtype
from archloom.oracle.xla.raising.match import Unraisable
from archloom.oracle.xla.raising.program import program
from archloom.oracle.xla.raising.query import Query
from archloom.oracle.xla.raising.relays import without_relays
from archloom.oracle.xla.raising.rings import without_rings
from archloom.oracle.xla.raising.strips import in_strips
from archloom.oracle.xla.raising.tensors import Raiser

CONTRACTIONS, MOST_CONTRACTIONS = 64, 512
"""Up to how many contractions a stream is raised to: XLA takes some 50 ms to compile each.

It takes as long to compile an instruction in loops, so that longer streams may have more: one for each instruction.
"""

ATTEMPTS = 16
"""How often raising begins again with one part more of the stream left as loops."""

PART_STEPS, PART_REWRITINGS = 4_000, 40_000
"""The work of all those attempts together, as STEPS and REWRITINGS limit that of the first."""


@dataclass(frozen=True)
class Raised:
    """A result in index notation: ``value`` over ``axes``, with the ranges of the axes."""

    tensor: HbmTensor
    axes: tuple[str, ...]
    value: Expr
    ranges: dict[str, Range]


@dataclass(frozen=True)
class Left:
    """A part of a stream that stays loops: the ``path`` of its loop or instruction, what that is, and why."""

    path: Path
    what: str
    reason: str


@dataclass(frozen=True)
class Raising:
    """The results of a stream as expressions, and what stays loops in them (see :mod:`archloom.oracle.xla.nests`)."""

    results: tuple[Raised, ...]
    left: tuple[Left, ...] = ()


def raise_stream(stream: ResolvedStream, *, reassociate: bool = False) -> Raising:
    """The results of the stream as expressions over its arguments; Unraisable says why there are none."""
    stream = without_relays(stream)
    try:
        return Raising(_raised(stream, Raiser(program(stream), reassociate)))
    except Unraisable as found:
        reason = found
    straight = without_rings(stream)
    if straight is not stream:
        try:
            return Raising(_raised(straight, Raiser(program(straight), reassociate)))
        except Unraisable:
            pass
    return _in_strips(stream, reassociate, reason) or _in_part(stream, reassociate, reason)


def _in_strips(stream: ResolvedStream, reassociate: bool, reason: Unraisable) -> Raising | None:
    """The stream raised with strips for the loops around the rings at which raising fails; None if that does not help.
    """
    steps = count()
    with bounded_work(PART_REWRITINGS):
        while reason.ring is not None:
            strips = in_strips(stream, reason.ring)
            if strips is stream:
                break
            stream = strips
            try:
                return Raising(_raised(stream, Raiser(program(stream), reassociate, steps)))
            except Unraisable as found:
                reason = found
            except RecursionError:
                break
    return None


def _raised(stream: ResolvedStream, raiser: Raiser) -> tuple[Raised, ...]:
    with bounded_work():
        made = tuple(_result(raiser, tensor) for tensor in stream.results)
    contractions = sum(count_contractions(r.value) for r in made)
    if contractions > max(CONTRACTIONS, min(MOST_CONTRACTIONS, _size(stream.body))):
        raise Unraisable(f"its pieces would be {contractions} contractions, each compiled for itself")
    return made


def _size(nodes: tuple[ResolvedNode, ...]) -> int:
    """How many instructions are written down."""
    return sum(_size(node.body) if isinstance(node, ResolvedLoop) else 1 for node in nodes)


def _in_part(stream: ResolvedStream, reassociate: bool, first: Unraisable) -> Raising:
    """The stream with as little of it left as loops as :data:`ATTEMPTS` find; ``first`` if that is all of it."""
    nested, reason = Nested(stream, (), {}), first
    left: dict[Path, Left] = {}
    steps = count()
    with bounded_work(PART_REWRITINGS):
        for _ in range(ATTEMPTS):
            path = nested.path_of(reason.culprit)
            while path in left:
                path = path[:-1]
            if not path:
                break
            inside = [p for p in left if p[:len(path)] == path]
            why = left[inside[0]].reason if inside else str(reason)
            left = {p: part for p, part in left.items() if p not in inside}
            left[path] = Left(path, describe(stream, path), why)
            nested = Nested(stream, left)
            if nested.is_all():
                break
            try:
                raised = _raised(nested.stream, Raiser(program(nested.stream), reassociate, steps, PART_STEPS))
                return Raising(raised, tuple(left[p] for p in sorted(left)))
            except Unraisable as found:
                reason = found
            except RecursionError:
                break
    raise first


def _result(raiser: Raiser, tensor: HbmTensor) -> Raised:
    axes = tuple(fresh() for _ in tensor.shape)
    ranges = {axis: (0, extent - 1) for axis, extent in zip(axes, tensor.shape, strict=True)}
    dtype, byte = taidl_dtype(tensor.dtype), fresh()
    element = Affine(0)
    for axis, extent in zip(axes, tensor.shape, strict=True):
        element = element * extent + Affine.variable(axis)
    inner = {**ranges, byte: (0, width(dtype) - 1)}
    address = (element * width(dtype) + Affine.variable(byte) + tensor.address).simplify(inner)
    value = raiser.dataflow.at_end(Query("hbm", (address,), inner))
    return Raised(tensor, axes, from_bytes(byte, value, dtype, ranges), ranges)


def count_contractions(e: Expr, counted: set[Expr] | None = None) -> int:
    """How many contractions the lowering of ``e`` makes; equal ones are made once."""
    counted = set() if counted is None else counted
    if e in counted:
        return 0
    counted.add(e)
    parts = children(e) if not isinstance(e, Element) else tuple(o.body for o in e.whole.operands)
    return isinstance(e, Sum) + sum(count_contractions(c, counted) for c in parts)
