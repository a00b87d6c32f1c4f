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

SPACE = """
from functools import partial
import archloom
def network(k):
    return f"gemm(m=32,n=64,k={k})"
def space(trial):
    return archloom.Candidate(partial(network, trial.suggest_int("k", 1, 150)), "gemmini",
                              {"dim": trial.suggest_categorical("dim", [4, 8, 16, 32])})
"""
LONGEST = 20.0
"""Seconds until a main process is killed, at most: it starts in three to ten."""
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

    def rows(self, name: str) -> dict[str, tuple[Any, ...]]:
        """All figures of those that were measured, by key, None for others."""
        return {row.key: (row.state, row.values if row.state == "measured" else None)
                for row in archloom.read_search(self.folder / name).rows()}


def kills(count: int, seed: int, workers: int) -> dict[str, Any]:
    """One search under so many SIGKILLs, beside the same one that is left alone."""
    random, hit = Random(seed), {"main": 0, "workers": 0}
    with tempfile.TemporaryDirectory(prefix="archloom-search-") as folder:
        searches = Searches(folder, workers)
        assert searches.ended("whole")[0] == 0
        while sum(hit.values()) < count:
            with searches.started("killed") as process:
                _shoot(process, random, hit, count)
                if process.wait() == 0 and _done(searches):
                    break
        status, errors = searches.ended("killed")
        whole, killed = searches.rows("whole"), searches.rows("killed")
        both = [key for key in whole if whole[key][1] is not None and killed.get(key, ("",))[-1] is not None]
        fronts = [{row.values for row in archloom.read_search(searches.folder / name).front}
                  for name in ("whole", "killed")]
        equal = whole.keys() == killed.keys() and fronts[0] == fronts[1] and all(whole[k] == killed[k] for k in both)
        return {"kills": sum(hit.values()), "kills_of_workers": hit["workers"], "candidates": len(whole),
                "resumed_equal": status == 0 and equal, "resumed_error": errors or None,
                "resumed_failed": sum(state == "failed" for state, _ in killed.values())}


def _done(searches: Searches) -> bool:
    return len(searches.rows("killed")) == len(searches.rows("whole"))


def _shoot(process: "subprocess.Popen[str]", random: Random, hit: dict[str, int], count: int) -> None:
    """Kill workers at random times, and at one the main process."""
    while process.poll() is None and sum(hit.values()) < count:
        time.sleep(random.uniform(0.5, LONGEST / 2))
        workers = _children(process.pid)
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
