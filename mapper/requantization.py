"""How a machine makes bytes of int32 sums: by a multiplier and a shift of each channel, with a rounding of its own.

A machine states its rounding as a formula (:class:`Requantizer`), an integer expression in the language of TAIDL over
``sum``, ``multiplier`` and ``shift``, that comes within 1 of ``sum * multiplier / 2**shift``. :data:`HALF_UP` and its
neighbours are those of known kinds of machines. What one operator asks of it is a :class:`Requantization`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.acadl.latency import ArrayValues
from archloom.oracle.errors import TaidlError, TargetError
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import names
from archloom.oracle.taidl.expressions import parse_expression

Integers: TypeAlias = NDArray[np.int64]

NAMES = ("sum", "multiplier", "shift")
BYTE_VALUES = 256
NEAR = 1 / 512
"""Part of a factor by which a multiplier may miss it: half a step of the largest byte."""


@lru_cache(maxsize=64)
def _parsed(formula: str) -> ast.Expr:
    """The tree of a formula; TargetError for what is none."""
    try:
        root = parse_expression(formula, "formula")
    except TaidlError as error:
        raise TargetError(f"a requantization: {error}") from None
    unknown = {str(n.name) for n in names(root)} - set(NAMES)
    if unknown:
        raise TargetError(
            f"the requantization {formula!r}: expected the names {', '.join(NAMES)}, found {min(unknown)}")
    return root


def evaluated(formula: str, sums: Any, multiplier: Any, shift: Any) -> Integers:
    """A formula for int32 sums, multipliers and shifts that broadcast together, in 64 bits."""
    given = dict(zip(NAMES, np.broadcast_arrays(*(np.asarray(a, np.int64) for a in (sums, multiplier, shift)))))
    found: Integers = np.asarray(ArrayValues(given).value(_parsed(formula)), np.int64)
    return found


@dataclass(frozen=True)
class Requantizer:
    """What a machine's output stage does to int32 sums, and what of it a program may choose.

    ``formula``: the rounded product. ``multiplier_bits``: a multiplier is a positive number of so many bits at most.
    ``shifts``: the least and the largest one. ``operand_zeros``: the machine subtracts zero points from its operands,
    and what lies beyond the edge of an image counts as the zero point; without it they are part of the bias, as far as
    they can be. ``tables``: bytes may go through a table of 256 bytes, by which activations are computed. TargetError
    for a formula that does not round ``sum * multiplier / 2**shift``.
    """

    formula: str
    multiplier_bits: int = 31
    shifts: tuple[int, int] = (0, 62)
    operand_zeros: bool = False
    tables: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.multiplier_bits <= 31:
            raise TargetError(f"multiplier_bits: expected 2 to 31, found {self.multiplier_bits}")
        if not 0 <= self.shifts[0] <= self.shifts[1] <= 62:
            raise TargetError(f"shifts: expected a range within 0 to 62, found {self.shifts}")
        _check_rounding(self)

    def constants(self, scale: NDArray[np.floating[Any]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The multiplier with the most bits, and its shift, that come nearest to each factor. TargetError for one that
        is missed by more than :data:`NEAR` of it."""
        mantissa, exponent = np.frexp(np.asarray(scale, np.float64))
        shift = np.clip(self.multiplier_bits - exponent, *self.shifts)
        multiplier = np.rint(np.ldexp(mantissa, exponent + shift))
        halved = (multiplier == 1 << self.multiplier_bits) & (shift > self.shifts[0])  # rounded up to one bit more
        multiplier, shift = np.where(halved, multiplier / 2, multiplier), shift - halved
        multiplier = np.minimum(multiplier, (1 << self.multiplier_bits) - 1)
        missed = np.abs(np.ldexp(multiplier, -shift) - scale) > NEAR * np.asarray(scale, np.float64)
        if missed.any():
            raise TargetError(
                f"a factor of {np.asarray(scale)[missed].flat[0]:g} is beyond multipliers of {self.multiplier_bits} "
                f"bits with shifts from {self.shifts[0]} to {self.shifts[1]}")
        return multiplier.astype(np.int32), shift.astype(np.int32)


