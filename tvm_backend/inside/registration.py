"""What TVM knows of archloom: ``archloom.call``, a code generator for each target and for the host, errors, patterns.

TVM calls :func:`autoload` when it is imported (entry point ``archloom`` of the group ``tvm.backends``), which imports
nothing but names. Patterns and pipelines are made known by ``import archloom.tvm``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import tvm_ffi

from archloom.oracle import errors
from archloom.oracle.errors import TargetError
from archloom.tvm_backend.inside.stubs import CALL
from archloom.tvm_backend.targets import registry

_announced: set[str] = set()
_patterns: set[str] = set()


def autoload() -> None:
    """Register what libraries and ``RunCodegen`` call; each imports what it needs when it is first called."""
    if _announced:
        return
    for error in (*_subclasses(errors.ArchloomError), KeyboardInterrupt):
        tvm_ffi.register_error(error.__name__, error)  # they cross C++ as what they are
    tvm_ffi.register_global_func(CALL, _call, override=True)
    for name in (registry.HOST, *registry.names()):
        if not _has_codegen(name):  # else it is refused when the target is asked for
            announce(name)
    registry.listen(announce)


def announce(name: str) -> None:
    """Register the code generator ``relax.ext.<name>`` of a target; once ``archloom.tvm`` is imported, its patterns
    and its pipeline. TargetError where TVM has a code generator of that name."""
    if name not in _announced:
        if _has_codegen(name):
            raise TargetError(f"target {name!r}: TVM has a code generator of that name (relax.ext.{name}); the target "
                              "needs another")
        _announced.add(name)

        def generate(functions: Sequence[Any], options: Any, constant_names: Any) -> list[Any]:
            from archloom.tvm_backend.inside import codegen

            return codegen.generate(name, list(functions), dict(options or {}))

        tvm_ffi.register_global_func(f"relax.ext.{name}", generate, override=True)
    if _patterns:
        _make_known(name)


def _has_codegen(name: str) -> bool:
    return tvm_ffi.get_global_func(f"relax.ext.{name}", allow_missing=True) is not None


def _subclasses(error: type[Exception]) -> list[type[Exception]]:
    return [error, *(e for direct in error.__subclasses__() for e in _subclasses(direct))]


def _call(*arguments: Any) -> Any:
    """The first call of a library's function: from then on its own takes the place of this one."""
    from archloom.tvm_backend.inside import running

    tvm_ffi.register_global_func(CALL, running.call, override=True)
    return running.call(*arguments)


def register_patterns(name: str) -> None:
    """Put a target's patterns into TVM's registry under ``name.``, with checks at the target's default options."""
    from tvm.relax.backend.pattern_registry import register_patterns as register

    from archloom.tvm_backend.ir.patterns import to_relax
    from archloom.tvm_backend.targets.choice import choose
    from archloom.tvm_backend.targets.partition import patterns_of

    (chosen,) = choose(name)
    found = patterns_of(chosen)
    # there, later ones win
    register([(label, to_relax(pattern), {}, check) for label, pattern, check in reversed(found)])


def use() -> None:
    """Make patterns and pipelines of all targets known: what ``import archloom.tvm`` does. Of a target that cannot be
    loaded a warning says why; whoever asks for it gets the error."""
    autoload()
    for name in registry.names():
        try:
            _make_known(name)
        except TargetError as error:
            warnings.warn(f"archloom.tvm: {error}", stacklevel=2)


def _make_known(name: str) -> None:
    """Register patterns and pipeline of a target, once."""
    from tvm import relax

    from archloom.tvm_backend.inside import passes

    if name in _patterns:
        return
    _patterns.add(name)  # loading the target announces it
    try:
        register_patterns(name)
    except TargetError:
        _patterns.discard(name)
        raise
    relax.register_pipeline(f"archloom_{name}")(passes.pipeline_of(name))
