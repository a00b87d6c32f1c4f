"""Gemmini's own software, as streams: its tiles and the order in which its state machines hand out commands.

The tiles are those of ``tiled_matmul_auto``, ``tiled_conv_stride_auto`` and ``tiled_resadd`` (gemmini-rocc-tests,
``include/gemmini.h``, 180c468 and c4903ac), the order of commands that of ``LoopMatmul.scala`` and ``LoopConv.scala``
(ucb-bar/gemmini, d39b7b4): all loads of a tile, its products (weights stay while the pixels of the tile pass), its
stores. Two tiles have a half of the scratchpad and of the accumulator each. ``stay=False``: weights come into the array
for every product, as before 2620d30.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from archloom.mapper.memory import place
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr, Node, Stream
from archloom.uma_targets.gemmini import instructions as isa
from archloom.uma_targets.gemmini.instructions import ACCUMULATE, ACCUMULATOR, NONE, Block, GemminiParameters
from archloom.uma_targets.kit.nest import Nodes, ceil_div, each, pieces

A, B, BIAS = 0, 1, 2
"""Load channels."""
DIM = 16
REQUEST = 64
"""Bytes that a row of a load takes at most (``dma_maxbytes``)."""
HALVES = 2


Body: TypeAlias = Callable[[dict[str, int]], Nodes]
"""Addresses of tensors to instructions."""


@dataclass(frozen=True)
class Machine:
    """Rows of the scratchpad and of the accumulator, and the ISA's parameters."""

    parameters: tuple[tuple[str, int], ...]

    @cached_property
    def rows(self) -> tuple[int, int]:
        """Of one half each."""
        found = GemminiParameters.of(dict(self.parameters))
        return found.spad_rows // HALVES, found.acc_rows // HALVES

    def stream(self, name: str, tensors: list[tuple[str, tuple[int, ...], str, int]], body: Body) -> Stream:
        """The stream of ``body``, which gets the addresses of the tensors; the result is the last one."""
        placed = place(tensors)
        *arguments, result = placed
        end = result.address + tensors[-1][3]
        nodes = body({t.name: t.address for t in placed})
        return Stream("gemmini", self.parameters, tuple(arguments), (result,), end + DIM, tuple(nodes), name)




# matrix products


