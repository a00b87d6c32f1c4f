"""Products whose cores hand tiles to each other by semaphores: transfers and uses are signalled and waited for.

Who loads a block waits until those that get it have no more use for what lies in its place, and signals them when it is
there; the matrix unit waits for its blocks, and signals when it has used them. Sums go from the matrix unit to adders
and the writer in the same way. Each semaphore has one queue that signals it and one that waits for it, so that a count
cannot be meant for somebody else; blocks in turn have semaphores in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from mapper.spatial.emit import Emitter, Nodes, Place, _distances, _pairs, repeat
from mapper.spatial.zones import Wave, Zone
from oracle.affine import Affine
from oracle.errors import MappingError
from oracle.stream import Instr

QUEUES = {
    "reader": 0, "matrix": 1, "adder": 2, "writer": 3, "east": 4, "south": 5, "row": 6, "column": 7, "down": 8,
    "across": 9,
}
"""The queues of a core, as ``wormhole.taidl`` numbers them."""

_LINE_PEERS = 4
"""Who waits for a place in a line: the matrix units and forwarders of a core and of the next."""

Spans = list[tuple[range, range]]
ALONE = range(1)


@dataclass(frozen=True)
class Layout:
    """Which semaphores of a core stand for what: for each operand and slot, and for each block of sums."""

    slots: int
    outputs: int
    levels: int
    peers: int

    def full(self, loop: int, slot: Affine) -> Affine:
        """A block is there, for the matrix unit."""
        return slot + loop * self.slots

    def here(self, loop: int, slot: Affine) -> Affine:
        """A block is there, for who passes it on."""
        return slot + (2 + loop) * self.slots

    def sums(self, kind: str, turn: Affine) -> Affine:
        """Sums are ``ready`` for the adder, ``done`` for the writer, ``taken`` by another core or ``cleared``."""
        number = ("ready", "done", "taken", "cleared").index(kind)
        return turn + (4 * self.slots + number * self.outputs)

    def partial(self, level: int, turn: Affine) -> Affine:
        """Another core's sums are ready to be added."""
        return turn + (4 * self.slots + (4 + level) * self.outputs)

    def free(self, loop: int, slot: Affine, peer: Affine | int) -> Affine:
        """A core has no more use for what lies in its slot; kept by who fills it."""
        first = 4 * self.slots + (4 + self.levels) * self.outputs
        return (slot + loop * self.slots) * self.peers + peer + first

    @property
    def count(self) -> int:
        return 4 * self.slots + (4 + self.levels) * self.outputs + 2 * self.slots * self.peers


