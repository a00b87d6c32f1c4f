"""Work in a process of its own with limits of memory and time, for inputs that nobody means well with.

A hang is what takes more than ``SECONDS`` of processors, the work's own children included, or what has not ended
``GRACE_SECONDS`` after that: on a busy machine the clock of the wall says little.
"""

from __future__ import annotations

import json
import math
import os
import resource
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

MEMORY, SECONDS, UNEXPECTED = 4 << 30, 60, 99
OVER_MEMORY = "needs more memory than there is"
"""How the command line puts it."""
GRACE_SECONDS = 240
"""Of waiting, beyond the seconds of computing: for what waits and computes nothing."""


@dataclass(frozen=True)
class Outcome:
    """How work ended: its exit status (negative: the signal that ended it) and what it printed to standard error."""

    status: int
    printed: str

    @property
    def kind(self) -> str:
        """``refused``, ``accepted``, ``wrong`` (a check that failed), or what must not happen."""
        if self.status in (-signal.SIGXCPU, -signal.SIGALRM):
            return "hang"
        if self.status < 0:
            return "abort"
        if self.status == UNEXPECTED or "Traceback (most recent call last)" in self.printed:
            return "traceback"
        if OVER_MEMORY in self.printed:
            return "over_memory"
        return {0: "accepted", 1: "wrong", 2: "refused"}.get(self.status, "traceback")


def limited(work: Callable[[], object], *, memory: int = MEMORY, seconds: int = SECONDS) -> Outcome:
    """``work`` in a child that may take ``memory`` bytes more than this process, and so many seconds of a processor."""
    return next(in_turn([work], memory=memory, seconds=seconds))


def in_turn(
    works: Sequence[Callable[[], object]], *, memory: int = MEMORY, seconds: int = SECONDS
) -> Iterator[Outcome]:
    """What comes of each work. One child does them in turn; where one ends it, another goes on with those after it.

    What a work may take is counted from where the one before it ended.
    """
    done = 0
    while done < len(works):
        for outcome in _by_one_child(works[done:], memory, seconds):
            done += 1
            yield outcome


def _by_one_child(works: Sequence[Callable[[], object]], memory: int, seconds: int) -> Iterator[Outcome]:
    """Outcomes until the child ends: of all works, or up to the one that ended it."""
    with tempfile.TemporaryFile() as log:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _do(works, writer, log.fileno(), memory, seconds)
        os.close(writer)
        status = None
        try:
            with os.fdopen(reader, "rb") as pipe:
                for _ in works:
                    late = not select.select([pipe], [], [], seconds + GRACE_SECONDS)[0]
                    if line := b"" if late else pipe.readline():
                        yield Outcome(**json.loads(line))
                        continue
                    status = _ended(child, by_force=late)
                    log.seek(0)
                    yield Outcome(-signal.SIGALRM if late else status, log.read().decode(errors="replace"))
                    return
        finally:  # whoever asks for no more outcomes leaves no process behind
            if status is None:
                _ended(child, by_force=True)


def _ended(child: int, *, by_force: bool) -> int:
    """The exit status of a child that ends, or is ended."""
    if by_force:
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _do(works: Sequence[Callable[[], object]], writer: int, log: int, memory: int, seconds: int) -> NoReturn:
    """Write a line for each work, and what it prints to ``log``. Nothing that is raised leaves the child."""
    try:
        _do_each(works, writer, log, memory, seconds)
    finally:
        os._exit(UNEXPECTED)


def _do_each(works: Sequence[Callable[[], object]], writer: int, log: int, memory: int, seconds: int) -> None:
    os.dup2(log, 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for work in works:
        os.ftruncate(log, 0)
        os.lseek(log, 0, os.SEEK_SET)
        limit(memory, seconds)
        before = spent(True)
        status = _status(work)
        if spent(True) - before > seconds:  # less than that by itself, and the rest by its children
            status = -signal.SIGXCPU
        sys.stderr.flush()
        size = os.lseek(log, 0, os.SEEK_CUR)
        printed = os.pread(log, size, 0).decode(errors="replace")
        os.write(writer, json.dumps({"status": status, "printed": printed}).encode() + b"\n")
    os._exit(0)


def spent(children: bool) -> float:
    """Seconds that processors have worked for this process, on request with its children that have ended."""
    whose = (resource.RUSAGE_SELF, *(resource.RUSAGE_CHILDREN,) * children)
    return sum(sum(resource.getrusage(who)[:2]) for who in whose)


def limit(memory: int, seconds: int) -> None:
    """Bound what this process may take from now on: bytes beyond what it holds, seconds of processors."""
    held = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    for kind, most in (resource.RLIMIT_AS, held + memory), (resource.RLIMIT_CPU, math.ceil(spent(False)) + seconds):
        resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _status(work: Callable[[], object]) -> int:
    try:
        status = work()
    except SystemExit as error:
        status = error.code
    except MemoryError:
        os.write(2, OVER_MEMORY.encode())
        return 2
    except BaseException:
        os.write(2, b"\nunexpected " + traceback.format_exc().encode(errors="replace"))
        return UNEXPECTED
    return status if isinstance(status, int) else UNEXPECTED
