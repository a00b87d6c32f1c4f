"""HLO's collective operators, over an axis of a tensor: the replicas that a program of HLO has one by one.

An instruction acts on one machine. What its cores hold is a tensor with an axis for the cores; ``replicas`` names it.
``replica_groups`` lists the replicas group by group (in order by default), ``group_size`` of them in each (all by
default).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from archloom.oracle.resolved import Dim, Shaped, TensorType
from archloom.oracle.taidl.operators import base
from archloom.oracle.taidl.operators.base import Attribute, Attributes, Opcode, Values, integer, integers, ints
from archloom.oracle.taidl.operators.reduction import KINDS, combined, kind_fault


def _groups_fault(x: Shaped, a: Attributes) -> str | None:
    groups, size = integers(a, "replica_groups"), a["group_size"]
    fault = base.axis_fault(a["replicas"], len(x.shape))
    count = None if fault else x.shape[base.known(a, "replicas")]
    if fault or not isinstance(count, int):
        return fault
    if groups and sorted(map(str, groups)) != sorted(map(str, range(count))):
        return f"replica_groups={base.show(groups)} must name each of the {count} replicas once"
    wrong = isinstance(size, int) and (size < 0 or (size > 0 and count % size))
    return f"group_size must divide the {count} replicas, found {size}" if wrong else None


def _members(count: int, a: Values) -> np.ndarray[Any, Any]:
    """The replicas of each group, [groups, members]."""
    return np.array(a["replica_groups"] or range(count), np.int32).reshape(-1, a["group_size"] or count)


def _group_size(x: Shaped, a: Attributes) -> Dim:
    """How many replicas a group has; the operand was found right."""
    size = a["group_size"]
    return size if isinstance(size, int) and size else x.shape[base.known(a, "replicas")] if size == 0 else "?"


def _inner_fault(a: Attributes, name: str, x: Shaped) -> str | None:
    """What is wrong with an axis that must be another than that of the replicas."""
    fault = base.axis_fault(a[name], len(x.shape))
    return fault or (f"{name} is the axis of the replicas" if a[name] == a["replicas"] else None)


def _resized(extent: Dim, parts: Dim, longer: bool) -> Dim | None:
    """An extent as many times as long, or as short; None if it cannot be split."""
    if not (isinstance(extent, int) and isinstance(parts, int)):
        return "?"
    return extent * parts if longer else None if extent % parts else extent // parts


def _rule(*axes: str, reduces: bool = False, grows: str = "", shrinks: str = "") -> base.Rule:
    """The rule of a collective with these inner axes, of which one is as many times as long, or as short, as a group.
    """

    def rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
        (x,) = operands
        fault = _groups_fault(x, a) or (kind_fault(a["kind"], x.dtype) if reduces else None)
        for name in axes:
            fault = fault or _inner_fault(a, name, x)
        if fault:
            return fault
        parts, shape = _group_size(x, a), list(x.shape)
        for name, longer in ((shrinks, False), (grows, True)):
            if name:
                at = base.known(a, name)
                extent = _resized(shape[at], parts, longer)
                if extent is None:
                    return f"axis {at} of {x} cannot be split among {parts} replicas"
                shape[at] = extent
        return base.wrong(result, shape, x.dtype)

    return rule


Exchange = Callable[[Any, Any, TensorType, Values], Any]
"""``(lib, x, result, attributes)`` with x as [groups, members, ...]; the same of the result."""


def _exchanged(exchange: Exchange) -> Callable[..., Any]:
    """The collective by what happens within each group; an axis d of the tensor is axis ``_place(d)`` there."""

    def compute(lib: Any, result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
        tensor = lib.xp.moveaxis(lib.xp.asarray(x[0]), a["replicas"], 0)
        members = _members(tensor.shape[0], a)
        made = exchange(lib, tensor[members], result, a)
        flat = made.reshape(-1, *made.shape[2:])[np.argsort(members.reshape(-1))]
        return lib.xp.moveaxis(flat, 0, a["replicas"])

    return compute


def _place(axis: int, a: Values) -> int:
    """Where an axis of the tensor is behind groups and members."""
    return axis + 2 if axis < a["replicas"] else axis + 1


def _all(lib: Any, x: Any, part: Any) -> Any:
    """The same for each member of a group."""
    return lib.xp.broadcast_to(part[:, None], (*x.shape[:2], *part.shape[1:]))


def _reduced(lib: Any, x: Any, result: TensorType, a: Values) -> Any:
    return combined(lib, lib.xp.moveaxis(x, 1, -1), a["kind"], result.dtype)


def _reduce_scatter(lib: Any, x: Any, result: TensorType, a: Values) -> Any:
    return lib.xp.stack(lib.xp.split(_reduced(lib, x, result, a), x.shape[1], _place(a["dim"], a) - 1), 1)


def _all_gather(lib: Any, x: Any, result: TensorType, a: Values) -> Any:
    return _all(lib, x, lib.xp.concatenate([x[:, i] for i in range(x.shape[1])], _place(a["dim"], a) - 1))


def _all_to_all(lib: Any, x: Any, result: TensorType, a: Values) -> Any:
    count = x.shape[1]
    pieces = lib.xp.split(x, count, _place(a["split_dimension"], a))
    # to each member the piece of its number from every member, in their order
    return lib.xp.stack([lib.xp.concatenate([p[:, i] for i in range(count)], _place(a["concat_dimension"], a) - 1)
                         for p in pieces], 1)


def _permute_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    (x,), pairs, axis = operands, integers(a, "source_target_pairs"), a["replicas"]
    fault = base.axis_fault(axis, len(x.shape))
    if fault or not isinstance(axis, int):
        return fault
    targets, count = pairs[1::2], x.shape[axis]
    outside = isinstance(count, int) and any(isinstance(r, int) and not 0 <= r < count for r in pairs)
    if len(pairs) % 2 or outside or len(set(targets)) != len(targets) or len(set(pairs[::2])) != len(targets):
        return (f"source_target_pairs lists pairs of the {count} replicas, none twice as a source or as a target, "
                f"found {base.show(pairs)}")
    return base.wrong(result, x.shape, x.dtype)


def _permute(lib: Any, result: TensorType, x: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    tensor = lib.xp.moveaxis(lib.xp.asarray(x[0]), a["replicas"], 0)
    pairs = dict(zip(a["source_target_pairs"][1::2], a["source_target_pairs"][::2], strict=True))
    none = lib.xp.zeros_like(tensor[0])
    return lib.xp.moveaxis(lib.xp.stack([tensor[pairs[i]] if i in pairs else none for i in range(len(tensor))]), 0,
                           a["replicas"])


REPLICAS, KIND = integer("replicas", 0), Attribute("kind", "word", KINDS, "add")
GROUPS = (REPLICAS, ints("replica_groups", ()), integer("group_size", 0))


def _row(name: str, rule: base.Rule, exchange: Exchange, doc: str, *attributes: Attribute,
         spelled: tuple[str, ...] = ()) -> Opcode:
    return Opcode(name, 1, rule, *base.in_both(_exchanged(exchange)), "opaque", doc, (*attributes, *GROUPS),
                  spelled=spelled)


ROWS: list[Opcode] = [
    _row("all_reduce", _rule(reduces=True), lambda lib, x, r, a: _all(lib, x, _reduced(lib, x, r, a)),
         "each replica (a place of the axis `replicas`) gets what those of its group combine to, in their order", KIND,
         spelled=("cross_replica_sum",)),
    _row("reduce_scatter", _rule("dim", reduces=True, shrinks="dim"), _reduce_scatter,
         "as `all_reduce`, and each gets its part of the axis `dim`", integer("dim", None, "scatter_dimension"), KIND),
    _row("all_gather", _rule("dim", grows="dim"), _all_gather,
         "each gets what those of its group have, one after the other along `dim`",
         integer("dim", None, "all_gather_dim")),
    _row("all_to_all", _rule("split_dimension", "concat_dimension", shrinks="split_dimension",
                             grows="concat_dimension"), _all_to_all,
         "each gives its group a part each along one axis, and gets one from each, along another",
         integer("split_dimension"), integer("concat_dimension")),
    _row("collective_broadcast", _rule(), lambda lib, x, r, a: _all(lib, x, x[:, 0]),
         "each gets what the first of its group has"),
    Opcode("collective_permute", 1, _permute_rule, *base.in_both(_permute), "opaque",
           "from replica to replica, as pairs one after the other say; zeros where none comes from",
           (ints("source_target_pairs"), REPLICAS)),
]
