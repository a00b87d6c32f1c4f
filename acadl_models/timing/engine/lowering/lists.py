"""Lowering what each instruction has of conflicts and requests, as lists of records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.lowering.accessing import Entry
from archloom.acadl_models.timing.engine.lowering.tables import Array, Tables


def access_lists(
    tables: Tables, entries: Sequence[Entry], counts: Sequence[int], first: int, records: Sequence[int]
) -> Array:
    """Put the lists of all instructions; returns the TI fields from ``TI_NODES`` on, int64 [instruction, field].

    ``counts``: accesses of each instruction; ``records``: the TA records of all, which lie at ``first``.
    """
    d = tables.header
    kind = np.array([e.kind for e in entries], np.int64)
    group = np.array([e.conflict_class for e in entries], np.int64)
    banked = np.array([bool(e.form.place.banks) for e in entries], bool)
    count = np.array(counts, np.int64)
    static = np.repeat(np.arange(len(count)), count)
    node = d[H_SLOT_ACCESSES] + d[H_ACCESS_SIZE] * (np.arange(len(kind)) - (np.cumsum(count) - count)[static])
    place = first + TA_SIZE * np.arange(len(kind))
    ends = (3 * group + kind) * C_SIZE
    if d[H_READS_HOLD] == READS_NEVER:
        ends[kind == READ] = NONE

    tracked = np.flatnonzero(group != NONE)
    nodes = _put(tables, np.stack((node, place, ends), axis=1)[tracked], static[tracked], len(count))
    present = np.zeros((d[H_CLASSES], 3), bool)
    present[group[tracked], kind[tracked]] = True
    opposing = present[group[tracked]]
    alike = np.flatnonzero(kind[tracked] != WRITE)  # two reads do not conflict, nor do two accumulations
    opposing[alike, kind[tracked][alike]] = False
    columns = np.array(records, np.int64).reshape(-1, TA_SIZE)[:, (TA_MET, TA_REACH)]
    row, other = np.nonzero(opposing)
    mine = tracked[row]
    checked = np.stack(((3 * group[mine] + other) * C_SIZE, node[mine], *columns[mine].T), axis=1)
    checks = _put(tables, checked, static[mine], len(count))

    asking = np.flatnonzero(banked)
    asking = asking[np.lexsort((kind[asking] != READ, static[asking]))]
    parts = _put(tables, place[asking][:, None], static[asking], len(count))
    return np.stack((*nodes, *checks, *parts), axis=1)


def _put(tables: Tables, records: Array, static: NDArray[np.int64], statics: int) -> tuple[Array, Array]:
    """Put records that come instruction by instruction; returns where those of each begin, and how many it has."""
    counts = np.bincount(static, minlength=statics)
    position = tables.put(records.reshape(-1).tolist())
    return position + records.shape[1] * (np.cumsum(counts) - counts), counts
