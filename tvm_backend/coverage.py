"""Who covers a network: for each operator who takes it, or what each target saw in it and would take instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from archloom.oracle.errors import ModelError, counted
from archloom.oracle.fallbacks import Fallback, titled
from archloom.tvm_backend.compile import partition_model
from archloom.tvm_backend.compiled import Partition, Refused
from archloom.tvm_backend.ir.nodes import Unsupported
from archloom.tvm_backend.model import Model
from archloom.tvm_backend.report.table import Column, count, percent, render, several
from archloom.tvm_backend.targets.choice import backends

SCHEMA = "archloom.coverage/1"
"""Name and version of the schema."""

_PLACES = (Column("operator", limit=44), Column("kind", limit=32), Column("shape", limit=18), Column("MACs", "right"),
           Column("taken by"), Column("as"))


@dataclass(frozen=True)
class Placed:
    """An operator (with what is fused to it) and its place.

    ``taken_by`` is a target, and ``region`` the region of which it is a part; or ``taken_by`` is None, and ``engine``
    says what runs it on the host. ``refused`` has the answers of the targets that did not take it, in order of
    preference: what each saw, and what it takes instead. ``choice``: what was weighed, where the target could take it
    as one with the operator before.
    """

    name: str
    op: str
    shape: tuple[int, ...]
    macs: int
    taken_by: str | None
    region: str | None
    engine: str | None
    refused: tuple[Refused, ...]
    choice: str = ""


@dataclass(frozen=True)
class Coverage:
    """Every operator of a network in its place; ``str()`` of it is a table with the reasons below."""

    model: str
    target: str
    options: Mapping[str, Any]
    macs: int
    offloaded_macs: int
    operators: tuple[Placed, ...]
    patterns: Mapping[str, tuple[str, ...]]
    """of each target, tried in this order"""
    fallbacks: tuple[Fallback, ...] = ()
    """what was read or rewritten in another way than meant"""
    schema: str = SCHEMA

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the fields of this class, and for each target the share of the MACs that it takes;
        ``fallbacks`` only where there are some."""
        data = {**asdict(self), "shares": self.shares()}
        return data if self.fallbacks else {k: v for k, v in data.items() if k != "fallbacks"}

    def shares(self) -> dict[str, float]:
        """For each target the part of the network's multiply-accumulates that it takes; 0 where there are none."""
        taken = {name: sum(op.macs for op in self.operators if op.taken_by == name) for name in self.target.split(",")}
        return {name: macs / self.macs if self.macs else 0.0 for name, macs in taken.items()}

    def __str__(self) -> str:
        rows = [[op.name, op.op, "×".join(map(str, op.shape)), count(op.macs), op.taken_by or "host",
                 op.region or op.engine or ""] for op in self.operators]
        return "\n\n".join(filter(None, [
            render(_PLACES, rows), self._reasons(), self._choices(), titled(self.fallbacks), self._totals()]))

    def _reasons(self) -> str:
        """Each answer once, with the operators that it was given for; by target."""
        lines = []
        for target, patterns in self.patterns.items():
            given: dict[Refused, list[str]] = {}
            for op in self.operators:
                for answer in op.refused:
                    if answer.target == target:
                        given.setdefault(answer, []).append(op.name)
            if not given:
                continue
            lines.append(f"{target} (patterns: {', '.join(patterns)}) did not take")
            for answer, names in given.items():
                lines.append(f"  {several(names)}: {answer.reason}")
                lines += [f"    it takes: {answer.needs}"] if answer.needs else []
        return "\n".join(lines)

    def _choices(self) -> str:
        """What was weighed, each once, with the operators of which it was said."""
        given: dict[str, list[str]] = {}
        for op in self.operators:
            if op.choice:
                given.setdefault(op.choice, []).append(op.name)
        lines = [f"  {several(names)}: {choice}" for choice, names in given.items()]
        return "\n".join(["one layer or two", *lines]) if lines else ""

    def _totals(self) -> str:
        shares = ", ".join(f"{name} {percent(share)}" for name, share in self.shares().items())
        left = sum(1 for op in self.operators if op.taken_by is None)
        return (f"{self.model}: {count(self.macs)} MACs, of these {shares}; "
                f"{counted(left, 'operator stays', 'operators stay')} on the host")


def coverage(model: "Model", target: str, options: Mapping[str, Any] | None = None) -> Coverage:
    """Partition ``model`` for ``target`` (or several, parted by commas) and say why as it is; nothing is mapped but
    what a target weighs as one layer or two."""
    try:
        return of_partition(partition_model(model, target, options))
    except Unsupported as error:
        raise ModelError(f"{model.name}: cannot be partitioned without its weights: {error}") from error


def of_partition(partition: Partition) -> Coverage:
    """The coverage of a partition, its operators in the order of the network."""
    placed = [(step.position, Placed(
        step.name, step.op, step.shape, step.macs, region.target, region.symbol, None,
        tuple(dict.fromkeys(step.refused)), step.choice)) for region in partition.regions for step in region.steps]
    placed += [(op.position, Placed(
        op.name, op.op, op.shape, op.macs, None, None, op.engine, op.refused))
        for op in partition.host.ops]
    ordered = [op for _, op in sorted(placed, key=lambda pair: pair[0])]
    patterns = {b.target_name: tuple(p.name for p in b.patterns) for b in backends(partition.target)}
    return Coverage(partition.name, partition.target, dict(partition.options), partition.macs,
                       partition.offloaded_macs, tuple(ordered), patterns, partition.fallbacks)
