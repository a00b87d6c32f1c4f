"""One mapper for every target: cycles and planning time of each, beside those of its former own choice of tiles.

For each target some workloads: products of even and odd sizes, vectors, a layer of BERT-base; convolutions of
ResNet-50 and AlexNet, temporal ones, and attention where the target takes them. Each is planned without any cache;
cycles are simulated, seconds are processor time. ``data/one_mapper.json`` holds what each target's own code chose at
the commit that it names, with the same script.

Then, for each target, how the cost model ranks: Spearman's correlation of estimated with simulated cycles, of
candidates drawn from the ranking (``tl_common.drawn``). Workloads of which no candidate takes a tenth more than
another have nothing to rank and are counted (``nothing_to_rank``), as are candidates that turn out to be impossible
when they are emitted (``impossible``). And the plan that is chosen beside the best of all, for workloads of few
candidates; those of which the search has simulated all itself are counted alone (``searched_whole``).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.mapper import workload as wl
from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, Workload
from archloom.oracle.errors import ArchloomError, MappingError, StreamError
from benchmarks.common import ROOT, arguments, finish, refuse
from benchmarks.cores.tl_common import drawn, sampled, spearman
from benchmarks.mapper.exhaustive import exhaustive, simulated_cycles

if TYPE_CHECKING:
    from archloom.mapper.accelerator import Configuration

BEFORE = ROOT / "benchmarks" / "data" / "one_mapper.json"
INT8, PLAIN, FLOAT = Epilogue(True, 0.01, True, "int8"), Epilogue(False, 0.01, False, "int8"), Epilogue(
    True, 1.0, True, "float32")

SMALL = ((1, 1, 1), (16, 16, 16), (13, 7, 29), (64, 64, 64), (1, 100, 200))
MEDIUM = ((128, 128, 128), (100, 37, 75), (1, 1000, 512), (257, 129, 65), (196, 256, 1024))
LARGE = ((512, 768, 768), (512, 3072, 768), (3136, 64, 256))
"""m, n, k of products; the large ones are of BERT-base and of a pointwise convolution of ResNet-50."""

CONVOLUTIONS = {
    # n, h, w, c, o, kernel, stride, padding
    "resnet50 conv1": (1, 224, 224, 3, 64, 7, 2, 3), "resnet50 3x3 at 56": (1, 56, 56, 64, 64, 3, 1, 1),
    "resnet50 3x3/2 at 28": (1, 56, 56, 128, 128, 3, 2, 1), "resnet50 3x3 at 7": (1, 7, 7, 512, 512, 3, 1, 1),
    "resnet50 1x1 at 14": (1, 14, 14, 1024, 256, 1, 1, 0), "alexnet conv1": (1, 227, 227, 3, 96, 11, 4, 0),
    "alexnet conv2": (1, 27, 27, 48, 128, 5, 1, 2), "alexnet conv3": (4, 13, 13, 256, 384, 3, 1, 1),
    "odd 3x3": (1, 13, 17, 5, 11, 3, 1, 1),
}
TEMPORAL = {"101 x 40, 3": (101, 40, 16, 3, 1, 1), "101 x 16, 9/2": (101, 16, 24, 9, 2, 4), "25 x 32, 9": (
    25, 32, 48, 9, 1, 4), "13 x 48, 1": (13, 48, 12, 1, 1, 0)}
"""positions and channels, outputs, kernel, stride, padding"""
ATTENTION = ((1, 2, 64, 64, 64, 64), (1, 12, 128, 128, 64, 64), (1, 3, 50, 77, 24, 40))
"""batch, heads, queries, keys, depth, values"""


@dataclass(frozen=True)
class Case:
    """A workload for a target with options."""

    target: str
    options: tuple[tuple[str, Any], ...]
    name: str
    workload: Workload

    @property
    def key(self) -> str:
        options = ",".join(f"{name}={value}" for name, value in self.options)
        return f"{self.target}{f' ({options})' if options else ''}: {self.name}"


def products(target: str, shapes: tuple[tuple[int, int, int], ...], **options: Any) -> Iterator[Case]:
    """Products in the target's numbers."""
    floats = target in ("qkv", "plasticine")
    for m, n, k in shapes:
        work = wl.gemm(m, n, k, epilogue=FLOAT if floats else INT8, dtype="float32" if floats else "int8")
        yield Case(target, tuple(options.items()), f"{m} x {n} x {k}", work)


def convolutions(target: str, names: tuple[str, ...], **options: Any) -> Iterator[Case]:
    """Convolutions of the table."""
    for name in names:
        n, h, w, c, o, kernel, stride, pad = CONVOLUTIONS[name]
        work = wl.conv2d(n, h, w, c, o, kernel, kernel, stride=(stride, stride), padding=(pad,) * 4, epilogue=INT8)
        yield Case(target, tuple(options.items()), name, work)


