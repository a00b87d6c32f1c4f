"""What Gemmini's emission issues, as nests of loops whose cycles :mod:`archloom.mapper.costs` estimates.

A nest says what an iteration issues; three things it cannot say are reckoned here.

*The window.* A product is a pair of instructions, so half of the fetch stage and of the queue of the execute controller
is how many products may wait: ``W = (issue_entries + queue) / 2`` (:func:`products_waiting`).

*The end of the stores* (:func:`left_over`). Stores overlap the products after them, but for the last tile's. When the
last product ends, of ``blocks`` stores so many are still to come::

    1 + max(blocks - 1 - min(products, W) * pace / store, 0)

``pace``: cycles of a product, ``store``: cycles from one store to the next. E.g. 8 blocks, stores of 20 cycles each,
products of 16 cycles, 12 of which wait: 12 * 16 / 20 = 9.6 stores were done beside them, one is left.

*The end of the products* (:func:`products_left`). After the last load of the last chunk has arrived, those products
are still to come that need it, or stand behind one that does::

    loads of B   |b0|b1|b2|b3|            the last one has arrived
    products     . |p0  |p1  |p2  |p3  |  p1, p2 and p3 are left: more than the one that needs it
                      `-- lag: they were slower than the loads

    left = max(waiting - passing - 1, least) - lag / pace
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from archloom.mapper.costs.rates import FAR, Issue, Loop, Number
from archloom.mapper.hardware import Hardware
from archloom.mapper.reuse import ceil_div
from archloom.mapper.space import HOIST, INTERLEAVE, STREAM, Columns
from archloom.uma_targets.gemmini.emit_gemm import GemmProblem
from archloom.uma_targets.gemmini.instructions import FULL_WIDTH, NONE, OUTPUT_STATIONARY, WEIGHT_STATIONARY

MANY = 99
"""Slots of an operand that is not streamed: they bound nothing."""


@dataclass(frozen=True)
class Phase:
    """``chunks`` of the input that are loaded in as many ``parts``, rows of ``row_bytes`` in the mean that begin
    ``step_bytes`` apart."""

    chunks: int
    parts: int
    row_bytes: float
    step_bytes: int


@dataclass(frozen=True)
class ConvShape:
    """A convolution of ``images`` and ``groups``, whose weights lie in tiles of ``deep`` rows in the mean, and of ``o``
    channels of a group in all. ``last_row``: share of the steps of a chunk before those of the kernel's last row."""

    phases: tuple[Phase, ...]
    groups: int
    images: int
    deep: float
    last_row: float
    o: int
    out_bytes: int

    @property
    def out_step(self) -> int:
        """Bytes from one pixel of the result to the next."""
        return self.groups * self.o * self.out_bytes


def load(
    times: Number, rows: Number, row_bytes: Number, parts: Number = 1, step: float | None = None, **more: Any
) -> Issue:
    """Loads of ``rows`` rows, each of ``parts`` pieces of memory; of one for all where rows lie as close to one another
    as ``step`` bytes say."""
    moves, pieces = row_bytes, rows * parts
    if step is not None and step <= row_bytes:
        moves, pieces = (rows - 1) * step + row_bytes, 1
    return Issue("mvin", times, moves, pieces, values=loaded(rows, row_bytes), beats=rows, **more)


def load_bias(times: Number, rows: Number, row_bytes: Number, parts: Number = 1) -> Issue:
    """Loads of ``parts`` pieces of memory into each of ``rows`` rows."""
    return Issue("mvin", times, row_bytes, parts, values=loaded(rows, row_bytes), beats=rows)


def loaded(rows: Number, row_bytes: Number) -> dict[str, Number]:
    """Attributes and registers of a load of rows as bytes, one behind the other in memory."""
    channels = {f"{register}[{i}]": value for register, value in (("ld_stride", row_bytes), ("ld_shrunk", 0))
                for i in range(3)}
    return {"rows": rows, "cols": row_bytes, "local": 0, "dram": 1, **channels}


def save(
    times: Number, rows: Number, row_bytes: Number, dim: int, parts: Number = 1, step: float | None = None
) -> Issue:
    """Stores of ``rows`` rows of ``parts`` pieces, without pooling; of one where rows lie within ``step`` bytes."""
    values = saved(rows, row_bytes, dim)
    moves, pieces = (rows * row_bytes, 1) if step is not None and step <= row_bytes else (row_bytes, rows * parts)
    return Issue("mvout", times, moves, pieces, values=values, beats=rows)


