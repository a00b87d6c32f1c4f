"""I-BERT's encoder on Gemmini by hand: integers alone, attention included.

A layer takes nine kernels, of five kinds: products with a bias, scores with their softmax, shares of values, GELU, and
layer norm of a sum. Equal ones share a program, and :class:`Encoder` calls those of a layer for every layer in one JAX
function. ``python examples/ibert_kernels.py`` runs a small encoder and compares its result with the interpreter's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))  # works in a checkout that is not installed, too

from archloom.oracle.kernel import Kernel, KernelIsa, isa, jit
from examples.gemmini_kernels import ACC, ADD, BASE, pieces

GELU_A, GELU_B = -0.2888, -1.769
EXP_A, EXP_B, EXP_C = 0.3585, 1.353, 0.344
"""I-BERT's second-order polynomials: erf(x) = sgn(x) (a (min(|x|, -b) + b)^2 + 1), exp(x) = a (x + b)^2 + c."""
LN_2 = 0.693147


@dataclass(frozen=True)
class Size:
    """An encoder; the defaults are those of the TAIDL paper's section 8.2. ``width`` is shared out among ``heads``."""

    layers: int = 12
    sequence: int = 512
    width: int = 768
    heads: int = 12
    inner: int = 3072
    dim: int = 256

    @property
    def depth(self) -> int:
        """Elements of a head's queries, keys and values."""
        return self.width // self.heads


@dataclass(frozen=True)
class Scales:
    """What sums are multiplied by where they become int8, and what 1 stands for where a function is taken."""

    query: float = 3e-4
    value: float = 8e-4
    share: float = 0.012
    out: float = 8e-4
    norm: float = 32.0
    inner: float = 8e-4
    last: float = 4e-4
    score: float = 1e-3
    """One unit of a score is that much of an exponent."""
    gelu: float = 0.03
    """One unit of what goes into GELU, and of what comes out."""

    @property
    def exponential(self) -> dict[str, int]:
        """The constants of the exponential as Gemmini takes them."""
        ln2 = int(LN_2 / self.score)
        return {"ln2": ln2, "ln2_inv": 65536 // ln2, "b": int(EXP_B / self.score),
                "c": int(EXP_C / (EXP_A * self.score**2))}

    @property
    def gelu_constants(self) -> dict[str, int]:
        """The constants of GELU as Gemmini takes them."""
        unit = self.gelu / 2**0.5
        return {"b": int(GELU_B / unit), "c": int(1 / (GELU_A * unit**2))}

    @property
    def gelu_out(self) -> float:
        """The factor from GELU's product to int8."""
        return GELU_A * self.gelu**2 / 4


def bits(scale: float) -> int:
    """A factor as the bits of a float32, as attributes hold it."""
    return int(np.float32(scale).view(np.uint32))


def gemmini(dim: int, blocks: int = 1) -> KernelIsa:
    """The ISA with an accumulator of so many tiles side by side."""
    return isa("gemmini", dim=dim, acc_rows=max(1 << 10, blocks * dim))


def store(g: KernelIsa, stride: int, scale: float, act: int = 0) -> None:
    g.api.config_st(stride, act, bits(scale), 0, 0, 0, 0, 0, 0, 0, 0, 0)


def every_row(
    g: KernelIsa, commands: Sequence[tuple[int, int]], rows: int, cols: int, stride: int, out: Any
) -> None:
    """A normalization of ``rows`` rows of ``cols`` sums, as the tiles from ACC on hold them, to HBM from ``out`` on.

    A command (between, last) goes through the tiles of a row, ``between`` but for the last tile. One row at a time:
    that Gemmini has statistics for several keeps its pipeline busy and changes no result.
    """
    tiles = [(start + t * g.dim, width) for start, number, width in pieces(cols, g.dim) for t in range(number)]
    with g.loop(rows) as row:
        for between, last in commands:
            for at, width in tiles:
                command = last if at == tiles[-1][0] else between
                g.api.mvout(out + row * stride + at, ACC + (command << 26) + at + row, width, 1)


