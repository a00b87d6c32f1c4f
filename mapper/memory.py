"""Addresses in HBM for the tensors of a workload, each in its place where it has one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from archloom.mapper.reuse import ceil_div
from archloom.mapper.workload import Workload
from archloom.oracle.stream import HbmTensor, Node, Stream
from archloom.oracle.validate import tensor_bytes

ALIGNMENT_BYTES = 64


def place(
    tensors: Iterable[tuple[str, tuple[int, ...], str, int]], *, guard_bytes: int = 0, first: int = 0
) -> list[HbmTensor]:
    """Addresses from ``first`` on for (name, shape, dtype, bytes) one after the other, aligned, none at address 0.

    ``guard_bytes`` stay free in front of the first tensor.
    """
    address = align(max(1, first + guard_bytes))
    placed = []
    for name, shape, dtype, size in tensors:
        placed.append(HbmTensor(name, address, shape, dtype))
        address = align(address + size)
    return placed


def align(address: int) -> int:
    """The next multiple of the alignment."""
    return ceil_div(address, ALIGNMENT_BYTES) * ALIGNMENT_BYTES


@dataclass(frozen=True)
class Memory:
    """Where the tensors of a workload lie in HBM: arguments, then the result, each kind in its place if it has one."""

    workload: Workload
    tensors: tuple[HbmTensor, ...]

    @staticmethod
    def of(workload: Workload, guard_bytes: int = 0) -> "Memory":
        """One after the other; ``guard_bytes`` stay free in front of the first of each place."""
        tensors, places = (*workload.inputs, workload.output), dict(workload.places)
        found: dict[str, HbmTensor] = {}
        for at in dict.fromkeys(places.get(t.name) for t in tensors):
            mine = ((t.name, t.stored_shape, t.dtype, t.stored_bytes) for t in tensors if places.get(t.name) == at)
            first = 0 if at is None else at.first
            found |= {t.name: t for t in place(mine, guard_bytes=guard_bytes, first=first)}
        return Memory(workload, tuple(found[t.name] for t in tensors))

    @property
    def by_name(self) -> dict[str, HbmTensor]:
        return {t.name: t for t in self.tensors}

    @property
    def end(self) -> int:
        """The first aligned address behind the result."""
        return align(self.tensors[-1].address + self.workload.output.stored_bytes)

    def stream(
        self, isa: str, parameters: tuple[tuple[str, int], ...], body: Iterable[Node], more_bytes: int = 0
    ) -> Stream:
        """The stream of ``body``, with ``more_bytes`` of HBM behind the result."""
        *arguments, result = self.tensors
        ends = [t.address + tensor_bytes(t) for t in self.tensors]
        return Stream(isa, parameters, tuple(arguments), (result,), align(max(self.end + more_bytes, *ends)),
                      tuple(body), self.workload.name)
