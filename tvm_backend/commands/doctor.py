"""``doctor``: what is installed, what is kept where, what makes archloom slow here, and whether it computes right."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import numpy as np

from archloom.mapper import disk
from archloom.mapper.cache import PLANS
from archloom.mapper.disk import ENVIRONMENT
from archloom.tvm_backend.commands import Outcome, arguments
from archloom.tvm_backend.host import profile
from archloom.tvm_backend.report.table import WARNING, Column, count, duration, render
from archloom.tvm_backend.version import VERSION

SIDE = 16
"""Rows and columns of the matrix that the self-check moves."""


def register(subparsers: Any) -> None:
    arguments.command(subparsers, "doctor", run, "what is installed, kept and slow here, and whether it computes right",
                      "Exit status 1 if the self-check fails.")


def run(args: argparse.Namespace) -> Outcome:
    packages, caches, slow, (failure, seconds) = _packages(), _caches(), list(_slow()), _self_check()
    data = {"version": VERSION, "python": platform.python_version(), "cores": _cores(), "packages": packages,
            "caches": caches, "host": profile.default().name, "slow": slow, "failure": failure,
            "check_seconds": seconds}
    kept = render((Column("kept in", limit=100), Column("files", "right"), Column("MiB", "right")), [
        [cache["path"], count(cache["files"]), f"{cache['bytes'] / 2**20:.1f}"] for cache in caches])
    text = "\n\n".join(filter(None, [
        f"archloom {VERSION}, Python {data['python']} ({sys.executable}), {data['cores']} cores",
        render((Column("package"), Column("version")), [[name, found or "–"] for name, found in packages.items()]),
        kept if caches else "", "\n".join(f"{WARNING}{reason}" for reason in slow),
        f"hosts are estimated as {data['host']!r} (archloom calibrate-host NAME measures this one)",
        f"FAILED: {failure}" if failure else f"passed: a kernel of gemmini, by XLA and by its interpreter, in "
                                             f"{duration(seconds)}"]))
    return Outcome(text, data, 1 if failure else 0)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _packages() -> dict[str, str | None]:
    """Versions of what archloom needs or can use, None of what is not there."""
    try:
        needed = [line.split(";")[0] for line in requires("archloom") or ()]
    except PackageNotFoundError:  # run from its sources
        needed = []
    names = ["".join(c if c.isalnum() or c in "-_." else " " for c in line).split()[0] for line in needed]
    return {name: _version(name) for name in dict.fromkeys([*names, "argcomplete", "pandas", "transformers"])}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _caches() -> list[dict[str, Any]]:
    """Folders of what is kept, with numbers and sizes of files."""
    return [_measured(folder) for folder in (disk.folder(), profile.folder()) if folder is not None and folder.is_dir()]


def _measured(folder: Path) -> dict[str, Any]:
    sizes = [p.stat().st_size for p in folder.rglob("*") if p.is_file()]
    return {"path": str(folder), "files": len(sizes), "bytes": sum(sizes)}


def _slow() -> Iterator[str]:
    """What makes archloom slower here than it is elsewhere, and what helps."""
    from archloom.acadl_models.timing.engine import compiling

    folder = disk.folder()
    if folder is None:
        yield f"nothing is kept: {ENVIRONMENT} is empty, so that each command searches and compiles anew; unset it"
    else:
        near = next(p for p in (folder, *folder.parents) if p.exists())
        if not os.access(near, os.W_OK):
            yield f"nothing is kept: {near} cannot be written; name another folder in {ENVIRONMENT}"
        if not any(kind.name == PLANS for kind in disk.kinds()):
            yield "no plan is kept yet: the first estimate of a network searches for its own"
    if compiling.kept("run") is None:
        yield "the timing engine is not compiled yet: the first command that needs it does so, in some seconds"
    if _cores() == 1:
        yield "one core: plans are searched for one after another"


def _self_check() -> tuple[str | None, float]:
    """What is wrong, if anything, with a kernel that moves a matrix; and how long that took."""
    from archloom.oracle.kernel import isa

    start = time.monotonic()
    gemmini = isa("gemmini", dim=SIDE)
    matrix = np.random.default_rng(0).integers(-128, 128, (SIDE, SIDE), np.int8)
    place = {"shape": matrix.shape, "dtype": "int8"}

    @gemmini.kernel(arg={"start": 64, **place}, res={"start": 64 + matrix.size, **place})
    def copy() -> None:
        gemmini.api.config_ld(channel=0, stride=SIDE, scale=gemmini.ONE, shrunk=0, block_stride=SIDE)
        gemmini.api.config_st(SIDE, 0, gemmini.ONE, *[0] * 9)
        gemmini.api.mvin(dram=64, local=0, cols=SIDE, rows=SIDE)
        gemmini.api.mvout(dram=64 + matrix.size, local=0, cols=SIDE, rows=SIDE)

    found = {"XLA": copy(matrix), "the interpreter": copy.interpret(matrix)}
    wrong = [who for who, result in found.items() if not np.array_equal(np.asarray(result), matrix)]
    failure = f"a matrix that gemmini loads and stores comes out otherwise by {' and '.join(wrong)}" if wrong else None
    return failure, time.monotonic() - start
