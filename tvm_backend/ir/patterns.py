"""Patterns of operators, written once for Relax's matcher and for that of plain expressions.

They have the names and the meaning of ``tvm.relax.dpl``: ``is_op("relax.add")(wildcard(), is_const())``, ``a | b`` for
either (the first that fits), ``~a`` for anything else. :func:`to_relax` gives TVM's form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class DFPattern:
    """A pattern; equal only to itself: one that stands in two places must match the same expression in both."""

    def __or__(self, other: "DFPattern") -> "Or":
        return Or(self, other)

    def __invert__(self) -> "Not":
        return Not(self)


class Wildcard(DFPattern):
    """Anything."""


class Const(DFPattern):
    """A tensor constant."""


@dataclass(frozen=True, eq=False)
class Or(DFPattern):
    """The first of both that fits."""

    first: DFPattern
    second: DFPattern


@dataclass(frozen=True, eq=False)
class Not(DFPattern):
    """What the pattern does not match."""

    pattern: DFPattern


@dataclass(frozen=True, eq=False)
class CallOf(DFPattern):
    """A call of ``op`` on exactly these arguments."""

    op: str
    args: tuple[DFPattern, ...]


wildcard, is_const = Wildcard, Const


def is_op(name: str) -> Callable[..., CallOf]:
    """The operator ``name``, such as ``relax.nn.conv2d``: of patterns of the arguments, the pattern of its call."""
    return lambda *args: CallOf(name, args)


def to_relax(pattern: Any) -> Any:
    """The pattern as TVM's; one of TVM's own stays as it is."""
    from archloom.tvm_backend.ir import compat

    done: dict[DFPattern, Any] = {}

    def converted(pattern: DFPattern) -> Any:
        if pattern not in done:
            match pattern:
                case Wildcard():
                    done[pattern] = compat.wildcard()
                case Const():
                    done[pattern] = compat.is_const()
                case Or(first, second):
                    done[pattern] = converted(first) | converted(second)
                case Not(inner):
                    done[pattern] = ~converted(inner)
                case CallOf(op, args):
                    done[pattern] = compat.is_op(op)(*map(converted, args))
                case _:
                    raise TypeError(f"no form of {type(pattern).__name__} is known to TVM")
        return done[pattern]

    return converted(pattern) if isinstance(pattern, DFPattern) else pattern
