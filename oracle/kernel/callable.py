"""How kernels, compiled kernels and batches of them are called, with arrays of NumPy, JAX and PyTorch."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from archloom.oracle import native
from archloom.oracle.errors import InputError
from archloom.oracle.late_jax import jax, jnp
from archloom.oracle.stream import HbmTensor, check_arrays, check_count
from archloom.oracle.taidl.operators.integer_dot import jit_within
from archloom.oracle.xla.options import jit

Kind: TypeAlias = Literal["numpy", "jax", "tracer", "torch", "other"]

kinds: dict[type, Kind] = {np.ndarray: "numpy"}
"""The kinds of the types seen so far, see :func:`kind`."""


def kind(array: Any) -> Kind:
    """Whose array it is, looked up by its type; neither JAX nor PyTorch is imported for it."""
    found = kinds.get(type(array))
    if found is None:
        found = kinds[type(array)] = _kind(type(array))
    return found


def _kind(type_: type) -> Kind:
    for base in type_.__mro__:
        module = base.__module__.partition(".")[0]
        if module == "numpy":
            return "numpy"
        if module in ("jax", "jaxlib"):
            return "tracer" if any(b.__name__ == "Tracer" for b in type_.__mro__) else "jax"
        if module == "torch":
            return "torch"
    return "other"


def from_torch(tensor: Any) -> Any:
    """A PyTorch tensor as a NumPy array (on the CPU) or a JAX array, without a copy where the memory allows it."""
    if tensor.requires_grad:
        raise InputError("kernels have no derivatives: expected a tensor that requires no gradient (tensor.detach())")
    if _in_numpy(tensor.dtype) and tensor.device.type == "cpu":
        return tensor.numpy()
    try:
        return jax.dlpack.from_dlpack(tensor.contiguous())
    except Exception as error:  # JAX and PyTorch raise various types here
        raise InputError(f"a PyTorch tensor of {tensor.dtype} on {tensor.device} cannot be taken over by JAX, which "
                         f"runs on {jax.default_backend()}: {error}") from None


@cache
def _in_numpy(dtype: Any) -> bool:
    """Whether NumPy has a type of PyTorch itself."""
    name = str(dtype).removeprefix("torch.")
    return name == "bool" or name.rstrip("0123456789") in ("int", "uint", "float")


def to_torch(array: Any) -> Any:
    """A JAX array that nobody else holds as a PyTorch tensor, without a copy."""
    import torch

    return torch.from_dlpack(array)


# --- programs -----------------------------------------------------------------------------------------------------

JaxFunction: TypeAlias = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True)
class JaxProgram:
    """A JAX function of the arguments and of ``bits``: as it is, under ``jax.jit``, and so with XLA's options.

    JAX takes options only for the outermost function, so that ``jitted`` is for calls within traces. ``bits`` are the
    bit patterns of the stream, if it has any: as an argument, they are no constants that XLA could fold, and streams
    that differ in them alone share one program. ``portable`` is the function for any machine, as StableHLO alone.
    """

    function: JaxFunction
    jitted: Any
    outermost: Any
    portable: Any
    bits: tuple[np.ndarray, ...]

    @staticmethod
    def of(function: JaxFunction, bits: tuple[np.ndarray, ...]) -> "JaxProgram":
        return JaxProgram(
            function, jit_within(function), jit(function), jax.jit(native.portable()(function)), bits)

    def call(self) -> "Call":
        """The function of the arguments alone, for arrays and for tracers."""
        if not self.bits:
            return Call(_at_once(self.outermost), self.jitted)
        jitted, outermost, held = self.jitted, self.outermost, tuple(jnp.asarray(b) for b in self.bits)
        return Call(_at_once(lambda *arrays: outermost(*arrays, *held)), lambda *arrays: jitted(*arrays, *held))


def _at_once(outermost: JaxFunction) -> JaxFunction:
    """``outermost`` for arrays, whatever is traced around the call: what does not depend on tracers is computed now."""
    def call(*arrays: Any) -> tuple[Any, ...]:
        try:
            results = outermost(*arrays)
        except ValueError as error:
            # so JAX refuses options within a trace, even where no argument is a tracer
            if "compiler_options" not in str(error):
                raise
        else:
            if not results or kind(results[0]) != "tracer":
                return results
        with jax.ensure_compile_time_eval():
            return outermost(*arrays)

    return call


class Call(NamedTuple):
    """What executes, without checks: for ``arrays``, and for ``tracers`` of another function."""

    arrays: JaxFunction
    tracers: JaxFunction


class KernelFunction(ABC):
    """A pure function of one array for each of ``arguments``, of exactly its shape and type (see :class:`Kernel`)."""

    def __init__(self, name: str, arguments: tuple[HbmTensor, ...], results: tuple[HbmTensor, ...]) -> None:
        self.name = name
        self.arguments = arguments
        self.results = results
        self._spec = [(t.shape, np.dtype(t.dtype)) for t in arguments]
        self._single = len(results) == 1
        self._call: Call | None = None
        self._run: JaxFunction | None = None
        self._lock = threading.RLock()

    @abstractmethod
    def _prepare(self) -> Call:
        """What executes."""

    def _prepared(self) -> Call:
        with self._lock:
            if self._call is None:
                self._call = self._prepare()
                self._run = self._call.arrays
            return self._call

    def run(self, *arrays: Any) -> Any:
        """The results as NumPy arrays (read-only, without a copy) for arguments that NumPy can take as arrays.

        InputError for arrays of another number, shape or type than ``arguments``.
        """
        call = self._run or self._prepared().arrays
        if len(arrays) != len(self._spec):
            check_count(f"kernel {self.name}", self.arguments, arrays)
        for array, (shape, dtype) in zip(arrays, self._spec):
            if type(array) is not np.ndarray or array.shape != shape or array.dtype != dtype:
                arrays = self._numpy(arrays)
                break
        results = call(*arrays)
        return np.asarray(results[0]) if self._single else tuple([np.asarray(r) for r in results])

    def __call__(self, *arrays: Any) -> Any:
        """The results as arrays of the arguments' kind: PyTorch's if one is, else JAX's if one is, else NumPy's."""
        found: Kind = "numpy"
        for array in arrays:
            its = kinds.get(type(array)) or kind(array)
            if its == "torch":
                made = self.function(*[from_torch(a) if kind(a) == "torch" else a for a in arrays])
                return to_torch(made[0]) if self._single else tuple(to_torch(r) for r in made)
            if its == "jax" or its == "tracer":
                found = its
        if found == "numpy":
            return self.run(*arrays)
        results = self.function(*arrays)
        return results[0] if self._single else results

    def function(self, *arrays: Any) -> tuple[Any, ...]:
        """The results as a tuple of JAX arrays, for JAX or NumPy arrays: the kernel as a JAX function."""
        call = self._run or self._prepared().arrays
        if len(arrays) != len(self._spec):
            check_count(f"kernel {self.name}", self.arguments, arrays)
        for array, (shape, dtype) in zip(arrays, self._spec):
            if getattr(array, "shape", None) != shape or getattr(array, "dtype", None) != dtype:
                check_arrays(f"kernel {self.name}", self.arguments, arrays)
            if (kinds.get(type(array)) or kind(array)) == "tracer":
                call = self._prepared().tracers
        return call(*arrays)

    def _numpy(self, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments as NumPy arrays; InputError where they do not fit."""
        arrays = tuple([
            np.asarray(from_torch(a) if kind(a) == "torch" else a) if hasattr(a, "shape") else a for a in arrays])
        check_arrays(f"kernel {self.name}", self.arguments, arrays)
        return arrays
