"""A node of torch's graph as converters for TVM 0.27 see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from archloom.tvm_backend.ir import compat
from archloom.tvm_backend.ir import expressions as ir


@dataclass(frozen=True)
class Site:
    """``node`` of fx, which ``importer``, TVM's, comes to; what a converter gives for it is bound to a variable."""

    node: Any
    importer: Any

    def at(self, position: int, name: str = "", default: Any = None) -> Any:
        """An argument by its place or its name; nodes are what they were converted to."""
        args = self.node.args
        value = args[position] if len(args) > position else self.node.kwargs.get(name, default)
        return self.importer.env[value] if type(value).__name__ == "Node" else value

    def first(self, *names: str) -> tuple[Any, ...]:
        """The first arguments, by their names in order."""
        return tuple(self.at(i, name) for i, name in enumerate(names))

    def emit(self, op: str, *args: Any, **attributes: Any) -> Any:
        """A variable for a call of one of Relax's operators."""
        return self.importer.block_builder.emit(compat.relax_op(op)(*args, **attributes))

    def cast(self, x: Any, dtype: str) -> Any:
        """A tensor in another type, where it has not got that."""
        return x if ir.dtype_of(x) == dtype else self.emit("astype", x, dtype)


def constant(value: Any, dtype: str | None = None) -> Any:
    """A tensor constant."""
    return compat.constant(np.asarray(value, dtype))


def dtype_name(dtype: Any) -> str:
    """NumPy's name of a type of torch's."""
    return str(dtype).removeprefix("torch.")


def sum_dtype(site: Site, x: Any, position: int) -> str:
    """The type in which a sum is asked for; by default int64 of integers and of truths, else that of ``x``."""
    dtype = site.at(position, "dtype")
    integer = ir.dtype_of(x).startswith(("int", "uint", "bool"))
    return dtype_name(dtype) if dtype is not None else "int64" if integer else ir.dtype_of(x)
