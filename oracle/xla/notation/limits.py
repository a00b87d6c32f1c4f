"""How much work raising may take, and how much of what it makes: all numbers that decide whether a stream is raised.

Why a stream, or a part of it, is not raised, is on its way out of the search an exception, then a value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

WRITTEN_OPERATIONS = 128
"""Of a chain in a step of another, which is written out: XLA takes 0.1 s to compile each, and for 21 to 93 of them as
loops 11 to 17 s. Measured of convolutions of 6 x 6 pixels on `mte`, by which nothing is judged."""

PLACES, VALUES, CASES, NODES = 1 << 20, 1 << 24, 256, 1 << 14
"""What is looked at to find that cases make no difference (:mod:`.cases`): places, values of all forms at them (which
take 128 MiB), cases, and nodes of all of them. What has more keeps its cases. Free choices, not tuned but for the
places: a quarter as many left cases in results of 147 x 147 x 32 numbers, of a network that `mte_oracle` judges."""


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

    loop_instructions: int = 1024
    """Instructions that are written down in loops of the stream. XLA takes 25 to 100 ms and a megabyte to compile each,
    so that a stream of more is refused."""

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
    """Elements that a whole tensor has in all iterations together, and any tensor on the way to the results."""

    elements_for_one: int = 64
    """The same of tensors on the way, for each element of arguments and results, where that is more."""

    temporary_bytes: int = 3 << 30
    """What XLA's program takes beside arguments and results: of what is raised to more, loops are made, and loops that
    take more are refused."""

    temporary_bytes_for_one: int = 16
    """The same, for each byte of arguments and results, where that is more."""


USUAL = Limits()
"""The limits of streams that are compiled without a word about them."""


@dataclass(frozen=True)
class Refusal:
    """``reason`` in words; what is to blame is known where raising failed at something.

    ``item`` is the loop or the instruction of the tree (:mod:`archloom.oracle.xla.raising.tree`), ``ring`` the buffer
    in which a loop walks around in a ring. ``carried`` says that a value goes from one iteration of a loop to the next,
    ``too_deep`` that the search took more calls than Python allows.
    """

    reason: str
    item: object = None
    ring: str | None = None
    carried: bool = False
    too_deep: bool = False


class Unraisable(Exception):
    """The stream, or a part of it, has no index notation; the reason is the message. Loops run instead."""

    def __init__(self, reason: str, ring: str | None = None, *, carried: bool = False) -> None:
        super().__init__(reason)
        self.refusal = Refusal(reason, ring=ring, carried=carried)

    def at(self, item: object) -> "Unraisable":
        """The same, to blame on an item of the tree if it is on none yet: the innermost that it passes on its way."""
        if self.refusal.item is not None or item is None:
            return self
        made = type(self)(self.refusal.reason)
        made.refusal = replace(self.refusal, item=item)
        return made


class Exhausted(Unraisable):
    """Raising takes more work than it is allowed; no part of the stream is to blame."""

    def at(self, item: object) -> "Unraisable":
        return self


class NoNotation(Unraisable):
    """An operator, as it is applied, has no index notation: it is computed of whole tensors."""