def _check_rounding(of: Requantizer) -> None:
    """TargetError with a counterexample unless the formula is within 1 of the real product."""
    top = (1 << of.multiplier_bits) - 1
    multiplier = np.array([top, top // 2 + 1, top // 3 + 1])[:, None, None]
    shift = np.unique(np.clip([of.multiplier_bits - 4, of.multiplier_bits + 1, of.multiplier_bits + 9, *of.shifts],
                              *of.shifts))[:, None]
    sums = np.array([-(1 << 24) + 1, -12345, -129, -3, -2, -1, 0, 1, 2, 3, 128, 12345, (1 << 24) - 1])
    found = evaluated(of.formula, sums, multiplier, shift)
    real = np.ldexp(sums.astype(np.longdouble) * multiplier, -shift)
    far = np.argwhere(np.abs(found - real) > 1)
    if len(far):
        m, h, s = far[0]
        raise TargetError(
            f"the requantization {of.formula!r}: expected within 1 of sum * multiplier / 2**shift, found "
            f"{found[m, h, s]} for sum {sums[s]}, multiplier {multiplier[m, 0, 0]} and shift {shift[h, 0]}, which is "
            f"{float(real[m, h, s]):.2f}")


@dataclass(frozen=True)
class Requantization:
    """From int32 sums to bytes: ``min(max(formula + zero_point, low), high)``, and then, with ``table``, the entry of a
    table of 256 bytes that the byte's bits name.

    ``operand_zeros`` are subtracted from the elements of the operands before they are multiplied.
    """

    formula: str
    zero_point: int = 0
    low: int = -128
    high: int = 127
    table: bool = False
    operand_zeros: tuple[int, int] = (0, 0)

    def apply(self, sums: Any, multiplier: Any, shift: Any, table: Any = None) -> Integers:
        """The bytes as integers from ``low`` to ``high``, or as the table's entries."""
        rounded = evaluated(self.formula, sums, multiplier, shift) + self.zero_point
        clamped: Integers = np.clip(rounded, self.low, self.high)
        return clamped if table is None else np.asarray(table)[clamped % BYTE_VALUES]

    def in_floats(self, sums: Any, multiplier: Any, shift: Any) -> Integers:
        """The bytes as onnxruntime rounds them: the product with a float32 factor, half to even."""
        factor = np.ldexp(np.asarray(multiplier, np.float64), -np.asarray(shift)).astype(np.float32)
        rounded = np.rint(np.asarray(sums, np.int32).astype(np.float32) * factor).astype(np.int64) + self.zero_point
        return np.clip(rounded, self.low, self.high)

    @property
    def plain(self) -> "Requantization":
        """Without the numbers that no plan depends on."""
        first, second = (int(zero != 0) for zero in self.operand_zeros)
        return replace(self, formula="", zero_point=0, low=-128, high=127, operand_zeros=(first, second))


_PRODUCT = "sum * multiplier"
_HALF = "(1 << shift >> 1)"
_HIGH = f"({_PRODUCT} + (1 << 30) >> 31)"
HALF_UP = f"({_PRODUCT} + {_HALF}) >> shift"
"""To the nearest, halves up."""
HALF_EVEN = f"({_PRODUCT} + max({_HALF} - 1, 0) + select(shift == 0, 0, {_PRODUCT} >> shift & 1)) >> shift"
"""To the nearest, halves to even."""
TRUNCATED = f"{_PRODUCT} >> shift"
"""Bits below the point are cut off."""
_LEFT = "max(shift - 31, 0)"
DOUBLING_HIGH = f"({_HIGH} + max((1 << {_LEFT} >> 1) - select({_HIGH} < 0, 1, 0), 0)) >> {_LEFT}"
"""Rounded twice: the upper half of the doubled product, halves up; that by the shift less 31, halves away from zero.
With shifts from 31 on (gemmlowp's ``SaturatingRoundingDoublingHighMul`` and ``RoundingDivideByPOT``)."""
