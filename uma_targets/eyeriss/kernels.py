"""Whole streams: a convolution or a GEMM of 16-bit integers, planned and emitted."""

from __future__ import annotations

from collections.abc import Mapping

from oracle.affine import Affine
from oracle.stream import Instr, Stream
from uma_targets.eyeriss.emit import Emission
from uma_targets.eyeriss.plan import Machine, RowStationary, plan, plans
from uma_targets.eyeriss.problem import VALUE_BYTES, Problem, Shape, Strides, gemm_rows
from uma_targets.gemmini.nest import Nodes, align, place

ISA = "eyeriss"


def conv_stream(
    shape: Shape, machine: Machine, parameters: Mapping[str, int], *, mapping: RowStationary | None = None,
    bias: bool = False, relu: bool = False, fraction: int = 0, name: str = "conv2d",
) -> Stream:
    """``X[n, c, h, w]``, ``W[m, c, r, s]`` (and ``bias[m]``) -> ``Y[n, m, e, f]``, all int16, sums modulo 2^16.

    ``fraction``: bits by which each product is shifted right before it is added.
    """
    s, size = shape, VALUE_BYTES
    x, w, y = (s.n, s.c, s.h, s.w), (s.m, s.c, s.r, s.s), (s.n, s.m, s.e, s.f)
    tensors = [("X", x), ("W", w), *([("bias", (s.m,))] if bias else []), ("Y", y)]
    placed = place((name, dims, "int16", _elements(dims) * size) for name, dims in tensors)
    at = {t.name: t.address for t in placed}
    problem = Problem(
        shape,
        Strides(Affine(at["X"]), (s.c * s.h * s.w * size, s.w * size, size, s.h * s.w * size)),
        Strides(Affine(at["W"]), (s.c * s.r * s.s * size, s.r * s.s * size, s.s * size, size)),
        Strides(Affine(at["Y"]), (s.m * s.e * s.f * size, s.f * size, size, s.e * s.f * size)),
        Affine(at["bias"]) if bias else None, relu,
    )
    chosen = mapping or plan(shape, machine)[0].mapping
    body = Emission(problem, chosen, machine).nodes()
    return _stream(name, parameters, placed, fraction, body)


def gemm_stream(m: int, n: int, k: int, machine: Machine, parameters: Mapping[str, int], *, name: str = "gemm") -> Stream:
    """``A[m, k] . B[k, n] -> C[m, n]``, all int16, sums modulo 2^16."""
    size = VALUE_BYTES
    placed = place((name, dims, "int16", _elements(dims) * size) for name, dims in (
        ("A", (m, k)), ("B", (k, n)), ("C", (m, n))))
    body: Nodes = []
    row = 0
    for rows, width, mapping in plan_gemm(m, n, k, machine):
        problem = gemm_rows(*(t.address for t in placed), rows, width, n, k, row)
        body += Emission(problem, mapping, machine).nodes()
        row += rows * width
    return _stream(name, parameters, placed, 0, body)


def plan_gemm(m: int, n: int, k: int, machine: Machine) -> list[tuple[int, int, RowStationary]]:
    """Cuts the rows of A into images of (rows, width), the bulk and what is left, each with its mapping."""
    best: tuple[float, list[tuple[int, int, RowStationary]]] | None = None
    for width in sorted({min(m, w) for w in (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)} | {m}):
        images = [(e, f) for e, f in ((m // width, width), (1, m % width)) if f]
        found = [plans(_image(e, f, n, k), machine, widths=(f,)) for e, f in images]
        if all(found):
            cycles = sum(planned[0].cycles for planned in found)
            if best is None or cycles < best[0]:
                best = cycles, [(e, f, planned[0].mapping) for (e, f), planned in zip(images, found)]
    if best is None:
        plan(_image(m, 1, n, k), machine)
    assert best is not None
    return best[1]


def _image(e: int, f: int, n: int, k: int) -> Shape:
    return Shape(1, k, e, f, n, 1, 1, e, f)


def _elements(dims: tuple[int, ...]) -> int:
    total = 1
    for extent in dims:
        total *= extent
    return total


def _stream(name: str, parameters: Mapping[str, int], placed: list, fraction: int, body: Nodes) -> Stream:  # type: ignore[type-arg]
    last = placed[-1]
    end = align(last.address + _elements(last.shape) * VALUE_BYTES)
    config = Instr.make("config", fraction_bits=fraction)
    return Stream(ISA, tuple(sorted(parameters.items())), tuple(placed[:-1]), (last,), end, (config, *body), name)
