"""TPU v1 kernels written by hand: a tiled product with its activation, and chains of dense layers.

Weight tiles stream through the FIFO in the order in which products take them, some tiles ahead of the product at hand;
activations stay in the Unified Buffer from layer to layer. ``python examples/tpu_v1_kernels.py`` prints a kernel as
assembly, runs a product, a network and a convolution and compares their results with NumPy's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))  # works in a checkout that is not installed, too

from archloom.oracle.kernel import Kernel, KernelIsa, isa

AHEAD = 3
"""Tiles that may be read ahead of the product at hand: with its own, the FIFO is full."""


def packed(weights: np.ndarray, dim: int) -> np.ndarray:
    """``weights`` [k, n] as int8[n tiles, k tiles, dim, dim], filled up with zeros: as weight memory holds them."""
    k, n = weights.shape
    deep, wide = -(-k // dim), -(-n // dim)
    padded = np.zeros((deep * dim, wide * dim), np.int8)
    padded[:k, :n] = weights
    return np.ascontiguousarray(padded.reshape(deep, dim, wide, dim).transpose(2, 0, 1, 3))


def bits(scale: float) -> int:
    """A factor as the bits of a float32, as attributes hold it."""
    return int(np.float32(scale).view(np.uint32))


def quantized(sums: np.ndarray, scale: float, relu: bool) -> np.ndarray:
    """What ``activate`` makes of int32 sums."""
    scaled = np.rint(sums.astype(np.float32) * np.float32(scale))
    return scaled.clip(0 if relu else -128, 127).astype(np.int8)


@dataclass(frozen=True)
class Layer:
    """A product of ``rows`` activations with ``deep`` x ``wide`` tiles of weights, and its activation.

    ``source`` and ``target``: first rows of the panels in the Unified Buffer. ``weights``: address of the first tile;
    ``left``: how many tiles lie there, those of later layers included.
    """

    rows: int
    deep: int
    wide: int
    source: Any
    target: Any
    weights: int
    left: int
    scale: float
    relu: bool


def read_ahead(g: KernelIsa, weights: int, tiles: int) -> None:
    """The first tiles into the FIFO."""
    for t in range(tiles):
        g.api.read_weights(addr=weights + t * g.dim * g.dim)


def dense(g: KernelIsa, layer: Layer, ahead: int, after: Callable[[Any], None] = lambda column: None) -> None:
    """The instructions of ``layer``, with ``ahead`` of its tiles in the FIFO already; ``after`` follows each column."""
    half = g.acc_rows // 2

    def product(column: Any, step: Any, fetch: bool) -> None:
        tile = column * layer.deep + step
        if fetch:
            g.api.read_weights(addr=layer.weights + (tile + ahead) * (g.dim * g.dim))
        accumulate = 0 if isinstance(step, int) and step == 0 else 1
        source, sums = layer.source + step * layer.rows, column % 2 * half
        for start, count, rows in strips(layer.rows, 2 * g.dim):
            with g.loop("r", count) as strip:
                at = start + strip * rows
                g.api.matrix_multiply(ub=source + at, acc=sums + at, rows=rows, take=int(start == 0),
                                      accumulate=accumulate)

    def one(column: Any, fetched: int) -> None:
        """A column of tiles; the first ``fetched`` steps read a tile each."""
        product(column, 0, fetched > 0)
        for start, stop in ((1, fetched), (max(1, fetched), layer.deep)):
            if start < stop:
                with g.loop("k", start, stop) as step:
                    product(column, step, start < fetched)
        g.api.activate(acc=column % 2 * half, ub=layer.target + column * layer.rows, rows=layer.rows,
                       function=g.RELU if layer.relu else g.NONE, scale=bits(layer.scale))
        after(column)

    ahead = min(ahead, layer.left)
    reads = layer.left - ahead
    whole = min(layer.wide - 1, reads // layer.deep)  # the last column may be narrower
    if whole:
        with g.loop("n", whole) as column:
            one(column, layer.deep)
    for number in range(whole, layer.wide):
        one(number, min(layer.deep, max(0, reads - number * layer.deep)))


def strips(rows: int, most: int) -> Iterator[tuple[int, int, int]]:
    """``rows`` in strips of ``most``: first row, number of strips, size of each; the first strip stands alone.

    While a strip's sums come out of the matrix unit, the next one is on its way: none waits for its own.
    """
    yield 0, 1, min(rows, most)
    whole, rest = divmod(rows - min(rows, most), most)
    if whole:
        yield most, whole, most
    if rest:
        yield most + whole * most, 1, rest


def panels(g: KernelIsa, columns: int) -> Iterator[tuple[Any, int]]:
    """Numbers of the panels of a matrix of ``columns``, within loops, and how many columns each has."""
    whole, rest = divmod(columns, g.dim)
    if whole:
        with g.loop("p", whole) as panel:
            yield panel, g.dim
    if rest:
        yield whole, rest


def gemm(
    m: int, n: int, k: int, dim: int = 256, *, scale: float = 1.0, relu: bool = False, ahead: int = AHEAD,
    acc_rows: int = 4096, ub_rows: int = 96 << 10,
) -> Kernel:
    """C = activation(A · W): A int8[m, k], W packed int8[n tiles, k tiles, dim, dim], C int8[m, n].

    A comes in by blocks of rows; the sums of one column of tiles are made while those before are activated. ``ahead``
    tiles of W are in the FIFO before the one that is read next.
    """
    deep, wide = -(-k // dim), -(-n // dim)
    most = max(1, min(m, acc_rows // 2, ub_rows // (2 * deep + wide)))
    g = isa("tpu_v1", dim=dim, acc_rows=acc_rows, ub_rows=ub_rows)
    a, w, c = 0, m * k, m * k + deep * wide * dim * dim

    def block(number: Any, rows: int) -> None:
        source, first = number % 2 * (deep * most), number * most
        for panel, width in panels(g, k):
            g.api.read_host_memory(addr=a + first * k + panel * dim, ub=source + panel * rows, rows=rows, cols=width,
                                   stride=k)
        target = 2 * deep * most
        layer = Layer(rows, deep, wide, source, target, w, deep * wide, scale, relu)
        read_ahead(g, w, min(ahead, deep * wide))

        def store(column: Any) -> None:
            last = isinstance(column, int) and column == wide - 1
            g.api.write_host_memory(addr=c + first * n + column * dim, ub=target + column * rows, rows=rows,
                                    cols=n - column * dim if last else dim, stride=n)

        dense(g, layer, ahead, store)

    @g.kernel(
        name=f"gemm_{m}x{n}x{k}",
        arg=[{"name": "A", "addr": a, "shape": (m, k), "dtype": "int8"},
             {"name": "W", "addr": w, "shape": (wide, deep, dim, dim), "dtype": "int8"}],
        res=[{"name": "C", "addr": c, "shape": (m, n), "dtype": "int8"}],
    )
    def product() -> None:
        whole, rest = divmod(m, most)
        if whole:
            with g.loop("m", whole) as number:
                block(number, most)
        if rest:
            block(whole, rest)

    return product


def mlp(
    batch: int, widths: Sequence[int], scales: Sequence[float], dim: int = 256, *, ahead: int = AHEAD,
    acc_rows: int = 4096, ub_rows: int = 96 << 10,
) -> Kernel:
    """Dense layers with ReLU between them: X int8[batch, widths[0]] and the weights of each layer, packed.

    All activations stay in the Unified Buffer; the tiles of all layers are one stream through the FIFO.
    """
    g = isa("tpu_v1", dim=dim, acc_rows=acc_rows, ub_rows=ub_rows)
    tiles = [-(-width // dim) for width in widths]
    sizes = [deep * wide for deep, wide in pairwise(tiles)]
    w = [batch * widths[0] + sum(sizes[:i]) * dim * dim for i in range(len(sizes) + 1)]
    y = w[-1]
    apart = max(tiles[::2]) * batch  # layers write above what they read, and below it, in turn
    places = [i % 2 * apart for i in range(len(tiles))]
    weights: list[dict[str, Any]] = [
        {"name": f"W{i}", "addr": w[i], "shape": (tiles[i + 1], tiles[i], dim, dim), "dtype": "int8"}
        for i in range(len(sizes))]

    @g.kernel(
        name=f"mlp_{batch}x" + "x".join(map(str, widths)),
        arg=[{"name": "X", "addr": 0, "shape": (batch, widths[0]), "dtype": "int8"}, *weights],
        res=[{"name": "Y", "addr": y, "shape": (batch, widths[-1]), "dtype": "int8"}],
    )
    def network() -> None:
        for panel, width in panels(g, widths[0]):
            g.api.read_host_memory(addr=panel * dim, ub=panel * batch, rows=batch, cols=width, stride=widths[0])
        read_ahead(g, w[0], min(ahead, sum(sizes)))
        for i, scale in enumerate(scales):
            last = i == len(scales) - 1
            dense(g, Layer(batch, tiles[i], tiles[i + 1], places[i], places[i + 1], w[i], sum(sizes[i:]), scale,
                           not last), ahead)
        for panel, width in panels(g, widths[-1]):
            g.api.write_host_memory(addr=y + panel * dim, ub=places[-1] + panel * batch, rows=batch, cols=width,
                                    stride=widths[-1])

    return network


def conv_pool(height: int, width: int, taps: int, dim: int, *, scale: float, pool: int = 2) -> Kernel:
    """A convolution of ``taps`` x ``taps`` without padding, ReLU, and the maximum of ``pool`` x ``pool`` pixels.

    X int8[height, width, dim], W int8[taps, taps, dim, dim] (channels in, channels out), Y int8[h, w, dim].
    """
    g = isa("tpu_v1", dim=dim)
    h, v = height - taps + 1, width - taps + 1
    out = h // pool, v // pool
    w = height * width * dim
    y = w + taps * taps * dim * dim

    @g.kernel(
        name="conv_pool",
        arg=[{"name": "X", "addr": 0, "shape": (height, width, dim), "dtype": "int8"},
             {"name": "W", "addr": w, "shape": (taps, taps, dim, dim), "dtype": "int8"}],
        res=[{"name": "Y", "addr": y, "shape": (*out, dim), "dtype": "int8"}],
    )
    def convolution() -> None:
        g.api.read_host_memory(addr=0, ub=0, rows=height * width, cols=dim, stride=dim)

        def tap(r: Any, s: Any, accumulate: int) -> None:
            g.api.read_weights(addr=w + (r * taps + s) * (dim * dim))
            g.api.convolve(ub=r * width + s, row_step=width, pixel_step=1, acc=0, height=h, width=v, take=1,
                           accumulate=accumulate)

        tap(0, 0, 0)
        with g.loop("s", 1, taps) as s:
            tap(0, s, 1)
        with g.loop("r", 1, taps) as r, g.loop("t", taps) as t:
            tap(r, t, 1)
        g.api.activate_pool(acc=0, ub=height * width, height=h, width=v, size=pool, step=pool, function=g.RELU,
                            scale=bits(scale))
        g.api.write_host_memory(addr=y, ub=height * width, rows=out[0] * out[1], cols=dim, stride=dim)

    return convolution


@dataclass(frozen=True)
class Images:
    """``batch`` images of ``side`` x ``side`` pixels in the Unified Buffer from row ``first`` on, with ``border`` zeros
    around each; a pixel is a row."""

    batch: int
    side: int
    border: int
    first: int

    @property
    def line(self) -> int:
        """Rows from one line of pixels to the next."""
        return self.side + 2 * self.border

    def at(self, image: Any, line: Any, pixel: Any) -> Any:
        """Row of a pixel; from -``border`` on."""
        return self.first + image * self.line ** 2 + (line + self.border) * self.line + pixel + self.border


def cnn(batch: int, side: int, taps: int, scales: Sequence[float], dim: int = 256, *, acc_rows: int = 4096,
        ub_rows: int = 96 << 10) -> Kernel:
    """Convolutions of ``taps`` x ``taps`` with padding and ReLU, one for each scale, ``dim`` channels throughout.

    X int8[batch, side, side, dim], W int8[layers, taps, taps, dim, dim] (channels in, channels out), Y as X. All
    activations stay in the Unified Buffer; each weight tile meets all images, so the sums of all lie in the
    accumulators. While one image is activated the next are multiplied, and its own next layer begins.
    """
    g = isa("tpu_v1", dim=dim, acc_rows=acc_rows, ub_rows=ub_rows)
    places = [Images(batch, side, taps // 2, i * batch * (side + 2 * (taps // 2)) ** 2) for i in range(2)]
    pixels, tile = side * side, dim * dim
    w = batch * pixels * dim
    y = w + len(scales) * taps * taps * tile

    def moved(images: Images, move: Callable[[Any, Any], None]) -> None:
        with g.loop("i", batch) as image, g.loop("l", side) as line:
            move(images.at(image, line, 0), (image * side + line) * (side * dim))

    def tap(source: Images, layer: int, r: Any, s: Any, accumulate: int) -> None:
        g.api.read_weights(addr=w + ((layer * taps + r) * taps + s) * tile)

        def window(image: Any, take: int) -> None:
            g.api.convolve(ub=source.at(image, r - source.border, s - source.border), row_step=source.line,
                           pixel_step=1, acc=image * pixels, height=side, width=side, take=take, accumulate=accumulate)

        window(0, 1)
        with g.loop("i", 1, batch) as image:
            window(image, 0)

    def layer(number: int, scale: float) -> None:
        source, target = places[number % 2], places[(number + 1) % 2]
        tap(source, number, 0, 0, 0)
        with g.loop("s", 1, taps) as s:
            tap(source, number, 0, s, 1)
        with g.loop("r", 1, taps) as r, g.loop("t", taps) as t:
            tap(source, number, r, t, 1)
        with g.loop("i", batch) as image, g.loop("l", side) as line:
            g.api.activate(acc=(image * side + line) * side, ub=target.at(image, line, 0), rows=side, function=g.RELU,
                           scale=bits(scale))

    @g.kernel(
        name="cnn",
        arg=[{"name": "X", "addr": 0, "shape": (batch, side, side, dim), "dtype": "int8"},
             {"name": "W", "addr": w, "shape": (len(scales), taps, taps, dim, dim), "dtype": "int8"}],
        res=[{"name": "Y", "addr": y, "shape": (batch, side, side, dim), "dtype": "int8"}],
    )
    def network() -> None:
        # zeros around the images: sums times 0
        for start, count, rows in strips(2 * batch * places[0].line ** 2, acc_rows):
            with g.loop("z", count) as strip:
                g.api.activate(acc=0, ub=start + strip * rows, rows=rows, function=g.NONE, scale=bits(0.0))
        moved(places[0], lambda row, at: g.api.read_host_memory(addr=at, ub=row, rows=side, cols=dim, stride=dim))
        for number, scale in enumerate(scales):
            layer(number, scale)
        moved(places[len(scales) % 2], lambda row, at: g.api.write_host_memory(
            addr=y + at, ub=row, rows=side, cols=dim, stride=dim))

    return network


# --- the same mathematics in NumPy -------------------------------------------------------------------------------


def gemm_reference(a: np.ndarray, b: np.ndarray, scale: float = 1.0, relu: bool = False) -> np.ndarray:
    """C of :func:`gemm`, for weights that are not packed."""
    return quantized(a.astype(np.int32) @ b.astype(np.int32), scale, relu)


def mlp_reference(x: np.ndarray, weights: Sequence[np.ndarray], scales: Sequence[float]) -> np.ndarray:
    """Y of :func:`mlp`, for weights that are not packed."""
    for i, (layer, scale) in enumerate(zip(weights, scales)):
        x = gemm_reference(x, layer, scale, i < len(weights) - 1)
    return x


def conv_pool_reference(x: np.ndarray, w: np.ndarray, scale: float, pool: int = 2) -> np.ndarray:
    """Y of :func:`conv_pool`."""
    taps = len(w)
    h, v = x.shape[0] - taps + 1, x.shape[1] - taps + 1
    wide = x.astype(np.int32)
    sums = sum(wide[r:r + h, s:s + v] @ w[r, s].astype(np.int32) for r in range(taps) for s in range(taps))
    image = quantized(np.asarray(sums), scale, True)[:h // pool * pool, :v // pool * pool]
    return image.reshape(h // pool, pool, v // pool, pool, -1).max(axis=(1, 3))


def cnn_reference(x: np.ndarray, w: np.ndarray, scales: Sequence[float]) -> np.ndarray:
    """Y of :func:`cnn`."""
    taps, side = w.shape[1], x.shape[1]
    for layer, scale in zip(w.astype(np.int32), scales):
        wide = np.pad(x, [(0, 0), (taps // 2,) * 2, (taps // 2,) * 2, (0, 0)]).astype(np.int32)
        sums = sum(wide[:, r:r + side, s:s + side] @ layer[r, s] for r in range(taps) for s in range(taps))
        x = quantized(np.asarray(sums), scale, True)
    return x


def main() -> None:
    from archloom.oracle.assembly import to_text

    rng = np.random.default_rng(0)

    def values(*shape: int) -> np.ndarray:
        return rng.integers(-128, 128, shape).astype(np.int8)

    widths, scales = (300, 500, 260, 10), (1 / 2048, 1 / 2048, 1 / 2048)
    a, b, x, w = values(300, 600), values(600, 700), values(10, 12, 16), values(3, 3, 16, 16)
    layers = [values(k, n) for k, n in pairwise(widths)]
    runs: list[tuple[Kernel, list[np.ndarray], np.ndarray]] = [
        (gemm(300, 700, 600, scale=1 / 1024, relu=True), [a, packed(b, 256)], gemm_reference(a, b, 1 / 1024, True)),
        (mlp(32, widths, scales), [a[:32, :300], *(packed(layer, 256) for layer in layers)],
         mlp_reference(a[:32, :300], layers, scales)),
        (conv_pool(10, 12, 3, 16, scale=1 / 512), [x, w], conv_pool_reference(x, w, 1 / 512)),
    ]
    for kernel, given, expected in runs:
        if not np.array_equal(kernel.run(*given), expected):
            raise SystemExit(f"{kernel.name}: the oracle's result is not NumPy's")
        print(f"{to_text(kernel.stream)}\n{kernel.report}\n{kernel.stream.count()} instructions; equals NumPy's\n")


if __name__ == "__main__":
    main()
