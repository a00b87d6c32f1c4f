"""Graphs whose storages have some way in which accesses wait for one another, made of others."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

from archloom.acadl_models.acadl import ArchitectureGraph, BufferStorage, RegisterFile
from archloom.acadl_models.acadl.storages import WRITE_AFTER_READ
from tests.support.acadl_models.reordering import exchanged


def random_hazards(r: Random, graph: ArchitectureGraph) -> ArchitectureGraph:
    """The graph with a choice for all storages of each buffer, and of those that share one with them."""
    chosen: dict[str, dict[str, Any]] = {}
    for banks in graph.buffers.values():
        names = {bank.storage for bank in banks}
        choice = next((chosen[name] for name in sorted(names) if name in chosen), None) or {
            "write_after_read": r.choice(WRITE_AFTER_READ), "forwards_sums": r.random() < 0.7}
        chosen |= dict.fromkeys(names, choice)
    return exchanged(graph, *[_with(graph[name], choice) for name, choice in chosen.items()])


def _with(storage: object, choice: dict[str, Any]) -> BufferStorage:
    assert isinstance(storage, BufferStorage)
    fixed = {"write_after_read": "finished"} if isinstance(storage, RegisterFile) and storage.is_renamed else {}
    return dataclasses.replace(storage, **{**choice, **fixed})
