"""Hand-written Gemmini streams for the tests: small, plain, and independent of the mapper's emission."""

from __future__ import annotations

import struct

from archloom.oracle.affine import Affine
from archloom.oracle.stream import HbmTensor, Instr, Loop, Stream

NONE = 0xFFFFFFFF
ACC = 1 << 31
ADD = 1 << 30
FULL = 1 << 29
OS, WS = 0, 1
ONE = 0x3F800000

V = Affine.variable


def bits(scale: float) -> int:
    """The bits of a float32."""
    return struct.unpack("<I", struct.pack("<f", scale))[0]


def config_ex(dataflow: int = WS, **fields: int) -> Instr:
    known = {"act": 0, "sys_shift": 0, "a_transpose": 0, "b_transpose": 0, "a_stride": 1, "c_stride": 1,
             "set_only_strides": 0}
    return Instr.make("config_ex", dataflow=dataflow, **{**known, **fields})


def config_ld(stride: int, channel: int = 0, *, scale: int = ONE, shrunk: int = 0, block_stride: int = 16) -> Instr:
    return Instr.make("config_ld", channel=channel, stride=stride, scale=scale, shrunk=shrunk,
                      block_stride=block_stride)


def config_st(stride: int, *, act: int = 0, scale: int = ONE, **pool: int) -> Instr:
    names = ("pool_size", "pool_stride", "pool_upad", "pool_lpad", "pool_out_dim", "porows", "pocols", "orows",
             "ocols")
    return Instr.make("config_st", stride=stride, act=act, scale=scale, **{n: pool.get(n, 0) for n in names})


def config_norm(q_const: int = 0, kind: int = 0, *, softmax: int = 0, stat_id: int = 0, only_id: int = 0, b: int = 0,
                c: int = 0) -> Instr:
    return Instr.make("config_norm", q_const=q_const, q_const_type=kind, set_stats_id_only=only_id, act_msb=softmax,
                      stat_id=stat_id, igelu_qb=b, igelu_qc=c)


def mvin(dram: Affine | int, local: Affine | int, cols: int, rows: int, channel: int = 0) -> Instr:
    name = ("mvin", "mvin2", "mvin3")[channel]
    return Instr.make(name, dram=dram, local=local, cols=cols, rows=rows)


def mvout(dram: Affine | int, local: Affine | int, cols: int, rows: int) -> Instr:
    return Instr.make("mvout", dram=dram, local=local, cols=cols, rows=rows)


def preload(bd: Affine | int, c: Affine | int, bd_cols: int, bd_rows: int, c_cols: int, c_rows: int) -> Instr:
    return Instr.make("preload", bd=bd, c=c, bd_cols=bd_cols, bd_rows=bd_rows, c_cols=c_cols, c_rows=c_rows)


def compute(
    a: Affine | int, bd: Affine | int, a_cols: int, a_rows: int, bd_cols: int, bd_rows: int, *, preloaded: bool = True
) -> Instr:
    name = "compute_preloaded" if preloaded else "compute_accumulated"
    return Instr.make(name, a=a, bd=bd, a_cols=a_cols, a_rows=a_rows, bd_cols=bd_cols, bd_rows=bd_rows)


def stream(
    body: list[Instr | Loop], arguments: list[HbmTensor], results: list[HbmTensor], hbm_bytes: int, **parameters: int
) -> Stream:
    return Stream("gemmini", tuple(parameters.items()), tuple(arguments), tuple(results), hbm_bytes, tuple(body),
                  name="test")


def tiled_matmul(dim: int, tiles: int, dataflow: int) -> Stream:
    """``C = saturate(A . B + D)``: A, C and D of tiles*dim x dim, B of dim x dim, all int8; one tile after another."""
    n, square = tiles * dim, dim * dim
    base = 64
    a, b, d, c = (base, base + n * dim, base + n * dim + square, base + 2 * n * dim + square)
    tensors = {
        "A": HbmTensor("A", a, (n, dim), "int8"), "B": HbmTensor("B", b, (dim, dim), "int8"),
        "D": HbmTensor("D", d, (n, dim), "int8"), "C": HbmTensor("C", c, (n, dim), "int8"),
    }
    at = V("i") * square
    spad_a, spad_d, spad_b = 0, dim, 2 * dim
    head: list[Instr | Loop] = [
        config_ex(dataflow), config_ld(dim, block_stride=dim), config_st(dim), mvin(b, spad_b, dim, dim)
    ]
    stationary, moving = (spad_b, spad_d) if dataflow == WS else (spad_d, spad_b)
    out = ACC if dataflow == WS else 3 * dim
    body = (
        mvin(at + a, spad_a, dim, dim), mvin(at + d, spad_d, dim, dim),
        preload(stationary, out, dim, dim, dim, dim), compute(spad_a, moving, dim, dim, dim, dim),
        mvout(at + c, out, dim, dim),
    )
    arguments = [tensors[k] for k in "ABD"]
    return stream([*head, Loop("i", 0, tiles, 1, body)], arguments, [tensors["C"]], c + n * dim, dim=dim)
