"""Debug points at work: the kernel that also records what they show, and the lines that are printed of it.

A debug point becomes an instruction of its own that copies its part of a buffer to HBM behind that of the kernel,
to one place for each iteration of the loops around it. Those places are further results. So everything that executes
streams executes debug points, raised or not, and what they show is printed after the kernel, in program order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from archloom.oracle.affine import Affine
from archloom.oracle.errors import InputError
from archloom.oracle.kernel.callable import Call
from archloom.oracle.kernel.index import Site
from archloom.oracle.kernel.located import resolve_rolled
from archloom.oracle.kernel.recording import InstrCall, Nest, Part, Point, Recorded, Registers
from archloom.oracle.late_jax import jax
from archloom.oracle.nests import walk
from archloom.oracle.resolved import ResolvedStream
from archloom.oracle.stream import HbmTensor, Instr, Loop, Node, Stream
from archloom.oracle.taidl.isa import HBM, Instruction, Isa
from archloom.oracle.taidl.parser import parse
from archloom.oracle.taidl.types import element_type, numpy_dtype

MAX_BYTES = 1 << 28
"""How much the debug points of one kernel may record in one run."""

MAX_LINES = 1 << 20
"""How many times the debug points of one kernel may print in one run."""

_ALIGNMENT = 64

Values: TypeAlias = Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Debugged:
    """A kernel with its debug points as instructions: a stream of ``isa``, whose last results are ``logs``.

    ``sites`` are the lines of its instructions, ``places`` the number of the log of each point that has one.
    """

    isa: Isa
    stream: Stream
    sites: tuple[Site, ...]
    recorded: tuple[Recorded, ...]
    logs: tuple[HbmTensor, ...]
    places: Mapping[Point, int]

    @cached_property
    def resolved(self) -> ResolvedStream:
        return resolve_rolled(self.isa, self.stream, self.sites)

    @cached_property
    def registers(self) -> Mapping[tuple[int, int], tuple[int, ...]]:
        """What registers hold at debug points, by the number of the instruction and of the visit."""
        keys = {self.places[p]: p.data.keys for p in self.places if isinstance(p.data, Registers)}
        found: dict[tuple[int, int], tuple[int, ...]] = {}
        for instr, around in walk(self.resolved.body):
            given, held = dict(instr.attributes), dict(instr.registers)
            if not instr.mnemonic.startswith("debug_") or list(given) != ["number", "visit"]:
                continue
            for values in itertools.product(*(loop.values for loop in around)):
                at = dict(zip((loop.var for loop in around), values))
                number = given["number"].evaluate(at)
                found[number, given["visit"].evaluate(at)] = tuple(held[k].evaluate(at) for k in keys[number])
        return found

    def lines(self, logs: Sequence[np.ndarray]) -> Iterator[str]:
        """What is printed of the logs of one run, in program order."""
        visits: dict[Point, int] = {}
        for point, loops in _events(self.recorded, {}):
            visit = visits.get(point, 0)
            visits[point] = visit + 1
            where = f"[{', '.join(f'{k} = {v}' for k, v in loops.items())}] " if loops else ""
            prefix, value = f"{where}{point.prefix}", self._shown(point, visit, logs, loops)
            if isinstance(value, np.ndarray):
                yield prefix + np.array2string(value, prefix=prefix.rpartition("\n")[2])
            else:
                yield prefix if value is None else f"{prefix}{value}"

    def _shown(self, point: Point, visit: int, logs: Sequence[np.ndarray], loops: Values) -> Any:
        data = point.data
        if isinstance(data, Part):
            dtype = self.isa.buffer(data.buffer).dtype
            value = _Form.of(dtype).elements(logs[self.places[point]][visit], dtype)
            return value[tuple(slice(None) if kept else 0 for kept in data.kept)]
        if isinstance(data, Registers):
            values = self.registers[self.places[point], visit]
            return values[0] if data.single else ", ".join(f"{k} = {v}" for k, v in zip(data.keys, values))
        return None if data is None else data.evaluate(loops)


@dataclass(frozen=True)
class _Form:
    """How elements of a type come to HBM as bytes: the type they are converted to (or None), and its bytes."""

    converted: str | None
    width: int

    @staticmethod
    def of(dtype: str) -> "_Form":
        found = element_type(dtype)
        if found.kind == "quant":
            return _Form("f32", 4)  # the number that is meant
        if found.bits < 8:
            return _Form("f32", 4) if found.kind == "float" else _Form("i8", 1)
        return _Form(None, found.bits // 8)

    def elements(self, raw: np.ndarray, dtype: str) -> np.ndarray:
        """The elements, from bytes in the last axis (where there are several)."""
        if self.converted == "i8":
            return raw.astype(numpy_dtype(dtype))
        made = numpy_dtype(self.converted or dtype)
        return np.ascontiguousarray(raw).view(made).reshape(raw.shape[:-1] if self.width > 1 else raw.shape)


def debugged(isa: Isa, stream: Stream, recorded: tuple[Recorded, ...]) -> Debugged | None:
    """The kernel with its debug points; None where it has none. InputError where they would show too much."""
    events = _points(recorded, 1)
    if not events:
        return None
    return _Maker(isa, stream).make(recorded, events)


def _points(recorded: Sequence[Recorded], times: int) -> dict[Point, int]:
    """How often each point is passed, in textual order."""
    found: dict[Point, int] = {}
    for node in recorded:
        if isinstance(node, Point):
            found[node] = times
        elif isinstance(node, Nest):
            found |= _points(node.body, times * node.loop.extent)
    return {p: n for p, n in found.items() if n}


def _events(recorded: Sequence[Recorded], loops: dict[str, int]) -> Iterator[tuple[Point, Values]]:
    """Every visit of a point in program order, with the values of the loops around it."""
    for node in recorded:
        if isinstance(node, Point):
            yield node, loops
        elif isinstance(node, Nest) and isinstance(node.loop, Loop) and _points(node.body, 1):
            for value in node.loop.values:
                yield from _events(node.body, {**loops, node.loop.var: value})


# --- the instructions -----------------------------------------------------------------------------------------------


class _Maker:
    def __init__(self, isa: Isa, stream: Stream) -> None:
        self.isa = isa
        self.stream = stream
        self.end = stream.hbm_bytes
        self.kinds: dict[str, str] = {}
        """The names of debug instructions by their text (without the name)."""
        self.logs: list[HbmTensor] = []
        self.places: dict[Point, int] = {}
        self.registers = 0
        self.sites: list[Site] = []

    def make(self, recorded: tuple[Recorded, ...], points: Mapping[Point, int]) -> Debugged:
        self._place(points)
        body = self._nodes(recorded, Affine(0), points)
        text = "".join(f"[{name}]{body_}\n" for body_, name in self.kinds.items())
        made = parse(f"isa {self.isa.name};\n{text}", "<debug>").instructions
        isa = replace(
            self.isa,
            definition=replace(self.isa.definition, source="",
                               instructions=(*self.isa.definition.instructions, *made)),
            instructions={**self.isa.instructions, **{i.name: Instruction(i.name, i.attributes, i.body) for i in made}},
        )
        stream = replace(self.stream, hbm_bytes=self.end, results=(*self.stream.results, *self.logs), body=body)
        return Debugged(isa, stream, tuple(self.sites), recorded, tuple(self.logs), self.places)

    def _place(self, points: Mapping[Point, int]) -> None:
        """Logs for the parts of buffers, numbers for the registers."""
        if sum(points.values()) > MAX_LINES:
            most = max(points, key=lambda p: points[p])
            raise InputError(f"{most.site}: debug points of kernel {self.stream.name} would print "
                             f"{sum(points.values())} times, expected at most {MAX_LINES}")
        for point, times in points.items():
            if isinstance(point.data, Registers):
                self.places[point] = -1 - self.registers
                self.registers += 1
            elif isinstance(point.data, Part):
                self.places[point] = len(self.logs)
                self._log(point, point.data, times)

    def _log(self, point: Point, part: Part, times: int) -> None:
        start = -(-self.end // _ALIGNMENT) * _ALIGNMENT
        width = _Form.of(self.isa.buffer(part.buffer).dtype).width
        shape = (times, *part.extents, *([width] if width > 1 else []))
        log = HbmTensor(f"debug {len(self.logs)}", start, shape, "int8")
        self.end = start + int(np.prod(log.shape))
        if self.end - self.stream.hbm_bytes > MAX_BYTES:
            raise InputError(f"{point.site}: debug points of kernel {self.stream.name} would record more than "
                             f"{MAX_BYTES} bytes: name a smaller part of {part.buffer}, or fewer iterations")
        self.logs.append(log)

    def _nodes(self, recorded: Sequence[Recorded], visit: Affine, points: Mapping[Point, int]) -> tuple[Node, ...]:
        """The stream's nodes; ``visit`` counts the iterations of the loops around."""
        made: list[Node] = []
        for node in recorded:
            if isinstance(node, InstrCall):
                self.sites.append(node.site)
                made.append(node.instr)
            elif isinstance(node, Nest):
                body = self._nodes(node.body, _inner(visit, node), points)
                if body:
                    made.append(replace(node.loop, body=body))
            elif isinstance(node.data, (Part, Registers)) and node in points:
                self.sites.append(node.site)
                made.append(self._instr(node, node.data, visit))
        return tuple(made)

    def _instr(self, point: Point, data: Part | Registers, visit: Affine) -> Instr:
        if isinstance(data, Registers):
            # it reads them, so that their values are known where it stands
            reads = " ".join(f"%R{n}:i32 = constant({key});" for n, key in enumerate(data.keys))
            name = self._kind(f"(number, visit) {{ {reads} }}")
            return Instr.make(name, number=self.places[point], visit=visit)
        log = self.logs[self.places[point]]
        size = int(np.prod(log.shape[1:]))
        name = self._kind(_part_text(data, self.isa.buffer(data.buffer).dtype, self.stream.hbm_bytes))
        starts = {f"o{n}": start for n, start in enumerate(data.starts)}
        return Instr.make(name, at=visit * size + log.address, **starts)

    def _kind(self, text: str) -> str:
        if text not in self.kinds:
            name = f"debug_{len(self.kinds)}"
            while name in self.isa.instructions:
                name += "_"
            self.kinds[text] = name
        return self.kinds[text]


