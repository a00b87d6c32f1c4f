"""A finite impulse response filter, ``y[n] = sum over k of c[k] * x[n + k]`` on complex values, on a chain of cores.

Four outputs are a *group*. Each core has the same number of consecutive coefficients and makes one operation (two of
them) for each pair, then hands the four sums to the next core: over a stream (a copy) or, with ``cascade``, over the
cascade (the next core reads the accumulator). Each core has its own copy of the input stream, shifted to its first
coefficient (as the cores of the vendor's tutorial throw away the first samples of a broadcast).

A group needs three samples more than a core has coefficients. Before the loop each core holds what whole groups of
four samples make of that; the rest comes with the four samples that each group reads, and the read stands before the
first operation that needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import HbmTensor, Instr, Loop, Node, Stream

LANES = 4
TAPS = 2
VALUE_BYTES = 4
GROUP = "g"
"""The loop over groups. Before it stands the prologue; after it the transfer of the last result, so that the time of
the loop ends with the last operation."""


@dataclass(frozen=True)
class Fir:
    """A filter of ``taps`` coefficients that makes ``outputs`` values, on the first ``cores`` cores of the chain.

    ``shift``: by how much sums are shifted right where they become 16 bits wide, in results and on streams (the next
    core shifts them back). ``cascade``: how neighbours are joined. ``ahead``: how many groups the reads lead by.
    ``read_after``: how many operations of a group precede its read (by default as many as do not need it).
    """

    taps: int
    outputs: int
    cores: int
    shift: int = 0
    cascade: bool = False
    ahead: int = 0
    read_after: int | None = None

    @property
    def groups(self) -> int:
        return -(-self.outputs // LANES)

    @property
    def taps_per_core(self) -> int:
        return self.taps // self.cores

    @property
    def operations(self) -> int:
        """Operations of a core for a group."""
        return self.taps_per_core // TAPS

    @property
    def held(self) -> int:
        """Samples that a core has before the loop."""
        return LANES * ((self.taps_per_core + LANES - 2) // LANES + self.ahead)

    @property
    def before_read(self) -> int:
        """Operations of a group before its read: those whose windows the held samples cover, unless it is stated."""
        if self.read_after is not None:
            return self.read_after
        return 0 if self.ahead else self.held // TAPS - LANES // TAPS

    @property
    def input_samples(self) -> int:
        """Samples that the filter reads: those of the outputs and what the last groups and reads reach beyond them."""
        return self.groups * LANES + self.taps - self.taps_per_core + self.held

    def check(self, parameters: dict[str, int]) -> None:
        """MappingError with all that does not fit the cores."""
        problems = []
        if min(self.taps, self.outputs, self.cores) < 1 or self.ahead < 0:
            problems.append(f"taps, outputs and cores must be at least 1 and ahead at least 0 ({self})")
        elif self.taps % (TAPS * self.cores):
            problems.append(f"{self.taps} coefficients are no multiple of {TAPS} on each of {self.cores} cores; pad "
                            "them with zeros")
        else:
            problems += self._misfits(parameters)
        if problems:
            raise MappingError("FIR on ai_engine: " + "; ".join(problems))

    def _misfits(self, parameters: dict[str, int]) -> list[str]:
        ring = parameters["samples"]
        first_use = (self.held - LANES * self.ahead) // TAPS - LANES // TAPS  # of what this group's read brings
        overwritten = self.held + LANES - ring  # samples of the current group that its read puts out of the ring
        least, most = max(0, -(-overwritten // TAPS)), self.operations if self.ahead else first_use
        problems = []
        if self.cores > parameters["cores"]:
            problems.append(f"{self.cores} cores are wanted and {parameters['cores']} there")
        if self.taps_per_core > parameters["coefficients"]:
            problems.append(f"a core holds {parameters['coefficients']} coefficients, not {self.taps_per_core}")
        if ring % LANES or self.held > ring:
            problems.append(f"the ring of samples must be a multiple of {LANES} of at least {self.held}, not {ring}")
        elif not least <= self.before_read <= most:
            problems.append(f"the read must stand after {least} to {most} operations, not {self.before_read}")
        if not 0 <= self.shift <= 15:
            problems.append(f"shift must be 0 to 15, not {self.shift}")
        return problems


def fir(filter_: Fir, parameters: dict[str, int], *, name: str = "fir") -> Stream:
    """The stream of ``filter_`` on cores with these ISA parameters.

    Arguments: ``x`` (:attr:`Fir.input_samples`, 2) and ``c`` (taps, 2), result ``y`` (outputs, 2), all int16, the last
    axis real and imaginary part. MappingError for a filter that does not fit.
    """
    filter_.check(parameters)
    f = filter_
    x = HbmTensor("x", 0, (f.input_samples, 2), "int16")
    c = HbmTensor("c", x.address + VALUE_BYTES * f.input_samples, (f.taps, 2), "int16")
    y = HbmTensor("y", c.address + VALUE_BYTES * f.taps, (f.outputs, 2), "int16")
    writer = _Writer(f, parameters["samples"], parameters["fifo"], x.address, c.address, y.address)
    group, last = Affine.variable(GROUP), f.groups - 1
    body: list[Node] = [node for core in range(f.cores) for node in writer.prologue(core)]
    if last:
        body.append(Loop(GROUP, 0, last, 1, (*writer.group(group), writer.result(group, LANES))))
    body.append(Loop(GROUP, last, f.groups, 1, tuple(writer.group(group))))
    body.append(writer.result(Affine(last), f.outputs - LANES * last))
    end = y.address + VALUE_BYTES * f.outputs
    return Stream("ai_engine", tuple(parameters.items()), (x, c), (y,), end, tuple(body), name)


@dataclass(frozen=True)
class _Writer:
    """Writes a core's instructions; addresses in bytes of HBM."""

    filter: Fir
    ring: int
    fifo: int
    x: int
    c: int
    y: int

    def prologue(self, core: int) -> list[Node]:
        f, first = self.filter, core * self.filter.taps_per_core
        return [
            Instr.make("read_coefficients", core=core, dram=self.c + VALUE_BYTES * first, at=0, count=f.taps_per_core),
            Instr.make("read_samples", core=core, dram=self.x + VALUE_BYTES * first, at=0, count=f.held),
        ]

    def group(self, group: Affine) -> Iterator[Node]:
        """What all cores do for a group, but for the transfer of its result to memory."""
        f = self.filter
        for core in range(f.cores):
            for i in range(f.operations):
                if i == f.before_read:
                    yield self._read(core, group)
                yield self._operation(core, group, i)
            if f.before_read == f.operations:
                yield self._read(core, group)
            if core + 1 < f.cores and not f.cascade:
                yield Instr.make("write_stream", core=core, **{"from": group % 2}, place=group % self.fifo,
                                 shift=f.shift)

    def result(self, group: Affine, count: int) -> Node:
        """The transfer of the ``count`` values of a group to memory."""
        return Instr.make("write_result", core=self.filter.cores - 1, **{"from": group % 2},
                          dram=self.y + LANES * VALUE_BYTES * group, shift=self.filter.shift, count=count)

    def _read(self, core: int, group: Affine) -> Node:
        f = self.filter
        first = core * f.taps_per_core + f.held
        return Instr.make("read_samples", core=core, dram=self.x + VALUE_BYTES * (first + LANES * group),
                          at=(LANES * group + f.held) % self.ring, count=LANES)

    def _operation(self, core: int, group: Affine, i: int) -> Node:
        at, accumulator = (LANES * group + TAPS * i) % self.ring, group % 2
        if i or core == 0:
            return Instr.make("mac4" if i else "mul4", core=core, to=accumulator, at=at, coef=TAPS * i)
        if self.filter.cascade:
            return Instr.make("mac4_cascade", core=core, to=accumulator, **{"from": accumulator}, at=at, coef=0)
        return Instr.make("mac4_stream", core=core, to=accumulator, place=group % self.fifo,
                          shift=self.filter.shift, at=at, coef=0)
