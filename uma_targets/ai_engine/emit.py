"""Matrix products on the AI Engine: tiles of C spread over the cores, each core with its own tiles of A and B.

The tiles along one dimension (the mapping's dataflow: ``m`` or ``n``) go to the cores in turn, a round after another;
within a round, all cores take the same step of k before the next one, so that they work side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mapper.mapping import Mapping as TileMapping
from oracle.affine import Affine
from oracle.errors import MappingError
from oracle.stream import Instr
from uma_targets.kit.gemm import Gemm
from uma_targets.kit.nest import Nodes, Piece, each, pieces, repeat

LOWEST = -128


def emit(gemm: Gemm, mapping: TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """The instructions of one product; MappingError if a tile is larger than a core's."""
    sizes = {d: mapping.size(d) for d in "mnk"}
    if max(sizes.values()) > parameters["tile"] or mapping.dataflow not in ("m", "n"):
        raise MappingError(
            f"{mapping}: expected tiles of at most {parameters['tile']} and m or n to be spread over the cores"
        )
    other = "n" if mapping.dataflow == "m" else "m"
    writer = _Writer(gemm, sizes, mapping.dataflow, parameters["cores"])
    return each("jt", pieces(writer.extent(other), sizes[other]), writer.rounds)


@dataclass(frozen=True)
class _Block:
    """The tiles of one round: ``count`` of them on the cores from ``core``; first element and size by dimension."""

    core: int
    count: int
    first: Mapping[str, Affine]
    size: Mapping[str, int]
    slot: Affine


@dataclass(frozen=True)
class _Writer:
    gemm: Gemm
    sizes: Mapping[str, int]
    spread: str
    cores: int

    def extent(self, d: str) -> int:
        return {"m": self.gemm.m, "n": self.gemm.n, "k": self.gemm.k}[d]

    def rounds(self, j: Affine, run: Piece) -> Nodes:
        """All tiles that have tile ``j`` of the other dimension."""
        runs = pieces(self.extent(self.spread), self.sizes[self.spread])
        return [node for tiles in runs for node in self._round(j, run, tiles)]

    def _round(self, j: Affine, run: Piece, tiles: Piece) -> Nodes:
        other, size = "n" if self.spread == "m" else "m", self.sizes[self.spread]
        full, left = divmod(tiles.count, self.cores)
        # the tile that is left over at the edge takes the next core
        core = tiles.first % self.cores if tiles.size < size else 0

        def block(tile: Affine | int, count: int, slot: Affine) -> Nodes:
            first = {self.spread: Affine.of(tile) * size, other: j * self.sizes[other]}
            return self._block(_Block(core, count, first, {self.spread: tiles.size, other: run.size}, slot))

        nodes = repeat("rt", full, lambda r: block(r * self.cores + tiles.first, self.cores, r % 2))
        return nodes + (block(tiles.first + full * self.cores, left, (j + full) % 2) if left else [])

    def _block(self, b: _Block) -> Nodes:
        bias = self.gemm.bias is not None
        nodes = repeat("core", b.count, lambda c: [self._bias(b, c)]) if bias else []
        steps = pieces(self.gemm.k, self.sizes["k"], peel_first=not bias)
        nodes += each("kt", steps, lambda k, run: repeat(
            "core", b.count, lambda c: self._step(b, c, k, run, bias or not run.is_first)))
        return nodes + repeat("core", b.count, lambda c: [self._store(b, c)])

    def _corner(self, b: _Block, core: Affine) -> tuple[Affine, Affine]:
        """First row and column of the tile that the block's core number ``core`` makes."""
        step = {self.spread: core * self.sizes[self.spread]}
        return b.first["m"] + step.get("m", 0), b.first["n"] + step.get("n", 0)

    def _bias(self, b: _Block, core: Affine) -> Instr:
        n = self._corner(b, core)[1]
        return Instr.make("read_bias", core=core + b.core, dram=self.gemm.bias_at(n), slot=b.slot, rows=b.size["m"],
                          cols=b.size["n"])

    def _step(self, b: _Block, core: Affine, step: Affine, run: Piece, more: bool) -> Nodes:
        gemm, at, (m, n), k = self.gemm, core + b.core, self._corner(b, core), step * self.sizes["k"]
        slot = step % 2
        return [
            Instr.make("read_a", core=at, dram=gemm.a_at(m, k), pitch=gemm.strides[0], slot=slot, rows=b.size["m"],
                       cols=run.size),
            Instr.make("read_b", core=at, dram=gemm.b_at(k, n), pitch=gemm.strides[1], slot=slot, rows=run.size,
                       cols=b.size["n"]),
            Instr.make("mmul", core=at, a=slot, b=slot, c=b.slot, m=b.size["m"], n=b.size["n"], k=run.size,
                       more=int(more)),
        ]

    def _store(self, b: _Block, core: Affine) -> Instr:
        m, n = self._corner(b, core)
        return Instr.make(
            "write_c", core=core + b.core, dram=self.gemm.c_at(m, n), pitch=self.gemm.strides[2], slot=b.slot,
            rows=b.size["m"], cols=b.size["n"], scale=self.gemm.scale_bits, low=0 if self.gemm.relu else LOWEST,
        )
