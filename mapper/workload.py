"""Workloads: an operator as an affine iteration space, with its tensors and epilogue."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from archloom.mapper.requantization import BYTE_VALUES, Requantization
from archloom.mapper.tensor import Place as Place
from archloom.mapper.tensor import Tensor as Tensor
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError

if TYPE_CHECKING:
    from archloom.mapper.nests import Nest
    from archloom.mapper.spatial.chain.space import Chain
    from archloom.mapper.spatial.sweeps.sweep import Sweep

Kind: TypeAlias = Literal["gemm", "conv2d", "add", "attention", "sweep", "chain", "nest"]


@dataclass(frozen=True)
class Dim:
    """A loop dimension of the operator."""

    name: str
    extent: int
    kind: Literal["parallel", "reduction"]


@dataclass(frozen=True)
class Pool:
    """Max-pooling after the activation: square window, same stride both ways, zero padding on each side."""

    size: int
    stride: int
    padding: tuple[int, int, int, int]
    """top, left, bottom, right"""


@dataclass(frozen=True)
class Epilogue:
    """What happens to the sums before they are stored.

    ``y = relu?(saturate_int8(round_half_even(float32(acc) * float32(scale))))``; ``scale`` is a float32 value.
    ``out_dtype`` ``"int32"`` stores the sums as they are (then scale must be 1 and there is no activation).
    Sums of a float operator are stored as they are or after ReLU: ``out_dtype`` is their type, scale is 1.
    With a ``requantization`` bytes are made by that, of constants of each channel: scale is 1, and there is a bias.
    """

    bias: bool
    scale: float
    relu: bool
    out_dtype: str
    pool: Pool | None = None
    activation: str = ""
    """of float16 in tiles, one of :data:`archloom.mapper.spatial.epilogue.ACTIVATIONS` beside ReLU, or ``relu6``"""
    residual: bool = False
    """of float16 in tiles and of float32 products: a tensor like the result is added before the activation"""
    requantization: Requantization | None = None


@dataclass(frozen=True)
class Workload:
    """One offloaded operator.

    kinds and their tensors, in this order::

        gemm   A[b, m, k] int8, B[b or absent, k, n] int8, bias[n] or bias[b, 1, n] int32 (if the epilogue has one)
               → C[b, m, n]; or all of them float32, or A and B float16 or bfloat16 and the others float32.
               In tiles (float16): A[b, m/t, k/t, t, t], B[b or 1, k/t, n/t, t, t]
               (or either of them transposed, such as B[b or 1, n/t, k/t, t, t]), bias[1, n/t, t]
               → C[b, m/t, n/t, t, t]; extents are rounded up, what is beyond them is zero
        conv2d X[n, h, w, c] int8, W[kh, kw, c, o] int8, bias[o] int32 → Y[n, oh, ow, o]  (NHWC; pooled if pool);
               of g groups: X[n, h, w, g·c], W[g, kh, kw, c, o], bias[g·o] → Y[n, oh, ow, g·o]; or of the types that
               gemm has
        add    A[size], B[size] int8 → C[size]: y = relu?(sat(round((a + b) * scale)))
        attention Q[b, q, h, d], K[b, k, h, d], V[b, k, h, e], bias[b, h, q, k] (if the epilogue has one), all float32 →
               O[b, q, h, e] = softmax over k of scale * (Q · K + bias), times V; in tiles (float16) a matrix
               for each head, Q[b·h, q/t, d/t, t, t] and so on, without a bias, but the mask may be causal
        sweep  what the vector units of a mesh do with the numbers, rows or columns of a matrix in tiles: tensors as
               sweep lists them
        nest   nests of loops over scalar operations, one after the other (nests): X0, X1, ... → Y
        chain  two products one after the other on a mesh: tensors as chain lists them

    With a ``requantization``, ``gemm`` and ``conv2d`` have further inputs behind the bias: multiplier and shift, int32
    and shaped as the bias, and its table[256], where it has one, of the result's type.
    """

    kind: Kind
    name: str
    dims: tuple[Dim, ...]
    inputs: tuple[Tensor, ...]
    output: Tensor
    epilogue: Epilogue
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    """top, left, bottom, right, for ``conv2d``"""
    dilation: tuple[int, int] = (1, 1)
    blocks: int = 1
    """Each group's W[…, c, o] has so many blocks on its diagonal and zeros elsewhere: groups of the network that are
    taken together."""
    causal: bool = False
    """The last query sees all keys, each before it one less (``attention`` in tiles)."""
    image: tuple[int, int] = (0, 0)
    """rows and columns of X, for ``conv2d`` in tiles: there tensors are A, B, bias → C as
    :class:`archloom.mapper.spatial.products.convolution.Convolution` lays them out, without accesses"""
    sweep: "Sweep | None" = None
    chain: "Chain | None" = None
    nests: "tuple[Nest, ...]" = ()
    grid: tuple[int, int, int] | None = None
    """on which the tensors of a ``conv2d`` in tiles lie (:mod:`archloom.mapper.spatial.arrays`), if they do"""
    constants: tuple[str, ...] = ()
    """the inputs whose values are known when the network is compiled"""
    places: tuple[tuple[str, Place], ...] = ()
    """where tensors must lie, by name; none: anywhere (:mod:`archloom.mapper.places`)"""

    @property
    def title(self) -> str:
        """Name, kind and extents, for messages."""
        return f"{self.name} ({self.kind} {' '.join(f'{d.name}={d.extent}' for d in self.dims)})"

    @property
    def tile(self) -> int:
        """Side of the tiles that the tensors are kept in, 0 where they are not."""
        rows = self.kind == "nest" or (self.kind == "gemm" and len(self.inputs[0].shape) <= 3) or (
            self.kind == "conv2d" and bool(self.inputs[0].access))
        return 0 if rows or self.inputs[0].dtype != "float16" else self.inputs[0].shape[-1]

    @property
    def transposed(self) -> tuple[bool, bool]:
        """Whether A of a ``gemm`` in tiles lies as [k, m], and B as [n, k]."""
        if not self.tile or self.kind != "gemm":
            return False, False
        return "k" in self.inputs[0].access[1].variables(), "n" in self.inputs[1].access[1].variables()

    @property
    def groups(self) -> int:
        """Groups of a ``conv2d``, 1 for others."""
        return next((d.extent for d in self.dims if d.name == "g"), 1)

    @property
    def macs(self) -> int:
        """Multiply-accumulates that the operator needs (0 for ``add`` and ``sweep``)."""
        if self.kind in ("add", "sweep"):
            return 0
        if self.kind == "nest":
            return sum(nest.products for nest in self.nests)
        if self.chain is not None:
            return self.chain.products
        total = math.prod(dim.extent for dim in self.dims)
        if self.kind == "attention":  # every score meets depth, and then values
            return total // (self.extent("d") * self.extent("e")) * (self.extent("d") + self.extent("e"))
        return total // self.blocks

    @property
    def is_pointwise(self) -> bool:
        """Whether it is a convolution that is a matrix product over all pixels: 1 x 1, of one group, with stride 1 and
        neither padding nor pooling."""
        return (self.kind == "conv2d" and self.inputs[1].shape[:2] == (1, 1) and self.groups == 1
                and self.stride == (1, 1) and not any(self.padding) and self.epilogue.pool is None)

    def extent(self, name: str) -> int:
        """Of a dimension; MappingError where there is none of that name."""
        for dim in self.dims:
            if dim.name == name:
                return dim.extent
        raise MappingError(f"{self.name}: expected one of the dimensions {', '.join(d.name for d in self.dims)}, found "
                           f"{name!r}")


def gemm(
    m: int, n: int, k: int, *, batch: int = 1, epilogue: Epilogue, shared_b: bool = True, name: str = "gemm",
    dtype: str = "int8", tile: int = 0, transposed: tuple[bool, bool] = (False, False), shared_bias: bool = True,
) -> Workload:
    """``C[b, m, n] = epilogue(sum_k A[b, m, k] * B[b, k, n])``; with ``shared_b`` B is one matrix [k, n] for all, with
    ``shared_bias`` the bias one row.

    ``dtype`` is that of both operands; sums and bias are int32 for integers, else float32. With ``tile`` all are of one
    type, and the tensors lie in tiles of so many rows and columns, A and B also ``transposed``.
    """
    if tile:
        return _tiled_gemm((batch, m, n, k), epilogue, shared_b, name, dtype, tile, transposed)
    v = {s: Affine.variable(s) for s in "bmnk"}
    dims = (Dim("b", batch, "parallel"), Dim("m", m, "parallel"), Dim("n", n, "parallel"), Dim("k", k, "reduction"))
    sums = sums_of(dtype)
    a = Tensor("A", (batch, m, k), dtype, (v["b"], v["m"], v["k"]))
    if shared_b:
        b = Tensor("B", (k, n), dtype, (v["k"], v["n"]))
    else:
        b = Tensor("B", (batch, k, n), dtype, (v["b"], v["k"], v["n"]))
    rows = Tensor("bias", (n,), sums, (v["n"],)) if shared_bias else Tensor(
        "bias", (batch, 1, n), sums, (v["b"], Affine(0), v["n"]))
    out = Tensor("C", (batch, m, n), epilogue.out_dtype, (v["b"], v["m"], v["n"]))
    added = (replace(out, name="residual"),) if epilogue.residual else ()
    inputs = (a, b, *_epilogue_tensors(rows, epilogue), *added)
    return Workload("gemm", name, dims, inputs, out, epilogue)


def sums_of(dtype: str) -> str:
    """The type of sums of products of numbers of a type."""
    return "int32" if dtype.startswith("int") else "float32"


def _epilogue_tensors(bias: Tensor, epilogue: Epilogue) -> tuple[Tensor, ...]:
    """The constants of channels that an epilogue takes, shaped as the bias, and its table."""
    found: tuple[Tensor, ...] = (bias,) if epilogue.bias else ()
    if epilogue.requantization is None:
        return found
    found += (replace(bias, name="multiplier"), replace(bias, name="shift"))
    whole = (Tensor("table", (BYTE_VALUES,), epilogue.out_dtype, (Affine(0),)),)
    return found + (whole if epilogue.requantization.table else ())


def _tiled_gemm(
    sizes: tuple[int, int, int, int], epilogue: Epilogue, shared_b: bool, name: str, dtype: str, tile: int,
    transposed: tuple[bool, bool],
) -> Workload:
    extent = dict(zip("bmnk", sizes))
    v = {s: Affine.variable(s) for s in extent}
    dims = tuple(Dim(d, e, "reduction" if d == "k" else "parallel") for d, e in extent.items())

    def tensor(name: str, rows: str, columns: str, batch: int) -> Tensor:
        high, wide = (-(-extent[d] // tile) for d in (rows, columns))
        first = v["b"] if batch > 1 else Affine(0)
        access = (first, v[rows] // tile, v[columns] // tile, v[rows] % tile, v[columns] % tile)
        return Tensor(name, (batch, high, wide, tile, tile), dtype, access)

    a, b = ("k", "m") if transposed[0] else ("m", "k"), ("n", "k") if transposed[1] else ("k", "n")
    inputs = [tensor("A", *a, sizes[0]), tensor("B", *b, 1 if shared_b else sizes[0])]
    if epilogue.bias:
        wide = -(-extent["n"] // tile)
        inputs.append(Tensor("bias", (1, wide, tile), dtype, (Affine(0), v["n"] // tile, v["n"] % tile)))
    result = tensor("C", "m", "n", sizes[0])
    if epilogue.residual:
        inputs.append(replace(result, name="residual"))
    return Workload("gemm", name, dims, tuple(inputs), result, epilogue)


def conv2d(
    n: int, h: int, w: int, c: int, o: int, kh: int, kw: int, *, stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0), dilation: tuple[int, int] = (1, 1), groups: int = 1,
    blocks: int = 1, epilogue: Epilogue, name: str = "conv2d", dtype: str = "int8",
) -> Workload:
    """NHWC convolution; ``padding`` is top, left, bottom, right, ``c`` and ``o`` are channels of each of ``groups``.
    ``dtype`` is that of image and kernel; sums and bias are int32 for integers, else float32."""
    top, left, bottom, right = padding
    oh = (h + top + bottom - (kh - 1) * dilation[0] - 1) // stride[0] + 1
    ow = (w + left + right - (kw - 1) * dilation[1] - 1) // stride[1] + 1
    v = {s: Affine.variable(s) for s in ("g", "n", "oh", "ow", "o", "kh", "kw", "c")}
    dims: tuple[Dim, ...] = (
        Dim("n", n, "parallel"), Dim("oh", oh, "parallel"), Dim("ow", ow, "parallel"), Dim("o", o, "parallel"),
        Dim("kh", kh, "reduction"), Dim("kw", kw, "reduction"), Dim("c", c, "reduction"),
    )
    kernel: tuple[int, ...] = (kh, kw, c, o)
    place: tuple[Affine, ...] = (v["kh"], v["kw"], v["c"], v["o"])
    entering, leaving = v["c"], v["o"]
    if groups > 1:
        dims = (Dim("g", groups, "parallel"), *dims)
        kernel, place = (groups, *kernel), (v["g"], *place)
        entering, leaving = v["g"] * c + v["c"], v["g"] * o + v["o"]
    rows = v["oh"] * stride[0] + v["kh"] * dilation[0] - top
    columns = v["ow"] * stride[1] + v["kw"] * dilation[1] - left
    x = Tensor("X", (n, h, w, groups * c), dtype, (v["n"], rows, columns, entering))
    f = Tensor("W", kernel, dtype, place)
    inputs = (x, f, *_epilogue_tensors(Tensor("bias", (groups * o,), sums_of(dtype), (leaving,)), epilogue))
    if epilogue.pool is None:
        shape = (n, oh, ow, groups * o)
    else:
        p = epilogue.pool
        t, l, b, r = p.padding
        shape = (n, (oh + t + b - p.size) // p.stride + 1, (ow + l + r - p.size) // p.stride + 1, groups * o)
    # the access of the output is that of the unpooled sums
    out = Tensor("Y", shape, epilogue.out_dtype, (v["n"], v["oh"], v["ow"], leaving))
    inputs += (replace(out, name="residual"),) if epilogue.residual else ()
    return Workload("conv2d", name, dims, inputs, out, epilogue, stride, padding, dilation, blocks)


def tiled_conv2d(
    n: int, h: int, w: int, c: int, o: int, kh: int, kw: int, *, tensors: tuple[tuple[str, tuple[int, ...]], ...],
    result: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int, int, int], dilation: tuple[int, int],
    groups: int, epilogue: Epilogue, name: str = "conv2d", grid: tuple[int, int, int] | None = None,
) -> Workload:
    """A convolution whose ``tensors`` (the result last) lie in tiles; ``c`` and ``o`` are channels of each of
    ``groups``, ``result`` its rows and columns."""
    sizes = {"g": groups, "n": n, "oh": result[0], "ow": result[1], "o": o, "kh": kh, "kw": kw, "c": c}
    dims = tuple(Dim(d, e, "reduction" if d in ("kh", "kw", "c") else "parallel") for d, e in sizes.items()
                 if d != "g" or groups > 1)
    *inputs, output = (Tensor(label, shape, "float16", ()) for label, shape in tensors)
    return Workload("conv2d", name, dims, tuple(inputs), output, epilogue, stride, padding, dilation, image=(h, w),
                    grid=grid)


AS_IT_IS = Epilogue(False, 1.0, False, "float16")
"""Numbers of float16 are stored as they are found."""


def sweep(work: "Sweep", *, epilogue: Epilogue = AS_IT_IS, name: str = "sweep") -> Workload:
    """What the vector units of a mesh of cores do with a matrix in tiles of float16."""
    *inputs, output = (Tensor(label, shape, "float16", ()) for label, shape in work.tensors())
    dims = (Dim("m", work.rows, "parallel"), Dim("n", work.columns, "parallel"))
    return Workload("sweep", name, dims, tuple(inputs), output, epilogue, sweep=work)


def chain(work: "Chain", *, epilogue: Epilogue = AS_IT_IS, name: str = "chain") -> Workload:
    """Two products one after the other, on a mesh of cores, of matrices in tiles of float16."""
    *inputs, output = (Tensor(label, shape, "float16", ()) for label, shape in work.tensors())
    sizes = (("m", work.m), ("k", work.k), ("hidden", work.hidden), ("n", work.n))
    dims = tuple(Dim(label, extent, "parallel" if label in ("m", "n") else "reduction") for label, extent in sizes)
    return Workload("chain", name, dims, tuple(inputs), output, epilogue, chain=work)


def nest(
    nests: "tuple[Nest, ...]", tensors: "tuple[tuple[tuple[int, ...], str], ...]", *,
    epilogue: Epilogue = Epilogue(False, 1.0, False, "float32"), name: str = "nest",
) -> Workload:
    """Nests of loops on ``tensors``, each a shape and a type, the result the last."""
    *inputs, output = (Tensor(f"X{i}", shape, dtype, ()) for i, (shape, dtype) in enumerate(tensors))
    dims = tuple(Dim(f"i{i}", extent, "parallel") for i, extent in enumerate(output.shape))
    return Workload("nest", name, dims, tuple(inputs), replace(output, name="Y"), epilogue, nests=nests)


def add(size: int, *, epilogue: Epilogue, name: str = "add") -> Workload:
    """``C[i] = epilogue(A[i] + B[i])`` over ``size`` elements (residual add)."""
    i = (Affine.variable("i"),)
    return Workload(
        "add", name, (Dim("i", size, "parallel"),),
        (Tensor("A", (size,), "int8", i), Tensor("B", (size,), "int8", i)),
        Tensor("C", (size,), epilogue.out_dtype, i), epilogue,
    )


def attention(
    batch: int, heads: int, queries: int, keys: int, depth: int, values: int, *, epilogue: Epilogue,
    name: str = "attention", tile: int = 0, causal: bool = False,
) -> Workload:
    """Attention of float32; ``epilogue`` has the scale of the scores and says whether a bias is added before it. With
    ``tile`` of float16 in tiles of so many rows and columns, then it may be ``causal``."""
    sizes = {"b": batch, "h": heads, "q": queries, "k": keys, "d": depth, "e": values}
    v = {s: Affine.variable(s) for s in sizes}
    dims = tuple(Dim(d, n, "reduction" if d in "kd" else "parallel") for d, n in sizes.items())

    def tensor(name: str, axes: str) -> Tensor:
        return Tensor(name, tuple(sizes[a] for a in axes), "float32", tuple(v[a] for a in axes))

    if tile:
        def matrices(name: str, rows: str, columns: str) -> Tensor:
            high, wide = (-(-sizes[d] // tile) for d in (rows, columns))
            head = v["b"] * heads + v["h"]
            access = (head, v[rows] // tile, v[columns] // tile, v[rows] % tile, v[columns] % tile)
            return Tensor(name, (batch * heads, high, wide, tile, tile), "float16", access)

        operands = (matrices("Q", "q", "d"), matrices("K", "k", "d"), matrices("V", "k", "e"))
        return Workload("attention", name, dims, operands, matrices("O", "q", "e"), epilogue, causal=causal)
    inputs = [tensor("Q", "bqhd"), tensor("K", "bkhd"), tensor("V", "bkhe")]
    if epilogue.bias:
        inputs.append(tensor("bias", "bhqk"))
    return Workload("attention", name, dims, tuple(inputs), tensor("O", "bqhe"), epilogue)


def plain(workload: Workload) -> Workload:
    """The workload without what its plan does not depend on: its name, and the numbers that make its result of sums.
    Which operands are constants is left out, too: only where memories have roles a plan depends on it."""
    epilogue = workload.epilogue
    scale = 1.0 if epilogue.out_dtype == "int32" else 0.5
    rounding = None if epilogue.requantization is None else epilogue.requantization.plain
    return replace(workload, name="", constants=(), epilogue=replace(epilogue, scale=scale, requantization=rounding))