def dense(dim: int, m: int, n: int, k: int, scale: float) -> Kernel:
    """C = int8(scale (A · B + bias)): A int8[m, k], B int8[k, n], bias int32[n]."""
    g = gemmini(dim)
    a, b, d = BASE, BASE + m * k, -(-(BASE + m * k + k * n) // 4) * 4
    c = d + 4 * n

    def tile(row: Any, rows: int, col: Any, cols: int) -> None:
        g.api.mvin3(d + 4 * col, ACC, cols, rows)
        for start, number, depth in pieces(k, dim):
            with g.loop(number) as t:
                at = start + t * dim
                g.api.mvin(a + row * k + at, 0, depth, rows)
                g.api.mvin2(b + at * n + col, dim, cols, depth)
                g.api.preload(dim, ACC + ADD, cols, depth, cols, rows)
                g.api.compute_preloaded(0, g.NONE, depth, rows, cols, rows)
        g.api.mvout(c + row * n + col, ACC, cols, rows)

    @g.kernel(name=f"dense_{m}x{n}x{k}", arg=[
        {"name": "A", "addr": a, "shape": (m, k), "dtype": "int8"},
        {"name": "B", "addr": b, "shape": (k, n), "dtype": "int8"},
        {"name": "bias", "addr": d, "shape": (n,), "dtype": "int32"},
    ], res=[{"name": "C", "addr": c, "shape": (m, n), "dtype": "int8"}])
    def kernel() -> None:
        g.api.config_ex(g.WS, 0, 0, 0, 0, 1, 1, 0)
        for channel, stride in enumerate((k, n, 0)):
            g.api.config_ld(channel, stride, g.ONE, 0, dim)
        store(g, n, scale)
        for top, number, rows in pieces(m, dim):
            with g.loop(number) as i:
                for left, count, cols in pieces(n, dim):
                    with g.loop(count) as j:
                        tile(top + i * dim, rows, left + j * dim, cols)

    return kernel


def scores(size: Size, exponential: dict[str, int]) -> Kernel:
    """P = softmax(Q · Kᵀ) of every head: Q, K int8[sequence, width], P int8[heads, sequence, sequence] in 1/127.

    A head's depth is less than the array has rows: the rest of the array holds zeros.
    """
    dim, n, width, depth = size.dim, size.sequence, size.width, size.depth
    g = gemmini(dim, -(-n // dim))
    q, k, p = BASE, BASE + n * width, BASE + 2 * n * width

    def block(head: Any, row: Any, rows: int) -> None:
        for start, number, keys in pieces(n, dim):
            with g.loop(number) as t:
                g.api.mvin(0, ACC + start + t * dim, keys, rows)
        for e, steps, part in pieces(depth, dim):
            with g.loop(steps) as step:
                at = head * depth + e + step * dim
                g.api.mvin(q + row * width + at, 0, part, rows)
                for start, number, keys in pieces(n, dim):
                    with g.loop(number) as t:
                        first = start + t * dim
                        g.api.mvin(k + first * width + at, dim, part, keys)
                        g.api.preload(dim, ACC + ADD + first, keys, part, keys, rows)
                        g.api.compute_preloaded(0, g.NONE, part, rows, keys, rows)
        every_row(g, ((g.MAX, g.MAX), (g.SUM_EXP, g.INV_SUM_EXP), (g.RESET, g.RESET)), rows, n, n,
                  p + head * (n * n) + row * n)

    @g.kernel(name=f"scores_{size.heads}x{n}x{depth}", arg=[
        {"name": "Q", "addr": q, "shape": (n, width), "dtype": "int8"},
        {"name": "K", "addr": k, "shape": (n, width), "dtype": "int8"},
    ], res=[{"name": "P", "addr": p, "shape": (size.heads, n, n), "dtype": "int8"}])
    def kernel() -> None:
        g.api.config_ex(g.WS, 0, 0, 0, 1, 1, 1, 0)
        g.api.config_ld(0, width, g.ONE, 0, dim)
        store(g, n, 1.0)
        for kind, name in enumerate(("ln2", "ln2_inv")):
            g.api.config_norm(exponential[name], kind, 0, 1, 0, exponential["b"], exponential["c"])
        with g.loop(size.heads) as head:
            for top, number, rows in pieces(n, dim):
                with g.loop(number) as i:
                    block(head, top + i * dim, rows)

    return kernel


def shares(size: Size, scale: float) -> Kernel:
    """O = int8(scale P · V) of every head: P int8[heads, sequence, sequence], V and O int8[sequence, width]."""
    dim, n, width, depth = size.dim, size.sequence, size.width, size.depth
    g = gemmini(dim)
    p = BASE
    v, o = p + size.heads * n * n, p + size.heads * n * n + n * width

    def tile(head: Any, row: Any, rows: int, col: Any, cols: int) -> None:
        for start, number, keys in pieces(n, dim):
            with g.loop(number) as t:
                at = start + t * dim
                g.api.mvin(p + head * (n * n) + row * n + at, 0, keys, rows)
                g.api.mvin2(v + at * width + head * depth + col, dim, cols, keys)
                g.api.preload(dim, ACC + ADD, cols, keys, cols, rows)
                g.api.compute_preloaded(0, g.NONE, keys, rows, cols, rows)
        g.api.mvout(o + row * width + head * depth + col, ACC, cols, rows)

    @g.kernel(name=f"shares_{size.heads}x{n}x{depth}", arg=[
        {"name": "P", "addr": p, "shape": (size.heads, n, n), "dtype": "int8"},
        {"name": "V", "addr": v, "shape": (n, width), "dtype": "int8"},
    ], res=[{"name": "O", "addr": o, "shape": (n, width), "dtype": "int8"}])
    def kernel() -> None:
        g.api.config_ex(g.WS, 0, 0, 0, 0, 1, 1, 0)
        g.api.config_ld(0, n, g.ONE, 0, dim)
        g.api.config_ld(1, width, g.ONE, 0, dim)
        g.api.config_ld(2, 0, g.ONE, 0, dim)
        store(g, width, scale)
        with g.loop(size.heads) as head:
            for top, number, rows in pieces(n, dim):
                with g.loop(number) as i:
                    for left, count, cols in pieces(depth, dim):
                        with g.loop(count) as j:
                            g.api.mvin3(0, ACC, cols, rows)
                            tile(head, top + i * dim, rows, left + j * dim, cols)

    return kernel


def gelu(dim: int, m: int, n: int, constants: dict[str, int], scale: float) -> Kernel:
    """Y = int8(scale GELU(X)): X and Y int8[m, n], by the accumulator."""
    g = gemmini(dim)
    x, y = BASE, BASE + m * n

    @g.kernel(name=f"gelu_{m}x{n}", arg=[{"name": "X", "addr": x, "shape": (m, n), "dtype": "int8"}],
              res=[{"name": "Y", "addr": y, "shape": (m, n), "dtype": "int8"}])
    def kernel() -> None:
        g.api.config_ld(0, n, g.ONE, 1, dim)
        store(g, n, scale, g.IGELU)
        g.api.config_norm(0, 0, 0, 0, 0, constants["b"], constants["c"])
        for top, number, rows in pieces(m, dim):
            with g.loop(number) as i:
                for left, count, cols in pieces(n, dim):
                    with g.loop(count) as j:
                        at = (top + i * dim) * n + left + j * dim
                        g.api.mvin(x + at, ACC, cols, rows)
                        g.api.mvout(y + at, ACC, cols, rows)

    return kernel


def norm(dim: int, m: int, n: int, scale: float) -> Kernel:
    """Z = int8(scale layer_norm(X + Y)): all int8[m, n]; the sum is made in the accumulator."""
    g = gemmini(dim, -(-n // dim))
    x, y, z = BASE, BASE + m * n, BASE + 2 * m * n
    plain: dict[str, Any] = {"shape": (m, n), "dtype": "int8"}

    @g.kernel(name=f"norm_{m}x{n}", arg=[{"name": "X", "addr": x, **plain}, {"name": "Y", "addr": y, **plain}],
              res=[{"name": "Z", "addr": z, **plain}])
    def kernel() -> None:
        g.api.config_ld(0, n, g.ONE, 1, dim)
        store(g, n, scale, g.LAYERNORM)
        for top, number, rows in pieces(m, dim):
            with g.loop(number) as i:
                row = top + i * dim
                for tensor, to in ((x, ACC), (y, ACC + ADD)):
                    for left, count, cols in pieces(n, dim):
                        with g.loop(count) as j:
                            at = left + j * dim
                            g.api.mvin(tensor + row * n + at, to + at, cols, rows)
                every_row(g, ((g.SUM, g.MEAN), (g.VARIANCE, g.INV_STDDEV), (g.RESET, g.RESET)), rows, n, n,
                          z + row * n)

    return kernel


WEIGHTS = ("Wq", "bq", "Wk", "bk", "Wv", "bv", "Wo", "bo", "W1", "b1", "W2", "b2")
"""The weights of a layer, in the order of the arguments; each has the layers as its first axis."""


@dataclass(frozen=True)
class Encoder:
    """The encoder as one JAX function of X int8[sequence, width] and the :data:`WEIGHTS` of all layers."""

    size: Size = field(default_factory=Size)
    scales: Scales = field(default_factory=Scales)

    @cached_property
    def kernels(self) -> dict[str, Kernel]:
        """The kernels of a layer."""
        z, s = self.size, self.scales
        square = (z.dim, z.sequence, z.width, z.width)
        return {
            "query": dense(*square, s.query), "value": dense(*square, s.value),
            "scores": scores(z, s.exponential), "shares": shares(z, s.share), "out": dense(*square, s.out),
            "norm": norm(z.dim, z.sequence, z.width, s.norm),
            "inner": dense(z.dim, z.sequence, z.inner, z.width, s.inner),
            "gelu": gelu(z.dim, z.sequence, z.inner, s.gelu_constants, s.gelu_out),
            "last": dense(z.dim, z.sequence, z.width, z.inner, s.last),
        }

    def layer(self, call: Callable[..., Any], x: Any, weights: Sequence[Any]) -> Any:
        """One layer; ``call(name, *arrays)`` runs a kernel."""
        wq, bq, wk, bk, wv, bv, wo, bo, w1, b1, w2, b2 = weights
        p = call("scores", call("query", x, wq, bq), call("query", x, wk, bk))
        o = call("shares", p, call("value", x, wv, bv))
        h = call("norm", call("out", o, wo, bo), x)
        return call("norm", call("last", call("gelu", call("inner", h, w1, b1)), w2, b2), h)

    def function(self, x: Any, *weights: Any) -> tuple[Any, ...]:
        """The encoder's result for JAX arrays or tracers, as a tuple of one."""
        from jax import lax

        def call(name: str, *arrays: Any) -> Any:
            return self.kernels[name].function(*arrays)[0]

        return (lax.scan(lambda state, w: (self.layer(call, state, w), None), x, weights)[0],)

    def compile(self) -> Any:
        """:meth:`function` compiled ahead of time."""
        import jax

        shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in self.shapes.values()]
        return jit(self.function).lower(*shapes).compile()

    @property
    def raised(self) -> bool:
        """Whether no loop over instructions is left."""
        return all(kernel.report.raised for kernel in self.kernels.values())

    def count(self) -> int:
        """Instructions that run."""
        streams = {name: kernel.stream.count() for name, kernel in self.kernels.items()}
        return self.size.layers * (sum(streams.values()) + streams["query"] + streams["norm"])  # these two run twice

    def interpret(self, x: np.ndarray, *weights: np.ndarray) -> np.ndarray:
        """The same by the interpreter, instruction by instruction."""
        for n in range(self.size.layers):
            x = self.layer(lambda name, *a: self.kernels[name].interpret(*a), x, [w[n] for w in weights])
        return x

    @property
    def shapes(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shapes and types of the arguments by name."""
        z = self.size
        made: dict[str, tuple[tuple[int, ...], str]] = {"X": ((z.sequence, z.width), "int8")}
        for letter, cols, depth in (("q", z.width, z.width), ("k", z.width, z.width), ("v", z.width, z.width),
                                    ("o", z.width, z.width), ("1", z.inner, z.width), ("2", z.width, z.inner)):
            made[f"W{letter}"] = ((z.layers, depth, cols), "int8")
            made[f"b{letter}"] = ((z.layers, cols), "int32")
        return made

    def inputs(self, random: np.random.Generator) -> list[np.ndarray]:
        """Arguments of the whole range of int8, and biases of the size of a product's sum."""
        return [random.integers(-128, 128, shape, dtype=np.int8) if dtype == "int8"
                else random.integers(-30_000, 30_001, shape, dtype=np.int32) for shape, dtype in self.shapes.values()]


def main() -> None:
    encoder = Encoder(Size(layers=2, sequence=16, width=24, heads=3, inner=32, dim=8))
    given = encoder.inputs(np.random.default_rng(0))
    result = np.asarray(encoder.function(*given)[0])
    if not np.array_equal(result, encoder.interpret(*given)):
        raise SystemExit("the oracle's result is not the interpreter's")
    for kernel in encoder.kernels.values():
        print(f"{kernel.report}  ({kernel.stream.count()} instructions)")
    print(f"result of {result.shape}: equal to the interpreter's")


if __name__ == "__main__":
    main()
