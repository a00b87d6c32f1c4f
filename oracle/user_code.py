"""Faults of code that a user wrote, told like those of any other input: file, line, message, and what it was about."""

from __future__ import annotations

import linecache
import os
import site
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from archloom.oracle.errors import ArchloomError, MappingError, StreamError, TargetError

_LOCATED = (StreamError, MappingError)
"""Errors of ours that a mistake in a user's code may be."""
_PATHS = sysconfig.get_paths()
_LIBRARIES = tuple(os.path.realpath(path) + os.sep for path in {
    *(_PATHS[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")), *site.getsitepackages(),
    site.getusersitepackages()})


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
