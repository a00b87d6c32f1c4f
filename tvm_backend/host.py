"""The host side of a network: TVM's virtual machine runs ``main``, XLA its heavy pieces, and a callback each region."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from oracle.errors import ArtifactError
from tvm_backend.compiled import HostPart

if TYPE_CHECKING:
    from tvm_backend.compat import IRModule

Piece: TypeAlias = Callable[[Sequence[Any]], Sequence[Any]]
"""Runs a region or a piece of the host: arrays in, arrays out (JAX or NumPy)."""


class Host:
    """A host part, built: TVM's code for ``main``, jitted JAX functions for the pieces of XLA.

    ``regions`` runs each region by its symbol. A network is not re-entrant: calls from several threads take turns.
    """

    def __init__(self, part: HostPart, regions: Mapping[str, Piece]) -> None:
        from tvm_backend import compat

        try:
            module = part.module if part.module is not None else compat.from_json(part.module_json)
        except ValueError as error:
            raise ArtifactError(f"host part: {error}") from error
        main, pieces = split(module)
        self._failure: BaseException | None = None
        self._lock = threading.Lock()
        functions = {symbol: self._guarded(piece) for symbol, piece in {**pieces, **regions}.items()}
        self._main = compat.compile_vm(compat.build(main), functions)
        self._to_tvm = compat.to_tvm

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run ``main``. Exceptions of regions arrive as they were raised."""
        with self._lock:
            self._failure = None
            try:
                result = self._main(*[self._to_tvm(x) for x in inputs])
            except Exception:
                if self._failure is not None:  # TVM has turned it into a RuntimeError
                    raise self._failure from None
                raise
            finally:
                failure, self._failure = self._failure, None
                del failure
            outputs = [result] if hasattr(result, "dtype") else list(result)
            return [np.array(y.numpy()) for y in outputs]

    def _guarded(self, piece: Piece) -> Callable[..., Any]:
        """A packed function that hands tensors over without copying and remembers the exception it ends with."""
        import jax

        def call(*tensors: Any) -> Any:
            try:
                results = piece([jax.dlpack.from_dlpack(t) for t in tensors])
                jax.block_until_ready([r for r in results if isinstance(r, jax.Array)])
                handed = [self._to_tvm(r) for r in results]
                return handed[0] if len(handed) == 1 else handed
            except BaseException as error:
                self._failure = error
                raise

        return call


def split(module: "IRModule") -> "tuple[IRModule, dict[str, Piece]]":
    """``main`` alone, and the pieces that XLA runs by their symbols."""
    from tvm_backend import compat

    pieces = {
        gv.name_hint: jitted(function) for gv, function in module.functions.items()
        if compat.codegen_of(function) == "xla"
    }
    return compat.keep_functions(module, lambda f: compat.codegen_of(f) is None), pieces


def jitted(function: Any) -> Piece:
    """A Relax function as a compiled JAX function, with 64-bit integers and floats as they are in the network."""
    import jax

    from tvm_backend.host_ops import translate

    run, constants = translate(function)
    with jax.enable_x64(True):
        placed = [jax.numpy.asarray(c) for c in constants]
    compiled = jax.jit(run)

    def piece(inputs: Sequence[Any]) -> Sequence[Any]:
        with jax.enable_x64(True):
            results: Sequence[Any] = compiled(placed, *inputs)
        return results

    return piece
