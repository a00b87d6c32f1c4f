"""From a resolved stream to one expression for each of its results, by the first strategy that succeeds.

What cannot be raised is left as loops, as little of it as is found: where raising fails at a loop or an instruction,
that is made a :mod:`nest <archloom.oracle.xla.loops.outlining>`, and raising begins again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from archloom.oracle.affine import Affine
from archloom.oracle.nests import size
from archloom.oracle.resolved import ResolvedStream
from archloom.oracle.stream import HbmTensor
from archloom.oracle.taidl.types import of_numpy
from archloom.oracle.windows import linear
from archloom.oracle.xla.loops.outlining import Outlined, Path, describe, written_at
from archloom.oracle.xla.notation.build import from_bytes
from archloom.oracle.xla.notation.cases import without_cases
from archloom.oracle.xla.notation.expr import Element, Expr, Range, Sum, width
from archloom.oracle.xla.notation.fallbacks import OracleFallback
from archloom.oracle.xla.notation.limits import USUAL, Limits, Refusal, Unraisable
from archloom.oracle.xla.notation.substitution import bounded_work
from archloom.oracle.xla.notation.variables import fresh
from archloom.oracle.xla.raising.cursor import Steps
from archloom.oracle.xla.raising.query import Query
from archloom.oracle.xla.raising.relays import without_relays
from archloom.oracle.xla.raising.rings import in_strips, without_rings
from archloom.oracle.xla.raising.tensors import Raiser
from archloom.oracle.xla.raising.tree import Tree


@dataclass(frozen=True)
class Raised:
    """A result in index notation: ``value`` over ``axes``, with the ranges of the axes."""

    tensor: HbmTensor
    axes: tuple[str, ...]
    value: Expr
    ranges: dict[str, Range]


@dataclass(frozen=True)
class Left:
    """A part of a stream that stays loops: the ``path`` of its loop or instruction, what that is, why, and how many
    instructions are written down in it."""

    path: Path
    what: str
    reason: str
    instructions: int


def left_at(stream: ResolvedStream, path: Path, reason: str) -> Left:
    """The node of a stream at a path, left as it is."""
    return Left(path, describe(stream, path), reason, written_at(stream, path))


@dataclass(frozen=True)
class Attempt:
    """A strategy that was tried, and why it failed; ``reason`` is empty where it did not."""

    strategy: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.strategy}: {self.reason or 'succeeds'}"


@dataclass(frozen=True)
class Raising:
    """The results of a stream as expressions, and what stays loops in them (:mod:`.loops.outlining`)."""

    results: tuple[Raised, ...]
    left: tuple[Left, ...] = ()
    fallbacks: tuple[OracleFallback, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What came of all strategies in turn; without ``raising`` the stream runs as loops, for the ``reason`` given."""

    raising: Raising | None
    reason: str = ""
    attempts: tuple[Attempt, ...] = ()

    def withdrawn(self, reason: str) -> "Outcome":
        """The same where what the last attempt has made turns out to be no good."""
        return Outcome(None, reason, (*self.attempts[:-1], replace(self.attempts[-1], reason=reason)))


NOT_YET = Refusal("it was not tried yet")


@dataclass(frozen=True)
class Task:
    """A stream without relays, to be raised; ``refusal`` says why it was not as it stands.

    With ``recurrences`` what loops carry is looked for, and ``refusal`` is that of the first attempt to do so.
    """

    stream: ResolvedStream
    reassociate: bool
    limits: Limits
    refusal: Refusal = NOT_YET
    recurrences: bool = False

    def attempt(
        self, stream: ResolvedStream, left: tuple[Left, ...] = (), steps: Steps | None = None
    ) -> Raising | Refusal:
        """The task's stream, or what was made of it, raised."""
        raiser = Raiser(Tree(stream), self.reassociate, self.limits, steps, self.recurrences)
        try:
            with bounded_work(self.limits.rewritings):
                made = tuple(_result(raiser, tensor) for tensor in stream.results)
            contractions = sum(count_contractions(r.value) for r in made)
        except Unraisable as error:
            return error.refusal
        except RecursionError:
            return Refusal("its reads depend on too many writes", too_deep=True)
        limits = self.limits
        if contractions > max(limits.contractions, min(limits.contractions_of_long, size(stream.body))):
            return Refusal(f"its pieces would be {contractions} contractions, each compiled for itself")
        return Raising(made, left, raiser.record.fallbacks)


@dataclass(frozen=True)
class Strategy:
    """A way to raise a stream; ``apply`` gives None where it does not apply to it.

    ``as_deep`` says that those after it search as deep: where it takes too many calls, so do they.
    """

    name: str
    apply: Callable[[Task], Raising | Refusal | None]
    as_deep: bool = False


