"""Random streams over grids of cores: tiles are loaded, handed on from core to core, worked on, given back, cleared.

They have the phases of programs over cores: nests over rows and columns of cores in either order, inside loops over
blocks that take turns in slots. Places are drawn, too: lines that skip a core, turn around, cross or overlap, slots of
the block before or after, sums that nobody clears.

``python -m tests.support.oracle.random_programs.cores N`` shows stream number N and runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from archloom.oracle import taidl
from archloom.oracle.affine import Affine
from archloom.oracle.assembly import to_text
from archloom.oracle.stream import HbmTensor, Instr, Loop, Stream
from archloom.oracle.taidl.isa import Isa
from tests.support.oracle.random_programs.checks import Tally, compare

TYPES = [("i8", "int8", "i32", "int32"), ("i8", "int8", "i8", "int8"), ("f32", "float32", "f32", "float32")]
"""Types of tiles and of sums, each in TAIDL and in NumPy."""

BYTES = {"i8": 1, "i32": 4, "f32": 4}
TAIL = 3
"""Words of each buffer behind the last core, which drawn places may reach."""

TEXT = """
isa cores;

[tiles] ({tiles}) ({width} x {tile});
[sums] ({sums}) ({width} x {sum});

[take](dram, at, count) {{
    %B:{{count}}x{width}x{ts}xi8 <- $hbm[dram + {{count : {width} * {ts}, {width} : {ts}, {ts} : 1}}];
    %In:{{count}}x{width}x{tile} = {from_tile};
    %In -> $tiles[at + {{count : 1}}];
}}
[hand](source, target, count) {{
    %Block:{{count}}x{width}x{tile} <- $tiles[source + {{count : 1}}];
    %Block -> $tiles[target + {{count : 1}}];
}}
[work](x, y, to, count) {{
    %X:{{count}}x{width}x{tile} <- $tiles[x + {{count : 1}}];
    %Y:{{count}}x{width}x{tile} <- $tiles[y + {{count : 1}}];
    %Wide:{{count}}x{width}x{sum} = convert(%X);
    %Other:{{count}}x{width}x{sum} = convert(%Y);
    %Product:{{count}}x{width}x{sum} = multiply(%Wide, %Other);
    %Old:{{count}}x{width}x{sum} <- $sums[to + {{count : 1}}];
    %New:{{count}}x{width}x{sum} = add(%Old, %Product);
    %New -> $sums[to + {{count : 1}}];
}}
[give](dram, at, count) {{
    %Out:{{count}}x{width}x{sum} <- $sums[at + {{count : 1}}];
    %B:{{count}}x{width}x{ss}xi8 = {to_sum};
    %B -> $hbm[dram + {{count : {width} * {ss}, {width} : {ss}, {ss} : 1}}];
}}
[clear](at, count) {{
    %Zero:{{count}}x{width}x{sum} = constant(0);
    %Zero -> $sums[at + {{count : 1}}];
}}
[flush](dram, at, count) {{
    %Out:{{count}}x{width}x{sum} <- $sums[at + {{count : 1}}];
    %B:{{count}}x{width}x{ss}xi8 = {to_sum};
    %B -> $hbm[dram + {{count : {width} * {ss}, {width} : {ss}, {ss} : 1}}];
    %Zero:{{count}}x{width}x{sum} = constant(0);
    %Zero -> $sums[at + {{count : 1}}];
}}
"""

Maker = Callable[[Affine, Affine], Instr]


@dataclass
class Grid:
    """A machine and the kernel that is drawn for it; ``loops`` are the enclosing ones with their last value."""

    r: Random
    loops: dict[str, int] = field(default_factory=dict)
    serial: int = 0

    def __post_init__(self) -> None:
        r = self.r
        self.rows, self.columns = r.choice([1, 1, 2, 3]), r.choice([2, 3, 3, 4])
        self.slots, self.lines = r.choice([1, 2, 2, 3]), r.choice([1, 1, 2])
        self.outer, self.inner = r.choice([1, 2, 3]), r.choice([1, 2, 3, 4])
        self.width = r.choice([1, 2])
        self.by_core = r.random() < 0.5
        self.types = r.choice(TYPES)
        self.words = self.rows * self.columns * self.slots * self.lines + TAIL
        self.given = r.choice([2, 4]) * self.words

    # --- the machine ---

    @property
    def isa(self) -> Isa:
        tile, _, total, _ = self.types
        ts, ss = BYTES[tile], BYTES[total]
        text = TEXT.format(
            tiles=self.words, sums=self.words, width=self.width, tile=tile, sum=total, ts=ts, ss=ss,
            from_tile="reshape(%B)" if ts == 1 else "bitcast_convert(%B)",
            to_sum="reshape(%Out)" if ss == 1 else "bitcast_convert(%Out)")
        return taidl.instantiate(taidl.parse(text), {})

    def tensors(self) -> tuple[HbmTensor, HbmTensor]:
        tile, tile_name, _, total_name = self.types
        size = self.given * self.width * BYTES[tile]
        start = -(-size // 4) * 4
        return (HbmTensor("X", 0, (self.given, self.width), tile_name),
                HbmTensor("Y", start, (self.given, self.width), total_name))

    # --- addresses ---

    def chance(self, p: float) -> bool:
        return self.r.random() < p

    def within(self, form: Affine, count: int, words: int) -> Affine:
        """``form``, moved so that ``count`` words from there are below ``words``; a constant if it goes too far."""
        least, most = form.range({v: (0, last) for v, last in self.loops.items()})
        room = words - count
        if most - least > room:
            return Affine(self.r.randint(0, room))
        return form - min(least, 0) - max(0, most - room)

    def slot(self) -> Affine:
        """The slot of a block: that of the loops around, by turns, or always the same."""
        known = [Affine.variable(v) for v in "wv" if v in self.loops]
        if not known or self.slots == 1 or self.chance(0.15):
            return Affine(self.r.randrange(self.slots))
        block = known[0] if len(known) == 1 else self.r.choice(
            [known[0] * self.inner + known[1], known[0] * self.inner + known[1], known[1], known[0] + known[1]])
        return (block + self.r.choice([0, 0, 1])) % self.slots

    def place(self, row: Affine, column: Affine, slot: Affine) -> Affine:
        if self.by_core:
            return ((row * self.columns + column) * self.slots + slot) * self.lines
        return (slot * (self.rows * self.columns) + row * self.columns + column) * self.lines

    def drawn(self, form: Affine) -> Affine:
        """The place or, seldom, one near it."""
        if self.chance(0.06):
            form = form + self.r.choice([1, -1, self.lines, self.slots * self.lines])
        return self.within(form, self.lines, self.words)

    def dram(self, tensor: HbmTensor, size: int) -> Affine:
        form = Affine(0)
        for var in self.loops:
            form = form + Affine.variable(var) * self.r.choice([0, 1, 1, self.lines, self.lines * 2])
        return self.within(form, self.lines, self.given) * (self.width * size) + tensor.address

    # --- phases ---

    def nest(self, extents: Sequence[int], instr: Maker) -> tuple[Instr | Loop, ...]:
        """Loops over a grid in either order; ones of a single iteration may be left out."""
        self.serial += 1
        names = [f"r{self.serial}", f"c{self.serial}"]
        kept = [(n, e) for n, e in zip(names, extents, strict=True) if e > 1 or self.chance(0.2)]
        if self.chance(0.5):
            kept.reverse()
        self.loops.update({n: e - 1 for n, e in kept if e})
        forms = [Affine.variable(n) if (n, e) in kept else Affine(0) for n, e in zip(names, extents, strict=True)]
        node: Instr | Loop = instr(forms[0], forms[1])
        for name, extent in reversed(kept):
            node = Loop(name, 0, extent, 1, (node,))
        for name, _ in kept:
            self.loops.pop(name, None)
        return (node,)

    def take(self) -> tuple[Instr | Loop, ...]:
        slot, (x, _) = self.slot(), self.tensors()
        extents = self.r.choice([(self.rows, 1), (1, 1), (self.rows, self.columns)])
        return self.nest(extents, lambda r, c: Instr.make(
            "take", dram=self.dram(x, BYTES[self.types[0]]), at=self.drawn(self.place(r, c, slot)), count=self.lines))

    def hand(self) -> tuple[Instr | Loop, ...]:
        """Tiles down a row of cores, or down a column of them."""
        slot = self.slot()
        along_rows = self.rows > 1 and self.chance(0.4)
        length, others = (self.rows, self.columns) if along_rows else (self.columns, self.rows)
        hops = max(1, length - self.r.choice([1, 1, 1, 2]))
        step = self.r.choice([1, 1, 1, 1, 1, 2])
        backwards = self.chance(0.2)

        def made(first: Affine, second: Affine) -> Instr:
            line, other = (first, second) if along_rows else (second, first)
            if backwards:
                line = -line + length - 1
            after = line + (-step if backwards else step)
            ends = [(line, other), (after, other)]
            forms = [self.place(*(e if along_rows else e[::-1]), slot) for e in ends]
            if self.chance(0.05):
                forms[1] = self.place(*(ends[1] if along_rows else ends[1][::-1]), self.slot())
            return Instr.make("hand", source=self.drawn(forms[0]), target=self.drawn(forms[1]), count=self.lines)

        extents = (hops, others if self.chance(0.85) else 1)
        return self.nest(extents if along_rows else extents[::-1], made)

    def work(self) -> tuple[Instr | Loop, ...]:
        slot, to = self.slot(), self.slot()
        other = slot if self.chance(0.5) else self.slot()
        return self.nest((self.rows, self.columns), lambda r, c: Instr.make(
            "work", x=self.drawn(self.place(r, c, slot)), y=self.drawn(self.place(r, c, other)),
            to=self.drawn(self.place(r, c, to)), count=self.lines))

    def give(self) -> tuple[Instr | Loop, ...]:
        slot, (_, y) = self.slot(), self.tensors()
        kind = self.r.choice(["flush", "flush", "give", "clear"])

        def made(r: Affine, c: Affine) -> Instr:
            at = self.drawn(self.place(r, c, slot))
            if kind == "clear":
                return Instr.make(kind, at=at, count=self.lines)
            return Instr.make(kind, dram=self.dram(y, BYTES[self.types[2]]), at=at, count=self.lines)

        return self.nest((self.rows, self.columns), made)

    def phases(self) -> tuple[Instr | Loop, ...]:
        """Load, hand on, work, give back; each may be missing or come twice."""
        made: list[Instr | Loop] = []
        for phase in (self.take, self.take, self.hand, self.hand, self.work, self.give):
            if self.chance(0.8):
                made += phase()
        if self.chance(0.2):
            self.r.shuffle(made)
        return tuple(made)

    def stream(self, name: str) -> Stream:
        x, y = self.tensors()
        body: list[Instr | Loop] = list(self.phases()) if self.chance(0.3) else []
        loops = [("w", self.outer), ("v", self.inner)]
        self.loops.update({n: e - 1 for n, e in loops})
        inside: tuple[Instr | Loop, ...] = self.phases() or self.take()
        self.loops.pop("v")
        inside = (*(self.phases() if self.chance(0.15) else ()), Loop("v", 0, self.inner, 1, inside),
                  *(self.phases() if self.chance(0.3) else ()))
        body.append(Loop("w", 0, self.outer, 1, inside))
        self.loops.clear()
        size = self.width * BYTES[self.types[2]]
        # what all cores hold in the end: the sums, and the sums with the tiles
        body += [Instr.make("give", dram=y.address, at=0, count=self.words),
                 Instr.make("work", x=0, y=0, to=0, count=self.words),
                 Instr.make("give", dram=y.address + self.words * size, at=0, count=self.words)]
        return Stream("cores", (), (x,), (y,), y.address + self.given * size, tuple(body), name)


def check(number: int, tally: Tally) -> None:
    """Compare stream ``number`` on the interpreter, the oracle and the loops; Mismatch says where they differ."""
    grid = Grid(Random(f"cores {number}"))
    compare(to_text(grid.stream(f"cores {number}")), grid.isa, number, tally)
    tally.programs.add(number)


def main(words: list[str]) -> None:
    """Show and run the streams of these numbers."""
    for number in map(int, words):
        grid, tally = Grid(Random(f"cores {number}")), Tally()
        print(to_text(grid.stream(f"cores {number}")))
        check(number, tally)
        print(f"stream {number}: {'raised' if tally.raised else 'raised in part' if tally.partly else 'as loops'}")


if __name__ == "__main__":
    main(sys.argv[1:])
