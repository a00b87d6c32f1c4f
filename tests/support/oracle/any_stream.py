"""Random legal streams of any ISA, on the interpreter, the raised oracle and the loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from random import Random

import numpy as np

from archloom.oracle import interpreter, taidl
from archloom.oracle.errors import StreamError
from archloom.oracle.stream import HbmTensor, Instr, Loop, Node, Stream
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.isa import HBM, Instruction, Isa, check
from archloom.oracle.taidl.printer import print_expr, print_isa
from archloom.oracle.taidl.statements import every
from archloom.oracle.taidl.types import byte_count, element_type, numpy_dtype
from tests.support.oracle.any_isa import Programs, small_parameters
from tests.support.oracle.operator_cases import equal
from tests.support.oracle.random_programs.checks import compared

HBM_BYTES = 1 << 15


def check_streams(name: str, r: Random) -> bool:
    """The property for a random legal stream of the ISA ``name``; whether one was found."""
    tree, instructions = _seen(name)
    isa = taidl.instantiate(tree, small_parameters(name, r), instructions)
    body = legal_body(Programs(r, isa, HBM_BYTES), most=3)
    if not body:
        return False
    stream = _stream(isa, body)
    given = {"memory": memory(r, isa)}
    compared(stream, isa, given, f"{isa.parameters}, {body}", _same)
    return True


def legal_body(programs: Programs, most: int) -> tuple[Node, ...]:
    """A random body that the interpreter runs: what it refuses for its tensors is left out."""
    isa, hbm_bytes, body = programs.isa, programs.hbm_bytes, programs.body(most)
    empty = HbmTensor("memory", 0, (hbm_bytes,), "int8")
    while body:
        try:
            interpreter.run(Stream(isa.name, isa.parameters, (empty,), (), hbm_bytes, body), isa, {
                "memory": np.zeros(hbm_bytes, np.int8)})
        except StreamError as error:
            assert error.instruction is not None, error
            body = _without(body, error.instruction)
        else:
            break
    return body


def _without(body: tuple[Node, ...], number: int) -> tuple[Node, ...]:
    """The body without its instruction ``number`` in the order of the text."""
    left = [number]

    def kept(nodes: tuple[Node, ...]) -> Iterator[Node]:
        for node in nodes:
            if isinstance(node, Loop):
                inner = tuple(kept(node.body))
                if inner:
                    yield Loop(node.var, node.start, node.stop, node.step, inner)
            else:
                left[0] -= 1
                if left[0] != -1:
                    yield node

    return tuple(kept(body))


def memory(r: Random, isa: Isa) -> np.ndarray:
    """Bytes of HBM: any, but if the ISA takes them for floats such as make middling ones wherever they lie."""
    random = np.random.default_rng(r.getrandbits(32))
    if not any(_takes_floats(i.body) for i in isa.instructions.values()):
        return random.integers(-128, 128, HBM_BYTES).astype(np.int8)
    return random.choice(np.array([58, 59, 60, 61, 62, 63, 64, -70, -69, -68, -67, -66, -65, -64], np.int8), HBM_BYTES)


def _takes_floats(body: tuple[ast.Statement, ...]) -> bool:
    """Whether bits that come from HBM become floats."""
    from_hbm: set[str] = set()
    for s in every(body):
        if isinstance(s, ast.Read) and s.source.buffer == HBM:
            from_hbm.add(s.dst)
        elif isinstance(s, ast.Op) and s.opcode in ("bitcast_convert", "reshape") and any(
                isinstance(x, ast.Tensor) and x.name in from_hbm for x in s.operands):
            from_hbm.add(s.dst)
            dtype = s.type.dtype if s.type.bits is None else f"{s.type.dtype}32"
            if element_type(dtype).kind == "float":
                return True
    return False


def _same(a: np.ndarray, b: np.ndarray, dtype: str) -> np.ndarray:
    """Where elements are the same; bytes of memory also where they are of a NaN in both, which has no certain bits."""
    same = equal(a, b, dtype)
    if dtype != "i8" or a.size % 4 or same.all():
        return same
    for kind in (np.float64, np.float32, np.float16):
        size = np.dtype(kind).itemsize
        for shift in range(size):
            cut = slice(shift, shift + (a.size - shift) // size * size)
            nan = np.isnan(a.ravel()[cut].view(kind)) & np.isnan(b.ravel()[cut].view(kind))
            same.reshape(-1)[cut] |= np.repeat(nan, size)
    return same


# --- all that a program leaves ------------------------------------------------------------------------------------


@lru_cache
def _seen(name: str) -> tuple[ast.IsaDef, Mapping[str, Instruction]]:
    """The description ``name`` with an instruction that stores a whole buffer in HBM, for each of its buffers."""
    definition = taidl.load(name).definition
    tree = taidl.parse(print_isa(definition) + "".join(_dump(buffer) for buffer in definition.buffers))
    every_buffer = {p.name: min(max(p.default, 1), p.high) for p in tree.parameters}
    return tree, check(tree, every_buffer)


def _dump(buffer: ast.BufferDecl) -> str:
    dims, size = [print_expr(d) for d in buffer.rows + buffer.base.dims], numpy_dtype(buffer.base.dtype).itemsize
    extents = dims + [str(size)] * (size > 1)
    strides = [" * ".join(["1", *(f"({d})" for d in extents[i + 1:])]) for i in range(len(extents))]
    place = ", ".join(f"{n} : {s}" for n, s in zip(extents, strides))
    held, stored = ("x".join(f"{{{d}}}" for d in shape) for shape in (dims, extents))
    return (f"\n[dump_{buffer.name}](dram) {{\n    %x:{held}x{buffer.base.dtype} <- ${buffer.name};\n"
            f"    %b:{stored}xi8 = bitcast_convert(%x);\n    %b -> $hbm[dram + {{{place}}}];\n}}\n")


def _stream(isa: Isa, body: tuple[Node, ...]) -> Stream:
    """The program on memory that is all argument and all result, and with every buffer as a result behind it."""
    results, end = [HbmTensor("memory", 0, (HBM_BYTES,), "int8")], HBM_BYTES
    dumps = []
    for buffer in isa.buffers:
        results.append(HbmTensor(buffer.name, end, buffer.shape, numpy_dtype(buffer.dtype).name))
        dumps.append(Instr.make(f"dump_{buffer.name}", dram=end))
        end += -(-byte_count(buffer.shape, results[-1].dtype) // 8) * 8
    return Stream(isa.name, isa.parameters, (results[0],), tuple(results), end, (*body, *dumps))
