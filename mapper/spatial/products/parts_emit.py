"""From plans of several products on parts of a mesh to streams: cores of all parts do the same for other products."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from archloom.mapper.spatial.epilogue import SLOTS, Beside, finished
from archloom.mapper.spatial.machines.machine import SIDE, TILE_BYTES, Machine
from archloom.mapper.spatial.plan import PartedPlan
from archloom.mapper.spatial.products.convolution import PIXEL, Convolution, Places
from archloom.mapper.spatial.products.parts import Contraction
from archloom.mapper.spatial.programs.emit import ZERO, Emitter, Place
from archloom.mapper.spatial.programs.waves import Nodes, Steps, Wave, cut, repeat, repeat_waves, waves
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr

_NO_WAVE = Wave(0, 0, ())


@dataclass(frozen=True, kw_only=True)
class PartedEmitter(Emitter):
    """The program of all parts; ``parts`` of the mesh, and which of them have a product in the present ``wave``."""

    work: Contraction
    parts: tuple[int, int]
    bias: int
    residual: int
    wave_of: Wave = _NO_WAVE
    at: Affine = ZERO
    turn: Affine = ZERO
    """Blocks of sums that a core has stored before."""

    def nodes(self) -> Nodes:
        """The program after the launch: waves of products, each dealt out to the parts."""
        turns = prod(last.first + last.count for last in (self.waves(0)[-1], self.waves(1)[-1]))
        return repeat_waves("wp", waves(self.work.problems, 1, *self.parts), lambda at, wave: Emitter.nodes(
            replace(self, wave_of=wave, at=at, turns=at * turns)))

    def each(self, spans: list[tuple[range, range]], body: Callable[[Place], Nodes]) -> Nodes:
        """Loops over the cores of every part that has a product, whose places along m, n and k lie in ``spans``."""
        rows, columns = self.machine.rows // self.parts[0], self.machine.columns // self.parts[1]

        def part(r: Affine, c: Affine) -> Nodes:
            problem = self.at * prod(self.parts) + r * self.parts[1] + c
            origin = r * (rows * self.machine.columns) + c * columns
            return Emitter.each(self, spans, lambda place: body(replace(place, problem=problem, origin=origin)))

        found: Nodes = []
        for zone in self.wave_of.zones:
            found += repeat("rp", zone.slow, lambda r, zone=zone: repeat("cp", zone.fast, lambda c: part(r, c)))  # type: ignore[misc]
        return found

    def store(self, at: tuple[Affine, Affine], these: tuple[Wave, Wave], sums: Affine) -> Nodes:
        return Emitter.store(replace(self, turn=self.turn_of(at)), at, these, sums)

    def out(self, place: Place, first: tuple[Affine, Affine], size: tuple[int, int], acc: Affine) -> Nodes:
        """The epilogue of a block, and its way to memory."""
        gemm, width = self.gemm, self.gemm.n * TILE_BYTES
        tile = (place.problem * gemm.m + first[0]) * gemm.n + first[1]
        bias = first[1] + (place.problem * gemm.n if self.work.biases > 1 else 0)
        l1 = self.beside(place)
        beside = Beside(bias * (2 * SIDE) + self.bias, tile * TILE_BYTES + self.residual, l1, width)
        store = Instr.make("store", acc=acc, dram=tile * TILE_BYTES + self.c, rows=size[0], cols=size[1], h0=width,
                           relu=self.work.epilogue.clipped)
        return [*finished(self.work.epilogue, acc, size, beside), store]

    def beside(self, place: Place) -> Affine:
        """Where the epilogue's operands of the present block lie in a core."""
        room = self.work.epilogue.block(*self.plan.block[:2])
        return self.core(place) * self.machine.tiles + self.turn % SLOTS * room + (self.region(0) + self.region(1))


def parted_nodes(
    work: Contraction, plan: PartedPlan, machine: Machine, where: Mapping[str, int], emitter: type[PartedEmitter]
) -> Nodes:
    """The program after the launch; all tensors lie in tiles."""
    return emitter(
        work.gemm, plan.plan, machine, where["A"], where["B"], where["C"], work=work, parts=plan.parts,
        bias=where.get("bias", 0), residual=where.get("residual", 0)).nodes()


@dataclass(frozen=True)
class Run:
    """Steps that are alike: of the reduction the ``first`` tile, how many steps, and the depth of each.

    A step takes ``ys x xs`` places of the filter in ``places`` and ``cols`` tiles of channels of each, ``rest`` in the
    core that has the rest of the channels; its first pixel lies at ``start``, in bytes from the problem's first, and
    that of the next step ``stride`` bytes further.
    """

    first: int
    count: int
    places: Places
    ys: int
    xs: int
    cols: int
    rest: int
    start: int
    stride: int

    @property
    def depth(self) -> int:
        return self.ys * self.xs * self.cols


