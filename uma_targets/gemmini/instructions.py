"""Gemmini's instructions as the emission writes them: constructors with the ISA's attribute names and codes; and the
parameters of the ISA that the emission depends on, with the bounds that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Node
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


def by_weights(a: Block, weights: Affine | int, c: Block, *, fresh: bool) -> list[Node]:
    """Rows of ``a`` times weights that stay in the mesh, to ``c``; they come from an address where they are ``fresh``.
    """
    return [preload(Block(weights if fresh else NONE, a.cols, c.cols), c),
            compute(a, Block(NONE, a.rows, c.cols), preloaded=fresh)]


def into_sums(a: Block, b: Block, c: Block, *, first: bool, last: bool) -> list[Node]:
    """``a`` times ``b``, added to sums that stay in the mesh from the ``first`` product to the ``last``, after which
    they go to ``c``."""
    nowhere = Block(NONE, a.rows, b.cols)
    return [preload(nowhere, c if last else nowhere), compute(a, b, preloaded=first)]


@dataclass(frozen=True)
class GemminiParameters:
    """``dim`` × ``dim`` mesh; rows of the scratchpad (dim × int8) and of the accumulator (dim × int32)."""

    dim: int
    spad_rows: int
    acc_rows: int

    @staticmethod
    def of(values: Mapping[str, int]) -> "GemminiParameters":
        """From the ISA's parameters, which may have further ones."""
        return GemminiParameters(values["dim"], values["spad_rows"], values["acc_rows"])

    def check_rows(self, spad: int, acc: int, what: str) -> None:
        """MappingError with demand, bound, gap and levers if ``what`` needs more rows than there are."""
        for name, demand, bound, option in (
            ("scratchpad", spad, self.spad_rows, "scratchpad_kib"),
            ("accumulator", acc, self.acc_rows, "accumulator_kib"),
        ):
            if demand > bound:
                raise MappingError(
                    f"{what} needs {demand} rows of the {name} (dim {self.dim}), which has {bound}: {demand - bound} "
                    f"too many; smaller tiles, fewer buffers or a larger {option} would help"
                )
