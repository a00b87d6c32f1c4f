"""XLA's options for programs that are compiled ahead of time."""

from __future__ import annotations

import math
from typing import Any

from oracle.resolved import ResolvedInstr, ResolvedNode, ResolvedStream

TINY = 1 << 10
"""Up to how many elements of arguments and results code is not worth optimizing: it runs in a microsecond or two."""

SMALL = 1 << 12
"""Up to how many elements a program with loops runs in microseconds."""

LARGE = 1 << 20
"""From how many elements on a program's run time counts for more than that of compiling it."""


def compiler_options(stream: ResolvedStream | None = None, *, raised: bool = True) -> dict[str, Any] | None:
    """The options for a program of ``stream`` (or any) on JAX's default device; None for XLA's own.

    On the CPU, LLVM's third level takes a quarter more of XLA's time than its second and makes some element-wise loops
    twice as slow. Programs of integers go by XLA's older emitter of fusions, which takes two thirds of the time, gives
    the same integers and, where no loop over instructions is left, is as fast; bits of floats could differ between the
    two.
    """
    import jax

    if jax.default_backend() != "cpu":
        return None
    options: dict[str, Any] = {"xla_backend_optimization_level": 2}
    if stream and not has_floats(stream):
        size = _elements(stream)
        if size <= (LARGE if raised else SMALL):
            options["xla_cpu_use_fusion_emitters"] = False
        if size <= TINY and raised:
            options["xla_backend_optimization_level"] = 0
    return options


def _elements(stream: ResolvedStream) -> int:
    return sum(math.prod(t.shape) for t in (*stream.arguments, *stream.results))


def has_floats(stream: ResolvedStream) -> bool:
    """Whether anything in the stream is of another type than integers and truth values."""
    tensors = (*stream.arguments, *stream.results)
    return any(not t.dtype.startswith(("int", "uint", "bool")) for t in tensors) or any(map(_floats, stream.body))


def _floats(node: ResolvedNode) -> bool:
    if isinstance(node, ResolvedInstr):
        return any(s.type.dtype[0] not in "iu" for s in node.statements)
    return any(map(_floats, node.body))
