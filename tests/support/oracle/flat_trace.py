"""The instances of a stream's instructions, one by one."""

from __future__ import annotations

from collections.abc import Iterator

from archloom.oracle.stream import Instr, Node, Parallel, Stream


def flat_trace(stream: Stream) -> Iterator[tuple[str, dict[str, int]]]:
    """Every instruction instance in program order, with concrete attributes: for debugging only."""
    yield from _trace(stream.body, {})


def _trace(nodes: tuple[Node, ...], values: dict[str, int]) -> Iterator[tuple[str, dict[str, int]]]:
    for node in nodes:
        if isinstance(node, Instr):
            yield node.mnemonic, {k: v.evaluate(values) for k, v in node.attributes}
        elif isinstance(node, Parallel):
            raise NotImplementedError("a trace of a multi-core stream is made per core")
        else:
            for i in node.values:
                yield from _trace(node.body, {**values, node.var: i})
