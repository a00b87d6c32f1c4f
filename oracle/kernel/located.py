"""Streams of kernels resolved, with faults at the lines of Python that caused them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from archloom.oracle.errors import StreamError
from archloom.oracle.kernel.index import Site
from archloom.oracle.nests import size
from archloom.oracle.resolve import MAX_INSTRUCTIONS, resolve
from archloom.oracle.resolved import ResolvedStream
from archloom.oracle.rolling import roll
from archloom.oracle.stream import Stream
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.xla.oracle import Oracle, compile_resolved

_PAIRED = 2048
"""Up to how many instructions a stream that was not raised is tried once more, with other loops."""


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
    with located(sites):
        return resolve(stream, isa, max_instructions=MAX_INSTRUCTIONS + size(stream.body))


def compiled(
    isa: Isa, stream: Stream, resolved: ResolvedStream, *, reassociate: bool = False, raising: bool = True
) -> Oracle:
    """The oracle of ``resolved``; where that stays loops, of ``stream`` with even pairs as loops or as it is written.

    The last two only if they are raised.
    """
    made = compile_resolved(resolved, reassociate=reassociate, raising=raising)
    if made.raised or not raising or size(stream.body) > _PAIRED:
        return made
    for other in (roll(stream, 2), stream):
        try:
            found = compile_resolved(resolve(other, isa), reassociate=reassociate)
        except StreamError:
            continue
        if found.raised:
            return found
    return made


@contextmanager
def located(sites: tuple[Site, ...]) -> Iterator[None]:
    """Puts the line of the call before the message of a StreamError about an instruction."""
    try:
        yield
    except StreamError as error:
        if error.instruction is None or error.instruction >= len(sites):
            raise
        raise StreamError(f"{sites[error.instruction]}: {error}") from None
