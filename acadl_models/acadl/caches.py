"""Caches (section 3): attached to access units like a storage, and backed by one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from archloom.acadl_models.acadl.base import count, flag
from archloom.acadl_models.acadl.latency import Latency
from archloom.acadl_models.acadl.storages import DataStorage


class ReplacementPolicy(Enum):
    """Which line of a set a cache gives up."""

    LRU = "least recently used"
    FIFO = "first in, first out"
    MRU = "most recently used"
    RANDOM = "random"


@dataclass(frozen=True, eq=False)
class CacheInterface(DataStorage):
    """Virtual: the attributes that caches share.

    ``cache_line_size`` is in bytes. ``seed`` (*added*) starts the generator of the policy ``RANDOM``.
    """

    virtual: ClassVar[bool] = True
    latency_attributes: ClassVar[tuple[str, ...]] = ("miss_latency", "hit_latency")

    write_allocate: bool = True
    write_back: bool = True
    miss_latency: Latency = 1
    hit_latency: Latency = 1
    cache_line_size: int = 1
    replacement_policy: ReplacementPolicy = ReplacementPolicy.LRU
    seed: int = 0

    def faults(self) -> list[str]:
        faults = super().faults() + count(self, "cache_line_size") + count(self, "seed", 0)
        faults += flag(self, "write_allocate") + flag(self, "write_back")
        if not isinstance(self.replacement_policy, ReplacementPolicy):
            valid = ", ".join(f"ReplacementPolicy.{p.name}" for p in ReplacementPolicy)
            faults.append(f"replacement_policy must be one of {valid}, not {self.replacement_policy!r}")
        return faults


@dataclass(frozen=True, eq=False)
class SetAssociativeCache(CacheInterface):
    """A cache of ``sets`` sets with ``ways`` lines each."""

    virtual: ClassVar[bool] = False

    sets: int = 1
    ways: int = 1

    @property
    def size_bytes(self) -> int:
        """Bytes of all lines."""
        return self.sets * self.ways * self.cache_line_size

    def faults(self) -> list[str]:
        return super().faults() + count(self, "sets") + count(self, "ways")
