"""Mappings: how one workload is cut into tiles, in which order they run, where each operand waits and how often."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping as MappingABC
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from archloom.mapper.workload import Kind
from archloom.oracle.errors import MappingError

Level: TypeAlias = Literal["stream", "hoist", "interleave"]
"""When a tile of an operand is loaded.

``stream``: for each chunk of the reduction, just before it is used. ``hoist``: with its whole reduction extent, before
the loops that do not index it. ``interleave``: kept as with ``hoist``, but each chunk is loaded just before its
first use, among the computations of the first iteration of those loops.
"""

Store: TypeAlias = Literal["after", "interleave"]
Packing: TypeAlias = Literal["channels", "kernel_row"]
LEVELS: tuple[str, ...] = get_args(Level)


@dataclass(frozen=True, order=True)
class Mapping:
    """One point of the mapping space; with the workload and the accelerator enough to emit the stream again.

    ``kind``: the workload's kind as it is emitted (a 1 × 1 convolution may be emitted as a ``gemm``).
    ``dataflow``: ``ws`` keeps weights in the array, ``os`` keeps sums, ``is`` keeps inputs there; other accelerators
    have words of their own (letters and digits), such as how tiles are spread; empty where there is no choice.
    ``tile``: extents of a tile in elements, by dimension (``gemm``: m, n, k; ``conv2d``: oh, ow, o, c, where oh and ow
    count pooled rows and columns if the epilogue pools; ``add``: rows; ``attention``: q, k).
    ``order``: the loops over tiles, outermost first; without the reduction where that is always innermost.
    ``loads``: for each operand its :data:`Level`.
    ``buffers``: for each operand and the result how many tiles are held at a time (2 is double buffering).
    ``store``: ``after`` the tile is complete, or ``interleave``\\ d with the last step of its reduction.
    ``packing``: what a row of the scratchpad holds in a convolution: ``channels`` of one pixel, or a
    ``kernel_row`` of pixels × channels.
    ``spread``: for machines of many cores the plan (JSON of :mod:`archloom.mapper.spatial`): which core computes what,
    and how tiles reach it; else empty.
    ``lanes``: of a nest of loops on a vector unit what lies along vectors: for each of its nests the number of one of
    the ways that there are.
    """

    kind: Kind
    dataflow: str
    tile: tuple[tuple[str, int], ...]
    order: tuple[str, ...] = ()
    loads: tuple[tuple[str, Level], ...] = ()
    buffers: tuple[tuple[str, int], ...] = ()
    store: Store = "after"
    packing: Packing = "channels"
    spread: str = ""
    lanes: tuple[int, ...] = ()

    def size(self, dim: str) -> int:
        """Extent of a tile along ``dim``, in elements."""
        return _lookup(self.tile, dim, "tile size")

    def level(self, operand: str) -> Level:
        """When tiles of ``operand`` are loaded."""
        return _lookup(self.loads, operand, "load level")

    def slots(self, operand: str) -> int:
        """How many tiles of ``operand`` are held at a time."""
        return _lookup(self.buffers, operand, "number of buffers")

    def __str__(self) -> str:
        """One line, such as ``gemm ws m128 n64 k16 m>n A:stream*2 B:hoist*1 C*2 store after``."""
        if self.spread:
            from archloom.mapper.spatial.plan import described

            return f"{self.kind} {described(self.kind, self.spread)}"
        levels = dict(self.loads)
        parts = [self.kind, *([self.dataflow] if self.dataflow else []), " ".join(f"{d}{s}" for d, s in self.tile)]
        parts += [">".join(self.order)] if self.order else []
        parts += ["lanes " + ",".join(map(str, self.lanes))] if self.lanes else []
        parts += [f"{name}:{levels[name]}*{n}" if name in levels else f"{name}*{n}" for name, n in self.buffers]
        parts += [f"store {self.store}"] if self.buffers else []
        parts += [f"packed {self.packing}"] if self.packing != "channels" else []
        return " ".join(parts)

    def limited(self, operand: str, most: int) -> "Mapping":
        """With ``most`` places of an operand, or with as many as before where these are fewer."""
        buffers = tuple((name, min(count, most) if name == operand else count) for name, count in self.buffers)
        return replace(self, buffers=buffers)

    def to_json(self) -> str:
        """Canonical JSON text; :meth:`from_json` gives the equal mapping."""
        fields = asdict(self)
        for name in ("tile", "loads", "buffers"):
            fields[name] = dict(fields[name])
        return json.dumps(fields, sort_keys=False, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> "Mapping":
        """The mapping written by :meth:`to_json`; MappingError for anything else."""
        try:
            return _from_fields(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise MappingError(f"expected the JSON form of a mapping, found {text[:80]!r}: {error}") from error


def _from_fields(fields: MappingABC[str, Any]) -> Mapping:
    known = set(Mapping.__dataclass_fields__)
    if set(fields) != known:
        raise ValueError(f"fields {sorted(fields)} instead of {sorted(known)}")
    if not re.fullmatch(r"[A-Za-z0-9]*", fields["dataflow"]):
        raise ValueError(f"dataflow {fields['dataflow']!r} is no word of letters and digits")
    if fields["spread"]:
        json.loads(fields["spread"])
    for name, choice in (("store", Store), ("packing", Packing), ("kind", Kind)):
        if fields[name] not in get_args(choice):
            raise ValueError(f"{name} {fields[name]!r} is none of {', '.join(get_args(choice))}")
    if any(level not in LEVELS for level in fields["loads"].values()):
        raise ValueError(f"loads {fields['loads']} must be among {', '.join(LEVELS)}")
    pairs = {name: tuple((str(k), int(v)) for k, v in fields[name].items()) for name in ("tile", "buffers")}
    if any(v < 1 for items in pairs.values() for _, v in items):
        raise ValueError("sizes and buffers must be at least 1")
    return Mapping(
        fields["kind"], fields["dataflow"], pairs["tile"], tuple(fields["order"]),
        tuple(fields["loads"].items()), pairs["buffers"], fields["store"], fields["packing"], fields["spread"],
        tuple(map(int, fields["lanes"])),
    )


def _lookup(pairs: tuple[tuple[str, Any], ...], key: str, what: str) -> Any:
    for name, value in pairs:
        if name == key:
            return value
    raise MappingError(f"the mapping has no {what} for {key!r} (it has: {', '.join(n for n, _ in pairs) or 'none'})")
