"""Instructions as text, and streams of them on the interpreter, the raised oracle and the loops, which agree."""

from __future__ import annotations

import numpy as np

from archloom.oracle import interpreter, taidl
from archloom.oracle.assembly import parse
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.taidl.types import byte_count, element_type, of_numpy
from archloom.oracle.xla import compile_stream
from tests.support.oracle.operator_cases import equal


def isa_of(text: str) -> Isa:
    return taidl.instantiate(taidl.parse("isa t;\n" + text), {})


def loaded(name: str, dtype: str, count: int, address: str) -> str:
    """Statements that read a tensor of a type from its place in HBM."""
    kind = element_type(dtype)
    bits = 8 if kind.bits in (1, 6) else kind.bits
    size = byte_count((count,), kind.numpy)
    text = f"%{name}.b:{size}xi8 <- $hbm[{address} : {address} + {size}];\n"
    if kind.kind == "bool":
        return text + f"%{name}:{count}xi1 = convert(%{name}.b);\n"
    if bits == 8:
        return text + f"%{name}:{count}x{dtype} = bitcast_convert(%{name}.b);\n"
    if bits < 8:
        per = 8 // bits
        return text + (f"%{name}.p:{size}x{per}x{dtype} = bitcast_convert(%{name}.b);\n"
                       f"%{name}:{count}x{dtype} = reshape(%{name}.p);\n")
    return text + (f"%{name}.p:{count}x{bits // 8}xi8 = reshape(%{name}.b);\n"
                   f"%{name}:{count}x{dtype} = bitcast_convert(%{name}.p);\n")


def stored(name: str, dtype: str, count: int, address: str) -> str:
    """Statements that write a tensor of a type to its place in HBM."""
    kind = element_type(dtype)
    bits = 8 if kind.bits in (1, 6) else kind.bits
    size, per = byte_count((count,), kind.numpy), max(1, 8 // bits)
    if kind.kind == "bool":
        text = f"%{name}.c:{size}xi8 = convert(%{name});\n"
    elif bits == 8:
        text = f"%{name}.c:{size}xi8 = bitcast_convert(%{name});\n"
    elif bits < 8:
        text = (f"%{name}.q:{size}x{per}x{dtype} = reshape(%{name});\n"
                f"%{name}.c:{size}xi8 = bitcast_convert(%{name}.q);\n")
    else:
        text = (f"%{name}.q:{count}x{bits // 8}xi8 = bitcast_convert(%{name});\n"
                f"%{name}.c:{size}xi8 = reshape(%{name}.q);\n")
    return text + f"%{name}.c -> $hbm[{address} : {address} + {size}];\n"


def run_everywhere(stream_text: str, isa: Isa, arguments: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """The results of the interpreter, of the raised oracle and of the loops."""
    stream = parse(stream_text)
    found = [interpreter.run(stream, isa, arguments)]
    for raising in (True, False):
        made = compile_stream(stream, isa, raising=raising)(*arguments.values())
        found.append({t.name: np.asarray(v) for t, v in zip(stream.results, made, strict=True)})
    return found


def agree(stream_text: str, isa: Isa, arguments: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The results that all give alike."""
    first, *others = run_everywhere(stream_text, isa, arguments)
    for other in others:
        for name, value in first.items():
            assert equal(value, other[name], of_numpy(value.dtype.name)).all()
    return first
