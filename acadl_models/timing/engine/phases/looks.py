"""Jitted: what was asked of caches, one after the other, so that skipping can ask the same of later periods."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import H
from archloom.acadl_models.timing.engine.memory_state import Look, Tail
from archloom.acadl_models.timing.engine.state import M


@jit
def look_at(t, m, number):
    """The record of what was asked as number so many."""
    return m[M.LOOKS] + (number & (t[H.LOOKS] - 1)) * Look.SIZE


@jit
def note(t, m, tail, op, cache, first, more):
    """A request asks something of a cache."""
    if m[M.REMEMBERS] == 1:
        append(t, m, op, cache, m[tail + Tail.ACCESS], first, more)


@jit
def append(t, m, op, cache, access, first, more):
    look = look_at(t, m, m[M.LOOKED])
    m[look + Look.OP], m[look + Look.CACHE], m[look + Look.ACCESS] = op, cache, access
    m[look + Look.FROM], m[look + Look.MORE] = first, more
    m[M.LOOKED] += 1
