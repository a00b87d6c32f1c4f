"""What jitted functions are made with: Numba (:mod:`.compiling`) or, on demand, plain Python (:mod:`.plain`).

With ``ARCHLOOM_ENGINE=plain`` in the environment, read when the engine is imported, nothing is compiled, and every
access to the engine's arrays is checked: slower by far, for tests and for looking into a run with a debugger.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from archloom.acadl_models.timing.engine.fields import PLAIN_MODE

_maker: Any = import_module("archloom.acadl_models.timing.engine." + ("plain" if PLAIN_MODE else "compiling"))
jit, jit_inline, entry, prepare = _maker.jit, _maker.jit_inline, _maker.entry, _maker.prepare
pointer, constant_pointer, copy_words = _maker.pointer, _maker.constant_pointer, _maker.copy_words
python_of, trailing_zeros, word = _maker.python_of, _maker.trailing_zeros, _maker.word


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
