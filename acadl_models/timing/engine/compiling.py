"""Compilation of the engine's inner loops by Numba, cached on disk as one piece."""

from __future__ import annotations

import importlib.util
import operator
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from archloom.acadl_models.timing.engine.fields import RecordType

_scipy = sys.modules.get("scipy")
if _scipy is None:  # Numba loads SciPy's linear algebra to see whether it is there: half of its own time of import
    sys.modules["scipy"] = None  # type: ignore[assignment]
try:
    import numba
    import numba.np.arraymath as _arrays  # loaded in any case when something is compiled; here, without SciPy
    from numba import extending, types
    from numba.core import cgutils
    from numba.core.imputils import lower_constant
    from numba.core.typing.templates import AttributeTemplate
    from numba.cpython.unsafe.numbers import trailing_zeros as trailing_zeros
finally:
    if _scipy is None:
        del sys.modules["scipy"]
if hasattr(_arrays, "_HAVE_BLAS"):  # whoever compiles linear algebra with Numba still finds it
    _arrays._HAVE_BLAS = importlib.util.find_spec("scipy") is not None

NUMBA = (0, 68)
"""The series of Numba for which :mod:`.linking` is written: it uses internals that others may not have."""


def compilers(version: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of parts and of entry points for a version of Numba; with another than ``NUMBA`` a warning and none.

    Then each function is compiled for itself, again in each process: several times slower, with the same results.
    """
    if tuple(map(int, re.findall(r"\d+", version)[:2])) == NUMBA:
        from archloom.acadl_models.timing.engine.linking import PartCompiler, WholeCompiler

        return {"pipeline_class": PartCompiler}, {"pipeline_class": WholeCompiler}
    wanted = ".".join(map(str, NUMBA))
    warnings.warn(
        f"the timing engine is compiled slowly and without a cache: it expects numba {wanted}, not {version}",
        RuntimeWarning, stacklevel=2,
    )  # fmt: skip
    return {}, {}


_part, _whole = compilers(numba.__version__)

_common = {"nogil": True, "error_model": "numpy", "boundscheck": False}
_bare = {**_common, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False, **_part}

jit = numba.njit(**_bare)
"""For functions that are compiled into the entry point: no wrappers; no reference counts, as they allocate nothing."""

jit_inline = numba.njit(**_bare, forceinline=True)
"""The same for those on the way of every instruction: compiled into each function that calls them."""


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called, cached on disk.

    Numba's cache looks at the file of the function alone; here the newest file of this folder and those in it counts,
    because all of its functions are compiled into the entry point.
    """
    dispatcher = numba.njit(**_common, **_whole)(function)
    if not _whole:
        return dispatcher
    try:
        dispatcher.enable_caching()
    except RuntimeError:  # no folder can be written, neither here nor at the user's: compile in each process
        return dispatcher
    files = [p.stat() for p in Path(__file__).parent.rglob("*.py")]
    stamp = (max(f.st_mtime for f in files), sum(f.st_size for f in files))
    dispatcher._cache._cache_file._source_stamp = stamp
    return dispatcher


def prepare(function: Any, signature: str) -> None:
    """Compile an entry point for a signature, or load it from the cache on disk."""
    function.compile(signature)


def python_of(function: Any) -> Callable[..., Any]:
    """A jitted function as Python, for callers that are not jitted."""
    python: Callable[..., Any] = function.py_func
    return python


@jit_inline
def word(value):
    """The lowest 64 bits of an integer, with a sign: compiled integers have no others."""
    return value


class RecordClass(types.Opaque):  # type: ignore[misc]
    """A class of records: its attributes are constants."""

    def __init__(self, record: RecordType) -> None:
        super().__init__(f"fields of {record.__name__}")
        self.record = record


extending.register_model(RecordClass)(extending.models.OpaqueModel)


@extending.typeof_impl.register(RecordType)
def _record_class(record: RecordType, _context: Any) -> RecordClass:
    return RecordClass(record)


@extending.infer_getattr
class RecordAttributes(AttributeTemplate):  # type: ignore[misc]
    """Fields are integers."""

    key = RecordClass

    def generic_resolve(self, record: RecordClass, field: str) -> Any:
        return types.int64 if hasattr(record.record, field) else None


@lower_constant(RecordClass)
def _no_value(context: Any, _builder: Any, _type: Any, _record: Any) -> Any:
    return context.get_dummy_value()


@extending.lower_getattr_generic(RecordClass)
def _field(context: Any, _builder: Any, record: RecordClass, _value: Any, field: str) -> Any:
    return context.get_constant(types.int64, getattr(record.record, field))


class ConstantPointer(types.CPointer):  # type: ignore[misc]
    """The address of words that never change: a word once read need not be read again after others are written."""

    def __init__(self, dtype: Any) -> None:
        super().__init__(dtype)
        self.name: str = f"constant {dtype}*"


extending.register_model(ConstantPointer)(extending.models.PointerModel)


@extending.lower_builtin(operator.getitem, ConstantPointer, types.Integer)
def _load(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
    word = builder.load(builder.gep(arguments[0], [arguments[1]]))
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


@extending.intrinsic
def pointer(_context: Any, array: Any) -> Any:
    """The address of an array's first element.

    Inside of the engine arrays are bare pointers: a call passes a word instead of seven, and an index is not tested for
    counting from the end.
    """
    return types.CPointer(array.dtype)(array), _address


@extending.intrinsic
def constant_pointer(_context: Any, array: Any) -> Any:
    """The same of an array that is only read."""
    return ConstantPointer(array.dtype)(array), _address


@extending.intrinsic
def copy_words(_context: Any, target: Any, to: Any, source: Any, begin: Any, count: Any) -> Any:
    """``target[to + k] = source[begin + k]`` for each ``k < count``; the two places have nothing in common."""

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        target, to, source, begin, count = arguments
        cgutils.raw_memcpy(builder, builder.gep(target, [to]), builder.gep(source, [begin]), count, 8)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), codegen


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return context.make_array(signature.args[0])(context, builder, arguments[0]).data
