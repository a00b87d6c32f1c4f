"""Five kernels that oneDNN generates for AMX and AVX-512, written by hand as streams, for any number of blocks.

The patterns are those of the TAIDL paper's evaluation (section 8, figure 20 and table 2): the loops of oneDNN's
generated code for quantized convolutions and recurrent networks (AMX), for single-precision products (AVX-512), and for
both in one loop. Blocks are a loop, so that a stream has one size whatever their number.

``python examples/amx_kernels.py`` runs each on random inputs, as NumPy interpreter and as XLA oracle.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))  # works in a checkout that is not installed, too

from archloom.oracle.affine import Affine
from archloom.oracle.stream import HbmTensor, Instr, Loop, Node, Stream

TILE = 1024
"""Bytes of a tile: 16 rows of 64."""

ROW = 64
"""Bytes of a row of a tile, and of a zmm register."""

F32 = 4

I, J = Affine.variable("i"), Affine.variable("j")


@dataclass
class _Memory:
    """Tensors one behind the other in HBM."""

    arguments: list[HbmTensor] = field(default_factory=list)
    results: list[HbmTensor] = field(default_factory=list)
    size: int = 0

    def argument(self, name: str, dtype: str, *shape: int) -> int:
        return self._place(self.arguments, name, dtype, shape)

    def result(self, name: str, dtype: str, *shape: int) -> int:
        return self._place(self.results, name, dtype, shape)

    def _place(self, where: list[HbmTensor], name: str, dtype: str, shape: tuple[int, ...]) -> int:
        address, width = self.size, {"int8": 1, "uint8": 1, "int32": 4, "float32": 4}[dtype]
        where.append(HbmTensor(name, address, shape, dtype))
        for extent in shape:
            width *= extent
        self.size += width
        return address

    def stream(self, name: str, body: list[Node]) -> Stream:
        return Stream("amx", (), tuple(self.arguments), tuple(self.results), self.size, tuple(body), name)


def _zero(tiles: int) -> list[Node]:
    return [Instr.make("tilezero", dst=t) for t in range(tiles)]


def _load(dst: int, dram: Affine | int) -> Instr:
    return Instr.make("tileloadd", dst=dst, dram=dram, stride=ROW)


def _product(dst: int, src1: int, src2: int) -> Instr:
    return Instr.make("tdpbusd", dst=dst, src1=src1, src2=src2)


def _store(tiles: int, dram: int) -> list[Node]:
    return [Instr.make("tilestored", src=t, dram=dram + t * TILE, stride=ROW) for t in range(tiles)]


def _avx(mnemonic: str, dst: Affine | int, src1: Affine | int, src2: Affine | int) -> Instr:
    return Instr.make(mnemonic, dst=dst, src1=src1, src2=src2)


def _vload(dst: int, dram: Affine | int) -> Instr:
    return Instr.make("vmovups_load", dst=dst, dram=dram)


def _broadcast(dst: int, dram: Affine | int) -> Instr:
    return Instr.make("vbroadcastss_m", dst=dst, dram=dram)


def _clear(register: int) -> Instr:
    return _avx("vpxord", register, register, register)


def cnn_inference_amx(blocks: int) -> Stream:
    """A quantized convolution's inner loop: two rows of tiles of A by two columns of tiles of B, unsigned by signed.

    The tiles of A move on by one row of 64 bytes a block; those of B by two tiles, of which the kernel reads 17 rows.
    """
    memory = _Memory()
    a0 = memory.argument("in_t4", "int8", TILE + ROW * (blocks - 1))
    a1 = memory.argument("in_t5", "int8", TILE + ROW * (blocks - 1))
    b = memory.argument("in_t6", "int8", 2 * TILE * blocks)
    out = memory.result("out", "int32", 4, 256)
    block: tuple[Node, ...] = (
        _load(4, a0 + ROW * I), _load(6, b + 2 * TILE * I), _load(7, b + ROW + 2 * TILE * I), _product(0, 4, 6),
        _load(5, a1 + ROW * I), _product(1, 4, 7), _product(2, 5, 6), _product(3, 5, 7),
    )
    return memory.stream("cnn_inference_amx", [*_zero(4), Loop("i", 0, blocks, 1, block), *_store(4, out)])


def rnn_inference_amx(blocks: int) -> Stream:
    """A quantized recurrent layer's inner loop: one tile of A by two of B."""
    memory = _Memory()
    a = memory.argument("in_t2", "int8", TILE + ROW * (blocks - 1))
    b = memory.argument("in_t3", "int8", 2 * TILE * blocks)
    out = memory.result("out", "int32", 2, 256)
    block: tuple[Node, ...] = (
        _load(2, a + ROW * I), _load(3, b + 2 * TILE * I), _product(0, 2, 3),
        _load(4, b + ROW + 2 * TILE * I), _product(1, 2, 4),
    )
    return memory.stream("rnn_inference_amx", [*_zero(2), Loop("i", 0, blocks, 1, block), *_store(2, out)])


