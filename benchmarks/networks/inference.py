"""ResNet-50 and BERT-base in int8 on Gemmini 16: an inference beside onnxruntime's, compile times, and reload.

Every phase runs in a process of its own: ``cold`` compiles from the ONNX file to the first result with empty caches,
``warm`` does it again, ``reload`` opens the artifact that ``cold`` saved, and ``run`` takes turns with onnxruntime on
the same input, on two cores and on one. The fastest of onnxruntime's ways counts: QDQ as it is (which computes
convolutions of int8 in floats on x86), with ``session.qdqisint8allowed``, and the network of the same values with
activations of uint8, which its kernels for x86 are made for. ``over_as_given`` is over the faster of the first two, the
network as it is. Beside each wall time stands the processor time of all threads, which a busy machine lengthens less;
building includes whatever is only done at the first inference.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks import common

if TYPE_CHECKING:
    import onnx

TARGET, OPTIONS = "gemmini", {"dim": 16}
NETWORKS = ("resnet50", "bert_base")
ROUNDS = 15


def main() -> None:
    args = common.arguments(__doc__ or "", _more, seeded=True)
    if args.phase:
        print(json.dumps(PHASES[args.phase](args.network, Path(args.folder), args.cores, args.seed)))
        return
    wanted = args.only.split(",") if args.only else list(NETWORKS)
    rows = {name: measured(name, [int(n) for n in args.run_cores.split(",")], args.seed) for name in wanted}
    common.finish(args, {
        "networks": rows, **{f"worst_{key}": max(row[key] for row in rows.values()) for key in next(iter(rows.values()))
                             if key.endswith(("_s", "over_onnxruntime", "over_as_given", "_gib"))}})


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", metavar="NAME,...", help=f"of {', '.join(NETWORKS)} (default: both)")
    parser.add_argument("--run-cores", default="2,1", metavar="N,...", help="cores for the inferences (default: 2,1)")
    parser.add_argument("--phase", choices=list(PHASES), help=argparse.SUPPRESS)
    parser.add_argument("--network", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=int, default=0, help=argparse.SUPPRESS)


def measured(name: str, cores: list[int], seed: int) -> dict[str, Any]:
    """All figures of one network."""
    network(name)
    row: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="archloom-inference-") as folder:
        for phase in ("cold", "warm", "reload"):
            found = _in_process(phase, name, folder, 0, seed)
            row |= {f"{phase}_s": found["seconds"], f"{phase}_cpu_s": found["cpu_seconds"],
                    f"{phase}_parts": found["parts"], f"{phase}_gib": found["peak_gib"]}
            _say(name, f"{phase}: {found['seconds']:.1f} s ({found['cpu_seconds']:.1f} s of processors) "
                       f"{found['parts']}")
        for count in cores:
            found = _in_process("run", name, folder, count, seed)
            row |= {f"{key}_{count}_cores": value for key, value in found.items() if key != "peak_gib"}
            _say(name, f"{count} cores: {found}")
    for key in ("over_onnxruntime", "over_as_given"):
        row[key] = max(row[f"{key}_{count}_cores"] for count in cores)
    return row


def _say(name: str, text: str) -> None:
    print(f"{name:10} {text}", flush=True)


def _in_process(phase: str, name: str, folder: str, cores: int, seed: int) -> dict[str, Any]:
    run = common.child(
        [sys.executable, __file__, "--phase", phase, "--network", name, "--folder", folder, "--cores", str(cores),
         "--seed", str(seed)],
        {"ARCHLOOM_CACHE_DIR": f"{folder}/cache"})
    if run.status:
        raise SystemExit(f"{name}: phase {phase} ended with status {run.status}")
    found: dict[str, Any] = run.last_json
    return {**found, "peak_gib": round(run.peak_gib, 2)}


def network(name: str) -> Path:
    """The quantized network as a file."""
    return common.resnet50_int8() if name == "resnet50" else common.network_int8(name)


def sample(model: "onnx.ModelProto", seed: int) -> dict[str, np.ndarray]:
    """An input of a network: images, or tokens with a mask of ones."""
    random = np.random.default_rng(seed)
    made: dict[str, np.ndarray] = {}
    for info in model.graph.input:
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        if info.type.tensor_type.elem_type == 1:
            made[info.name] = random.standard_normal(shape, np.float32)
        else:
            tokens = np.ones(shape) if "mask" in info.name else random.integers(0, 1000, shape)
            made[info.name] = tokens.astype(np.int64)
    return made


class Clock:
    """Wall and processor seconds of named parts."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), _processors()
        self.parts: dict[str, tuple[float, float]] = {}

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), _processors()
        yield
        self.parts[part] = round(time.perf_counter() - wall, 2), round(_processors() - cpu, 2)

    def row(self) -> dict[str, Any]:
        return {"seconds": round(time.perf_counter() - self.wall, 3), "cpu_seconds": round(_processors() - self.cpu, 3),
                "parts": self.parts}


