"""The LLVM code of programs of element-wise operations (:mod:`.program`).

Vectors of the elements stay in registers from the first operation to the last, so that each array is read once. What
depends on one number, or on a row's, is computed once, or once for a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from archloom.oracle.native.handler import handler
from archloom.oracle.native.operations import SCALARS, code, declarations, vectors
from archloom.oracle.native.program import Place, Program
from archloom.oracle.native.sharing_code import Job, sharing
from archloom.oracle.native.vectors import control_set, splat

LANES = 32
"""Elements of a vector, and columns that a matrix has at least: the last vector of a row begins as many before its end,
and makes some elements twice. It takes two registers of AVX-512, of which one is computed while the other waits."""

PART = 1 << 14
"""About how many elements a part has, of which cores take one after the other."""

_JOB = Job(("arguments", "y"), ("rows", "columns", "strips", "height"))
_ONCE, _ROW, _VECTOR = range(3)
_LEVELS: dict[Place, int] = {"one": _ONCE, "rows": _ROW, "columns": _VECTOR, "all": _VECTOR}


def module(symbol: str, *, program: Program, places: tuple[Place, ...], control: tuple[int, int]) -> str:
    """A module with ``symbol``, a handler of XLA's foreign function interface (version 0 of its C API).

    Its arguments are an array for each operand that is no single number, of as many elements as ``places`` says, row by
    row, then the numbers, of 32 bits each, as one array. Its result has two axes, of at least :data:`LANES` columns.
    ``control``: bits of MXCSR to clear and to set while it runs.
    """
    around = "\n".join((handler(symbol), sharing(), _JOB.type, _run(), _part(control)))
    return "\n".join((declarations(LANES), _CONTROL, _as_it_is(around), _block(program, places)))


def _as_it_is(text: str) -> str:
    """Functions that LLVM does not optimize, which would take longer than all that computes."""
    return re.sub(r"^(define .*\)) {$", r"\1 noinline optnone {", text, flags=re.MULTILINE)


_CONTROL = """declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare i64 @llvm.umax.i64(i64, i64)"""


def _block(program: Program, places: tuple[Place, ...]) -> str:
    """``@block``: some rows from some column on."""
    lines = _lines(program, places)
    vector = vectors(LANES)[program.result]
    last = f"%v{len(program.operands) + len(program.constants) + len(program.steps) - 1}"
    return f"""
define internal void @block(ptr %job, i64 %top, i64 %bottom, i64 %left, i64 %right) noinline {{
entry:
{_JOB.read}
  %end = sub i64 %columns, {LANES}
{lines[_ONCE]}
  br label %row
row:
  %r = phi i64 [%top, %entry], [%below, %after]
  %first = mul i64 %r, %columns
{lines[_ROW]}
  br label %step
step:
  %c = phi i64 [%left, %row], [%next, %step]
  %column = call i64 @llvm.umin.i64(i64 %c, i64 %end)
  %place = add i64 %first, %column
{lines[_VECTOR]}
  %into = getelementptr {SCALARS[program.result]}, ptr %y, i64 %place
  store {vector} {last}, ptr %into, align 4
  %next = add i64 %c, {LANES}
  %more = icmp ult i64 %next, %right
  br i1 %more, label %step, label %after
after:
  %below = add i64 %r, 1
  %again = icmp ult i64 %below, %bottom
  br i1 %again, label %row, label %done
done:
  ret void
}}
"""


def _lines(program: Program, places: tuple[Place, ...]) -> tuple[str, str, str]:
    """What is done once, for each row, and for each vector."""
    lines: tuple[list[str], ...] = [], [], []
    values, levels = list[str](), list[int]()
    arrays = [number for number, place in enumerate(places) if place != "one"]
    for number, (dtype, place) in enumerate(zip(program.operands, places, strict=True)):
        values.append(f"%v{number}")
        levels.append(_LEVELS[place])
        if place == "one":
            array, index = len(arrays), number - sum(i < number for i in arrays)
        else:
            array, index = arrays.index(number), 0
            lines[_ONCE].append(f"  %v{number}.data = call ptr @data(ptr %arguments, i64 {array})")
        lines[levels[-1]].extend(_loaded(f"v{number}", dtype, place, array, index))
    for dtype, text in program.constants:
        values.append(format(vectors(LANES)[dtype], text))
        levels.append(_ONCE)
    for operation, of in program.steps:
        level = max(levels[i] for i in of)
        result = f"%v{len(values)}"
        lines[level].append(code(operation, result, [values[i] for i in of], LANES))
        values.append(result)
        levels.append(level)
    return "\n".join(lines[_ONCE]), "\n".join(lines[_ROW]), "\n".join(lines[_VECTOR])


def _loaded(name: str, dtype: str, place: Place, array: int, index: int) -> Iterator[str]:
    """``%<name>``: a vector of an operand."""
    scalar = SCALARS[dtype]
    if place in ("all", "columns"):
        yield f"  %{name}.p = getelementptr {scalar}, ptr %{name}.data, i64 %{'place' if place == 'all' else 'column'}"
        yield f"  %{name} = load {vectors(LANES)[dtype]}, ptr %{name}.p, align 4"
        return
    if place == "one":
        yield f"  %{name}.data = call ptr @data(ptr %arguments, i64 {array})"
    yield f"  %{name}.p = getelementptr {scalar}, ptr %{name}.data, i64 {'%r' if place == 'rows' else index}"
    yield f"  %{name}.number = load {scalar}, ptr %{name}.p"
    yield splat(f"%{name}.number", name, LANES, scalar)


def _part(control: tuple[int, int]) -> str:
    """``@part``: rows of a strip of columns; MXCSR is set around what computes, so that nothing is moved past that."""
    return f"""
define internal void @part(ptr %job, i64 %number) {{
entry:
{_JOB.read}
  %strip = urem i64 %number, %strips
  %group = udiv i64 %number, %strips
  %left = mul i64 %strip, {PART}
  %wide = add i64 %left, {PART}
  %right = call i64 @llvm.umin.i64(i64 %wide, i64 %columns)
  %top = mul i64 %group, %height
  %deep = add i64 %top, %height
  %bottom = call i64 @llvm.umin.i64(i64 %deep, i64 %rows)
{control_set(control)}
  call void @block(ptr %job, i64 %top, i64 %bottom, i64 %left, i64 %right)
  call void @llvm.x86.sse.ldmxcsr(ptr %saved)
  ret void
}}
"""


def _run() -> str:
    return f"""
define internal void @run(ptr %frame, ptr %arguments, ptr %results) {{
  %y = call ptr @data(ptr %results, i64 0)
  %rows = call i64 @extent(ptr %results, i64 0, i64 2)
  %columns = call i64 @extent(ptr %results, i64 0, i64 1)
  %over = add i64 %columns, {PART - 1}
  %strips = udiv i64 %over, {PART}
  %fitting = udiv i64 {PART}, %columns
  %height = call i64 @llvm.umax.i64(i64 %fitting, i64 1)
{_JOB.written}
  %high = add i64 %rows, %height
  %less = sub i64 %high, 1
  %groups = udiv i64 %less, %height
  %count = mul i64 %groups, %strips
  call void @share(ptr %frame, i1 true, i64 %count, ptr @part, ptr %job)
  ret void
}}
"""
