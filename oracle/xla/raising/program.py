"""The program as the raiser sees it: a tree of loops over the reads and writes of buffers, in textual order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, Union

from archloom.oracle.affine import Affine
from archloom.oracle.resolved import Op, Read, ResolvedInstr, ResolvedLoop, ResolvedNode, ResolvedStream, Window, Write
from archloom.oracle.xla.notation.expr import Range


@dataclass(frozen=True, eq=False)
class Block:
    """The items of the program or of a loop body; the program's own block has no loop."""

    loop: "LoopItem | None"
    items: list["Item"] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class LoopItem:
    """A loop over ``var`` in 0 .. extent-1; ``written`` names the buffers written inside."""

    var: str
    extent: int
    parent: Block
    position: int
    body: Block
    written: set[str]


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
    parent: Block
    position: int


@dataclass(frozen=True, eq=False)
class ReadItem:
    """Statement number ``statement`` of an instruction, a read: a mark from which to look backwards."""

    owner: InstrItem
    statement: int
    read: Read
    window: Window
    parent: Block
    position: int


Item: TypeAlias = Union[LoopItem, WriteItem, ReadItem]


@dataclass(frozen=True, eq=False)
class Program:
    """The tree of a stream, the ranges of its loop variables and the reads by owner and statement."""

    stream: ResolvedStream
    root: Block
    ranges: dict[str, Range]
    reads: dict[tuple[int, int], ReadItem]


def program(stream: ResolvedStream) -> Program:
    """Build the tree; loops are normalized to start at 0 with step 1."""
    made = Program(stream, Block(None), {}, {})
    _fill(made, made.root, stream.body, {})
    return made


def _fill(made: Program, block: Block, nodes: tuple[ResolvedNode, ...], values: dict[str, Affine]) -> None:
    for node in nodes:
        if isinstance(node, ResolvedInstr):
            _add_instr(made, block, node, values)
        elif node.extent:
            _add_loop(made, block, node, values)


def _add_loop(made: Program, block: Block, node: ResolvedLoop, values: dict[str, Affine]) -> None:
    body = Block(LoopItem(node.var, node.extent, block, len(block.items), None, set()))  # type: ignore[arg-type]
    item = LoopItem(node.var, node.extent, block, len(block.items), body, set())
    object.__setattr__(body, "loop", item)
    made.ranges[node.var] = (0, node.extent - 1)
    start, step = node.start, node.step
    inner = values if (start, step) == (0, 1) else {**values, node.var: Affine.variable(node.var) * step + start}
    _fill(made, body, node.body, inner)
    block.items.append(item)
    for child in body.items:
        if isinstance(child, LoopItem):
            item.written.update(child.written)
        elif isinstance(child, WriteItem):
            item.written.add(child.window.buffer)


def _add_instr(made: Program, block: Block, node: ResolvedInstr, values: dict[str, Affine]) -> None:
    owner = InstrItem(node, block, {}, {})
    for number, statement in enumerate(node.statements):
        if isinstance(statement, Op):
            for _, value in statement.attributes:
                if isinstance(value, Affine):
                    owner.constants[number] = value.substitute(values) if values else value
            continue
        window = _normalized(statement.window, values)
        owner.windows[number] = window
        place = (block, len(block.items))
        if isinstance(statement, Write):
            block.items.append(WriteItem(owner, number, statement, window, *place))
        else:
            read = ReadItem(owner, number, statement, window, *place)
            made.reads[id(owner), number] = read
            block.items.append(read)


def _normalized(window: Window, values: dict[str, Affine]) -> Window:
    if not values:
        return window
    return Window(window.buffer, tuple(o.substitute(values) for o in window.offsets), window.dims)


def writes(loop: LoopItem, buffer: str) -> Iterator[tuple[WriteItem, tuple[LoopItem, ...]]]:
    """The writes to ``buffer`` inside ``loop`` with the loops around each, ``loop`` first, in textual order."""
    for item in loop.body.items:
        if isinstance(item, WriteItem) and item.window.buffer == buffer:
            yield item, (loop,)
        elif isinstance(item, LoopItem) and buffer in item.written:
            for write, inner in writes(item, buffer):
                yield write, (loop, *inner)
