"""Pieces of quantized networks: a product with what follows it, up to where a target may take it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import cached_property
from typing import Any

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.match import NotQuantized, QuantizedOp, read
from archloom.tvm_backend.ir.rewriter import Rewriter

FOLLOWING = frozenset({"add", "nn.relu", "clip", "quantize", "dequantize", "astype"})
"""What may follow a product in its piece."""


class Pieces(Rewriter):
    """A rewriter of products that ``taken`` says are taken; ``inside``: variables of those that have been rewritten."""

    def __init__(self, module: ir.IRModule, taken: Callable[[QuantizedOp], bool]) -> None:
        super().__init__(module)
        self.taken = taken
        self.inside: set[Any] = set()

    @cached_property
    def readers(self) -> dict[Any, Any]:
        """By variable what is bound to a value that reads it, the last of them."""
        return {read: var for var, value in self.values.items() for read in ir.variables(value)}

    def pieces(self, var: Any, anchors: Container[str]) -> Iterator[tuple[QuantizedOp, list[Any]]]:
        """The product, one of ``anchors``, that is bound to a variable, with what follows it as far as it is taken: the
        longest piece first, each with its variables."""
        for chain in reversed(list(self._chains(var))):
            try:
                op = read(self.values[chain[-1]], self.value_of)
            except NotQuantized:
                continue
            if op.anchor in anchors and self.taken(op):
                yield op, chain

    def _chains(self, var: Any) -> Iterator[list[Any]]:
        """What follows a product and nothing else reads, up to where its piece may end."""
        chain = [var]
        yield list(chain)
        while self.uses[chain[-1]] == 1 and chain[-1] in self.readers:
            chain.append(self.readers[chain[-1]])
            name = ir.op_name(self.values[chain[-1]])
            if name not in FOLLOWING:
                return
            if name != "dequantize":
                yield list(chain)