def cases() -> Iterator[Case]:
    """All of them."""
    yield from products("gemmini", (*SMALL, *MEDIUM, *LARGE))
    yield from convolutions("gemmini", tuple(CONVOLUTIONS))
    yield from products("gemmini", MEDIUM, dim=32, dataflow="os")
    yield Case("gemmini", (), "add", wl.add(56 * 56 * 64, epilogue=Epilogue(False, 0.5, True, "int8")))
    for dataflow in ("ws", "os", "is"):
        yield from products("systolic_array", (*SMALL, *MEDIUM), dataflow=dataflow)
    yield from products("systolic_array", LARGE)
    yield from products("systolic_array", MEDIUM, rows=8, columns=32, convention="scalesim")
    for target in ("gamma", "ai_engine", "amx", "tpu_v1", "plasticine", "qkv"):
        yield from products(target, (*SMALL, *MEDIUM, *LARGE))
    yield from products("gamma", MEDIUM, complexes=3, registers=128)
    yield from products("ultratrail", (*SMALL, *MEDIUM))
    yield from products("oma", (*SMALL, *MEDIUM[:4]))
    yield from products("oma", MEDIUM[:2], cache=False)
    yield from products("eyeriss", (*SMALL, *MEDIUM, LARGE[0]))
    yield from convolutions("eyeriss", tuple(CONVOLUTIONS))
    for name, (positions, channels, outputs, kernel, stride, pad) in TEMPORAL.items():
        yield Case("ultratrail", (), f"temporal {name}", wl.conv2d(
            1, 1, positions, channels, outputs, 1, kernel, stride=(1, stride), padding=(0, pad, 0, pad), epilogue=INT8))
    for sizes in ATTENTION:
        for bias in (False, True):
            yield Case("qkv", (), f"attention {'x'.join(map(str, sizes))}{' with bias' * bias}", wl.attention(
                *sizes, epilogue=Epilogue(bias, 0.125, False, "float32")))


def planned(case: Case) -> dict[str, Any]:
    """Cycles, processor time and mapping of a case."""
    from archloom.tvm_backend.targets import registry

    accelerator = registry.get(case.target).accelerator
    options = dict(case.options)
    configuration = accelerator.configure(options)
    _ = configuration.isa, configuration.emitter
    start = time.process_time()
    try:
        plan = search(case.workload, accelerator, options, use_cache=False)
    except ArchloomError as error:
        return {"cycles": None, "seconds": round(time.process_time() - start, 4), "mapping": f"none: {error}"}
    seconds = time.process_time() - start
    return {"cycles": plan.timing.cycles, "seconds": round(seconds, 4), "mapping": str(plan.mapping),
            "considered": plan.considered, "simulated": plan.simulated, "bound": plan.bound_cycles}


SPREAD = 1.1
"""How much the cycles of candidates have to differ that are ranked."""

MOST_RANKED = 1 << 24
"""Multiply-accumulates of the largest workload whose candidates are simulated (scalar machines: of a 16th)."""

ALL = 250
"""Candidates of the largest space of which all are simulated."""


@dataclass(frozen=True)
class Ranked:
    """The rank correlation of a workload's candidates, None where there is nothing to rank; candidates that were
    drawn, and those of them that could not be emitted."""

    correlation: float | None
    drawn: int
    impossible: int


def ranked(case: Case, seed: int, samples: int) -> Ranked:
    """Candidates drawn, simulated and ranked."""
    configuration = _configuration(case)
    estimated, mapping_of = configuration.space(case.workload).ranked()
    chosen = drawn(estimated, seed, samples=samples)
    taken, cycles = [], []
    for i in chosen.tolist():
        try:
            cycles.append(simulated_cycles(case.workload, mapping_of(i), configuration))
        except (MappingError, StreamError):  # the estimate does not see what the emission finds: it is counted
            continue
        taken.append(estimated[i])
    alike = len(cycles) < 3 or max(cycles) < SPREAD * min(cycles)
    correlation = None if alike else float(spearman(np.array(taken), np.array(cycles)))
    return Ranked(correlation, len(chosen), len(chosen) - len(cycles))


def compared(case: Case, plan: dict[str, Any]) -> float | None:
    """Cycles of the chosen plan over those of the best of all; None where there are too many."""
    from archloom.tvm_backend.targets import registry

    if len(_configuration(case).space(case.workload)) > ALL:
        return None
    _, best = exhaustive(case.workload, registry.get(case.target).accelerator, dict(case.options))
    return float(plan["cycles"]) / best


def _small(case: Case) -> bool:
    """Whether its candidates are simulated in little time."""
    return case.workload.macs <= MOST_RANKED // (16 if case.target in ("oma", "eyeriss") else 1)


