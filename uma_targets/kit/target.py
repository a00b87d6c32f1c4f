"""A target of matrix products from one description: what is different from one to the other, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, get_args

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.mapper.accelerator import Accelerator, Configuration
from archloom.mapper.hardware import Hardware
from archloom.mapper.options import Option
from archloom.mapper.packing import Place
from archloom.mapper.requantization import Requantizer
from archloom.mapper.space import Space
from archloom.mapper.tiling import Shape, Tiling, space_of, square_tiles
from archloom.mapper.workload import Kind, Workload
from archloom.oracle import taidl
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.user_code import Misused, called
from archloom.tvm_backend.compiled import Refuse
from archloom.tvm_backend.ir.attention import attention_shape
from archloom.tvm_backend.ir.expressions import IRModule
from archloom.tvm_backend.ir.numbers import Numbers, is_quantized
from archloom.tvm_backend.ir.patterns import DFPattern
from archloom.tvm_backend.passes.attention import as_attention
from archloom.tvm_backend.passes.casts import plain_casts
from archloom.tvm_backend.passes.channels_last import channels_last
from archloom.tvm_backend.passes.common import without_copies
from archloom.tvm_backend.passes.composites import fuse_composites
from archloom.tvm_backend.passes.halves import with_wide_sums
from archloom.tvm_backend.passes.integers import as_integers
from archloom.tvm_backend.passes.products import as_products
from archloom.tvm_backend.passes.sink_reshapes import sink_reshapes
from archloom.tvm_backend.passes.truths import without_truths
from archloom.tvm_backend.passes.weights import without_batch_norms
from archloom.tvm_backend.targets.backend import Predicate, Strategy, UMABackend, UMAPhase
from archloom.uma_targets.kit import attention, patterns, requantized, rules, strategies, sums
from archloom.uma_targets.kit.attention import AttentionKernel, Kernel
from archloom.uma_targets.kit.gemm import EmitGemm, GemmEmitter, WorkspaceBytes
from archloom.uma_targets.kit.together import Together
from archloom.uma_targets.kit.vectors import operators as nests
from archloom.uma_targets.kit.vectors.operators import VectorKit

Options = Mapping[str, Any]
KitNumbers: TypeAlias = Literal["int8", "float32"]
_NUMBERS = get_args(KitNumbers)


@dataclass(frozen=True)
class GemmKit:
    """An accelerator of matrix products.

    ``graph``: options → architecture graph. ``isa`` names a ``.taidl`` description (or is the path of one: that of
    another package), whose parameters are the graph's. ``emit``: product, mapping, sizes → instructions. ``tiling``:
    shape, hardware, options and sizes of the ISA → the tiles to choose from (by default one of the option ``dim`` each
    way). ``macs_per_cycle``: the peak of a graph, for utilization (by default what its units' products make);
    ``rates``: how many times as many of other numbers than ``numbers``, by their type.
    ``layouts``: where constants of a product are to lie in memory, by name (:mod:`archloom.mapper.packing`).
    ``workspace_bytes``: memory that a mapping needs beside the operands (``Gemm.workspace``).
    ``numbers``: ``int8`` takes operators of quantized networks, from int8 to requantized int8; ``float32`` those of
    networks as they are. ``attention``: how attention of float32 is computed as one operator, where it is; ``kernels``:
    how workloads of other kinds are run. With rules ``windows``, convolutions that are no products and keep them are
    taken, too, by the kernel of ``conv2d``.
    ``bias`` and ``relu`` say what the emission fuses; without them such operators are refused. ``residual``: it also
    adds a tensor to products of float32, before the activation, with ``vectors``. ``sums``: it also stores
    int32 sums as they are (``Gemm.stores_sums``), of which the host makes the results where one factor is not enough:
    scales by channel, zero points, uint8, float results. ``sums_of_bytes``: where numbers are floats, it stores int32
    sums of int8, too; with ``vectors`` it takes quantized networks as well. ``halves``: with ``vectors`` it takes
    networks of float16 and bfloat16, too, and says for options whether it stores float32 sums of them, or they are made
    float32.
    ``requantizer``: how the machine makes bytes of sums by itself (:mod:`archloom.mapper.requantization`), with scales
    by channel and zero points, in place of one factor.
    ``vectors``: its vector unit, for all operators that are no products: whole networks of float32.
    ``in_place``: with ``vectors`` and a kernel of ``conv2d``, whether a convolution (NHWC, without padding) is taken as
    one whose image is read in place, rather than as a product of copies of its windows.
    ``patience``: how much more a search simulates (``Accelerator.patience``); ``is_bounded``: its tilings say what
    they take at least (``Tiling.least``).
    """

    name: str
    description: str
    options: tuple[Option, ...]
    isa: str | Path
    graph: Callable[[Options], "ArchitectureGraph"] = field(repr=False)
    emit: EmitGemm = field(repr=False)
    tiling: Callable[[Shape, Hardware, Options], Tiling] = field(default=square_tiles, repr=False)
    macs_per_cycle: "Callable[[ArchitectureGraph], int] | None" = field(default=None, repr=False)
    rates: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    numbers: KitNumbers = "int8"
    bias: bool = True
    relu: bool = True
    residual: bool = False
    sums: bool = False
    sums_of_bytes: bool = False
    halves: "Callable[[Options], bool] | None" = field(default=None, repr=False)
    requantizer: Requantizer | None = None
    workspace_bytes: WorkspaceBytes | None = field(default=None, repr=False)
    layouts: "Callable[[Workload, Mapping[str, Any]], Mapping[str, Place]] | None" = field(default=None, repr=False)
    attention: AttentionKernel | None = field(default=None, repr=False)
    kernels: Mapping[str, Kernel] = field(default_factory=dict, repr=False)
    windows: tuple[rules.SizedRule, ...] = ()
    vectors: VectorKit | None = None
    in_place: "Callable[[Workload, Configuration], bool] | None" = field(default=None, repr=False)
    patience: int = 1
    is_bounded: bool = False

    def __post_init__(self) -> None:
        kinds = get_args(Kind)
        for holds, what in (
            (self.numbers in _NUMBERS, f"numbers: expected {' or '.join(_NUMBERS)}, found {self.numbers!r}"),
            (isinstance(self.windows, tuple), f"windows: expected a tuple of rules, found {self.windows!r}"),
            (all(name in kinds and isinstance(kernel, Kernel) for name, kernel in self.kernels.items()),
             f"kernels: expected a Kernel for each of some of {', '.join(kinds)}, found {dict(self.kernels)}"),
        ):
            if not holds:
                raise Misused(f"kit {self.name!r}: {what}")

    @cached_property
    def isa_name(self) -> str:
        """Name of the ISA; a description of another package is made known under it."""
        if isinstance(self.isa, str):
            return self.isa
        return taidl.register(self.isa)

    @cached_property
    def accelerator(self) -> Accelerator:
        isa, kernels = self.isa_name, dict(self.kernels)
        if self.attention is not None:
            kernels["attention"] = Kernel(partial(attention.stream_of, isa, self.attention), self.attention.space)
        if self.vectors is not None:
            kernels["nest"] = nests.kernel(isa, self.vectors, self.graph)

        def emitter(bound: Isa, options: Options) -> GemmEmitter:
            return GemmEmitter(
                isa, bound.parameters, self.emit, self.workspace_bytes, kernels, self.sums or self.sums_of_bytes,
                self.requantizer is not None, {**options, **bound.scope})

        def space(workload: Workload, hardware: Hardware, options: Options) -> Space:
            if workload.kind in kernels:
                found: Space = called(kernels[workload.kind].space, workload, hardware, options, gives=Space)
                return found
            shape, machine = Shape.of(workload), made.configure(options)
            tiling = called(self.tiling, shape, hardware, {**machine.isa.scope, **options}, gives=Tiling)
            return space_of(workload, shape, tiling, hardware, machine.macs_per_cycle)

        def layouts(work: Workload, bound: Isa, options: Options) -> "Mapping[str, Place]":
            of = ("gemm",) if self.in_place is None else ("gemm", "conv2d")  # what else there is becomes products
            if self.layouts is None or work.kind not in of:
                return {}
            return self.layouts(work, {**options, **bound.scope})

        made = Accelerator(
            self.name, self.description, self.options, isa, self.graph, emitter, space,
            self.macs_per_cycle, patience=self.patience, is_bounded=self.is_bounded,
            layouts=None if self.layouts is None else layouts, rates=self.rates, calls=tuple(self._functions()),
        )
        return made

    def _functions(self) -> Iterator[Callable[..., Any]]:
        """What the description consists of."""
        yield from (each for each in (self.emit, self.tiling, self.workspace_bytes, self.layouts, self.in_place)
                    if each is not None)
        parts = (*self.kernels.values(), self.attention, self.vectors)
        yield from (value for part in parts if part is not None for value in vars(part).values() if callable(value))


class Described(Protocol):
    """What the description of a target has in any case."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def numbers(self) -> Numbers: ...
    @property
    def options(self) -> tuple[Option, ...]: ...
    @property
    def accelerator(self) -> Accelerator: ...


class DescribedTarget(UMABackend):
    """A target whose name, numbers, options and accelerator stand in its ``kit``."""

    kit: ClassVar[Described]

    def _values(self, options: Options) -> dict[str, Any]:
        """All options of the kit, by default theirs."""
        return {o.name: options.get(o.name, o.default) for o in self.kit.options}

    @property
    def target_name(self) -> str:
        return self.kit.name

    @property
    def description(self) -> str:
        return self.kit.description

    @property
    def numbers(self) -> Numbers:
        return self.kit.numbers


class KitTarget(DescribedTarget):
    """Base of the targets that are described by a :class:`GemmKit`: a subclass states ``kit``."""

    kit: ClassVar[GemmKit]

    def __init__(self) -> None:
        super().__init__()
        floats = not is_quantized(self.kit.numbers)
        self._whole: list[rules.AllOf] = []
        self._products: list[rules.AllOf] = []
        if self.kit.requantizer is not None:
            self._offer_requantized(self.kit.requantizer)
        else:
            self._offer_plain(floats)
        if self.kit.sums:
            self._offer_sums()
        if self.kit.attention is not None:
            self._register_pattern("attention", patterns.attention, attention.predicate(
                self.kit.attention, self._values({})))
            self._register_operator_strategy("attention", attention.strategy)
        if self.kit.vectors is not None:
            self._offer_nests(nests.taken(self.kit.vectors, self._graph))
        self._register_relax_pass(
            UMAPhase.PRE_PARTITIONING, self._prepared if floats else self._gathered, takes_options=True)
        self._register_codegen("stream", lambda: self.kit.accelerator)

    @property
    def nests(self) -> bool:
        return self.kit.vectors is not None

    @property
    def takes_integers(self) -> bool:
        return self.is_quantized or (self.nests and self.kit.sums_of_bytes)

    @property
    def by_one_factor(self) -> bool:
        return self.kit.requantizer is None

    @property
    def _refusals(self) -> tuple[rules.Rule, ...]:
        """Rules against what the emission does not fuse."""
        return (*(() if self.kit.bias else (rules.no_bias,)), *(() if self.kit.relu else (rules.no_activation,)))

    def _offer_plain(self, floats: bool) -> None:
        """Products of floats, or those that one factor makes bytes of."""
        more = self._refusals
        matmul, conv2d = (rules.FLOAT_MATMUL, rules.FLOAT_CONV2D) if floats else (rules.INT8_MATMUL, rules.INT8_CONV2D)
        self._products.append(rules.AllOf("nn.conv2d", (*rules.INT8_WINDOWS, *more)))
        residual = ("residual_activation", "residual") if self.kit.residual else ()
        self._offer_forms("matmul", rules.AllOf("matmul", (*matmul, *more)), strategies.matmul, residual, floats=floats)
        if floats:
            self._offer_mixed("matmul", "matmul", rules.HALVES_MATMUL, rules.INTEGER_MATMUL, strategies.matmul)
        if self.kit.in_place is not None:
            self._offer_forms("conv2d", rules.AllOf("nn.conv2d", (*rules.FLOAT_IMAGES, *more)), strategies.in_place,
                              residual, floats=True)
            self._offer_mixed(
                "conv2d", "nn.conv2d", rules.HALVES_IMAGES, rules.INTEGER_IMAGES, strategies.in_place)
            return
        if self.kit.windows:
            conv2d = tuple(rule for rule in conv2d if rule is not rules.pointwise_convolution)
        self._offer_forms(
            "conv2d", rules.AllOf("nn.conv2d", (*conv2d, *more), self.kit.windows),
            strategies.any_conv2d if self.kit.windows else strategies.pointwise, floats=floats)

    def _offer_mixed(
        self, name: str, anchor: str, halves: tuple[rules.Rule, ...], integers: tuple[rules.Rule, ...],
        strategy: Strategy,
    ) -> None:
        """Products in mixed precision where there are such, with their sums as results."""
        for numbers, ruled, taken in (("halves", halves, self.kit.halves is not None),
                                      ("integers", integers, self.takes_integers)):
            if taken:
                self._offer(f"{name}_{numbers}", partial(patterns.fused, name, "plain", floats=True),
                            rules.AllOf(anchor, ruled), strategy)

    def _offer_requantized(self, machine: Requantizer) -> None:
        """Products, and convolutions where there is a kernel, whose results the machine makes by itself."""
        ruled, tables = requantized.rules_of(machine), ("table",) if machine.tables else ()
        conv2d: tuple[rules.Rule, ...] = (*ruled, rules.constant_kernel) if self.kit.windows else (
            *ruled, rules.plain_convolution, rules.pointwise_convolution)
        self._products.append(rules.AllOf("nn.conv2d", (
            *requantized.rules_of(machine, gathered=True), rules.constant_kernel, sums.scales_of_groups)))
        whole = strategies.any_conv2d if self.kit.windows else strategies.pointwise
        self._offer_forms("matmul", rules.AllOf("matmul", (*ruled, rules.plain_matmul)),
                          requantized.by_machine(machine, strategies.matmul), tables)
        self._offer_forms("conv2d", rules.AllOf("nn.conv2d", conv2d, self.kit.windows),
                          requantized.by_machine(machine, whole), tables)

    def _graph(self, options: Options) -> "ArchitectureGraph":
        """The graph for all options of the kit, by default theirs."""
        return self.kit.graph(self._values(options))

    def _in_place(self, options: Options) -> "Callable[[Workload], bool]":
        """Whether a convolution's image is read in place."""
        decide = self.kit.in_place
        if decide is None:
            return lambda work: False
        configuration = self.kit.accelerator.configure({**options})
        return lambda work: decide(work, configuration)

    def _offer_nests(self, taken: Predicate) -> None:
        """All that is a nest of loops."""
        for name, pattern in nests.patterns():
            self._register_pattern(name, pattern, taken, quiet=name not in ("fold", "one"))
            self._register_operator_strategy(name, nests.lowered)

    def _offer_forms(
        self, anchor: str, predicate: rules.AllOf, strategy: Strategy, more: tuple[str, ...] = (), *,
        floats: bool = False,
    ) -> None:
        """Take an operator in its forms where a predicate allows."""
        for form in (*more, *(("activation",) if self.kit.relu else ()), "plain"):
            self._offer(f"{anchor}_{form}", partial(patterns.fused, anchor, form, floats=floats), predicate, strategy)

    def _offer(self, name: str, pattern: "Callable[[], DFPattern]", predicate: rules.AllOf, strategy: Strategy) -> None:
        """Take what a pattern matches and a predicate allows."""
        self._register_pattern(name, pattern, predicate)
        self._register_operator_strategy(name, strategy)
        if predicate.anchor == "nn.conv2d" and predicate not in self._whole:
            self._whole.append(predicate)

    def _gathered(self, module: "IRModule", options: Options, refuse: Refuse) -> "IRModule":
        """Quantized convolutions as products of matrices, but for those that are taken as they are."""
        return rules.gathered(module, self._products, self._whole, self._values(options), Together(
            self.kit.accelerator.configure({**options})))

    def _offer_sums(self) -> None:
        """Products of which the host makes the results from their sums, and convolutions that are products."""
        more = () if self.kit.bias else (rules.no_bias,)
        pointwise = (*sums.SUMS_CONV2D, rules.plain_convolution, rules.pointwise_convolution, *more)
        as_it_is = rules.AllOf("nn.conv2d", pointwise)
        self._whole.append(as_it_is)
        self._products.append(rules.AllOf("nn.conv2d", (*sums.SUMS_CONV2D, sums.scales_of_groups, *more)))
        sums.offer(self, "conv2d", as_it_is, lambda op, options: strategies.pointwise(op))
        sums.offer(self, "matmul", rules.AllOf("matmul", (*sums.SUMS_MATMUL, *more)),
                   lambda op, options: strategies.matmul(op))

    def _prepared(self, module: "IRModule", options: Options, refuse: Refuse) -> "IRModule":
        """Attention as one operator where the target takes it so; else, and convolutions, as products of matrices."""
        kernel = self.kit.attention
        if self.nests:
            if self.kit.halves is not None:
                module = with_wide_sums(module, self.kit.halves(self._values(options)))
            if self.takes_integers:
                module = as_integers(sink_reshapes(plain_casts(module)), lambda op: sums.as_integers(op).ok)
            plain = fuse_composites(without_batch_norms(module))
            module = without_truths(without_copies(channels_last(plain, self._in_place(options))))
        if kernel is None:
            return as_products(module)
        values = self._values(options)
        module = as_attention(module, lambda shape: kernel.fits(shape, values), refuse)
        return as_products(module, lambda call: kernel.fits(attention_shape(call), values) is None)
