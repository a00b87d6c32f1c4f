"""Why a stream, or a part of it, is not raised: on its way out of the search an exception, then a value."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Refusal:
    """``reason`` in words; what is to blame is known where raising failed at something.

    ``item`` is the loop or the instruction of the tree (:mod:`archloom.oracle.xla.raising.tree`), ``ring`` the buffer
    in which a loop walks around in a ring. ``too_deep`` says that the search took more calls than Python allows.
    """

    reason: str
    item: object = None
    ring: str | None = None
    too_deep: bool = False


class Unraisable(Exception):
    """The stream, or a part of it, has no index notation; the reason is the message. Loops run instead."""

    def __init__(self, reason: str, ring: str | None = None) -> None:
        super().__init__(reason)
        self.refusal = Refusal(reason, ring=ring)

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
