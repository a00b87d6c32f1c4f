"""What is to be estimated, on what: a report depends on that and on the network."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from archloom.mapper.accelerator import OF_ALL
from archloom.oracle.reading import TEXT_BYTES, read_bytes
from archloom.tvm_backend.sources.source import Source
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.targets.choice import Chosen, choose, names_of


@dataclass(frozen=True)
class Request:
    """What is to be estimated on what.

    ``as_int8`` takes a float network as if it were quantized; ``details`` keeps what units, stages, storages, links
    and loops did in the report's layers. ``on_disk``: reports are kept there, too. ``bound``: nothing is mapped; layers
    have the cycles and joules that no mapping is below, and go where they go by the space of mappings; ``known``: and
    no less than the cycles that follow from simulations so far, so that such a report is not kept.
    """

    target: str
    options: Mapping[str, Any]
    as_int8: bool = False
    details: bool = True
    on_disk: bool = True
    bound: bool = False
    known: bool = False

    def text(self) -> str:
        """What a report depends on beside the network."""
        known = [self.target, dict(self.options), self.as_int8, self.details, self.bound, self._files()]
        return json.dumps(known, sort_keys=True, default=str)

    def _files(self) -> list[str]:
        """What is in the files that options name; one that cannot be read is an error where it is used."""
        names = {option.name for option in OF_ALL}
        named = (str(value) for name, value in self.options.items() if name.split(".")[-1] in names)
        # a value may be a text of any length, too
        return [read_bytes(file, TEXT_BYTES).hex() for file in named if os.path.isfile(file)]

    @property
    def is_built_in(self) -> bool:
        """Whether no target is of another package, whose code is not part of any key."""
        return set(names_of(self.target)) <= set(registry.BUILT_IN)

    @property
    def is_kept(self) -> bool:
        """Whether reports may be kept: they depend on nothing but the network and what is asked."""
        return self.is_built_in and not self.known

    def chosen(self) -> "tuple[Chosen, ...]":
        return choose(self.target, self.options)


def in_floats(source: Source, request: Request) -> tuple[Source, Request]:
    """A source in floats where it is to be taken as if quantized; names and operators are quantized for a target that
    wants it anyway, or takes it. InputError for a source that is not at hand in floats."""
    if source.kind in ("name", "operator"):
        backend = request.chosen()[0].backend
        if backend.is_quantized:
            return source, replace(request, as_int8=False)
        if backend.takes_integers:
            return source, request
    return (source.in_floats() if request.as_int8 else source), request
