"""A kernel: an instruction stream with everything that is done with one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from archloom.oracle.assembly import to_text
from archloom.oracle.binary import encode
from archloom.oracle.errors import ArtifactError, InputError
from archloom.oracle.interpreter import run
from archloom.oracle.kernel.callable import Call, JaxFunction, JaxProgram
from archloom.oracle.kernel.compiled import Compilable
from archloom.oracle.kernel.debugging import Debugged, debugged, observed, print_logs
from archloom.oracle.kernel.index import Site
from archloom.oracle.kernel.located import compiled, located, resolve_rolled
from archloom.oracle.kernel.recording import Recorded
from archloom.oracle.late_jax import jax, jnp
from archloom.oracle.resolved import ResolvedStream
from archloom.oracle.stream import HbmTensor, Stream
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.xla.oracle import Oracle
from archloom.oracle.xla.report import OracleReport


class Kernel(Compilable):
    """A program of ``isa``'s instructions as a function of its arguments in HBM.

    ``stream`` is the program, ``resolved`` the same with registers known and every assertion and address checked.
    Call the kernel with one array for each of ``arguments``, of exactly its shape and type: NumPy arrays, JAX arrays
    (or tracers of ``jit`` and ``vmap``), or PyTorch tensors; results are of the same kind, one array, or a tuple where
    there are several or none. A kernel is a pure function. It is resolved and compiled when first needed: StreamError
    with the line of the call for an instruction that breaks a rule of the ISA, InputError for arrays that do not fit.
    """

    def __init__(
        self, isa: Isa, stream: Stream, sites: tuple[Site, ...] = (), recorded: tuple[Recorded, ...] = (),
        function: Callable[..., Any] | None = None, *, reassociate: bool = False, raising: bool = True,
    ) -> None:
        super().__init__(stream.name, stream.arguments, stream.results)
        self.isa = isa
        self.stream = stream
        self.sites = sites
        self._recorded = recorded
        self._options = {"reassociate": reassociate, "raising": raising}
        self._origin = {"isa": isa.name, "parameters": list(isa.parameters)}
        self.__name__ = stream.name
        if function is not None:
            functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{t.name}: {t.type}" for t in self.arguments)
        results = ", ".join(f"{t.name}: {t.type}" for t in self.results)
        return f"<kernel {self.name} of {self.isa.name} ({arguments}) -> ({results})>"

    # the program

    @cached_property
    def resolved(self) -> ResolvedStream:
        """The stream with control registers known: what the oracle raises and the timing simulates.

        Unrolled repetitions are loops in it (:mod:`archloom.oracle.rolling`).
        """
        return resolve_rolled(self.isa, self.stream, self.sites)

    @cached_property
    def oracle(self) -> Oracle:
        """The stream as a JAX function of its arguments."""
        return compiled(self.isa, self.stream, self.resolved, **self._options)

    @property
    def report(self) -> OracleReport:
        """How each result is computed: raised to which operations, or left as loops and why."""
        return self.oracle.report

    def save(self, path: str | Path) -> None:
        """Write the stream: in binary form where the name ends in ``.bin``, else as assembly. Debug points stay out."""
        path = Path(path)
        data = encode(self.stream) if path.suffix == ".bin" else to_text(self.stream).encode()
        try:
            path.write_bytes(data)
        except OSError as error:
            raise ArtifactError(f"{path} cannot be written: {error.strerror}") from None

    # running

    def batch(self, size: int) -> "BatchedKernel":
        """The kernel over ``size`` inputs at once: every argument and result has a first axis of that extent.

        Each row equals a call with that row, bit for bit.
        """
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InputError(f"kernel {self.name}: expected a batch of at least 1, found {size!r}")
        return BatchedKernel(self, size)

    @cached_property
    def program(self) -> JaxProgram:
        """The kernel as a JAX function, jitted; without its debug points."""
        return self._program(self.oracle)

    def _program(self, oracle: Oracle) -> JaxProgram:
        program, bits = oracle.program, (oracle.bits,) if oracle.bits.size else ()
        if not any(jnp.issubdtype(dtype, jnp.floating) for _, dtype in self._spec):
            return JaxProgram(program.function, program.jitted, program.outermost, program.portable, bits)
        return JaxProgram.of(_without_derivative(program.function, self.name), bits)

    @cached_property
    def debugged(self) -> Debugged | None:
        """The kernel with its debug points as instructions, if it has any."""
        return debugged(self.isa, self.stream, self._recorded)

    def _prepare(self) -> Call:
        if self.debugged is None:
            return self.program.call()
        _ = self.resolved  # faults are those of the kernel alone
        shown = self.debugged
        oracle = compiled(shown.isa, shown.stream, shown.resolved, **self._options)
        return observed(self._program(oracle).call(), shown)

    def interpret(self, *arrays: Any, poison: int | None = None) -> Any:
        """The results by the NumPy interpreter, which is the definition of right (and slow).

        HBM and buffers start as zeros; with ``poison``, as random bytes of that seed.
        """
        arrays = self._numpy(arrays)
        given = {t.name: a for t, a in zip(self.arguments, arrays, strict=True)}
        executed = self.debugged or self
        with located(executed.sites):
            results = run(executed.stream, executed.isa, given, poison=poison)
        if self.debugged is not None:
            print_logs(self.debugged, [results[t.name] for t in self.debugged.logs])
        made = tuple(results[t.name] for t in self.results)
        return made[0] if self._single else made


class BatchedKernel(Compilable):
    """A kernel over many inputs at once (see :meth:`Kernel.batch`)."""

    def __init__(self, kernel: Kernel, size: int) -> None:
        super().__init__(f"{kernel.name} (batch of {size})", _batched(kernel.arguments, size),
                         _batched(kernel.results, size))
        self.kernel = kernel
        self.size = size
        self._origin = kernel._origin

    @cached_property
    def program(self) -> JaxProgram:
        """As :attr:`Kernel.program`."""
        if not self.arguments:
            raise InputError(f"kernel {self.kernel.name} takes no arguments: there is nothing to batch")
        one = self.kernel.program
        axes = (0,) * len(self.arguments) + (None,) * len(one.bits)
        function: JaxFunction = jax.vmap(one.function, in_axes=axes)
        return JaxProgram.of(function, one.bits)

    def _prepare(self) -> Call:
        if self.kernel.debugged is None:
            return self.program.call()
        every: JaxFunction = jax.vmap(self.kernel._prepared().tracers)

        def call(*arrays: Any) -> tuple[Any, ...]:
            results = every(*arrays)
            jax.effects_barrier()
            return results

        return Call(call, every)


def _batched(tensors: tuple[HbmTensor, ...], size: int) -> tuple[HbmTensor, ...]:
    return tuple(HbmTensor(t.name, t.address, (size, *t.shape), t.dtype) for t in tensors)


def _without_derivative(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """``function``, which refuses to be differentiated."""
    guarded = jax.custom_jvp(function)

    @guarded.defjvp
    def refuse(primals: Any, tangents: Any) -> Any:
        raise InputError(f"kernel {name} has no derivative: instructions are executed, not differentiated "
                         "(jax.lax.stop_gradient of its arguments keeps it out of one)")

    result: Callable[..., Any] = guarded
    return result
