"""Faults of code that a user wrote, told like those of any other input: file, line, message, and what it was about."""

from __future__ import annotations

import inspect
import linecache
import os
import site
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import UnionType
from typing import Any

from archloom.oracle.errors import ArchloomError, MappingError, StreamError, TargetError, counted

_LOCATED = (StreamError, MappingError)
"""Errors of ours that a mistake in a user's code may be."""
_PATHS = sysconfig.get_paths()
_LIBRARIES = tuple(os.path.realpath(path) + os.sep for path in {
    *(_PATHS[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")), *site.getsitepackages(),
    site.getusersitepackages()})


class Misused(TargetError):
    """A function or value of a user's is not what is asked for; ``place``: ``FILE:LINE``, where it is a function's."""

    def __init__(self, message: str, function: Callable[..., Any] | None = None) -> None:
        self.message, self.place = message, None if function is None else _defined(function)
        super().__init__(f"{self.place}: {message}" if self.place else message)


def called(function: Callable[..., Any], *arguments: Any, gives: type | UnionType) -> Any:
    """What a function that a user may have written gives; Misused where it is none, does not take as many arguments, or
    gives what is of another type."""
    if not callable(function):
        raise Misused(f"expected a function, found {function!r}")
    try:
        found = function(*arguments)
    except TypeError:
        if (shape := _shape(function)) is not None and not _takes(shape, arguments):
            taken = counted(len(arguments), "argument")
            raise Misused(f"expected a function of {taken}, found {_name(function)}{shape}", function) from None
        raise
    if not isinstance(found, gives):
        raise Misused(f"{_name(function)} gives {_title(found)}, expected {_expected(gives)}", function)
    return found


def among(function: Callable[..., Any], found: Iterable[Any], kinds: type | UnionType) -> list[Any]:
    """The list of what a function has given; Misused where one of it is of another type."""
    things = list(found)
    for thing in things:
        if not isinstance(thing, kinds):
            raise Misused(f"{_name(function)} gives {_title(thing)} among others, expected {_expected(kinds)}",
                          function)
    return things


def _inner(function: Callable[..., Any]) -> Any:
    while isinstance(function, partial):
        function = function.func
    return inspect.unwrap(function)


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(_inner(function), "__name__", function)).replace("<lambda>", "the lambda")


def _title(thing: Any) -> str:
    """A value as messages have it: what it is, where that is short."""
    shown = repr(thing)
    return shown if isinstance(thing, int | float | str | None) and len(shown) < 40 else f"a {type(thing).__name__}"


def _expected(kinds: type | UnionType) -> str:
    names = [kind.__name__ for kind in (kinds.__args__ if isinstance(kinds, UnionType) else (kinds,))]
    return " or ".join("None" if name == "NoneType" else name for name in names)


def _shape(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _takes(shape: inspect.Signature, arguments: tuple[Any, ...]) -> bool:
    try:
        shape.bind(*arguments)
    except TypeError:
        return False
    return True


def _defined(function: Callable[..., Any]) -> str | None:
    """``FILE:LINE`` where a user's function begins; None for others."""
    code = getattr(_inner(function), "__code__", None)
    module = f"{getattr(_inner(function), '__module__', '')}."
    if code is None or module.startswith("archloom.") or not _is_users(code.co_filename):
        return None
    return _shown(code.co_filename, code.co_firstlineno)


def place_of(error: BaseException) -> str | None:
    """``FILE:LINE`` of the innermost call that is neither ours nor a library's; None where there is none."""
    if isinstance(error, SyntaxError) and error.filename and _is_users(error.filename):
        return _shown(error.filename, error.lineno or 1)
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        name = f"{frame.f_globals.get('__name__')}."
        if not name.startswith("archloom.") and _is_users(frame.f_code.co_filename):
            found = _shown(frame.f_code.co_filename, line)
    return found


def line_of(place: str) -> str:
    """The line of Python at a place, below a message."""
    file, _, line = place.rpartition(":")
    text = linecache.getline(file, int(line)).strip()
    return f"\n    {text}" if text else ""


def _is_users(file: str) -> bool:
    return not file.startswith("<") and not os.path.realpath(file).startswith(_LIBRARIES)


def _shown(file: str, line: int) -> str:
    """The file from the folder that we are in, if it lies there."""
    near = os.path.relpath(file)
    return f"{file if near.startswith('..') else near}:{line}"


def told(error: BaseException) -> str:
    """Class and message of an error, in one line."""
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {' '.join(message.split())}".removesuffix(": ")


@contextmanager
def in_user_code(what: Callable[[], str]) -> Iterator[None]:
    """Around a call of what a user may have written: its exceptions as TargetErrors, and instructions that the ISA does
    not have, and parts of mappings that these do not have, as what they are, that say where, what it was about, and
    show the line. Other errors of ours, and those of our own code, go on as they are."""
    try:
        yield
    except Misused as error:
        place = error.place or place_of(error)
        shown, line = (f"{place}: ", line_of(place)) if place else ("", "")
        raise TargetError(f"{shown}{what()}: {error.message}{line}") from error
    except ArchloomError as error:
        place = place_of(error) if type(error) in _LOCATED else None
        if place is None:
            raise
        raise type(error)(f"{place}: {what()}: {error}{line_of(place)}") from error
    except Exception as error:
        place = place_of(error)
        if place is None:
            raise
        raise TargetError(f"{place}: {what()}: {told(error)}{line_of(place)}") from error
