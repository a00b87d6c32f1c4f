"""An ISA as the writer of a kernel sees it: instructions to call, loops, debug points and the decorator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (makes bfloat16 and the like known to NumPy by name)
import numpy as np

from archloom.oracle.assembly import parse
from archloom.oracle.binary import MAGIC, decode
from archloom.oracle.errors import ArtifactError, InputError, StreamError, suggest
from archloom.oracle.kernel.buffers import BufferView, RegisterView, point
from archloom.oracle.kernel.index import Index, Site, call_site
from archloom.oracle.kernel.kernel import Kernel
from archloom.oracle.kernel.recording import InstrCall, Recorder, literal, loop, nodes, parallel, recorder, tracing
from archloom.oracle.reading import TEXT_BYTES, read_bytes
from archloom.oracle.stream import HbmTensor, Instr, Stream
from archloom.oracle.taidl import load
from archloom.oracle.taidl.builder import Builder
from archloom.oracle.taidl.isa import HBM, Isa


class UnknownName(StreamError, AttributeError):
    """An ISA has no instruction, buffer, register, parameter or constant of that name."""


class Mnemonic:
    """An instruction to be called in a kernel; attributes by name or in the order of the ISA.

    ``ways`` are lists of names for the attributes; names that are given choose the first list that has them.
    """

    def __init__(self, isa: Isa, name: str) -> None:
        self._isa = isa
        self._instruction, self._ways = isa.ways[name]
        self._name = name
        self.__name__ = name
        self.__doc__ = f"{name}({', '.join(self._ways[0])}) of ISA {isa.name}"

    def __call__(self, *values: Any, **named: Any) -> None:
        active = recorder(self._name, self._isa)
        attributes = self._ways[0] if len(self._ways) == 1 else self._way(named)
        if len(values) + len(named) != len(attributes) or (values and named):
            named = self._bind(attributes, values, named)
        elif values:
            named = dict(zip(attributes, values))
        own = self._instruction.attributes
        try:
            given = [(k, literal(v) if type(v := named[n]) is int else active.expression(v, n))
                     for k, n in zip(own, attributes)]
        except KeyError:
            raise self._mismatch(attributes, named) from None
        active.add(InstrCall(Instr(self._instruction.name, tuple(given)), call_site()))

    def _way(self, named: dict[str, Any]) -> tuple[str, ...]:
        return next((way for way in self._ways if named.keys() <= set(way)), self._ways[0])

    def _bind(
        self, attributes: tuple[str, ...], values: tuple[Any, ...], named: dict[str, Any]
    ) -> dict[str, Any]:
        if len(values) > len(attributes):
            raise self._fault(f"expected at most {len(attributes)} attributes ({_list(attributes)}), "
                              f"found {len(values)}")
        bound = dict(zip(attributes, values))
        for key, value in named.items():
            if key in bound:
                raise self._fault(f"attribute {key!r} is given twice")
            bound[key] = value
        if len(bound) != len(attributes) or any(k not in bound for k in attributes):
            raise self._mismatch(attributes, bound)
        return bound

    def _mismatch(self, attributes: tuple[str, ...], named: dict[str, Any]) -> StreamError:
        for key in named:
            if key not in attributes:
                return self._fault(f"unknown attribute {key!r}{suggest(key, list(attributes))}")
        missing = [k for k in attributes if k not in named]
        return self._fault(f"attribute{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))} "
                           f"{'are' if len(missing) > 1 else 'is'} missing (expected {_list(attributes)})")

    def _fault(self, message: str) -> StreamError:
        return StreamError(f"{call_site()}: {self._name}: {message}")


def _list(attributes: tuple[str, ...]) -> str:
    return ", ".join(attributes) or "none"


class Api:
    """The instructions of an ISA as attributes: ``isa.api.mvin(...)``."""

    def __init__(self, isa: Isa) -> None:
        self._isa = isa

    def __getattr__(self, name: str) -> Mnemonic:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._isa.ways:
            raise UnknownName(f"{call_site()}: ISA {self._isa.name} has no instruction {name!r}"
                              f"{suggest(name, list(self._isa.ways))}")
        made = Mnemonic(self._isa, name)
        self.__dict__[name] = made
        return made

    def __dir__(self) -> list[str]:
        return list(self._isa.ways)


class KernelIsa:
    """An ISA with its parameters, for writing kernels (see :func:`isa`).

    ``api`` has its instructions. Buffers, registers, parameters and constants are attributes: ``amx.tiles[0]`` for
    :meth:`debug`, ``gemmini.dim`` and ``gemmini.NONE`` as integers; ``buffers`` and ``registers`` hold them by name.
    """

    def __init__(self, isa: Isa) -> None:
        self.isa = isa
        self.api = Api(isa)
        every = (*isa.buffers, isa.buffer(HBM))
        self.buffers = {b.name: BufferView(isa, b) for b in every}
        self.registers = {r.name: RegisterView(isa, r) for r in isa.registers}

    @property
    def name(self) -> str:
        return self.isa.name

    @property
    def parameters(self) -> dict[str, int]:
        return dict(self.isa.parameters)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        for table in (self.__dict__.get("buffers", {}), self.__dict__.get("registers", {}), self.isa.scope):
            if name in table:
                return table[name]
        choices = [*self.buffers, *self.registers, *self.isa.scope]
        hint = suggest(name, choices)
        if name in self.isa.ways:
            hint = f"; did you mean the instruction api.{name}?"
        raise UnknownName(f"{call_site()}: ISA {self.isa.name} has no buffer, register, parameter or constant "
                          f"{name!r}{hint}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.buffers, *self.registers, *self.isa.scope]

    def __repr__(self) -> str:
        return f"isa({self.name!r}{''.join(f', {k}={v}' for k, v in self.isa.parameters)})"

    def _repr_html_(self) -> str:
        """The reference manual."""
        from archloom.oracle.pages import fragment
        from archloom.oracle.taidl.manual import manual
        from archloom.oracle.taidl.manual_pages import page

        return fragment(page(manual(self.isa)))

    # writing kernels

    def kernel(
        self, *, size: int | None = None, arg: Iterable[Any] = (), res: Iterable[Any] = (), name: str | None = None,
        reassociate: bool = False, raising: bool = True, **spelled: Any,
    ) -> Callable[[Callable[[], Any]], Kernel]:
        """Decorator: a function without parameters whose instruction calls become a :class:`Kernel`.

        ``size`` is the size of HBM in bytes (addresses are in 0..size-1; by default up to the end of the last tensor).
        ``arg`` and ``res`` state the tensors in HBM (see :func:`tensors`) in the order
        of the call. ``reassociate`` allows floating-point sums in another order than the kernel's; without ``raising``
        it runs as loops over buffers. ``hbm``, ``input`` and ``output`` are other names of ``size``, ``arg`` and
        ``res``. The function runs once, now. Raises StreamError or InputError with the line for what does not fit.
        """
        size, arg, res = _one_of({"size": size, "arg": arg, "res": res}, spelled)
        arguments, results = tensors(arg, "arg"), tensors(res, "res")
        bytes_ = end((*arguments, *results)) if size is None else size

        def decorate(function: Callable[[], Any]) -> Kernel:
            title = name or function.__name__
            if inspect.signature(function).parameters:
                code = function.__code__
                raise InputError(
                    f"{Site(code.co_filename, code.co_firstlineno)}: kernel function {title} has parameters: expected "
                    "none (let a function with parameters define and return the kernel)")
            trace = Recorder(self.isa, title)
            with tracing(trace):
                function()
            sites: list[Site] = []
            stream = Stream(self.isa.name, self.isa.parameters, arguments, results, bytes_,
                            nodes(trace.body, sites), title)
            return Kernel(self.isa, stream, tuple(sites), tuple(trace.body), function,
                          reassociate=reassociate, raising=raising)

        return decorate

    def loop(self, *bounds: Any, name: str | None = None) -> AbstractContextManager[Index]:
        """:func:`oracle.kernel.recording.loop`: ``with isa.loop(n) as i``, ``isa.loop("i", start, stop, step)``."""
        return loop(*bounds, name=name)

    def parallel(self, extent: int, along: str, name: str | None = None) -> AbstractContextManager[Index]:
        """:func:`oracle.kernel.recording.parallel`: one iteration on each core along a dimension of the graph."""
        return parallel(extent, along, name)

    def debug(self, prefix: str = "", data: Any = None) -> None:
        """Print ``prefix`` and ``data`` whenever the kernel passes here: a slice of a buffer, or a register.

        Changes no result; a kernel without debug points is the same program as if there were no such call.
        """
        recorder("debug", self.isa).add(point(prefix, data))

    # streams of other origin

    def wrap(self, stream: Stream, *, reassociate: bool = False, raising: bool = True) -> Kernel:
        """A stream for this ISA as a kernel: what the mapper emitted, or assembly; options as of :meth:`kernel`."""
        return Kernel(self.isa, stream, reassociate=reassociate, raising=raising)

    def load(self, path: str | Path) -> Kernel:
        """A kernel that :meth:`Kernel.save` wrote, as text or in binary form; ArtifactError or StreamError."""
        data = read_bytes(path, TEXT_BYTES, ArtifactError)
        if data.startswith(MAGIC):
            return self.wrap(decode(data, str(path)))
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise StreamError(
                f"{path}: expected assembly text or a binary stream (which begins with {MAGIC!r})") from None
        return self.wrap(parse(text, str(path)))


def isa(name_or_path: str | Path | Builder, **parameters: int) -> KernelIsa:
    """The ISA of that name, of a ``.taidl`` file or of a builder, for writing kernels; parameters by name.

    Raises TaidlError for a description that is not there or faulty, TargetError for a wrong parameter.
    """
    if isinstance(name_or_path, Builder):
        return KernelIsa(name_or_path.build(**parameters))
    return KernelIsa(load(name_or_path, **parameters))


# --- arguments and results ----------------------------------------------------------------------------------------

_SPELLED = {"hbm": "size", "input": "arg", "output": "res"}
"""Names of a kernel's properties in the artifact of TAIDL's authors."""


def _one_of(properties: dict[str, Any], spelled: dict[str, Any]) -> tuple[Any, ...]:
    """The properties, each given by one of its names."""
    for other, value in spelled.items():
        name = _SPELLED.get(other)
        if name is None:
            raise _fault(f"a kernel has no property {other!r}{suggest(other, [*properties, *_SPELLED])}")
        if properties[name] not in (None, ()):
            raise _fault(f"a kernel's {name!r} is given twice, also as {other!r}")
        properties[name] = value
    return tuple(properties.values())


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
