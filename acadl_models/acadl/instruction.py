"""Instructions with explicit registers and addresses, and the data that they move (section 3 of the paper).

A program is a list of them; :mod:`archloom.acadl_models.programs` runs and times it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeAlias, Union


@dataclass(frozen=True)
class Data:
    """A value in a memory, a register or an immediate: ``size`` in bits and its ``payload``."""

    size: int
    payload: Any = None


def payload(value: Any) -> Any:
    """What a value is, with or without :class:`Data` around it."""
    return value.payload if isinstance(value, Data) else value


Word: TypeAlias = Union[int, str]
"""The address of a word: a number, or an expression of latencies (:mod:`.latency`) over registers that are read."""

Address: TypeAlias = Union[Word, tuple[str, Word]]
"""An address, with the name of the memory before it where several memories hold words of that address."""

LISTS = ("read_registers", "write_registers", "read_addresses", "write_addresses", "immediates")
"""The attributes that may be given as any sequence, and are tuples."""


@dataclass(frozen=True)
class Instruction:
    """An instruction with the registers and addresses that it reads and writes.

    Registers go by their names, or as ``file.register`` where several files have one of that name. ``function`` takes
    the values of the registers, of the words and of the immediates, each as an argument of its own, and returns what
    is written: the value where one register or word is written, a tuple (registers first) where several are.
    """

    operation: str
    read_registers: Sequence[str] = ()
    write_registers: Sequence[str] = ()
    read_addresses: Sequence[Address] = ()
    write_addresses: Sequence[Address] = ()
    immediates: Sequence[Any] = ()
    function: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        for name in LISTS:
            value = getattr(self, name)
            if isinstance(value, (Sequence, Set)) and not isinstance(value, str):
                object.__setattr__(self, name, tuple(value))

    def execute(self, *values: Any) -> Any:
        """What ``function`` makes of the values that are read; the immediates follow them."""
        if self.function is None:
            return None
        return self.function(*values, *map(payload, self.immediates))
