"""Faults of the system: processes that are killed or interrupted at any time, caches that many share, full disks,
places that cannot be written. What is done afterwards must be as if nothing had happened."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

from tests.fuzz.worker import Worker
from tests.tvm_backend.hostile.cases import conv, product

COMMANDS = (("compile", "net.onnx", "-o", "net.loom"), ("compile", "net.onnx", "-o", "net.zip"),
            ("estimate", "net.onnx", "--json"), ("compile", "net.onnx", "--calibrate", "random:2", "-o", "net.zip"))
TOGETHER = 8
NOWHERE = "/proc/self/nowhere"
"""A folder that nobody can write to, root included."""
SURVIVED, LATE = "", "late"
"""What comes of a fault but a reason why it was not survived; ``LATE``: the command had ended, it was none."""


class Faults:
    """Faults in turn. Processes that take commands serve many of them, until a signal ends one, or it is old."""

    def __init__(self) -> None:
        self.stopped, self.sound = Worker(), Worker()
        """That which signals are sent to, and that which finds out what is left."""
        self.usual = dict.fromkeys(COMMANDS, 0.5)
        """Seconds that a command takes which nothing stops, lately."""
        self.kinds: Sequence[Callable[[Random, Path], str]] = (
            *(self.killed, self.interrupted) * 5, *(self.full, self.unwritable) * 2, self.crowded)

    def run(self, seed: int, numbers: range) -> Iterator[tuple[str, str]]:
        """The faults of these numbers: the kind of each, and what came of it."""
        for number in numbers:
            kind, rng = self.kinds[number % len(self.kinds)], Random(f"fault {seed} {number}")
            with tempfile.TemporaryDirectory(prefix="archloom-faults-") as folder:
                (Path(folder) / "net.onnx").write_bytes(
                    (conv() if rng.random() < 0.5 else product()).SerializeToString())
                yield kind.__name__, kind(rng, Path(folder))

    def close(self) -> None:
        """End the processes."""
        self.stopped.end()
        self.sound.end()

    def killed(self, rng: Random, folder: Path) -> str:
        """SIGKILL: an artifact is whole or absent, and the cache serves the next process."""
        return self._stopped(rng, folder, signal.SIGKILL)

    def interrupted(self, rng: Random, folder: Path) -> str:
        """SIGINT: status 130 (or 0, where it came too late), without a traceback, and nothing half-written is left."""
        return self._stopped(rng, folder, signal.SIGINT)

    def _stopped(self, rng: Random, folder: Path, how: signal.Signals) -> str:
        words = rng.choice(COMMANDS)
        self.stopped.begin(words, folder, folder / "cache")
        if self.stopped.ended(self.usual[words] * rng.random() * rng.choice((0.1, 1, 4))):
            return LATE
        self.stopped.signal(how)
        outcome = self.stopped.outcome()
        if how == signal.SIGINT and (outcome.status not in (0, 130) or "Traceback" in outcome.printed):
            return f"{words}: {outcome.status}: {outcome.printed}"
        if how == signal.SIGINT and (left := [file.name for file in folder.glob(".*.tmp")]):
            return f"{words}: left {left}"
        return self._again(words, folder)

    def _again(self, words: Sequence[str], folder: Path) -> str:
        """Why a command does not end well in a folder with what was left there; empty where it does."""
        start = time.monotonic()
        self.sound.begin(words, folder, folder / "cache")
        outcome = self.sound.outcome()
        self.usual[tuple(words)] = 0.7 * self.usual[tuple(words)] + 0.3 * (time.monotonic() - start)
        return SURVIVED if outcome.status == 0 else f"{words}: {outcome.status}: {outcome.printed}"

    def full(self, rng: Random, folder: Path) -> str:
        """No file may grow beyond some bytes: an artifact is written whole or not at all."""
        words, most = rng.choice(COMMANDS), rng.choice((0, 100, 4096, 20_000, 100_000, 1 << 20))
        return self._refused_or_done(words, folder, folder / "cache", most) or self._again(words, folder)

    def unwritable(self, rng: Random, folder: Path) -> str:
        """The cache, or the place of the result, cannot be written."""
        words, cache = list(rng.choice(COMMANDS)), Path(NOWHERE) if rng.random() < 0.7 else folder / "cache"
        if "-o" in words and rng.random() < 0.5:
            words[-1] = f"{NOWHERE}/{words[-1]}"
        return self._refused_or_done(words, folder, cache)

    def _refused_or_done(self, words: Sequence[str], folder: Path, cache: Path, most: int | None = None) -> str:
        self.sound.begin(words, folder, cache, most)
        outcome = self.sound.outcome()
        return SURVIVED if outcome.kind in ("accepted", "refused") else f"{words}: {outcome.status}: {outcome.printed}"

    def crowded(self, rng: Random, folder: Path) -> str:
        """Several processes on one cache that nobody has used: all give the same."""
        crowd = [Worker() for _ in range(TOGETHER)]
        for number, worker in enumerate(crowd):
            own = folder / str(number)
            own.mkdir()
            shutil.copy(folder / "net.onnx", own)
            worker.begin(("compile", "net.onnx", "-o", "net.loom"), own, folder / "cache")
        found = [worker.outcome() for worker in crowd]
        for worker in crowd:
            worker.end()
        if bad := [outcome.printed for outcome in found if outcome.status]:
            return bad[0]
        plans = {(folder / str(n) / "net.loom" / "plans.json").read_bytes() for n in range(TOGETHER)}
        return SURVIVED if len(plans) == 1 else f"{len(plans)} different plans"
