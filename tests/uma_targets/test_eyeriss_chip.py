"""Published figures of the Eyeriss chip: what the mappings of VGG-16 follow from, and times of both networks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from archloom.acadl_models.eyeriss import eyeriss
from archloom.oracle.errors import MappingError
from archloom.uma_targets.eyeriss.plan import Machine, check, taps
from benchmarks.published.eyeriss_chip import DATA, NO_WAITING, Layer, layers, simulated
from tests.support.examples import slow

NETWORKS = {name: layers(network) for name, network in json.loads(DATA.read_text())["networks"].items()}
MACHINE = Machine.of(eyeriss())


def active(layer: Layer) -> int:
    """PEs that a mapping gives work: rows of its sets, times columns of results and of filter groups."""
    mapping, shape = layer.mapping, layer.shape
    rows, _ = taps(shape, MACHINE)
    return mapping.down * mapping.r * rows * min(mapping.strip, shape.e) * mapping.across


def buffer_mb(layer: Layer, channels: int) -> float:
    """Megabytes to and from the global buffer where ``channels`` are added in a pass: sums go in and out but for the
    first pass, and each strip's rows of ifmaps in once for the filters of a pass."""
    shape, mapping = layer.shape, layer.mapping
    sums = shape.n * shape.m * shape.e * shape.f * (2 * -(-shape.c // channels) - 1)
    halo = (-(-shape.e // mapping.strip) - 1) * (shape.r - 1)
    ifmaps = shape.n * shape.c * (shape.h + halo) * shape.w * -(-shape.m // (mapping.p * mapping.t))
    return 2 * (sums + ifmaps) / 1e6


@pytest.mark.parametrize("layer", [layer for network in NETWORKS.values() for layer in network], ids=lambda la: la.name)
def test_mappings_use_the_published_number_of_pes(layer: Layer) -> None:
    check(layer.mapping, layer.shape, MACHINE)
    assert active(layer) == layer.active_pes


@pytest.mark.parametrize("layer", NETWORKS["VGG-16"], ids=lambda layer: layer.name)
def test_inferred_mappings_are_the_ones_that_published_facts_leave(layer: Layer) -> None:
    """The buffer has no room for a further row of results, and other numbers of channels move far more or less."""
    mapping = layer.mapping
    if mapping.e < MACHINE.cols:
        with pytest.raises(MappingError, match="words of the global buffer"):
            check(replace(mapping, e=mapping.e + 1), layer.shape, MACHINE)
    channels = mapping.q * mapping.r
    assert buffer_mb(layer, channels) == pytest.approx(layer.buffer_mb, rel=0.12)
    for other in (channels / 2, channels * 2):
        if 1 <= other <= layer.shape.c:
            assert buffer_mb(layer, int(other)) != pytest.approx(layer.buffer_mb, rel=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("network, number", [
    ("AlexNet", 2), slow("AlexNet", 4), slow("VGG-16", 10)])
def test_layers_take_the_time_that_was_measured(network: str, number: int) -> None:
    """Within a tenth of the chip's processing latency; the benchmark has all layers."""
    layer = NETWORKS[network][number]
    ms = layer.groups * simulated(layer, eyeriss(**NO_WAITING)).seconds * 1e3
    assert ms == pytest.approx(layer.processing_ms, rel=0.1)


def test_layers_add_up_to_the_published_totals() -> None:
    for name, network in json.loads(DATA.read_text())["networks"].items():
        for key in ("processing_ms", "total_ms"):
            assert sum(getattr(layer, key) for layer in NETWORKS[name]) == pytest.approx(network[key], abs=0.5)