def _processors() -> float:
    """Processor seconds of this process and of its finished children."""
    return sum(os.times()[:4])


def compiled(name: str, folder: Path, cores: int, seed: int) -> dict[str, Any]:
    """From the file to the first result; saves the artifact if there is none yet."""
    clock = Clock()
    path = network(name)
    with clock("import"):
        import archloom

        model = archloom.load(path)
    with clock("compile"):
        exe = archloom.compile(model, target=TARGET, options=OPTIONS)
    with clock("prepare"):
        exe.prepare()
    inputs = _inputs(name, folder, seed)
    with clock("first inference"):
        exe.run(inputs)
    found = clock.row()
    if not (folder / "net.loom").exists():
        exe.save(folder / "net.loom")
    return found


def _inputs(name: str, folder: Path, seed: int) -> dict[str, np.ndarray]:
    file = folder / "inputs.npz"
    if not file.exists():
        import onnx

        np.savez(file, **sample(onnx.load(network(name)), seed))  # type: ignore[arg-type]
    with np.load(file) as arrays:
        return dict(arrays)


def reloaded(name: str, folder: Path, cores: int, seed: int) -> dict[str, Any]:
    """From the artifact to the first result."""
    clock = Clock()
    with clock("open"):
        import archloom

        exe = archloom.load_compiled(folder / "net.loom")
    with clock("prepare"):
        exe.prepare()
    inputs = _inputs(name, folder, seed)
    with clock("first inference"):
        exe.run(inputs)
    return clock.row()


def inferred(name: str, folder: Path, cores: int, seed: int) -> dict[str, Any]:
    """Inferences in turns with onnxruntime's on as many cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])  # before any pool of threads is made
    import onnx

    import archloom

    rivals = sessions(onnx.load(network(name)), cores)
    inputs = _inputs(name, folder, seed)
    exe = archloom.load_compiled(folder / "net.loom")
    ours = exe.run(inputs)
    exact = rivals["int8 kernels"]
    theirs = dict(zip((o.name for o in exact.get_outputs()), exact.run(None, inputs), strict=True))
    runs: list[Callable[[], object]] = [lambda: exe.run(inputs)]
    times = _turns([*runs, *(lambda s=s: s.run(None, inputs) for s in rivals.values())])
    fastest, as_given = min(times[1:]), min(times[1:-1])
    return {
        "archloom_ms": times[0][0], "archloom_cpu_ms": times[0][1],
        "onnxruntime_ms": fastest[0], "onnxruntime_cpu_ms": fastest[1],
        "onnxruntime_ways_ms": dict(zip(rivals, (wall for wall, _ in times[1:]), strict=True)),
        "over_onnxruntime": round(times[0][0] / fastest[0], 3),
        "over_onnxruntime_cpu": round(times[0][1] / fastest[1], 3),
        "over_as_given": round(times[0][0] / as_given[0], 3),
        "largest_difference": max(_difference(ours[key], theirs[key]) for key in ours),
    }


def sessions(model: "onnx.ModelProto", threads: int) -> dict[str, Any]:
    """onnxruntime's ways to run the network, by name; the last one is for the network with activations of uint8."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    from archloom.tvm_backend.check.reference import integer_session

    def plain(proto: "onnx.ModelProto") -> Any:
        return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])

    return {"int8 kernels": integer_session(model, threads), "QDQ": plain(model), "uint8": plain(unsigned(model))}


def unsigned(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """The same network with activations of uint8: every zero point of an activation moved by 128."""
    import onnx
    from onnx import numpy_helper

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    constants = {t.name: t for t in copy.graph.initializer}
    moved: dict[str, Any] = {}
    for node in copy.graph.node:
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear") or node.input[0] in constants:
            continue
        zero = constants[node.input[2]]
        if zero.data_type == onnx.TensorProto.INT8:
            name = f"{zero.name}_uint8"
            numbers = numpy_helper.to_array(zero).astype(np.int32) + 128
            moved[name] = numpy_helper.from_array(numbers.astype(np.uint8), name)
            node.input[2] = name
    copy.graph.initializer.extend(moved.values())
    del copy.graph.value_info[:]
    return copy


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    """Relative to the largest value."""
    return float(np.abs(a - b).max() / np.abs(b).max())


def _turns(runs: list[Callable[[], object]]) -> list[tuple[float, float]]:
    """Median wall and processor milliseconds of each of ``runs``, called in turns."""
    found: list[list[tuple[float, float]]] = [[] for _ in runs]
    for number in range(ROUNDS + 1):
        for run, times in zip(runs, found, strict=True):
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            if number:
                times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return [(_milliseconds(w for w, _ in times), _milliseconds(c for _, c in times)) for times in found]


def _milliseconds(seconds: Iterable[float]) -> float:
    return round(1e3 * statistics.median(seconds), 2)


PHASES: dict[str, Callable[[str, Path, int, int], dict[str, Any]]] = {
    "cold": compiled, "warm": compiled, "reload": reloaded, "run": inferred,
}


if __name__ == "__main__":
    main()
