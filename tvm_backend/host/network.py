"""The host side of a network. XLA runs the whole of it where all its operators have a translation; else TVM's virtual
machine runs ``main``, XLA its heavy pieces, and a callback each region."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from archloom.oracle.errors import ArtifactError
from archloom.tvm_backend.compiled import HostPart
from archloom.tvm_backend.executors import COMPILING_AT_A_TIME, on_device
from archloom.tvm_backend.host.plan import HostPlan
from archloom.tvm_backend.host.program import HostProgram
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.nodes import TensorType
from archloom.tvm_backend.ir.operators import operator
from archloom.tvm_backend.programs import Programs, host_key

if TYPE_CHECKING:
    from archloom.tvm_backend.ir.compat import IRModule

Piece: TypeAlias = Callable[[Sequence[Any]], Sequence[Any]]
"""Runs a piece of the host: arrays in, arrays out (JAX or NumPy)."""
RunRegion: TypeAlias = Callable[[str, Sequence[Any]], Sequence[Any]]
"""Runs the region of a symbol: arrays in, arrays out (JAX or NumPy)."""


class PlannedHost:
    """A host part that XLA runs as a whole, call by call, with all constants on the device.

    Calls from several threads need nothing of each other.
    """

    def __init__(self, plan: HostPlan, programs: "Programs") -> None:
        import jax

        self._plan = plan
        made = compiled(plan.programs, programs)
        with jax.enable_x64(True):
            constants = [jax.numpy.asarray(c) for c in plan.constants]
        self._fixed = {slot: constants[number] for slot, number in plan.fixed.items()}
        self._calls = [
            (made[call.program] if call.program is not None else None, call.symbol,
             [constants[number] for number in call.constants]) for call in plan.calls]
        self._dead = _last_uses(plan)
        self._loaded = any(program.exported is not None for program in plan.programs)

    def __call__(self, inputs: Sequence[np.ndarray], run_region: RunRegion) -> list[np.ndarray]:
        import jax

        with jax.enable_x64(True):
            slots: dict[int, Any] = {i: jax.numpy.asarray(x) for i, x in enumerate(inputs)}
        slots.update(self._fixed)
        for number, dead in enumerate(self._dead):
            call = self._plan.calls[number]
            results = self.call(number, [slots[i] for i in call.inputs], run_region)
            if len(results) != len(call.outputs):
                raise ArtifactError(f"host part: {call.symbol}: expected {len(call.outputs)} results, found "
                                    f"{len(results)}")
            slots.update(zip(call.outputs, results, strict=True))
            for slot in dead:
                del slots[slot]
        return [np.array(slots[i]) for i in self._plan.outputs]

    def call(self, number: int, arguments: Sequence[Any], run_region: RunRegion) -> Sequence[Any]:
        """Run one call of the plan on arrays of JAX; so are its results."""
        program, symbol, constants = self._calls[number]
        if program is not None:
            try:
                results: Sequence[Any] = program(*constants, *arguments)
            except (RuntimeError, TypeError, ValueError) as error:  # XLA's own are RuntimeErrors
                if not self._loaded:
                    raise
                raise ArtifactError(f"host part: {symbol}: its program does not take what it is given: "
                                    f"{' '.join(str(error).split())[:300]}") from error
            return results
        return [on_device(x) for x in run_region(symbol, arguments)]


def compiled(wanted: Sequence[HostProgram], programs: "Programs") -> list[Any]:
    """The programs ``wanted``; those that nobody has compiled yet are compiled, several at a time."""
    keys = [host_key(program.key) for program in wanted]
    stored = [programs.find(key) for key in keys]
    found: list[Any] = [None if known is None else known[0] for known in stored]
    with ThreadPoolExecutor(COMPILING_AT_A_TIME) as pool:
        made = [pool.submit(_compile, program) if known is None else None
                for program, known in zip(wanted, found, strict=True)]
    for number, future in enumerate(made):
        if future is not None:
            found[number] = program = future.result()
            programs.keep(keys[number], program)
    return found


def _compile(program: HostProgram) -> Any:
    import jax

    from archloom.oracle.xla.executables import needed, of

    try:
        with jax.enable_x64(True):
            made = program.jitted().lower(*program.shapes()).compile()
    except Exception as error:  # whatever JAX's reader and XLA raise of bytes that are not their own
        if program.exported is None:
            raise
        raise ArtifactError(f"host part: a program that JAX {jax.__version__} cannot read or compile: "
                            f"{type(error).__name__}: {' '.join(str(error).split())[:300]}") from error
    needed(made, "host part")
    return of(made, len(program.arguments))


def _last_uses(plan: HostPlan) -> list[list[int]]:
    """The slots that nobody reads after each call."""
    kept = {*plan.outputs, *plan.fixed}
    last: dict[int, int] = {}
    for number, call in enumerate(plan.calls):
        for slot in (*call.inputs, *call.outputs):
            last[slot] = number
    dead: list[list[int]] = [[] for _ in plan.calls]
    for slot, number in last.items():
        if slot not in kept:
            dead[number].append(slot)
    return dead


class Host:
    """A host part, built: TVM's code for ``main``, jitted JAX functions for the pieces of XLA.

    ``regions`` are the symbols of its regions. A network is not re-entrant: calls from several threads take turns.
    """

    def __init__(self, part: HostPart, regions: Iterable[str]) -> None:
        from archloom.tvm_backend.host import virtual_machine
        from archloom.tvm_backend.ir import compat

        try:
            module = part.module if part.module is not None else compat.from_json(part.module_json)
        except ValueError as error:
            raise ArtifactError(f"host part: {error}") from error
        main, pieces = split(module)
        self._failure: BaseException | None = None
        self._run_region: RunRegion | None = None  # of the call that runs: TVM's functions are bound when it is built
        self._lock = threading.Lock()
        called = {found[0]: binding.var for binding in ir.bindings(main["main"])
                  if (found := ir.of(binding.value).external_call(binding.value)) is not None}
        self._types = {symbol: ir.fields_of(ir.type_of(var)) for symbol, var in called.items()}
        pieces |= {symbol: partial(self._region, symbol) for symbol in regions}
        functions = {symbol: self._guarded(piece) for symbol, piece in pieces.items()}
        self._main = virtual_machine.compile_vm(virtual_machine.build(main), functions)
        self._to_tvm = virtual_machine.to_tvm

    def __call__(self, inputs: Sequence[np.ndarray], run_region: RunRegion) -> list[np.ndarray]:
        with self._lock:
            self._failure, self._run_region = None, run_region
            try:
                result = self._main(*[self._to_tvm(x) for x in inputs])
            except Exception:
                if self._failure is not None:  # TVM has turned it into a RuntimeError
                    raise self._failure from None
                raise
            finally:
                failure, self._failure = self._failure, None
                del failure
            return _arrays(result)

    def _region(self, symbol: str, tensors: Sequence[Any]) -> Sequence[Any]:
        assert self._run_region is not None
        results = self._run_region(symbol, tensors)
        return [x.reshape(ty.shape) for x, ty in zip(results, self._types[symbol], strict=True)
                if isinstance(ty, TensorType)]

    def _guarded(self, piece: Piece) -> Callable[..., Any]:
        """A packed function that hands tensors over without copying and remembers the exception it ends with."""
        import jax

        def call(*tensors: Any) -> Any:
            try:
                with jax.enable_x64(True):  # numbers of 64 bits would be cut to 32
                    given = [jax.dlpack.from_dlpack(t) for t in tensors]
                results = piece(given)
                jax.block_until_ready([r for r in results if isinstance(r, jax.Array)])
                handed = [self._to_tvm(r) for r in results]
                return handed[0] if len(handed) == 1 else handed
            except BaseException as error:
                self._failure = error
                raise

        return call


def split(module: "IRModule") -> "tuple[IRModule, dict[str, Piece]]":
    """``main`` alone, and the pieces that XLA runs by their symbols."""
    pieces = {gv.name_hint: jitted(f) for gv, f in module.functions.items() if ir.codegen_of(f) == "xla"}
    return ir.of(module).keep_functions(module, lambda f: ir.codegen_of(f) is None), pieces


def whole(function: Any) -> Piece:
    """A Relax function as a compiled JAX function, or by TVM's code if it has an operator without a translation."""
    from archloom.tvm_backend.host import virtual_machine
    from archloom.tvm_backend.ir import compat

    names = {compat.op_name(binding.value) for binding in compat.bindings(function)} - {None}
    if all(operator(name).xla for name in names):
        return jitted(function)
    run = virtual_machine.compile_vm(virtual_machine.build(compat.normalize(compat.module_of(function))), {})

    return lambda inputs: _arrays(run(*[virtual_machine.to_tvm(np.asarray(x)) for x in inputs]))


def _arrays(result: Any) -> list[np.ndarray]:
    """One tensor of TVM, or several, as arrays."""
    return [np.array(y.numpy()) for y in ([result] if hasattr(result, "dtype") else result)]


def jitted(function: Any) -> Piece:
    """A Relax function as a compiled JAX function, with 64-bit integers and floats as they are in the network."""
    import jax

    from archloom.tvm_backend.host.functions import translate

    *_, function, constants = translate(function)
    with jax.enable_x64(True):
        placed = [jax.numpy.asarray(c) for c in constants]
    run = jax.jit(function)

    def piece(inputs: Sequence[Any]) -> Sequence[Any]:
        with jax.enable_x64(True):
            results: Sequence[Any] = run(*placed, *inputs)
        return results

    return piece
