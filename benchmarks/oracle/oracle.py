"""The XLA oracle of whole kernels beside the same mathematics in plain JAX and beside TAIDL's own oracle.

Every kernel is a stream of instructions written by hand. Its oracle is compiled from nothing (ISA bound anew, no
program kept), its results are compared with those of the native JAX function and, for small kernels, with those of
the interpreter, and then both run in turns, as compiled executables on arrays that are on the device already: execute
and wait, which is how TAIDL's times were taken. Those were recorded on another machine (two cores of an AMD EPYC, see
``data/taidl_baseline.csv``), as least times of several runs; ``thp`` among them is with transparent huge pages.

``--suite`` picks suites; with ``--json``, the last line is one object whose ``kernels`` are the rows: ``oracle_ms``
and ``native_ms`` are least times as TAIDL's are, ``compile_ms`` the least of several compilations from the stream to
the executable (``compile_cpu_ms`` in time of all cores, ``compile_first_ms`` the very first), ``taidl_ms`` the
smaller of TAIDL's two run times; ``over_native`` compares medians. ``met`` tells whether the kernel meets what is
required of it: see ``missed`` for what it does not. ``gemm_512_ms`` beside ``recorded_gemm_512_ms`` tells how far
this machine, as busy as it is, is from the one where TAIDL's times come from.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish
from benchmarks.oracle.oracle_suites.case import Case, int8

SUITES = ("tiled", "exo", "onednn", "ibert")
COMPILATIONS = (5, 20)
COMPILE_S = 1.0
"""At least and at most so many compilations, and no more once they have taken that long."""
PATIENCE = 3
"""How many times as long a kernel is measured that misses what is required: a busy machine misses much."""
WARMUPS = 3
RUNS_S = (1.0, 6.0)
"""A kernel runs for the first of these at least, for the second at most (but three rounds), and else for its rounds."""


def prepared(case: Case) -> tuple[Any, Any, Any, list[tuple[float, float]]]:
    """The oracle, its executable, its stream, and the seconds and CPU seconds of each compilation from nothing."""
    from archloom.oracle import taidl
    from archloom.oracle.xla import compile_stream, forget

    seconds: list[tuple[float, float]] = []
    least, most = COMPILATIONS

    def enough() -> bool:
        slow = case.taidl is not None and min(wall for wall, _ in seconds) * 1e3 >= case.taidl.compile_ms
        times = PATIENCE if slow else 1
        return len(seconds) >= most * times or sum(wall for wall, _ in seconds) >= COMPILE_S * times

    while len(seconds) < least or not enough():
        taidl.forget()
        forget()
        made, isa = case.stream()
        stream = getattr(made, "stream", made)
        start, spent = time.perf_counter(), time.process_time()
        oracle = stream if isa is None else compile_stream(stream, isa)
        run = oracle.compile()
        seconds.append((time.perf_counter() - start, time.process_time() - spent))
    return oracle, run, (stream, isa), seconds


def check(case: Case, made: tuple[Any, Any], inputs: Sequence[np.ndarray], mine: Any, theirs: Any) -> None:
    """The oracle's results against the native ones and the interpreter's; SystemExit where they differ."""
    stream, isa = made
    for number, (x, y) in enumerate(zip(mine, theirs, strict=True)):
        x, y = np.asarray(x), np.asarray(y)
        if case.tolerance is None:
            same = x.dtype == y.dtype and x.tobytes() == y.tobytes()
        else:
            same = bool(np.abs(x.astype(float) - y).max() <= case.tolerance * max(1e-30, np.abs(y).max()))
        if not same:
            raise SystemExit(f"{case.name}: result {number} of the oracle is not that of the native function")
    if case.interpreted:
        from archloom.oracle.interpreter import run

        right = run(stream, isa, {t.name: a for t, a in zip(stream.arguments, inputs, strict=True)})
        for tensor, x in zip(stream.results, mine, strict=True):
            if np.asarray(x).tobytes() != right[tensor.name].tobytes():
                raise SystemExit(f"{case.name}: {tensor.name} of the oracle is not that of the interpreter")


def timed(runs: list[Callable[[], object]], rounds: int) -> list[list[float]]:
    """Seconds of ``rounds`` runs of each (or more, of short ones), in turns, so that a busy machine hits all alike."""
    for run in runs * WARMUPS:
        run()
    times: list[list[float]] = [[] for _ in runs]
    least, most = RUNS_S
    begun = time.perf_counter()
    for n in itertools.count():
        spent = time.perf_counter() - begun
        if (n >= rounds and spent > least) or (n >= 3 and spent > most):
            return times
        for run, found in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            found.append(time.perf_counter() - start)
    raise AssertionError


def measure(case: Case, suite: str, seed: int) -> dict[str, Any]:
    """One row of the result."""
    import jax

    oracle, run, made, seconds = prepared(case)
    inputs = list(case.inputs(np.random.default_rng(seed)))
    on_device = [jax.device_put(x) for x in inputs]
    native = jax.jit(case.native).lower(*on_device).compile()
    check(case, made, inputs, run(*on_device), native(*on_device))
    mine: list[float] = []
    theirs: list[float] = []
    row: dict[str, Any] = {}
    for _ in range(PATIENCE):
        found = timed([lambda: jax.block_until_ready(run(*on_device)),
                       lambda: jax.block_until_ready(native(*on_device))], case.rounds)
        mine, theirs = mine + found[0], theirs + found[1]
        row = row_of(case, suite, mine, theirs, seconds)
        if not set(missed(case, row)) - {COMPILED}:
            break
    row.update({"instructions": made[0].count(), "raised": oracle.raised, "missed": missed(case, row)})
    row["met"] = not row["missed"]
    return row


def row_of(
    case: Case, suite: str, mine: Sequence[float], theirs: Sequence[float], seconds: Sequence[tuple[float, float]],
) -> dict[str, Any]:
    """What was measured, in milliseconds."""
    row: dict[str, Any] = {
        "suite": suite, "name": case.name, "oracle_ms": min(mine) * 1e3, "native_ms": min(theirs) * 1e3,
        "taidl_ms": case.taidl and case.taidl.fair_ms, "compile_ms": min(wall for wall, _ in seconds) * 1e3,
        "taidl_compile_ms": case.taidl and case.taidl.compile_ms, "oracle_median_ms": statistics.median(mine) * 1e3,
        "native_median_ms": statistics.median(theirs) * 1e3, "compile_first_ms": seconds[0][0] * 1e3,
        "compile_cpu_ms": min(cpu for _, cpu in seconds) * 1e3,
        "taidl_run_ms": case.taidl and case.taidl.run_ms, "taidl_thp_ms": case.taidl and case.taidl.thp_run_ms,
        "paper_ms": case.taidl and case.taidl.paper_ms,
        "over_native": statistics.median(mine) / statistics.median(theirs), "rounds": len(mine),
    }
    row["faster_than_taidl"] = case.taidl and case.taidl.fair_ms / row["oracle_ms"]
    return row


COMPILED = "compiled sooner than TAIDL's oracle"


def missed(case: Case, row: dict[str, Any]) -> list[str]:
    """What is required of the kernel and not met."""
    found = []
    if case.taidl and row["faster_than_taidl"] < case.least_over_taidl:
        found.append(f"at least {case.least_over_taidl:g} times as fast as TAIDL's oracle")
    if case.taidl and row["compile_ms"] >= row["taidl_compile_ms"]:
        found.append(COMPILED)
    if row["over_native"] > case.most_over_native:
        found.append(f"at most {case.most_over_native:g} times the native time")
    return found


def number(value: float | None, digits: int = 3) -> str:
    if value is None:
        return "–"
    return f"{value:,.{max(0, digits - len(str(int(value))) + (value < 1))}f}"


HEADER = (f"{'kernel':34} {'oracle':>9} {'native':>9} {'ratio':>6} {'TAIDL':>9} {'× faster':>8} {'compile':>8} "
          f"{'TAIDL':>7}  ms")


RECORDED_GEMM_MS = 0.43
"""What an int8 GEMM of 512³ took in XLA on the machine where TAIDL's times were recorded (its README)."""


