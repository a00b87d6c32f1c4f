"""Products of matrices in parts: with scales of blocks, with rows in groups, and of the components of numbers.

The algorithms of ``dot_general`` (StableHLO's ``algorithm``): each operand is a sum of components of a narrower type,
the first the operand rounded to it, each further one what is still missing, rounded. Of the products of components
those of the lowest orders are made, ``num_primitive_operations`` of them, and added up from the smallest on: with three
components of bf16 and six products that is bf16_6x (XLA's BF16_BF16_F32_X6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from archloom.oracle.resolved import Dim, Shaped, TensorType
from archloom.oracle.taidl.operators import base
from archloom.oracle.taidl.operators.base import Attribute, Attributes, Values, integer
from archloom.oracle.taidl.operators.conversion import converted, rounded_to
from archloom.oracle.taidl.operators.stepwise import Steps

PRECISIONS = {"full": (8, 23), "tf32": (8, 10), "bf16": (8, 7), "f16": (5, 10)}
"""Exponent and mantissa bits of the types of components."""

ALGORITHM = (
    *(Attribute(f"{side}_precision_type", "word", tuple(PRECISIONS), "full") for side in ("lhs", "rhs")),
    *(integer(f"{side}_component_count", 1) for side in ("lhs", "rhs")), integer("num_primitive_operations", 1))
"""The attributes of an algorithm."""

PLAIN = {a.name: a.default for a in ALGORITHM}


def has_components(a: Mapping[str, object]) -> bool:
    """Whether operands are taken apart."""
    return any(a.get(name, value) != value for name, value in PLAIN.items())


def orders(lhs: int, rhs: int) -> list[tuple[int, int]]:
    """The pairs of components, those of the largest products first."""
    return sorted(np.ndindex(lhs, rhs), key=lambda pair: (sum(pair), pair))


def algorithm_fault(result: Shaped, a: Attributes) -> str | None:
    """What is wrong with the attributes of an algorithm."""
    counts = [a[f"{side}_component_count"] for side in ("lhs", "rhs")]
    made = a["num_primitive_operations"]
    if not has_components(a) or not all(isinstance(n, int) for n in (*counts, made)):
        return None
    if result.dtype != "f32" or a["rounding"] != "each":
        return "components of {} are those of f32 with rounding=each"
    if not all(1 <= int(str(n)) <= 8 for n in counts):
        return f"a number of {{}} has 1..8 components, found {counts[0]} and {counts[1]}"
    pairs = [sum(p) for p in orders(*(int(str(n)) for n in counts))]
    whole = [n for n in range(1, len(pairs) + 1) if n == len(pairs) or pairs[n] > pairs[n - 1]]
    if made not in whole:
        return (f"num_primitive_operations of {{}} with {counts[0]} and {counts[1]} components is one of "
                f"{', '.join(map(str, whole))} (all products up to an order), found {made}")
    return None


def components(lib: Any, x: Any, a: Values, side: str) -> list[Any]:
    """An f32 as numbers of the narrower type, from the largest on, whose sum it nearly is."""
    s, found = Steps(lib, "f32"), []
    for _ in range(a[f"{side}_component_count"]):
        found.append(rounded_to(lib, x, *PRECISIONS[a[f"{side}_precision_type"]]))
        x = s.subtract(x, found[-1])
    return found


# --- scaled_dot ---------------------------------------------------------------------------------------------------


def scaled_rule(dot: base.Rule) -> base.Rule:
    """That of ``dot_general`` for the scaled operands."""

    def rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
        if not base.is_kind(result.dtype, "float"):
            return f"{{}} accumulates in floats, not in {result.dtype}"
        for x, scale in zip(operands[:2], operands[2:], strict=True):
            fits = len(scale.shape) == len(x.shape) and not any(map(_is_no_part, scale.shape, x.shape))
            if not fits or not all(base.is_kind(t.dtype, "float", "scale") for t in (x, scale)):
                return f"the scales of {x} are floats, each of a block of equal extents, found {scale}"
        return dot(result, [Shaped(x.shape, result.dtype) for x in operands[:2]], a)

    return rule


def _is_no_part(part: Dim, whole: Dim) -> bool:
    return isinstance(part, int) and isinstance(whole, int) and whole % part != 0


def scaled(lib: Any, x: Any, scale: Any, types: Sequence[str], dtype: str) -> Any:
    """Elements of the type, each multiplied by the scale of its block."""
    for axis, (n, parts) in enumerate(zip(x.shape, scale.shape, strict=True)):
        scale = lib.xp.repeat(scale, n // parts, axis)
    s = Steps(lib, dtype)
    return s.element(s.multiply(*(s.value(converted(lib, v, t, dtype))
                                  for v, t in zip((x, scale), types, strict=True))))


# --- ragged_dot ---------------------------------------------------------------------------------------------------


def ragged_rule(types_fault: Callable[[Shaped, Shaped, Shaped], str | None]) -> base.Rule:
    """Rows, matrices and sizes of groups; ``types_fault`` says what is wrong with the types of a product."""

    def rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
        x, w, sizes = operands
        fault = types_fault(x, w, result)
        if fault or len(x.shape) != 2 or len(w.shape) != 3 or base.shapes_differ(sizes.shape, w.shape[:1]):
            return fault or f"{{}} takes mxk, gxkxn and g sizes of groups, found {x}, {w} and {sizes}"
        if not base.is_kind(sizes.dtype, "int", "uint"):
            return f"the sizes of groups are integers, found {sizes}"
        if base.differ(x.shape[1], w.shape[1]):
            return f"the contracted axes of {x} and {w} have the extents {x.shape[1]} and {w.shape[1]}"
        return base.wrong(result, (x.shape[0], w.shape[2]), result.dtype)

    return rule


def ragged(
    lib: Any, product: Callable[..., Any], result: TensorType, x: Sequence[Any], types: Sequence[str]
) -> Any:
    """Each group's matrix times all rows, of which its own are kept."""
    groups = x[1].shape[0]
    all_rows = product(lib.xp.broadcast_to(x[0], (groups, *x[0].shape)), x[1], types[:2], result.dtype)
    ends = lib.xp.cumsum(lib.value(x[2], types[2]).astype(np.int32))
    row = np.arange(result.shape[0], dtype=np.int32)[:, None]
    made = lib.xp.full(result.shape, lib.constant(0, result.dtype))
    for g in reversed(range(groups)):
        made = lib.xp.where(row < ends[g], all_rows[g], made)
    return made
