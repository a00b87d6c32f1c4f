"""Targets that share one network, in order of preference, each with its options.

A choice is spelled as names parted by commas (``"gemmini,qkv"``) or given as a list. Options of one target have their
plain names. Of several, ``gemmini.dim`` is Gemmini's, and a plain ``dim`` is that of every target that has one; when
resolved, all are named in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

from archloom.mapper.options import OptionValue
from archloom.mapper.workload import Workload, plain
from archloom.oracle.errors import TargetError, suggest
from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.targets.backend import Lowered, Pattern, UMABackend, Verdict

Target: TypeAlias = "str | UMABackend | Sequence[str | UMABackend]"


@dataclass(frozen=True, eq=False)
class Chosen:
    """A target with all of its options; ``unplaced``: workloads that no mapping fits, with the reasons, which it does
    not take."""

    backend: UMABackend
    options: Mapping[str, OptionValue]
    unplaced: Mapping[Workload, str] = field(default_factory=dict)

    def without(self, unplaced: Mapping[Workload, str]) -> "Chosen":
        """The same, but for further workloads."""
        return replace(self, unplaced={**self.unplaced, **unplaced})

    def placed(self, pattern: Pattern, op: QuantizedOp) -> Verdict:
        """Whether nothing is known against a mapping of an operator that a pattern takes."""
        if self.unplaced:
            work = self.lowered(pattern.name, op).workload
            if (reason := self.unplaced.get(plain(work))) is not None:
                return Verdict(False, reason, "a mapping that fits")
        return Verdict(True, "")

    def lowered(self, pattern: str, op: QuantizedOp) -> Lowered:
        """A match as a workload, with its constants as the target wants them in memory."""
        found = self.backend.strategy(pattern, self.options)(op)
        work = self.packed(replace(found.workload, constants=tuple(found.constants)))
        arrays = {t.name: t.stored(found.constants[t.name]) for t in work.inputs if t.packing is not None}
        return replace(found, workload=work, constants={**found.constants, **arrays})

    def packed(self, work: Workload) -> Workload:
        """A workload with its constants as the target wants them in memory."""
        accelerator = self.backend.accelerator
        return work if accelerator.layouts is None else accelerator.configure(self.accelerator_options).packed(work)

    @property
    def name(self) -> str:
        return self.backend.target_name

    @cached_property
    def composites(self) -> Mapping[str, Pattern]:
        """The patterns, in their order, by the names that TVM's composite functions of their matches have."""
        return {f"{self.name}.{pattern.name}": pattern for pattern in self.backend.patterns}

    @property
    def accelerator_options(self) -> dict[str, OptionValue]:
        """The options without the attributes that are the target's own."""
        return {k: v for k, v in self.options.items() if k not in self.backend.attributes}


def names_of(target: "str | Sequence[str]") -> tuple[str, ...]:
    """The names of a choice, in order; TargetError where it is empty, or names a target twice.

    A Python file stands for the target that it registers, ``FILE.py:NAME`` for one of several.
    """
    names: list[Any] = [target]
    if isinstance(target, Sequence):
        names = target.split(",") if isinstance(target, str) else list(target)
    for name in names:
        if not isinstance(name, str):
            found = repr(name) if isinstance(name, int | float | None) else f"a {type(name).__name__}"
            raise TargetError(f"target: expected a name or a list of names, found {found}")
    stripped = [name.strip() for name in names]
    if not any(stripped):
        raise TargetError(f"target: expected at least one of {', '.join(registry.names())}, found none")
    if "" in stripped:
        raise TargetError(f"target: expected a name before and after each comma, found none in {','.join(stripped)!r}")
    twice = [name for i, name in enumerate(stripped) if name in stripped[:i]]
    if twice:
        raise TargetError(f"target {twice[0]!r} is named twice in {','.join(stripped)!r}")
    return tuple(registry.target_in(name) if registry.is_file(name) else name for name in stripped)


def spelled(target: "str | Sequence[str]") -> str:
    """``["gemmini", "qkv"]`` as ``"gemmini,qkv"``."""
    return ",".join(names_of(target))


def backends(target: Target) -> tuple[UMABackend, ...]:
    """The targets of a choice; TargetError for unknown ones."""
    if isinstance(target, UMABackend):
        return (target,)
    if not isinstance(target, str) and any(isinstance(t, UMABackend) for t in target):
        return tuple(t if isinstance(t, UMABackend) else registry.get(t) for t in target)
    return tuple(registry.get(name) for name in names_of(target))  # type: ignore[arg-type]


def choose(target: Target, options: Mapping[str, Any] | None = None) -> tuple[Chosen, ...]:
    """The targets of a choice with their options, defaults filled in and values checked."""
    among = backends(target)
    given = _each(among, options or {})
    return tuple(Chosen(b, _resolved(b, given[b.target_name])) for b in among)


def named_options(chosen: Sequence[Chosen]) -> dict[str, OptionValue]:
    """The options of a choice as one mapping: in full (``gemmini.dim``) where there are several targets."""
    if len(chosen) == 1:
        return dict(chosen[0].options)
    return {f"{c.name}.{option}": value for c in chosen for option, value in c.options.items()}


def _resolved(backend: UMABackend, options: Mapping[str, Any]) -> dict[str, OptionValue]:
    own = dict(backend.attributes)
    rest = {key: value for key, value in options.items() if key not in own}
    own.update({key: value for key, value in options.items() if key in own})
    return {**backend.accelerator.resolve_options(rest), **own}


def _each(among: Sequence[UMABackend], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Which options are meant for which target."""
    if len(among) == 1:
        return {among[0].target_name: dict(options)}
    known = {b.target_name: {*b.attributes, *(o.name for o in b.accelerator.options)} for b in among}
    given: dict[str, dict[str, Any]] = {name: {} for name in known}
    for key in sorted(options, key=lambda k: "." in k):  # a full name overrides a plain one
        name, dot, option = key.partition(".")
        if dot and name not in known:
            raise TargetError(f"option {key!r}: {name!r} is not among the targets{suggest(name, list(known))}")
        owners = [name] if dot else [n for n, its in known.items() if key in its]
        if not owners:
            raise TargetError(f"option {key!r}: none of {', '.join(known)} has it"
                              f"{suggest(key, sorted({o for its in known.values() for o in its}))}")
        for owner in owners:
            given[owner][option if dot else key] = options[key]
    return given
