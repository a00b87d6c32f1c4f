"""Jitted functions as LLVM code, each made once for the kinds of its arguments.

Their language is a part of Python: integers of 64 bits, truth values, arrays of words and pointers to words, what is
known without running (numbers, records, modules, functions), assignments, calls, ``if``, ``while``, ``for`` over a
``range`` of a positive step, and tuples as results. :mod:`.plain` says what its own functions do. Anything else, a
local variable of two kinds and a call in a circle are refused. An integer that needs more than 64 bits, and an index
outside of its array, mean nothing here, where plain Python counts on or complains.
"""

from __future__ import annotations

from typing import Any

from archloom.acadl_models.timing.engine.function_code import Body, Made
from archloom.acadl_models.timing.engine.llvm_code import BEGIN, Kind


class Module:
    """The code of an entry point and of all that it calls.

    It is called by its own name, with an address and a length for each array that it takes; its annotation says
    whether it returns an integer or nothing.
    """

    def __init__(self, entry: Any) -> None:
        self.parts: list[str] = [BEGIN]
        self._made: dict[tuple[Any, tuple[Kind, ...]], Made | None] = {}
        made = self.made(entry, ("array",) * entry.__code__.co_argcount)
        if made.results != (() if entry.__annotations__["return"] == "None" else ("i64",)):
            raise TypeError(f"{entry.__name__} returns {made.results}, not what is written behind its parameters")

    def made(self, function: Any, kinds: tuple[Kind, ...]) -> Made:
        key = function, kinds
        if key not in self._made:
            self._made[key] = None
            is_entry = len(self._made) == 1
            symbol = function.__name__ if is_entry else f"{function.__name__}.{len(self._made)}"
            self._made[key] = Body(self, function, kinds, symbol).translate("" if is_entry else "internal fastcc")
        found = self._made[key]
        if found is None:
            raise TypeError(f"{function.__name__} calls itself")
        return found

    @property
    def text(self) -> str:
        return "\n".join(self.parts)
