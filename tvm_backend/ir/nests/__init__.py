"""Pieces of float networks as nests of loops over scalar operations (:mod:`archloom.mapper.nests`).

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
from archloom.tvm_backend.ir.nests.reading import NARROWED, NEST, Cut, Piece, Reading
from archloom.tvm_backend.ir.nests.windows import WINDOWS
from archloom.tvm_backend.ir.sweeps import NotQuantized

__all__ = ["NARROWED", "NEST", "WHOLE", "Piece", "read_piece"]

WHOLE = {**FOLDING, **WINDOWS}
"""What is the last operator of a piece."""


def read_piece(root: ir.Call, lookup: ir.Lookup) -> Piece:
    """The piece whose result is ``root``; ``lookup`` gives the values of variables inside. NotQuantized for others."""
    if not ir.is_tensor(root) or ir.dtype_of(root) != "float32" or 0 in ir.shape_of(root):
        raise NotQuantized("its result is no tensor of float32")
    cuts: dict[str, tuple[int, ...]] = {}
    while True:
        reading = Reading(lookup, cuts, PLACED)
        try:
            nests = tuple(_nests(reading, root))
        except Cut as cut:
            cuts = {**cuts, cut.axis: cut.extents}
            continue
        return Piece(nests, tuple(reading.operands), tuple(reading.operators), tuple(reading.names))


def _nests(reading: Reading, root: ir.Call) -> Iterator[Nest]:
    name = str(ir.op_name(root))
    if name in WHOLE:
        reading.note(name)
        yield from WHOLE[name](reading, root)
    else:
        yield reading.each(root)
