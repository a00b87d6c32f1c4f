"""Activations in memory: which tensor lives from which layer to which, and how many bytes there are while each runs.

Plain data. A tensor between layers lives from the layer that makes it to the last one that reads it, inputs of the
network from the first layer, its results to the last. Weights are no part of it, nor is what lies within one layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any


@dataclass(frozen=True)
class LiveRange:
    """A tensor, called as the layer that makes it or as an input of the network, and the numbers of the layers from
    ``first`` to ``last`` while which it is there."""

    name: str
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Memory:
    """``layers`` by name, in the order in which they run, and the ``tensors`` between them."""

    layers: tuple[str, ...] = ()
    tensors: tuple[LiveRange, ...] = ()

    @cached_property
    def live_bytes(self) -> tuple[int, ...]:
        """For each layer the bytes of all tensors that are there while it runs."""
        change = [0] * (len(self.layers) + 1)
        for tensor in self.tensors:
            change[tensor.first] += tensor.bytes
            change[tensor.last + 1] -= tensor.bytes
        return tuple(accumulate(change[:-1]))

    @property
    def peak_bytes(self) -> int:
        return max(self.live_bytes, default=0)

    @property
    def peak(self) -> int | None:
        """The number of the first layer with the most bytes; None without layers."""
        return self.live_bytes.index(self.peak_bytes) if self.layers else None

    def at(self, layer: int) -> tuple[LiveRange, ...]:
        """The tensors that are there while a layer runs, the largest first."""
        live = [tensor for tensor in self.tensors if tensor.first <= layer <= tensor.last]
        return tuple(sorted(live, key=lambda tensor: -tensor.bytes))

    def without(self, layer: int) -> "Memory":
        """As if what a layer makes were what it reads, which nothing else does, and the layer were not there."""
        result = next(t for t in self.tensors if (t.name, t.first) == (self.layers[layer], layer))
        last = {t: result.last if t.last == layer else t.last for t in self.tensors if t is not result}
        moved = (LiveRange(t.name, t.bytes, t.first - (t.first > layer), end - (end >= layer))
                 for t, end in last.items())
        return Memory((*self.layers[:layer], *self.layers[layer + 1:]),
                      tuple(t for t in moved if t.last >= t.first))

    def to_json(self) -> dict[str, Any]:
        """``peak_bytes`` and ``peak_layer``, ``layers`` with ``name`` and ``live_bytes``, and ``tensors`` with the
        fields of :class:`LiveRange`."""
        layers = [{"name": name, "live_bytes": live} for name, live in zip(self.layers, self.live_bytes, strict=True)]
        return {"peak_bytes": self.peak_bytes, "peak_layer": None if self.peak is None else self.layers[self.peak],
                "layers": layers, "tensors": [vars(tensor) for tensor in self.tensors]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Memory":
        """KeyError or TypeError for an object that is none of :meth:`to_json`."""
        layers = tuple(str(layer["name"]) for layer in data["layers"])
        tensors = tuple(LiveRange(**tensor) for tensor in data["tensors"])
        for tensor in tensors:
            if not (tensor.bytes >= 0 and 0 <= tensor.first <= tensor.last < len(layers)):
                raise TypeError(f"{tensor}: expected bytes from 0, and layers among {len(layers)}, first to last")
        return Memory(layers, tensors)
