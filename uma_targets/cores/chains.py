"""Two products with an activation between them as one program of a mesh of cores, where that is faster than two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from archloom.mapper import workload as wl
from archloom.mapper.accelerator import Accelerator
from archloom.mapper.options import OptionValue
from archloom.mapper.search import search
from archloom.mapper.spatial.chain import Chain
from archloom.mapper.spatial.epilogue import ACTIVATIONS
from archloom.mapper.spatial.layers import product_of
from archloom.mapper.workload import Workload
from archloom.oracle.errors import MappingError
from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.tvm_backend.targets.backend import Joined, Lowered
from archloom.tvm_backend.targets.layouts import TILES
from archloom.uma_targets.cores import strategies


def weighed(
    first: QuantizedOp, second: QuantizedOp, accelerator: "Accelerator", options: Mapping[str, OptionValue]
) -> Joined | None:
    """Both as a chain, if its plan takes fewer cycles than those of the two products; None where they make no chain.

    All three are searched for as layers of a network are, and kept: what is taken is not searched for again.
    """
    if first.anchor != "matmul" or second.anchor != "matmul" or first.shape != second.operands[0].shape:
        return None
    parts = strategies.matmul(first), strategies.matmul(second)
    chain = chain_of(*parts)
    if chain is None:
        return None
    op = replace(second, anchor="chain", operands=(*first.operands, *second.operands[1:]))
    lowered = _lowered(chain, op, parts)
    apart = sum(_cycles(part.workload, accelerator, options) for part in parts)
    both = " and ".join(part.op for part in parts)
    try:
        joined = _cycles(lowered.workload, accelerator, options)
    except MappingError as error:
        return Joined(op, None, f"two layers ({both}) of {apart:,} cycles: as one they do not fit, {error}")
    if joined >= apart:
        return Joined(op, None, f"two layers ({both}) of {apart:,} cycles; as one they would take {joined:,}")
    return Joined(op, lowered, f"one layer of {joined:,} cycles; as two ({both}) it would take {apart:,}")


def chain_of(first: Lowered, second: Lowered) -> Chain | None:
    """Products of rows with a constant matrix each, the second of which ends with a bias and a residual at most; None
    for anything else."""
    if "B" not in first.constants or "B" not in second.constants:
        return None
    up, down = product_of(first.workload), product_of(second.workload)
    if any(p.batch > 1 or not p.shared or p.transposed_a or p.transposed_b for p in (up, down)):
        return None
    activation = up.epilogue.activation
    if up.epilogue.residual or down.epilogue.activation or (activation and activation not in ACTIVATIONS):
        return None
    return Chain(up.m, up.k, up.n, down.n, activation, (up.epilogue.bias, down.epilogue.bias), down.epilogue.residual)


def _lowered(chain: Chain, op: QuantizedOp, parts: tuple[Lowered, Lowered]) -> Lowered:
    """The chain with the constants of both products, which are one matrix and one row of tiles each."""
    names = {f"{name}{number}": (part, own) for number, part in enumerate(parts, start=1)
             for name, own in (("W", "B"), ("bias", "bias")) if own in part.constants}
    residual = (("residual", len(op.operands) - 1),) if chain.residual else ()
    return Lowered(
        wl.chain(chain, name=op.name), "+".join(part.op for part in parts), (("A", 0), *residual),
        {name: part.constants[own][0] for name, (part, own) in names.items()}, TILES,
        tiles=replace(parts[1].tiles, layouts={}, zero_edges={"A": parts[0].tiles.zero_edges["A"]}))


def _cycles(workload: "Workload", accelerator: "Accelerator", options: Mapping[str, OptionValue]) -> int:
    return search(workload, accelerator, options).timing.cycles
