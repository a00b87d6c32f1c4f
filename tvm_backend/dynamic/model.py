"""Networks with open dimensions as they were read: static ones of them, at given extents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from archloom.oracle.errors import InputError
from archloom.tvm_backend.dynamic.extents import OpenInput, OpenShapes, Symbol
from archloom.tvm_backend.model import Model

Extents = Mapping[str, int]


class Loadable(Protocol):
    """A static network that is not imported yet."""

    def load(self) -> Model: ...


@dataclass(frozen=True, eq=False)
class DynamicModel:
    """A network whose inputs have open dimensions; :meth:`at` makes a static one of it.

    ``shapes`` says which extents are taken; ``static`` gives the network with the shapes of the inputs at extents.
    """

    name: str
    shapes: OpenShapes
    static: Callable[[Extents], Loadable]

    @property
    def inputs(self) -> tuple[OpenInput, ...]:
        """Name, dtype and shape of each input; open dimensions are names, or sums of multiples of them."""
        return self.shapes.inputs

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The names of the open dimensions, and the extents that the network states for them."""
        return self.shapes.symbols

    def at(self, mapping: Mapping[str, Any] | None = None, /, **extents: int) -> Model:
        """The static network at an extent for each symbol, as keywords or as a mapping (``{"x.0": 4}``).

        InputError for extents that the network does not take, ModelError where it cannot be imported at them.
        """
        return self.source_at(self.extents(mapping, extents)).load()

    def extents(self, mapping: Mapping[str, Any] | None, extents: Mapping[str, Any]) -> dict[str, int]:
        """Extents as both spellings give them, checked, in the order of the symbols."""
        if mapping is not None and not isinstance(mapping, Mapping):
            raise InputError(f"{self.shapes.label}: expected extents by name, such as "
                             f"{{{(self.shapes.names or ['n'])[0]!r}: 4}}, found {mapping!r}")
        if twice := sorted(set(mapping or {}) & set(extents)):
            raise InputError(f"{self.shapes.label}: symbol {twice[0]!r} is given twice")
        return self.shapes.checked({**(mapping or {}), **extents})

    def source_at(self, extents: Extents) -> Any:
        """The static network at checked extents, not imported yet."""
        self.shapes.at(extents)
        return self.static(extents)

    def __repr__(self) -> str:
        return (f"<DynamicModel {self.name}: inputs {'; '.join(map(str, self.inputs))}; "
                f"symbols {', '.join(map(str, self.symbols)) or 'none'}>")
