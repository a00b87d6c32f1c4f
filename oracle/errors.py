"""The errors that archloom raises on a user's input.

Each message says what was expected, what was found, whose it is and where; the command line prints it
without a traceback and exits with status 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LISTED = 40
"""Of valid names a message lists so many at most: as many as the operators and the options of a target are."""


class ArchloomError(Exception):
    """Base of every error that a user's input can cause."""


@dataclass(frozen=True)
class Position:
    """A place in a text: one-based ``line`` and ``column`` in ``file`` (or ``<string>``)."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class SourceError(ArchloomError):
    """A fault at a place in a text (TAIDL, assembly, an expression), shown with its line and a caret."""

    def __init__(self, message: str, position: Position | None = None, source: str | None = None) -> None:
        self.message = message
        self.position = position
        super().__init__(render(message, position, source))


def render(message: str, position: Position | None, source: str | None) -> str:
    """``file:line:column: message``, then the source line with a caret below the column."""
    if position is None:
        return message
    text = f"{position}: {message}"
    lines = (source or "").split("\n")
    if source and 0 < position.line <= len(lines):
        line = lines[position.line - 1]
        # a tab is as wide below as above
        indent = "".join("\t" if c == "\t" else " " for c in line[:position.column - 1])
        text += f"\n    {line.rstrip()}\n    {indent}^"
    return text


class TaidlError(SourceError):
    """A TAIDL description does not parse or does not check.

    ``faults`` has an error for each fault that was found, in the order of the text; ``message`` and ``position`` are
    those of the first.
    """

    faults: tuple[TaidlError, ...] = ()

    def __init__(self, message: str, position: Position | None = None, source: str | None = None) -> None:
        super().__init__(message, position, source)
        self.faults = (self,)


MAX_FAULTS = 20
"""How many faults of a description a message shows."""


def combined(errors: Sequence[TaidlError]) -> TaidlError:
    """One error for all faults of the errors given (at least one): each once, in the order of the text."""
    unique = {str(fault): fault for error in errors for fault in error.faults}
    faults = sorted(unique.values(), key=lambda f: (f.position.line, f.position.column) if f.position else (0, 0))
    if len(faults) == 1:
        return faults[0]
    shown = [str(fault) for fault in faults[:MAX_FAULTS]]
    if len(faults) > MAX_FAULTS:
        shown.append(f"... and {len(faults) - MAX_FAULTS} more")
    error = TaidlError(faults[0].message, faults[0].position)
    error.args = ("\n".join([*shown, f"{len(faults)} errors"]),)
    error.faults = tuple(faults)
    return error


class StreamError(SourceError):
    """An instruction stream is malformed, violates an assertion of its ISA or leaves its memory.

    ``instruction`` is the number, in textual order, of the instruction at fault, where one is.
    """

    instruction: int | None = None


class GraphError(ArchloomError):
    """An architecture graph breaks rules; ``faults`` lists all of them, each with the object's path."""

    def __init__(self, graph: str, faults: list[str]) -> None:
        self.graph = graph
        self.faults = faults
        head = f"architecture graph {graph!r} has {counted(len(faults), 'fault')}"
        super().__init__("\n  - ".join([head + ":", *faults]))


class TargetError(ArchloomError):
    """A target or one of its options is unknown, out of range, or its graph and ISA do not fit."""


class ModelError(ArchloomError):
    """A network cannot be read, imported or compiled; the message names the file and the node."""


class MappingError(ArchloomError):
    """A workload has no legal mapping; the message states demand, bound, gap and what would help."""


class ArtifactError(ArchloomError):
    """A saved artifact is missing, incomplete, corrupted, of another version, or cannot be written."""


class InputError(ArchloomError):
    """A tensor, file or option given by the user does not match what is expected."""


def counted(number: int, what: str, several: str = "") -> str:
    """``1 layer``, ``1,024 layers``: a number of things; ``several`` is for words that an s does not make plural."""
    return f"{number:,} {what if number == 1 else several or what + 's'}"


def nearest(name: str, choices: Iterable[str]) -> str:
    """``; did you mean 'x'?`` of the choice that is nearest, whatever is written in capitals; nothing where none is."""
    import difflib

    choices = list(choices)
    lower = [choice.lower() for choice in choices]
    # as written first, since names may differ in capitals alone
    near = difflib.get_close_matches(name, choices, 1) or [
        choices[lower.index(found)] for found in difflib.get_close_matches(name.lower(), lower, 1)]
    return f"; did you mean {near[0]!r}?" if near else ""


def suggest(name: str, choices: list[str]) -> str:
    """``; did you mean 'x'? valid: a, b, c``, to be appended to a message about an unknown name."""
    listed = ", ".join(sorted(choices)[:LISTED]) + (f" and {len(choices) - LISTED} more" if choices[LISTED:] else "")
    return f"{nearest(name, choices)} (valid: {listed})"