def _inner(visit: Affine, nest: Nest) -> Affine:
    loop = nest.loop
    variable = Affine.variable(loop.var)
    if not isinstance(loop, Loop):
        return visit * loop.extent + variable
    passed = (variable - loop.start) // loop.step if loop.step > 0 else (loop.start - variable) // -loop.step
    return visit * loop.extent + passed


def _part_text(part: Part, dtype: str, hbm_bytes: int) -> str:
    names = [f"o{n}" for n in range(len(part.starts))]
    shape = "".join(f"{{{n}}}x" for n in part.extents)
    windows = [f"{o} + {{{n} : {s}}}" for o, n, s in zip(names, part.extents, part.strides)]
    form = _Form.of(dtype)
    extents = [*part.extents, *([form.width] if form.width > 1 else [])]
    strides: list[int] = []
    step = 1
    for extent in reversed(extents):
        strides.insert(0, step)
        step *= extent
    target = ", ".join(f"{n} : {s}" for n, s in zip(extents, strides))
    inside = f"assert(0 <= o0 && o0 + {(part.extents[0] - 1) * part.strides[0]} < {hbm_bytes});" \
        if part.buffer == HBM else ""
    steps, last, held = "", "%X", dtype
    if form.converted is not None:
        opcode = "uniform_dequantize" if element_type(dtype).kind == "quant" else "convert"
        steps, last, held = f"%C:{shape}{form.converted} = {opcode}(%X); ", "%C", form.converted
    if held != "i8":
        inner = f"{{{form.width}}}x" if form.width > 1 else ""
        steps, last = f"{steps}%B:{shape}{inner}i8 = bitcast_convert({last});", "%B"
    return (f"({', '.join(['at', *names])}) {{ {inside} %X:{shape}{dtype} <- ${part.buffer}[{', '.join(windows)}]; "
            f"{steps} {last} -> $hbm[at + {{{target}}}]; }}")


