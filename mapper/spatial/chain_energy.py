"""The energy of candidates for chains, vectorized: what their instructions cost, times how often they come."""

from __future__ import annotations

import numpy as np

from archloom.mapper.spatial.chain import PATTERNS, Chain
from archloom.mapper.spatial.chain_space import ChainSpace
from archloom.mapper.spatial.energy import finishing
from archloom.mapper.spatial.epilogue import ACTIVATIONS
from archloom.mapper.spatial.machine import TILE_BYTES, Machine
from archloom.mapper.spatial.rates import Joules, Rates
from archloom.mapper.spatial.space import Columns


def chain_joules(chain: Chain, machine: Machine, rates: Rates, found: ChainSpace) -> Joules:
    """Estimated joules of every candidate."""
    c = found.columns
    m, k, hidden, n = chain.tiles
    tile = rates.l1_tile
    blocks, depth = -(-m // c["bm"]), c["bh"] * c["together"]
    inner, outer = -(-hidden // c["bh"]), -(-n // c["bn"])
    # operands of both products are read, sums taken and given back in one access, and cleared before
    reads = m * (k * inner + hidden * outer) + blocks * (k * hidden + hidden * n)
    sums = 2 * m * (hidden * (-(-k // c["bk"]) + 1) + n * (-(-hidden // depth) + 1))
    middle = rates.one("pack", count=1)
    if chain.activation is not None:
        middle += rates.one(ACTIVATIONS[chain.activation], count=1)
    products = m * hidden * (k + n) * rates.product
    total = products + (reads + sums) * tile + m * hidden * (middle + _handed(rates, c)) + m * n * rates.stored
    total = total + _rows(m * k, rates, c, inner) + (k * hidden + hidden * n) * _weights(machine, rates, c, blocks)
    for columns, end in zip((hidden, n), chain.ends):
        total = total + finishing(m, columns, rates, end, blocks)
    return np.asarray(rates.launched(machine) + total, np.float64)


def _handed(rates: Rates, c: Columns) -> np.ndarray:
    """Of a tile that goes to the other members of a team: down its column, from there along its rows."""
    down = np.where(c["rt"] > 1, TILE_BYTES * rates.column_byte + (1 + c["rt"]) * rates.l1_tile, 0)
    along = np.where(c["ct"] > 1, c["rt"] * (TILE_BYTES * rates.row_byte + (1 + c["ct"]) * rates.l1_tile), 0)
    return down + along


def _rows(tiles: int, rates: Rates, c: Columns, blocks: np.ndarray) -> np.ndarray:
    """Of the rows of A; members without any of the ``blocks`` of hidden columns need none."""
    members = np.minimum(c["rt"] * c["ct"], blocks)
    alone = members * (TILE_BYTES * (rates.dram_byte + rates.way_byte) + rates.l1_tile)
    rows = np.minimum(c["rt"], -(-members // c["ct"]))
    row = rows * (TILE_BYTES * (rates.dram_byte + rates.row_byte) + c["ct"] * rates.l1_tile)
    column = TILE_BYTES * (rates.dram_byte + rates.column_byte) + c["rt"] * rates.l1_tile
    shared = (c["shared"] == 1) & (c["rt"] * c["ct"] > 1)
    found: np.ndarray = tiles * np.where(shared, np.where(c["ct"] > 1, row, column), alone)
    return found


def _weights(machine: Machine, rates: Rates, c: Columns, blocks: np.ndarray) -> np.ndarray:
    """Of a tile of weights, for all ``blocks`` of rows; kept ones come with the first wave."""
    rows, columns, kept = c["rm"], c["cm"], c["keep"] == 1
    places = rows * columns
    waves = np.where(kept, 1, -(-blocks // places))
    every = [c["way"] == PATTERNS.index(name) for name in ("none", "row", "column", "down", "across")]
    sends = np.select(every, [np.where(kept, np.minimum(blocks, places), blocks), rows * waves, columns * waves, waves,
                              waves])
    on_way = np.select(every, [
        rates.way_byte, rates.row_byte, rates.column_byte, rates.column_byte + machine.rows * rates.row_byte,
        rates.row_byte + machine.columns * rates.column_byte])
    written = np.where(every[0], sends, places * waves)
    found: np.ndarray = sends * TILE_BYTES * (rates.dram_byte + on_way) + written * rates.l1_tile
    return found
