"""Instructions per second of the step-by-step simulator and of the fast engine, with and without skipping.

Models: Gemmini (GEMMs, convolutions, all layers of ResNet-50, and one product of billions of instructions), the One MAC
Accelerator with its cache, and a systolic array with every PE simulated. ``reference_ips`` is measured on a small
stream of each; ``engine_ips`` steps through every instruction of a lowered stream; ``simulate_ips`` counts binding and
lowering, too; ``skipping_ips`` counts simulated instructions, stepped or proven to repeat, with binding and lowering.
Results must be equal: skipping against stepping on every stream, and both against the step-by-step simulator on the
small ones. Times are processor time on one core, the median of some runs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish, resnet50_int8

GEMMS = ((512, 512, 512), (1024, 1024, 1024))
CONVS = ((56, 64, 64, 3, 1), (28, 128, 128, 3, 1), (14, 256, 256, 3, 1))
"""Height and width, input channels, output channels, kernel, stride."""

SMALL = (96, 64, 64)
HUGE = (16384, 65536, 16384)
"""A product whose stream has some billions of instructions: as the 4.19 billion of a kernel of which AIDG evaluates 154
iterations (the ACADL paper, section 8)."""

DIM = 16
OMA_GEMM, OMA_SMALL = (48, 48, 48), (8, 8, 8)
ARRAY, ARRAY_SMALL = (16, (1024, 32, 16)), (4, (8, 8, 8))
"""Rows and columns of the array, and M, N, K."""


class Gemmini:
    """Gemmini's graph, and streams for it as the mapper emits them."""

    def __init__(self) -> None:
        from archloom.acadl_models.gemmini import gemmini
        from archloom.mapper.workload import Epilogue
        from archloom.oracle.taidl import load
        from archloom.uma_targets.gemmini.emit import GemminiEmitter

        self.graph = gemmini(dim=DIM)
        parameters = self.graph.parameters
        self.isa = load("gemmini", **parameters)
        self.emitter = GemminiEmitter(tuple(sorted(parameters.items())))
        self.epilogue = Epilogue(bias=True, scale=0.01, relu=True, out_dtype="int8")

    def gemm(self, m: int, n: int, k: int) -> Any:
        from archloom.mapper.mapping import Mapping
        from archloom.mapper.workload import gemm
        from archloom.oracle.resolve import resolve

        mapping = Mapping(
            "gemm", "ws", (("m", 128), ("n", 64), ("k", 128)), ("m", "n"), (("A", "stream"), ("B", "stream")),
            (("A", 2), ("B", 2), ("C", 2)),
        )  # fmt: skip
        return resolve(self.emitter.emit(gemm(m, n, k, epilogue=self.epilogue), mapping), self.isa)

    def conv(self, size: int, c: int, o: int, kernel: int, stride: int) -> Any:
        from archloom.mapper.mapping import Mapping
        from archloom.mapper.workload import conv2d
        from archloom.oracle.resolve import resolve

        pad = kernel // 2
        work = conv2d(
            1, size, size, c, o, kernel, kernel, stride=(stride, stride), padding=(pad,) * 4, epilogue=self.epilogue
        )
        mapping = Mapping(
            "conv2d", "ws", (("oh", 7), ("ow", 14), ("o", 64), ("c", 32)), ("oh", "ow", "o"),
            (("X", "stream"), ("W", "stream")), (("X", 2), ("W", 2), ("C", 2)),
        )  # fmt: skip
        return resolve(self.emitter.emit(work, mapping), self.isa)


def oma(shape: tuple[int, int, int]) -> tuple[Any, Any]:
    """The One MAC Accelerator with its cache, and a tiled product for it."""
    from archloom.mapper.search import search
    from archloom.mapper.workload import Epilogue, gemm
    from archloom.oracle.resolve import resolve
    from archloom.uma_targets.oma import Oma

    accelerator, options = Oma.kit.accelerator, {"cache": True}
    work = gemm(*shape, epilogue=Epilogue(bias=True, scale=0.01, relu=False, out_dtype="int8"))
    stream = search(work, accelerator, options, top_k=1).stream
    return accelerator.graph(options), resolve(stream, accelerator.isa(options))


def array(size: int, shape: tuple[int, int, int]) -> tuple[Any, Any]:
    """A weight-stationary array with every PE simulated, and a product for it."""
    from archloom.acadl_models.systolic_array import Design
    from archloom.oracle.resolve import resolve
    from benchmarks.published.systolic import Problem, machine

    model = machine(Design(size, size, "ws", "scalar", "scalesim"))
    return model.graph, resolve(model.stream(Problem(*shape)), model.isa)


def seconds(run: Callable[[], object], repeat: int = 5) -> float:
    """Median processor time of ``repeat`` runs, after one that does not count."""
    run()
    times = []
    for _ in range(repeat):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def measure(graph: Any, stream: Any, repeat: int = 5) -> dict[str, Any]:
    """One stream, stepped and skipped, with its share of stepped instructions."""
    from archloom.acadl_models.timing import simulate
    from archloom.acadl_models.timing.engine.lowering.program import lower
    from archloom.acadl_models.timing.engine.run import run
    from archloom.acadl_models.timing.machine import bind

    stepped, skipped = simulate(graph, stream, skip=False), simulate(graph, stream, skip=True)
    if stepped != skipped:
        raise SystemExit(f"{stream.name}: skipping changes the result: {stepped.cycles} != {skipped.cycles} cycles")
    lowered = lower(bind(graph, stream))
    loop = seconds(lambda: run(lowered, skip=False), repeat)
    whole = seconds(lambda: simulate(graph, stream, skip=False), repeat)
    short = seconds(lambda: simulate(graph, stream, skip=True), repeat)
    return {
        "instructions": stepped.instructions, "cycles": stepped.cycles,
        "stepped_instructions": skipped.stepped_instructions,
        "engine_ips": round(stepped.instructions / loop), "simulate_ips": round(stepped.instructions / whole),
        "skipping_ips": round(stepped.instructions / short), "skipping_ms": round(short * 1e3, 3),
    }  # fmt: skip


