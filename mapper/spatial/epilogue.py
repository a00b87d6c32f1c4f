"""What happens to finished sums of a product or a convolution before they are stored: bias, residual, activation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from archloom.acadl_models.mesh.vector import UNARY
from archloom.mapper.spatial.machines.machine import Machine
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Node

ACTIVATIONS: Mapping[str, str] = MappingProxyType({
    "relu": "relu", "gelu": "gelu", "silu": "silu", "sigmoid": "sigmoid", "tanh": "hyperbolic", "exp": "exponential",
})
"""The vector unit's instruction for each activation."""
CLIPPED = ("relu", "relu6")
"""What the store does: no number below zero, nor above six."""


SLOTS = 2
"""Blocks of an epilogue's operands in a core: one comes while another is used."""


@dataclass(frozen=True, order=True)
class Epilogue:
    """``y = activation(sums + bias + residual)``: a number for each column, and a tensor of the result's shape."""

    bias: bool = False
    residual: bool = False
    activation: str | None = None

    def __post_init__(self) -> None:
        known = dict.fromkeys((*ACTIVATIONS, *CLIPPED))
        if self.activation is not None and self.activation not in known:
            raise MappingError(f"activation {self.activation!r}: expected one of {', '.join(known)}, or none")

    @property
    def relu(self) -> bool:
        """Whether the store itself does all of the activation."""
        return self.clipped > 0

    @property
    def clipped(self) -> int:
        """How the store clips: 0 not at all, 1 below zero, 2 above six, too."""
        return CLIPPED.index(self.activation) + 1 if self.activation in CLIPPED else 0

    @property
    def passes(self) -> int:
        """Passes of the vector unit over the sums."""
        own = UNARY[ACTIVATIONS[self.activation]] if self.activation and not self.relu else 0
        return own + self.bias + self.residual

    def block(self, m: int, n: int) -> int:
        """Tiles of L1 for the operands of a block of ``m x n`` sums."""
        return n * self.bias + m * n * self.residual

    def room(self, m: int, n: int) -> int:
        """Tiles of L1 for the operands of all blocks that a core holds at a time."""
        return SLOTS * self.block(m, n)

    def cycles(self, machine: Machine) -> int:
        """Of the vector unit, for a tile of sums."""
        return self.passes * machine.vector_cycles


NOTHING = Epilogue()


@dataclass(frozen=True)
class Beside:
    """Where the operands of an epilogue lie: ``bias`` and ``residual`` in memory, ``l1`` in the core, ``h0``: bytes
    between rows of tiles of the residual; ``hc``: between its columns, where it lies column by column."""

    bias: Affine
    residual: Affine
    l1: Affine
    h0: int
    hc: int = 0


def finished(epilogue: Epilogue, acc: Affine, size: tuple[int, int], beside: Beside) -> list[Node]:
    """What a core does with ``size`` sums at ``acc``."""
    m, n = size
    found: list[Node] = []
    if epilogue.bias:
        found += [Instr.make("load_row", dram=beside.bias, l1=beside.l1, cols=n),
                  Instr.make("add_row", l1=beside.l1, acc=acc, m=m, n=n)]
    if epilogue.residual:
        l1 = beside.l1 + epilogue.bias * n
        if beside.hc:
            load = Instr.make("load_windows", dram=beside.residual, l1=l1, rows=m, ys=1, xs=1, cols=n, h0=beside.h0,
                              hy=0, hx=0, hc=beside.hc, r0=n)
        else:
            load = Instr.make("load", dram=beside.residual, l1=l1, rows=m, cols=n, h0=beside.h0)
        found += [load, Instr.make("add_tiles", l1=l1, acc=acc, count=m * n)]
    if epilogue.activation and not epilogue.relu:
        found.append(Instr.make(ACTIVATIONS[epilogue.activation], acc=acc, count=m * n))
    return found