def saved(rows: Number, row_bytes: Number, dim: int) -> dict[str, Number]:
    """Attributes and registers of a store of rows, one behind the other in memory, without pooling."""
    return {"rows": rows, "cols": dim, "st_pool_stride": 0, "st_stride": row_bytes,
            "local": np.where(np.asarray(row_bytes) > dim, FULL_WIDTH, 0)}


def zeros(times: Number, rows: Number, dim: int) -> Issue:
    """Loads of so many rows of zeros in all, for which memory is not asked."""
    each = rows / np.maximum(times, 1e-9)
    return Issue("mvin", times, values={**loaded(each, dim), "dram": 0}, beats=each)


def pairs(
    flow: str, weights: Number, first: Number, others: Sequence[tuple[Number, Number]], dim: int
) -> tuple[Issue, ...]:
    """Preloads and products: for each of ``weights`` blocks one product of ``first`` rows, and then, for each of
    ``others``, so many of so many rows. With the sums in place each product is as long as the array is wide.
    """
    common = {"ex_a_transpose": 0, "ex_b_transpose": 0, "a": 0}
    every = weights * (1 + sum(times for times, _ in others))
    if flow == "os":
        values = {**common, "ex_dataflow": OUTPUT_STATIONARY, "pre_addr": NONE, "bd": 0, "a_rows": dim, "bd_rows": dim}
        return Issue("preload", every), Issue("compute_accumulated", every, values=values)
    values = {**common, "ex_dataflow": WEIGHT_STATIONARY, "bd": NONE, "bd_rows": 1}
    return (
        Issue("preload", every),
        Issue("compute_preloaded", weights, values={**values, "pre_addr": 0, "a_rows": first}),
        *(Issue("compute_accumulated", weights * times, values={**values, "pre_addr": NONE, "a_rows": rows})
          for times, rows in others),
    )


def beats(extent: int, dim: int, item: int, port: int) -> float:
    """Beats of ``port`` bytes that memory takes for a row of a block, in the mean: those of the last one are fewer."""
    whole, rest = divmod(extent, dim)
    total = whole * int(ceil_div(dim * item, port)) + int(ceil_div(rest * item, port))
    return total / int(ceil_div(extent, dim))


def fed_rows(m: int, tile: np.ndarray, dim: int) -> np.ndarray:
    """Rows of all tiles; new weights take as long as the array is high, however few the rows of the last tile."""
    rest = m % tile
    return m - rest + np.where(rest > 0, np.maximum(rest, dim), 0)


def products_waiting(hardware: Hardware) -> float:
    """How many products, pairs of instructions, the fetch stage and the queue of their controller hold."""
    return (hardware.issue_entries + hardware.unit("preload").queue) / 2


def left_over(out: Issue, blocks: Number, products: Number, pace: Number, hardware: Hardware) -> Issue:
    """The stores of ``blocks`` that are still to come when the last of as many ``products`` as may overlap them ends.

    One product is done every ``pace`` cycles; those that wait with the stores fill the fetch stage and their queue.
    """
    one = hardware.latency_columns("mvout", out.values) + out.beats + hardware.way("mvout").latency
    each = (one + out.pieces) / hardware.unit("mvout").in_flight
    done = np.minimum(products, products_waiting(hardware)) * pace / each
    return replace(out, times=1 + np.maximum(blocks - 1 - done, 0))


def _sums(
    shape: GemmProblem, blocks: Number, rows: Number, chunk: Number, is_apart: Number, flow: str, hardware: Hardware
) -> tuple[Issue, Issue, Issue]:
    """Loads of bias and stores of a tile of so many blocks of sums, and what is left of the stores behind all products.

    ``chunk``: products that follow one another of a block; ``is_apart``: whether a block is stored while others follow.
    """
    dim, port = hardware.dim, int(hardware.way("mvin").memory.bytes_per_cycle)
    bias = load_bias(blocks, rows, port, beats(shape.n, dim, 4, port))
    out = save(blocks, rows, port, dim, beats(shape.n, dim, shape.out_bytes, port))
    overlap = np.where(is_apart, blocks - 1, blocks) * chunk
    return bias, out, left_over(out, blocks, overlap, dim if flow == "os" else rows, hardware)


