"""Values that come back to themselves, as names: a result that has none of them needs none of them.

An instruction on whole registers computes elements beside those of a tile, too. Where a loop writes the tile alone, the
others go from one iteration to the next, and what they are is asked of what asks for them. The name stands for the very
element of the very iteration; where what is read leaves no name, what it stands for does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable

from archloom.oracle.affine import Affine
from archloom.oracle.resolved import TensorType
from archloom.oracle.windows import linear
from archloom.oracle.xla.notation import expr, traits
from archloom.oracle.xla.notation.expr import Expr, Leaf
from archloom.oracle.xla.notation.variables import ITSELF, TensorAxis
from archloom.oracle.xla.raising.tree import Block, InstrItem


def itself(owner: InstrItem, name: str, kind: TensorType) -> Leaf:
    """The tensor ``name`` of an instruction in the iterations of the loops around it, over its axes and theirs."""
    loops: list[Block] = []
    block = owner.parent
    while block.parent is not None:
        loops.append(block)
        block = block.parent
    axes = [TensorAxis.of(number, extent) for number, extent in enumerate(kind.shape)]
    index = linear((*(Affine.variable(loop.var) for loop in loops), *map(Affine.variable, axes)),
                   (*(loop.extent for loop in loops), *kind.shape))
    return Leaf(f"{ITSELF} {id(owner)} {name}", index, kind.dtype)


def names(values: Iterable[Expr]) -> frozenset[str]:
    """The names of such values in some expressions, in what they compute of whole tensors included."""
    roots = list(values)
    roots += [operand.body for whole in traits.wholes(roots) for operand in whole.operands]
    return frozenset[str]().union(*map(_names, roots))


@expr.from_children
def _names(e: Expr) -> frozenset[str]:
    own = frozenset({e.name}) if isinstance(e, Leaf) and e.name.startswith(ITSELF) else frozenset[str]()
    return own.union(*map(_names, e.children))