# --- printing -------------------------------------------------------------------------------------------------------


def observed(call: Call, kernel: Debugged) -> Call:
    """``call``, whose last results are logs, without them: they are printed when it has run.

    Where it is traced, printing is an ordered callback of the program, one for all elements of a batch.
    """
    own = len(kernel.stream.results) - len(kernel.logs)

    def of_arrays(*arrays: Any) -> tuple[Any, ...]:
        every = call.arrays(*arrays)
        print_logs(kernel, every[own:])
        return every[:own]

    def of_tracers(*arrays: Any) -> tuple[Any, ...]:
        passed: tuple[Any, ...] = _callback(kernel, own)(*call.tracers(*arrays))
        return passed

    return Call(of_arrays, of_tracers)


def print_logs(kernel: Debugged, logs: Sequence[Any], batch: bool = False) -> None:
    """Print what the logs of one run hold; with ``batch``, of each of its elements."""
    arrays = [np.asarray(log) for log in logs]
    if not batch:
        for line in kernel.lines(arrays):
            print(line)
        return
    for n in range(len(arrays[0])):
        for line in kernel.lines([a[n] for a in arrays]):
            print(f"[batch {n}] {line}")


def _callback(kernel: Debugged, own: int) -> Any:
    """A function that gives back its first ``own`` arguments, and prints the logs that follow."""
    @jax.custom_batching.custom_vmap
    def emit(*arrays: Any) -> tuple[Any, ...]:
        jax.debug.callback(lambda *logs: print_logs(kernel, logs), *arrays[own:], ordered=True)
        return arrays[:own]

    @emit.def_vmap
    def emit_batch(size: int, batched: Sequence[bool], *arrays: Any) -> tuple[Any, Any]:
        logs = [x if b else jax.numpy.broadcast_to(x, (size, *x.shape)) for x, b in zip(arrays[own:], batched[own:])]
        jax.debug.callback(lambda *held: print_logs(kernel, held, batch=True), *logs, ordered=True)
        return arrays[:own], tuple(batched[:own])

    return emit
