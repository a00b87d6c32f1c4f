"""A cycle model for candidates, vectorized: good enough to rank them; the best are simulated.

The machine issues in order into a window of waiting instructions, so loads overlap the computations before them only
as far as that window reaches. For a phase that loads ``load`` cycles' worth of data and then computes:

    exposed = max(0, latency + load - window)        the array waits for what the window could not hide
    time    = max(compute + exposed, load, ...)      whatever is the bottleneck

A convolution or GEMM is a nest of such phases; totals of the bus and of the load and store units bound it from below.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mapper.reuse import Int, ceil_div
from mapper.space import HOIST, INTERLEAVE, STREAM, Columns


@dataclass(frozen=True, eq=False)
class Rates:
    """Times of the hardware, in cycles.

    ``stream[r]`` / ``fresh[r]``: a product of ``r`` rows with the weights in place / with new ones; ``square``: a
    product with the sums in place. ``bus_bytes``: bytes in a beat. ``load_latency`` / ``store_latency``: from start to
    end beside the beats. ``window``: instructions ahead of the array that may wait; ``load_queue``: loads that wait
    elsewhere; ``loads_in_flight``.
    """

    dim: int
    stream: np.ndarray
    fresh: np.ndarray
    square: int
    bus_bytes: int
    load_latency: int
    store_latency: int
    window: int
    load_queue: int
    loads_in_flight: int

    def beats(self, size_bytes: Int) -> Int:
        """Beats of one contiguous piece."""
        return ceil_div(size_bytes, self.bus_bytes)

    def blocks_beats(self, extent: int, element_bytes: int = 1) -> int:
        """Beats of a row of ``extent`` elements moved in blocks of dim."""
        whole, rest = divmod(extent, self.dim)
        return whole * int(self.beats(self.dim * element_bytes)) + int(self.beats(rest * element_bytes))

    def rows_cycles(self, rows: np.ndarray) -> np.ndarray:
        """A weight tile and ``rows`` rows of the other operand, in stretches of dim."""
        whole, rest = rows // self.dim, rows % self.dim
        first = np.minimum(rows, self.dim)
        more = np.maximum(whole - 1, 0) * self.stream[self.dim] + np.where(whole > 0, self.stream[rest], 0)
        return np.where(rows > 0, self.fresh[first] + more, 0)

    def window_cycles(self, loads: Int, pair: np.ndarray) -> np.ndarray:
        """How many cycles of computation wait in the window while ``loads`` load instructions come after them."""
        room = np.maximum(self.window - np.maximum(loads - self.load_queue, 0), 2)
        return room / 2 * pair

    def exposed(self, beats: Int, loads: Int, pair: np.ndarray, slack: Int | float) -> np.ndarray:
        """Cycles that the array waits for a phase's loads; ``slack``: cycles by which the slots let them run ahead."""
        rate = np.maximum(beats, self.load_latency * loads / self.loads_in_flight)
        return np.maximum(0, self.load_latency + rate - np.minimum(self.window_cycles(loads, pair), slack))

    def between_tiles(self, stores: Int, biases: Int, bias_rows: Int, loads: Int, pair: np.ndarray) -> np.ndarray:
        """Cycles that the array waits between two tiles for the next one's bias and first loads.

        The last stores of a tile, the bias and those loads wait in the same window as the array's instructions.
        """
        crowd = stores + np.maximum(biases + loads - self.load_queue, 0)
        hidden = np.maximum(self.window - crowd, 2) / 2 * pair
        needed = np.where(np.asarray(biases) > 0, self.load_latency + bias_rows, 0)
        return np.maximum(0, needed - hidden)

    def with_stores(
        self, time: np.ndarray, tiles: Int, slots: np.ndarray, between: np.ndarray, store: Int, bias: Int
    ) -> np.ndarray:
        """``time`` of so many tiles with what lies between them.

        A slot of C must be stored (in ``store`` cycles) before it is used again; ``bias``: 1 if a load comes first.
        """
        cycle = self.store_latency + store + bias * self.load_latency
        return time + tiles * (between + np.maximum(0, cycle - (slots - 1) * time / tiles))


@dataclass(frozen=True)
class GemmShape:
    """C[batch, m, n] = A[batch, m, k] · B[k, n], of B one matrix or one for each of the batch."""

    batch: int
    m: int
    n: int
    k: int
    bias: bool
    out_bytes: int


