"""What TVM knows of archloom: ``archloom.call``, a code generator for each target and for the host, errors, patterns.

TVM calls :func:`autoload` when it is imported (entry point ``archloom`` of the group ``tvm.backends``), which imports
nothing but names. Patterns and pipelines are made known by ``import archloom.tvm``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi

from archloom.oracle import errors
from archloom.tvm_backend.targets import registry

HOST = "archloom_host"

_announced: set[str] = set()
_patterns: set[str] = set()


def autoload() -> None:
    """Register what libraries and ``RunCodegen`` call; each imports what it needs when it is first called."""
    for error in _subclasses(errors.ArchloomError):
        tvm_ffi.register_error(error.__name__, error)  # they cross C++ as what they are
    tvm_ffi.register_global_func("archloom.call", _call, override=True)
    for name in (HOST, *registry.names()):
        announce(name)


def announce(name: str) -> None:
    """Register the code generator ``relax.ext.<name>`` of a target."""
    if name in _announced:
        return
    _announced.add(name)

    def generate(functions: Sequence[Any], options: Any, constant_names: Any) -> list[Any]:
        from archloom.tvm_backend.inside import codegen

        return codegen.generate(name, list(functions), dict(options or {}), constant_names)

    tvm_ffi.register_global_func(f"relax.ext.{name}", generate, override=True)
    if _patterns:  # archloom.tvm is in use
        register_patterns(name)


def _subclasses(error: type[Exception]) -> list[type[Exception]]:
    return [error, *(e for direct in error.__subclasses__() for e in _subclasses(direct))]


def _call(*arguments: Any) -> Any:
    """The first call of a library's function: from then on its own takes the place of this one."""
    from archloom.tvm_backend.inside import running

    tvm_ffi.register_global_func("archloom.call", running.call, override=True)
    return running.call(*arguments)


def register_patterns(name: str) -> None:
    """Put a target's patterns into TVM's registry under ``name.``, with checks at the target's default options."""
    from tvm.relax.backend.pattern_registry import register_patterns as register

    from archloom.tvm_backend.ir.patterns import to_relax
    from archloom.tvm_backend.targets.choice import choose
    from archloom.tvm_backend.targets.partition import patterns_of

    if name in _patterns or name == HOST:
        return
    _patterns.add(name)
    (chosen,) = choose(name)
    found = patterns_of(chosen)
    # there, later ones win
    register([(label, to_relax(pattern), {}, check) for label, pattern, check in reversed(found)])


def use() -> None:
    """Make patterns and pipelines of all targets known: what ``import archloom.tvm`` does."""
    from tvm import relax

    from archloom.tvm_backend.inside import passes

    autoload()
    for name in registry.names():
        register_patterns(name)
        if f"archloom_{name}" not in relax.pipeline.PIPELINE_MAP:
            relax.register_pipeline(f"archloom_{name}")(passes.pipeline_of(name))
