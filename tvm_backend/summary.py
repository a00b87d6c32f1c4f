"""What a network consists of, in a few lines: for ``print(model)`` and a notebook's cell."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from archloom.oracle.errors import counted
from archloom.oracle.pages import Block, Heading
from archloom.tvm_backend.host.rules import macs
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.report.table import Column, as_block, count, render

if TYPE_CHECKING:
    from archloom.tvm_backend.compiled import TensorSpec
    from archloom.tvm_backend.model import Model

_COLUMNS = (Column(""), Column("name"), Column("shape"), Column("type"))
KINDS = 5
"""Kinds of operators that are named, the most frequent ones."""


@dataclass(frozen=True)
class Summary:
    """``operators`` by their kind, multiply-accumulates, and bytes of the constants."""

    model: "Model"
    operators: Counter[str]
    macs: int
    constant_bytes: int

    @staticmethod
    def of(model: "Model") -> "Summary":
        calls = [b.value for b in ir.bindings(model.module["main"]) if ir.op_name(b.value) is not None]
        constants = {id(a): a for call in calls for a in call.args if ir.is_constant(a)}.values()
        return Summary(
            model, Counter(str(ir.op_name(call)) for call in calls), sum(map(macs, calls)),
            sum(math.prod(ir.shape_of(c)) * np.dtype(ir.dtype_of(c)).itemsize for c in constants))

    def tensors(self) -> Iterator[tuple[str, str, str, str]]:
        """A row for each input and output."""
        return tensors(self.model.inputs, self.model.outputs)

    def sizes(self) -> str:
        kinds = [f"{number} {kind}" for kind, number in self.operators.most_common(KINDS)]
        more = ["..."] if len(self.operators) > KINDS else []
        return (f"{counted(self.operators.total(), 'operator')} ({', '.join([*kinds, *more])}), "
                f"{count(self.macs)} MACs, {counted(self.constant_bytes, 'byte')} of constants")

    def title(self) -> str:
        return f"{self.model.name} ({self.model.source})"

    def __str__(self) -> str:
        return "\n".join([f"{self.title()}: {self.sizes()}", render(_COLUMNS, list(self.tensors()))])

    def page(self) -> list[Block]:
        return [Heading(4, f"{self.title()}: {self.sizes()}"),
                as_block(_COLUMNS, self.tensors())]


def tensors(inputs: "Sequence[TensorSpec]", outputs: "Sequence[TensorSpec]") -> Iterator[tuple[str, str, str, str]]:
    """A row for each: which it is, its name, shape and type."""
    for what, specs in (("input", inputs), ("output", outputs)):
        for spec in specs:
            yield what, spec.name, _shape(spec), spec.dtype


def in_a_line(whose: str, inputs: "Sequence[TensorSpec]", outputs: "Sequence[TensorSpec]") -> str:
    """What ``repr`` says of a network."""
    said = "; ".join(f"{what} {name} {shape} {dtype}" for what, name, shape, dtype in tensors(inputs, outputs))
    return f"<{whose}: {said}>"


def _shape(spec: "TensorSpec") -> str:
    return "×".join(map(str, spec.shape)) or "scalar"
