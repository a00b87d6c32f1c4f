"""Every shipped target with random small options, and the simulators on random legal streams of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import numpy as np

from archloom.acadl_models.acadl import ArchitectureGraph, DataStorage, RegisterFile
from archloom.acadl_models.timing import TimingResult
from archloom.acadl_models.timing.program import word_axes
from archloom.acadl_models.timing.reference import simulate_reference
from archloom.acadl_models.timing.routing import Need, routing
from archloom.mapper.accelerator import Configuration
from archloom.mapper.options import Option, OptionValue
from archloom.oracle.errors import TargetError
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import Buffer
from archloom.oracle.stream import Stream
from archloom.oracle.taidl.isa import Isa
from archloom.tvm_backend.targets import registry
from tests.support.acadl_models.simulators import check_skipping
from tests.support.oracle.any_isa import Programs, Runs
from tests.support.oracle.any_stream import HBM_BYTES, legal_body
from tests.support.oracle.legality import Touched

TRIES = 100

MOST_CYCLES = 3000
"""Longer runs are not tried step by step."""


def small_target(name: str, r: Random) -> Configuration:
    """The target with options of which few are larger than a few, none larger than its default."""
    accelerator = registry.get(name).accelerator
    for _ in range(TRIES):
        drawn = {o.name: _value(o, r) for o in accelerator.options}
        try:
            return accelerator.configure(drawn)
        except TargetError:
            continue
    raise AssertionError(f"{name}: none of {TRIES} random options fit together")


def _value(option: Option, r: Random) -> OptionValue:
    if option.choices:
        return r.choice(option.choices)
    if option.type is bool:
        return r.random() < 0.5
    if option.type is not int or option.default is None or r.random() < 0.1:
        return option.default
    assert isinstance(option.default, int) and option.low is not None
    return max(int(option.low), min(option.default, r.choice((0, 1, 2, 3, 4, 8, 16, 64))))


def runner(graph: ArchitectureGraph, isa: Isa) -> Runs:
    """Whether some unit of the graph processes an instruction and reaches all that it touches."""
    tables = routing(graph)

    def needs(buffer: str, writes: bool, indices: tuple[np.ndarray, ...]) -> Iterator[Need]:
        banks = graph.buffers[buffer]
        shape = isa.buffer(buffer, HBM_BYTES).shape
        axes = word_axes(Buffer(buffer, shape, isa.buffer(buffer, HBM_BYTES).dtype), _width(graph, banks[0].storage))
        words = np.zeros(1, np.int64)
        for index, extent in zip(indices[:axes], shape):
            words = np.add.outer(words * extent, index).reshape(-1)
        for bank in banks:
            if bank.stop is None or ((words >= bank.start) & (words < bank.stop)).any():
                yield bank.storage, not writes

    def runs(mnemonic: str, touched: Sequence[Touched]) -> bool:
        return bool(tables.reaching(mnemonic, {need for window in touched for need in needs(*window)}))

    return runs


def _width(graph: ArchitectureGraph, storage: str) -> int:
    place = graph[storage]
    assert isinstance(place, DataStorage | RegisterFile)
    return place.data_width


def check_simulators(name: str, r: Random) -> bool:
    """The property for a random legal stream on a random small graph of the target; whether it runs there."""
    made = small_target(name, r)
    body = legal_body(Programs(r, made.isa, HBM_BYTES, runner(made.graph, made.isa)), most=5)
    stream = resolve(Stream(made.isa.name, made.isa.parameters, (), (), HBM_BYTES, body), made.isa)
    found = check_skipping(made.graph, stream)
    if isinstance(found, TimingResult) and found.cycles <= MOST_CYCLES:
        assert simulate_reference(made.graph, stream) == found
    return isinstance(found, TimingResult)
