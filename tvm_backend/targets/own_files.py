"""Targets of a user's own Python files: run as the user's own code, they register their targets.

A file is given where a target is asked for (``--target tiles.py``), or in the environment variable
``ARCHLOOM_TARGETS`` (several parted by the system's separator of paths), for commands that ask for none.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archloom.oracle.errors import ArchloomError, TargetError

ENVIRONMENT = "ARCHLOOM_TARGETS"

@dataclass(frozen=True)
class Ran:
    """What a file has registered, and the values of its module's variables."""

    targets: tuple[str, ...]
    values: Mapping[str, Any]


_done: dict[Path, Ran] = {}


def target_in(file: str) -> str:
    """The name of the target that a file registers; TargetError unless it is one."""
    names = run(Path(file)).targets
    if len(names) != 1:
        raise TargetError(f"{file}: expected a file that registers one target (Mine().register()), found "
                          f"{', '.join(names) or 'none'}")
    return names[0]


def run_all() -> bool:
    """Run the files that the environment names; whether there was one that had not been run."""
    files = [Path(f) for f in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if f]
    new = [f for f in files if f.resolve() not in _done]
    for file in new:
        run(file)
    return bool(new)


def run(file: Path) -> Ran:
    """Run a file, once. TargetError with the file's name for what its code raises, but for archloom's own errors."""
    from archloom.tvm_backend.targets import registry

    path = file.resolve()
    if path not in _done:
        if not path.is_file():
            raise TargetError(f"{file}: no such file")
        before = set(registry.names_loaded())
        name = f"archloom_target_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look for their module
        try:
            spec.loader.exec_module(module)
        except ArchloomError:
            raise
        except (Exception, SystemExit) as error:  # the user's own code may fail in any way
            raise TargetError(f"{file}: {type(error).__name__}: {error}") from error
        _done[path] = Ran(tuple(sorted(set(registry.names_loaded()) - before)), vars(module))
    return _done[path]
