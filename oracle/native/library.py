"""Machine code for the processor at hand, and its names in XLA."""

from __future__ import annotations

import ctypes
import platform
import threading
from functools import cache
from typing import Any

from archloom.oracle.late_jax import jax
from archloom.oracle.native import code, processor

PREFIX = "archloom_chain_"

DAZ_FTZ = 0x8040
"""The bits of MXCSR by which subnormal operands and results count as zeros."""

HANDLERS: dict[str, dict[str, Any]] = {
    f"{PREFIX}each": {"fused": False, "control": (0, DAZ_FTZ)},
    f"{PREFIX}fused_flush": {"fused": True, "control": (0, DAZ_FTZ)},
    f"{PREFIX}fused_keep": {"fused": True, "control": (DAZ_FTZ, 0)},
}
"""What each handler does, by its name in XLA."""

_lock = threading.Lock()
_engines: dict[str, Any] = {}
"""The code of the handlers that are registered; it lives as long as the process."""


@cache
def possible() -> bool:
    """Whether there is such code for JAX's default device: an x86 processor with fused products and sums."""
    import llvmlite.binding as llvm

    return (platform.machine() in ("x86_64", "AMD64") and jax.default_backend() == "cpu"
            and bool(llvm.get_host_cpu_features().get("fma")))


def register(name: str) -> None:
    """Make a handler callable by its name in XLA's programs, once in a process."""
    with _lock:
        if name not in _engines:
            engine = processor.loaded(processor.machine_code(code.module(symbol=name, **HANDLERS[name])))
            handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(engine.get_function_address(name))
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform="cpu")
            _engines[name] = engine


def register_for(program: bytes) -> None:
    """Register what a stored program names; nothing where there is no such code, and XLA then refuses the program."""
    for name in HANDLERS:
        if name.encode() in program and possible():
            register(name)