def gemm_cycles(shape: GemmShape, rates: Rates, c: Columns) -> np.ndarray:
    """Estimated cycles.

    Columns: tm, tn, tk (elements of a tile), m_outer, level_a, level_b, slots_a, slots_b, slots_c, interleave, os.
    """
    dim, tm, tn, tk = rates.dim, c["tm"], c["tn"], c["tk"]
    mt, nt, kt = ceil_div(shape.m, tm), ceil_div(shape.n, tn), ceil_div(shape.k, tk)
    mb, nb, kb = (ceil_div(np.minimum(e, t), dim) for e, t in ((shape.m, tm), (shape.n, tn), (shape.k, tk)))
    all_m, all_n, all_k = (ceil_div(e, dim) for e in (shape.m, shape.n, shape.k))

    rows = shape.m // tm * rates.rows_cycles(tm) + rates.rows_cycles(shape.m % tm)
    compute = np.where(c["os"], all_m * all_n * all_k * rates.square, all_k * all_n * rows)
    pair = compute / (all_m * all_n * all_k)

    passes_a = np.where(c["level_a"] == STREAM, nt, 1)
    passes_b = np.where(c["level_b"] == STREAM, mt, 1)
    beats_a = passes_a * shape.m * rates.blocks_beats(shape.k)
    beats_b = passes_b * shape.k * rates.blocks_beats(shape.n)
    beats_bias = mt * mb * rates.blocks_beats(shape.n, 4) * shape.bias
    beats_c = shape.m * rates.blocks_beats(shape.n, shape.out_bytes)

    # per chunk of the reduction: what is loaded just before it is used
    chunk = compute / (mt * nt * kt)
    beat, rows_a = int(rates.beats(dim)), np.minimum(dim, shape.m)
    one_a, one_b = mb * kb, nb * kb
    stream_a, stream_b = c["level_a"] == STREAM, c["level_b"] == STREAM
    loads, beats = stream_a * one_a + stream_b * one_b, (stream_a * one_a * rows_a + stream_b * one_b * dim) * beat
    slots = np.minimum(np.where(stream_a, c["slots_a"], 99), np.where(stream_b, c["slots_b"], 99))
    ahead = (slots - 1) * chunk
    chunk_time = np.maximum(chunk + np.where(loads > 0, rates.exposed(beats, loads, pair, ahead), 0), beats)
    # the first iteration of an interleaved operand streams it, too
    first_a, first_b = c["level_a"] == INTERLEAVE, c["level_b"] == INTERLEAVE
    extra = first_a * one_a + first_b * one_b
    both, both_beats = loads + extra, beats + (first_a * one_a * rows_a + first_b * one_b * dim) * beat
    first_time = np.maximum(chunk + rates.exposed(both_beats, both, pair, ahead), both_beats)
    outer, tiles = np.where(c["m_outer"], mt, nt), mt * nt
    firsts = np.where(extra > 0, outer, 0)
    time = (tiles - firsts) * kt * chunk_time + firsts * kt * first_time

    # operands that are loaded whole before their loops
    mine_hoisted = np.where(c["m_outer"], c["level_a"], c["level_b"]) == HOIST
    mine_blocks = np.where(c["m_outer"], mb, nb) * all_k
    burst = rates.exposed(mine_blocks * dim * beat, mine_blocks, pair, 1e18)
    time = time + np.where(mine_hoisted, outer * burst, 0)
    whole_hoisted = np.where(c["m_outer"], c["level_b"], c["level_a"]) == HOIST
    whole_blocks = np.where(c["m_outer"], all_n, all_m) * all_k
    time = time + np.where(whole_hoisted, whole_blocks * dim * beat, 0)

    # between tiles: stores and bias crowd the window
    blocks_c = mb * nb
    store = blocks_c * dim * max(1, int(rates.beats(dim * shape.out_bytes)))
    stores, biases = np.where(c["interleave"], 1, blocks_c), blocks_c * shape.bias
    between = rates.between_tiles(stores, biases, blocks_c * dim, loads, pair)
    time = rates.with_stores(time, tiles, c["slots_c"], between, store, shape.bias)

    bus = beats_a + beats_b + beats_bias + beats_c
    return shape.batch * np.maximum(time, bus) + rates.load_latency + rates.store_latency + dim


@dataclass(frozen=True)
class ConvShape:
    """A convolution of ``images``; ``phases``: how many chunks of the input there are with how many times
    ``load_rows`` each (see :func:`conv_cycles`)."""

    phases: tuple[tuple[int, int], ...]
    images: int
    c: int
    o: int
    bias: bool
    out_bytes: int
    out_pixels: int


