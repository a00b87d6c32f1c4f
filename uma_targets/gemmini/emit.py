"""From a workload and a mapping to a stream of Gemmini instructions; and residual additions as such streams."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from archloom.mapper.known import Touched
from archloom.mapper.mapping import Mapping
from archloom.mapper.memory import Memory
from archloom.mapper.workload import Epilogue, Workload
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import HbmTensor, Stream
from archloom.uma_targets.gemmini import instructions as isa
from archloom.uma_targets.gemmini.conv_axes import axes
from archloom.uma_targets.gemmini.conv_schemes import Image, KernelRow
from archloom.uma_targets.gemmini.emit_conv import ConvEmission
from archloom.uma_targets.gemmini.emit_gemm import GemmEmission, GemmProblem
from archloom.uma_targets.gemmini.instructions import Block, GemminiParameters
from archloom.uma_targets.kit.nest import Nodes, ceil_div, each, pieces


@dataclass(frozen=True)
class GemminiEmitter:
    """Emits streams for one set of ISA parameters; ``isa_parameters`` are all of them, as (name, value)."""

    isa_parameters: tuple[tuple[str, int], ...]

    @cached_property
    def parameters(self) -> GemminiParameters:
        return GemminiParameters.of(dict(self.isa_parameters))

    def emit(self, workload: Workload, mapping: Mapping) -> Stream:
        """The stream; arguments and results are named, shaped and ordered as the workload's tensors.

        MappingError if the mapping does not fit the workload or the memories.
        """
        emission = self.emission(workload, mapping)
        return self._memory(workload, mapping).stream("gemmini", self.isa_parameters, emission.body())

    def emission(self, workload: Workload, mapping: Mapping) -> GemmEmission | ConvEmission | AddEmission:
        """What writes the stream's body, with the place of every operand decided."""
        memory = self._memory(workload, mapping).by_name
        if mapping.kind == "gemm":
            return GemmEmission(self.parameters, gemm_problem(workload, memory), mapping)
        if mapping.kind != workload.kind:
            raise MappingError(f"{workload.name}: a {workload.kind} cannot be emitted as {mapping.kind}")
        result = memory[workload.output.name]
        if mapping.kind == "conv2d":
            bias = memory[workload.inputs[2].name] if workload.epilogue.bias else None
            picture = image(workload, memory, self.parameters.dim)
            return ConvEmission(
                self.parameters, picture, workload.extent("n"), bias, result, workload.epilogue, mapping
            )
        a, b = (memory[t.name] for t in workload.inputs)
        return AddEmission(self.parameters, workload.extent("i"), a, b, result, workload.epilogue, mapping)

    def _memory(self, workload: Workload, mapping: Mapping) -> Memory:
        if mapping.packing != "kernel_row":
            return Memory.of(workload)
        nowhere = {t.name: HbmTensor("", 0, (), "int8") for t in workload.inputs}
        return Memory.of(workload, KernelRow(image(workload, nowhere, self.parameters.dim)).guard_bytes)


def image(workload: Workload, memory: dict[str, HbmTensor], dim: int) -> Image:
    """Sizes and tensors of a ``conv2d`` workload."""
    if workload.kind != "conv2d":
        raise MappingError(f"{workload.name}: a {workload.kind} is no convolution")
    rows, cols = axes(workload)
    x, w = (memory[t.name] for t in workload.inputs[:2])
    return Image(rows, cols, workload.extent("c"), workload.extent("o"), x, w, dim, workload.groups)


def gemm_problem(workload: Workload, memory: dict[str, HbmTensor]) -> GemmProblem:
    """The GEMM that ``workload`` is; batches with one B become rows of A."""
    names = [t.name for t in workload.inputs]
    bias = memory[names[2]] if workload.epilogue.bias else None
    a, b, c = memory[names[0]], memory[names[1]], memory[workload.output.name]
    extent = workload.extent
    if workload.is_pointwise:
        pixels = extent("n") * extent("oh") * extent("ow")
        return GemmProblem(1, pixels, extent("o"), extent("c"), a, b, bias, c, True, workload.epilogue)
    if workload.kind != "gemm":
        raise MappingError(f"{workload.name}: a {workload.kind} with this window, stride or padding is no GEMM")
    shared = len(workload.inputs[1].shape) == 2
    batch, m = (1, extent("b") * extent("m")) if shared else (extent("b"), extent("m"))
    return GemmProblem(batch, m, extent("n"), extent("k"), a, b, bias, c, shared, workload.epilogue)


@dataclass(frozen=True)
class AddEmission:
    """Writes the stream's body of ``C[i] = epilogue(A[i] + B[i])``: both operands meet in the accumulator, the sum
    leaves scaled. The tensors are read as matrices of dim columns, whatever their shape; a tile is a number of rows."""

    parameters: GemminiParameters
    size: int
    a: HbmTensor
    b: HbmTensor
    c: HbmTensor
    epilogue: Epilogue
    mapping: Mapping

    @property
    def touched(self) -> Touched:
        """Rows of the accumulator."""
        rows, (whole, rest) = self.mapping.size("rows"), divmod(self.size, self.parameters.dim)
        used = self.mapping.limited("C", ceil_div(whole, rows) + bool(rest))
        return Touched(used, {"acc": ((0, rows * used.slots("C")),)})

    def body(self) -> Nodes:
        """Configuration, whole tiles, the rows that are left, and the elements of the last row."""
        dim, tile, slots = self.parameters.dim, self.mapping.size("rows"), self.mapping.slots("C")
        self.parameters.check_rows(0, tile * slots, str(self.mapping))
        out_bytes = self._out_bytes
        nodes: Nodes = [
            isa.config_ld(0, stride=dim, block_stride=dim, shrunk=True),
            isa.config_ld(1, stride=dim, block_stride=dim, shrunk=True),
            isa.config_st(stride=dim * out_bytes, relu=self.epilogue.relu, scale=self.epilogue.scale),
        ]
        rows, rest = divmod(self.size, dim)
        if rows:
            nodes += each("t", pieces(rows, tile), lambda t, run: self._tile(
                t * tile, (t % slots) * tile, run.size, dim))
        if rest:
            nodes += self._tile(Affine(rows), Affine((-(-rows // tile)) % slots * tile), 1, rest)
        return nodes

    @property
    def _out_bytes(self) -> int:
        return 4 if self.epilogue.out_dtype == "int32" else 1

    def _tile(self, first: Affine, local: Affine, rows: int, cols: int) -> Nodes:
        """``rows`` rows from row ``first`` on, at accumulator row ``local``."""
        dim = self.parameters.dim
        base = local + isa.ACCUMULATOR
        full = isa.FULL_WIDTH if self._out_bytes == 4 else 0
        parts = pieces(rows, dim)
        nodes: Nodes = []
        for channel, source, mode in ((0, self.a, 0), (1, self.b, isa.ACCUMULATE)):
            nodes += each("i", parts, lambda i, run, channel=channel, source=source, mode=mode: [isa.mvin(  # type: ignore[misc]
                channel, (first + i * dim) * dim + source.address, Block(base + i * dim + mode, run.size, cols))])
        return nodes + each("i", parts, lambda i, run: [isa.mvout(
            (first + i * dim) * (dim * self._out_bytes) + self.c.address,
            Block(base + i * dim + full, run.size, cols))])
