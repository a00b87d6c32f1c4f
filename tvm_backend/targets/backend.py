"""The base class of targets, with the names of TVM's UMA, on Relax.

A target says which attributes it has, which subgraphs it takes (pattern and predicate), how each becomes a workload
(operator strategy) and what turns workloads into programs (codegen). Nothing else of a target is known to the compiler.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import numpy as np

from archloom.mapper.options import OptionValue
from archloom.mapper.workload import Workload
from archloom.oracle.errors import TargetError, suggest
from archloom.tvm_backend.compiled import Refuse
from archloom.tvm_backend.ir.numbers import Numbers, is_quantized
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.targets.layouts import Layout, PixelGrid, Shape

if TYPE_CHECKING:
    from archloom.mapper.accelerator import Accelerator
    from archloom.tvm_backend.host.output_stage import OutputStage
    from archloom.tvm_backend.ir.expressions import IRModule, Lookup
    from archloom.tvm_backend.ir.match import QuantizedOp
    from archloom.tvm_backend.ir.patterns import DFPattern


class UMAPhase(enum.Enum):
    """When a registered pass runs."""

    PRE_PARTITIONING = 0
    """on the imported network"""
    POST_PARTITIONING_0 = 1
    """when matches are composite functions"""
    POST_PARTITIONING_1 = 2
    """when composite functions are grouped into regions; nothing is noted any more"""


@dataclass(frozen=True)
class Verdict:
    """A predicate's answer: whether the target takes a match, and what it saw."""

    ok: bool
    seen: str
    needs: str = ""
    """what the target takes instead, for a refusal"""


@dataclass(frozen=True, eq=False)
class Lowered:
    """A match as a workload.

    ``inputs`` gives the operand (an index into the operator's operands) of each non-constant argument, in the
    workload's order; ``constants`` the arrays of the others, shaped as the workload's tensors are stored. ``layout`` is
    how the operands and the result lie in memory; ``op`` names the fused operators. ``output_stage`` is what the host
    makes of the workload's int32 sums; ``tiles`` says more of operators on tensors in tiles.
    """

    workload: Workload
    op: str
    inputs: tuple[tuple[str, int], ...]
    constants: Mapping[str, np.ndarray]
    layout: Layout
    output_stage: "OutputStage | None" = None
    tiles: "InTiles" = field(default_factory=lambda: InTiles())

    def layout_of(self, argument: str) -> Layout:
        return self.tiles.layouts.get(argument, self.layout)


@dataclass(frozen=True, eq=False)
class InTiles:
    """What partitioning must know of an operator whose tensors lie in tiles, to hand them on as they are.

    Tiles are filled up beyond the edges of a tensor's matrices (``rows``, ``columns``), mostly with zeros.
    """

    layouts: Mapping[str, Layout] = field(default_factory=dict)
    """of arguments that lie otherwise than the result"""
    nonzero_edges: tuple[str, ...] = ()
    """edges of the result beyond which there may be other numbers than zeros"""
    passed_edges: tuple[str, ...] = ()
    """arguments whose own such edges are the result's, too"""
    zero_edges: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """for arguments the edges beyond which there must be zeros"""
    any_layout: "Callable[[Shape], Workload] | None" = None
    """of an operator that any layout suits which all operands share: the workload on tiles of this shape"""
    gridded: "Gridded | None" = None
    """the same match with images on a grid"""


@dataclass(frozen=True, eq=False)
class Gridded:
    """A convolution that can store its result on a grid (:data:`mapper.spatial.arrays.Grid`), and read what others did.

    ``make`` gives it for a grid of ``least`` rows and pixels at least, and of a lead of as many pixels as ``margins``
    make: so many rows and further pixels before an image, and behind it. ``reads``: its image may
    lie on the grid, too; ``plain``: without a grid it reads and stores plain rows of pixels.
    """

    make: "Callable[[PixelGrid], Lowered]"
    least: tuple[int, int]
    margins: tuple[tuple[int, int], tuple[int, int]]
    reads: bool
    plain: bool


@dataclass(frozen=True, eq=False)
class Joined:
    """Two operators as one: ``op`` with the operands of both, but for what the second reads of the first, as a
    workload; ``lowered`` is None where they stay two. ``why`` says what was weighed."""

    op: "QuantizedOp"
    lowered: Lowered | None
    why: str


