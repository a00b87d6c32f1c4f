"""Plans that are kept: by key, in the process and on disk, each searched for by one process at a time."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Generic, TypeVar
from uuid import uuid4

from archloom.acadl_models.timing.result import EnergyUse, TimingResult
from archloom.mapper import disk
from archloom.mapper.mapping import Mapping
from archloom.oracle.errors import MappingError
from archloom.oracle.memory import Remembered
from archloom.oracle.records import plain

T = TypeVar("T")
PLANS = "plans"
"""The kind of results that plans are on disk."""


@dataclass(frozen=True)
class Entry:
    """What a search found: enough to emit the stream again and to report on it.

    ``considered`` candidates were looked at, ``fitting`` of them fit the memories, ``simulated`` of those were
    simulated; ``estimated_cycles`` is what the cost model said of the one chosen. No mapping takes fewer than
    ``bound_cycles`` (:mod:`archloom.mapper.bounds`); 0 where that was not found out.
    """

    mapping: Mapping
    timing: TimingResult
    estimated_cycles: float
    considered: int
    fitting: int
    simulated: int
    energy: EnergyUse | None = None
    """None where it is not known, or was not found out."""
    bound_cycles: int = 0


def key_of(parts: Iterable[str]) -> str:
    """SHA-256 over the parts, in order."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


_ROOT = Path(__file__).resolve().parent.parent
"""Where the packages lie: in a checkout beside other code, such as examples of targets."""


@lru_cache(maxsize=8)
def code_fingerprint(*packages: str) -> str:
    """Changes whenever a source file of the packages does, so that no plan outlives the code that made it."""
    parts = []
    for package in packages:
        root = _ROOT / package
        for path in (path for kind in ("py", "taidl", "csv", "toml") for path in sorted(root.rglob(f"*.{kind}"))):
            status = path.stat()
            parts.append(f"{path.relative_to(root)}:{status.st_size}:{status.st_mtime_ns}")
    return key_of(parts)


def origin_fingerprint(functions: Iterable[Callable[..., Any]], packages: tuple[str, ...]) -> str:
    """Changes whenever a file beside one that defines any of ``functions`` does: the code of targets of other packages
    than ``packages``, whose code has :func:`code_fingerprint`; "" where there is none.

    Code that lies in no file (typed in, or made at run time) may change unseen: what is found with it is kept under a
    key that no other process and no other function has.
    """
    origins = dict.fromkeys(_origin(_code_of(function), packages) for function in functions)
    parts = [str(part) for origin in origins for part in (_files(origin) if isinstance(origin, Path) else [origin])]
    return key_of(parts) if any(parts) else ""


def _files(folder: Path) -> Iterator[str]:
    """The files of a folder as they are now."""
    for file in sorted(folder.iterdir()):
        if file.suffix in (".py", ".taidl"):
            status = file.stat()
            yield f"{file.name}:{status.st_size}:{status.st_mtime_ns}"


def _code_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """What of a function lies in a file; of an object that can be called its class."""
    code: Any = inspect.unwrap(function)
    while isinstance(code, partial):
        code = inspect.unwrap(code.func)
    return code if inspect.isroutine(code) or inspect.isclass(code) else type(code)


@lru_cache(maxsize=1024)
def _origin(code: Callable[..., Any], packages: tuple[str, ...]) -> Path | str:
    """The folder in which ``code`` is written; "" for one of ``packages``, a word of its own for one in no file."""
    try:
        name = inspect.getsourcefile(code)
    except TypeError:  # a class or a built-in without a file
        name = None
    if name is None or not Path(name).is_file():
        return uuid4().hex
    folder = Path(name).resolve().parent
    ours = (_ROOT / package for package in packages)
    return "" if any(package == folder or package in folder.parents for package in ours) else folder


def load_plan(key: str, read: Callable[[Any], T]) -> T | None:
    """What ``read`` makes of the JSON value that is kept under ``key``; None if there is nothing or it is no plan."""
    data = disk.load(PLANS, key)
    try:
        return None if data is None else read(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, MappingError):
        return None


def store_plan(key: str, body: Any) -> None:
    """Keep what JSON can hold; a cache that cannot be written is no reason to fail."""
    disk.store(PLANS, key, json.dumps(body).encode())


class Kept(Generic[T]):
    """What searches have found, by key: in the process, which remembers ``most``, and on disk, where other processes
    find it, too. What is read again from there takes a millisecond; few networks have as many layers that differ."""

    def __init__(self, most: int = 256) -> None:
        self._known = Remembered[str, T](most)

    def __contains__(self, key: str) -> bool:
        """Whether this process knows it without looking at the disk."""
        return key in self._known

    def get(self, key: str, read: Callable[[Any], T]) -> T | None:
        """What this process remembers, or the disk holds; ``read`` makes it of its JSON form."""
        found = self._known.get(key)
        if found is None:
            found = load_plan(key, read)
            if found is not None:
                self.remember(key, found)
        return found

    def once(self, key: str, read: Callable[[Any], T], write: Callable[[T], Any], find: Callable[[], T]) -> T:
        """What is known, or else what ``find`` finds: one process at a time, while others wait and read that."""
        found = self.get(key, read)
        if found is None:
            with claim(key):
                found = self.get(key, read)
                if found is None:
                    found = find()
                    self.remember(key, found)
                    store_plan(key, write(found))
        return found

    def remember(self, key: str, value: T) -> None:
        """Keep it in this process."""
        self._known[key] = value

    def forget(self) -> None:
        """Drop what this process remembers; what is on disk stays."""
        self._known.clear()


_mine = threading.local()
"""``locked``: the locks of this thread."""

PATIENCE_SECONDS = 120.0
"""How long a process waits for what another one is looking for before it looks itself."""


@contextlib.contextmanager
def claim(key: str) -> Iterator[None]:
    """Hold the right to look for ``key``: read the cache again once it is held.

    Keys share a few locks; a thread that holds one goes on. Where there is no folder for them, or patience ends,
    nobody is kept out.
    """
    root = disk.folder()
    lock = None
    locked: set[str] = _mine.__dict__.setdefault("locked", set())
    if root is not None and key[:2] not in locked:
        from filelock import FileLock, Timeout

        try:
            (root / "locks").mkdir(parents=True, exist_ok=True)
            lock = FileLock(root / "locks" / key[:2])
            lock.acquire(timeout=PATIENCE_SECONDS)
        except (OSError, Timeout):
            lock = None
    if lock is not None:
        locked.add(key[:2])
    try:
        yield
    finally:
        if lock is not None:
            locked.remove(key[:2])
            lock.release()


def to_json(entry: Entry) -> dict[str, Any]:
    found = {each.name: getattr(entry, each.name) for each in fields(Entry)}
    return found | {"mapping": json.loads(entry.mapping.to_json()), "timing": entry.timing.to_json(),
                    "energy": plain(entry.energy)}


def from_json(body: MappingABC[str, Any]) -> Entry:
    """The entry that :func:`to_json` wrote; KeyError, TypeError, ValueError or MappingError for anything else."""
    return Entry(
        Mapping.from_json(json.dumps(body["mapping"])), TimingResult.from_json(body["timing"]),
        float(body["estimated_cycles"]), int(body["considered"]), int(body["fitting"]), int(body["simulated"]),
        None if body["energy"] is None else EnergyUse.from_json(body["energy"]), int(body["bound_cycles"]),
    )