def _with_recurrences(task: Task) -> Raising | Refusal | None:
    """What loops hand on from one iteration to the next as sums and chains over them."""
    return replace(task, recurrences=True).attempt(task.stream) if task.refusal.carried else None


def _without_rings(task: Task) -> Raising | Refusal | None:
    straight = without_rings(task.stream, task.limits)
    return None if straight is task.stream else task.attempt(straight)


def _in_strips(task: Task) -> Raising | Refusal | None:
    """Strips for the loops around the rings at which raising fails, one ring after the other."""
    stream, steps, found = task.stream, Steps(task.limits.steps), None
    refusal = task.refusal
    with bounded_work(task.limits.part_rewritings):
        while refusal.ring is not None and not refusal.too_deep:
            strips = in_strips(stream, refusal.ring, task.limits)
            if strips is stream:
                break
            stream = strips
            found = task.attempt(stream, (), steps)
            if isinstance(found, Raising):
                break
            refusal = found
    return found


def _in_part(task: Task) -> Raising | Refusal:
    """As little of the stream left as loops as some attempts find; refused as a whole if that is all of it."""
    nested, refusal = Outlined(task.stream, ()), task.refusal
    left: dict[Path, Left] = {}
    steps = Steps(task.limits.part_steps)
    with bounded_work(task.limits.part_rewritings):
        for _ in range(task.limits.attempts):
            path = nested.path_of(refusal.item)
            while path in left:
                path = path[:-1]
            if not path:
                return Refusal(f"no further part is to blame: {refusal.reason}")
            inside = [p for p in left if p[:len(path)] == path]
            why = left[inside[0]].reason if inside else refusal.reason
            left = {p: part for p, part in left.items() if p not in inside}
            left[path] = left_at(task.stream, path, why)
            nested = Outlined(task.stream, left)
            if all(id(node) in nested.nests for node in nested.stream.body):
                return Refusal("all of it would be left as loops")
            found = task.attempt(nested.stream, tuple(left[p] for p in sorted(left)), steps)
            if isinstance(found, Raising) or found.too_deep:
                return found
            refusal = found
    return Refusal(f"after {task.limits.attempts} attempts still {refusal.reason}")


STRATEGIES = (
    Strategy("as it stands", lambda task: task.attempt(task.stream), as_deep=True),
    Strategy("with recurrences", _with_recurrences, as_deep=True),
    Strategy("without rings", _without_rings, as_deep=True),
    Strategy("in strips", _in_strips),
    Strategy("in part", _in_part),
)
"""In the order in which they are tried."""


def raise_stream(stream: ResolvedStream, *, reassociate: bool = False, limits: Limits = USUAL) -> Outcome:
    """The results of the stream as expressions over its arguments, or why there are none."""
    task = Task(without_relays(stream, limits), reassociate, limits)
    attempts: list[Attempt] = []
    for strategy in STRATEGIES:
        found = strategy.apply(task)
        if isinstance(found, Raising):
            return Outcome(found, "", (*attempts, Attempt(strategy.name)))
        if found is None:
            continue
        attempts.append(Attempt(strategy.name, found.reason))
        if found.too_deep and strategy.as_deep:
            return Outcome(None, found.reason, tuple(attempts))
        if task.refusal is NOT_YET:
            task = replace(task, refusal=found)
        elif task.refusal.carried and not task.recurrences:
            task = replace(task, refusal=found, recurrences=True)
    return Outcome(None, task.refusal.reason, tuple(attempts))


def _result(raiser: Raiser, tensor: HbmTensor) -> Raised:
    axes = tuple(fresh() for _ in tensor.shape)
    ranges = {axis: (0, extent - 1) for axis, extent in zip(axes, tensor.shape, strict=True)}
    dtype, byte = of_numpy(tensor.dtype), fresh()
    element = linear(tuple(Affine.variable(a) for a in axes), tensor.shape)
    inner = {**ranges, byte: (0, width(dtype) - 1)}
    address = (element * width(dtype) + Affine.variable(byte) + tensor.address).simplify(inner)
    value = raiser.dataflow.at_end(Query("hbm", (address,), inner))
    return Raised(tensor, axes, without_cases(from_bytes(byte, value, dtype, ranges), ranges), ranges)


def count_contractions(e: Expr, counted: set[Expr] | None = None) -> int:
    """How many contractions the lowering of ``e`` makes; equal ones are made once."""
    counted = set() if counted is None else counted
    if e in counted:
        return 0
    counted.add(e)
    parts = e.children if not isinstance(e, Element) else tuple(o.body for o in e.whole.operands)
    return isinstance(e, Sum) + sum(count_contractions(c, counted) for c in parts)
