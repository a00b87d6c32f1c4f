"""The LLVM code of fused multiply-adds of arrays, several one after the other: ``y = a * b + c``, rounded once.

A program has a row ``(place, a, b, c)`` of i32 for each step. Operands are numbered: the arrays that are given first,
then the places in which steps leave what later ones read; the last step makes the result. Whole programs run on a block
of numbers before the next block is read, so that what steps leave stays in the cache.
"""

from __future__ import annotations

from archloom.oracle.native.handler import handler
from archloom.oracle.native.sharing_code import Job, sharing
from archloom.oracle.native.vectors import control_set, masks, splat

LANES = 16
VECTOR, MASK = f"<{LANES} x float>", f"<{LANES} x i1>"

BLOCK = 1 << 9
"""Numbers of a block: with six places it takes 12 KiB, which fits into the first cache beside some arrays."""

PART = 1 << 14
"""Numbers of a part, of which cores take one after the other."""

_JOB = Job(("arguments", "program", "y"), ("steps", "inputs", "n"))


def module(symbol: str, *, control: tuple[int, int]) -> str:
    """A module with ``symbol``, a handler of XLA's foreign function interface (version 0 of its C API).

    Its arguments are the program and f32 arrays of one axis, of as many numbers as the result or of one. ``control``:
    bits of MXCSR to clear and to set while it runs (how subnormal numbers are taken).
    """
    return "\n".join((_DECLARATIONS, handler(symbol), sharing(), _JOB.type, _PLACES, _step(), _part(control), _RUN))


_DECLARATIONS = f"""
declare {VECTOR} @llvm.fma.v{LANES}f32({VECTOR}, {VECTOR}, {VECTOR})
declare {VECTOR} @llvm.masked.load.v{LANES}f32.p0(ptr, i32, {MASK}, {VECTOR})
declare void @llvm.masked.store.v{LANES}f32.p0({VECTOR}, ptr, i32, {MASK})
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
"""

_PLACES = f"""
; where the numbers of an array begin, and 1; of one number, a block of it in memory, and 0
define internal void @open(ptr %arguments, i64 %i, ptr %memory, ptr %starts, ptr %moves) {{
entry:
  %number = add i64 %i, 1
  %data = call ptr @data(ptr %arguments, i64 %number)
  %size = call i64 @extent(ptr %arguments, i64 %number, i64 1)
  %startp = getelementptr ptr, ptr %starts, i64 %i
  %movep = getelementptr i64, ptr %moves, i64 %i
  %one = icmp eq i64 %size, 1
  br i1 %one, label %spread, label %many
many:
  store ptr %data, ptr %startp
  store i64 1, ptr %movep
  ret void
spread:
  %first = load float, ptr %data
{splat("%first", "same", LANES, "float")}
  %down = mul i64 %i, {BLOCK}
  %block = getelementptr float, ptr %memory, i64 %down
  store ptr %block, ptr %startp
  store i64 0, ptr %movep
  br label %fill
fill:
  %v = phi i64 [0, %spread], [%next, %fill]
  %at = getelementptr float, ptr %block, i64 %v
  store {VECTOR} %same, ptr %at, align 4
  %next = add i64 %v, {LANES}
  %more = icmp ult i64 %next, {BLOCK}
  br i1 %more, label %fill, label %done
done:
  ret void
}}

; the numbers of an operand that belong to those from %i on
define internal ptr @place(ptr %starts, ptr %moves, ptr %memory, i64 %inputs, i64 %operand, i64 %i) {{
entry:
  %given = icmp ult i64 %operand, %inputs
  br i1 %given, label %input, label %left
input:
  %startp = getelementptr ptr, ptr %starts, i64 %operand
  %start = load ptr, ptr %startp
  %movep = getelementptr i64, ptr %moves, i64 %operand
  %move = load i64, ptr %movep
  %offset = mul i64 %move, %i
  %inside = getelementptr float, ptr %start, i64 %offset
  ret ptr %inside
left:
  %down = mul i64 %operand, {BLOCK}
  %block = getelementptr float, ptr %memory, i64 %down
  ret ptr %block
}}
"""

