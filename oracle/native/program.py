"""Programs of element-wise operations, and their names in XLA."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import dataclass
from typing import Literal, TypeAlias

from archloom.oracle.native.operations import CODES, Operation

Place: TypeAlias = Literal["all", "columns", "rows", "one"]
"""Of a matrix: all elements, one row or one column that all others repeat, or one number."""


@dataclass(frozen=True)
class Program:
    """What makes an element of elements of operands.

    Values are numbered: the operands first, of the types ``operands``, then the constants, of a type and their number
    as text, then what each of ``steps`` makes, of an operation and values before. The last one is the result.
    """

    operands: tuple[str, ...]
    constants: tuple[tuple[str, str], ...]
    steps: tuple[tuple[Operation, tuple[int, ...]], ...]

    @property
    def result(self) -> str:
        """The type of the result."""
        return self.steps[-1][0].rpartition(" ")[2]

    @property
    def flushes(self) -> bool:
        """Whether fused multiply-adds take subnormal numbers for zeros: of a program, all or none."""
        return any(name.startswith("fma flush") for name, _ in self.steps)


PREFIX = "archloom_program_"
_NAME = re.compile(rb"archloom_program_[\w-]+\.")


def name_of(program: Program, places: tuple[Place, ...]) -> str:
    """The name of a program's handler, which has all of it: a stored program of XLA needs nothing else."""
    text = json.dumps((program.operands, program.constants, program.steps, places), separators=(",", ":"))
    return f"{PREFIX}{base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip('=')}."


def named(name: str) -> tuple[Program, tuple[Place, ...]]:
    """The program of a name, and where its operands' elements are; ValueError for one of another version."""
    packed = name.removeprefix(PREFIX).rstrip(".")
    try:
        operands, constants, steps, places = json.loads(zlib.decompress(base64.urlsafe_b64decode(
            packed + "=" * (-len(packed) % 4))))
    except zlib.error as error:
        raise ValueError(f"{name} is no program: {error}") from error
    unknown = [operation for operation, _ in steps if operation not in CODES]
    if unknown:
        raise ValueError(f"a program has operations that are not known here: {', '.join(unknown)}")
    return Program(tuple(operands), tuple((t, n) for t, n in constants),
                   tuple((operation, tuple(values)) for operation, values in steps)), tuple(places)


def names_in(data: bytes) -> tuple[str, ...]:
    """The names of programs' handlers in a stored program of XLA."""
    return tuple(dict.fromkeys(found.decode() for found in _NAME.findall(data)))
