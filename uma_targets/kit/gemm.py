"""What an emission gets and gives: one matrix product with every operand's place in HBM; loops and instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.memory import Memory
from archloom.mapper.packing import Packing, Place
from archloom.mapper.requantization import Requantization
from archloom.mapper.tiling import sizes_of
from archloom.mapper.workload import Workload
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Stream
from archloom.oracle.user_code import called
from archloom.uma_targets.kit.attention import Kernel
from archloom.uma_targets.kit.nest import Nodes, float_bits, repeat

LOWEST = -128
"""The least value of int8."""


@dataclass(frozen=True)
class Requantized:
    """How bytes are made of sums, and the byte addresses of the first multiplier and shift, int32, one for each column
    of C, and of the table of 256 bytes, where there is one."""

    by: Requantization
    multiplier: Affine
    shift: Affine
    table: Affine | None

    def multiplier_at(self, n: Affine | int) -> Affine:
        return self.multiplier + Affine.of(n) * 4

    def shift_at(self, n: Affine | int) -> Affine:
        return self.shift + Affine.of(n) * 4


@dataclass(frozen=True)
class Gemm:
    """``C[m, n] = epilogue(A[m, k] · B[k, n] + bias[n] + residual[m, n])``, all dense and row-major in HBM, but for a B
    that is constant and ``packed`` as the kit's ``layouts`` have it.

    ``a``, ``b``, ``bias`` and ``c`` are byte addresses of the first elements, affine in enclosing loop variables.
    ``item``, ``sum_item`` and ``out_item`` are bytes of an element of A and B, of the bias (int32 or float32), and of
    C. ``scale`` is the float32 factor from int32 sums to int8 (1 for float): C is
    ``saturate_int8(round_half_even(float32(sum) * scale))``, and then the maximum with 0 if ``relu``. Targets whose kit
    says so also get products of which C is the sums (:attr:`stores_sums`). Those of a kit with a requantizer get
    products of which C is made as ``requantized`` says, and which have a bias.
    """

    m: int
    n: int
    k: int
    a: Affine
    b: Affine
    bias: Affine | None
    c: Affine
    item: int
    sum_item: int
    out_item: int
    relu: bool
    scale: float
    workspace: Affine
    """first byte of the memory asked for beside the operands (see :class:`GemmKit`)"""
    requantized: Requantized | None
    packed: Affine | None = field(default=None, kw_only=True)
    """bytes from the first element of B to that in row ``k`` and column ``n``, where it is packed"""
    residual: Affine | None = field(default=None, kw_only=True)
    """byte address of the first element of what is added, laid out as C: for targets whose kit says so"""
    dtype: str = field(default="", kw_only=True)
    """type of the elements of A and B"""

    @property
    def scale_bits(self) -> int:
        """The factor as the bits of a float32, as an attribute of an instruction holds it."""
        return float_bits(self.scale)

    @property
    def stores_sums(self) -> bool:
        """Whether C is the int32 sums as they are, without factor and ReLU."""
        return self.out_item > self.item

    @property
    def lowest(self) -> int:
        """The least int8 value that is stored: with ReLU 0."""
        return 0 if self.relu else LOWEST

    @property
    def strides(self) -> tuple[int, int, int]:
        """Bytes from one row to the next of A, B (where it is packed, those of a block) and C."""
        row = self.n * self.item if self.packed is None else self.packed.evaluate({"k": 1, "n": 0})
        return self.k * self.item, row, self.n * self.out_item

    def a_at(self, m: Affine | int, k: Affine | int) -> Affine:
        return self.a + Affine.of(m) * (self.k * self.item) + Affine.of(k) * self.item

    def b_at(self, k: Affine | int, n: Affine | int) -> Affine:
        if self.packed is not None:
            return self.b + self.packed.substitute({"k": k, "n": n})
        return self.b + Affine.of(k) * (self.n * self.item) + Affine.of(n) * self.item

    def with_b(self, place: Place, at: Affine) -> "Gemm":
        """The same product, of a B that lies at ``at`` as ``place`` has it (:mod:`archloom.mapper.packing`)."""
        index = Affine.variable("k"), Affine.variable("n")
        return replace(self, b=at, packed=Packing.of(place, "kn").offset(index, (self.k, self.n)) * self.item)

    def c_at(self, m: Affine | int, n: Affine | int) -> Affine:
        return self.c + Affine.of(m) * (self.n * self.out_item) + Affine.of(n) * self.out_item

    def residual_at(self, m: Affine | int, n: Affine | int) -> Affine:
        """Byte address of residual[m, n]; MappingError where there is none."""
        if self.residual is None:
            raise MappingError("nothing is added to this product")
        return self.residual + self.c_at(m, n) - self.c

    def bias_at(self, n: Affine | int) -> Affine:
        """Byte address of bias[n]; MappingError where there is none."""
        if self.bias is None:
            raise MappingError("this product has no bias")
        return self.bias + Affine.of(n) * self.sum_item


EmitGemm: TypeAlias = Callable[[Gemm, TileMapping, Mapping[str, Any]], Nodes]
"""Writes the instructions of one product, for a mapping and the sizes of the machine by name: the ISA's parameters and
constants, and the target's options. MappingError if it does not fit.