def reference_ips(graph: Any, stream: Any) -> float:
    """Of the step-by-step simulator, whose result the engine must equal."""
    from archloom.acadl_models.timing import simulate
    from archloom.acadl_models.timing.reference import simulate_reference

    expected = simulate_reference(graph, stream)
    if expected != simulate(graph, stream) or expected != simulate(graph, stream, skip=False):
        raise SystemExit(f"{stream.name}: the engine differs from the step-by-step simulator")
    return expected.instructions / seconds(lambda: simulate_reference(graph, stream), 1)


def resnet50(model: str | None) -> dict[str, Any]:
    """All layers of a quantized ResNet-50 on Gemmini: mapped by the search, then timed one after the other."""
    import archloom
    from archloom.acadl_models.timing import simulate
    from archloom.oracle.resolve import resolve
    from archloom.tvm_backend.compile import compile_model
    from archloom.tvm_backend.targets import registry

    compiled = compile_model(archloom.load(model or str(resnet50_int8())), "gemmini", {"dim": DIM})
    accelerator = registry.get("gemmini").accelerator
    configuration = accelerator.configure({"dim": DIM})
    streams = [resolve(plan.stream, configuration.isa) for plan in compiled.plans.values()]
    found = [simulate(configuration.graph, stream) for stream in streams]
    spent = seconds(lambda: [simulate(configuration.graph, stream) for stream in streams])
    stepped_seconds = seconds(lambda: [simulate(configuration.graph, stream, skip=False) for stream in streams], 2)
    instructions = sum(r.instructions for r in found)
    return {
        "layers": len(found), "cycles": sum(r.cycles for r in found), "instructions": instructions,
        "stepped_instructions": sum(r.stepped_instructions for r in found),
        "iterations": sum(loop.iterations for r in found for loop in r.loops),
        "stepped_iterations": (stepped := sum(loop.stepped_iterations for r in found for loop in r.loops)),
        "stepped_share": stepped / sum(loop.iterations for r in found for loop in r.loops),
        "skipping_s": round(spent, 4), "stepping_s": round(stepped_seconds, 4),
    }  # fmt: skip


def huge(machine: Gemmini) -> dict[str, Any]:
    """One product of billions of instructions: how little of it is stepped."""
    from archloom.acadl_models.timing import simulate

    stream = machine.gemm(*HUGE)
    found = simulate(machine.graph, stream)
    return {
        "shape": list(HUGE), "instructions": found.instructions, "cycles": found.cycles,
        "stepped_instructions": found.stepped_instructions,
        "iterations": sum(loop.iterations for loop in found.loops),
        "stepped_iterations": sum(loop.stepped_iterations for loop in found.loops),
        "seconds": round(seconds(lambda: simulate(machine.graph, stream), 2), 4),
    }  # fmt: skip


def rate(rows: list[dict[str, Any]], kind: str) -> int:
    """Instructions of all streams over the seconds of all."""
    return round(sum(r["instructions"] for r in rows) / sum(r["instructions"] / r[kind] for r in rows))


def others() -> Iterator[tuple[str, dict[str, Any]]]:
    """The models beside Gemmini, by name."""
    for name, small, large in (
        ("oma", oma(OMA_SMALL), oma(OMA_GEMM)), ("systolic_array", array(*ARRAY_SMALL), array(*ARRAY)),
    ):  # fmt: skip
        yield name, {"reference_ips": round(reference_ips(*small)), **measure(*large, repeat=2)}


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", help="an ONNX file (default: a quantized ResNet-50 of random weights)")


def main() -> int:
    args = arguments(__doc__ or "", _more)
    from archloom.acadl_models.timing.engine import warmup

    started = time.perf_counter()
    warmup()
    warm = time.perf_counter() - started
    machine = Gemmini()
    rows = {f"gemm {'x'.join(map(str, shape))}": measure(machine.graph, machine.gemm(*shape)) for shape in GEMMS}
    rows |= {f"conv {c[0]}x{c[0]}x{c[1]} to {c[2]}": measure(machine.graph, machine.conv(*c)) for c in CONVS}
    found = {
        "reference_ips": round(reference_ips(machine.graph, machine.gemm(*SMALL))),
        **{kind: rate(list(rows.values()), kind) for kind in ("engine_ips", "simulate_ips", "skipping_ips")},
        "warmup_s": round(warm, 3), "equal": True, "streams": rows, **dict(others()),
        "resnet50": resnet50(args.model), "huge": huge(machine),
    }  # fmt: skip
    for name, row in (*rows.items(), *((n, found[n]) for n in ("oma", "systolic_array", "resnet50", "huge"))):
        print(f"{name:28} {row}", file=sys.stderr)
    finish(args, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
