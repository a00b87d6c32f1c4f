"""All networks of the catalogue on Gemmini (int8) and on a floating-point target: what is offloaded, and is it right?

Each network and target runs in a process of its own: its peak memory is its own, a fault ends nothing else. These are
forks of one that has the packages imported: the seconds of a row are those of the work alone.
``--mode estimate`` partitions, maps and times only; ``--size tiny`` takes small forms, in which the interpreter runs
every layer, too. A network is ok if it is imported and runs, every interpreted layer equals the interpreter bit for
bit, and its outputs are those of the reference: for int8 the integer network in onnxruntime, by its integer kernels or,
where those round otherwise, each operator as it is written (within one step of an output that is quantized, else by
cosine); for float targets torch, within a thousandth, or of float16 a hundredth. How many agree with the second
reference only is counted (``by_second_reference``), and the least cosine is told (``least_cosine``).
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.models import catalogue
from archloom.oracle.errors import ArchloomError
from archloom.tvm_backend.check.network import LEAST_COSINE, MOST_STEPS
from archloom.tvm_backend.targets.registry import BUILT_IN
from benchmarks import common

if TYPE_CHECKING:
    from archloom.tvm_backend.compiled import Partition
    from archloom.tvm_backend.executable import CompiledNetwork
    from archloom.tvm_backend.model import Model

TARGETS = "gemmini,qkv"
OPTIONS = {"mesh": {"x": 2, "y": 2}, "triple_ring": {"rows": 2, "columns": 2}}
"""Of targets whose default has very many cores."""
SECOND = "onnxruntime, as written"
INTERPRETED_MACS = 2_000_000
"""Layers of more multiply-accumulates are not run by the interpreter, which needs minutes for a whole network."""
NETWORK_FLOAT_TOLERANCE = {"float32": 1e-3, "float16": 1e-2}
"""Part of the largest magnitude by which whole networks of any depth may differ from PyTorch or onnxruntime, which fuse
and order sums in ways of their own."""
MODULES = (
    "torch", "torch.export", "torch.onnx._internal.exporter._core", "onnxscript", "onnxruntime.quantization",
    "jax.numpy", "tvm.relax", "transformers", "archloom.tvm_backend.quantization.quantize",
    "archloom.tvm_backend.executable", "archloom.tvm_backend.host.network", "archloom.tvm_backend.host.operators",
    "archloom.tvm_backend.compile", "archloom.oracle.interpreter", "archloom.oracle.xla",
    "archloom.acadl_models.timing.engine",
)
"""What rows would import first."""
Reference = Callable[[dict[str, np.ndarray]], list[np.ndarray]]
References = dict[str, Reference]
"""By name; it is enough to agree with one."""


def main() -> None:
    args = common.arguments(__doc__ or "", _more, seeded=True)
    wanted = args.only.split(",") if args.only else list(catalogue.BY_NAME)
    _load_modules()
    rows = []
    for name in wanted:
        text = catalogue.tiny(name) if args.size == "tiny" else name
        for target in BUILT_IN if args.targets == "all" else args.targets.split(","):
            rows.append(in_process(text, target, args))
            print(line(rows[-1]), flush=True)
    good = [row for row in rows if row["ok"]]
    common.finish(args, {
        "networks_ok": len(good), "networks_run": len(rows), "mode": args.mode, "size": args.size, "networks": rows,
        "ok_share": len(good) / len(rows),
        "by_second_reference": sum(row.get("reference") == SECOND for row in good),
        # of all that ran, right or not
        "largest_error": max((row["error"] for row in rows if "error" in row), default=0.0),
        "least_cosine": min((row["cosine"] for row in rows if "cosine" in row), default=0.0),
        "least_offloaded_macs_share": min(
            (row["offloaded_macs_share"] for row in rows if row["imported"]), default=0.0),
        "cpu_seconds": round(sum(row["cpu_seconds"] for row in rows), 1),
        "most_cpu_seconds": max(row["cpu_seconds"] for row in rows),
        "peak_gib": max(row["peak_gib"] for row in rows)})


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mode", choices=("all", "estimate"), default="all", help="estimate: nothing is run")
    parser.add_argument("--size", choices=("full", "tiny"), default="full", help="tiny: small forms of all networks")
    parser.add_argument("--only", metavar="NAME,...", help="these networks (default: the whole catalogue)")
    parser.add_argument("--targets", default=TARGETS, metavar="NAME,...", help=f"targets, or all (default: {TARGETS})")
    parser.add_argument("--options", metavar="NAME=N,...", help="of the targets (default: meshes of four cores)")
    parser.add_argument("--limit", type=int, default=1200, metavar="S", help="seconds for a row (default: 1200)")


def _load_modules() -> None:
    """Import once what every row needs: rows are forks, so their times leave importing packages out."""
    for name in MODULES:
        import_module(name)


def in_process(text: str, target: str, args: argparse.Namespace) -> dict[str, Any]:
    """The row of one network on one target, measured in a child process."""
    given = OPTIONS.get(target, {}) if args.options is None else _read(args.options)
    run = common.forked(lambda: measure(text, target, args.mode, given, args.seed), args.limit)
    row = {"name": text, "target": target, "ok": False, "imported": False, "offloaded_macs_share": 0.0}
    if run.status == -signal.SIGALRM:
        row["reason"] = f"it was not done after {args.limit} s"
    elif run.status != 0:
        row["reason"] = f"the process ended with status {run.status}"
    else:
        row |= run.last_json
    return {**row, "peak_gib": round(run.peak_gib, 2), "cpu_seconds": round(run.cpu_seconds, 2)}


def line(row: dict[str, Any]) -> str:
    """One row of the table."""
    seconds = row.get("seconds", {})
    times = " ".join(f"{what} {spent:.1f}s" for what, spent in seconds.items())
    left = "; ".join(f"{part['macs_share']:.1%} {part['op']}: {part['reason']}" for part in row.get("left", [])[:2])
    return (f"{'ok  ' if row['ok'] else 'FAIL'} {row['name'].split('(')[0]:16} {row['target']:9} "
            f"share {row['offloaded_macs_share']:7.2%} layers {row.get('layers', 0):4} host {row.get('host_ops', 0):4} "
            f"cycles {row.get('cycles', 0):>12,} error {row.get('error', 0):8.1e} {times} cpu "
            f"{row['cpu_seconds']:.1f}s {row['peak_gib']:.1f} GiB "
            f"{row.get('reason') or left}")


def _read(options: str) -> dict[str, int]:
    return {name: int(value) for name, value in (option.split("=", 1) for option in options.split(",") if option)}


def measure(text: str, target: str, mode: str, options: dict[str, int], seed: int) -> dict[str, Any]:
    """Import, partition, map, time and, unless only the estimate is asked for, run and compare."""
    from archloom.tvm_backend.compile import compile_model

    clock = _Clock()
    row: dict[str, Any] = {"name": text, "target": target, "ok": False, "imported": False, "seconds": clock.seconds}
    try:
        with clock("prepare"):
            source, references, inputs = prepared(text, target, seed)
        with clock("import"):
            model = source()
        row["imported"] = True
        with clock("estimate" if mode == "estimate" else "compile"):
            compiled = compile_model(model, target, options)
        row |= described(compiled)
        row["cycles"] = sum(plan.timing.cycles for plan in (compiled.plans[s.name] for s in compiled.steps()))
        if mode == "all":
            row |= compared(compiled, model, references, inputs, clock)
        row["ok"] = not row.get("reason")
    except ArchloomError as error:
        row["reason"] = f"{type(error).__name__}: {error}"
    return row


class _Clock:
    """Wall seconds of named phases."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[phase] = round(time.perf_counter() - start, 3)


