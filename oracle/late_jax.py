"""JAX by the names that everyone gives its modules, each imported when it is first asked for something.

So what needs no JAX (the interpreter, resolution, timing) starts without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["jax", "jnp", "lax"]


class _Late:
    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._module), name)


if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    from jax import lax
else:
    jax, jnp, lax = _Late("jax"), _Late("jax.numpy"), _Late("jax.lax")
