"""Work in a process of its own with limits of memory and time, for inputs that nobody means well with."""

from __future__ import annotations

import os
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MEMORY, SECONDS, UNEXPECTED = 4 << 30, 60, 99
OVER_MEMORY = "needs more memory than there is"
"""How the command line puts it."""
GRACE_SECONDS = 240
"""Of waiting, beyond the seconds of computing: machines may be busy with other things."""


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
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _run(work, writer, memory, seconds)
    os.close(writer)
    printed, late = _read(reader, time.monotonic() + seconds + GRACE_SECONDS)
    if late:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Outcome(-signal.SIGALRM if late else status, printed.decode(errors="replace"))


def _run(work: Callable[[], object], writer: int, memory: int, seconds: int) -> None:
    os.dup2(writer, 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    spent = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_AS, (held + memory,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(spent) + seconds,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        status = work()
    except SystemExit as error:
        status = error.code
    except MemoryError:
        os.write(2, OVER_MEMORY.encode())
        status = 2
    except BaseException:
        os.write(2, b"\nunexpected " + traceback.format_exc().encode(errors="replace"))
        status = UNEXPECTED
    os._exit(status if isinstance(status, int) else UNEXPECTED)


def _read(reader: int, deadline: float) -> tuple[bytes, bool]:
    """All that is written, and whether the writer is still there when time is up."""
    parts = []
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            if not (part := pipe.read(1 << 16)):
                return b"".join(parts), False
            parts.append(part)
    return b"".join(parts), True
