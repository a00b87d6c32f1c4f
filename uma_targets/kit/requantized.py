"""Operators whose results the machine makes of its sums by itself: a multiplier and a shift of each channel, zero
points, bounds, and tables of activations (:mod:`archloom.mapper.requantization`)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from archloom.mapper.requantization import Requantization, Requantizer
from archloom.mapper.workload import Epilogue
from archloom.oracle.errors import TargetError
from archloom.tvm_backend.host import sums as numbers
from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.tvm_backend.targets.backend import Lowered, Strategy
from archloom.uma_targets.kit.rules import Rule
from archloom.uma_targets.kit.strategies import label
from archloom.uma_targets.kit.sums import bias_of_sums, byte_operands, finished_by_host, scales_of_channels


def bytes_as_result(op: QuantizedOp) -> str | None:
    """The result is quantized to bytes, and a bias is int32: all of it is integers."""
    if not any(stage.kind == "quantize" for stage in op.stages):
        return "the result is not quantized"
    return "the bias is float32" if op.bias is not None and op.bias.dtype == "float32" else None


def rules_of(machine: Requantizer, *, gathered: bool = False) -> tuple[Rule, ...]:
    """What a machine's output stage can finish; ``gathered``: of a convolution whose windows the host gathers, padding
    included."""

    def without_table(op: QuantizedOp) -> str | None:
        """Nothing but a ReLU or clip follows, quantized as what it bounds: there are no tables."""
        kinds = [stage.kind for stage in numbers.merged(op.stages)]
        return None if len(kinds) <= 2 else f"{kinds[2]} of bytes follows it"

    def zeros_in_bias(op: QuantizedOp) -> str | None:
        """Zero points of the operands are part of the bias: those of constants are 0, or the machine subtracts them."""
        if machine.operand_zeros or (gathered and not numbers.zero_point(op.operands[1])):
            return None
        left = [name for name, left in numbers.zeros_left(op).items() if left is not None and np.any(left)]
        return f"zero points add what is no part of the bias ({', '.join(left)})" if left else None

    def within_reach(op: QuantizedOp) -> str | None:
        """The factors from sums to the result are positive and finite, and multipliers and shifts reach them."""
        scale = numbers.scaling_stage(op).scale
        if not np.all((scale > 0) & np.isfinite(scale)):
            return f"a factor from sums to the result is {scale.min() if scale.min() <= 0 else scale.max():g}"
        try:
            machine.constants(scale)
        except TargetError as error:
            return str(error)
        return None

    return (byte_operands, scales_of_channels, bias_of_sums, finished_by_host, bytes_as_result,
            *([] if machine.tables else [without_table]), zeros_in_bias, within_reach)


def by_machine(machine: Requantizer, strategy: Strategy) -> Strategy:
    """The strategy whose workload has the machine's output stage, with its constants."""
    return partial(_lowered, machine, strategy)


def _lowered(machine: Requantizer, strategy: Strategy, op: QuantizedOp) -> Lowered:
    plain, stage = numbers.as_sums(op, fold=not machine.operand_zeros), numbers.scaling_stage(op)
    first, second = (numbers.zero_point(t) if machine.operand_zeros else 0 for t in op.operands)
    asked = Requantization(machine.formula, stage.zero_point, stage.low, stage.high, stage.table is not None,
                           (first, second))
    found = strategy(replace(plain, bias=plain.bias or numbers.no_bias(plain),
                             epilogue=Epilogue(True, 1.0, False, stage.dtype, requantization=asked)))
    shape = next(t.shape for t in found.workload.inputs if t.name == "multiplier")
    arrays = (np.ascontiguousarray(np.broadcast_to(c, shape)) for c in machine.constants(stage.scale))
    constants = {**found.constants, **dict(zip(("multiplier", "shift"), arrays))}
    if stage.table is not None:  # by the bits of a byte, no more by its place in the range
        constants["table"] = np.roll(stage.table, int(np.iinfo(stage.between).min))
    curves = (stage.kind for stage in op.stages if stage.kind in numbers.CURVES)
    return replace(found, op="+".join((label(found.op.partition("+")[0], op), *curves)), constants=constants)