def quality(chosen: list[Case], plans: dict[str, Any], seed: int, samples: int) -> dict[str, Any]:
    """Correlations of each target, their mean and least, and chosen plans over the best of all."""
    ranks: dict[str, dict[str, float]] = {}
    against: dict[str, float] = {}
    counts = dict.fromkeys(("nothing_to_rank", "drawn", "impossible", "searched_whole"), 0)
    for case in filter(_small, chosen):
        outcome, plan = ranked(case, seed, samples), plans[case.key]
        counts["drawn"] += outcome.drawn
        counts["impossible"] += outcome.impossible
        if outcome.correlation is None:
            counts["nothing_to_rank"] += 1
        else:
            ranks.setdefault(case.target, {})[case.key] = outcome.correlation
        if not plan["cycles"]:  # counted as a workload without a plan
            continue
        if plan["simulated"] >= len(_configuration(case).space(case.workload)):
            counts["searched_whole"] += 1
        elif (over := compared(case, plan)) is not None:
            against[case.key] = over
    for target, found in ranks.items():
        print(f"{target:16} rank correlation of {len(found)} workloads: mean {np.mean(list(found.values())):.3f}, "
              f"least {min(found.values()):.3f}")
    for key, over in against.items():
        print(f"{key:52} chosen over best of all {over:.4f}")
    means = {target: float(np.mean(list(found.values()))) for target, found in ranks.items()}
    workloads = [value for found in ranks.values() for value in found.values()]
    result: dict[str, Any] = {
        "correlations": ranks, "correlation": means, "ranked": len(workloads), "over_best": against,
        "compared": len(against), **counts}
    if workloads:
        result |= {"least_correlation": min(means.values()), "mean_correlation": float(np.mean(workloads)),
                   "least_of_workloads": min(workloads)}
    if against:
        result |= {"worst_over_best": max(against.values()), "mean_over_best": _mean(against.values()),
                   "best_chosen": sum(over == 1 for over in against.values()) / len(against)}
    return result


def _configuration(case: Case) -> "Configuration":
    from archloom.tvm_backend.targets import registry

    return registry.get(case.target).accelerator.configure(dict(case.options))


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", action="append", default=[], help="targets (default: all)")
    sampled(parser)
    parser.add_argument("--most-macs", type=int, help="only workloads of at most so many multiply-accumulates")
    parser.add_argument("--record", action="store_true", help=f"write what is found to {BEFORE.name} as the former")


def main() -> None:
    args = arguments(__doc__.splitlines()[0], _more, seeded=True)  # type: ignore[union-attr]
    chosen = [c for c in cases() if (not args.only or c.target in args.only)
              and (args.most_macs is None or c.workload.macs <= args.most_macs)]
    if not chosen:
        refuse(f"--only: none of the targets is {' or '.join(args.only)}")
    recorded = json.loads(BEFORE.read_text()) if BEFORE.exists() and not args.record else {"cases": {}}
    before: dict[str, Any] = recorded["cases"]
    planned(chosen[0])  # compiles the engine
    found: dict[str, Any] = {}
    print(f"{'':52}{'before':>12}{'after':>12}{'ratio':>8}{'s before':>10}{'s after':>9}  mapping")
    for case in chosen:
        was, now = before.get(case.key, {}), planned(case)
        found[case.key] = now
        ratio = _ratio(was, now)
        print(f"{case.key:52}{was.get('cycles') or '-':>12}{now['cycles'] or '-':>12}"
              f"{'-' if ratio is None else f'{ratio:.3f}':>8}{was.get('seconds', '-'):>10}{now['seconds']:>9}"
              f"  {now['mapping']}", flush=True)
    if args.record:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
        BEFORE.write_text(json.dumps({"commit": commit.stdout.strip(), "cases": found}, indent=1) + "\n")
        print(f"recorded {len(found)} cases")
        return
    ratios = {key: ratio for key, now in found.items() if (ratio := _ratio(before.get(key, {}), now)) is not None}
    result: dict[str, Any] = {
        "cases": len(found), "before": recorded.get("commit"), "fail": sum(not f["cycles"] for f in found.values())}
    if ratios:
        spent, former = (sum(rows[key]["seconds"] for key in ratios) for rows in (found, before))
        result |= {"worst": max(ratios.values()), "best": min(ratios.values()), "mean": _mean(ratios.values()),
                   "planning_time": spent / former, "worse": {k: r for k, r in ratios.items() if r > 1},
                   "targets": _by_target(chosen, ratios)}
        for target, (mean, best, worst) in result["targets"].items():
            print(f"{target:16} cycles over those before: mean {mean:.3f}, from {best:.3f} to {worst:.3f}")
        for key, ratio in result["worse"].items():
            print(f"worse: {key} {ratio:.4f}")
    simulated = [row["simulated"] for row in found.values() if row["cycles"]]
    result |= {"median_simulated": statistics.median(simulated), "most_simulated": max(simulated)}
    finish(args, {**result, **quality(chosen, found, args.seed, args.samples), "rows": found})


def _ratio(was: dict[str, Any], now: dict[str, Any]) -> float | None:
    """Cycles now over those before; None where there are none."""
    return now["cycles"] / was["cycles"] if was.get("cycles") and now["cycles"] else None


def _by_target(chosen: list[Case], ratios: dict[str, float]) -> dict[str, tuple[float, float, float]]:
    """Geometric mean, least and largest ratio of each target."""
    found: dict[str, list[float]] = {}
    for case in chosen:
        if case.key in ratios:
            found.setdefault(case.target, []).append(ratios[case.key])
    return {target: (_mean(values), min(values), max(values)) for target, values in found.items()}


def _mean(values: Any) -> float:
    """Geometric mean."""
    logarithms = [math.log(v) for v in values]
    return math.exp(sum(logarithms) / len(logarithms))


if __name__ == "__main__":
    main()
