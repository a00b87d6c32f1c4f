"""Instructions per second of the step-by-step simulator and of the fast engine, with and without skipping.

Streams: tiled GEMMs and convolutions on Gemmini. ``reference_ips`` is measured on a small GEMM; ``engine_ips`` steps
through every instruction; ``skipping_ips`` counts simulated instructions, stepped or proven to repeat, and includes
binding the stream to the graph and lowering it. Results must be equal: skipping against stepping on every stream, and
both against the step-by-step simulator on the small one. Times are medians of processor time on one core.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from common import ROOT, arguments, finish

sys.path.insert(0, str(ROOT))  # works in a checkout that is not installed, too

GEMMS = ((512, 512, 512), (1024, 1024, 1024))
CONVS = ((56, 64, 64, 3, 1), (28, 128, 128, 3, 1), (14, 256, 256, 3, 1))
"""Height and width, input channels, output channels, kernel, stride."""

SMALL = (96, 64, 64)
DIM = 16


def streams() -> tuple[Any, dict[str, Any]]:
    """Gemmini's graph and the resolved streams by name."""
    from acadl_models.gemmini import gemmini, isa_parameters
    from mapper.mapping import Mapping
    from mapper.workload import Epilogue, conv2d, gemm
    from oracle.resolve import resolve
    from oracle.taidl import load
    from uma_targets.gemmini.emit import GemminiEmitter

    graph = gemmini(dim=DIM)
    parameters = isa_parameters(graph)
    isa, emitter = load("gemmini", **parameters), GemminiEmitter(tuple(sorted(parameters.items())))
    epilogue = Epilogue(bias=True, scale=0.01, relu=True, out_dtype="int8")
    found = {}
    for m, n, k in (SMALL, *GEMMS):
        mapping = Mapping(
            "gemm", "ws", (("m", 128), ("n", 64), ("k", 128)), ("m", "n"), (("A", "stream"), ("B", "stream")),
            (("A", 2), ("B", 2), ("C", 2)),
        )  # fmt: skip
        stream = emitter.emit(gemm(m, n, k, epilogue=epilogue), mapping)
        found[f"gemm {m}x{n}x{k}"] = resolve(stream, isa)
    for size, c, o, kernel, stride in CONVS:
        pad = kernel // 2
        work = conv2d(
            1, size, size, c, o, kernel, kernel, stride=(stride, stride), padding=(pad,) * 4, epilogue=epilogue
        )
        mapping = Mapping(
            "conv2d", "ws", (("oh", 7), ("ow", 14), ("o", 64), ("c", 32)), ("oh", "ow", "o"),
            (("X", "stream"), ("W", "stream")), (("X", 2), ("W", 2), ("C", 2)),
        )  # fmt: skip
        found[f"conv {size}x{size}x{c} to {o}"] = resolve(emitter.emit(work, mapping), isa)
    return graph, found


def seconds(run: Callable[[], object], repeat: int) -> float:
    """Median processor time of ``repeat`` runs, after one that does not count."""
    run()
    times = []
    for _ in range(repeat):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def measure(graph: Any, stream: Any) -> dict[str, Any]:
    """One stream, stepped and skipped, with its share of stepped instructions."""
    from acadl_models.timing.engine import simulate

    stepped, skipped = simulate(graph, stream, skip=False), simulate(graph, stream, skip=True)
    if stepped != skipped:
        raise SystemExit(f"{stream.name}: skipping changes the result: {stepped.cycles} != {skipped.cycles} cycles")
    whole = seconds(lambda: simulate(graph, stream, skip=False), 5)
    short = seconds(lambda: simulate(graph, stream, skip=True), 5)
    return {
        "instructions": stepped.instructions,
        "cycles": stepped.cycles,
        "stepped_instructions": skipped.stepped_instructions,
        "engine_ips": round(stepped.instructions / whole),
        "skipping_ips": round(stepped.instructions / short),
        "skipping_ms": round(short * 1e3, 3),
    }


def main() -> int:
    args = arguments(__doc__ or "")
    from acadl_models.timing.engine import simulate, warmup
    from acadl_models.timing.reference import simulate_reference

    started = time.perf_counter()
    warmup()
    warm = time.perf_counter() - started
    graph, found = streams()
    small = next(iter(found.values()))
    reference = simulate_reference(graph, small)
    if reference != simulate(graph, small) or reference != simulate(graph, small, skip=False):
        raise SystemExit("the engine differs from the step-by-step simulator")
    reference_seconds = seconds(lambda: simulate_reference(graph, small), 1)
    rows = {name: measure(graph, stream) for name, stream in found.items()}
    gemms = [r for name, r in rows.items() if r["instructions"] > 20_000]
    finish(args, {
        "reference_ips": round(reference.instructions / reference_seconds),
        "engine_ips": round(statistics.median(r["engine_ips"] for r in gemms)),
        "skipping_ips": round(statistics.median(r["skipping_ips"] for r in gemms)),
        "warmup_s": round(warm, 3),
        "equal": True,
        "streams": rows,
    })  # fmt: skip
    for name, row in rows.items():
        print(f"{name:28} {row}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
