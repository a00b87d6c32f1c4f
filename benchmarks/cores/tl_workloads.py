"""What a network has beside large products, planned for Wormhole: the share of the bound, and how the model ranks.

Layers of ResNet-50 (batches of 8 images) and MobileNet, products of BERT-base (sequences of 384), batched and with
bias, activation and residual, softmax, layer norm, element-wise operators and reductions, on a mesh of 8 x 8.

* ``share``: the roofline's bound over the simulated cycles, both without the launch. The bound is the longest of: every
  operand and the result moved once at the memory's full rate; every multiplication that the operator needs (not those
  of padding, of other places than the result's, and of zeros in the filters of groups) by all matrix units; all passes
  of the vector unit, by all of them.
* ``correlation``: Spearman's, of the cost model with the simulation, over candidates drawn from the whole range of
  estimates up to eight times the best. Of sweeps only the mean ``error`` of the estimates says something: memory limits
  most of their plans, which are then as fast as one another.
* ``seconds``: processor time of the search, with its simulations.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish
from benchmarks.cores.tl_common import geometric_mean, ranked, sampled

BATCH, SEQUENCE, HEADS, WIDTH = 8, 384, 12, 768
RESNET = (
    (224, 3, 64, 7, 2), (56, 64, 64, 1, 1), (56, 64, 64, 3, 1), (56, 64, 256, 1, 1), (56, 256, 512, 1, 2),
    (28, 128, 128, 3, 1), (28, 512, 256, 1, 1), (14, 256, 256, 3, 1), (14, 512, 512, 3, 2), (7, 512, 512, 3, 1),
    (7, 512, 2048, 1, 1),
)
"""Pixels of a side, channels, outputs, side of the filter, stride."""


def workloads() -> Iterator[tuple[str, Any]]:
    """All of them, by name."""
    from archloom.mapper.spatial.epilogue import Epilogue
    from archloom.mapper.spatial.products.batched import Product
    from archloom.mapper.spatial.products.convolution import Convolution
    from archloom.mapper.spatial.sweeps.elementwise import Elementwise, Operation
    from archloom.mapper.spatial.sweeps.reduction import Columns, Rows

    relu = Epilogue(bias=True, activation="relu")
    for side, channels, outputs, kernel, stride in RESNET:
        pad = (kernel // 2,) * 4
        yield f"conv {kernel}x{kernel}/{stride} {side}x{side}x{channels}-{outputs}", Convolution(
            BATCH, side, side, channels, outputs, (kernel, kernel), (stride, stride), pad, epilogue=relu)
    yield "conv 1x1 + residual 14x14x256-1024", Convolution(
        BATCH, 14, 14, 256, 1024, (1, 1), epilogue=Epilogue(True, True, "relu"))
    yield "depthwise 3x3 56x56x128", Convolution(
        BATCH, 56, 56, 128, 128, (3, 3), padding=(1, 1, 1, 1), groups=128, epilogue=relu)
    head = WIDTH // HEADS
    yield "Q.K^T, 12 heads", Product(HEADS, SEQUENCE, SEQUENCE, head, transposed_b=True)
    yield "P.V, 96 heads", Product(BATCH * HEADS, SEQUENCE, head, SEQUENCE)
    yield "projection + bias + residual", Product(
        BATCH, SEQUENCE, WIDTH, WIDTH, shared=True, epilogue=Epilogue(True, True))
    yield "feed forward + bias + gelu", Product(
        BATCH, SEQUENCE, 4 * WIDTH, WIDTH, shared=True, epilogue=Epilogue(bias=True, activation="gelu"))
    rows = BATCH * SEQUENCE
    yield "softmax", Rows(BATCH * HEADS * SEQUENCE, SEQUENCE, "softmax")
    yield "layer norm", Rows(rows, WIDTH, "layer_norm")
    yield "rows' largest", Rows(rows, WIDTH, "max")
    yield "columns' mean", Columns(rows, WIDTH, "mean")
    yield "gelu", Elementwise(rows, 4 * WIDTH, (Operation("gelu"),))
    yield "add, relu", Elementwise(rows, WIDTH, (Operation("add", "tensor"), Operation("relu")))


def bound(work: Any, machine: Any) -> float:
    """The roofline's, in cycles and without the launch."""
    moved = sum(2 * int(np.prod(shape)) for _, shape in work.tensors()) / machine.dram_bytes
    if hasattr(work, "macs"):
        products = work.macs / 32 ** 3 * machine.product(1, 1, 1)
        passes = work.problems * work.gemm.m * work.gemm.n * work.epilogue.passes
        return float(max(moved, products / machine.cores, passes * machine.vector_cycles / machine.cores))
    tiles = work.tiles
    passes = float(work.work(np.array([tiles[0]]), np.array([tiles[1]]))[2][0])
    if work.fixed[0]:  # a row of tiles at a time
        passes *= tiles[0]
    return float(max(moved, passes * machine.vector_cycles / machine.cores))


def main() -> None:
    args = arguments(__doc__ or "", _options, seeded=True)
    rows = [_row(name, work, args) for name, work in list(workloads())[::args.every]]
    ranked = [r["correlation"] for r in rows if not r["sweep"]]
    finish(args, {
        "share": geometric_mean(r["share"] for r in rows), "least_share": min(r["share"] for r in rows),
        "least_correlation": min(ranked), "mean_correlation": float(np.mean(ranked)),
        "mean_error": float(np.mean([r["error"] for r in rows])), "worst_error": max(r["error"] for r in rows),
        "seconds": sum(r["seconds"] for r in rows), "most_seconds": max(r["seconds"] for r in rows), "rows": rows,
    })


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--every", type=int, default=1, help="only every so manyth workload")
    sampled(parser)


def _row(name: str, work: Any, args: argparse.Namespace) -> dict[str, Any]:
    from archloom.acadl_models.wormhole import wormhole
    from archloom.mapper.spatial.machines.machine import Machine
    from archloom.mapper.spatial.sweeps.sweep import Sweep
    from archloom.mapper.spatial.workloads import search_workload

    graph = wormhole()
    machine = Machine.of(graph)
    started = time.process_time()
    found = search_workload(work, graph)
    seconds = time.process_time() - started
    best, (correlation, error) = found.best, ranked(work, graph, args.seed, args.samples)
    row = {
        "name": name, "plan": str(best.plan), "cycles": best.cycles, "estimated": best.estimated_cycles,
        "considered": found.considered, "seconds": seconds, "bound": bound(work, machine),
        "share": bound(work, machine) / (best.cycles - machine.launch_cycles),
        "sweep": isinstance(work, Sweep), "correlation": correlation, "error": error,
    }
    print(f"{name:36}{row['cycles']:9} cycles, share {row['share']:.2f}, correlation {row['correlation']:.3f}, "
          f"error {row['error']:.3f}, {seconds:.2f} s  {row['plan']}", flush=True)
    return row


if __name__ == "__main__":
    main()
