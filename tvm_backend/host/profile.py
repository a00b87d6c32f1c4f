"""How long operators take on a host: a roofline with the numbers that were measured once on a machine, by its name.

An operator takes ``overhead + max(bytes moved / bandwidth, work / rate of its class)``. The work is one unit for each
element of the result, multiply-accumulates for products; bytes are those of the result and of as many operands of its
shape as the class reads, in float32. So times are estimates: no operator is fused with the next, and what an operator
reads beyond the shape of its result (a pooling, a mean) is not counted.

A profile is a JSON file. Those that come with archloom lie beside this module; ``archloom calibrate-host NAME``
(:mod:`archloom.tvm_backend.host.calibration`) writes one of this machine into the user's data directory.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from archloom.oracle.errors import ArtifactError, InputError, suggest
from archloom.oracle.reading import TEXT_BYTES, read_bytes
from archloom.tvm_backend.files import write_file
from archloom.tvm_backend.ir.operators import operator

SCHEMA = "archloom.host/1"
ENVIRONMENT = "ARCHLOOM_HOSTS_DIR"
"""Environment variable that names the folder of the user's profiles."""
SHIPPED = Path(__file__).resolve().parent / "profiles"
FLOAT_BYTES = 4
NO_HOST = "none"
"""In place of a host's name: the accelerator only."""

OPERANDS: Mapping[str, int] = {"move": 1, "arithmetic": 2, "transcendental": 1, "reduction": 1, "gather": 1,
                               "product": 1}
"""Classes of operators, and how many operands of the result's shape each reads."""


@dataclass(frozen=True)
class HostProfile:
    """What was measured: ``bandwidth`` in bytes a second, ``rates`` in units a second by class of operator.

    ``overhead_s``: seconds of an operator that has nothing to do. ``machine`` says what it was measured on, ``engine``
    by what.
    """

    name: str
    machine: str
    cores: int
    engine: str
    bandwidth: float
    overhead_s: float
    rates: Mapping[str, float]

    def seconds(self, op: str, shape: tuple[int, ...], macs: int) -> float:
        """Estimated time of an operator whose result has ``shape``."""
        kind = class_of(op, macs)
        if kind is None:
            return 0.0
        elements = math.prod(shape)
        moved = FLOAT_BYTES * elements * (1 + OPERANDS[kind])
        return self.overhead_s + max(moved / self.bandwidth, (macs or elements) / self.rates[kind])


def class_of(op: str, macs: int) -> str | None:
    """The class of an operator by its Relax name; None where nothing is done."""
    if macs:
        return "product"
    cost = operator(op).cost
    return None if cost == "free" else cost


# files


def folder() -> Path:
    """Where the user's profiles are kept."""
    named = os.environ.get(ENVIRONMENT)
    if named:
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_data_dir("archloom")) / "hosts"


def names() -> list[str]:
    """The profiles at hand, the user's and those that come along."""
    return sorted({path.stem for place in (folder(), SHIPPED) for path in place.glob("*.json")})


def chosen(name: str | None) -> HostProfile | None:
    """The host that is asked for: by its name, :func:`default` where none is said, none for :data:`NO_HOST`."""
    if name is None:
        return default()
    if not isinstance(name, str):
        raise InputError(f"host: expected the name of one, found {name!r}")
    return None if name == NO_HOST else load(name)


def default() -> HostProfile:
    """What the user has measured last, or else what comes along."""
    own = max(folder().glob("*.json"), key=lambda path: path.stat().st_mtime_ns, default=None)
    return read(own or min(SHIPPED.glob("*.json")))


def load(name: str) -> HostProfile:
    """The profile called ``name``, the user's before those that come along; InputError for an unknown name."""
    for place in (folder(), SHIPPED):
        path = place / f"{_checked(name)}.json"
        if path.is_file():
            return read(path)
    raise InputError(f"unknown host {name!r}{suggest(name, [*names(), NO_HOST])}; archloom calibrate-host {name} "
                     "measures this one")


def read(path: Path) -> HostProfile:
    """The profile in a file; ArtifactError for anything else."""
    try:
        data = json.loads(read_bytes(path, TEXT_BYTES, ArtifactError))
        if data.pop("schema") != SCHEMA:
            raise ValueError("another schema")
        profile = HostProfile(**data)
        numbers = [profile.bandwidth, profile.overhead_s, *(profile.rates[kind] for kind in OPERANDS)]
        if not all(isinstance(n, int | float) and math.isfinite(n) and n > 0 for n in numbers):
            raise ValueError("numbers that are not positive")
        return profile
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(f"{path}: not a host's profile of schema {SCHEMA!r}: {error}") from error


def save(profile: HostProfile) -> Path:
    """Write the profile into the user's folder; the file."""
    if profile.name == NO_HOST:
        raise InputError(f"a host cannot be called {NO_HOST!r}, which stands for the accelerator only")
    path = folder() / f"{_checked(profile.name)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, json.dumps({"schema": SCHEMA, **asdict(profile)}, indent=1).encode() + b"\n")
    return path


def _checked(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        raise InputError(f"a host's name has letters, digits, '-', '_' and '.', found {name!r}")
    return name
