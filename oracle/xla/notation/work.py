"""The work of rewriting expressions: bounded, and done once. Of each thread its own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from archloom.oracle.xla.notation.expr import Expr
from archloom.oracle.xla.notation.refusals import Exhausted

_state = threading.local()
Work = tuple[Expr, tuple[object, ...]]
"""An expression, and what becomes of its variables."""


@contextmanager
def bounded_work(nodes: int) -> Iterator[None]:
    """Within, :func:`.build.substitute` raises Exhausted after so many nodes; equal work is done once.

    Inside of another bound, what is left of that is a bound, too.
    """
    before = getattr(_state, "left", None)
    _state.left = nodes if before is None else min(nodes, before)
    if before is None:
        _state.done = {}
    try:
        yield
    finally:
        if before is None:
            _state.done = None
        _state.left = before if before is None else before - (min(nodes, before) - _state.left)


def shared_work() -> AbstractContextManager[None]:
    """Within, equal work is done once; there is no other bound than that around it."""
    return bounded_work(sys.maxsize)


def spend() -> None:
    """Count a node that is rewritten; Exhausted after the last one."""
    left = getattr(_state, "left", None)
    if left is not None:
        if not left:
            raise Exhausted("its values have too many pieces")
        _state.left = left - 1


def remembered() -> dict[Work, Expr] | None:
    """What became of expressions within the outermost bound, for those who do the work to keep; None outside of any."""
    done: dict[Work, Expr] | None = getattr(_state, "done", None)
    return done
