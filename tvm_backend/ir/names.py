"""Names of variables that a network has, and those that TVM makes up where it has none."""

from __future__ import annotations

import re
from itertools import count

_OF_TVM = re.compile(r"[lg]v\d*(_\d+)?")
_MADE_UP = re.compile(r"[lg]v(\d*(_\d+)?|__\d+)")
RESULT = "result"
"""What the variable of a function's result is called wherever a function is made anew."""


def is_made_up(name: str) -> bool:
    """Whether a variable's name is TVM's own, such as ``lv3`` or ``gv``, or stands for one (``lv__3``): it marks what
    the network does not name so."""
    return _MADE_UP.fullmatch(name) is not None


def own(name: str, taken: dict[str, int]) -> str:
    """A name for a network's variable that no other has, and that nothing made on the way gets: TVM numbers its own
    (``lv3``), and passes put a dot and a word behind a variable's (``conv.sums``). Names are kept, but for such, and
    those that are ``taken``, which gets the new one, and the next number of each stem::

        lv3 -> lv__1        x.sums -> x_sums__1
    """
    if name in taken or "." in name or name == RESULT or _OF_TVM.fullmatch(name):
        stem = name[:2] if is_made_up(name) else name.replace(".", "_")
        number = next(i for i in count(taken.get(stem, 1)) if f"{stem}__{i}" not in taken)
        taken[stem], name = number + 1, f"{stem}__{number}"
    taken.setdefault(name, 1)
    return name


def node(name: str, op: str) -> str:
    """What messages call the operator that makes a variable: by its name, where the network gives it one."""
    return f"a node without a name ({op})" if is_made_up(name) else f"node {name!r} ({op})"