def gemm_ms() -> float:
    """What it takes here and now, at least: how busy, or how slow, the machine is."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def gemm(a: Any, b: Any) -> Any:
        return lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)

    given = [jax.device_put(x) for x in int8([(512, 512)] * 2)(np.random.default_rng(0))]
    run = jax.jit(gemm).lower(*given).compile()
    return min(timed([lambda: jax.block_until_ready(run(*given))], 100)[0]) * 1e3


def line(row: dict[str, Any]) -> str:
    faster = row["faster_than_taidl"]
    return (f"{row['name']:34} {number(row['oracle_ms']):>9} {number(row['native_ms']):>9} {row['over_native']:6.2f} "
            f"{number(row['taidl_ms']):>9} {number(faster, 2):>8} {number(row['compile_ms']):>8} "
            f"{number(row['taidl_compile_ms']):>7}{'' if row['raised'] else '  loops'}"
            + "".join(f"  NOT {what}" for what in row["missed"]))


def of_suite(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The worst of a suite, the mean beside it, and the times of its kernels with those of the paper's machine."""
    found = {"slowest_over_native": max(r["over_native"] for r in rows),
             "mean_over_native": statistics.geometric_mean([r["over_native"] for r in rows]),
             "times": {r["name"]: {key: r[key] for key in ("oracle_ms", "paper_ms")} for r in rows}}
    faster = [r["faster_than_taidl"] for r in rows if r["taidl_ms"]]
    return {**found, **({"least_faster_than_taidl": min(faster)} if faster else {})}