def prepared(text: str, target: str, seed: int) -> "tuple[Callable[[], Model], References, dict[str, np.ndarray]]":
    """What imports the network in the target's numbers, what computes it otherwise, and inputs."""
    from archloom.tvm_backend.quantization.quantize import quantize
    from archloom.tvm_backend.sources.named_networks import CALIBRATION, float_onnx
    from archloom.tvm_backend.targets import registry

    built = catalogue.build(text)
    (inputs,) = built.samples(1, seed=seed)
    if registry.get(target).numbers != "int8":
        from archloom.tvm_backend.frontends.torch.export import load_module

        return (lambda: load_module(built.module, tuple(built.inputs.values()), text, list(built.inputs)),
                {"torch": _torch(built)}, inputs)
    from archloom import load
    from archloom.tvm_backend.check.reference import integer_session, run

    proto = quantize(float_onnx(built), built.samples(CALIBRATION))

    def reference(fused: bool) -> Reference:
        return lambda x: list(run(integer_session(proto, 1, fused=fused), x).values())

    return (lambda: load(proto, name=text), {
        "onnxruntime's integer kernels": reference(True), SECOND: reference(False)}, inputs)


def _torch(built: catalogue.Built) -> Reference:
    import torch

    def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        with torch.no_grad():
            results = built.module(*(torch.from_numpy(x) for x in inputs.values()))
        return [y.numpy() for y in (results if isinstance(results, tuple) else (results,))]

    return run


