"""Arithmetic in which each step is rounded to one floating-point type: what larger operators are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Steps:
    """Operations on the numbers of a type; ``lib`` is the module of NumPy's or of JAX's (see :func:`.base.in_both`)."""

    lib: Any
    dtype: str

    def value(self, x: Any) -> Any:
        """Elements as numbers."""
        return self.lib.value(x, self.dtype)

    def element(self, x: Any) -> Any:
        """Numbers as elements."""
        return self.lib.element(x, self.dtype)

    def rounded(self, x: Any) -> Any:
        """Numbers that the type has."""
        return self.value(self.element(x))

    def _step(self, f: Callable[..., Any], *x: Any) -> Any:
        return self.rounded(f(*x))

    def add(self, x: Any, y: Any) -> Any:
        return self._step(self.lib.add, x, y)

    def subtract(self, x: Any, y: Any) -> Any:
        return self._step(self.lib.subtract, x, y)

    def multiply(self, x: Any, y: Any) -> Any:
        return self._step(self.lib.multiply, x, y)

    def divide(self, x: Any, y: Any) -> Any:
        return self._step(self.lib.divide, x, y)

    def sqrt(self, x: Any) -> Any:
        return self._step(self.lib.sqrt, x)
