"""TAIDL: an accelerator's storage, control registers and instructions as text (MICRO 2025), and its meaning.

>>> from archloom.oracle import taidl
>>> isa = taidl.load("gemmini", dim=8)
>>> isa.buffer("spad").shape
(16384, 8)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from archloom.oracle.errors import TaidlError, suggest
from archloom.oracle.memory import paused
from archloom.oracle.reading import TEXT_BYTES, read_bytes
from archloom.oracle.taidl import ast, keeping
from archloom.oracle.taidl.isa import Instruction, Isa, Register, bind, check, declare, instantiate
from archloom.oracle.taidl.operators.control import register_function
from archloom.oracle.taidl.parser import parse

__all__ = [
    "Instruction", "Isa", "Register", "available", "check", "declared", "forget", "instantiate", "load", "parameter",
    "parse", "register", "register_function",
]

_ISAS = Path(__file__).parent.parent / "isas"
_registered: dict[str, Path] = {}
_Version: TypeAlias = tuple[str, int, int]
"""A file as it is now: path, time of the last change in ns, bytes."""


def available() -> list[str]:
    """The names of the ISAs that come with the package, and of those registered."""
    return sorted({*_registered, *(p.stem for p in _ISAS.glob("*.taidl"))})


def register(path: str | Path) -> str:
    """Make the ISA in a ``.taidl`` file known under its own name, which is given back.

    TaidlError for a description that does not parse or check, or whose name another file has.
    """
    path = Path(path).resolve()
    name = _read(_files(_find(path)))[0].name
    taken = _registered.get(name, _ISAS / f"{name}.taidl")
    if taken != path and taken.is_file():
        raise TaidlError(f"{path}: the name {name!r} is taken by {taken}")
    _registered[name] = path
    return name


def load(name_or_path: str | Path, **parameters: int) -> Isa:
    """The checked ISA of that name, or of a ``.taidl`` file, with the parameters given and defaults for the others.

    Cached by files and parameters. Raises TaidlError for a description that does not parse or check (or is not there)
    and TargetError for a parameter that is unknown or out of range.
    """
    files = _files(_find(name_or_path))
    return _bound(files, bind(_read(files)[0], parameters))


def declared(name_or_path: str | Path, **parameters: int) -> Isa:
    """The parameters, constants and buffers of an ISA, which is not checked for it, and without its instructions: what
    an architecture graph is made from. Raises as :func:`load` does."""
    files = _files(_find(name_or_path))
    return _declared(files, bind(_joined(files), parameters))


def parameter(name_or_path: str | Path, name: str) -> ast.Parameter:
    """The parameter of that name of an ISA, which is not checked for it; TaidlError where it has none."""
    path = _find(name_or_path)
    known = {p.name: p for p in _joined(_files(path)).parameters}
    if name not in known:
        raise TaidlError(f"{path}: there is no parameter {name!r}{suggest(name, list(known))}")
    return known[name]


def _find(name_or_path: str | Path) -> Path:
    path = Path(name_or_path)
    if path.suffix != ".taidl":
        if str(name_or_path) not in available():
            raise TaidlError(f"there is no ISA {str(name_or_path)!r}{suggest(str(name_or_path), available())}")
        path = _registered.get(str(name_or_path), _ISAS / f"{name_or_path}.taidl")
    if not path.is_file():
        raise TaidlError(f"there is no file {path}")
    return path


def _files(path: Path, known: tuple[_Version, ...] = ()) -> tuple[_Version, ...]:
    """A file after those that it includes, each once; TaidlError for one that is not there."""
    stat = path.stat()
    version = (str(path), stat.st_mtime_ns, stat.st_size)
    if version in known:
        return known
    definition, files = _parsed(version), (*known, version)
    for include in definition.includes:
        beside = path.with_name(f"{include.name}.taidl")
        if not beside.is_file():
            raise TaidlError(f"there is no file {beside}", include.position, definition.source)
        files = _files(beside, files)
    return (*(f for f in files if f != version), version)


@lru_cache(maxsize=32)
def _parsed(version: _Version) -> ast.IsaDef:
    path = version[0]
    try:
        text = read_bytes(path, TEXT_BYTES, TaidlError).decode("utf-8-sig")
        return keeping.once("parsed", path, [text], lambda: parse(text, path))
    except UnicodeDecodeError as error:
        raise TaidlError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None


@lru_cache(maxsize=32)
@paused()
def _joined(files: tuple[_Version, ...]) -> ast.IsaDef:
    definition, *included = [_parsed(version) for version in reversed(files)]
    for each in included:
        definition = definition.after(each)
    return definition


@lru_cache(maxsize=16)
@paused()
def _read(files: tuple[_Version, ...]) -> tuple[ast.IsaDef, Mapping[str, Instruction]]:
    definition = _joined(files)
    texts = [*(text for _, text in definition.included), definition.source]
    return definition, keeping.once("checked", files[-1][0], texts, lambda: check(definition))


@lru_cache(maxsize=64)
def _declared(files: tuple[_Version, ...], parameters: tuple[tuple[str, int], ...]) -> Isa:
    return declare(_joined(files), dict(parameters))


@lru_cache(maxsize=64)
def _bound(files: tuple[_Version, ...], parameters: tuple[tuple[str, int], ...]) -> Isa:
    definition, instructions = _read(files)
    return instantiate(definition, dict(parameters), instructions)


def forget() -> None:
    """Forget the ISAs that :func:`load` has bound, and with each what is kept with it, such as specializations."""
    _bound.cache_clear()