def matmul_tiles(m: int, n: int, k: int, machine: Machine) -> tuple[int, int, int]:
    """Blocks of a tile of C along m and n, and of the reduction.

    As square as half of the accumulator holds, with as much of A and of B as a quarter of the scratchpad holds; then
    grown in turns while the halves have room.
    """
    spad, acc = (rows // DIM for rows in machine.rows)
    most = [ceil_div(extent, DIM) for extent in (m, n, k)]
    side = int(acc ** 0.5)
    i, j, d = min(most[0], side), min(most[1], side), min(most[2], spad // 2 // side)

    def fits(i: int, j: int, d: int) -> bool:
        return i <= most[0] and j <= most[1] and d <= most[2] and (i + j) * d <= spad and i * j <= acc

    while True:
        before = i, j, d
        j += fits(i, j + 1, d)
        i += fits(i + 1, j, d)
        d += fits(i, j, d + 1)
        if before == (i, j, d):
            return i, j, d


@dataclass(frozen=True)
class Matmul:
    """``C[m, n] = A[m, k] · B[k, n] + bias[n]``, int8, in tiles of ``i`` x ``j`` blocks and chunks of ``d``."""

    machine: Machine
    m: int
    n: int
    k: int
    i: int
    j: int
    d: int

    @staticmethod
    def of(m: int, n: int, k: int, machine: Machine) -> "Matmul":
        return Matmul(machine, m, n, k, *matmul_tiles(m, n, k, machine))

    def stream(self, name: str = "matmul") -> Stream:
        tensors = [("A", (self.m, self.k), "int8", self.m * self.k), ("B", (self.k, self.n), "int8", self.k * self.n),
                   ("bias", (self.n,), "int32", 4 * self.n), ("C", (self.m, self.n), "int8", self.m * self.n)]
        return self.machine.stream(name, tensors, self._body)

    def _body(self, at: dict[str, int]) -> Nodes:
        nodes: Nodes = [
            isa.config_ex(dataflow=isa.WEIGHT_STATIONARY), isa.config_st(stride=self.n, relu=True, scale=1 / 64),
            isa.config_ld(A, stride=self.k, block_stride=DIM), isa.config_ld(B, stride=self.n, block_stride=DIM),
            isa.config_ld(BIAS, stride=0, block_stride=DIM)]
        rows, cols = (pieces(e, t * DIM) for e, t in ((self.m, self.i), (self.n, self.j)))
        across, chunks = (ceil_div(e, t * DIM) for e, t in ((self.n, self.j), (self.k, self.d)))
        return nodes + each("it", rows, lambda i, mr: each("jt", cols, lambda j, nr: [
            node for run in pieces(self.k, self.d * DIM, peel_first=True, peel_last=True)
            for node in each("kt", (run,), lambda k, kr: self._tile(
                at, (i, j, k), (mr.size, nr.size, kr.size), (i * across + j) * chunks + k, i * across + j,
                kr.is_first, kr.is_last))]))

    def _tile(
        self, at: dict[str, int], number: tuple[Affine, Affine, Affine], sizes: tuple[int, int, int], chunk: Affine,
        tile: Affine, first: bool, last: bool,
    ) -> Nodes:
        (m, n, k), j, d = sizes, ceil_div(sizes[1], DIM), ceil_div(sizes[2], DIM)
        m0, n0, k0 = (x * (t * DIM) for x, t in zip(number, (self.i, self.j, self.d)))
        spad, acc = self.machine.rows
        a, b = chunk % HALVES * spad, chunk % HALVES * spad + (spad - d * j * DIM)
        c = tile % HALVES * acc + ACCUMULATOR
        wide = REQUEST // DIM

        def c_at(x: Affine, y: Affine) -> Affine:
            return c + (x * j + y) * DIM

        nodes: Nodes = []
        if first:
            nodes += each("x", pieces(m, DIM), lambda x, xr: each("y", pieces(n, DIM), lambda y, yr: [isa.mvin(
                BIAS, (n0 + y * DIM) * 4 + at["bias"], Block(c_at(x, y), xr.size, yr.size))]))
        nodes += each("z", pieces(k, REQUEST), lambda z, zr: each("y", pieces(n, REQUEST), lambda y, yr: each(
            "u", pieces(zr.size, DIM), lambda u, ur: [isa.mvin(
                B, (k0 + z * REQUEST + u * DIM) * self.n + n0 + y * REQUEST + at["B"],
                Block(b + ((z * wide + u) * j + y * wide) * DIM, ur.size, yr.size))])))
        nodes += each("z", pieces(k, REQUEST), lambda z, zr: each("x", pieces(m, DIM), lambda x, xr: [isa.mvin(
            A, (m0 + x * DIM) * self.k + k0 + z * REQUEST + at["A"],
            Block(a + (x * d + z * wide) * DIM, xr.size, zr.size))]))
        nodes += each("z", pieces(k, DIM), lambda z, zr: each("y", pieces(n, DIM), lambda y, yr: each(
            "x", pieces(m, DIM, peel_first=True), lambda x, xr: product(
                b + (z * j + y) * DIM if xr.first == 0 else None, a + (x * d + z) * DIM, c_at(x, y),
                (xr.size, yr.size, zr.size)))))
        if last:
            nodes += each("x", pieces(m, DIM), lambda x, xr: each("y", pieces(n, REQUEST), lambda y, yr: [isa.mvout(
                (m0 + x * DIM) * self.n + n0 + y * REQUEST + at["C"], Block(c_at(x, y * wide), xr.size, yr.size))]))
        return nodes


def product(weights: Affine | None, a: Affine, c: Affine, sizes: tuple[int, int, int]) -> list[Node]:
    """A pair: ``weights`` (or those in the array, None) with rows of A, onto sums; sizes are m, n, k."""
    m, n, k = sizes
    return [isa.preload(Block(NONE if weights is None else weights, k, n), Block(c + ACCUMULATE, m, n)),
            isa.compute(Block(a, m, k), Block(NONE, m, n), preloaded=weights is not None)]


# convolutions


@dataclass(frozen=True)
class Shape:
    """A convolution of ``batch`` images of ``side`` x ``side`` x ``c`` pixels; ``pool``: size, stride and padding."""

    batch: int
    side: int
    c: int
    o: int
    kernel: int
    stride: int
    pad: int
    pool: tuple[int, int, int] | None = None

    @property
    def sums(self) -> int:
        """Sums along a side."""
        return (self.side + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def out(self) -> int:
        """Results along a side."""
        if self.pool is None:
            return self.sums
        size, stride, pad = self.pool
        return (self.sums + 2 * pad - size) // stride + 1

    def needs(self, sizes: list[int]) -> tuple[int, int]:
        """Rows of the scratchpad and of the accumulator for a tile.

        ``sizes``: images, rows, columns, channels out, rows and columns of the kernel, channels in.
        """
        images, high, wide, o, kr, kc, c = sizes
        if self.pool is not None:
            high, wide = ((extent - 1) * self.pool[1] + self.pool[0] for extent in (high, wide))
            high, wide = high + self.pool[1] - 1, wide + self.pool[1] - 1  # as the software counts
        blocks_in, blocks_out = ceil_div(c, DIM), ceil_div(o, DIM)
        inputs = blocks_in * images * (high * self.stride + kr - 1) * (wide * self.stride + kc - 1)
        return inputs + blocks_out * kr * kc * c, blocks_out * images * high * wide


def conv_tiles(shape: Shape, machine: Machine) -> list[int]:
    """A tile of a convolution: the longest side is cut until a half holds it, then sides grow in turns."""
    whole = [shape.batch, shape.out, shape.out, shape.o, shape.kernel, shape.kernel, shape.c]
    sizes = list(whole)

    def fits(sizes: list[int]) -> bool:
        return all(need <= room for need, room in zip(shape.needs(sizes), machine.rows))

    while not fits(sizes):
        # columns stay as long as the array is wide
        free = [i for i in range(7) if not (i == 2 and sizes[2] <= DIM and sizes[1] > 1)]
        longest = max(free, key=lambda i: (sizes[i], -i))
        step = (sizes[longest] % DIM or DIM) if longest in (3, 6) else 1
        sizes[longest] = max(1, sizes[longest] - step)

    def grown(i: int) -> bool:
        wider = [size + (n == i) for n, size in enumerate(sizes)]
        if wider[i] > whole[i] or not fits(wider):
            return False
        sizes[i] += 1
        return True

    while grown(2):
        pass
    while sum(grown(i) for i in range(7)):
        pass
    return sizes


@dataclass(frozen=True)
class Window:
    """A stretch of results along a side: its sums, and the inputs under them with zeros ``before`` and ``after``."""

    first: int
    outputs: int
    sum0: int
    sums: int
    before: int
    inside: int
    after: int
    input0: int

    @property
    def span(self) -> int:
        return self.before + self.inside + self.after


def windows(shape: Shape, tile: int) -> Iterator[Window]:
    """The tiles along a side."""
    size, stride, pad = shape.pool or (1, 1, 0)
    for first in range(0, shape.out, tile):
        outputs = min(tile, shape.out - first)
        low = max(0, first * stride - pad)
        sums = min((first + outputs - 1) * stride - pad + size, shape.sums) - low
        start = low * shape.stride - shape.pad
        end = start + (sums - 1) * shape.stride + shape.kernel
        before, after = max(0, -start), max(0, end - shape.side)
        yield Window(first, outputs, low, sums, before, end - start - before - after, after, max(0, start))


@dataclass(frozen=True)
class Conv:
    """A convolution of int8 with a bias, ReLU and the pooling of its shape, in tiles of ``sizes`` (see ``needs``)."""

    machine: Machine
    shape: Shape
    sizes: tuple[int, ...]
    stay: bool = True

    @staticmethod
    def of(shape: Shape, machine: Machine, stay: bool = True) -> "Conv":
        return Conv(machine, shape, tuple(conv_tiles(shape, machine)), stay)

    def stream(self, name: str = "conv") -> Stream:
        s = self.shape
        shapes = {"X": (s.batch, s.side, s.side, s.c), "W": (s.kernel, s.kernel, s.c, s.o), "bias": (s.o,),
                  "Y": (s.batch, s.out, s.out, s.o)}
        tensors = []
        for label, shape in shapes.items():
            size = 4 if label == "bias" else 1
            for extent in shape:
                size *= extent
            tensors.append((label, shape, "int32" if label == "bias" else "int8", size))
        return self.machine.stream(name, tensors, self._body)

    def _body(self, at: dict[str, int]) -> Nodes:
        s, (images, high, wide, o, kr, kc, c) = self.shape, self.sizes
        if (kr, kc) != (s.kernel, s.kernel):
            raise ValueError(f"expected whole kernels, found tiles of {kr} x {kc} of {s.kernel} x {s.kernel}")
        nodes: Nodes = [isa.config_ex(dataflow=isa.WEIGHT_STATIONARY, a_stride=s.stride),
                        isa.config_st(stride=s.o, relu=True, scale=1 / 64),
                        isa.config_ld(BIAS, stride=0, block_stride=DIM)]
        outer, chunks = ceil_div(s.o, o), ceil_div(s.c, c)
        number = 0
        for b in range(0, s.batch, images):
            for row in windows(s, high):
                for col in windows(s, wide):
                    tile = Pixels(self, at, b, min(images, s.batch - b), row, col)
                    for j, chosen in enumerate(range(0, s.o, o)):
                        for k, deep in enumerate(range(0, s.c, c)):
                            nodes += tile.nodes(chosen, min(o, s.o - chosen), deep, min(c, s.c - deep),
                                                number * outer * chunks + j * chunks + k, number * outer + j)
                    number += 1
        return nodes


@dataclass(frozen=True)
class Pixels:
    """A tile of pixels of ``images`` images from ``b`` on."""

    conv: Conv
    at: dict[str, int]
    b: int
    images: int
    row: Window
    col: Window

    @property
    def plane(self) -> int:
        """Scratchpad rows of a block of channels."""
        return self.images * self.row.span * self.col.span

    @property
    def area(self) -> int:
        """Accumulator rows of a block of channels."""
        return self.images * self.row.sums * self.col.sums

    def nodes(self, o0: int, o: int, c0: int, c: int, chunk: int, tile: int) -> Nodes:
        """Loads, products and stores of some channels."""
        shape, (spad, acc) = self.conv.shape, self.conv.machine.rows
        taps = shape.kernel ** 2
        x = chunk % HALVES * spad
        w = x + spad - ceil_div(o, DIM) * taps * c
        sums = tile % HALVES * acc + ACCUMULATOR
        nodes: Nodes = [isa.config_ld(A, stride=shape.c, block_stride=self.plane),
                        isa.config_ld(B, stride=shape.o, block_stride=taps * c)]
        if c0 == 0:
            nodes += self._bias(o0, o, sums)
        nodes += self._weights(o0, o, c0, c, w) + self._inputs(c0, c, x) + self._products(o, c, x, w, sums)
        return nodes + (self._stores(o0, o, sums) if c0 + c == shape.c else [])

    def _bias(self, o0: int, o: int, sums: int) -> Nodes:
        rows, cols = self.images * self.row.sums, self.col.sums
        return each("j", pieces(o, DIM), lambda j, jr: each("r", pieces(rows, 1), lambda r, _: each(
            "q", pieces(cols, DIM), lambda q, qr: [isa.mvin(BIAS, (j * DIM + o0) * 4 + self.at["bias"], Block(
                j * self.area + r * cols + q * DIM + sums, qr.size, jr.size))])))

    def _weights(self, o0: int, o: int, c0: int, c: int, w: int) -> Nodes:
        s, wide = self.conv.shape, REQUEST // DIM
        taps = s.kernel ** 2
        return each("j", pieces(o, REQUEST), lambda j, jr: each("t", pieces(taps, 1), lambda t, _: each(
            "k", pieces(c, DIM), lambda k, kr: [isa.mvin(
                B, (t * s.c + k * DIM + c0) * s.o + j * REQUEST + (o0 + self.at["W"]),
                Block(j * (wide * taps * c) + t * c + k * DIM + w, kr.size, jr.size))])))

    def _inputs(self, c0: int, c: int, x: int) -> Nodes:
        """Rows of pixels with all their zeros; channels as many as a request holds."""
        s, wide = self.conv.shape, REQUEST // DIM
        row, col = self.row, self.col

        def stretch(
            k: Affine, channels: int, image: Affine, r: int | Affine, first: int, count: int, inside: bool
        ) -> Nodes:
            local = k * (wide * self.plane) + (image * row.span + r) * col.span + (first + x)
            source = ((image + self.b) * s.side + (r + (row.input0 - row.before))) * s.side + (
                col.input0 + first - col.before)
            return each("q", pieces(count, DIM) if count else (), lambda q, qr: [isa.mvin(
                A, (source + q * DIM) * s.c + k * REQUEST + (c0 + self.at["X"]) if inside else 0,
                Block(local + q * DIM, qr.size, channels))])

        def line(k: Affine, channels: int, image: Affine, r: int | Affine, inside: bool) -> Nodes:
            parts = ((0, col.before, False), (col.before, col.inside, inside),
                     (col.before + col.inside, col.after, False))
            return [n for first, count, there in parts for n in stretch(
                k, channels, image, r, first, count, there)]

        return each("k", pieces(c, REQUEST), lambda k, kr: each("b", pieces(self.images, 1), lambda b, _: [
            *(n for r in range(row.before) for n in line(k, kr.size, b, r, False)),
            *each("r", pieces(row.inside, 1), lambda r, _: line(k, kr.size, b, r + row.before, True)),
            *(n for r in range(row.after) for n in line(k, kr.size, b, row.before + row.inside + r, False))]))

    def _products(self, o: int, c: int, x: int, w: int, sums: int) -> Nodes:
        s = self.conv.shape
        taps, cols = s.kernel ** 2, self.col.sums

        def one(j: Affine, r: Affine, t: Affine, k: Affine, jr: int, kr: int) -> Nodes:
            weights = j * (taps * c) + (r * s.kernel + t) * c + k * DIM + w

            def pass_by(b: Affine, y: Affine, q: Affine, size: int, fresh: bool) -> Nodes:
                pixel = (b * self.row.span + y * s.stride + r) * self.col.span + q * (DIM * s.stride) + t
                return product(weights if fresh or not self.conv.stay else None, k * self.plane + pixel + x,
                               j * self.area + (b * self.row.sums + y) * cols + q * DIM + sums, (size, jr, kr))

            return each("b", pieces(self.images, 1, peel_first=True), lambda b, br: each(
                "y", pieces(self.row.sums, 1, peel_first=br.is_first), lambda y, yr: each(
                    "q", pieces(cols, DIM, peel_first=br.is_first and yr.is_first), lambda q, qr: pass_by(
                        b, y, q, qr.size, br.is_first and yr.is_first and qr.is_first))))

        return each("j", pieces(o, DIM), lambda j, jr: each("r", pieces(s.kernel, 1), lambda r, _: each(
            "t", pieces(s.kernel, 1), lambda t, _: each("k", pieces(c, DIM), lambda k, kr: one(
                j, r, t, k, jr.size, kr.size)))))

    def _stores(self, o0: int, o: int, sums: int) -> Nodes:
        s, cols = self.conv.shape, self.col.sums

        def at(b: Affine, row: Affine | int, col: Affine | int, j: Affine) -> Affine:
            pixel = ((b + self.b) * s.out + (row + self.row.first)) * s.out + (col + self.col.first)
            return pixel * s.o + j * DIM + (o0 + self.at["Y"])

        if s.pool is not None:
            return self._pooled(o, sums, s.pool, at)
        return each("b", pieces(self.images, 1), lambda b, _: each("y", pieces(self.row.sums, 1), lambda y, _: each(
            "q", pieces(cols, DIM), lambda q, qr: each("j", pieces(o, DIM), lambda j, jr: [isa.mvout(
                at(b, y, q * DIM, j), Block(j * self.area + (b * self.row.sums + y) * cols + q * DIM + sums, qr.size,
                                            jr.size))]))))

    def _pooled(self, o: int, sums: int, pool: tuple[int, int, int], at: Callable[..., Affine]) -> Nodes:
        size, stride, pad = pool
        row, col = self.row, self.col
        window = isa.PoolWindow(
            size, stride, max(0, pad - row.first * stride), max(0, pad - col.first * stride), self.conv.shape.out,
            row.outputs, col.outputs, row.sums, col.sums)
        config = isa.config_st(stride=self.conv.shape.o, relu=True, scale=1 / 64, pool=window)
        return [config, *each("b", pieces(self.images, 1), lambda b, _: each("j", pieces(o, DIM), lambda j, jr: [
            isa.mvout(at(b, 0, 0, j), Block(j * self.area + b * (row.sums * col.sums) + sums, 1, jr.size))]))]


# residual additions


def resadd_stream(rows: int, columns: int, machine: Machine, name: str = "resadd") -> Stream:
    """``C[rows, columns] = A + B``: tiles that fill the accumulator, loaded, added and stored one after the other."""
    i, j = rows, columns
    while ceil_div(i, DIM) * ceil_div(j, DIM) * DIM > HALVES * machine.rows[1]:
        i, j = (i - 1, j) if i >= j else (i, j - 1)
    tensors = [(label, (rows, columns), "int8", rows * columns) for label in "ABC"]

    def tile(at: dict[str, int], m: Affine, n: Affine, high: int, wide: int) -> Nodes:
        blocks = ceil_div(wide, DIM)

        def block(body: Callable[[Affine, Block], Instr], mode: int) -> Nodes:
            return each("x", pieces(high, DIM), lambda x, xr: each("y", pieces(wide, REQUEST), lambda y, yr: [body(
                (m * i + x * DIM) * columns + n * j + y * REQUEST,
                Block((x * blocks + y * (REQUEST // DIM)) * DIM + (ACCUMULATOR + mode), xr.size, yr.size))]))

        return [*block(lambda offset, b: isa.mvin(A, offset + at["A"], b), 0),
                *block(lambda offset, b: isa.mvin(B, offset + at["B"], b), ACCUMULATE),
                *block(lambda offset, b: isa.mvout(offset + at["C"], b), 0)]

    def body(at: dict[str, int]) -> Nodes:
        return [isa.config_ld(A, stride=columns, block_stride=DIM, shrunk=True),
                isa.config_ld(B, stride=columns, block_stride=DIM, shrunk=True),
                isa.config_st(stride=columns, relu=True),
                *each("m", pieces(rows, i), lambda m, mr: each("n", pieces(columns, j), lambda n, nr: tile(
                    at, m, n, mr.size, nr.size)))]

    return machine.stream(name, tensors, body)
