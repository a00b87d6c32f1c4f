"""A network of the catalogue: its sizes, and what makes it from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from archloom.oracle.errors import InputError, suggest

if TYPE_CHECKING:
    import torch

Sizes = Mapping[str, int]
LARGEST = 1 << 20


@dataclass(frozen=True, eq=False)
class Network:
    """A network of the catalogue.

    ``module`` makes it from its sizes; ``inputs`` gives the shapes of its inputs, whose integers are drawn below
    ``below``; ``sizes`` are the defaults, ``tiny`` the sizes of a small one that has every kind of layer.
    """

    name: str
    summary: str
    sizes: Sizes
    tiny: Sizes
    module: Callable[[Sizes], "torch.nn.Module"]
    inputs: Callable[[Sizes], Mapping[str, tuple[int, ...]]]
    below: Mapping[str, str | int] = ()  # type: ignore[assignment]

    def with_sizes(self, sizes: Sizes) -> dict[str, int]:
        """The defaults with ``sizes`` in their places; InputError for a name or size that the network has not."""
        for key, value in sizes.items():
            if key not in self.sizes:
                raise InputError(f"{self.name} has no size {key!r}{suggest(key, list(self.sizes))}")
            if not 1 <= value <= LARGEST:
                raise InputError(f"{self.name}: {key} must be from 1 to {LARGEST}, found {value}")
        return {**self.sizes, **sizes}
