"""A program of the host: a JAX function, as the network was compiled with it, or as StableHLO."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Signature: TypeAlias = tuple[tuple[tuple[int, ...], str], ...]
"""Shape and type of each argument."""


@dataclass(frozen=True, eq=False)
class HostProgram:
    """A JAX function for pieces of the host, of constants first, then of inputs, to a tuple of results.

    ``function`` is it where the network was compiled, ``exported`` its StableHLO as :mod:`jax.export` writes it, where
    it was loaded. ``key`` names its content.
    """

    key: str
    arguments: Signature
    function: Callable[..., tuple[Any, ...]] | None = None
    exported: bytes | None = None

    def jitted(self) -> Any:
        """The function under ``jax.jit``; it is to be lowered and called with 64-bit types on."""
        import jax

        if self.function is not None:
            return jax.jit(self.function, keep_unused=True)
        assert self.exported is not None
        return jax.jit(jax.export.deserialize(bytearray(self.exported)).call, keep_unused=True)

    def shapes(self) -> list[Any]:
        import jax

        return [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in self.arguments]

    def export(self) -> bytes:
        """The function as StableHLO, for every processor."""
        import jax

        if self.exported is not None:
            return self.exported
        with jax.enable_x64(True):
            return bytes(jax.export.export(self.jitted())(*self.shapes()).serialize())
