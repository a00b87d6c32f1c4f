"""Matrix products on UltraTrail: a convolution of one tap, whose positions are the rows of A and channels those of B.

Partial sums stay in their memory until k is through. Tiles alternate between two feature memories, and between halves
of the other memories, so that the next ones come in while the array works.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from archloom.mapper.mapping import Mapping as TileMapping
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr
from archloom.uma_targets.kit.gemm import Gemm
from archloom.uma_targets.kit.nest import Nodes, Piece, ceil_div, each, pieces, repeat

NONE = 0xFFFFFFFF


def emit(gemm: Gemm, mapping: TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """The instructions of one product; MappingError if its tiles do not fit the memories."""
    dim = parameters["dim"]
    m, n, k = (mapping.size(d) for d in "mnk")
    blocks = {"n": ceil_div(n, dim), "k": ceil_div(k, dim)}
    need = demand(m, blocks["n"], blocks["k"])
    have = room(parameters)
    lacking = [f"{need[name]} rows of {name}, {have[name]} there" for name in need if need[name] > have[name]]
    if lacking or (n % dim and n < gemm.n) or (k % dim and k < gemm.k):
        raise MappingError(f"{mapping}: " + ("; ".join(lacking) or f"tiles of n and k must be multiples of {dim}"))
    return _Writer(gemm, (m, n, k), dict(parameters)).product()


def demand(m: Any, n_blocks: Any, k_blocks: Any) -> dict[str, Any]:
    """Rows that a tile needs of each memory; integers, or arrays of them for many tiles."""
    return {"fmem": m * k_blocks, "wmem": n_blocks * k_blocks, "lmem": m * n_blocks, "bmem": n_blocks}


def room(parameters: Mapping[str, int]) -> dict[str, int]:
    """Rows that one tile may have of each memory."""
    return {
        "fmem": parameters["features"], "wmem": parameters["weights"] // 2, "lmem": parameters["sums"] // 2,
        "bmem": parameters["biases"] // 2,
    }


@dataclass(frozen=True)
class _Tile:
    """The tile at hand: its number and first element along each dimension, sizes, rows of its places."""

    m: Affine
    n: Affine
    rows: int
    cols: int
    bias: Affine
    sums: Affine


@dataclass(frozen=True)
class _Writer:
    gemm: Gemm
    sizes: tuple[int, int, int]
    parameters: Mapping[str, int]

    @property
    def dim(self) -> int:
        return self.parameters["dim"]

    def product(self) -> Nodes:
        m, n, _ = self.sizes
        g, half = self.gemm, room(self.parameters)

        def columns(j: Affine, cols: Piece) -> Nodes:
            bias = j % 2 * half["bmem"]
            resident = self.gemm.k <= self.sizes[2]

            def tile(i: Affine, rows: Piece) -> Nodes:
                at = _Tile(i * m, j * n, rows.size, cols.size, bias, i % 2 * half["lmem"])
                return self._tile(at, j % 2 * half["wmem"] if resident else None)

            loads = self._bias(j * n, cols.size, bias) if g.bias is not None else []
            if resident:
                loads += self._weights(Affine(0), g.k, j * n, cols.size, j % 2 * half["wmem"])
            return loads + each("mt", pieces(g.m, m), tile)

        return each("nt", pieces(g.n, n), columns)

    def _tile(self, tile: _Tile, resident: Affine | None) -> Nodes:
        """One tile of C; ``resident``: where its weights lie already."""
        half, size = room(self.parameters), self.sizes[2]

        def step(k: Affine, run: Piece) -> Nodes:
            # without a loop over k, tiles of m alternate
            turn = k % 2 if resident is None else tile.sums // max(1, half["lmem"])
            features, weights = turn * self.parameters["features"], k % 2 * half["wmem"]
            nodes = self._features(tile, k * size, run.size, features)
            if resident is None:
                nodes += self._weights(k * size, run.size, tile.n, tile.cols, weights)
            return nodes + self._macs(tile, run, features, weights if resident is None else resident)

        return [*each("kt", pieces(self.gemm.k, size, peel_first=True), step), *self._store(tile)]

    def _features(self, tile: _Tile, k: Affine, depth: int, row: Affine) -> Nodes:
        return each("kb", pieces(depth, self.dim), lambda b, run: [Instr.make(
            "load_features", dram=self.gemm.a_at(tile.m, k + b * self.dim), row=row + b * tile.rows, count=tile.rows,
            step=self.gemm.strides[0], channels=run.size, channel_step=1)])

    def _weights(self, k: Affine, depth: int, n: Affine, cols: int, row: Affine) -> Nodes:
        dim, count = self.dim, ceil_div(depth, self.dim)
        return each("nb", pieces(cols, dim), lambda nb, outputs: each("kb", pieces(depth, dim), lambda kb, inputs: [
            Instr.make(
                "load_weights", dram=self.gemm.b_at(k + kb * dim, n + nb * dim), row=row + nb * count + kb, count=1,
                step=0, inputs=inputs.size, input_step=self.gemm.strides[1], outputs=outputs.size, output_step=1)]))

    def _bias(self, n: Affine, cols: int, row: Affine) -> Nodes:
        return each("nb", pieces(cols, self.dim), lambda b, run: [Instr.make(
            "load_bias", dram=self.gemm.bias_at(n + b * self.dim), row=row + b, channels=run.size)])

    def _macs(self, tile: _Tile, run: Piece, features: Affine, weights: Affine) -> Nodes:
        blocks, more = ceil_div(run.size, self.dim), int(not run.is_first)
        bias = self.gemm.bias is not None and not more
        layer = Instr.make("layer", pitch=tile.rows, blocks=blocks, kernel=1, residual_shift=0, shift=0, relu=0,
                           pool_shift=0)
        return [layer, *repeat("nb", ceil_div(tile.cols, self.dim), lambda nb: repeat("row", tile.rows, lambda row: [
            Instr.make("mac", src=features + row, weight=weights + nb * blocks, taps=1,
                       bias=tile.bias + nb if bias else NONE, sum=tile.sums + nb * tile.rows + row, more=more)]))]

    def _store(self, tile: _Tile) -> Nodes:
        g = self.gemm
        return each("nb", pieces(tile.cols, self.dim), lambda nb, run: [Instr.make(
            "store_sums", dram=g.c_at(tile.m, tile.n + nb * self.dim), row=tile.sums + nb * tile.rows, count=tile.rows,
            step=g.strides[2], channels=run.size, scale=g.scale_bits, low=g.lowest)])
