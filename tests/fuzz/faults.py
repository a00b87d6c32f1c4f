"""Faults of the system: processes that are killed or interrupted at any time, caches that many share, full disks,
places that cannot be written. What is done afterwards must be as if nothing had happened."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from tests.support.limited import Outcome, limited
from tests.tvm_backend.hostile.cases import conv, product

COMMANDS = (("compile", "net.onnx", "-o", "net.loom"), ("compile", "net.onnx", "-o", "net.zip"),
            ("estimate", "net.onnx", "--json"), ("compile", "net.onnx", "--calibrate", "random:2", "-o", "net.zip"))
TOGETHER = 8
NOWHERE = "/proc/self/nowhere"
"""A folder that nobody can write to, root included."""


def run(count: int, seed: int) -> dict[str, int]:
    """Counts of faults by kind, and of those that were not survived (``bad``)."""
    rng, counts = Random(seed), Counter[str]()
    kinds = (killed, interrupted, killed, interrupted, full, unwritable, crowded)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        with tempfile.TemporaryDirectory(prefix="archloom-faults-") as folder:
            (Path(folder) / "net.onnx").write_bytes((conv() if rng.random() < 0.5 else product()).SerializeToString())
            reason = kind(rng, Path(folder))
        counts[kind.__name__] += 1
        if reason:
            counts["bad"] += 1
            print(f"fault {number} ({kind.__name__}): {reason[-1500:]}", file=sys.stderr, flush=True)
    return dict(counts)


def _command(words: Sequence[str], folder: Path, cache: str) -> Callable[[], int]:
    def work() -> int:
        from archloom.tvm_backend import cli

        os.chdir(folder)
        os.environ["ARCHLOOM_CACHE_DIR"] = cache
        return cli.main(list(words))

    return work


def _stopped(rng: Random, folder: Path, how: signal.Signals) -> tuple[int, str, Sequence[str]]:
    """The status of a command that is stopped after a moment, what it printed, and its words."""
    words, log = rng.choice(COMMANDS), folder / "log"
    child = os.fork()
    if child == 0:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        status = 99
        try:
            status = _command(words, folder, str(folder / "cache"))()
        except KeyboardInterrupt:  # before it had begun
            status = 130
        except SystemExit:
            pass
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    time.sleep(rng.choice((0.0, 0.05, 0.3, 1, 3, 10)) * rng.random())
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, how)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, log.read_text() if log.exists() else "", words


def _again(words: Sequence[str], folder: Path) -> str:
    """Why a command does not end well in a folder with what was left there; empty where it does."""
    outcome = limited(_command(words, folder, str(folder / "cache")))
    return "" if outcome.status == 0 else f"{words}: {outcome.status}: {outcome.printed}"


def killed(rng: Random, folder: Path) -> str:
    """SIGKILL: an artifact is whole or absent, and the cache serves the next process."""
    _, _, words = _stopped(rng, folder, signal.SIGKILL)
    return _again(words, folder)


def interrupted(rng: Random, folder: Path) -> str:
    """SIGINT: status 130 (or 0, where it came too late), without a traceback, and nothing half-written is left."""
    status, printed, words = _stopped(rng, folder, signal.SIGINT)
    if status not in (0, 130, -signal.SIGINT) or "Traceback" in printed:
        return f"{words}: {status}: {printed}"
    if left := [file.name for file in folder.glob(".*.tmp")]:
        return f"{words}: left {left}"
    return _again(words, folder)


def full(rng: Random, folder: Path) -> str:
    """No file may grow beyond some bytes: an artifact is written whole or not at all."""
    words, most = rng.choice(COMMANDS), rng.choice((0, 100, 4096, 20_000, 100_000, 1 << 20))

    def work() -> int:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        return _command(words, folder, str(folder / "cache"))()

    return _bad(limited(work), words) or _again(words, folder)


def unwritable(rng: Random, folder: Path) -> str:
    """The cache, or the place of the result, cannot be written."""
    words = list(rng.choice(COMMANDS))
    cache = NOWHERE if rng.random() < 0.7 else str(folder / "cache")
    if "-o" in words and rng.random() < 0.5:
        words[-1] = f"{NOWHERE}/{words[-1]}"
    outcome = limited(_command(words, folder, cache))
    return _bad(outcome, words)


def _bad(outcome: Outcome, words: Sequence[str]) -> str:
    return "" if outcome.kind in ("accepted", "refused") else f"{words}: {outcome.status}: {outcome.printed}"


def crowded(rng: Random, folder: Path) -> str:
    """Several processes on one cache that nobody has used: all give the same."""
    children = []
    for number in range(TOGETHER):
        own = folder / str(number)
        own.mkdir()
        shutil.copy(folder / "net.onnx", own)
        child = os.fork()
        if child == 0:
            outcome = limited(_command(("compile", "net.onnx", "-o", "net.loom"), own, str(folder / "cache")))
            (own / "outcome").write_text(json.dumps([outcome.status, outcome.printed]))
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    found = [json.loads((folder / str(n) / "outcome").read_text()) for n in range(TOGETHER)]
    if bad := [printed for status, printed in found if status]:
        return bad[0]
    plans = {(folder / str(n) / "net.loom" / "plans.json").read_bytes() for n in range(TOGETHER)}
    return "" if len(plans) == 1 else f"{len(plans)} different plans"