@dataclass(frozen=True, kw_only=True)
class ConvolutionEmitter(PartedEmitter):
    """The program of a :class:`Convolution`."""

    work: Convolution

    @property
    def grain(self) -> int:
        return self.work.grain

    @property
    def channels(self) -> int:
        """Tiles of channels of a core."""
        return self.depth // self.grain

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """All steps of the reduction."""
        return tuple(self._runs())

    @cached_property
    def run_at(self) -> dict[int, Run]:
        return {run.first: run for run in self.runs}

    def _runs(self) -> Iterator[Run]:
        image, first, bk, rest = self.work, 0, self.plan.block[2], self.reduction.rest // self.grain
        plane, line, blocks = image.plane * TILE_BYTES, image.line * PIXEL, self.channels
        for p in image.phases:
            origin, row = p.phase * image.blocks * plane + p.shift * PIXEL, p.xs * blocks
            if bk >= p.ys * row:
                yield Run(first, 1, p, p.ys, p.xs, blocks, rest, origin, 0)
            elif bk >= row:
                yield Run(first, p.ys, p, 1, p.xs, blocks, rest, origin, p.dy * line)
            elif bk == blocks:
                for y in range(p.ys):
                    yield Run(first + y * row, p.xs, p, 1, 1, blocks, rest, origin + y * p.dy * line, p.dx * PIXEL)
            else:
                for number in range(p.ys * p.xs):
                    y, x = divmod(number, p.xs)
                    start, at = origin + y * p.dy * line + x * p.dx * PIXEL, first + number * blocks
                    for s in cut(0, blocks, bk, rest):
                        yield Run(at + s.first, s.count, p, 1, 1, s.deep, s.rest, start + s.first * plane, bk * plane)
            first += p.ys * row

    def nodes(self) -> Nodes:
        return [*self.around(), *super().nodes()]

    def around(self) -> Nodes:
        """Zeros in the tiles before and behind the images of a result on a grid, from sums that are still zero."""
        image, machine = self.work, self.machine
        if image.grid is None:
            return []
        problems, columns, tiles = image.stored[:3]
        lead, behind = image.grid[2], image.grid[2] + self.gemm.m

        def zeros(column: Affine, tile: Affine) -> Nodes:
            acc = column % machine.cores * machine.sums + (machine.sums - 1)
            dram = (column * tiles + tile) * TILE_BYTES + self.c
            return [Instr.make("store", acc=acc, dram=dram, rows=1, cols=1, h0=0, relu=0)]

        return [node for number, span in enumerate((range(lead), range(behind, tiles))) for node in repeat(
            f"z{number}", range(problems * columns), lambda column, span=span: repeat(  # type: ignore[misc]
                "zt", span, lambda tile: zeros(column, tile)))]

    def steps(self, rising: bool) -> tuple[Steps, ...]:
        return tuple(Steps(run.first, run.count, run.depth, run.ys * run.xs * run.rest) for run in self.runs)

    def mnemonic(self, loop: int, pattern: str) -> str:
        if loop == 1 and self.channels == self.work.blocks:
            return super().mnemonic(loop, pattern)
        return "load_windows" if pattern == "none" else f"windows_{pattern}"

    def source(
        self, loop: int, place: Place, first: tuple[Affine, Affine], size: tuple[int, int]
    ) -> tuple[Affine, dict[str, Affine | int]]:
        gemm, image, at = self.gemm, self.work, first[0]
        part = self.index(place, 2)
        k = first[1] - part * self.depth
        run = self.run_at[k.constant]
        if loop == 1:
            return self.filter(place.problem * gemm.k, at, k, part, run, size)
        phases = max(p.phase for p in image.phases) + 1
        problem = place.problem * (phases * image.blocks * image.plane)
        step = (k - run.first) // run.depth
        before = part * (self.channels * image.plane)
        dram = (problem + before + at) * TILE_BYTES + step * run.stride + (run.start + self.a)
        return dram, {
            "rows": size[0], "ys": run.ys, "xs": run.xs, "cols": size[1] // (run.ys * run.xs),
            "h0": TILE_BYTES,
            "hy": run.places.dy * image.line * PIXEL, "hx": run.places.dx * PIXEL, "hc": image.plane * TILE_BYTES,
            "r0": size[1],
        }

    def out(self, place: Place, first: tuple[Affine, Affine], size: tuple[int, int], acc: Affine) -> Nodes:
        image, gemm = self.work, self.gemm
        if image.grid is None:
            return super().out(place, first, size, acc)
        rows, line, lead = image.grid
        far = image.stored[2] * TILE_BYTES
        dram = (place.problem * gemm.n + first[1]) * far + (first[0] + lead) * TILE_BYTES
        bias = first[1] + (place.problem * gemm.n if image.biases > 1 else 0)
        beside = Beside(bias * (2 * SIDE) + self.bias, dram + self.residual, self.beside(place), TILE_BYTES, far)
        store = Instr.make(
            "store_places", acc=acc, dram=dram + self.c, rows=size[0], cols=size[1], hc=far,
            relu=image.epilogue.clipped, first=first[0] * SIDE, line=line, width=image.result[1], period=rows,
            height=image.result[0], count=image.batch * rows * line)
        return [*finished(image.epilogue, acc, size, beside), store]

    def filter(
        self, problem: Affine, at: Affine, k: Affine, part: Affine, run: Run, size: tuple[int, int]
    ) -> tuple[Affine, dict[str, Affine | int]]:
        """The filter's tiles for a step at ``k`` of a core that has the ``part`` of the channels of each place."""
        blocks, whole, width = self.channels, self.work.blocks, self.gemm.n * TILE_BYTES
        columns, inside = size[0], size[1] // (run.ys * run.xs)
        if blocks == whole:
            dram = ((problem + k) * self.gemm.n + at) * TILE_BYTES + self.b
            return dram, {"rows": run.depth, "cols": columns, "h0": width}
        # steps of some channels stay at their place, others are whole places
        place = Affine(run.first // blocks) if run.depth < blocks else k // blocks
        channel = k - place * blocks
        row = problem + place * whole + channel + part * blocks
        return (row * self.gemm.n + at) * TILE_BYTES + self.b, {
            "rows": run.ys * run.xs, "ys": inside, "xs": 1, "cols": columns, "h0": whole * width, "hy": width,
            "hx": 0, "hc": TILE_BYTES, "r0": inside * columns,
        }
