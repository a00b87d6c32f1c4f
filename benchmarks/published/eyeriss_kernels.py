"""Convolutions and products on Eyeriss as whole streams of 16-bit integers, as the chip computes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from archloom.mapper.memory import align, place
from archloom.oracle.affine import Affine
from archloom.oracle.stream import HbmTensor, Instr, Stream
from archloom.uma_targets.eyeriss.emit import ISA, Block, Emission, Turn, product_nodes
from archloom.uma_targets.eyeriss.passes import Strip
from archloom.uma_targets.eyeriss.plan import Machine, RowStationary
from archloom.uma_targets.eyeriss.problem import VALUE_BYTES, Output, Problem, Shape, Strides
from archloom.uma_targets.eyeriss.space import convolutions, products, row_stationary
from archloom.uma_targets.kit.gemm import Gemm
from archloom.uma_targets.kit.nest import Nodes, repeat


class Apart(Emission):
    """Each block by itself, as the chip was modelled when its rows were published: it takes its places anew, and fills
    in its padding."""

    def padding(self, strip: Strip) -> Nodes:
        return []

    def block(self, block: Block) -> Nodes:
        strip, shape = block.strip, self.problem.shape
        alone = replace(self, largest=replace(shape, e=strip.rows.size, f=strip.cols.size))
        planes = self.mapping.buffers * block.images.size * self.mapping.held(shape)
        zeros = repeat("z", planes if strip.rows.padded or strip.cols.padded else 0, lambda i: [Instr.make(
            "clear", glb=i * strip.plane + alone.ifmaps, n0=strip.rows.reach, n1=strip.cols.reach,
            g0=strip.cols.reach, g1=1)])
        return [*zeros, *replace(block, emission=alone, turn=Turn(Affine(0), Affine(0))).nodes()]


def conv_stream(
    shape: Shape, machine: Machine, parameters: Mapping[str, int], *, mapping: RowStationary | None = None,
    bias: bool = False, relu: bool = False, fraction: int = 0, name: str = "conv2d",
    emission: type[Emission] = Emission,
) -> Stream:
    """``X[n, c, h, w]``, ``W[m, c, r, s]`` (and ``bias[m]``) -> ``Y[n, m, e, f]``.

    X and W are int16, Y and the bias int16 with sums modulo 2^16, or int32 where the machine's partial sums have 32
    bits. ``fraction``: bits by which each product is shifted right before it is added. MappingError if ``mapping`` (by
    default the one with the fewest expected cycles) does not fit.
    """
    s, item, out = shape, VALUE_BYTES, VALUE_BYTES * machine.psum_words
    sums = f"int{8 * out}"
    placed = _place([
        ("X", (s.n, s.c, s.h, s.w), "int16"), ("W", (s.m, s.c, s.r, s.s), "int16"),
        *([("bias", (s.m,), sums)] if bias else []), ("Y", (s.n, s.m, s.e, s.f), sums),
    ])
    at = {t.name: Affine(t.address) for t in placed}
    problem = Problem(
        shape,
        Strides(at["X"], (s.c * s.h * s.w * item, s.w * item, item, s.h * s.w * item)),
        Strides(at["W"], (s.c * s.r * s.s * item, s.r * s.s * item, s.s * item, item)),
        Strides(at["Y"], (s.m * s.e * s.f * out, s.f * out, out, s.e * s.f * out)),
        at.get("bias"), Output(relu),
    )
    chosen = mapping or row_stationary(convolutions(name, shape, machine).first()[0])
    return _stream(name, parameters, placed, fraction, emission(problem, chosen, machine).nodes())


def gemm_stream(
    m: int, n: int, k: int, machine: Machine, parameters: Mapping[str, int], *, name: str = "gemm",
    mapping: RowStationary | None = None,
) -> Stream:
    """``A[m, k] . B[k, n] -> C[m, n]``; A and B int16, C as Y of :func:`conv_stream`."""
    out = VALUE_BYTES * machine.psum_words
    placed = _place([("A", (m, k), "int16"), ("B", (k, n), "int16"), ("C", (m, n), f"int{8 * out}")])
    a, b, c = (Affine(t.address) for t in placed)
    product = Gemm(m, n, k, a, b, None, c, VALUE_BYTES, out, out, False, 1.0, Affine(0), None)
    chosen = mapping or row_stationary(products(name, (m, n, k), machine).first()[0])
    return _stream(name, parameters, placed, 0, product_nodes(product, chosen, machine, scaled=False))


def _place(tensors: Sequence[tuple[str, tuple[int, ...], str]]) -> list[HbmTensor]:
    return place((name, dims, dtype, _bytes(dims, dtype)) for name, dims, dtype in tensors)


def _bytes(shape: tuple[int, ...], dtype: str) -> int:
    return math.prod(shape) * (int(dtype.removeprefix("int")) // 8)


def _stream(name: str, parameters: Mapping[str, int], placed: list[HbmTensor], fraction: int, body: Nodes) -> Stream:
    last = placed[-1]
    config = Instr.make("config", fraction_bits=fraction)
    end = align(last.address + _bytes(last.shape, last.dtype))
    return Stream(ISA, tuple(parameters.items()), tuple(placed[:-1]), (last,), end, (config, *body), name)