def conv_cycles(shape: ConvShape, rates: Rates, c: Columns) -> np.ndarray:
    """Estimated cycles.

    Columns: o (channels of a tile), o_outer, level_x, level_w, slots_x, slots_w, slots_c, os, chunks, steps (of a
    chunk), code (copies of the code of a tile: long streams are slow to compile, so they must be worth it); and, of all
    tiles of an image together: tiles, sums, sum_cycles (streaming all sums past one weight tile), first_extra (new
    weights), load_rows and loads (rows and instructions that a part of a chunk takes), stalls (cycles for which such
    parts wait to overwrite earlier ones), stretches (compute instructions for one weight tile), store_cycles (of one
    block of outputs).
    """
    dim, o_tiles = rates.dim, ceil_div(shape.o, c["o"])
    all_o, o_blocks = ceil_div(shape.o, dim), ceil_div(np.minimum(c["o"], shape.o), dim)
    beat, tiles, chunks, steps = int(rates.beats(dim)), c["tiles"], c["chunks"], c["steps"]
    products = chunks * steps
    compute = np.where(
        c["os"], c["stretches"] * rates.square * products * all_o,
        (c["sum_cycles"] + c["first_extra"]) * products * all_o,
    )
    pair = compute / (products * all_o * c["stretches"])

    stream_x, stream_w = c["level_x"] == STREAM, c["level_w"] == STREAM
    x_passes = np.where(stream_x, o_tiles, 1)
    parts = sum(count * times for count, times in shape.phases)
    beats_x = x_passes * parts * c["load_rows"] * beat
    w_passes = np.where(stream_w, tiles, 1)
    beats_w = w_passes * products * dim * rates.blocks_beats(shape.o)
    beats_c = shape.out_pixels * rates.blocks_beats(shape.o, shape.out_bytes)

    # weights of one step
    step = compute / (products * o_tiles * tiles)
    w_used = o_blocks * dim * beat * stream_w
    w_wait = np.where(stream_w, rates.exposed(w_used, o_blocks, pair, (c["slots_w"] - 1) * step), 0)
    step_time = np.maximum(step + w_wait, w_used)

    # input of the chunks
    x_used, x_loads = c["load_rows"] * beat / tiles, c["loads"] / tiles
    chunk_time = steps * step_time
    with_x = _loading_chunks(shape, rates, c, chunk_time, pair)
    loading = np.where(stream_x, tiles * o_tiles, np.where(c["level_x"] == INTERLEAVE, tiles, 0))
    time = loading * with_x + (tiles * o_tiles - loading) * chunks * chunk_time
    whole = rates.exposed(x_used * parts, x_loads * parts, pair, 1e18)
    time = time + np.where(c["level_x"] == HOIST, tiles * whole, 0)
    time = time + np.where(stream_w, 0, beats_w)

    # between tiles: stores and bias crowd the window
    o_tile, stores = tiles * o_tiles, c["stretches"] / tiles * o_blocks
    store, rows = c["store_cycles"] / tiles * o_blocks, c["sums"] / tiles * o_blocks
    first = np.where(stream_x, x_loads, 0) + o_blocks * stream_w
    between = rates.between_tiles(stores, stores, rows, first, pair)
    time = rates.with_stores(time, o_tile, c["slots_c"], between, store, 1)

    bus = beats_x + beats_w + beats_c
    loader = beats_x / beat + c["sums"] * all_o + beats_w / beat
    total = np.maximum(np.maximum(time, bus), np.maximum(loader, c["store_cycles"] * all_o))
    return shape.images * total * (1 + 3e-3 * (c["code"] - 1)) + rates.load_latency + rates.store_latency + dim


def _loading_chunks(
    shape: ConvShape, rates: Rates, c: Columns, chunk_time: np.ndarray, pair: np.ndarray
) -> np.ndarray:
    """Cycles of all chunks of a tile, each of ``chunk_time``, that load their input just before they use it."""
    tiles, chunks = c["tiles"], c["chunks"]
    part, loads = c["load_rows"] * int(rates.beats(rates.dim)) / tiles, c["loads"] / tiles
    # a streamed chunk needs a free slot; one that stays for the tile only waits for its own last use
    kept = np.where(c["slots_x"] > 1, 2 * chunks, chunks - 1)
    ahead = np.where(c["level_x"] == STREAM, c["slots_x"] - 1, kept) * chunk_time
    time = np.zeros(len(tiles))
    for count, times in shape.phases:
        # parts of a chunk overwrite columns of one another, so each waits until the one before has arrived
        used = (part + c["stalls"] / tiles) * times + (times - 1) * np.maximum(0, rates.load_latency - part)
        wait = rates.exposed(used, loads * times, pair, ahead)
        time = time + count * np.maximum(chunk_time + wait, used)
    return time
