"""The parts of a search that grow with its candidates, over made-up ones: store, front, and Dask's scheduler.

``store``: so many rows, a thousand at a time and, of ten thousand more, each by itself, as a search adds them; then
what the same command does when it goes on (the file is checked, the front is made, candidates are looked up), and what
readers do (all rows, counts, Parquet). Rows have four parameters, one network, three objectives and ten figures;
objectives are random numbers of which a product is bounded from below, so that the front is some thousands. ``dask``:
questions a second that are answered by 200 threads of four workers, which do nothing, of one scheduler, handed out one
by one and in batches.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.tvm_backend.search.cluster import Cluster, connected
from archloom.tvm_backend.search.objectives import aims
from archloom.tvm_backend.search.result import result_of
from archloom.tvm_backend.search.store import FILE, Row, Store
from benchmarks.common import arguments, finish

AIMS = aims("seconds,joules,area_mm2")
DEFINITION = {**AIMS.to_json(), "host": "none", "code": "-"}
TOGETHER, ALONE, LOOKED_UP = 1000, 10_000, 10_000
PROCESSES, THREADS = 4, 50
SINGLE, BATCHED = 2_000, 100_000


@contextlib.contextmanager
def timed(found: dict[str, float], name: str, count: int = 1) -> Iterator[None]:
    """Seconds, or of several things how many there are in one."""
    start = time.perf_counter()
    yield
    taken = time.perf_counter() - start
    found[name] = taken if count == 1 else count / taken


# store ----------------------------------------------------------------------------------------------------------------


def key(number: int) -> str:
    """Of a candidate: they come in no order, as those of real ones."""
    return hashlib.sha256(b"%d" % number).hexdigest()


def rows(first: int, count: int, rng: np.random.Generator) -> list[Row]:
    """Candidates that were never there."""
    seconds, joules = 1e-3 * np.exp(rng.normal(size=(2, count)))
    area = np.exp(0.3 * rng.normal(size=count)) * 1e-6 / (seconds * joules)
    return list(map(row, range(first, first + count), seconds.tolist(), joules.tolist(), area.tolist()))


def row(number: int, seconds: float, joules: float, area: float) -> Row:
    params = {"dim": 4 << number % 4, "scratchpad_kib": 64 << number % 5, "width": number % 97, "depth": number % 11}
    figures = {"seconds": seconds, "joules": joules, "area_mm2": area, "cycles": 1e9 * seconds, "edp": seconds * joules,
               "accelerator_seconds": seconds, "accelerator_cycles": 1e9 * seconds, "peak_bytes": 1e5, "accuracy": 0.5,
               "utilization": 0.25}
    candidate = {"networks": [f"network({number % 97}, {number % 11})"], "weights": [1.0], "target": "gemmini",
                 "options": {k: params[k] for k in ("dim", "scratchpad_kib")}, "as_int8": True, "named": False}
    return Row(key(number), "measured", params, candidate, (seconds, joules, area), (), figures, None, 0.1)


def store(count: int, seed: int) -> dict[str, Any]:
    rng, found = np.random.default_rng(seed), dict[str, float]()
    with tempfile.TemporaryDirectory(prefix="archloom-scale-") as folder:
        path = Path(folder) / FILE
        with Store.create(path, DEFINITION) as there:
            with timed(found, "made_and_added_per_second", count):
                for first in range(0, count, TOGETHER):
                    there.add(rows(first, min(TOGETHER, count - first), rng))
            more = rows(count, ALONE, rng)
            with timed(found, "added_alone_per_second", ALONE):
                for each in more:
                    there.add([each])
        found["bytes_per_row"] = path.stat().st_size / (count + ALONE)
        _go_on(path, count, rng, found)
        _read(path, Path(folder) / "all.parquet", count + ALONE, found)
    return {"rows": count + ALONE, **found}


def _go_on(path: Path, count: int, rng: np.random.Generator, found: dict[str, float]) -> None:
    with timed(found, "opened_s"):
        there = Store.create(path, DEFINITION)
    with there:
        with timed(found, "front_s"):
            front = there.front([1, 1, 1])
        found["front_points"] = len(front)
        keys = [key(i) for i in rng.integers(0, count, LOOKED_UP).tolist()]
        with timed(found, "looked_up_per_second", LOOKED_UP):
            assert None not in map(there.get, keys)


def _read(path: Path, parquet: Path, count: int, found: dict[str, float]) -> None:
    from archloom.tvm_backend.search.parquet import write

    with Store.open(path) as there:
        with timed(found, "result_s"):
            result_of(there, path.parent)
        with timed(found, "read_per_second", count):
            assert sum(1 for _ in there.rows()) == count
        with timed(found, "parquet_s"):
            write(there, parquet)
    found["parquet_bytes_per_row"] = parquet.stat().st_size / count


# dask -----------------------------------------------------------------------------------------------------------------


def nothing(number: int) -> int:
    return number


def dask(_: int, __: int) -> dict[str, Any]:
    import distributed

    logging.getLogger("distributed").setLevel(logging.ERROR)
    found: dict[str, float] = {}
    cluster = distributed.LocalCluster(n_workers=PROCESSES, threads_per_worker=THREADS, dashboard_address=None)
    with cluster as there, connected(there.scheduler_address) as client:
        workers = Cluster(client, there.scheduler_address)
        for name, count in (("handed_out_alone_per_second", SINGLE), ("handed_out_per_second", BATCHED)):
            with timed(found, name, count):  # of the first ones nobody knows what they take
                asked = [workers.ask(nothing, i) for i in range(count)]
                workers.send()
                assert [future.result() for future in asked] == list(range(count))
    return {"workers": PROCESSES * THREADS, **found}


TASKS: Mapping[str, Callable[[int, int], dict[str, Any]]] = {"store": store, "dask": dask}


def main() -> None:
    args = arguments(__doc__ or "", _more, seeded=True)
    found: dict[str, Any] = {"load": os.getloadavg()[0]}
    for name in args.tasks.split(","):
        found |= TASKS[name](args.rows, args.seed)
        print(json.dumps(found), flush=True)
    finish(args, found)


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tasks", default=",".join(TASKS), help=f"some of {', '.join(TASKS)} (default: all)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the store (default a million)")


if __name__ == "__main__":
    main()
