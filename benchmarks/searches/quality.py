"""What samplers find beside random search, and what searching networks and machines together is worth."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from archloom.tvm_backend.search.front import Front
from benchmarks.searches.spaces import AIMS, SPACES, space
from examples import nas_digits

SAMPLERS = ("tpe", "nsga2", "gp", "qmc", "pymoo")
"""CMA-ES takes one objective."""
TRIALS = 300
LEAST, MOST = np.array([0.0, -4.0, -12.0]), np.array([9.0, 3.0, 0.0])
"""Corners of the box for hypervolumes: powers of ten of cycles, mm2 and products, of which more are better."""
SIGNS = np.array([1, 1, -1])


def samplers(names: Sequence[str], seeds: int, seed: int) -> dict[str, Any]:
    """Hypervolumes after 300 candidates of the first space over that of random search, medians over the seeds; and
    after as many seconds as random search takes for its 300, where each candidate costs what one of random search did.
    """
    runs = {name: [_Trace(name, seed + i) for i in range(seeds)] for name in ("random", *names)}
    estimate = statistics.median(run.estimate_seconds for run in runs["random"])
    spent = {name: statistics.median(run.sampler_seconds for run in found) for name, found in runs.items()}
    last = TRIALS * (estimate + spent["random"])
    counts = {name: min(TRIALS, int(last / (estimate + seconds))) for name, seconds in spent.items()}
    random = [run.volume(TRIALS) for run in runs["random"]]
    return {
        "estimate_seconds": estimate, "sampler_seconds": spent,
        "hypervolumes": _medians({name: [r.volume(TRIALS) for r in found] for name, found in runs.items()}, random),
        "hypervolumes_in_time": _medians(
            {name: [r.volume(counts[name]) for r in found] for name, found in runs.items()}, random)}


def _medians(found: Mapping[str, Sequence[float]], random: Sequence[float]) -> dict[str, float]:
    return {name: statistics.median(np.divide(volumes, random)) for name, volumes in found.items()}


class _Trace:
    """A search of a sampler, candidate by candidate: what a repeated one says is known."""

    def __init__(self, sampler: str, seed: int) -> None:
        import archloom

        self.asked: list[tuple[tuple[str, Any], ...]] = []
        make = space(next(iter(SPACES)))

        def noted(trial: Any) -> Any:
            candidate = make(trial)
            self.asked.append(tuple(sorted(trial.params.items())))
            return candidate

        result = archloom.search(noted, trials=TRIALS, sampler=sampler, seed=seed, objectives=AIMS, bounds=False,
                                 quiet=True)
        rows = list(result.rows())
        assert result.spent is not None
        self.points = {tuple(sorted(row.params.items())): (SIGNS * np.log10(np.array(row.values, float))).tolist()
                       for row in rows if row.state == "measured"}
        self.sampler_seconds = result.spent.seconds["sampler"] / TRIALS
        self.estimate_seconds = sum(row.took for row in rows) / len(rows)
        print(f"{sampler} {seed}: {self.volume(TRIALS):.4f}, {self.sampler_seconds:.4f} s a trial", flush=True)

    def volume(self, count: int) -> float:
        """The share of a box of the objectives' logarithms, the same for all searches, that the front of the first
        ``count`` candidates dominates; those by which a sampler finds its parameters are the last to be asked for."""
        front = Front(len(LEAST))
        for params in self.asked[-TRIALS:][:count]:
            if params in self.points:
                front.add(params, self.points[params])
        return front.hypervolume((LEAST, MOST))


# together -------------------------------------------------------------------------------------------------------------

EPOCHS, ACCURATE = 6, 0.95
"""The fixed network, too, is right in 95.5 % of the samples."""
FIXED_NETWORK = (((16, 3), (16, 3)), ((32, 3), (32, 3)))
FIXED_MACHINE = {"dim": 16, "scratchpad_kib": 64, "dma_bus_bits": 128}
MACHINES: Mapping[str, Sequence[int]] = {
    "dim": (4, 8, 16, 32), "scratchpad_kib": (16, 32, 64, 128), "dma_bus_bits": (32, 64, 128, 256)}


def together(trials: int, seeds: int, seed: int, workers: int) -> dict[str, Any]:
    """Energy times delay of the best candidate that recognizes digits, with as many candidates for each: of machines
    for one network, of networks for one machine, and of both together; medians over the seeds."""
    found = {kind: [_best(kind, trials, seed + i, workers) for i in range(seeds)] for kind in _VARIED}
    over = {kind: statistics.median(np.divide(found[kind], found["both"])) for kind in ("machine", "network")}
    return {"edp": {kind: statistics.median(values) for kind, values in found.items()},
            "machine_alone_over_both": over["machine"], "network_alone_over_both": over["network"]}


_VARIED = {"machine": (False, True), "network": (True, False), "both": (True, True)}


def _best(kind: str, trials: int, seed: int, workers: int) -> float:
    import archloom

    result = archloom.search(partial(_digits, *_VARIED[kind]), trials=trials, sampler="tpe", seed=seed, workers=workers,
                             objectives="edp", constraints=f"accuracy>={ACCURATE}", quiet=True)
    best = min((row.values[0] or np.inf for row in result.front), default=float("inf"))
    print(f"{kind} {seed}: {best:.3e}", flush=True)
    return best


def _digits(network: bool, machine: bool, trial: Any) -> Any:
    """Networks of ``examples.nas_digits``, trained for real, and Gemminis."""
    import archloom
    from examples.codesign_digits import accuracy
    from examples.codesign_digits import network as trained

    stages = nas_digits.suggest(trial).stages if network else FIXED_NETWORK
    options = {name: values[trial.suggest_int(name, 0, len(values) - 1)] for name, values in MACHINES.items()
               } if machine else FIXED_MACHINE
    return archloom.Candidate(partial(trained, stages, EPOCHS), "gemmini", options,
                              figures={"accuracy": partial(accuracy, stages, EPOCHS)})
