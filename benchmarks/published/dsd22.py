"""Networks whose latency on UltraTrail is published, and their simulation.

They come out of the search of Gerum et al., "Hardware Accelerator and Neural Network Co-Optimization for
Ultra-Low-Power Audio Processing Devices", DSD 2022: keyword spotting, wake word and voice activity detection, for high
accuracy (``ha``) and low power (``lp``). Layers, array sizes and latencies are those recorded in the public repository
ekut-es/hannah (``hannah/conf/model/dsd22_*.yaml``; cycles are latency times 250 kHz, see ``conf/nas/eval_dsd22.yaml``).
The input is 101 frames of 40 coefficients. A latency counts from the first operation of the array, with input and
weights in place, to the last result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.timing import TimingResult, simulate
from archloom.acadl_models.ultratrail import ultratrail
from archloom.oracle import taidl
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import ResolvedStream
from archloom.oracle.stream import Stream
from benchmarks.published.temporal_networks import Block, Network, inference, network

CLOCK_HZ = 250_000
CHANNELS, FRAMES = 40, 101

Simulator = Callable[[ArchitectureGraph, ResolvedStream], TimingResult]


@dataclass(frozen=True)
class Published:
    """A network, the size of the array that it was found with, and its latency in seconds (None: not published)."""

    network: Network
    dim: int
    seconds: float | None

    @property
    def cycles(self) -> int | None:
        """The published latency in cycles."""
        return None if self.seconds is None else round(self.seconds * CLOCK_HZ)


def _net(name: str, classes: int, dim: int, seconds: float, *blocks: Block) -> Published:
    return Published(network(name, CHANNELS, FRAMES, blocks, classes), dim, seconds)


def _forward(stride: int, *convolutions: tuple[int, int, bool]) -> Block:
    return Block(convolutions, stride)


def _residual(stride: int, *convolutions: tuple[int, int, bool]) -> Block:
    return Block(convolutions, stride, residual=True)


NETWORKS = (
    _net("kws_ha", 12, 8, 0.03344, _forward(4, (24, 3, True), (40, 3, True), (56, 3, True)),
         _forward(2, (24, 7, True), (24, 1, True), (16, 11, True)), _forward(2, (60, 9, False))),
    _net("kws_lp", 12, 8, 0.016928, _forward(4, (24, 3, True), (32, 3, True)),
         _residual(2, (24, 3, True), (24, 11, False)), _forward(4, (64, 7, False))),
    _net("wwd_ha", 2, 4, 0.010712, _forward(16, (4, 7, False), (32, 11, False), (16, 7, True)),
         _residual(16, (32, 11, False), (52, 5, True), (36, 3, True))),
    _net("wwd_lp", 2, 4, 0.000408, _forward(16, (4, 1, True)), _forward(4, (8, 3, True), (8, 11, True))),
    _net("vad_ha", 2, 4, 0.004984, _forward(8, (4, 3, True)), _residual(1, (16, 9, True)), _forward(1, (8, 5, False))),
    _net("vad_lp", 2, 4, 0.000412, _forward(16, (4, 1, False)), _forward(4, (8, 7, True)), _residual(1, (4, 5, False))),
)

TC_RESNET8 = network("tc_resnet8", CHANNELS, FRAMES, (
    _forward(1, (16, 3, True)), *(_residual(2, (n, 9, True), (n, 9, False)) for n in (24, 32, 48)),
), 12)
"""TC-ResNet8 (Choi et al., Interspeech 2019), for which the accelerator was made; no latency in cycles is public."""


def graph(entry: Published) -> ArchitectureGraph:
    """The accelerator of the size that the network was found with, large enough for its features."""
    return ultratrail(dim=entry.dim, features=2048, clock_hz=CLOCK_HZ)


def simulate_cycles(entry: Published, simulator: Simulator = simulate) -> int:
    """Cycles of an inference by simulation, from the first operation of the array to the last result."""
    machine = graph(entry)
    isa = taidl.load("ultratrail", **machine.parameters)
    stream = inference(entry.network, machine.parameters, resident=True)
    # the first instruction sets the first layer up; what it and its fetch take is not counted
    setup = Stream(stream.isa, stream.parameters, (), (), 0, stream.body[:1], "setup")
    whole, before = (simulator(machine, resolve(s, isa)).cycles for s in (stream, setup))
    return whole - before