def described(partition: "Partition") -> dict[str, Any]:
    """Operators offloaded and left; those left that multiply, with their share of all products and the reason."""
    host = partition.host.ops
    left: Counter[tuple[str, str]] = Counter()
    for op in host:
        if op.macs:
            left[op.op, op.reason] += op.macs
    return {
        "layers": len(list(partition.steps())), "host_ops": len(host), "regions": len(partition.regions),
        "macs": partition.macs, "offloaded_macs_share": round(partition.offloaded_macs_share, 5),
        "left": [{"op": op, "reason": reason, "macs_share": round(n / partition.macs, 5)}
                 for (op, reason), n in left.most_common()],
    }


def compared(
    compiled: Any, model: "Model", references: References, inputs: dict[str, np.ndarray], clock: _Clock
) -> dict[str, Any]:
    """Outputs against the references, layers against the interpreter, and the time of a warm run."""
    from archloom.tvm_backend.executable import CompiledNetwork

    exe = CompiledNetwork(compiled)
    layers: list[Any] = []
    with clock("build"):
        exe.prepare()
        outputs = exe.run(inputs, capture=lambda *step: layers.append(step))
    with clock("run"):
        exe.run(inputs)
    found = list(outputs.values())
    judged = {}
    for name, reference in references.items():
        expected = reference(inputs)
        judged[name] = (*_difference(model, found, expected, compiled.target), all(
            bool((a.argmax(-1) == b.argmax(-1)).all()) for a, b in zip(found, expected)))
        if judged[name][2] is None:
            break
    name = next((name for name, (_, _, reason, _) in judged.items() if reason is None), next(iter(judged)))
    error, cosine, reason, same_top1 = judged[name]
    checked, wrong = interpreted(exe, layers)
    if wrong:
        reason = f"layers {', '.join(wrong[:3])} differ from the interpreter"
    return {"bit_exact_layers": checked - len(wrong), "interpreted_layers": checked, "reference": name, "error": error,
            "cosine": cosine, "reason": reason, "same_top1": same_top1}


def interpreted(exe: "CompiledNetwork", layers: list[Any]) -> tuple[int, list[str]]:
    """How many layers were run by the interpreter, and the names of those that differ."""
    from archloom.tvm_backend.executors import InterpreterExecutor

    interpreter, checked, wrong = InterpreterExecutor(exe.compiled), 0, []
    for step, arguments, result in layers:
        if step.workload.macs <= INTERPRETED_MACS:
            checked += 1
            if not np.array_equal(interpreter.run(step, arguments), result):
                wrong.append(step.name)
    return checked, wrong


def _difference(
    model: "Model", found: list[np.ndarray], expected: list[np.ndarray], target: str
) -> tuple[float, float, str | None]:
    """The largest difference in parts of the largest magnitude, the least cosine, and what is too far off."""
    from archloom.tvm_backend.check.tensors import quantization_steps
    from archloom.tvm_backend.targets import registry

    bound = NETWORK_FLOAT_TOLERANCE.get(registry.get(target).numbers)
    exact = bound is not None
    steps = quantization_steps(model.onnx) if model.onnx is not None else {}
    worst, least, reason = 0.0, 1.0, None
    for spec, a, b in zip(model.outputs, found, expected, strict=True):
        a, b = a.astype(np.float64), b.astype(np.float64)
        gap, largest = float(np.abs(a - b).max(initial=0)), float(np.abs(b).max(initial=0)) or 1.0
        worst = max(worst, gap / largest)
        cosine = float(np.vdot(a, b) / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-30))
        least = min(least, cosine)
        step = steps.get(spec.name)
        if bound is not None and not gap <= bound * largest:
            reason = f"output {spec.name} is off by {gap / largest:.2e} of its largest value"
        elif step is not None and not gap <= MOST_STEPS * step:
            reason = f"output {spec.name} is off by {gap / step:.1f} steps"
        elif not exact and step is None and not cosine >= LEAST_COSINE:
            reason = f"output {spec.name} has cosine {cosine:.5f}"
    return worst, least, reason


if __name__ == "__main__":
    main()
