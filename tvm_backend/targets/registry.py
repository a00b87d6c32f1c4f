"""Targets by name: those built in, those that other packages offer in the entry-point group ``archloom.targets``, and
those of a user's own Python files, which register them when they are run.

An entry point names a subclass of :class:`~archloom.tvm_backend.targets.backend.UMABackend`. A target's module is
imported, by its name, when the target is first used: nothing depends on the packages of targets. A file is given where
a target is asked for (``--target tiles.py``), or in the environment variable ``ARCHLOOM_TARGETS`` (several parted by
the system's separator of paths), for commands that ask for none.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from archloom.mapper.options import Option
from archloom.oracle.errors import ArchloomError, TargetError, suggest
from archloom.oracle.pages import Heading, Table, fragment
from archloom.oracle.user_code import Misused, place_of, told

if TYPE_CHECKING:
    from archloom.tvm_backend.targets.backend import UMABackend

GROUP = "archloom.targets"
ENVIRONMENT = "ARCHLOOM_TARGETS"
BUILT_IN = {
    "ai_engine": "archloom.uma_targets.ai_engine:AiEngine",
    "amx": "archloom.uma_targets.amx:Amx",
    "eyeriss": "archloom.uma_targets.eyeriss.target:Eyeriss",
    "gamma": "archloom.uma_targets.gamma:Gamma",
    "gemmini": "archloom.uma_targets.gemmini.target:Gemmini",
    "mesh": "archloom.uma_targets.cores.target:Mesh",
    "mte": "archloom.uma_targets.mte.target:Mte",
    "oma": "archloom.uma_targets.oma:Oma",
    "plasticine": "archloom.uma_targets.plasticine.target:Plasticine",
    "qkv": "archloom.uma_targets.qkv:Qkv",
    "systolic_array": "archloom.uma_targets.systolic_array.target:SystolicArray",
    "tpu_v1": "archloom.uma_targets.tpu_v1.target:TpuV1",
    "triple_ring": "archloom.uma_targets.cores.target:TripleRing",
    "ultratrail": "archloom.uma_targets.ultratrail.target:UltraTrail",
    "wormhole": "archloom.uma_targets.cores.target:Wormhole",
}

HOST = "archloom_host"
"""Who runs the host in TVM: ``relax.ext.archloom_host``."""
RESERVED = frozenset({"host", "llvm", "xla", HOST})
"""Names of those who run what no target takes."""

_lock = threading.RLock()
_loaded: dict[str, "UMABackend"] = {}
_listeners: list[Callable[[str], None]] = []


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
        if name not in _loaded and name not in BUILT_IN and name not in _offered():
            run_own()
        if name not in _loaded:
            add(_instantiate(name))
        return _loaded[name]


def add(backend: "UMABackend") -> None:
    """Take a target into the registry (:meth:`UMABackend.register` calls it)."""
    name = backend.target_name
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
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
        try:
            for hear in _listeners if taken is None else ():
                hear(name)
        except TargetError:
            del _loaded[name]
            raise


def listen(hear: Callable[[str], None]) -> None:
    """Have ``hear`` called with the name of each target that comes into the registry from now on. What it raises as
    TargetError keeps the target out."""
    _listeners.append(hear)


def _origin(backend: "UMABackend") -> str:
    return f"{type(backend).__module__}.{type(backend).__qualname__}"


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
                          f"file in {ENVIRONMENT}")
    try:
        make = offered.load()
        backend = _loaded.get(name) or make()  # a module may register its target when it is imported
    except Exception as error:  # a stranger's package may fail in any way
        raise TargetError(
            f"target {name!r} ({offered.value}): cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if getattr(backend, "target_name", None) != name or not hasattr(backend, "validate"):
        raise TargetError(
            f"entry point {name!r} ({offered.value}): expected a target of that name, found "
            f"{getattr(backend, 'target_name', None)!r}"
        )
    return backend


# a user's own files ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ran:
    """What a file has registered, and the values of its module's variables."""

    targets: tuple[str, ...]
    values: Mapping[str, Any]


class _Fresh(SourceFileLoader):
    """Compiles a file each time. Python's cache takes two texts of one size within a second for the same, and leaves a
    folder beside the file."""

    def get_code(self, fullname: str) -> CodeType:
        """The code of the file as it is now."""
        return self.source_to_code(self.get_data(self.path), self.path)


_ran: dict[Path, Ran] = {}


def target_in(given: str) -> str:
    """The name of the target that a file registers, or one of several as ``FILE.py:NAME``; TargetError where it is not
    one."""
    file, colon, name = given.rpartition(":") if not given.endswith(".py") else (given, "", "")
    registered = run_file(Path(file)).targets
    if colon and name not in registered:
        raise TargetError(f"{file}: it registers no target {name!r}{suggest(name, list(registered))}")
    if not colon and len(registered) != 1:
        raise TargetError(f"{file}: expected a file that registers one target (Mine().register()), found "
                          f"{' and '.join(f'{file}:{name}' for name in registered) or 'none'}")
    return name or registered[0]


