"""The parts of a network that XLA does not run, compiled and run by TVM: Relax modules in, callables on tensors out.

It imports TVM when it is imported, by way of :mod:`~archloom.tvm_backend.ir.compat`.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.ir import compat
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.compat import IRModule, relax, tvm, tvm_ffi

MOST_NAMED = 5
"""Operators that a message names."""

_registry_lock = threading.Lock()


@relax.expr_functor.mutator
class _Clipping(relax.PyExprMutator):  # type: ignore[misc]
    """``take`` that reads the nearest element for an index beyond the last one, as by XLA. By default TVM reads any
    memory then, and prints for each call that it would."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        if compat.op_name(call) != "take" or call.attrs.mode != "fast":
            return call
        axis = call.attrs.axis
        return relax.op.take(*call.args, axis=None if axis is None else int(axis), mode="clip")


def build(module: IRModule) -> Any:
    """Compile the host module with TVM's LLVM: an executable for :func:`compile_vm`; ModelError where TVM cannot."""
    target, clipping = tvm.target.Target("llvm"), _Clipping(module)
    for name, function in module.functions.items():
        if isinstance(function, relax.Function):
            clipping.builder_.update_func(name, clipping.visit_expr(function))
    with target, warnings.catch_warnings(action="ignore"):
        try:
            return relax.build(clipping.builder_.get(), target=target)
        except tvm.error.InternalError as error:
            raise ModelError(f"{_operators(module)}: expected operators that XLA or TVM computes on hosts, found one "
                             f"that neither does: {str(error).splitlines()[-1]}") from error


def _operators(module: IRModule) -> str:
    """The operators of ``main``, each with the variable of its result, its name and its type."""
    found = [f"{b.var.name} ({name}, {ir.dtype_of(b.var) if ir.is_tensor(b.var) else 'a tuple'})"
             for b in ir.bindings(module["main"])
             if (name := ir.op_name(b.value)) is not None and ir.of(b.value).external_call(b.value) is None]
    return ", ".join(found[:MOST_NAMED]) + (f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else "")


def compile_vm(executable: Any, functions: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """``main`` of an executable as a callable on TVM tensors, with the given packed functions bound to it.

    A virtual machine looks its packed functions up once, when it is made: they are registered under a lock for just
    that long, so that networks never see each other's.
    """
    with _registry_lock:
        for name, function in functions.items():
            tvm_ffi.register_global_func(name, function, override=True)
        main = relax.VirtualMachine(executable, tvm.cpu())["main"]
        for name in functions:
            tvm_ffi.registry.remove_global_func(name)
    return main


def to_tvm(array: Any) -> tvm.runtime.Tensor:
    """A NumPy or JAX array as a TVM tensor: shared memory when it is aligned to 64 bytes, else a copy."""
    if isinstance(array, np.ndarray):
        shared = array.dtype.kind in "biuf" and array.size > 0  # others, bfloat16 and its like, NumPy does not exchange
        if shared and array.ctypes.data % 64 == 0 and array.flags.c_contiguous and array.flags.writeable:
            return tvm.runtime.from_dlpack(array)
        return tvm.runtime.tensor(np.ascontiguousarray(array) if array.ndim else array)
    return tvm.runtime.from_dlpack(array)
