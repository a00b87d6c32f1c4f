"""Names of variables that a network has, and those that TVM makes up where it has none."""

from __future__ import annotations

import re

_MADE_UP = re.compile(r"[lg]v\d*(_\d+)?")


def is_made_up(name: str) -> bool:
    """Whether a variable's name is TVM's own, such as ``lv3`` or ``gv``: it marks what the network does not name so."""
    return _MADE_UP.fullmatch(name) is not None


def node(name: str, op: str) -> str:
    """What messages call the operator that makes a variable: by its name, where the network gives it one."""
    return f"a node without a name ({op})" if is_made_up(name) else f"node {name!r} ({op})"
