"""What jitted functions are made with; what they are made of is in :mod:`.plain`, whose functions they call.

A jitted function is a plain Python function. An entry point is one, too, with ``ARCHLOOM_ENGINE=plain`` in the
environment, read when the engine is imported: nothing is compiled then, and every access to the engine's arrays is
checked, slower by far, for tests and for looking into a run with a debugger. Without it an entry point is compiled with
all that it calls (:mod:`.compiling`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from archloom.acadl_models.timing.engine.fields import PLAIN_MODE
from archloom.acadl_models.timing.engine.plain import JITTED
from archloom.acadl_models.timing.engine.plain import constant_pointer as constant_pointer
from archloom.acadl_models.timing.engine.plain import copy_words as copy_words
from archloom.acadl_models.timing.engine.plain import pointer as pointer
from archloom.acadl_models.timing.engine.plain import trailing_zeros as trailing_zeros
from archloom.acadl_models.timing.engine.plain import word as word

Function = TypeVar("Function", bound=Callable[..., Any])


def jit(function: Function) -> Function:
    """For functions that are compiled into an entry point."""
    JITTED[function] = ""
    return function


def jit_inline(function: Function) -> Function:
    """The same for those on the way of every instruction: compiled into each function that calls them."""
    JITTED[function] = "alwaysinline"
    return function


def entry(function: Callable[..., Any]) -> Any:
    """For functions that are called with arrays [n] int64 from outside; they return an integer or nothing."""
    if PLAIN_MODE:
        return function
    from archloom.acadl_models.timing.engine.compiling import Entry

    return Entry(jit(function))


def for_each(fields: Sequence[int], step: Any) -> Any:
    """A jitted ``(m, h, record, at, value)`` that calls ``step(m, h, field, at, value)`` for each field of a record.

    ``at`` grows by 1 from field to field; its end is returned. The fields are compiled in, one call after the other.
    """
    if not fields:
        return _nothing
    first, rest = fields[0], for_each(fields[1:], step)

    @jit_inline
    def each(m, h, record, at, value):
        step(m, h, record + first, at, value)
        return rest(m, h, record, at + 1, value)

    return each


@jit_inline
def _nothing(m, h, record, at, value):
    return at
