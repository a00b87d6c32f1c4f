"""Composite functions for what targets take of a module, Relax's or plain: each kind of module has its own matcher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archloom.oracle.fallbacks import Fallback
from archloom.tvm_backend.ir import nodes
from archloom.tvm_backend.ir.expressions import IRModule
from archloom.tvm_backend.ir.matcher import Check, fuse_plain
from archloom.tvm_backend.ir.patterns import to_relax


def fuse_by_pattern(
    module: IRModule, patterns: Sequence[tuple[str, Any, Check]]
) -> tuple[IRModule, tuple[Fallback, ...]]:
    """Every match as a call of a composite function, each taken where its check agrees; earlier patterns win.

    What a check raises ends the pass. Patterns are of :mod:`archloom.tvm_backend.ir.patterns`, or TVM's own, for which
    a plain module raises Unsupported. A module of Relax is matched by :mod:`.mirrored`, and by TVM where that says why
    it cannot be, which is the fallback; checks may be asked again then.
    """
    if isinstance(module, nodes.Module):
        return fuse_plain(module, patterns), ()
    from archloom.tvm_backend.ir import compat, mirrored  # these import TVM

    theirs = [(name, to_relax(pattern), check) for name, pattern, check in patterns]
    try:
        return mirrored.fuse(module, patterns), ()
    except nodes.Unsupported as error:
        slower = Fallback("patterns", str(error), "TVM matches them, in a time that grows with the square of the depth")
        return compat.fuse_by_pattern(module, theirs), (slower,)
