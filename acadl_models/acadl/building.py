"""The graph under construction: what ``@generate`` collects while its function runs.

Kept in a context variable, so that graphs can be generated in several threads at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from archloom.acadl_models.acadl.components import Technology
from archloom.acadl_models.acadl.semantics import Semantics
from archloom.oracle.errors import GraphError

if TYPE_CHECKING:
    from archloom.acadl_models.acadl.base import ACADLObject
    from archloom.acadl_models.acadl.edges import ACADLDanglingEdge, ACADLEdge


@dataclass
class Builder:
    """Objects, edges and faults so far, the path of templates being built, and the facts of ``architecture()``."""

    name: str
    objects: list[ACADLObject] = field(default_factory=list)
    edges: list[ACADLEdge] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    open_ports: dict[int, ACADLDanglingEdge] = field(default_factory=dict)
    scope: list[str] = field(default_factory=list)
    clock_hz: float = 1e9
    parameters: Mapping[str, int] = field(default_factory=dict)
    buffers: Mapping[str, Any] = field(default_factory=dict)
    named: tuple[str, ...] = ()
    """Buffers that lie in the object of their name, if there is one."""
    dims: Mapping[str, int] = field(default_factory=dict)
    semantics: Semantics = field(default_factory=Semantics)
    technology: Technology | None = None


_active: ContextVar[Builder | None] = ContextVar("acadl_builder", default=None)


@contextmanager
def collecting(builder: Builder) -> Iterator[Builder]:
    """Collect objects and edges into ``builder`` inside the ``with`` block."""
    token = _active.set(builder)
    try:
        yield builder
    finally:
        _active.reset(token)


@contextmanager
def scope(name: str) -> Iterator[str]:
    """Objects made in the block have ``name`` before theirs; yields the whole path."""
    builder = _active.get()
    whole = path(name)
    if builder is None:
        yield whole
        return
    builder.scope.append(name)
    try:
        yield whole
    finally:
        builder.scope.pop()


def active() -> Builder | None:
    """The graph under construction in this context, if any."""
    return _active.get()


def path(name: str) -> str:
    """``name`` with the templates around it in front."""
    builder = _active.get()
    return ".".join([*builder.scope, name]) if builder else name


def fault(message: str) -> None:
    """Note a fault, to be reported with all others; outside of ``@generate`` it is raised at once."""
    builder = _active.get()
    if builder is None:
        raise GraphError("(no graph)", [message])
    builder.faults.append(message)
