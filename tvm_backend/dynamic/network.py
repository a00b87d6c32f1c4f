"""A network with open dimensions on accelerators: planned and compiled for the extents that it is called with."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np

from archloom.oracle.errors import InputError
from archloom.tvm_backend.compile import compile_among
from archloom.tvm_backend.compiled import TensorSpec
from archloom.tvm_backend.dynamic.model import DynamicModel
from archloom.tvm_backend.executable import Capture, CompiledNetwork, checked_inputs, inputs_by_name
from archloom.tvm_backend.executors import Executor
from archloom.tvm_backend.targets.choice import Chosen, choose

KEPT = 8
"""Extents whose compiled network is kept, unless told otherwise."""


class DynamicNetwork:
    """Called like a :class:`~archloom.tvm_backend.executable.CompiledNetwork`, with inputs of any extents.

    A call reads the extents off the shapes of its inputs, compiles the network for them unless that is at hand, and
    runs it: results and cycles are those of the static network. The ``keep`` networks that were last used are kept.
    Threads may share one; one network is compiled at a time, while those that are compiled run.
    """

    def __init__(self, model: DynamicModel, chosen: Sequence[Chosen], keep: int = KEPT) -> None:
        if not isinstance(keep, int) or isinstance(keep, bool) or keep < 1:
            raise InputError(f"keep: expected a positive number of compiled networks, found {keep!r}")
        self.model = model
        self.chosen = chosen
        self.keep = keep
        self._kept: OrderedDict[tuple[int, ...], CompiledNetwork] = OrderedDict()
        self._lock = threading.Lock()
        self._building = threading.Lock()

    @property
    def kept(self) -> tuple[dict[str, int], ...]:
        """The extents whose network is at hand, the last used one last."""
        with self._lock:
            return tuple(dict(zip(self.model.shapes.names, sizes, strict=True)) for sizes in self._kept)

    def at(self, mapping: Mapping[str, Any] | None = None, /, **extents: int) -> CompiledNetwork:
        """The network for an extent of each symbol, with its report; compiled unless it is at hand.

        InputError for extents that the network does not take.
        """
        return self._network(self.model.extents(mapping, extents))

    def __call__(self, *args: Any, **named: Any) -> np.ndarray | tuple[np.ndarray, ...]:
        """Run on NumPy arrays or torch tensors, by position, by name, or as one mapping; gives NumPy arrays. One result
        is an array, several a tuple in the network's order.

        InputError, before anything is compiled, for names, dtypes and shapes that are not the network's, and where two
        inputs do not agree on a symbol.
        """
        results = tuple(self.run(inputs_by_name([i.name for i in self.model.inputs], args, named)).values())
        return results[0] if len(results) == 1 else results

    def run(
        self, inputs: Mapping[str, Any], *, executor: Literal["xla", "interpreter"] | Executor = "xla",
        capture: Capture | None = None,
    ) -> dict[str, np.ndarray]:
        """Run on inputs by name; results by name. See
        :meth:`~archloom.tvm_backend.executable.CompiledNetwork.run`."""
        shapes = self.model.shapes
        extents = shapes.read({name: np.shape(value) for name, value in inputs.items()})
        sizes = shapes.at(extents)
        specs = [TensorSpec(i.name, sizes[i.name], i.dtype) for i in self.model.inputs]
        checked_inputs(specs, inputs)
        return self._network(extents).run(inputs, executor=executor, capture=capture)

    def save(self, path: str | Path, *, programs: bool = True) -> NoReturn:
        """InputError: an artifact is of one network of static shapes."""
        example = ", ".join(f"{name!r}: ..." for name in self.model.shapes.names)
        raise InputError(f"{path}: an artifact holds a network of static shapes, and {self.model.name} has open "
                         f"dimensions; save one of them: network.at({{{example}}}).save({str(path)!r})")

    def _network(self, extents: Mapping[str, int]) -> CompiledNetwork:
        sizes = tuple(extents.values())
        if (network := self._known(sizes)) is not None:
            return network
        with self._building:
            if (network := self._known(sizes)) is None:  # another thread may have compiled it meanwhile
                network = CompiledNetwork(compile_among(self.model.source_at(extents).load(), self.chosen))
                with self._lock:
                    self._kept[sizes] = network
                    while len(self._kept) > self.keep:
                        self._kept.popitem(last=False)
        return network

    def _known(self, sizes: tuple[int, ...]) -> CompiledNetwork | None:
        with self._lock:
            if sizes in self._kept:
                self._kept.move_to_end(sizes)
            return self._kept.get(sizes)


def build_dynamic(
    model: DynamicModel, target: str, options: Mapping[str, object], keep: int | None = None
) -> DynamicNetwork:
    """A network that is compiled at its calls; options are checked now. ``keep``: :data:`KEPT` where it is None."""
    return DynamicNetwork(model, choose(target, options), KEPT if keep is None else keep)
