"""Machine code for the processor at hand, and its names in XLA."""

from __future__ import annotations

import ctypes
import math
import platform
import threading
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from archloom.oracle.late_jax import jax
from archloom.oracle.native import chain_code, packing_code, processor, product_code, program_code
from archloom.oracle.native.program import PREFIX, named, names_in
from archloom.oracle.native.ways import WAYS

CHAINS, PACKING, PRODUCTS = "archloom_chain_", "archloom_pack_", "archloom_product_"
"""What names begin with, beside those of programs; of the last two, the feature of the processor follows. A handler
whose arguments change gets another name: stored programs that call the former one are compiled anew."""

DAZ_FTZ = 0x8040
"""The bits of MXCSR by which subnormal operands and results count as zeros."""

_ROUNDINGS: Mapping[str, tuple[bool, tuple[int, int]]] = {
    "each": (False, (0, DAZ_FTZ)), "fused_flush": (True, (0, DAZ_FTZ)), "fused_keep": (True, (DAZ_FTZ, 0))}
"""Whether products and sums are rounded at once, and the bits of MXCSR that are cleared and set."""


def chains(rounding: str, zero: float = -0.0) -> str:
    """The name of the handler of chains whose parts begin with 0 or -0."""
    return f"{CHAINS}{rounding}" + ("" if math.copysign(1, zero) < 0 else "_zero")


HANDLERS: Mapping[str, Callable[[str], str]] = {
    **{chains(rounding, zero): partial(chain_code.module, fused=fused, control=control, zero=zero)
       for rounding, (fused, control) in _ROUNDINGS.items() for zero in (-0.0, 0.0)},
    **{f"{PACKING}{feature}": partial(packing_code.packing, way) for feature, way in WAYS.items()},
    **{f"{PRODUCTS}{feature}": partial(product_code.products, way) for feature, way in WAYS.items()},
}
"""What makes the LLVM code of each handler, by its name in XLA, which the code has as a symbol. Programs have handlers
beside these, of what their names say."""

_lock = threading.Lock()
_engines: dict[str, Any] = {}
"""The code of the handlers that are registered; it lives as long as the process."""


@cache
def features() -> frozenset[str]:
    """The features of the x86 processor that is JAX's default device, as LLVM calls them; none for another device."""
    import llvmlite.binding as llvm

    here = platform.machine() in ("x86_64", "AMD64") and jax.default_backend() == "cpu"
    return frozenset(name for name, has in llvm.get_host_cpu_features().items() if has and here)


@cache
def tiles() -> bool:
    """Whether XLA's products may use tiles (AMX): Linux lends their registers to a process that asks for them."""
    request, of_tiles = 0x1023, 18  # arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
    return "amx-int8" in features() and ctypes.CDLL(None).syscall(158, request, of_tiles) == 0


def _needed(name: str) -> str:
    """The feature without which a handler does not run."""
    return "fma" if name.startswith((CHAINS, PREFIX)) else name.rpartition("_")[2]


def _code(name: str) -> str:
    """The LLVM code of a handler."""
    if not name.startswith(PREFIX):
        return HANDLERS[name](name)
    program, places = named(name)
    way = "fused_flush" if program.flushes else "fused_keep"
    return program_code.module(name, program=program, places=places, control=_ROUNDINGS[way][1])


def register(name: str) -> None:
    """Make a handler callable by its name in XLA's programs, once in a process."""
    with _lock:
        if name not in _engines:
            engine = processor.loaded(processor.machine_code(_code(name)))
            handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(engine.get_function_address(name))
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform="cpu")
            _engines[name] = engine


def register_for(program: bytes) -> None:
    """Register what a stored program names; nothing where there is no such code, and XLA then refuses the program."""
    for name in (*(name for name in HANDLERS if name.encode() in program), *names_in(program)):
        if _needed(name) in features():
            register(name)
