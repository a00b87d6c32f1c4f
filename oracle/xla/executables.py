"""Compiled programs of XLA as bytes, and back: machine code for the processor that compiled it.

Uses what JAX's own cache of compilations uses, without pickle. Where a version of JAX has it otherwise, programs are
not stored, and run as JAX runs them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from archloom.oracle import native
from archloom.oracle.errors import InputError
from archloom.oracle.late_jax import jax
from archloom.oracle.memory import room_bytes


class Executable:
    """A program for arrays on JAX's first device, called with exactly its arguments; gives the list of its results.

    The arguments' types and shapes are not looked at: arrays may have another shape of as many elements, and what is no
    JAX array of the right size is refused by XLA, or gives wrong results.
    """

    def __init__(self, loaded: Any) -> None:
        self._execute = loaded.execute_sharded
        self._loaded = loaded

    def __call__(self, *arguments: Any) -> list[Any]:
        made = self._execute(arguments).disassemble_into_single_device_arrays()
        return [shards[0] for shards in made]

    def serialize(self) -> bytes:
        """The program for :func:`load`."""
        return bytes(self._loaded.serialize())


class Called:
    """A program that only JAX itself can call, for the ``reason`` given."""

    def __init__(self, compiled: Any, reason: str) -> None:
        self._compiled = compiled
        self.reason = reason

    def __call__(self, *arguments: Any) -> list[Any]:
        shapes = [taken.shape for taken in jax.tree_util.tree_leaves(self._compiled.args_info)]
        return list(self._compiled(*(x.reshape(shape) for x, shape in zip(arguments, shapes, strict=True))))

    def serialize(self) -> None:
        """Nothing: it cannot be stored."""
        return None


def needed(compiled: Any, name: str) -> int:
    """The bytes that a ``jax.stages.Compiled`` takes beside its arguments and results, as XLA counts them; 0 where a
    backend does not count.

    InputError, before anything runs, where with its results it takes more than this process may.
    """
    found, room = compiled.memory_analysis(), room_bytes()
    results, others = (int(getattr(found, f"{part}_size_in_bytes", 0) or 0) for part in ("output", "temp"))
    if results + others > room:
        raise InputError(f"{name}: XLA's program takes {results + others:,} bytes; there are {room:,}")
    return others


def of(compiled: Any, arguments: int) -> Executable | Called:
    """The program of a ``jax.stages.Compiled`` of a function of flat ``arguments`` that returns a tuple of arrays."""
    try:
        loaded = compiled.runtime_executable()
        taken = len(loaded.get_parameter_layouts())
        if taken == arguments and callable(loaded.execute_sharded) and callable(loaded.serialize):
            return Executable(loaded)
    except (AttributeError, TypeError, RuntimeError) as error:
        return Called(compiled, f"{type(error).__name__}: {error}")
    return Called(compiled, f"it takes {taken} arrays for {arguments} arguments")


@dataclass(frozen=True)
class Unloadable:
    """A stored program that cannot be used here, and why: it is compiled anew, as if it had not been stored."""

    reason: str


def load(data: bytes) -> Executable | Unloadable:
    """The program that :meth:`Executable.serialize` wrote, or why it cannot be used here."""
    try:
        from jax._src.lib import xla_client

        native.register_for(data)
        devices = jax.devices()[:1]
        loaded = devices[0].client.deserialize_executable(
            data, executable_devices=xla_client.DeviceList(tuple(devices)))
        return Executable(loaded)
    except (ImportError, AttributeError) as error:  # another version of JAX
        return Unloadable(f"JAX {jax.__version__} loads programs otherwise: {error}")
    except (TypeError, ValueError, RuntimeError) as error:  # XLA's own are RuntimeErrors
        return Unloadable(f"XLA refuses it: {error}")


@cache
def _borrow() -> Callable[[Any], Any]:
    try:
        from jax._src.lib import _jax

        device, take = jax.devices()[0], _jax.dlpack_managed_tensor_to_buffer
        return lambda tensor: take(tensor.__dlpack__(), device, None)
    except (ImportError, AttributeError):  # another version of JAX: the same by its public way, ten times as slow
        return jax.dlpack.from_dlpack


def borrowed(tensor: Any) -> Any:
    """A tensor of another library as an array of JAX, on the same memory where that is aligned to 64 bytes.

    Its owner must leave the memory alone until everything that reads the array is computed.
    """
    return _borrow()(tensor)


@cache
def platform() -> str:
    """Names all that stored programs depend on beside their source: JAX, its backend, the processor, its cores."""
    import jaxlib

    client = jax.devices()[0].client
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts: Sequence[object] = (
        jax.__version__, jaxlib.__version__, client.platform, client.platform_version, sorted(native.features()),
        native.tiles(), cores, os.environ.get("XLA_FLAGS", ""))
    return hashlib.sha256(repr(parts).encode()).hexdigest()