def gemm_loops(shape: GemmProblem, c: Columns, flow: str, hardware: Hardware) -> Loop:
    """Tiles of C in the order of the mapping; chunks of the reduction; products of blocks.

    Columns: tm, tn, tk (elements of a tile), m_outer, level_a, level_b, slots_a, slots_b, slots_c, interleave. Sizes
    are those of a mean tile and a mean block: the last ones are smaller.
    """
    dim, port = hardware.dim, int(hardware.way("mvin").memory.bytes_per_cycle)
    mt, nt, kt = (ceil_div(e, c[t]) for e, t in ((shape.m, "tm"), (shape.n, "tn"), (shape.k, "tk")))
    all_m, all_n, all_k = (int(ceil_div(e, dim)) for e in (shape.m, shape.n, shape.k))
    mb, nb, kb = all_m / mt, all_n / nt, all_k / kt
    rows, deep = shape.m / all_m, shape.k / all_k
    beats_a, beats_b = beats(shape.k, dim, 1, port), beats(shape.n, dim, 1, port)
    more = np.maximum(mb - 1, 0)
    left = (fed_rows(shape.m, c["tm"], dim) / mt - dim) / np.maximum(more, 1e-9)
    products = pairs(flow, kb * nb, dim, ((more, left),), dim)
    a, b = load(mb * kb, rows, port, beats_a), load(nb * kb, deep, port, beats_b)
    stream_a, stream_b = c["level_a"] == STREAM, c["level_b"] == STREAM
    first_a, first_b = c["level_a"] == INTERLEAVE, c["level_b"] == INTERLEAVE
    places = np.minimum(np.where(stream_a, c["slots_a"], MANY), np.where(stream_b, c["slots_b"], MANY))
    m_outer = c["m_outer"] == 1
    outer, inner = np.where(m_outer, mt, nt), np.where(m_outer, nt, mt)
    # where sums stay, the first of them needs the last of the reduction
    share = (1 - 1 / kb) * (1 - 1 / (mb * nb)) if flow == "os" else 0

    blocks, last = mb * nb, c["interleave"] == 1
    bias, out, end = _sums(shape, blocks, rows, kb if flow == "os" else 1, last | (flow == "ws"), flow, hardware)
    if shape.bias is None:  # the products themselves wait for the only place, as a bias would
        bias = _where(bias, c["slots_c"] == 1)
    stores = blocks - end.times / (shape.batch * mt * nt)  # of a tile, but for those
    # sums wait for what is left of the reduction, and for their stores to come into the window behind the products
    window = products_waiting(hardware) / (blocks * all_k)
    occupied = np.maximum(1 - (1 - 1 / blocks) / (kt if flow == "os" else all_k), np.where(last, 0, 1 - window))

    def tiles(times: Number, *loads: Issue) -> Loop:
        chunks = Loop(kt, products, first=loads, slots=places, whole=share)
        within, after = (replace(out, times=stores * np.where(last, *shares)) for shares in (
            (1 - 1 / blocks, 0), (1 / blocks, 1)))
        # the first products along the reduction take up all of the bias
        return Loop(times, (within, chunks), first=(bias,), last=(after,), slots=c["slots_c"], occupied=occupied,
                    taken=((1, 1 / (kt if flow == "os" else all_k)),))

    # the first tile of an interleaved operand streams it, too
    some = np.where(first_a | first_b, 1, 0)
    these = (tiles(some, _where(a, stream_a | first_a), _where(b, stream_b | first_b)),
             tiles(inner - some, _where(a, stream_a), _where(b, stream_b)))
    # one operand is loaded for each tile of the outer loop, the other one for all of them, where they are not streamed
    high_mine, high_whole = np.where(m_outer, rows, deep), np.where(m_outer, deep, rows)
    mine = load(np.where(m_outer, mb, nb) * all_k, high_mine, port, np.where(m_outer, beats_a, beats_b))
    whole = load(np.where(m_outer, all_n, all_m) * all_k, high_whole, port, np.where(m_outer, beats_b, beats_a))
    level_mine = np.where(m_outer, c["level_a"], c["level_b"])
    level_whole = np.where(m_outer, c["level_b"], c["level_a"])
    rows_of_tiles = Loop(outer, these, first=(_where(mine, level_mine == HOIST),),
                         slots=np.where(m_outer, c["slots_a"], c["slots_b"]), taken=((1, 1 / inner),))
    one = Loop(shape.batch, (rows_of_tiles,), first=(_where(whole, level_whole == HOIST),),
               slots=np.where(m_outer, c["slots_b"], c["slots_a"]), taken=((1, 1 / outer),))
    streams = stream_a | (first_a & (inner == 1)), stream_b | (first_b & (inner == 1))
    loads = rows * np.maximum(beats_a, 1), deep * np.maximum(beats_b, 1)
    chunk = Chunk((mb, nb, kb), dim if flow == "os" else rows, loads, shape.batch * mt * nt * kt)
    behind = products_left(chunk, streams, flow, hardware)
    return Loop(1, (one,), alone=(*pairs(flow, 1 + np.maximum(behind, 0), dim, (), dim), end))


