"""Nests of loops and instructions: walked, counted, bounded and rewritten.

Most of this is about the nests of :mod:`archloom.oracle.resolved`, which every pass after the resolution walks; what
needs no look into instructions takes the nodes of :mod:`archloom.oracle.stream` as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, Union, overload

from archloom.oracle import resolved
from archloom.oracle.affine import Affine
from archloom.oracle.resolved import Op, Read, ResolvedInstr, ResolvedLoop, ResolvedNode, Window, Write
from archloom.oracle.stream import Instr, Loop, Node, Parallel

AnyNode: TypeAlias = Union[Node, ResolvedNode]
Around: TypeAlias = tuple[ResolvedLoop, ...]
"""The loops around a place, outermost first."""


# --- walking ------------------------------------------------------------------------------------------------------


def walk(nodes: Sequence[ResolvedNode], around: Around = ()) -> Iterator[tuple[ResolvedInstr, Around]]:
    """Every instruction in textual order, with the loops around it."""
    for node in nodes:
        if isinstance(node, ResolvedInstr):
            yield node, around
        else:
            yield from walk(node.body, (*around, node))


@overload
def instructions(nodes: Sequence[Node]) -> Iterator[Instr]: ...
@overload
def instructions(nodes: Sequence[ResolvedNode]) -> Iterator[ResolvedInstr]: ...
def instructions(nodes: Sequence[Any]) -> Iterator[Any]:
    """Every instruction in textual order."""
    for node in nodes:
        if isinstance(node, (ResolvedInstr, Instr)):
            yield node
        else:
            yield from instructions(node.body)


@overload
def loops(nodes: Sequence[Node]) -> Iterator[Loop | Parallel]: ...
@overload
def loops(nodes: Sequence[ResolvedNode]) -> Iterator[ResolvedLoop]: ...
def loops(nodes: Sequence[Any]) -> Iterator[Any]:
    """Every loop in textual order, each before those inside of it."""
    for node in nodes:
        if not isinstance(node, (ResolvedInstr, Instr)):
            yield node
            yield from loops(node.body)


def size(nodes: Sequence[AnyNode]) -> int:
    """How many instructions are written down."""
    return sum(1 if isinstance(n, (ResolvedInstr, Instr)) else size(n.body) for n in nodes)


def written(nodes: Iterable[Node]) -> int:
    """How many instructions are written down where they are issued at all: in no loop without iterations."""
    return sum(1 if isinstance(n, Instr) else written(n.body) if n.extent else 0 for n in nodes)


def touching(nodes: Sequence[ResolvedNode], buffer: str | None = None) -> Iterator[tuple[Read | Write, Around]]:
    """Every read and write (of ``buffer``, where one is given) in textual order, with the loops around it."""
    for instr, around in walk(nodes):
        for statement in instr.touching(buffer):
            yield statement, around


def ranges(around: Iterable[Loop | Parallel | ResolvedLoop]) -> dict[str, tuple[int, int]]:
    return {loop.var: loop.bounds for loop in around}


# --- rewriting ----------------------------------------------------------------------------------------------------


def rewritten(
    nodes: Sequence[ResolvedNode], instr: Callable[[ResolvedInstr], Iterable[ResolvedNode]]
) -> tuple[ResolvedNode, ...]:
    """The nodes with what ``instr`` gives in place of each instruction; loops of which nothing is left are dropped."""
    made: list[ResolvedNode] = []
    for node in nodes:
        if isinstance(node, ResolvedInstr):
            made += instr(node)
        elif body := rewritten(node.body, instr):
            made.append(replace(node, body=body))
    return tuple(made)


def with_attributes(node: Node, form: Callable[[Affine], Affine]) -> Node:
    """A node of a stream as it is written with ``form`` of each attribute of its instructions, in textual order."""
    if isinstance(node, Instr):
        return Instr(node.mnemonic, tuple([(k, form(v)) for k, v in node.attributes]))
    return replace(node, body=tuple([with_attributes(n, form) for n in node.body]))


def with_window(statement: resolved.Statement, window: Callable[[Read | Write], Window]) -> resolved.Statement:
    """A read or write through what ``window`` gives for it; an operator stays as it is."""
    if isinstance(statement, Op):
        return statement
    if isinstance(statement, Read):
        return Read(statement.dst, window(statement), statement.type)
    return Write(statement.src, window(statement), statement.type, statement.kind)


def with_windows(instr: ResolvedInstr, window: Callable[[Read | Write], Window]) -> ResolvedInstr:
    """The instruction with what ``window`` gives for each of its reads and writes, asked in their order."""
    return replace(instr, statements=tuple([with_window(s, window) for s in instr.statements]))


def with_values(op: Op, form: Callable[[Affine], Affine | int]) -> Op:
    """The operator with ``form`` of each expression among its attributes."""
    if not any(isinstance(v, Affine) for _, v in op.attributes):
        return op
    return replace(op, attributes=tuple([(k, form(v) if isinstance(v, Affine) else v) for k, v in op.attributes]))


def with_forms(instr: ResolvedInstr, form: Callable[[Affine], Affine]) -> ResolvedInstr:
    """The instruction with ``form`` of each of its expressions, such as one with other loop variables."""
    return ResolvedInstr(
        instr.mnemonic,
        tuple([(k, form(v)) for k, v in instr.attributes]),
        tuple([(k, form(v)) for k, v in instr.registers]),
        tuple([
            with_values(s, form) if isinstance(s, Op) else with_window(s, lambda moved: moved.window.with_offsets(form))
            for s in instr.statements
        ]),
        instr.source,
    )


def variables(instr: ResolvedInstr) -> frozenset[str]:
    """The variables that the instruction's addresses and constants name."""
    forms = [o for s in instr.touching() for o in s.window.offsets]
    forms += [v for s in instr.statements if isinstance(s, Op) for _, v in s.attributes if isinstance(v, Affine)]
    return frozenset[str]().union(*(form.variables() for form in forms))
