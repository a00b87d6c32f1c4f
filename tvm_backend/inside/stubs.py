"""What a code generator gives TVM: modules of LLVM whose functions call ``archloom.call``, and an artifact as data.

The functions are in one module, the data in another, which only a library that is linked brings along: in the process
that compiled them the functions work without. A function hands over which artifact it belongs to, which of its
functions is called, and where its data is::

    gemmini_0(x, y)  ->  archloom.call(key, 0, address of the data or 0, bytes of the data, x, y)
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import tvm
import tvm_ffi

CALL = "archloom.call"
ABOUT = -1
"""The number of the function that only says which artifact a library has."""

_LOAD = "ffi.Module.load_from_file.ll"
_HANDED = 4
"""Values that come before the tensors."""
_INT, _RAW_STRING = 1, 8
"""Of ``TVMFFITypeIndex``."""

_TYPES = """
%any = type { i32, i32, i64 }
declare i32 @TVMFFIFunctionGetGlobal(ptr, ptr)
declare i32 @TVMFFIFunctionCall(ptr, ptr, i32, ptr)
declare void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""

_COMMON = """
@data_{key} = extern_weak hidden constant [{size} x i8]
@key = private constant [{key_size} x i8] c"{key}\\00"
@name = private constant [{name_size} x i8] c"{name}"
@kind = private constant [13 x i8] c"RuntimeError\\00"
@missing = private constant [{missing_size} x i8] c"{missing}\\00"
@callee = internal global ptr null

define internal i32 @call(i64 %number, ptr %args, i32 %count, ptr %result) {{
  %known = load ptr, ptr @callee
  %unknown = icmp eq ptr %known, null
  br i1 %unknown, label %search, label %found
search:
  %bytes = alloca {{ ptr, i64 }}
  store ptr @name, ptr %bytes
  %length = getelementptr {{ ptr, i64 }}, ptr %bytes, i32 0, i32 1
  store i64 {name_size}, ptr %length
  %status = call i32 @TVMFFIFunctionGetGlobal(ptr %bytes, ptr @callee)
  %fresh = load ptr, ptr @callee
  %none = icmp eq ptr %fresh, null
  br i1 %none, label %fail, label %found
fail:
  call void @TVMFFIErrorSetRaisedFromCStr(ptr @kind, ptr @missing)
  ret i32 -1
found:
  %function = phi ptr [ %known, %0 ], [ %fresh, %search ]
  %all = add i32 %count, {handed}
  %handed = alloca %any, i32 %all
{stores}
  %tensors = getelementptr %any, ptr %handed, i32 {handed}
  %wide = sext i32 %count to i64
  %taken = mul i64 %wide, 16
  call void @llvm.memcpy.p0.p0.i64(ptr %tensors, ptr %args, i64 %taken, i1 false)
  %done = call i32 @TVMFFIFunctionCall(ptr %function, ptr %handed, i32 %all, ptr %result)
  ret i32 %done
}}
"""

_FUNCTION = """
define {linkage}i32 @"__tvm_ffi_{symbol}"(ptr %self, ptr %args, i32 %count, ptr %result) {{
  %done = call i32 @call(i64 {number}, ptr %args, i32 %count, ptr %result)
  ret i32 %done
}}
"""

MISSING = f"{CALL} is not registered: import archloom before the library is run"


def modules(key: str, codegen: str, symbols: Sequence[str], data: bytes) -> list[tvm.runtime.Module]:
    """Modules with a function for each of ``symbols``, and :func:`contents` of ``codegen``, for the artifact ``data``.

    ``key`` names the artifact, in letters and digits.
    """
    values = ((_RAW_STRING, "ptr @key"), (_INT, "i64 %number"), (_INT, f"ptr @data_{key}"), (_INT, f"i64 {len(data)}"))
    stores = "\n".join(
        f"  %slot{i} = getelementptr %any, ptr %handed, i32 {i}\n"
        f"  store %any {{ i32 {kind}, i32 0, i64 0 }}, ptr %slot{i}\n"
        f"  %value{i} = getelementptr %any, ptr %slot{i}, i32 0, i32 2\n"
        f"  store {value}, ptr %value{i}" for i, (kind, value) in enumerate(values))
    common = _COMMON.format(key=key, size=len(data), key_size=len(key) + 1, name=CALL, name_size=len(CALL),
                            missing=MISSING, missing_size=len(MISSING) + 1, handed=_HANDED, stores=stores)
    functions = [_FUNCTION.format(symbol=symbol, number=i, linkage="") for i, symbol in enumerate(symbols)]
    functions.append(_FUNCTION.format(symbol=contents(codegen), number=ABOUT, linkage="weak "))
    calls = _module((_TYPES + common + "".join(functions)).encode())
    escaped = data.replace(b"\\", b"\\5C").replace(b'"', b"\\22")
    calls.import_module(_module(
        f"@data_{key} = hidden constant [{len(data)} x i8] c\"".encode() + escaped + b'"\n'))
    return [calls]


KINDS = ("", ".parts", ".open")
"""What a code generator's functions are, behind its name: of composite functions, parts of a network as it was
imported, and such parts with open extents. Each kind has an artifact of its own."""


def contents(codegen: str) -> str:
    """The function of a library that says which artifact it has of a code generator."""
    return f"archloom_contents_of_{codegen}"


@cache
def _head() -> tuple[bytes, bytes]:
    """What a module begins with, and what it ends with: for which machine it is."""
    triple = tvm_ffi.get_global_func("tvm.codegen.llvm.GetDefaultTargetTriple")()
    target = json.dumps({"kind": "llvm", "mtriple": triple}).replace('"', "\\22")
    nothing = tvm.tirx.PrimFunc([], tvm.tirx.Evaluate(0)).with_attr("global_symbol", "nothing")
    source = tvm.tirx.build(tvm.IRModule({"nothing": nothing}), target="llvm").inspect_source("ll")
    layout = next(line for line in source.splitlines() if line.startswith("target datalayout"))
    return (f'{layout}\ntarget triple = "{triple}"\n'.encode(),
            f'!llvm.module.flags = !{{!0}}\n!0 = !{{i32 4, !"tvm_target", !"{target}"}}\n'.encode())


def _module(text: bytes) -> tvm.runtime.Module:
    """A module of a text of LLVM's, which TVM reads from a file."""
    head, tail = _head()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "module.ll"
        file.write_bytes(head + text + tail)
        return tvm_ffi.get_global_func(_LOAD)(str(file), "ll")