@dataclass(frozen=True)
class Chunk:
    """A chunk of the reduction: ``blocks`` along m, n and k, ``pace`` cycles of a product of them, cycles of the
    ``loads`` of a block of A and of B; ``count``: how many chunks there are in all."""

    blocks: tuple[Number, Number, Number]
    pace: Number
    loads: tuple[Number, Number]
    count: Number


def products_left(chunk: Chunk, streams: tuple[np.ndarray, np.ndarray], flow: str, hardware: Hardware) -> np.ndarray:
    """Products that are left when the last load of the last chunk has arrived, beside the one that needs it.

    ``streams``: whether A, whether B is loaded chunk by chunk. The terms, in products but for the first:

    * ``lag``: cycles by which the products are behind the loads after all chunks, as they take longer.
    * ``waiting``: those of a chunk from the first on that needs one of its last loads: one for each block of C; where
      sums stay kb for each, but for the kb - 1 of the first block before its last.
    * ``passing``: those that are done while the other loads of the last operand pass.
    * ``least``: those that stand behind the one that needs the last load, whenever it comes.

    Where not even one chunk's instructions fit the window, the loads wait for the rest of them anyway: of the products
    only the share counts that fits.
    """
    (mb, nb, kb), pace, (load_a, load_b), (some_a, some_b) = chunk.blocks, chunk.pace, chunk.loads, streams
    both, os = mb * nb * kb * pace, flow == "os"
    lag = chunk.count * np.maximum(
        both - np.where(some_a, mb * kb * load_a, 0) - np.where(some_b, nb * kb * load_b, 0), 0)
    waiting = mb * nb * (kb if os else 1) - (kb - 1 if os else 0)
    passing = np.where(some_b, (nb - 1) * load_b, (mb - 1) * load_a) / pace
    least = np.where(some_b, mb - 1, mb * (nb - 1)) * kb if os else np.where(some_b, mb, nb) - 1
    fits = np.minimum(products_waiting(hardware) / (mb * nb * kb), 1)
    left = np.maximum(waiting * fits - passing - 1, least * fits) - lag / pace
    return np.where((some_a | some_b) & (chunk.count > 1), left, 0)


def conv_loops(shape: ConvShape, c: Columns, flow: str, hardware: Hardware) -> Loop:
    """Groups and images; tiles of pixels and of output channels; chunks of the input; steps of a chunk; products.

    Columns: o (channels of a tile), o_outer, level_x, level_w, slots_x, slots_w, slots_c, chunks, steps (of a chunk),
    most_w (sums of the widest tile), and what :func:`.conv_counts.counted` finds of all tiles of an image together;
    store_rows.
    """
    dim = hardware.dim
    o_tiles, tiles, all_o = ceil_div(shape.o, c["o"]), c["tiles"], int(ceil_div(shape.o, dim))
    blocks, wide, many = all_o / o_tiles, shape.o / all_o, c["stretches"] / tiles
    rows = c["sums"] / c["stretches"]
    products = pairs(flow, blocks, np.minimum(c["most_w"], dim), _stretches(c, dim), dim)
    weights = load(blocks, shape.deep, wide)
    streamed = c["level_w"] == STREAM
    os, steps = flow == "os", c["steps"]
    # where sums stay, weights come for all steps of a chunk, and the first of the sums needs the last of them
    if os:
        whole = (1 - 1 / steps) * (1 - 1 / (blocks * many))
        every = _where(replace(weights, times=blocks * steps), streamed)
        chunk = Loop(1, (Loop(steps, products),), first=(every,), slots=c["slots_w"], whole=whole)
    else:
        chunk = Loop(steps, products, first=(_where(weights, streamed),), slots=c["slots_w"])
    stream_x, kept = c["level_x"] == STREAM, c["level_x"] == HOIST
    # a streamed chunk needs a free slot; one that stays for the tile only waits for its own last use
    slots = np.where(stream_x, c["slots_x"], c["chunks"] * np.minimum(c["slots_x"], 2))
    loading = np.where(stream_x, o_tiles, np.where(kept, 0, 1))
    # rows of a chunk are free again when their last step, or where sums stay all of them, has passed over them
    occupied = 1 / many if os else 1 - (1 - 1 / many) / steps
    # the first pass over the sums takes up nearly all of a chunk, the last row of the kernel the rest
    fresh, first_pass = c["fresh"], 1 / blocks if os else 1 / (steps * blocks)
    last_pass = first_pass if os else shape.last_row + first_pass
    taken = (fresh, first_pass), (1, last_pass)
    chunks = tuple(Loop(phase.chunks, (chunk,), first=_inputs(phase, c, hardware), slots=slots, occupied=occupied,
                        whole=1 - 1 / phase.parts, taken=taken) for phase in shape.phases)
    # without a bias the sums still take their place: with it left out, plans of 270 random layers take 1 % more cycles
    bias = load_bias(many * blocks, rows, 4 * wide)
    out = save(many * blocks, c["store_rows"] / c["stretches"], wide * shape.out_bytes, dim, step=shape.out_step)
    overlap = many * blocks * steps if os else many * blocks - 1
    end = left_over(out, many * blocks, overlap, dim if os else rows, hardware)
    during = replace(out, times=many * blocks - end.times / (shape.groups * shape.images * tiles * o_tiles))
    of_tile = tuple(
        Loop(times, body, first=(bias,), last=(during,), slots=c["slots_c"],
             taken=((1, 1 / c["chunks"] / (1 if os else steps)),))
        for times, body in ((loading, chunks), (o_tiles - loading, (Loop(c["chunks"], (chunk,)),))))
    everything = [_where(replace(issue, times=phase.chunks * issue.times), kept)
                  for phase in shape.phases for issue in _inputs(phase, c, hardware)]
    each = c["chunks"] * o_tiles
    pixels = Loop(tiles, of_tile, first=tuple(everything), slots=c["slots_x"],
                  taken=((fresh / c["chunks"], first_pass / each), (1, (c["chunks"] - 1 + last_pass) / each)))
    resident = replace(weights, times=np.where(streamed, 0, all_o * c["chunks"] * c["steps"]))
    group = Loop(shape.groups, (Loop(shape.images, (pixels,)),), alone=(resident,))
    return Loop(1, (group,), alone=(*pairs(flow, 1, dim, (), dim), end))