def _step() -> str:
    """``@step``: a block of numbers, whole vectors first."""
    whole = "\n".join(f"""  %{x}p = getelementptr float, ptr %{x}, i64 %i
  %{x}v = load {VECTOR}, ptr %{x}p, align 4""" for x in "abc")
    rest = "\n".join(f"""  %{x}q = getelementptr float, ptr %{x}, i64 %whole
  %{x}w = call {VECTOR} @llvm.masked.load.v{LANES}f32.p0(ptr %{x}q, i32 4, {MASK} %mask0, {VECTOR} zeroinitializer)"""
                     for x in "abc")
    return f"""
define internal void @step(ptr %a, ptr %b, ptr %c, ptr %y, i64 %width) {{
entry:
  %edge = urem i64 %width, {LANES}
  %whole = sub i64 %width, %edge
  %some = icmp ne i64 %whole, 0
  br i1 %some, label %step, label %tail
step:
  %i = phi i64 [0, %entry], [%next, %step]
{whole}
  %sums = call {VECTOR} @llvm.fma.v{LANES}f32({VECTOR} %av, {VECTOR} %bv, {VECTOR} %cv)
  %yp = getelementptr float, ptr %y, i64 %i
  store {VECTOR} %sums, ptr %yp, align 4
  %next = add i64 %i, {LANES}
  %more = icmp ult i64 %next, %whole
  br i1 %more, label %step, label %tail
tail:
  %even = icmp eq i64 %edge, 0
  br i1 %even, label %done, label %rest
rest:
{chr(10).join(masks("%edge", LANES, 1))}
{rest}
  %last = call {VECTOR} @llvm.fma.v{LANES}f32({VECTOR} %aw, {VECTOR} %bw, {VECTOR} %cw)
  %yq = getelementptr float, ptr %y, i64 %whole
  call void @llvm.masked.store.v{LANES}f32.p0({VECTOR} %last, ptr %yq, i32 4, {MASK} %mask0)
  br label %done
done:
  ret void
}}
"""


def _operand(number: int, name: str) -> str:
    """``%<name>``: where the numbers of an operand of the step at ``%row`` are."""
    return (f"  %{name}.p = getelementptr i32, ptr %row, i64 {number}\n  %{name}.n = load i32, ptr %{name}.p\n"
            f"  %{name}.w = zext i32 %{name}.n to i64\n"
            f"  %{name} = call ptr @place(ptr %starts, ptr %moves, ptr %memory, i64 %inputs, i64 %{name}.w, i64 %i)")


def _part(control: tuple[int, int]) -> str:
    """``@part``: some of the numbers."""
    operands = "\n".join(_operand(number, name) for number, name in enumerate(("left", "a", "b", "c")))
    return f"""
define internal void @part(ptr %job, i64 %number) {{
entry:
{_JOB.read}
  %starts = alloca ptr, i64 %inputs
  %moves = alloca i64, i64 %inputs
  %blocks = add i64 %inputs, %steps
  %bytes = mul i64 %blocks, {4 * BLOCK}
  %memory = call ptr @malloc(i64 %bytes)
  %low = mul i64 %number, {PART}
  %upto = add i64 %low, {PART}
  %high = call i64 @llvm.umin.i64(i64 %upto, i64 %n)
  %end = sub i64 %steps, 1
  br label %open
open:
  %input = phi i64 [0, %entry], [%another, %open]
  call void @open(ptr %arguments, i64 %input, ptr %memory, ptr %starts, ptr %moves)
  %another = add i64 %input, 1
  %further = icmp ult i64 %another, %inputs
  br i1 %further, label %open, label %begin
begin:
{control_set(control)}
  br label %block
block:
  %i = phi i64 [%low, %begin], [%next, %after]
  %rest = sub i64 %high, %i
  %width = call i64 @llvm.umin.i64(i64 %rest, i64 {BLOCK})
  br label %step
step:
  %s = phi i64 [0, %block], [%s1, %step]
  %down = mul i64 %s, 4
  %row = getelementptr i32, ptr %program, i64 %down
{operands}
  %made = getelementptr float, ptr %y, i64 %i
  %last = icmp eq i64 %s, %end
  %into = select i1 %last, ptr %made, ptr %left
  call void @step(ptr %a, ptr %b, ptr %c, ptr %into, i64 %width)
  %s1 = add i64 %s, 1
  %more = icmp ult i64 %s1, %steps
  br i1 %more, label %step, label %after
after:
  %next = add i64 %i, {BLOCK}
  %again = icmp ult i64 %next, %high
  br i1 %again, label %block, label %done
done:
  call void @llvm.x86.sse.ldmxcsr(ptr %saved)
  call void @free(ptr %memory)
  ret void
}}
"""


_RUN = f"""
define internal void @run(ptr %frame, ptr %arguments, ptr %results) {{
  %program = call ptr @data(ptr %arguments, i64 0)
  %steps = call i64 @extent(ptr %arguments, i64 0, i64 2)
  %y = call ptr @data(ptr %results, i64 0)
  %n = call i64 @extent(ptr %results, i64 0, i64 1)
  %all = call i64 @arrays(ptr %frame)
  %inputs = sub i64 %all, 1
{_JOB.written}
  %over = add i64 %n, {PART - 1}
  %count = udiv i64 %over, {PART}
  call void @share(ptr %frame, i1 true, i64 %count, ptr @part, ptr %job)
  ret void
}}
"""
