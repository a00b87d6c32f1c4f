"""What a shell completes a word by, after ``eval "$(register-python-argcomplete archloom)"``: names, cheap to know."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from typing import Any

ASKED = "_ARGCOMPLETE"
"""Environment variable by which argcomplete asks for completions."""

Completer = Callable[..., Iterable[str]]


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks, and end; return where none does."""
    if ASKED not in os.environ:
        return
    import argcomplete

    argcomplete.autocomplete(parser)


def completed_by(action: argparse.Action, completer: Completer) -> None:
    """Have the values of an argument completed."""
    action.completer = completer  # type: ignore[attr-defined]


def targets(prefix: str, **_: Any) -> list[str]:
    """Names of targets, the last of several parted by commas; and Python files."""
    from archloom.tvm_backend.targets import registry

    before, comma, _last = prefix.rpartition(",")
    return [f"{before}{comma}{name}" for name in registry.names()] + ([] if comma else _files(prefix, ".py"))


def options(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """``KEY=`` of the options of the targets that are named, and the values of those that have few."""
    from archloom.tvm_backend.targets import registry
    from archloom.tvm_backend.targets.choice import names_of

    found = []
    for name in names_of(parsed_args.target):
        for option in registry.info(name).options:
            values = option.choices or (("true", "false") if option.type is bool else ("",))
            found += [f"{option.name}={value}" for value in values]
    return found


def models(prefix: str, **_: Any) -> list[str]:
    """Networks of the catalogue, operators, and files of networks."""
    from archloom.models import catalogue
    from archloom.tvm_backend.sources import operators

    return [*catalogue.BY_NAME, *(f"{name}(" for name in operators.listed()), *_files(prefix, ".onnx", ".pt2")]


def hosts(prefix: str, **_: Any) -> list[str]:
    """Profiles of hosts."""
    from archloom.tvm_backend.host import profile

    return [*profile.names(), profile.NO_HOST]


def _files(prefix: str, *suffixes: str) -> list[str]:
    """Folders, and files that end in one of ``suffixes``, below what is typed."""
    folder = os.path.dirname(prefix)
    try:
        entries = list(os.scandir(folder or "."))
    except OSError:
        return []
    return [os.path.join(folder, e.name) + (os.sep if e.is_dir() else "") for e in entries
            if not e.name.startswith(".") and (e.is_dir() or e.name.endswith(suffixes))]