def _stretches(c: Columns, dim: int) -> tuple[tuple[Number, Number], ...]:
    """How many products of whole stretches of sums, and of shorter ones, with their rows, a tile has behind its first.

    They are apart, since a product takes the array some rows at least, however few a stretch has.
    """
    tiles, short = c["tiles"], c["stretches"] - c["whole"]
    short_tiles = tiles - c["whole_tiles"]
    return (((c["whole"] - c["whole_tiles"]) / tiles, dim),
            ((short - short_tiles) / tiles, c["rest_sums"] / np.maximum(short, 1)))


def _inputs(phase: Phase, c: Columns, hardware: Hardware) -> tuple[Issue, ...]:
    """What a chunk of a tile loads: zeros for padding, pixels, and what waits for these, as it is written over them."""
    tiles, parts = c["tiles"], phase.parts
    loads = c["loads"] / tiles
    rows = np.maximum(c["load_rows"], 1) / np.maximum(c["loads"], 1)
    pixels = load(parts * loads, rows, phase.row_bytes, step=phase.step_bytes)
    # parts of a chunk overwrite columns of one another, so each waits until the one before has arrived, where the
    # padding has not waited for that already
    edges = c["edges"] / tiles
    pixels = replace(pixels, beats=0, ahead=np.maximum(loads, 1) / np.maximum(1 - edges, 1e-9) if parts > 1 else FAR)
    # padding on the left waits for the last that it is written over; what is loaded since takes the unit and is no wait
    arrived = hardware.way("mvin").latency + hardware.latency_columns("mvin", pixels.values) + rows
    since = loads * np.maximum(rows, arrived / hardware.unit("mvin").in_flight)
    waits = np.maximum(1 - since / arrived, 1e-9)
    # in these tiles the products wait for all that is loaded, as the padding stands behind it
    edge = (replace(pixels, times=pixels.times * edges), load(parts * edges, 1, phase.row_bytes, ahead=1 / waits))
    return (zeros(parts * c["zeros"] / tiles, parts * c["zero_rows"] / tiles, hardware.dim), *edge,
            replace(pixels, times=pixels.times * (1 - edges)))


def add_loops(count: int, out_bytes: int, c: Columns, dim: int) -> Loop:
    """Tiles of ``rows`` rows, of ``count`` in all: what is added is loaded when what it is added to has arrived."""
    first = load(c["rows"] / dim, dim, dim)
    out = save(c["rows"] / dim, dim, dim * out_bytes, dim)
    tile = Loop(ceil_div(count, c["rows"]), (replace(first, mnemonic="mvin2"),), first=(first,), last=(out,),
                slots=c["slots_c"], early=0)
    return Loop(1, (tile,), alone=(out,))


def _where(issue: Issue, there: np.ndarray) -> Issue:
    """The instructions where they are issued."""
    return replace(issue, times=np.where(there, issue.times, 0))
