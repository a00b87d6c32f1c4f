"""Searches for many workloads at once, by as many processes as there are cores.

Processes are forked: they have everything loaded, start within milliseconds and end when there is nothing left to look
for. Where a fork is not safe (other threads, or libraries that start some) or not worth it, nothing is done here, and
each search takes place when its plan is asked for.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

from archloom.mapper import cache, search
from archloom.mapper.workload import Workload
from archloom.oracle.errors import ArchloomError, InputError, MappingError

if TYPE_CHECKING:
    from archloom.mapper.accelerator import Accelerator

Wanted = tuple["Workload", "Accelerator", Any]
"""A workload, the accelerator, and its options."""

ENVIRONMENT = "ARCHLOOM_PROCESSES"
"""How many processes may search at once (default: one for each core)."""
FEWEST_SEARCHES = 4
"""Fewer searches than these are done one after another."""
THREADED = ("jax", "torch", "tvm", "onnxruntime", "tensorflow")
"""Packages that start threads of their own, whose locks a forked process would inherit."""
_JOB = struct.Struct("<I")


def look_ahead(wanted: Sequence[Wanted], heard: Callable[[int], None] | None = None) -> int:
    """Search for what is not known yet of ``wanted``; returns the number of processes that did (0: nothing done).

    What is found is remembered, and kept on disk where there is a cache: :func:`archloom.mapper.search.search` finds it
    there. Errors are left to that. ``heard`` is told the positions in ``wanted`` that this process takes up.
    """
    processes = _processes()
    if processes < 2:
        return 0
    distinct = {search.key_of(w, a.configure(o)): i for i, (w, a, o) in reversed(list(enumerate(wanted)))}
    unknown = [i for key, i in distinct.items() if search.KEPT.get(key, cache.from_json) is None]
    if len(unknown) < FEWEST_SEARCHES:
        return 0
    # the heaviest first, so that none is left over for one process at the end
    unknown.sort(key=lambda i: -wanted[i][0].macs)
    search.warm(wanted[unknown[0]][1].configure(wanted[unknown[0]][2]))
    processes = min(processes, len(unknown) // 2)
    with _Queue(unknown) as queue:
        children = [_fork(wanted, queue) for _ in range(processes - 1)]
        for i in queue.jobs():
            if heard is not None:
                heard(i)
            _searched(wanted[i])
        for child, found in children:
            os.waitpid(child, 0)
            for key, entry in _read(found):
                search.KEPT.remember(key, entry)
    return processes


def _processes() -> int:
    """How many processes may work here: 1 where a fork is not safe. InputError for a number that is none."""
    asked = os.environ.get(ENVIRONMENT, "")
    if asked and not asked.isdecimal():
        raise InputError(f"{ENVIRONMENT}: expected a number of processes, found {asked!r}")
    if not sys.platform.startswith("linux") or not _alone() or any(m in sys.modules for m in THREADED):
        return 1
    cores = len(os.sched_getaffinity(0))
    return min(cores, int(asked)) if asked else cores


def _alone() -> bool:
    """Whether no other thread may hold a lock at a fork, which nobody would release in the new process.

    Threads with a true attribute ``forkable`` see to that themselves, as the one that draws progress does.
    """
    mine = threading.current_thread()
    return all(thread is mine or getattr(thread, "forkable", False) for thread in threading.enumerate())


class _Queue:
    """Numbers in a pipe, from which each process takes the next: small reads of a pipe are not torn."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = numbers[: 65536 // _JOB.size]  # what a pipe holds; the rest is searched for one by one

    def __enter__(self) -> "_Queue":
        self.end, put = os.pipe()
        with os.fdopen(put, "wb") as pipe:
            pipe.write(b"".join(_JOB.pack(i) for i in self.numbers))
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.end)

    def jobs(self) -> Iterator[int]:
        """The numbers that this process takes."""
        while len(text := os.read(self.end, _JOB.size)) == _JOB.size:
            yield _JOB.unpack(text)[0]


def _fork(wanted: Sequence[Wanted], queue: _Queue) -> tuple[int, IO[bytes]]:
    """A process that takes jobs and writes what it finds into the file returned."""
    found = tempfile.TemporaryFile()  # noqa: SIM115 (closed by whoever reads it)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # later Pythons warn of NumPy's idle threads
        child = os.fork()
    if child:
        return child, found
    try:
        for i in queue.jobs():
            result = _searched(wanted[i])
            if result is not None:
                key, entry = result
                found.write(json.dumps([key, cache.to_json(entry)]).encode() + b"\n")
                found.flush()
    finally:
        os._exit(0)  # nothing of the parent's may be flushed or ended here


def _searched(wanted: Wanted) -> tuple[str, cache.Entry] | None:
    """The entry of a workload; None where the search fails, which it will do again where its plan is asked for."""
    workload, accelerator, options = wanted
    try:
        return search.found(workload, accelerator.configure(options))
    except ArchloomError:
        return None


def _read(found: IO[bytes]) -> Iterator[tuple[str, cache.Entry]]:
    """What a process has written; a last line that was cut off is left out."""
    with found:
        found.seek(0)
        for line in found:
            try:
                key, body = json.loads(line)
                yield key, cache.from_json(body)
            except (ValueError, KeyError, TypeError, MappingError):
                return
