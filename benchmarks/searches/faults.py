"""Searches whose processes are killed at random times, and stores that cannot be written to."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import filelock  # noqa: F401  # which nobody may find

import archloom
from archloom.tvm_backend.search.searching import search
from archloom.tvm_backend.search.store import FILE
from benchmarks.common import ROOT, forked
from benchmarks.searches.speeds import empty_cache

SPACE = """
from functools import partial
import archloom
def network(k):
    return f"gemm(m=32,n=64,k={k})"
def space(trial):
    return archloom.Candidate(partial(network, trial.suggest_int("k", 1, 150)), "gemmini",
                              {"dim": trial.suggest_categorical("dim", [4, 8, 16, 32])})
"""
SOONEST = 0.5
"""Seconds between two kills, at least."""
OF_WORKERS = 0.8
"""Share of the kills that hit a worker."""


class Searches:
    """Commands that search the space of a folder into folders beside it."""

    def __init__(self, folder: str, workers: int) -> None:
        self.folder, self.workers = Path(folder), workers
        (self.folder / "space.py").write_text(SPACE, "utf-8")

    def started(self, name: str, limit: Callable[[], None] | None = None) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "archloom.tvm_backend.cli", "search", str(self.folder / "space.py"), "-q",
                   "--sampler", "grid", "--objective", "cycles,area_mm2", "--workers", str(self.workers), "-o",
                   str(self.folder / name)]
        return subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{os.environ.get('PYTHONPATH', '')}"},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=limit)

    def ended(self, name: str, limit: Callable[[], None] | None = None) -> tuple[int, str]:
        """Exit status and stderr of a search that is left alone."""
        with self.started(name, limit) as process:
            _, errors = process.communicate()
            return process.returncode, errors

    def rows(self, name: str) -> "Rows":
        """All figures of those that were measured, by key, None for others."""
        return {row.key: (row.state, row.values if row.state == "measured" else None)
                for row in archloom.read_search(self.folder / name).rows()}

    def front(self, name: str) -> set[tuple[Any, ...]]:
        return {row.values for row in archloom.read_search(self.folder / name).front}


def kills(count: int, seed: int, workers: int) -> dict[str, Any]:
    """Searches under so many SIGKILLs in all, each gone on with until it is done, beside the same one that is left
    alone. Kills are up to half of that one's time apart."""
    random, hit = Random(seed), {"main": 0, "workers": 0}
    with tempfile.TemporaryDirectory(prefix="archloom-search-") as folder:
        searches, started = Searches(folder, workers), time.monotonic()
        assert searches.ended("whole")[0] == 0
        longest, names, found = (time.monotonic() - started) / 2, list[str](), list[tuple[int, str]]()
        while sum(hit.values()) < count:
            name = f"killed {len(names)}"
            names.append(name)
            with empty_cache():
                while sum(hit.values()) < count:
                    with searches.started(name) as process:
                        _shoot(process, random, hit, count, longest)
                        if process.wait() == 0:
                            break
                found.append(searches.ended(name))
        whole = searches.rows("whole")
        killed = [searches.rows(name) for name in names]
        equal = [status == 0 and _is_equal(whole, rows) and searches.front("whole") == searches.front(name)
                 for name, rows, (status, _) in zip(names, killed, found)]
        return {"kills": sum(hit.values()), "kills_of_workers": hit["workers"], "candidates": len(whole),
                "searches": len(names), "resumed_equal": all(equal) and sum(hit.values()) >= count,
                "resumed_error": next((errors for _, errors in found if errors), None),
                "resumed_failed": sum(state == "failed" for rows in killed for state, _ in rows.values())}


Rows = dict[str, tuple[Any, ...]]


def _is_equal(whole: Rows, killed: Rows) -> bool:
    """Whether the same candidates are done, with the same figures where both were measured: which are ruled out by
    their bounds depends on what was known before."""
    both = [key for key in whole if whole[key][1] is not None and killed.get(key, ("", None))[1] is not None]
    return whole.keys() == killed.keys() and all(whole[key] == killed[key] for key in both)


def _shoot(
    process: "subprocess.Popen[str]", random: Random, hit: dict[str, int], count: int, longest: float
) -> None:
    """Kill workers at random times, and at one the main process."""
    while process.poll() is None and sum(hit.values()) < count:
        time.sleep(random.uniform(SOONEST, max(2 * SOONEST, longest)))
        workers = _children(process.pid)
        if process.poll() is not None:
            return
        if random.random() >= OF_WORKERS:
            process.send_signal(signal.SIGKILL)
            hit["main"] += 1
            return
        if workers:
            os.kill(random.choice(workers), signal.SIGKILL)
            hit["workers"] += 1


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    threads = [path / "children" for path in Path(f"/proc/{pid}/task").glob("*")] if found.exists() else []
    return sorted({int(word) for path in threads if path.exists() for word in path.read_text().split()})


# what cannot be written -----------------------------------------------------------------------------------------------


def refusals(workers: int) -> dict[str, Any]:
    """Whether a full disk, a folder that cannot be written to and damaged files end a search with status 2 and one
    line that names the file, and leave what was there."""
    with tempfile.TemporaryDirectory(prefix="archloom-search-") as folder:
        searches = Searches(folder, workers)
        (searches.folder / "space.py").write_text(SPACE.replace("1, 150", "1, 15"), "utf-8")
        assert searches.ended("whole")[0] == 0
        searches.folder.chmod(0o755)
        file = searches.folder / "whole" / FILE
        whole, bad = file.read_bytes(), dict[str, bool]()
        for name, data in (("cut", whole[:len(whole) // 2]), ("changed", _changed(whole)), ("other", b"no" * 5000)):
            file.write_bytes(data)
            bad[name] = _refused(*searches.ended("whole"), FILE) and file.read_bytes() == data
        file.write_bytes(whole)
        bad["full"] = _refused(*searches.ended("full", _no_room), FILE)
        file.parent.chmod(0o555)
        refused = forked(lambda: _begun_by_nobody(file.parent)).last_json
        bad["read-only"] = "cannot be written" in refused and file.read_bytes() == whole
        return {"refused": bad, "refused_share": sum(bad.values()) / len(bad)}


def _refused(status: int, errors: str, name: str) -> bool:
    return status == 2 and name in errors and "Traceback" not in errors


def _changed(data: bytes) -> bytes:
    return data[:5000] + bytes(len(data[5000:9000])) + data[9000:]


def _begun_by_nobody(folder: Path) -> str:
    """The error of a search in a folder that this process, in a fork, may not write to."""
    if os.getuid() == 0:  # who may write everywhere
        os.setuid(65534)
    try:
        search(lambda trial: "gemm(m=1,n=1,k=1)", sampler="grid", output=folder)
    except archloom.InputError as error:
        return str(error)
    return "it was begun"


def _no_room() -> None:
    """No file may grow past what a search needs to begin."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
