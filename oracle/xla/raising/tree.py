"""The program as the raiser sees it: a tree of loops over the reads and writes of buffers, in textual order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, Union

from archloom.oracle.affine import Affine
from archloom.oracle.resolved import Op, Read, ResolvedInstr, ResolvedNode, ResolvedStream, Window, Write
from archloom.oracle.xla.notation.expr import Range


@dataclass(eq=False)
class Block:
    """A loop over ``var`` in 0 .. extent-1, item ``position`` of its ``parent``; the program itself has no parent.

    ``written`` names the buffers that are written inside.
    """

    var: str = ""
    extent: int = 1
    parent: "Block | None" = None
    position: int = 0
    items: list["Item"] = field(default_factory=list)
    written: set[str] = field(default_factory=set)


@dataclass(frozen=True, eq=False)
class InstrItem:
    """An instruction whose windows are expressions over normalized loop variables."""

    instr: ResolvedInstr
    parent: Block
    windows: dict[int, Window]
    """By the number of the read or write statement."""

    constants: dict[int, Affine]
    """By the number of the statement: values of ``constant`` and offsets of ``iota`` over loop variables."""


@dataclass(frozen=True, eq=False)
class WriteItem:
    """Statement number ``statement`` of an instruction, a write."""

    owner: InstrItem
    statement: int
    write: Write
    window: Window


@dataclass(frozen=True, eq=False)
class ReadItem:
    """A read, item ``position`` of ``parent``: a mark from which to look backwards."""

    owner: InstrItem
    read: Read
    window: Window
    parent: Block
    position: int


Item: TypeAlias = Union[Block, WriteItem, ReadItem]


@dataclass(frozen=True, eq=False)
class Tree:
    """The tree of a stream, the ranges of its loop variables and the reads by owner and statement."""

    stream: ResolvedStream
    root: Block = field(default_factory=Block)
    ranges: dict[str, Range] = field(default_factory=dict)
    reads: dict[tuple[int, int], ReadItem] = field(default_factory=dict)

    @staticmethod
    def of(stream: ResolvedStream) -> "Tree":
        """Loops are normalized to start at 0 with step 1."""
        made = Tree(stream)
        made._fill(made.root, stream.body, {})
        return made

    def _fill(self, block: Block, nodes: tuple[ResolvedNode, ...], values: dict[str, Affine]) -> None:
        for node in nodes:
            if isinstance(node, ResolvedInstr):
                self._add_instr(block, node, values)
            elif node.extent:
                loop = Block(node.var, node.extent, block, len(block.items))
                self.ranges[node.var] = (0, node.extent - 1)
                own = {node.var: Affine.variable(node.var) * node.step + node.start}
                self._fill(loop, node.body, values if (node.start, node.step) == (0, 1) else {**values, **own})
                block.items.append(loop)
                block.written |= loop.written

    def _add_instr(self, block: Block, node: ResolvedInstr, values: dict[str, Affine]) -> None:
        owner = InstrItem(node, block, {}, {})
        for number, statement in enumerate(node.statements):
            if isinstance(statement, Op):
                for _, value in statement.attributes:
                    if isinstance(value, Affine):
                        owner.constants[number] = value.substitute(values) if values else value
                continue
            window = owner.windows[number] = _normalized(statement.window, values)
            if isinstance(statement, Write):
                block.items.append(WriteItem(owner, number, statement, window))
                block.written.add(window.buffer)
            else:
                read = self.reads[id(owner), number] = ReadItem(owner, statement, window, block, len(block.items))
                block.items.append(read)


def _normalized(window: Window, values: dict[str, Affine]) -> Window:
    if not values:
        return window
    return Window(window.buffer, tuple(o.substitute(values) for o in window.offsets), window.dims)


def writes(loop: Block, buffer: str) -> Iterator[tuple[WriteItem, tuple[Block, ...]]]:
    """The writes to ``buffer`` inside ``loop`` with the loops around each, ``loop`` first, in textual order."""
    for item in loop.items:
        if isinstance(item, WriteItem) and item.window.buffer == buffer:
            yield item, (loop,)
        elif isinstance(item, Block) and buffer in item.written:
            for write, inner in writes(item, buffer):
                yield write, (loop, *inner)
