"""How much work raising may take, and how much of what it makes: all numbers that decide whether a stream is raised."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a stream is raised within; what goes beyond stays loops, which are right for every stream."""

    steps: int = 60_000
    """Items of the program that are looked at to raise a stream as it stands, without rings, or in strips (some
    seconds)."""

    rewritings: int = 400_000
    """Nodes of expressions that are rewritten to raise a stream as it stands or without rings (some ten seconds)."""

    contractions: int = 64
    """Contractions that a stream is raised to: XLA takes some 50 ms to compile each."""

    contractions_of_long: int = 512
    """The same of streams of more instructions: one for each. An instruction in loops takes as long to compile."""

    attempts: int = 16
    """How often raising in part begins again, each time with one part more of the stream left as loops."""

    part_steps: int = 4_000
    """As ``steps``, for all attempts to raise a stream in part together."""

    part_rewritings: int = 40_000
    """As ``rewritings``, for all attempts to raise a stream in strips, and for all to raise it in part."""

    strip_iterations: int = 8
    """Slots of a ring for which loops are cut into strips: every slot is one more copy of a loop's body."""

    strip_instructions: int = 512
    """Instructions that a stream in strips has."""

    ring_points: int = 1 << 14
    """Points at which the address of a ring is evaluated for its period."""

    relay_words: int = 1 << 18
    """Words that a line of copies touches: they are counted out."""

    rerolled_from: int = 64
    """Statements from which on the repetitions in an instruction become loops."""

    elements: int = 1 << 27
    """Elements that a whole tensor has in all iterations together."""


USUAL = Limits()
"""The limits of streams that are compiled without a word about them."""
