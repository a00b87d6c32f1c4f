"""Memories and integer arithmetic by HWComponents, where it is installed: CACTI itself and Aladdin's units.

``Technology(library="hwcomponents")``, in a graph or a user's figures, asks for it. What it has no model of (numbers in
floating point, DRAM, wires, instructions) follows from the tables. It needs Python 3.12 and
``pip install hwcomponents-cacti hwcomponents-library``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from archloom.oracle.errors import InputError

NAME = "hwcomponents"
CACTI = ((22.0, 65.0), "lstp")
"""Nodes and transistors of its memories. (What it interpolates between 65 and 180 nm lies below its own 32 nm.)"""

_MEMORIES, _UNITS = "hwcomponents_cacti", "hwcomponents_library"


def memory(size_bytes: float, width_bits: int, ports: int, node_nm: float) -> tuple[float, float, float, float]:
    """Joules of a read and of a write of all its bits, watts of leakage, and square millimetres of an SRAM, at the
    nominal supply of ``node_nm``; InputError where the package is absent or has no such memory."""
    with _asked(f"a memory of {size_bytes:g} bytes, {width_bits} bits wide, with {ports} ports, at {node_nm:g} nm"):
        found = _package(_MEMORIES).SRAM(
            tech_node=1e-9 * node_nm, width=width_bits, size=8 * size_bytes, n_rw_ports=ports)
        return (float(found.read().energy), float(found.write().energy), float(found.leak_power), 1e6 * found.area)


def add(bits: int, node_nm: float) -> tuple[float, float]:
    """Joules of an integer addition, and square millimetres of the adder."""
    with _asked(f"an adder of {bits} bits at {node_nm:g} nm"):
        unit = _package(_UNITS).AladdinAdder(tech_node=1e-9 * node_nm, width=bits)
        return float(unit.add().energy), 1e6 * unit.area


def multiply(bits: int, node_nm: float) -> tuple[float, float]:
    """Joules of an integer multiplication, and square millimetres of the multiplier."""
    with _asked(f"a multiplier of {bits} bits at {node_nm:g} nm"):
        unit = _package(_UNITS).AladdinMultiplier(tech_node=1e-9 * node_nm, width=bits)
        return float(unit.multiply().energy), 1e6 * unit.area


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(f"energies by {NAME}: {error}; it needs Python 3.12 and "
                         f"`pip install {_MEMORIES.replace('_', '-')} {_UNITS.replace('_', '-')}`") from error


@contextmanager
def _asked(what: str) -> Iterator[None]:
    """Its own errors as InputError that names what was asked for."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # of any kind: asserts, failures of CACTI's process
        raise InputError(f"energies by {NAME}: {what}: {error}") from error
