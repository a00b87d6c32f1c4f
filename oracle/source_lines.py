"""Where a user's Python calls into archloom: the one place that reads the call stack.

An operator (``row + 1``), an attribute or a context manager gives its caller no argument for where it stands, and the
faults of kernels and of descriptions built in Python are to name the user's line.
"""

from __future__ import annotations

import sys
from types import FrameType


def caller(*own: str) -> FrameType:
    """The innermost frame outside of ``own``, the names of modules or packages; the outermost if there is no other."""
    # context managers of the packages are entered by way of contextlib
    inside = ("contextlib.", *(f"{name}." for name in own))
    frame = sys._getframe(1)
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith(inside):
        frame = frame.f_back
    return frame
