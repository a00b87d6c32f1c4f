"""The registered accelerators with their options, as data for listings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from archloom.mapper.options import Option
from archloom.tvm_backend.targets import registry

if TYPE_CHECKING:
    from archloom.tvm_backend.targets.backend import UMABackend


@dataclass(frozen=True)
class TargetInfo:
    """A target: its name, one line about it, and its options."""

    name: str
    description: str
    options: tuple[Option, ...]

    def to_json(self) -> dict[str, object]:
        """``options`` as objects with name, type, default, range or choices, unit and help."""
        return {"name": self.name, "description": self.description, "options": [_option(o) for o in self.options]}


def targets() -> list[TargetInfo]:
    """All registered targets by name."""
    return [info(name) for name in registry.names()]


def info(name: str) -> TargetInfo:
    """One target; :class:`~archloom.oracle.errors.TargetError` with the valid names if there is none of that name."""
    backend = registry.get(name)
    return TargetInfo(name, backend.description, (*backend.accelerator.options, *_own(backend)))


def _own(backend: "UMABackend") -> tuple[Option, ...]:
    """Attributes that the target declares beside the options of its accelerator."""
    return tuple(Option(name, type(value), value, "attribute of the target")  # type: ignore[arg-type]
                 for name, value in backend.attributes.items() if value is not None)


def _option(option: Option) -> dict[str, object]:
    return {
        "name": option.name, "type": option.type.__name__, "default": option.default, "expected": option.expected,
        "low": option.low, "high": option.high, "choices": list(option.choices), "unit": option.unit,
        "help": option.help,
    }
