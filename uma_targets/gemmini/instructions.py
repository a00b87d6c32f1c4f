"""Gemmini's instructions as the emission writes them: constructors with the ISA's attribute names and codes."""

from __future__ import annotations

from dataclasses import dataclass

from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr
from archloom.uma_targets.kit.nest import float_bits

NONE = 0xFFFFFFFF
"""Local address of no operand: zeros when read, nowhere when written."""
ACCUMULATOR = 1 << 31
ACCUMULATE = 1 << 30
FULL_WIDTH = 1 << 29
OUTPUT_STATIONARY, WEIGHT_STATIONARY = 0, 1
MOST_POOL_EXTENT = 255
"""Rows and columns of sums and of pooled results that the eight-bit fields of ``config_st`` hold."""


@dataclass(frozen=True)
class Block:
    """A matrix of ``rows`` × ``cols`` elements at a local address (or :data:`NONE`)."""

    address: Affine | int
    rows: int
    cols: int


def config_ex(*, dataflow: int, a_stride: int = 1, c_stride: int = 1) -> Instr:
    """Dataflow of the mesh and steps between the rows of A and of C, in local rows."""
    return Instr.make(
        "config_ex", dataflow=dataflow, act=0, sys_shift=0, a_transpose=0, b_transpose=0, a_stride=a_stride,
        c_stride=c_stride, set_only_strides=0,
    )


def config_ld(channel: int, *, stride: int, block_stride: int, shrunk: bool = False) -> Instr:
    """Step between the rows that ``mvin`` (channel 0), ``mvin2`` (1) or ``mvin3`` (2) reads, in bytes."""
    return Instr.make(
        "config_ld", channel=channel, stride=stride, scale=float_bits(1.0), shrunk=int(shrunk),
        block_stride=block_stride,
    )


@dataclass(frozen=True)
class PoolWindow:
    """Max-pooling of one stored tile: window, padding before, and rows × columns of sums and of pooled results."""

    size: int
    stride: int
    top: int
    left: int
    out_dim: int
    pooled_rows: int
    pooled_cols: int
    rows: int
    cols: int


def config_st(*, stride: int, relu: bool = False, scale: float = 1.0, pool: PoolWindow | None = None) -> Instr:
    """Step between the rows that ``mvout`` writes, in bytes, and what it does to the sums on the way."""
    w = pool or PoolWindow(0, 0, 0, 0, 0, 0, 0, 0, 0)
    return Instr.make(
        "config_st", stride=stride, act=int(relu), scale=float_bits(scale), pool_size=w.size, pool_stride=w.stride,
        pool_upad=w.top, pool_lpad=w.left, pool_out_dim=w.out_dim, porows=w.pooled_rows, pocols=w.pooled_cols,
        orows=w.rows, ocols=w.cols,
    )


def mvin(channel: int, dram: Affine | int, block: Block) -> Instr:
    """Load ``block`` from HBM (zeros if ``dram`` is 0)."""
    return Instr.make(
        ("mvin", "mvin2", "mvin3")[channel], dram=dram, local=block.address, cols=block.cols, rows=block.rows
    )


def mvout(dram: Affine | int, block: Block) -> Instr:
    return Instr.make("mvout", dram=dram, local=block.address, cols=block.cols, rows=block.rows)


def preload(stationary: Block, c: Block) -> Instr:
    """What the mesh keeps (weights or sums) and where the next results go."""
    return Instr.make(
        "preload", bd=stationary.address, c=c.address, bd_cols=stationary.cols, bd_rows=stationary.rows,
        c_cols=c.cols, c_rows=c.rows,
    )


def compute(a: Block, bd: Block, *, preloaded: bool) -> Instr:
    """Multiply; ``preloaded`` moves what was preloaded into the mesh first, otherwise it keeps what it has."""
    return Instr.make(
        "compute_preloaded" if preloaded else "compute_accumulated", a=a.address, bd=bd.address, a_cols=a.cols,
        a_rows=a.rows, bd_cols=bd.cols, bd_rows=bd.rows,
    )
