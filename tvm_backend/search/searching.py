"""Searches as users begin them, in Python and on the command line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from archloom.oracle.errors import InputError
from archloom.tvm_backend import cache
from archloom.tvm_backend.host.profile import HostProfile
from archloom.tvm_backend.progress import Progress
from archloom.tvm_backend.search.content import of_function
from archloom.tvm_backend.search.evaluate import Context
from archloom.tvm_backend.search.figures import ACCURACY
from archloom.tvm_backend.search.objectives import Aims, aims
from archloom.tvm_backend.search.result import SearchResult, result_of
from archloom.tvm_backend.search.run import Run
from archloom.tvm_backend.search.samplers.choice import refuse_unknown
from archloom.tvm_backend.search.samplers.choice import sampler as sampler_of
from archloom.tvm_backend.search.space import space_of
from archloom.tvm_backend.search.store import FILE, Store
from archloom.tvm_backend.search.study import Study
from archloom.tvm_backend.search.workers import workers as workers_of

STUDY = "archloom"
"""What a study is called of a search that has no folder."""


def search(
    space: Any, *, trials: int | None = None, objectives: Any = "seconds", constraints: Any = (), sampler: Any = None,
    seed: int = 0, workers: int = 1, cluster: str | None = None, output: str | Path | None = None,
    profile: HostProfile | None = None, inputs: Any = None, labels: Any = None, bounds: bool = True,
    study: Any = None, progress: Progress | None = None,
) -> SearchResult:
    """Look for the best candidates of a space; see :func:`archloom.search`."""
    if trials is not None and trials < 1:
        raise InputError(f"trials: expected at least 1, found {trials}")
    refuse_unknown(sampler)
    where, wanted = space_of(space), aims(objectives, constraints)
    if trials is None and sampler != "grid":
        raise InputError("trials: expected how many, unless the sampler is 'grid', which comes to an end")
    context = Context(profile, wanted.names, wanted.functions, inputs, labels)
    chosen = sampler_of(sampler, where, wanted, seed, trials)
    folder = None if output is None else Path(output)
    with _kept(folder, _definition(wanted, context, folder)) as store, workers_of(workers, cluster) as at_work:
        seen = None if study is None else Study(study, STUDY if folder is None else folder.absolute().name, wanted)
        run = Run(where, wanted, chosen, store, at_work, context, trials, bounds, progress, seen)
        run.go()
        return result_of(store, folder, sampler=chosen.name, spent=run.spent)


def _definition(wanted: Aims, context: Context, folder: Path | None) -> dict[str, Any]:
    """All that results depend on beside the candidates: one search keeps what was found under one of it."""
    stated = {**wanted.to_json(), "host": context.profile.name if context.profile else "none", "code": cache.key([])}
    if folder is not None:
        stated |= {f"function {name}": of_function(function)[:12] for name, function in wanted.functions.items()}
    if ACCURACY in wanted.names and context.has_labels:
        stated["samples"] = _digest(context.inputs, context.labels)
    return stated


def _digest(*arrays: Any) -> str:
    """Of arrays, of mappings of them, or of the name of a data set."""
    digest = hashlib.sha256()
    for given in filter(lambda array: array is not None, arrays):
        parts = given.items() if isinstance(given, dict) else [("", given)]
        for name, part in parts:
            array = np.asarray(part)
            digest.update(f"{name} {array.shape} {array.dtype};".encode() + array.tobytes())
    return digest.hexdigest()


@contextmanager
def _kept(folder: Path | None, definition: dict[str, Any]) -> Iterator[Store]:
    """The store of a folder, for this process alone to write to; one in memory, which stays open, without a folder."""
    if folder is None:
        yield Store.create(None, definition)
        return
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock")
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(f"{folder}: another process is searching there") from None
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from error
    with lock, Store.create(folder / FILE, definition) as store:
        yield store
