"""Streams of kernels resolved, with faults at the lines of Python that caused them."""

from __future__ import annotations

from oracle.errors import StreamError
from oracle.kernel.index import Site
from oracle.resolve import MAX_INSTRUCTIONS, resolve
from oracle.resolved import ResolvedStream
from oracle.rolling import roll
from oracle.stream import Instr, Node, Stream
from oracle.taidl.isa import Isa


def resolve_rolled(isa: Isa, stream: Stream, sites: tuple[Site, ...]) -> ResolvedStream:
    """``stream`` resolved, with its unrolled repetitions as loops.

    StreamError with the line of the call for what is wrong in the stream as it was written.
    """
    rolled = roll(stream)
    if rolled is not stream:
        try:
            return resolve(rolled, isa)
        except StreamError:
            pass  # said below in terms of the stream as it is written
    with Located(sites):
        return resolve(stream, isa, max_instructions=MAX_INSTRUCTIONS + _size(stream.body))


def _size(nodes: tuple[Node, ...]) -> int:
    """How many instructions are written down."""
    return sum(1 if isinstance(n, Instr) else _size(n.body) for n in nodes)


class Located:
    """Puts the line of the call before the message of a StreamError about an instruction."""

    def __init__(self, sites: tuple[Site, ...]) -> None:
        self._sites = sites

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, StreamError) and error.instruction is not None and error.instruction < len(self._sites):
            raise StreamError(f"{self._sites[error.instruction]}: {error}") from None