Loop variables may have any name but ``batch``.
"""


WorkspaceBytes: TypeAlias = Callable[[int, int, int, TileMapping], int]
"""Bytes of memory that a product of sizes m, n and k needs beside its operands, for a mapping."""


@dataclass(frozen=True)
class GemmEmitter:
    """Streams of one ISA with one set of parameters; ``write`` emits each product, ``kernels`` what is none."""

    isa: str
    isa_parameters: tuple[tuple[str, int], ...]
    write: EmitGemm
    workspace_bytes: WorkspaceBytes | None = None
    kernels: Mapping[str, Kernel] = field(default_factory=dict)
    sums: bool = False
    """whether ``write`` stores int32 sums, too, and float32 ones of 16 bits"""
    requantizes: bool = False
    """whether ``write`` makes bytes as :attr:`Gemm.requantized` says"""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    """what ``write`` gets beside the ISA's parameters"""

    def emit(self, workload: Workload, mapping: TileMapping) -> Stream:
        """The stream; arguments and results are named, shaped and ordered as the workload's tensors."""
        if workload.kind in self.kernels:
            write = self.kernels[workload.kind].stream
            stream: Stream = called(write, workload, mapping, self.isa_parameters, gives=Stream)
            return stream
        memory, sizes = Memory.of(workload), {**self.sizes, **dict(self.isa_parameters)}
        addresses = {t.name: t.address for t in memory.tensors}
        batch, m, n, k = sizes_of(workload)
        bytes_ = ("int8", "uint8") if self.requantizes else (workload.inputs[0].dtype, "int8")
        out, made = workload.epilogue.out_dtype, workload.epilogue.requantization is not None
        if out in bytes_ and made != self.requantizes:
            raise MappingError(f"{workload.name}: expected a result that is made by "
                               f"{'multipliers and shifts' if self.requantizes else 'one factor'}")
        if out not in (*bytes_, *(("int32", "float32") if self.sums else ())):
            raise MappingError(f"{workload.name}: {self.isa} stores no result of {out}")
        body = repeat("batch", batch, lambda b: called(
            self.write, gemm_of(workload, addresses, memory.end, b), mapping, sizes, gives=Iterable))
        more = 0 if self.workspace_bytes is None else self.workspace_bytes(m, n, k, mapping)
        return memory.stream(self.isa, self.isa_parameters, body, more)


def gemm_of(workload: Workload, addresses: Mapping[str, int], workspace: int, batch: Affine) -> Gemm:
    """Product number ``batch`` of a ``gemm`` workload whose tensors lie at ``addresses``."""
    a, b = workload.inputs[:2]
    _, m, n, k = sizes_of(workload)
    item, out_item = a.item_bytes, workload.output.item_bytes
    bias = workload.inputs[2] if workload.epilogue.bias else None
    own = batch * (n * 4) if bias is not None and len(bias.shape) > 1 else Affine(0)  # of each product
    epilogue = workload.epilogue
    made = None if epilogue.requantization is None else Requantized(
        epilogue.requantization, own + addresses["multiplier"], own + addresses["shift"],
        Affine(addresses["table"]) if "table" in addresses else None)
    *lead, row, column = b.names
    packed = None if b.packing is None else b.byte_at(**{row: Affine.variable("k"), column: Affine.variable("n")})
    own_result = batch * (m * n * out_item)
    return Gemm(
        m, n, k, batch * (m * k * item) + addresses[a.name],
        b.byte_at(**dict.fromkeys(lead, batch)) + addresses[b.name],
        None if bias is None else own + addresses[bias.name],
        own_result + addresses[workload.output.name],
        item, 4, out_item, epilogue.relu, epilogue.scale, Affine(workspace), made, packed=packed, dtype=a.dtype,
        residual=own_result + addresses["residual"] if epilogue.residual else None,
    )