def sgemm_avx(blocks: int) -> Stream:
    """A product in single precision: 48 x 8 sums in 24 registers, each step one of 48 numbers by a scalar.

    The scalars of a step are fetched in the step before it: those of the very first come from the last place of their
    table. Register 8 + 2j + c + 8v adds up vector v times scalar (j, c).
    """
    memory, steps = _Memory(), 4
    vectors = memory.argument("in", "float32", blocks, 3, 16)
    scalars = memory.argument("in_z6_7", "float32", steps + 1, 2, 4)
    offset = memory.argument("offset", "float32", 32, 16)
    out = memory.result("out", "float32", 32, 16)
    pair, quad = 8 * F32, 4 * F32
    step: list[Node] = []
    for column, register in enumerate((6, 7)):
        step += [_avx("vfmadd231ps", 2 * J + 8 + 8 * v + column, v, register) for v in range(3)]
        step.append(_broadcast(register, scalars + pair * J + quad * column))
    block = (*(_vload(v, vectors + 3 * ROW * I + ROW * v) for v in range(3)), Loop("j", 0, steps, 1, tuple(step)))
    body: list[Node] = [_clear(r) for r in range(8, 32)]
    body += [_broadcast(6 + column, scalars + pair * steps + quad * column) for column in range(2)]
    body.append(Loop("i", 0, blocks, 1, block))
    for i in range(8, 16):
        every = (i, i + 8, i + 16)
        body += [Instr.make("vaddps_m", dst=r, src1=r, dram=offset + ROW * r) for r in every]
        for r in every:
            body += [Instr.make("vmovups_store", dram=out + ROW * r, src=r), _clear(r)]
    return memory.stream("sgemm_avx", body)


def mem_format_prop_avx(blocks: int) -> Stream:
    """A convolution in single precision: 14 scalars by two vectors a block, 28 registers of sums."""
    memory, steps = _Memory(), 14
    scalars = memory.argument("in_z0", "float32", steps, 4)
    vectors = memory.argument("in_z2_3", "float32", blocks, 2, 16)
    out = memory.result("out", "float32", 32, 16)
    step = (_broadcast(0, scalars + 4 * F32 * J), _avx("vfmadd231ps", 31 - 2 * J, 0, 3),
            _avx("vfmadd231ps", 30 - 2 * J, 0, 2))
    block = (_vload(3, vectors + 2 * ROW * I + ROW), _vload(2, vectors + 2 * ROW * I), Loop("j", 0, steps, 1, step))
    registers = range(31, 3, -1)
    body: list[Node] = [_clear(r) for r in registers]
    body.append(Loop("i", 0, blocks, 1, block))
    body += [Instr.make("vmovups_store", dram=out + ROW * r, src=r) for r in registers]
    return memory.stream("mem_format_prop_avx", body)


