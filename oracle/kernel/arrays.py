"""Arrays of NumPy, JAX and PyTorch as arguments and results of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np

from archloom.oracle.errors import InputError
from archloom.oracle.late_jax import jax
from archloom.oracle.stream import HbmTensor

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


def check(kernel: str, tensors: Sequence[HbmTensor], arrays: Sequence[Any]) -> None:
    """InputError unless there is one array for each of the tensors, of its shape and type."""
    check_count(kernel, tensors, arrays)
    for tensor, value in zip(tensors, arrays, strict=True):
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if shape is None or dtype is None:
            raise InputError(f"argument {tensor.name} of kernel {kernel} must be an array of {show(tensor)}, "
                             f"found {type(value).__name__}")
        if tuple(shape) != tensor.shape or str(dtype) != tensor.dtype:
            raise InputError(f"argument {tensor.name} of kernel {kernel} must be {show(tensor)}, "
                             f"found {dtype}[{', '.join(map(str, shape))}]")


def check_count(kernel: str, tensors: Sequence[HbmTensor], arrays: Sequence[Any]) -> None:
    """InputError unless there are as many arrays as tensors."""
    if len(arrays) != len(tensors):
        names = ", ".join(t.name for t in tensors) or "none"
        raise InputError(f"kernel {kernel} takes {len(tensors)} argument{'s' if len(tensors) != 1 else ''} ({names}), "
                         f"found {len(arrays)}")


def show(tensor: HbmTensor) -> str:
    """``int8[16, 64]``."""
    return f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]"


def numpy_array(array: Any) -> Any:
    """What can be seen as a NumPy array as one."""
    return np.asarray(from_torch(array) if kind(array) == "torch" else array)


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
