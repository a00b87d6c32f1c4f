"""XLA's options for programs that are compiled ahead of time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from archloom.oracle.late_jax import jax
from archloom.oracle.nests import instructions
from archloom.oracle.resolved import Op, ResolvedRegion, ResolvedStream, Statement
from archloom.oracle.taidl.operators.integer_dot import WITHOUT_TRITON, own_options

TINY = 1 << 10
"""Up to how many elements of arguments and results code of integers is not worth optimizing: it runs in a microsecond
or two."""

SMALL = 1 << 12
"""Up to how many elements a program with loops runs in microseconds."""

LARGE = 1 << 20
"""From how many elements on a program's run time counts for more than that of compiling it."""

EXACT = frozenset({"bitcast_convert", "broadcast", "broadcast_in_dim", "concatenate", "constant", "convert", "fma",
                   "negate", "pad", "reshape", "round_nearest_even", "select", "slice", "transpose"})
"""Operators whose f32 are moved, chosen, or rounded in one operation that code generators cannot join with another:
:mod:`archloom.oracle.taidl.operators.carriers` multiplies and adds where that is exact."""


def jit(function: Callable[..., Any], options: dict[str, Any] | None = None, **how: Any) -> Any:
    """``jax.jit`` of a JAX function that calls kernels, with XLA's options for them.

    Results are those of ``jax.jit``. On GPUs products of bytes are those of the machine, where a function that
    ``jax.jit`` compiles takes them in float32. It must be the outermost function: JAX refuses options within a trace.
    ``options`` are those of a stream (:func:`compiler_options`), ``how`` what else ``jax.jit`` takes.
    """
    return jax.jit(own_options()(function), compiler_options=options or compiler_options(), **how)


def compiler_options(
    stream: ResolvedStream | None = None, *, raised: bool = True, chained: bool = False, summed: bool = False,
) -> dict[str, Any] | None:
    """The options for a program of ``stream`` (or any) on JAX's default device; None for XLA's own.

    On the CPU, LLVM's third level takes a quarter more of XLA's time than its second and makes some element-wise loops
    twice as slow. Programs of integers go by XLA's older emitter of fusions, which takes half of the time, gives the
    same integers and, where neither chains nor loops over instructions are left, is as fast. Of floats only f32 that
    pass through :data:`EXACT` operators go that way, too: bits of others could differ between the two.

    With sums (``summed``), vectors of 512 bits where there are such: loops that scale sums to bytes take a quarter less
    than with XLA's 256, other loops no less or even more.

    Without optimization LLVM passes bf16 from register to register by way of f32, in which it takes subnormal numbers
    for zeros; and XLA makes moves of bf16 of moves of integers that are cast to them somewhere. So what is left as it
    is (:data:`TINY`) has integers alone, in regions and between operators, too.

    On GPUs, kernels that give wrong integers are left out (:mod:`archloom.oracle.taidl.operators.integer_dot`), so
    that what :func:`jit` traces is right with these options.
    """
    backend = jax.default_backend()
    if backend != "cpu":
        return dict(WITHOUT_TRITON) if backend == "gpu" else None
    options: dict[str, Any] = {"xla_backend_optimization_level": 2}
    if summed:
        options["xla_cpu_prefer_vector_width"] = 512
    if stream and not has_floats(stream, EXACT if raised and not chained else frozenset()):
        size = sum(math.prod(t.shape) for t in (*stream.arguments, *stream.results))
        if size <= (LARGE if raised and not chained else SMALL):
            options["xla_cpu_use_fusion_emitters"] = False
        if size <= TINY and raised and not has_floats(stream):
            options["xla_backend_optimization_level"] = 0
    return options


def has_floats(stream: ResolvedStream, exact: frozenset[str] = frozenset()) -> bool:
    """Whether anything in the stream is of another type than integers and truth values, but f32 that ``exact`` make.

    The types between an operator's operands and its result count, too: those of its regions, and any that a
    function from outside may use.
    """
    allowed = ("int", "uint", "bool", *(("float32",) if exact else ()))
    tensors = (*stream.arguments, *stream.results)
    return any(not t.dtype.startswith(allowed) for t in tensors) or any(
        _made_of_floats(s, exact) for instr in instructions(stream.body) for s in instr.statements)


def _made_of_floats(s: Statement, exact: frozenset[str]) -> bool:
    if isinstance(s, Op):
        if s.opcode == "custom_call":
            return True
        regions = (v for _, v in s.attributes if isinstance(v, ResolvedRegion))
        if any(_made_of_floats(inner, exact) for region in regions for inner in region.statements):
            return True
    return s.type.dtype[0] not in "iu" and not (
        bool(exact) and s.type.dtype == "f32" and (not isinstance(s, Op) or s.opcode in exact))
