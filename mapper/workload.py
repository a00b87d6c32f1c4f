"""Workloads: an operator as an affine iteration space, with its tensors, accesses and epilogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from oracle.affine import Affine


@dataclass(frozen=True)
class Dim:
    """A loop dimension of the operator."""

    name: str
    extent: int
    kind: Literal["parallel", "reduction"]


@dataclass(frozen=True)
class Tensor:
    """An operand: dense row-major ``shape`` in HBM and the element that an iteration touches.

    ``access`` has one expression over the dimension names for each axis; an index outside of the shape (padding of
    a convolution) reads as zero.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    access: tuple[Affine, ...]


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
    """

    bias: bool
    scale: float
    relu: bool
    out_dtype: str
    pool: Pool | None = None


@dataclass(frozen=True)
class Workload:
    """One offloaded operator.

    kinds and their tensors, in this order:

    ``gemm``   A[b, m, k] int8, B[b or absent, k, n] int8, bias[n] int32 (if the epilogue has one) → C[b, m, n];
               or all of them float32
    ``conv2d`` X[n, h, w, c] int8, W[kh, kw, c, o] int8, bias[o] int32 → Y[n, oh, ow, o]  (NHWC; pooled if pool)
    ``add``    A[size], B[size] int8 → C[size]: y = relu?(sat(round((a + b) * scale)))
    """

    kind: Literal["gemm", "conv2d", "add"]
    name: str
    dims: tuple[Dim, ...]
    inputs: tuple[Tensor, ...]
    output: Tensor
    epilogue: Epilogue
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    """top, left, bottom, right, for ``conv2d``"""

    @property
    def macs(self) -> int:
        """Multiply-accumulates (0 for ``add``)."""
        if self.kind == "add":
            return 0
        total = 1
        for dim in self.dims:
            total *= dim.extent
        return total

    def extent(self, name: str) -> int:
        return next(d.extent for d in self.dims if d.name == name)


def gemm(
    m: int, n: int, k: int, *, batch: int = 1, epilogue: Epilogue, shared_b: bool = True, name: str = "gemm",
    dtype: str = "int8",
) -> Workload:
    """``C[b, m, n] = epilogue(sum_k A[b, m, k] * B[b, k, n])``; with ``shared_b`` B is one matrix [k, n] for all.

    ``dtype`` is that of both operands; sums and bias are int32 for integers, else of the operands' type.
    """
    v = {s: Affine.variable(s) for s in "bmnk"}
    dims = (Dim("b", batch, "parallel"), Dim("m", m, "parallel"), Dim("n", n, "parallel"), Dim("k", k, "reduction"))
    sums = "int32" if dtype.startswith("int") else dtype
    a = Tensor("A", (batch, m, k), dtype, (v["b"], v["m"], v["k"]))
    if shared_b:
        b = Tensor("B", (k, n), dtype, (v["k"], v["n"]))
    else:
        b = Tensor("B", (batch, k, n), dtype, (v["b"], v["k"], v["n"]))
    inputs = (a, b) + ((Tensor("bias", (n,), sums, (v["n"],)),) if epilogue.bias else ())
    out = Tensor("C", (batch, m, n), epilogue.out_dtype, (v["b"], v["m"], v["n"]))
    return Workload("gemm", name, dims, inputs, out, epilogue)


def conv2d(
    n: int, h: int, w: int, c: int, o: int, kh: int, kw: int, *, stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0), epilogue: Epilogue, name: str = "conv2d",
) -> Workload:
    """NHWC convolution, groups 1, dilation 1; ``padding`` is top, left, bottom, right."""
    top, left, bottom, right = padding
    oh = (h + top + bottom - kh) // stride[0] + 1
    ow = (w + left + right - kw) // stride[1] + 1
    v = {s: Affine.variable(s) for s in ("n", "oh", "ow", "o", "kh", "kw", "c")}
    dims = (
        Dim("n", n, "parallel"), Dim("oh", oh, "parallel"), Dim("ow", ow, "parallel"), Dim("o", o, "parallel"),
        Dim("kh", kh, "reduction"), Dim("kw", kw, "reduction"), Dim("c", c, "reduction"),
    )
    x = Tensor("X", (n, h, w, c), "int8",
               (v["n"], v["oh"] * stride[0] + v["kh"] - top, v["ow"] * stride[1] + v["kw"] - left, v["c"]))
    f = Tensor("W", (kh, kw, c, o), "int8", (v["kh"], v["kw"], v["c"], v["o"]))
    inputs = (x, f) + ((Tensor("bias", (o,), "int32", (v["o"],)),) if epilogue.bias else ())
    if epilogue.pool is None:
        shape = (n, oh, ow, o)
    else:
        p = epilogue.pool
        t, l, b, r = p.padding
        shape = (n, (oh + t + b - p.size) // p.stride + 1, (ow + l + r - p.size) // p.stride + 1, o)
    # the access of the output is that of the unpooled sums
    out = Tensor("Y", shape, epilogue.out_dtype, (v["n"], v["oh"], v["ow"], v["o"]))
    return Workload("conv2d", name, dims, inputs, out, epilogue, stride, padding)


def add(size: int, *, epilogue: Epilogue, name: str = "add") -> Workload:
    """``C[i] = epilogue(A[i] + B[i])`` over ``size`` elements (residual add)."""
    i = (Affine.variable("i"),)
    return Workload(
        "add", name, (Dim("i", size, "parallel"),),
        (Tensor("A", (size,), "int8", i), Tensor("B", (size,), "int8", i)),
        Tensor("C", (size,), epilogue.out_dtype, i), epilogue,
    )
