"""Register files, memories and caches (section 3): what holds data; links (*added*): over what units reach it.

A cache is attached to access units like a storage, and backed by one. Links are what EQueue calls connections
(arXiv:2202.00739, section 3): an edge between a data storage and a unit may run over one, and several may share one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from archloom.acadl_models.acadl.base import ACADLObject, count, flag, latency, mapping, range_faults, tuples, word
from archloom.acadl_models.acadl.latency import Expression, Latency, parse

_STORED: tuple[str, ...] = ("joules_per_access", "joules_per_read", "joules_per_write", *ACADLObject.physical)


WRITE_AFTER_READ = ("finished", "started", "ignored")


@dataclass(frozen=True, eq=False)
class BufferStorage(ACADLObject):
    """Virtual: what buffers lie in, and how accesses to one place of it wait for one another.

    ``write_after_read`` (*added*): what a write waits for when an earlier instruction reads the same place: that it has
    ``"finished"``, that it has ``"started"`` (which reads at once), or nothing (``"ignored"``: writes are buffered).
    ``forwards_sums`` (*added*): an accumulation does not wait for earlier ones; False: it does, as a read and a write.
    """

    virtual: ClassVar[bool] = True

    write_after_read: str = field(default="finished", kw_only=True)
    forwards_sums: bool = field(default=True, kw_only=True)

    @property
    def hazards(self) -> Mapping[str, object]:
        """What must be the same in all storages of a buffer, by attribute."""
        return {"write_after_read": self.write_after_read, "forwards_sums": self.forwards_sums}

    def faults(self) -> list[str]:
        return super().faults() + word(self, "write_after_read", WRITE_AFTER_READ) + flag(self, "forwards_sums")


@dataclass(frozen=True, eq=False)
class RegisterFile(BufferStorage):
    """Registers of ``data_width`` bits each; ``registers`` maps a register's name to its initial value.

    ``physical_registers`` (*added*): registers are renamed, to one of so many; None: they are what they are called.
    ``joules_per_access`` (*added*): energy of each register that is read or written; ``joules_per_read`` and
    ``joules_per_write`` go before it.
    """

    virtual: ClassVar[bool] = False
    physical: ClassVar[tuple[str, ...]] = _STORED

    data_width: int = 32
    registers: Mapping[str, Any] = field(default_factory=dict)
    physical_registers: int | None = None
    joules_per_access: float | None = field(default=None, kw_only=True)
    joules_per_read: float | None = field(default=None, kw_only=True)
    joules_per_write: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.registers, Mapping):
            self._set("registers", dict(self.registers))
        super().__post_init__()

    def faults(self) -> list[str]:
        faults = super().faults() + count(self, "data_width")
        if not isinstance(self.registers, Mapping) or not self.registers:
            faults.append(f"registers must map at least one register name to a value, not {self.registers!r}")
        elif self.physical_registers is not None:
            faults += count(self, "physical_registers", len(self.registers) + 1)
            if self.write_after_read != "finished":
                faults.append("write_after_read has no meaning with physical_registers: a write waits for no read")
        return faults

    @property
    def is_renamed(self) -> bool:
        """Whether its registers are mapped to physical ones."""
        return self.physical_registers is not None

    @property
    def hazards(self) -> Mapping[str, object]:
        return {"physical_registers": self.is_renamed, **super().hazards}


@dataclass(frozen=True, eq=False)
class DataStorage(ACADLObject):
    """Virtual: words of ``data_width`` bits, ``max_concurrent_requests`` request slots and a FIFO before them.

    ``read_write_ports``: how many memory access units may be attached. ``port_width``: words in a transaction.
    ``shared_port`` (*added*): the beats of all slots follow one another on one port (a bus). ``joules_per_access``
    (*added*): energy of each word that is read or written; ``joules_per_read`` and ``joules_per_write`` go before it.
    """

    virtual: ClassVar[bool] = True
    physical: ClassVar[tuple[str, ...]] = _STORED
    latency_attributes: ClassVar[tuple[str, ...]] = ()

    data_width: int = 8
    max_concurrent_requests: int = 1
    read_write_ports: int = 1
    port_width: int = 1
    data: Mapping[int, Any] = field(default_factory=dict)
    shared_port: bool = False
    joules_per_access: float | None = field(default=None, kw_only=True)
    joules_per_read: float | None = field(default=None, kw_only=True)
    joules_per_write: float | None = field(default=None, kw_only=True)

    def latencies(self) -> dict[str, Expression]:
        return {a: parse(getattr(self, a)) for a in self.latency_attributes}

    def faults(self) -> list[str]:
        counts = ("data_width", "max_concurrent_requests", "read_write_ports", "port_width")
        faults = super().faults() + [f for c in counts for f in count(self, c)]
        faults += flag(self, "shared_port") + mapping(self, "data")
        return faults + [f for a in self.latency_attributes for f in latency(a, getattr(self, a), 1)]


ROLES = ("weights", "tables", "activations")
"""What tensors of HBM are: constants, tables of functions among them, and what is computed."""


@dataclass(frozen=True, eq=False)
class MemoryInterface(DataStorage, BufferStorage):
    """Virtual: latencies of a transaction, and ``address_ranges``: half-open ranges of word addresses held here.

    ``roles`` (*added*): of the memories of HBM, which of the :data:`ROLES` of tensors lie in this one.
    ``burst_bytes`` (*added*): words move in bursts of so many bytes, each from a multiple of them on; 0: one by one.
    ``stored_share`` (*added*): constants lie here compressed, in so much of their bytes on the mean; words, ports and
    addresses are those of what a decoder at the memory gives.
    """

    virtual: ClassVar[bool] = True
    latency_attributes: ClassVar[tuple[str, ...]] = ("read_latency", "write_latency")

    read_latency: Latency = 1
    write_latency: Latency = 1
    address_ranges: Sequence[tuple[int, int]] = ()
    roles: tuple[str, ...] = field(default=(), kw_only=True)
    burst_bytes: int = field(default=0, kw_only=True)
    stored_share: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        self._set("address_ranges", tuples(self.address_ranges))
        super().__post_init__()

    @property
    def words(self) -> int:
        """How many words the address ranges hold."""
        return sum(stop - start for start, stop in self.address_ranges)

    @property
    def size_bytes(self) -> int:
        """Bytes in all address ranges."""
        return self.words * self.data_width // 8

    def faults(self) -> list[str]:
        faults = super().faults() + range_faults("address_ranges", self.address_ranges, True)
        if not isinstance(self.roles, tuple) or not set(self.roles) <= set(ROLES):
            faults.append(f"roles must be a tuple of {', '.join(map(repr, ROLES))}, not {self.roles!r}")
        share = self.stored_share
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < math.inf:
            faults.append(f"stored_share must be a positive number, not {share!r}")
        return faults + count(self, "burst_bytes", 0)


@dataclass(frozen=True, eq=False)
class SRAM(MemoryInterface):
    """On-chip memory with constant latencies."""

    virtual: ClassVar[bool] = False


@dataclass(frozen=True, eq=False)
class DRAM(MemoryInterface):
    """Off-chip memory; non-zero ``t_RCD``, ``t_RP`` and ``t_RAS`` (cycles) ask for timing by the state of its banks.

    ``bank_address_ranges``: the words of each bank, by default one bank of all ``address_ranges``. ``row_words``
    (*added*): words of a row, which stays open until another row of its bank is wanted.

    ``channels`` (*added*): parts of the shared port, each of which moves its share of ``port_width``: the words from
    ``k * channel_words`` on, so many of them, lie in the channel ``k % channels``.

    ``joules_per_activation`` (*added*): energy of each row that is opened, where the state of the banks is timed.
    """

    virtual: ClassVar[bool] = False
    physical: ClassVar[tuple[str, ...]] = ("joules_per_activation", *_STORED)

    bank_address_ranges: Sequence[tuple[int, int]] = ()
    t_RCD: int = 0
    t_RP: int = 0
    t_RAS: int = 0
    row_words: int = 0
    channels: int = 1
    channel_words: int = 0
    joules_per_activation: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._set("bank_address_ranges", tuples(self.bank_address_ranges))
        super().__post_init__()

    @property
    def has_bank_state(self) -> bool:
        """Whether transactions are timed by the rows that are open."""
        return bool(self.t_RCD or self.t_RP or self.t_RAS)

    @property
    def is_interleaved(self) -> bool:
        """Whether its words are dealt out to several channels."""
        return self.channels > 1

    @property
    def banks(self) -> tuple[tuple[int, int], ...]:
        """The half-open range of word addresses of each bank."""
        return tuple(self.bank_address_ranges or self.address_ranges)

    def faults(self) -> list[str]:
        faults = [f for t in ("t_RCD", "t_RP", "t_RAS", "row_words") for f in count(self, t, 0)]
        faults += self._channel_faults()
        if not faults and self.has_bank_state and not self.row_words:
            faults.append("t_RCD, t_RP and t_RAS ask for the state of the banks: state row_words, the words of a row")
        faults += range_faults("bank_address_ranges", self.bank_address_ranges, False)
        faults = super().faults() + faults
        if not faults and self.bank_address_ranges:
            faults += self._cover_faults()
        return faults

    def _channel_faults(self) -> list[str]:
        faults = count(self, "channels") + count(self, "channel_words", 0)
        if faults or not self.is_interleaved:
            return faults
        if not self.channel_words:
            faults.append(f"channels={self.channels} needs channel_words, the words that lie in one before the next")
        if not self.shared_port:
            faults.append(f"channels={self.channels} are parts of a port for all requests: state shared_port=True")
        if self.has_bank_state:
            faults.append(f"channels={self.channels} with t_RCD, t_RP or t_RAS: rows in channels have no timing")
        return faults

    def _cover_faults(self) -> list[str]:
        whole, banks = _joined(self.address_ranges), _joined(self.bank_address_ranges)
        if whole == banks:
            return []
        return [f"bank_address_ranges hold the words {banks}, expected those of address_ranges, {whole}"]


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ascending ranges with neighbours made one."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return found


# --- caches ----------------------------------------------------------------------------------------------------
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
    ``miss_registers`` (*added*): how many lines may be on their way to the cache at once; None: as many as are missed.
    ``line_requests`` (*added*): an access makes a request for each line that it touches, and not one for all.
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
    miss_registers: int | None = None
    line_requests: bool = False

    def faults(self) -> list[str]:
        faults = super().faults() + count(self, "cache_line_size") + count(self, "seed", 0)
        faults += flag(self, "write_allocate") + flag(self, "write_back") + flag(self, "line_requests")
        faults += count(self, "miss_registers") if self.miss_registers is not None else []
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


# --- links -----------------------------------------------------------------------------------------------------
MODES = ("streaming", "window")


@dataclass(frozen=True, eq=False)
class Link(ACADLObject):
    """Carries ``bandwidth`` bytes in a cycle, each ``latency`` cycles long.

    ``"streaming"``: reads and writes have a channel each; ``"window"``: one channel for both, and a request holds the
    storage alone while it is under way. ``burst_bytes``: requests over it ask for bursts of so many bytes, each from a
    multiple of them on; 0: for any words. ``joules_per_byte``: energy of each byte that is carried.
    """

    virtual: ClassVar[bool] = False
    physical: ClassVar[tuple[str, ...]] = ("joules_per_byte", *ACADLObject.physical)

    bandwidth: int = 1
    mode: str = "streaming"
    latency: int = 0
    burst_bytes: int = field(default=0, kw_only=True)
    joules_per_byte: float | None = field(default=None, kw_only=True)

    @property
    def exclusive(self) -> bool:
        """Whether a request over the link has its storage to itself."""
        return self.mode == "window"

    def faults(self) -> list[str]:
        faults = super().faults() + count(self, "bandwidth") + count(self, "latency", 0) + count(self, "burst_bytes", 0)
        return faults + word(self, "mode", MODES)