@dataclass(frozen=True)
class Signalling(Emitter):
    """The program of a product with semaphores."""

    @cached_property
    def layout(self) -> Layout:
        plan = self.plan
        levels = len(_distances(plan.columns[2])) + len(_distances(plan.rows[2]))
        return Layout(plan.slots, plan.outputs, levels, max(plan.spread(0), plan.spread(1), _LINE_PEERS))

    def nodes(self) -> Nodes:
        """The whole program: first, all places are free."""
        if self.layout.count > self.machine.semaphores:
            raise MappingError(
                f"plan {self.plan} needs {self.layout.count} semaphores in a core, which has {self.machine.semaphores}")
        return [Instr.make("launch"), *self._free_at_first(), *self.blocks()]

    # --- handshakes ----------------------------------------------------------------------------------------------
    def signal(
        self, queue: Affine, core: Affine, semaphore: Affine, n0: int = 1, s0: int = 0, n1: int = 1, s1: int = 0
    ) -> Instr:
        """``queue`` signals a semaphore of a core, and of n0 x n1 that are s0 and s1 cores apart."""
        each = self.machine.semaphores
        return Instr.make("signal", queue=queue, semaphore=core * each + semaphore,
                          n0=n0, s0=s0 * each, n1=n1, s1=s1 * each)

    def wait(self, queue: Affine, core: Affine, semaphore: Affine, count: int = 1) -> Instr:
        """``queue`` waits for ``count`` semaphores of a core."""
        return Instr.make("wait", queue=queue, semaphore=core * self.machine.semaphores + semaphore, count=count)

    def queue(self, name: str, core: Affine) -> Affine:
        return core * len(QUEUES) + QUEUES[name]

    def slot(self, loop: int, number: Affine) -> Affine:
        """Which of the semaphores in turn; a kept operand has one."""
        streamed = (self.plan.a, self.plan.b)[loop][1] == "stream"
        return number % self.plan.slots if streamed and self.plan.slots > 1 else Affine(0)

    # --- who sends to whom ---------------------------------------------------------------------------------------
    def pattern(self, loop: int) -> str:
        return (self.plan.a, self.plan.b)[loop][0]

    def places(self, loop: int, zone: Zone, others: tuple[range, range]) -> Spans:
        """Cores at a zone's places along ``loop`` and at ``others`` along the loop that does not index the operand."""
        mine = self.ranges(loop, zone)
        return [*([mine, others] if loop == 0 else [others, mine]), self.ranges(2, None)]

    def receivers(self, loop: int, these: tuple[Wave, Wave]) -> list[Spans]:
        """All cores that get blocks of an operand in a wave."""
        shared = 1 - loop
        zones: tuple[Zone | None, ...] = these[shared].zones if self.pattern(loop) == "none" else (None,)
        return [self.places(loop, z, self.ranges(shared, o)) for z in these[loop].zones for o in zones]

    def senders(self, loop: int, these: tuple[Wave, Wave]) -> list[Spans]:
        """The cores at which the senders of an operand's blocks begin."""
        pattern, shared = self.pattern(loop), 1 - loop
        if pattern == "none":
            return self.receivers(loop, these)
        rows, columns = self.ranges(shared, None)
        rows = ALONE if pattern in ("column", "down", "across", "wave") else rows
        columns = ALONE if pattern in ("row", "down", "across", "wave") else columns
        return [self.places(loop, zone, (rows, columns)) for zone in these[loop].zones]

    def sender(self, loop: int, place: Place) -> tuple[Affine, Affine]:
        """The queue that sends blocks to a core, and the core at which that begins."""
        pattern, shared = self.pattern(loop), 1 - loop
        zero = Affine(0)
        if pattern in ("column", "down", "across"):
            place = replace(place, row=_with(place.row, shared, zero))
        if pattern in ("row", "down", "across"):
            place = replace(place, column=_with(place.column, shared, zero))
        core, columns = self.core(place), self.machine.columns
        row, column = self.coordinates(place)
        first = {"row": row * columns, "column": column, "down": zero, "across": zero}.get(pattern, core)
        return self.queue("reader" if pattern in ("none", "wave") else pattern, first), core

    def coordinates(self, place: Place) -> tuple[Affine, Affine]:
        """The row and the column of a core in the mesh."""
        (rm, rn, rk), (cm, cn, ck) = place.row, place.column
        (_, rows_n, rows_k), (_, columns_n, columns_k) = self.plan.rows, self.plan.columns
        return (rm * rows_n + rn) * rows_k + rk, (cm * columns_n + cn) * columns_k + ck

    def peer(self, loop: int, place: Place) -> Affine:
        """The number of a core among those that share its blocks."""
        shared, pattern = 1 - loop, self.pattern(loop)
        row, column = place.row[shared], place.column[shared]
        if pattern in ("none", "wave"):
            return Affine(0)
        return column if pattern == "row" else row if pattern == "column" else row * self.plan.columns[shared] + column

    def sharers(self, loop: int) -> int:
        """How many cores a sender sends a block to."""
        shared = 1 - loop
        counts = {"row": self.plan.columns[shared], "column": self.plan.rows[shared]}
        trees = {"down", "across"}
        return self.plan.spread(shared) if self.pattern(loop) in trees else counts.get(self.pattern(loop), 1)

    # --- operands ------------------------------------------------------------------------------------------------
    def _free_at_first(self) -> Nodes:
        """Every slot of streamed operands and every block of sums, of all cores."""
        found: Nodes = []
        whole = tuple(Wave(0, 1, (Zone(*self._all(loop), 1),)) for loop in (0, 1))
        for loop in (0, 1):
            if (self.plan.a, self.plan.b)[loop][1] == "stream":
                found += repeat("s", range(self.plan.slots), lambda s, loop=loop: self._released(  # type: ignore[misc]
                    loop, (whole[0], whole[1]), s))

        def cleared(place: Place, root: bool) -> Nodes:
            core = self.core(place)
            queue = self.queue("writer" if root else "matrix", core)
            return [self.signal(queue, core, self.layout.sums("cleared", Affine(t))) for t in range(self.plan.outputs)]

        return found + self._by_root([self.ranges(loop, None) for loop in (0, 1)], cleared)

    def _all(self, loop: int) -> tuple[range, range]:
        """All places along a loop, as a zone has them."""
        rows, columns = range(self.plan.rows[loop]), range(self.plan.columns[loop])
        return (rows, columns) if self.plan.outer == "rows" else (columns, rows)

    def _released(self, loop: int, these: tuple[Wave, Wave], slot: Affine) -> Nodes:
        """Those that used a block have no more use for it."""
        if self.pattern(loop) == "wave":
            return self._line_released(loop, these, slot) + self._line_passed(loop, these, slot)
        found: Nodes = []
        for spans in self.receivers(loop, these):
            def free(place: Place) -> Nodes:
                _, sender = self.sender(loop, place)
                semaphore = self.layout.free(loop, slot, self.peer(loop, place))
                return [self.signal(self.queue("matrix", self.core(place)), sender, semaphore)]

            found += self.each(spans, free)
        return found

    def step(
        self, at: tuple[Affine, Affine], these: tuple[Wave, Wave], loads: tuple[bool, bool], k: Affine, depth: int,
        number: Affine, sums: Affine,
    ) -> Nodes:
        where = [self.held(loop, at[loop], k, number) for loop in (0, 1)]
        slots = [self.slot(loop, number) for loop in (0, 1)]
        found: Nodes = []
        for loop in (0, 1):
            if loads[loop]:
                found += self._sent(loop, at, these, k, depth, where[loop], slots[loop])
        for loop in (0, 1):
            if loads[loop]:
                for spans in self.receivers(loop, these):
                    def arrived(place: Place, loop: int = loop) -> Nodes:
                        core = self.core(place)
                        return [self.wait(self.queue("matrix", core), core, self.layout.full(loop, slots[loop]))]

                    found += self.each(spans, arrived)
        for zone, other in _pairs(these):
            def product(place: Place, m: int = zone.size, n: int = other.size) -> Nodes:
                return self.product(place, where[0], where[1], sums, (m, n, depth))

            found += self.each([self.ranges(0, zone), self.ranges(1, other), self.ranges(2, None)], product)
        for loop in (0, 1):
            if (self.plan.a, self.plan.b)[loop][1] == "stream":
                if self.pattern(loop) == "wave":
                    found += self._line_released(loop, these, slots[loop])
                else:
                    found += self._released(loop, these, slots[loop])
        return found

    def _sent(
        self, loop: int, at: tuple[Affine, Affine], these: tuple[Wave, Wave], k: Affine, depth: int, where: Affine,
        slot: Affine,
    ) -> Nodes:
        """The loads of a step, each after a wait for room, and then a signal that its block is there."""
        if self.pattern(loop) == "wave":
            return self._line(loop, at, these, k, depth, where, slot)
        found: Nodes = []
        streamed = (self.plan.a, self.plan.b)[loop][1] == "stream"
        if streamed:
            found += self._room(loop, these, slot)
        found += self.load(loop, at[loop], these, k, depth, where)
        shared, pattern = 1 - loop, self.pattern(loop)
        rows, columns = self.plan.rows[shared], self.plan.columns[shared]
        down, right = self.step_between(shared, "rows"), self.step_between(shared, "columns")
        to: tuple[int, ...] = {
            "row": (columns, right), "column": (rows, down), "down": (rows, down, columns, right),
            "across": (columns, right, rows, down),
        }.get(pattern, ())
        for spans in self.senders(loop, these):
            def there(place: Place) -> Nodes:
                queue, core = self.sender(loop, place)
                return [self.signal(queue, core, self.layout.full(loop, slot), *to)]

            found += self.each(spans, there)
        return found

    def _room(self, loop: int, these: tuple[Wave, Wave], slot: Affine) -> Nodes:
        """Senders wait until all that get their blocks have room for them."""
        found: Nodes = []
        both = 2 if self.pattern(loop) == "wave" else self.sharers(loop)
        for spans in self.senders(loop, these):
            def free(place: Place) -> Nodes:
                queue, core = self.sender(loop, place)
                return [self.wait(queue, core, self.layout.free(loop, slot, 0), both)]

            found += self.each(spans, free)
        return found

    def wave(
        self, at: tuple[Affine, Affine], these: tuple[Wave, Wave], loads: tuple[bool, bool],
        steps: tuple[tuple[int, int, int], ...], before: Affine,
    ) -> Nodes:
        found: Nodes = []
        outer = 0 if self.plan.order == "mn" else 1
        if (self.plan.a, self.plan.b)[outer][1] == "keep" and loads[outer]:
            # all of it is filled anew: whoever used what it held before has done so
            found += self._released(outer, these, Affine(0)) + self._room(outer, these, Affine(0))
            if self.pattern(outer) == "wave":
                found += self._line_room(outer, these, Affine(0))
        turn = self._turn(at)

        def cleared(place: Place) -> Nodes:
            core = self.core(place)
            return [self.wait(self.queue("matrix", core), core, self.layout.sums("cleared", turn))]

        for zone, other in _pairs(these):
            found += self.each([self.ranges(0, zone), self.ranges(1, other), self.ranges(2, None)], cleared)
        return found + super().wave(at, these, loads, steps, before)

    def _turn(self, at: tuple[Affine, Affine]) -> Affine:
        """Which of the blocks of sums in turn."""
        if self.plan.outputs == 1:
            return Affine(0)
        numbers = [w.first + w.count for w in (self.waves(0)[-1], self.waves(1)[-1])]
        turn = at[0] * numbers[1] + at[1] if self.plan.order == "mn" else at[1] * numbers[0] + at[0]
        return (turn + self.turns) % self.plan.outputs

    # --- lines of cores that pass tiles on -----------------------------------------------------------------------
    def _along(self, loop: int) -> tuple[str, int, int]:
        """The queue that passes tiles on, how many cores are in a line, and how far apart they are."""
        shared = 1 - loop
        rows, columns = self.plan.rows[shared], self.plan.columns[shared]
        if columns > 1:
            return "east", columns, self.step_between(shared, "columns")
        return "south", rows, self.step_between(shared, "rows")

    def _line(
        self, loop: int, at: tuple[Affine, Affine], these: tuple[Wave, Wave], k: Affine, depth: int, where: Affine,
        slot: Affine,
    ) -> Nodes:
        """The first core's load, and the way of its block from core to core."""
        streamed = (self.plan.a, self.plan.b)[loop][1] == "stream"
        found = self._room(loop, these, slot) if streamed else []
        way, length, far = self._along(loop)
        firsts = self.senders(loop, these)
        for zone in these[loop].zones:
            first = Zone(ALONE, ALONE, 0)
            found += self._load_zone(loop, "none", at[loop], zone, first, k, depth, where)

        def there(place: Place) -> Nodes:
            core = self.core(place)
            reader = self.queue("reader", core)
            return [self.signal(reader, core, self.layout.full(loop, slot)),
                    self.signal(reader, core, self.layout.here(loop, slot))]

        for spans in firsts:
            found += self.each(spans, there)
        for zone, spans in zip(these[loop].zones, firsts, strict=True):
            def hop(hops: range, last: bool, zone: Zone = zone, spans: Spans = spans) -> Nodes:
                def passed(i: Affine, place: Place) -> Nodes:
                    core = self.core(place) + i * far
                    l1, queue = core * self.machine.tiles + where, self.queue(way, core)
                    nodes: Nodes = [self.wait(queue, core, self.layout.here(loop, slot))]
                    if streamed:
                        nodes.append(self.wait(queue, core, self.layout.free(loop, slot, 2), 1 if last else 2))
                    nodes += [
                        Instr.make("forward", source=l1, target=l1 + far * self.machine.tiles, count=zone.size * depth),
                        self.signal(queue, core + far, self.layout.full(loop, slot))]
                    if not last:
                        nodes.append(self.signal(queue, core + far, self.layout.here(loop, slot)))
                    return nodes + (self._passed(loop, core, i, slot, hops) if streamed else [])

                return repeat("hop", hops, lambda i: self.each(spans, lambda place: passed(i, place)))

            for hops in (range(1), range(1, length - 2), range(max(1, length - 2), length - 1)):
                if len(hops):
                    found += hop(hops, hops.stop == length - 1)
        return found

    def _passed(self, loop: int, core: Affine, i: Affine, slot: Affine, hops: range) -> Nodes:
        """A core has passed its block on: who filled its place may fill it again."""
        way, _, far = self._along(loop)
        filler, peer = (core, 1) if hops.start == 0 else (core - far, 3)
        return [self.signal(self.queue(way, core), filler, self.layout.free(loop, slot, peer))]

    def _line_passed(self, loop: int, these: tuple[Wave, Wave], slot: Affine) -> Nodes:
        """Nobody in a line passes a block on."""
        _, length, far = self._along(loop)
        found: Nodes = []
        for spans in self.senders(loop, these):
            for hops in (range(1), range(1, length - 1)):
                def free(i: Affine, place: Place, hops: range = hops) -> Nodes:
                    return self._passed(loop, self.core(place) + i * far, i, slot, hops)

                found += repeat("hop", hops, lambda i, spans=spans, free=free: self.each(  # type: ignore[misc]
                    spans, lambda place: free(i, place)))
        return found

    def _line_released(self, loop: int, these: tuple[Wave, Wave], slot: Affine) -> Nodes:
        """The matrix units of a line have used a block."""
        _, length, far = self._along(loop)
        found: Nodes = []
        for spans in self.senders(loop, these):
            for hops in (range(1), range(1, length)):
                def free(i: Affine, place: Place, hops: range = hops) -> Nodes:
                    core = self.core(place) + i * far
                    filler, peer = (core, 0) if hops.start == 0 else (core - far, 2)
                    return [self.signal(self.queue("matrix", core), filler, self.layout.free(loop, slot, peer))]

                found += repeat("hop", hops, lambda i, spans=spans, free=free: self.each(  # type: ignore[misc]
                    spans, lambda place: free(i, place)))
        return found

    def _line_room(self, loop: int, these: tuple[Wave, Wave], slot: Affine) -> Nodes:
        """Those who pass a kept operand on wait until the next core has room for all of it."""
        way, length, far = self._along(loop)
        found: Nodes = []
        for spans in self.senders(loop, these):
            for hops in (range(length - 2), range(max(0, length - 2), length - 1)):
                def room(i: Affine, place: Place, last: bool) -> Nodes:
                    core = self.core(place) + i * far
                    count = 1 if last else 2
                    return [self.wait(self.queue(way, core), core, self.layout.free(loop, slot, 2), count)]

                last = hops.stop == length - 1
                found += repeat("hop", hops, lambda i, spans=spans, last=last: self.each(  # type: ignore[misc]
                    spans, lambda place: room(i, place, last)))
        return found

    # --- sums ----------------------------------------------------------------------------------------------------
    def _by_root(self, spans: Spans, body: Callable[[Place, bool], Nodes]) -> Nodes:
        """``body`` on all cores that share sums: on the first, which ends up with them, and on the others."""
        rows, columns = range(self.plan.rows[2]), range(self.plan.columns[2])
        found = self.each([*spans, (ALONE, ALONE)], lambda place: body(place, True))
        found += self.each([*spans, (ALONE, columns[1:])], lambda place: body(place, False))
        return found + self.each([*spans, (rows[1:], columns)], lambda place: body(place, False))

    def reduce(self, these: tuple[Wave, Wave], sums: Affine) -> Nodes:
        turn = self._turn_of(sums)
        found: Nodes = []
        spread = self.plan.spread(2) > 1
        for zone, other in _pairs(these):
            def ready(place: Place) -> Nodes:
                core = self.core(place)
                matrix, adder = self.queue("matrix", core), self.queue("adder", core)
                if not spread:
                    return [self.signal(matrix, core, self.layout.sums("done", turn))]
                semaphore = self.layout.sums("ready", turn)
                return [self.signal(matrix, core, semaphore), self.wait(adder, core, semaphore)]

            found += self.each([self.ranges(0, zone), self.ranges(1, other), self.ranges(2, None)], ready)
        if not spread:
            return found
        level = 0
        for axis, count in ((1, self.plan.columns[2]), (0, self.plan.rows[2])):
            alive = [range(self.plan.rows[2]), range(self.plan.columns[2])]
            if axis == 0:
                alive[1] = ALONE
            between = self.step_between(2, "columns" if axis else "rows")
            for distance in _distances(count):
                spans_k = list(alive)
                # who gave no sums before, and got none: at first everybody, then only the last of an odd number
                last = count - 1 - distance
                fresh = axis == 1 or self.plan.columns[2] == 1
                for targets, giver in ((range(last, last + 1), "matrix"), (range(0, last, 2 * distance), "adder")):
                    giver = "matrix" if fresh and distance == 1 else giver if fresh else "adder"
                    if targets and targets[0] % (2 * distance):
                        continue
                    spans_k[axis] = targets
                    for zone, other in _pairs(these):
                        def add(
                            place: Place, size: int = zone.size * other.size, far: int = distance * between,
                            level: int = level, giver: str = giver,
                        ) -> Nodes:
                            return self._added(self.core(place), far, size, sums, turn, level, giver)

                        spans = [self.ranges(0, zone), self.ranges(1, other), (spans_k[0], spans_k[1])]
                        found += self.each(spans, add)
                level += 1
        for zone, other in _pairs(these):
            def done(place: Place) -> Nodes:
                core = self.core(place)
                return [self.signal(self.queue("adder", core), core, self.layout.sums("done", turn))]

            found += self.each([self.ranges(0, zone), self.ranges(1, other), (ALONE, ALONE)], done)
        return found

    def _added(
        self, core: Affine, far: int, size: int, sums: Affine, turn: Affine, level: int, giver: str
    ) -> Nodes:
        """The sums of the core ``far`` away, which its queue ``giver`` made, onto those of ``core``; then the other has
        room for the next block."""
        other = core + far
        mine, theirs = core * self.machine.sums + sums, other * self.machine.sums + sums
        adder, matrix = self.queue("adder", core), self.queue("matrix", other)
        partial, taken = self.layout.partial(level, turn), self.layout.sums("taken", turn)
        return [
            self.signal(self.queue(giver, other), core, partial), self.wait(adder, core, partial),
            Instr.make("reduce", source=theirs, target=mine, count=size), self.signal(adder, other, taken),
            self.wait(matrix, other, taken), Instr.make("clear", acc=theirs, count=size),
            self.signal(matrix, other, self.layout.sums("cleared", turn)),
        ]

    def _turn_of(self, sums: Affine) -> Affine:
        """Which block of sums lies at ``sums``."""
        block = self.plan.block[0] * self.plan.block[1]
        return Affine(sums.constant // block, tuple((atom, factor // block) for atom, factor in sums.terms))

    def out(self, place: Place, first: tuple[Affine, Affine], size: tuple[int, int], acc: Affine) -> Nodes:
        core = self.core(place)
        turn = self._turn_of(acc - core * self.machine.sums)
        writer = self.queue("writer", core)
        return [self.wait(writer, core, self.layout.sums("done", turn)), *super().out(place, first, size, acc),
                self.signal(writer, core, self.layout.sums("cleared", turn))]


def _with(values: tuple[Affine, Affine, Affine], at: int, value: Affine) -> tuple[Affine, Affine, Affine]:
    a, b, c = (value if i == at else v for i, v in enumerate(values))
    return a, b, c
