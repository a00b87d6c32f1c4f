"""The statistics of the step-by-step simulator, counted plainly: cycle by cycle and request by request.

Definitions are those of :mod:`archloom.acadl_models.timing.result`; the fast engine arrives at the same figures
otherwise.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from archloom.acadl_models.timing.loops import LoopSites
from archloom.acadl_models.timing.program import Program, StaticInstruction
from archloom.acadl_models.timing.result import LinkTiming, LoopTiming, PortTiming


class Channel:
    """Bytes in each cycle of one direction of a storage or of a link."""

    def __init__(self) -> None:
        self.cycles: Counter[int] = Counter()
        self.alone = 0

    def spread(self, finish: int, beats: int, size: int) -> None:
        """``size`` bytes in the cycles ``finish - beats .. finish - 1``, as evenly as whole bytes allow."""
        each, more = divmod(size, beats)
        for k in range(beats):
            self.cycles[finish - beats + k] += each + (k < more)

    def fill(self, first: int, size: int, bandwidth: int) -> None:
        """``size`` bytes from the cycle ``first`` on, ``bandwidth`` in each, the rest in the last."""
        for k in range(-(-size // bandwidth)):
            self.cycles[first + k] += min(bandwidth, size - k * bandwidth)

    def timing(self) -> PortTiming:
        """The figures of the whole run."""
        used = [n for n in self.cycles.values() if n]
        peak = max(used, default=0)
        return PortTiming(sum(used), len(used), peak, used.count(peak))


class Tally:
    """What is counted beside the state of the machine."""

    def __init__(self, program: Program) -> None:
        self.sites = LoopSites(program)
        self.own_cycles: Counter[int] = Counter()
        self.ports: defaultdict[tuple[str, bool], Channel] = defaultdict(Channel)
        self.channels: defaultdict[tuple[str, bool], Channel] = defaultdict(Channel)
        self.link_waits: Counter[str] = Counter()

    def transfer(self, storage: str, is_read: bool, finish: int, beats: int, size: int, alone: bool) -> None:
        """A request moves its bytes before it finishes; ``alone``: counted as if no other did at the same time."""
        channel = self.ports[storage, is_read]
        if alone:  # in cycles of its own, which no other request shares
            channel.alone -= beats
        channel.spread(channel.alone + beats if alone else finish, beats, size)

    def link(self, link: str, is_read: bool, first: int, size: int, bandwidth: int, waited: int) -> None:
        """A link carries a request from the cycle ``first`` on; it ``waited`` for its channel."""
        self.channels[link, is_read].fill(first, size, bandwidth)
        self.link_waits[link] += waited

    def cycle(self, oldest: StaticInstruction | None) -> None:
        """The end of a cycle: ``oldest`` is the oldest instruction that is not finished."""
        if oldest is not None:
            self.own_cycles[self.sites.home[oldest.index]] += 1

    def links(self, names: list[str]) -> tuple[LinkTiming, ...]:
        """The figures of all links."""
        read, write = ([self.channels[name, is_read].timing() for name in names] for is_read in (True, False))
        return tuple(map(LinkTiming, names, read, write, (self.link_waits[name] for name in names)))

    def loops(self) -> tuple[LoopTiming, ...]:
        """The figures of all loops; every iteration was stepped."""
        own = [self.own_cycles[k] for k in range(len(self.sites.sites))]
        return self.sites.timings(own, [s.iterations for s in self.sites.sites])


def fetch_port(total: int, width: int, data_width: int) -> PortTiming:
    """The port of an instruction memory: each fetch moves up to ``width`` words of instructions in one cycle."""
    sizes = {width: total // width, total % width: 1}
    fetches = {-(-words * data_width // 8): count for words, count in sizes.items() if words and count}
    peak = max(fetches, default=0)
    return PortTiming(-(-total * data_width // 8), -(-total // width), peak, fetches.get(peak, 0))
