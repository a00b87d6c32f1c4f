"""Where the search for a value is, how far it may go, and which items on its way cannot matter to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from archloom.oracle.affine import Affine
from archloom.oracle.resolved import Window
from archloom.oracle.windows import span
from archloom.oracle.xla.notation.expr import Range
from archloom.oracle.xla.notation.limits import Exhausted
from archloom.oracle.xla.raising.query import Query
from archloom.oracle.xla.raising.tree import Block, WriteItem


@dataclass
class Steps:
    """How many more items of the tree may be looked at; of several searches together if they share it."""

    left: int

    def take(self) -> None:
        """Exhausted after the last one."""
        if self.left < 0:
            raise Exhausted("its reads fall into too many pieces")
        self.left -= 1


@dataclass(frozen=True)
class Cursor:
    """The point before item ``index`` of ``block``; ``known`` are loop variables whose value the search has fixed.

    ``after`` is where to go on when the block's start is reached in a loop of which no other iteration writes the
    elements; ``covered`` says that the start cannot be reached, because the loop's last iteration writes them all.
    ``clear`` are writes of which it is known that they write none of the query's elements until ``after`` or an earlier
    iteration: where a query is split, its parts need not ask them again.
    """

    block: Block
    index: int
    known: Mapping[str, Affine]
    after: "Cursor | None" = None
    covered: bool = False
    clear: frozenset[WriteItem] = frozenset()

    def back(self) -> "Cursor":
        return Cursor(self.block, self.index - 1, self.known, self.after, self.covered, self.clear)

    def knowing(self, clear: Sequence[WriteItem]) -> "Cursor":
        """The cursor where further writes are known to be clear."""
        return replace(self, clear=self.clear.union(clear)) if clear else self

    def for_others(self) -> "Cursor":
        """The cursor for a query of further elements, which other writes may write."""
        if not self.clear and self.after is None:
            return self
        return replace(self, clear=frozenset(), after=self.after and self.after.for_others())

    def renamed(self, mapping: Mapping[str, Affine]) -> "Cursor":
        """The cursor for a query in which variables are replaced."""
        if not mapping:
            return self
        known = {k: v.substitute(mapping) for k, v in self.known.items()}
        return replace(self, known={**mapping, **known}, after=self.after and self.after.renamed(mapping))


def last_writer(q: Query, spans: Sequence[Range], at: Cursor) -> int:
    """How many items of the cursor's block there are up to the last before it that may write the query's elements."""
    items, index = at.block.items, at.index
    while index:
        item = items[index - 1]
        if isinstance(item, WriteItem):
            window = item.write.window
            if window.buffer == q.buffer and item not in at.clear and not clear_of(window, spans):
                break
        elif isinstance(item, Block) and q.buffer in item.written:
            break
        index -= 1
    return index


def clear_of(window: Window, spans: Sequence[Range]) -> bool:
    """Whether a window at a constant place lies outside of ``spans``, one for each axis of the buffer."""
    for axis, (offset, (low, high)) in enumerate(zip(window.offsets, spans, strict=True)):
        if not offset.terms:
            below, above = span(window, axis)
            if offset.constant + above < low or offset.constant + below > high:
                return True
    return False
