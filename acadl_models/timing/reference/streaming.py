"""Instructions of units that stream: when results flow follows from the ends of reads ("Streaming units")."""

from __future__ import annotations

from archloom.acadl_models.acadl import Link
from archloom.acadl_models.timing import log
from archloom.acadl_models.timing.reference.state import Instance, Issued, Machine, State, Stream


def streamed(m: Machine, instance: Instance) -> Stream | None:
    """What an instruction that starts takes, if its unit streams it."""
    unit = instance.unit.spec
    first = unit.first_latency_of(instance.mnemonic)
    if first is None:
        return None
    least = 0 if any(plan.place.banks for plan in instance.static.plans) else 1
    latency = m.latency(f"{unit}: latency", unit.latency_of(instance.mnemonic), instance, least)
    return Stream(latency, m.latency(f"{unit}: first_latency", first, instance, 0))


def note_end(m: Machine, issued: Issued, finish: int, link: Link | None) -> None:
    """The end of a request is known: if it is the last such read of an instruction that streams, its results flow."""
    stream = issued.owner.stream
    if stream is not None and issued.request.is_read:
        cycles = -(-issued.request.bytes // link.bandwidth) if link is not None else 0
        first_word = finish - max(issued.request.beats, cycles) + 1
        stream.reads[issued.number] = first_word, finish
        if len(stream.reads) == len(issued.owner.reads):
            flow(m, issued.owner, stream)


def flow(m: Machine, instance: Instance, stream: Stream) -> None:
    """The ends of all reads are known: find out when the writes are issued, or the instruction is finished."""
    first_words: dict[str, int] = {}
    for number, (first_word, _) in sorted(stream.reads.items()):
        first_words.setdefault(instance.reads[number].storage, first_word)
    begin = max(first_words.values(), default=m.now)
    last = max((end for _, end in stream.reads.values()), default=begin)
    end = max(begin + stream.latency, last + stream.first_latency)
    if instance.writes:
        fewest = min(request.beats for request in instance.writes)
        end = max(begin + stream.first_latency, end - (fewest - 1))
    instance.state, instance.end = State.PROCESSING, max(end, m.now + 1)
    m.note(log.PROCESSING, instance.unit.spec.name, instance.number)
