"""Pieces of networks as nests of loops over scalar operations (:mod:`archloom.mapper.nests`).

An operator says how a number of its result comes from numbers of its operands, at places that are linear in the axes of
the result: element-wise operators, and those that only move numbers (transposes, slices, broadcasts, gathers). Such may
follow one another within a piece, which is then one pass through memory. What folds (reductions, softmax, norms,
pooling), and what writes its result in parts (padding, concatenation), is the piece's last operator and has nests of
its own. Where places of an operand are linear only in parts of an axis, as those of windows, the axis is cut and the
piece read again.
"""

from __future__ import annotations

from collections.abc import Iterator

from archloom.mapper.nests import Nest
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.nests.folding import FOLDING
from archloom.tvm_backend.ir.nests.moving import PLACED
from archloom.tvm_backend.ir.nests.reading import FLOATS, IN_MEMORY, INTEGERS, NEST, WIDE, Cut, Piece, Reading, kept
from archloom.tvm_backend.ir.nests.windows import WINDOWS
from archloom.tvm_backend.ir.sweeps import NotQuantized

__all__ = ["NEST", "WHOLE", "WIDE", "Piece", "kept", "read_piece"]

WHOLE = {**FOLDING, **WINDOWS}
"""What is the last operator of a piece."""
MOVED = frozenset({"concat", "cumsum"})
"""Those of numbers of any type."""
OF_INTEGERS = frozenset({"max", "min", "nn.pad", *(f"nn.max_pool{n}d" for n in (1, 2, 3))})
"""Those of integers that are computed as int32, too."""


def read_piece(root: ir.Call, lookup: ir.Lookup) -> Piece:
    """The piece whose result is ``root``; ``lookup`` gives the values of variables inside. NotQuantized for others."""
    if not ir.is_tensor(root) or ir.dtype_of(root) not in IN_MEMORY or 0 in ir.shape_of(root):
        raise NotQuantized(f"its result is no tensor of {', '.join(IN_MEMORY)}")
    cuts: dict[str, tuple[int, ...]] = {}
    while True:
        reading = Reading(lookup, cuts, PLACED)
        try:
            nests = tuple(_nests(reading, root))
        except Cut as cut:
            cuts = {**cuts, cut.axis: cut.extents}
            continue
        return Piece(nests, tuple(reading.operands), tuple(reading.operators), tuple(reading.names),
                     ir.dtype_of(root))


def _nests(reading: Reading, root: ir.Call) -> Iterator[Nest]:
    name = str(ir.op_name(root))
    if name in WHOLE:
        integers = ir.dtype_of(root) in INTEGERS and name in OF_INTEGERS
        if ir.dtype_of(root) not in FLOATS and name not in MOVED and not integers:
            raise NotQuantized(f"{name} of {ir.dtype_of(root)}")
        reading.note(name)
        yield from WHOLE[name](reading, root)
    else:
        yield reading.each(root)
