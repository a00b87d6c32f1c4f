"""The arguments and results of a kernel, as its decorator states them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import ml_dtypes  # noqa: F401  (makes bfloat16 and the like known to NumPy by name)
import numpy as np

from archloom.oracle.errors import InputError, suggest
from archloom.oracle.kernel.index import call_site
from archloom.oracle.stream import HbmTensor

_ADDRESS = ("start", "addr", "address")
_KEYS = (*_ADDRESS, "shape", "dtype", "name")


def tensors(specs: Iterable[Any], what: str) -> tuple[HbmTensor, ...]:
    """Tensors from mappings such as ``{"start": 0, "shape": (16, 64), "dtype": np.int8, "name": "A"}``.

    The type may also be the last entry of the shape, ``(16, 64, np.int8)``. ``what`` is ``arg`` or ``res``: tensors
    without a name are called ``arg0``, ``arg1`` and so on. Raises InputError for anything else.
    """
    if isinstance(specs, (HbmTensor, Mapping)):
        specs = (specs,)
    return tuple(s if isinstance(s, HbmTensor) else _tensor(s, f"{what}{n}") for n, s in enumerate(specs))


def end(placed: Iterable[HbmTensor]) -> int:
    """The first byte behind all of the tensors."""
    return max((t.address + int(np.prod(t.shape, dtype=np.int64)) * np.dtype(t.dtype).itemsize for t in placed),
               default=0)


def _tensor(spec: Any, default: str) -> HbmTensor:
    if not isinstance(spec, Mapping):
        raise _fault(f"{default}: expected a mapping such as {{'start': 0, 'shape': (16, 64), 'dtype': 'int8'}}, "
                     f"found {spec!r}")
    for key in spec:
        if key not in _KEYS:
            raise _fault(f"{default}: unknown key {key!r}{suggest(str(key), list(_KEYS))}")
    name = spec.get("name", default)
    if not isinstance(name, str):
        raise _fault(f"{default}: expected a name, found {name!r}")
    given = [key for key in _ADDRESS if key in spec]
    if len(given) != 1:
        raise _fault(f"{name}: expected its address in bytes as 'start', found {', '.join(given) or 'none'}")
    if "shape" not in spec:
        raise _fault(f"{name}: expected a 'shape' such as (16, 64) or (16, 64, np.int8)")
    shape, dtype = _shape(spec, name)
    return HbmTensor(name, _integer(spec[given[0]], name, "address"), shape, dtype)


def _shape(spec: Mapping[str, Any], name: str) -> tuple[tuple[int, ...], str]:
    shape, dtype = spec["shape"], spec.get("dtype")
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if dtype is None:
        if not shape or isinstance(shape[-1], (int, np.integer)):
            raise _fault(f"{name}: expected a 'dtype' such as np.int8, beside the shape or as its last entry")
        *shape, dtype = shape
    try:
        known = np.dtype(dtype)
    except TypeError:
        raise _fault(f"{name}: expected a NumPy dtype, found {dtype!r}") from None
    extents = tuple(_integer(n, name, "extent") for n in shape)
    if any(n < 0 for n in extents):
        raise _fault(f"{name}: expected extents of at least 0, found {extents}")
    return extents, known.name


def _integer(value: Any, name: str, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise _fault(f"{name}: expected an integer {what}, found {value!r}")
    return int(value)


def _fault(message: str) -> InputError:
    return InputError(f"{call_site()}: {message}")
