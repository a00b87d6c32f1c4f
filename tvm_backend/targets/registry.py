"""Targets by name: those built in, and those that other packages offer in the entry-point group ``archloom.targets``.

An entry point names a subclass of :class:`~archloom.tvm_backend.targets.backend.UMABackend`. A target's module is
imported, by its name, when the target is first used: nothing depends on the packages of targets.
"""

from __future__ import annotations

import importlib
import re
import threading
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from archloom.oracle.errors import TargetError, suggest
from archloom.tvm_backend.targets import own_files

if TYPE_CHECKING:
    from archloom.tvm_backend.targets.backend import UMABackend

GROUP = "archloom.targets"
BUILT_IN = {
    "ai_engine": "archloom.uma_targets.ai_engine.target:AiEngine",
    "amx": "archloom.uma_targets.amx.target:Amx",
    "eyeriss": "archloom.uma_targets.eyeriss.target:Eyeriss",
    "gamma": "archloom.uma_targets.gamma.target:Gamma",
    "gemmini": "archloom.uma_targets.gemmini.target:Gemmini",
    "mesh": "archloom.uma_targets.mesh.target:Mesh",
    "oma": "archloom.uma_targets.oma.target:Oma",
    "plasticine": "archloom.uma_targets.plasticine.target:Plasticine",
    "qkv": "archloom.uma_targets.qkv.target:Qkv",
    "systolic_array": "archloom.uma_targets.systolic_array.target:SystolicArray",
    "tpu_v1": "archloom.uma_targets.tpu_v1.target:TpuV1",
    "triple_ring": "archloom.uma_targets.triple_ring.target:TripleRing",
    "ultratrail": "archloom.uma_targets.ultratrail.target:UltraTrail",
    "wormhole": "archloom.uma_targets.wormhole.target:Wormhole",
}

RESERVED = frozenset({"host", "llvm", "xla"})
"""Names of those who run what no target takes."""

_lock = threading.RLock()
_loaded: dict[str, "UMABackend"] = {}


def names() -> list[str]:
    """All names of targets, sorted; nothing is imported."""
    return sorted({*BUILT_IN, *_loaded, *_offered()})


def names_loaded() -> list[str]:
    """Names of the targets that are in use, or registered by code that has run."""
    with _lock:
        return list(_loaded)


def get(name: str) -> "UMABackend":
    """The target of that name. Raises :class:`~archloom.oracle.errors.TargetError` for an unknown or broken one."""
    with _lock:
        if name not in _loaded and not _is_known(name):
            own_files.run_all()
        if name not in _loaded:
            add(_instantiate(name))
        return _loaded[name]


def add(backend: "UMABackend") -> None:
    """Take a target into the registry (:meth:`UMABackend.register` calls it)."""
    from archloom.tvm_backend.targets.backend import UMABackend

    name = backend.target_name
    if not isinstance(backend, UMABackend) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
        raise TargetError(f"expected a target named by letters, digits, '_' and '-', found {name!r}")
    if name in RESERVED:
        raise TargetError(f"target {name!r}: the name stands for a part of the host; {_origin(backend)} needs another")
    with _lock:
        taken = _loaded.get(name)
        if taken is not None and taken is not backend:
            raise TargetError(
                f"target {name!r} is registered already, by {_origin(taken)}; {_origin(backend)} needs another name"
            )
        own = f"{type(backend).__module__}:{type(backend).__name__}"
        if taken is None and BUILT_IN.get(name, own) != own:
            raise TargetError(f"target {name!r} is built in; {_origin(backend)} needs another name")
        backend.validate()
        _loaded[name] = backend


def tag(name: str) -> str:
    """The TVM target tag of a target (``archloom/NAME``), registered with TVM on first use."""
    from archloom.tvm_backend.ir import compat

    backend = get(name)
    label = f"archloom/{backend.target_name}"
    compat.register_tag(label, {"kind": "ext_dev", "keys": [backend.target_name]})
    return label


def _origin(backend: "UMABackend") -> str:
    return f"{type(backend).__module__}.{type(backend).__qualname__}"


def _is_known(name: str) -> bool:
    return name in BUILT_IN or name in _offered()


def _offered() -> dict[str, EntryPoint]:
    return {e.name: e for e in entry_points(group=GROUP)}


def _instantiate(name: str) -> "UMABackend":
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        backend: UMABackend = getattr(importlib.import_module(module), attribute)()
        return backend
    offered = _offered().get(name)
    if offered is None:
        raise TargetError(f"unknown target {name!r}{suggest(name, names())}; one of your own: --target FILE.py, or its "
                          f"file in {own_files.ENVIRONMENT}")
    try:
        make = offered.load()
        backend = _loaded.get(name) or make()  # a module may register its target when it is imported
    except Exception as error:  # a stranger's package may fail in any way
        raise TargetError(
            f"target {name!r} ({offered.value}): cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if getattr(backend, "target_name", None) != name:
        raise TargetError(
            f"entry point {name!r} ({offered.value}): expected a target of that name, found "
            f"{getattr(backend, 'target_name', None)!r}"
        )
    return backend