def cnn_inference_mix(blocks: int) -> Stream:
    """:func:`cnn_inference_amx` and, between its products, the output stage of an earlier block in AVX-512.

    48 numbers a block: scaled, shifted, bounded from below, scaled again, then brought to unsigned bytes.
    """
    memory = _Memory()
    a0 = memory.argument("in_t4", "int8", TILE + ROW * (blocks - 1))
    a1 = memory.argument("in_t5", "int8", TILE + ROW * (blocks - 1))
    b = memory.argument("in_t6", "int8", 2 * TILE * blocks)
    low = memory.argument("max", "float32", 16)
    scale = memory.argument("in_z0", "float32", 4)
    shift = memory.argument("in_z10", "float32", 16)
    factor = memory.argument("in_z15", "float32", 16)
    numbers = memory.argument("avx_in", "float32", blocks, 3, 16)
    out1 = memory.result("out1", "int32", 4, 256)
    out2 = memory.result("out2", "uint8", blocks, 3, 16)

    def finish(v: int) -> list[Node]:
        r = 29 + v
        return [_avx("vmaxps", r, 8, r), _avx("vminps", r, 9, r), Instr.make("vcvtps2dq", dst=r, src=r),
                Instr.make("vpmovusdb_m", dram=out2 + 48 * I + 16 * v, src=r, mask=2)]

    down = (31, 30, 29)
    block: list[Node] = [
        _load(4, a0 + ROW * I), _load(6, b + 2 * TILE * I), _load(7, b + ROW + 2 * TILE * I), _product(0, 4, 6),
        *(_vload(r, numbers + 3 * ROW * I + ROW * (r - 29)) for r in down),
        *(_avx("vmulps", r, 15, r) for r in down),
        *(_avx("vaddps", r, 10, r) for r in down),
        *(Instr.make("vmaxps_m", dst=r, src1=r, dram=low) for r in reversed(down)),
        _broadcast(0, scale),
        *(_avx("vmulps", r, 0, r) for r in down),
        *finish(2), _load(5, a1 + ROW * I), _product(1, 4, 7),
        *finish(1), _product(2, 5, 6),
        *finish(0), _product(3, 5, 7),
    ]
    body: list[Node] = [
        _vload(10, shift), _vload(15, factor), _clear(8), Instr.make("vmovd", dst=9, value=0x437F0000),
        Instr.make("vbroadcastss", dst=9, src=9), *_zero(4), Loop("i", 0, blocks, 1, tuple(block)), *_store(4, out1),
    ]
    return memory.stream("cnn_inference_mix", body)


KERNELS: dict[str, Callable[[int], Stream]] = {
    f.__name__: f for f in (cnn_inference_amx, rnn_inference_amx, sgemm_avx, mem_format_prop_avx, cnn_inference_mix)
}
"""Each kernel as a function of its number of blocks."""


def random_arguments(stream: Stream, seed: int) -> dict[str, np.ndarray]:
    """Bytes of the whole range and normal floats."""
    rng = np.random.default_rng(seed)
    return {t.name: rng.integers(-128, 128, t.shape, dtype=np.int8) if t.dtype == "int8"
            else rng.standard_normal(t.shape).astype(np.float32) for t in stream.arguments}


def main() -> None:
    from archloom.oracle import interpreter, taidl
    from archloom.oracle.xla import compile_stream

    isa = taidl.load("amx")
    for name, kernel in KERNELS.items():
        stream = kernel(8)
        arguments = random_arguments(stream, 1)
        right, oracle = interpreter.run(stream, isa, arguments), compile_stream(stream, isa)
        same = all(np.array_equal(np.asarray(x), right[t.name])
                   for t, x in zip(stream.results, oracle(*arguments.values()), strict=True))
        print(f"{name}: {stream.count()} instructions, {'equal' if same else 'NOT EQUAL'}")
        print(oracle.report)


if __name__ == "__main__":
    main()
