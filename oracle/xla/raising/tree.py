"""The program as the raiser sees it: a tree of loops over the reads and writes of buffers, in textual order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, Union

from archloom.oracle.resolved import Read, ResolvedInstr, ResolvedNode, ResolvedStream, Write
from archloom.oracle.xla.notation.expr import Range


@dataclass(eq=False)
class Block:
    """A loop over ``var`` in 0 .. extent-1, item ``position`` of its ``parent``; the program itself has no parent.

    ``written`` names the buffers that are written inside, ``writes`` the writes to those that were asked for.
    """

    var: str = ""
    extent: int = 1
    parent: "Block | None" = None
    position: int = 0
    items: list["Item"] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    writes: dict[str, "tuple[Inside, ...]"] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class InstrItem:
    """An instruction of a block."""

    instr: ResolvedInstr
    parent: Block


@dataclass(frozen=True, eq=False)
class WriteItem:
    """Statement number ``statement`` of an instruction, a write."""

    owner: InstrItem
    statement: int
    write: Write


@dataclass(frozen=True, eq=False)
class ReadItem:
    """A read, item ``position`` of its block: a mark from which to look backwards."""

    owner: InstrItem
    read: Read
    position: int


Item: TypeAlias = Union[Block, WriteItem, ReadItem]
Inside: TypeAlias = tuple[WriteItem, tuple[Block, ...]]
"""A write inside a loop, and the loops around it up to that one, which comes first."""


@dataclass(frozen=True, eq=False)
class Tree:
    """The tree of a stream, the ranges of its loop variables and the reads by owner and statement."""

    stream: ResolvedStream
    root: Block = field(default_factory=Block)
    ranges: dict[str, Range] = field(default_factory=dict)
    reads: dict[tuple[int, int], ReadItem] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._fill(self.root, self.stream.body)

    def _fill(self, block: Block, nodes: tuple[ResolvedNode, ...]) -> None:
        for node in nodes:
            if isinstance(node, ResolvedInstr):
                self._add_instr(block, InstrItem(node, block))
            elif node.extent:
                loop = Block(node.var, node.extent, block, len(block.items))
                self.ranges[node.var] = (0, node.extent - 1)
                self._fill(loop, node.body)
                block.items.append(loop)
                block.written |= loop.written

    def _add_instr(self, block: Block, owner: InstrItem) -> None:
        for number, statement in enumerate(owner.instr.statements):
            if isinstance(statement, Write):
                block.items.append(WriteItem(owner, number, statement))
                block.written.add(statement.window.buffer)
            elif isinstance(statement, Read):
                read = self.reads[id(owner), number] = ReadItem(owner, statement, len(block.items))
                block.items.append(read)


def writes(loop: Block, buffer: str) -> tuple[Inside, ...]:
    """The writes to ``buffer`` inside ``loop`` in textual order, listed once."""
    found = loop.writes.get(buffer)
    if found is None:
        found = loop.writes[buffer] = tuple(_listed(loop, buffer))
    return found


def _listed(loop: Block, buffer: str) -> Iterator[Inside]:
    for item in loop.items:
        if isinstance(item, WriteItem) and item.write.window.buffer == buffer:
            yield item, (loop,)
        elif isinstance(item, Block) and buffer in item.written:
            for write, inner in writes(item, buffer):
                yield write, (loop, *inner)