def main() -> None:
    def more(parser: argparse.ArgumentParser) -> None:
        every = ",".join(SUITES)
        parser.add_argument("--suite", default=every, help=f"which suites to run (default {every})")
        parser.add_argument("--only", default="", help="kernels whose name contains this alone")

    args = arguments(__doc__ or "", more, seeded=True)
    chosen = args.suite.split(",")
    unknown = [s for s in chosen if s not in SUITES]
    if unknown:
        raise SystemExit(f"there is no suite {', '.join(map(repr, unknown))}; there are {', '.join(SUITES)}")
    import jax

    # what the first compilation of a process costs is not the stream's
    jax.block_until_ready(jax.jit(lambda x: x + 1)(1.0))
    speed = gemm_ms()
    print(f"on {jax.devices()[0].device_kind}: an int8 GEMM of 512³ takes {speed:.2f} ms, and took "
          f"{RECORDED_GEMM_MS} ms where TAIDL's times were recorded\n{HEADER}")
    rows = []
    for suite in chosen:
        for case in importlib.import_module(f"benchmarks.oracle.oracle_suites.{suite}").cases():
            if args.only in case.name:
                rows.append(measure(case, suite, args.seed))
                print(line(rows[-1]), flush=True)
    if not rows:
        raise SystemExit(f"no kernel's name contains {args.only!r}")
    recorded = [r for r in rows if r["taidl_ms"]]
    finish(args, {
        "device": jax.devices()[0].device_kind, "gemm_512_ms": speed, "recorded_gemm_512_ms": RECORDED_GEMM_MS,
        "gemm_512_over_recorded": speed / RECORDED_GEMM_MS,
        "count": len(rows), "met": sum(r["met"] for r in rows), "met_share": sum(r["met"] for r in rows) / len(rows),
        "slowest_over_native": max(r["over_native"] for r in rows),
        "slowest": max(rows, key=lambda r: float(r["over_native"]))["name"],
        "mean_over_native": statistics.geometric_mean([r["over_native"] for r in rows]),
        "suites": {suite: of_suite([r for r in rows if r["suite"] == suite]) for suite in chosen},
        "least_faster_than_taidl": min((r["faster_than_taidl"] for r in recorded), default=None),
        "worst_compile_over_taidl": max((r["compile_ms"] / r["taidl_compile_ms"] for r in recorded), default=None),
        "kernels": rows})


if __name__ == "__main__":
    main()
