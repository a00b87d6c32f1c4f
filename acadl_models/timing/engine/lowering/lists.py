"""Lowering what each instruction has of conflicts and requests, as lists of records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.layout import AccessKind, AccessSpec, H, ReadsHold
from archloom.acadl_models.timing.engine.lowering.accessing import Entry
from archloom.acadl_models.timing.engine.lowering.tables import Array, Tables
from archloom.acadl_models.timing.engine.state import Ends


def access_lists(
    tables: Tables, entries: Sequence[Entry], counts: Sequence[int], first: int, records: Sequence[int]
) -> Array:
    """Put the lists of all instructions; returns the fields from ``Instruction.NODES`` on, int64 [instruction, field].

    ``counts``: accesses of each instruction; ``records``: the AccessSpec records of all, which lie at ``first``.
    """
    d = tables.header
    kind = np.array([e.kind for e in entries], np.int64)
    group = np.array([e.conflict_class for e in entries], np.int64)
    banked = np.array([bool(e.form.place.banks) for e in entries], bool)
    count = np.array(counts, np.int64)
    static = np.repeat(np.arange(len(count)), count)
    node = d[H.SLOT_ACCESSES] + d[H.ACCESS_SIZE] * (np.arange(len(kind)) - (np.cumsum(count) - count)[static])
    place = first + AccessSpec.SIZE * np.arange(len(kind))
    ends = (3 * group + kind) * Ends.SIZE
    if d[H.READS_HOLD] == ReadsHold.NEVER:
        ends[kind == AccessKind.READ] = NONE

    tracked = np.flatnonzero(group != NONE)
    nodes = _put(tables, np.stack((node, place, ends), axis=1)[tracked], static[tracked], len(count))
    present = np.zeros((d[H.CLASSES], 3), bool)
    present[group[tracked], kind[tracked]] = True
    opposing = present[group[tracked]]
    alike = np.flatnonzero(kind[tracked] != AccessKind.WRITE)  # two reads do not conflict, nor do two accumulations
    opposing[alike, kind[tracked][alike]] = False
    columns = np.array(records, np.int64).reshape(-1, AccessSpec.SIZE)[:, (AccessSpec.MET, AccessSpec.REACH)]
    row, other = np.nonzero(opposing)
    mine = tracked[row]
    checked = np.stack(((3 * group[mine] + other) * Ends.SIZE, node[mine], *columns[mine].T), axis=1)
    checks = _put(tables, checked, static[mine], len(count))

    asking = np.flatnonzero(banked)
    asking = asking[np.lexsort((kind[asking] != AccessKind.READ, static[asking]))]
    parts = _put(tables, place[asking][:, None], static[asking], len(count))
    return np.stack((*nodes, *checks, *parts), axis=1)


def _put(tables: Tables, records: Array, static: NDArray[np.int64], statics: int) -> tuple[Array, Array]:
    """Put records that come instruction by instruction; returns where those of each begin, and how many it has."""
    counts = np.bincount(static, minlength=statics)
    position = tables.put(records.reshape(-1).tolist())
    return position + records.shape[1] * (np.cumsum(counts) - counts), counts