Join: TypeAlias = Callable[["QuantizedOp", "QuantizedOp", Mapping[str, OptionValue]], "Joined | None"]
"""Weighs an operator, and the one that reads its result first and alone, against both as one; None: they are no pair
that the target knows."""
Predicate: TypeAlias = Callable[["QuantizedOp", Mapping[str, OptionValue]], Verdict]
Strategy: TypeAlias = Callable[["QuantizedOp"], Lowered]
StrategyWithOptions: TypeAlias = Callable[["QuantizedOp", Mapping[str, OptionValue]], Lowered]
RelaxPass: TypeAlias = Callable[["IRModule"], "IRModule"]
PassWithOptions: TypeAlias = Callable[["IRModule", Mapping[str, OptionValue], Refuse], "IRModule"]


@dataclass(frozen=True, eq=False)
class Pattern:
    """A registered pattern; ``make`` builds the Relax pattern when TVM is there."""

    name: str
    make: Callable[[], "DFPattern"]
    predicate: Predicate | None
    quiet: bool = False
    """refusals are not noted: a smaller pattern follows"""


class UMABackend(ABC):
    """A target. Subclasses register everything in ``__init__`` and are made known by :meth:`register`."""

    def __init__(self) -> None:
        self._attributes: dict[str, OptionValue] = {}
        self._patterns: dict[str, Pattern] = {}
        self._passes: list[tuple[UMAPhase, PassWithOptions]] = []
        self._strategies: dict[str, StrategyWithOptions] = {}
        self._codegen: Callable[[], Accelerator] | None = None
        self._join: Join | None = None

    @property
    @abstractmethod
    def target_name(self) -> str:
        """Name of the target: letters, digits, ``_`` and ``-``."""

    @property
    def description(self) -> str:
        """One line for listings."""
        return (type(self).__doc__ or self.target_name).strip().splitlines()[0]

    @property
    def numbers(self) -> Numbers:
        """What the target computes with: operators of quantized networks (int8), or of networks as they are."""
        return "int8"

    @property
    def is_quantized(self) -> bool:
        """Whether it takes quantized networks, not networks of floats."""
        return is_quantized(self.numbers)

    @property
    def takes_integers(self) -> bool:
        """Whether it takes quantized networks, be it beside those of floats."""
        return self.is_quantized

    @property
    def by_one_factor(self) -> bool:
        """Whether a factor is all that it makes bytes of sums by."""
        return True

    @property
    def vectors(self) -> bool:
        """Whether it has vector instructions on tensors in tiles: it takes element-wise operators, those of rows, and
        products to which a tensor is added, and keeps images beside matrices."""
        return False

    @property
    def nests(self) -> bool:
        """Whether it takes whatever is a nest of loops over scalar operations (:mod:`archloom.mapper.nests`), with all
        tensors as the network has them."""
        return False

    def read(self, root: Any, lookup: "Lookup") -> "QuantizedOp":
        """The operator on the target's numbers whose result is ``root``: :func:`archloom.tvm_backend.ir.match.read`."""
        from archloom.tvm_backend.ir.match import read

        return read(root, lookup, numbers=self.numbers, vectors=self.vectors, nests=self.nests)

    # registration ---------------------------------------------------------------------------------------------------

    def _register_target_attr(self, name: str, default: OptionValue) -> None:
        """Declare an option of the target with its default, a number, string or truth value."""
        self._unique("attribute", name, self._attributes)
        if not isinstance(default, bool | int | float | str):
            raise TargetError(
                f"target {self.target_name!r}: attribute {name!r}: expected a default that is a number, a string or a "
                f"truth value, found {default!r}"
            )
        self._attributes[name] = default

    def _register_pattern(
        self, name: str, pattern: "DFPattern | Callable[[], DFPattern]", predicate: Predicate | None = None,
        *, quiet: bool = False,
    ) -> None:
        """Offer to take what ``pattern`` matches where ``predicate`` agrees. Earlier patterns win.

        ``pattern`` may be a function that makes it, so that registration does not need TVM. ``quiet``: what it refuses
        is not reported, as it is a part that a later pattern may take.
        """
        self._unique("pattern", name, self._patterns)
        is_one = hasattr(pattern, "handle") or any(base.__name__ == "DFPattern" for base in type(pattern).__mro__)
        make = pattern if callable(pattern) and not is_one else None
        self._patterns[name] = Pattern(
            name, make or (lambda: pattern), predicate, quiet)  # type: ignore[return-value,arg-type]

    def _register_relax_pass(
        self, phase: UMAPhase, relax_pass: "RelaxPass | PassWithOptions", *, takes_options: bool = False
    ) -> None:
        """Run a pass over the module at ``phase``; passes of a phase run in the order of registration.

        With ``takes_options`` it is called with the target's options, too, and a function to note what it left alone.
        """
        if not isinstance(phase, UMAPhase):
            raise TargetError(
                f"target {self.target_name!r}: expected a phase of UMAPhase "
                f"({', '.join(p.name for p in UMAPhase)}), found {phase!r}"
            )
        run: Any = relax_pass
        self._passes.append((phase, run if takes_options else lambda module, options, refuse: run(module)))

    def _register_operator_strategy(
        self, op: str, strategy: "Strategy | StrategyWithOptions", *, takes_options: bool = False
    ) -> None:
        """Say how matches of the pattern ``op`` become workloads; with ``takes_options`` it is called with the target's
        options, too."""
        self._unique("operator strategy", op, self._strategies)
        if op not in self._patterns:
            raise TargetError(
                f"target {self.target_name!r}: operator strategy for {op!r}: no such pattern"
                f"{suggest(op, list(self._patterns))}"
            )
        make: Any = strategy
        self._strategies[op] = make if takes_options else lambda found, options: make(found)

    def _register_join(self, join: Join) -> None:
        """Offer to take two operators that follow each other as one where ``join`` finds that to be better."""
        if self._join is not None:
            raise TargetError(f"target {self.target_name!r}: a join is registered twice")
        self._join = join

    def _register_codegen(self, fmt: str, codegen: "Callable[[], Accelerator]") -> None:
        """Say what turns workloads into programs; ``fmt`` is ``"stream"``, ``codegen`` makes the accelerator."""
        if fmt != "stream":
            raise TargetError(f"target {self.target_name!r}: codegen format {fmt!r}: expected 'stream'")
        if self._codegen is not None:
            raise TargetError(f"target {self.target_name!r}: codegen 'stream' is registered twice")
        self._codegen = codegen

    def _unique(self, what: str, name: str, table: Mapping[str, Any]) -> None:
        if not isinstance(name, str) or not name:
            raise TargetError(f"target {self.target_name!r}: expected a name for the {what}, found {name!r}")
        if name in table:
            raise TargetError(f"target {self.target_name!r}: {what} {name!r} is registered twice")

    def register(self) -> None:
        """Make the target known under its name (see :mod:`archloom.tvm_backend.targets.registry`).

        Raises :class:`~archloom.oracle.errors.TargetError` when it is incomplete or the name is taken.
        """
        self.validate()
        registry.add(self)

    def validate(self) -> None:
        """Every pattern needs an operator strategy, and the target a codegen and numbers that there are."""
        if self.numbers not in (known := get_args(Numbers)):
            raise TargetError(f"target {self.target_name!r}: numbers: expected one of {', '.join(known)}, found "
                              f"{self.numbers!r}")
        for name in self._patterns:
            if name not in self._strategies:
                raise TargetError(f"target {self.target_name!r}: pattern {name!r} has no operator strategy")
        if self._codegen is None:
            raise TargetError(f"target {self.target_name!r}: no codegen is registered")

    # what the compiler asks -------------------------------------------------------------------------------------------

    @property
    def accelerator(self) -> "Accelerator":
        """Graph, ISA, options and emission of the target."""
        assert self._codegen is not None  # as validate() demands
        return self._codegen()

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        return tuple(self._patterns.values())

    @property
    def attributes(self) -> Mapping[str, OptionValue]:
        """Options declared by the target itself, with defaults."""
        return dict(self._attributes)

    def strategy(self, op: str, options: Mapping[str, OptionValue] | None = None) -> Strategy:
        """The operator strategy of the pattern ``op`` at ``options`` (by default the defaults)."""
        strategy, values = self._strategies[op], dict(options or {})
        return lambda found: strategy(found, values)

    def join(self, first: "QuantizedOp", second: "QuantizedOp", options: Mapping[str, OptionValue]) -> Joined | None:
        """What the target makes of two operators, of which the second alone reads the result of the first."""
        return None if self._join is None else self._join(first, second, options)

    def run_passes(
        self, phase: UMAPhase, module: "IRModule", options: Mapping[str, OptionValue], refuse: Refuse
    ) -> "IRModule":
        """Apply the passes registered for ``phase``; ``refuse`` hears what those that depend on options left alone."""
        for when, relax_pass in self._passes:
            if when is phase:
                module = relax_pass(module, options, refuse)
        return module
