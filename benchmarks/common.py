"""What the benchmarks share: timing by medians, child processes with their peak memory, and one way of printing."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "bench"


def arguments(
    description: str, more: Callable[[argparse.ArgumentParser], None] | None = None, *, seeded: bool = False,
) -> argparse.Namespace:
    """The arguments of a benchmark: ``--json``, what ``more`` adds, and ``--seed`` of one that draws, a fresh one."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="end with one JSON object on the last line of stdout")
    if seeded:
        parser.add_argument("--seed", type=int, default=secrets.randbits(31), help="of what is drawn (default: fresh)")
    if more:
        more(parser)
    return parser.parse_args()


def finish(args: argparse.Namespace, result: Mapping[str, Any]) -> None:
    """Print the figures for people, then, with ``--json``, as one object on the last line; the seed is among them."""
    if hasattr(args, "seed"):
        result = {"seed": args.seed, **result}
    for key, value in result.items():
        if not isinstance(value, (list, dict)):
            print(f"{key:36} {value}")
    if args.json:
        print(json.dumps(result))


def refuse(message: str) -> NoReturn:
    """End the benchmark because of its data: one line on stderr, exit status 2."""
    print(message, file=sys.stderr)
    raise SystemExit(2)


def interleaved(runs: Sequence[Callable[[], object]], rounds: int = 9) -> list[float]:
    """Median wall time of each of ``runs``, called in turns so that a busy machine hits all alike."""
    for run in runs:
        run()
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for run, found in zip(runs, times):
            found.append(_timed(run))
    return [statistics.median(found) for found in times]


def _timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


@dataclass(frozen=True)
class Child:
    """A finished child process: exit status, stdout, wall seconds, its own peak resident memory in GiB, and the
    seconds that processors worked for it."""

    status: int
    stdout: str
    seconds: float
    peak_gib: float
    cpu_seconds: float = 0.0

    @property
    def last_json(self) -> Any:
        """The JSON object on the last line of stdout."""
        return json.loads(self.stdout.strip().splitlines()[-1])


def child(command: Sequence[str], env: Mapping[str, str] | None = None) -> Child:
    """Run ``command`` in the repository's root; stderr goes through. ``env`` is added to the environment."""
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
    assert process.stdout is not None
    stdout = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Child(process.returncode, stdout, time.perf_counter() - start, usage.ru_maxrss / 2**20,
                 usage.ru_utime + usage.ru_stime)


def forked(call: Callable[[], Any], limit: int = 0) -> Child:
    """``call`` in a fork of this process, which has its modules loaded: its result, as JSON, is the child's stdout.

    The fork ends by SIGALRM after ``limit`` seconds (0: never). Neither a thread pool nor JAX's backend may have been
    started before.
    """
    start = time.perf_counter()
    sys.stdout.flush()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of forks as such
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.alarm(limit)
            os.write(writing, json.dumps(call()).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found = pipe.read().decode()
    _, status, usage = os.wait4(pid, 0)
    return Child(os.waitstatus_to_exitcode(status), found, time.perf_counter() - start, usage.ru_maxrss / 2**20,
                 usage.ru_utime + usage.ru_stime)


def archloom(*words: str, env: Mapping[str, str] | None = None) -> Child:
    """Run a command of archloom in a process of its own."""
    return child([sys.executable, "-m", "archloom.tvm_backend.cli", *words], env)


def resnet50_int8() -> Path:
    """A quantized ResNet-50 of random weights at 224×224, made once under ``build/bench``."""
    path = BUILD / "resnet50_int8.onnx"
    if not path.exists():
        import onnx

        from archloom.models import data
        from archloom.tvm_backend.quantization.quantize import quantize
        from examples import resnet_onnx

        net = resnet_onnx.resnet50()
        images = data.random_images(8, net.image, seed=1)
        model = quantize(resnet_onnx.onnx_model(net), ({"image": image[None]} for image in images))
        BUILD.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        onnx.save(model, part)
        part.rename(path)
    return path


def network_int8(name: str) -> Path:
    """A network of the catalogue, quantized on random inputs, made once under ``build/bench``."""
    path = BUILD / f"{name}_int8.onnx"
    if not path.exists():
        import onnx

        from archloom.models import catalogue
        from archloom.tvm_backend.quantization.quantize import quantize
        from archloom.tvm_backend.sources.named_networks import CALIBRATION, float_onnx

        built = catalogue.build(name)
        BUILD.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        onnx.save(quantize(float_onnx(built), built.samples(CALIBRATION)), part)
        part.rename(path)
    return path