def located(name: str) -> str:
    """A target as any process finds it: its name or, for one that is a user's own, ``FILE.py:NAME``. TargetError where
    it is registered by the script that runs, or by hand: no file has it alone."""
    backend = get(name)
    if name in BUILT_IN or name in _offered():
        return name
    file = next((path for path, ran in _ran.items() if name in ran.targets), None) or _file_of(backend)
    if file is None:
        raise TargetError(f"target {name!r}: other processes find a target by its file, and {_origin(backend)} is part "
                          "of what runs here: put it into a file of its own and import that, or use one worker")
    return f"{file}:{name}"


def _file_of(backend: "UMABackend") -> Path | None:
    """The file of a target's module, where that is not the script itself."""
    module = type(backend).__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).resolve() if file and module != "__main__" else None


def is_file(given: str) -> bool:
    """Whether a target is given as ``FILE.py`` or ``FILE.py:NAME``."""
    return given.rpartition(".py")[2][:1] in ("", ":") and ".py" in given


def run_own() -> None:
    """Run the files that the environment names."""
    for file in filter(None, os.environ.get(ENVIRONMENT, "").split(os.pathsep)):
        run_file(Path(file))


def run_file(file: Path) -> Ran:
    """Run a file, once; it may import others beside it. TargetError with file and line for what its code raises, but
    for archloom's own errors."""
    path = file.resolve()
    if path not in _ran:
        if not path.is_file():
            raise TargetError(f"{file}: no such file")
        before = set(names_loaded())
        module = _imported(path) or _executed(path, file)
        # of what is new, what other files that it imports have registered is theirs
        own = {name for name, backend in _loaded.items() if type(backend).__module__ == module.__name__}
        _ran[path] = Ran(tuple(sorted(own or set(names_loaded()) - before)), vars(module))
    return _ran[path]


def _imported(path: Path) -> ModuleType | None:
    """The module of a file that another one has imported."""
    module = sys.modules.get(path.stem)
    there = module is not None and getattr(module, "__file__", None) == str(path)
    return module if there and not isinstance(getattr(module, "__loader__", None), _Fresh) else None


def _executed(path: Path, file: Path) -> ModuleType:
    """The module of a file, run with its folder as the first that it imports from."""
    free = path.stem.isidentifier() and path.stem not in sys.modules and importlib.util.find_spec(path.stem) is None
    name = path.stem if free else f"archloom_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_Fresh(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look for their module, others import it
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, Misused):
            raise TargetError(f"{place_of(error) or file}: {error.message}") from error
        if isinstance(error, ArchloomError) or not isinstance(error, (Exception, SystemExit)):
            raise
        raise TargetError(f"{place_of(error) or file}: {told(error)}") from error  # the user's code may fail in any way
    finally:
        sys.path.remove(str(path.parent))
    return module


# listings -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TargetInfo:
    """A target: its name, one line about it, and its options."""

    name: str
    description: str
    options: tuple[Option, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {self.description}", *(f"  {option}" for option in self.options)])

    def _repr_html_(self) -> str:
        """The options as a table, and a drawing of the graph at their defaults."""
        from archloom.acadl_models.acadl.draw import to_svg

        rows = tuple((o.name, "auto" if o.default is None else str(o.default), o.unit, o.expected, o.help)
                     for o in self.options)
        head, drawing = ("option", "default", "unit", "expected", ""), to_svg(get(self.name).accelerator.graph())
        described = fragment([Heading(4, f"{self.name}: {self.description}"), Table(head, rows)])
        return f"{described}\n{drawing[drawing.index('<svg'):]}"  # without the declaration that files begin with

    def to_json(self) -> dict[str, object]:
        """``options`` as objects with name, type, default, range or choices, unit and help."""
        return {"name": self.name, "description": self.description, "options": [_option(o) for o in self.options]}


def targets() -> list[TargetInfo]:
    """All registered targets by name."""
    return [info(name) for name in names()]


def info(name: str) -> TargetInfo:
    """One target; :class:`~archloom.oracle.errors.TargetError` with the valid names if there is none of that name."""
    backend = get(name)
    attributes = (Option(attribute, type(value), value, "attribute of the target")  # type: ignore[arg-type]
                  for attribute, value in backend.attributes.items())
    return TargetInfo(name, backend.description, (*backend.accelerator.options, *attributes))


def _option(option: Option) -> dict[str, object]:
    return {
        "name": option.name, "type": option.type.__name__, "default": option.default, "expected": option.expected,
        "low": option.low, "high": option.high, "choices": list(option.choices), "unit": option.unit,
        "help": option.help,
    }
