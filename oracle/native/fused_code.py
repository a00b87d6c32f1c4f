"""The LLVM code of fused multiply-adds of arrays: ``y[i] = a[i] * b[i] + c[i]``, rounded once."""

from __future__ import annotations

from archloom.oracle.native.handler import handler
from archloom.oracle.native.sharing_code import Job, sharing
from archloom.oracle.native.vectors import splat

LANES = 16
VECTOR, MASK = f"<{LANES} x float>", f"<{LANES} x i1>"

PART = 1 << 14
"""Numbers of a part; of several parts cores take one after the other."""

_JOB = Job(("a", "b", "c", "y"), ("asize", "bsize", "csize", "n"))


def module(symbol: str, *, control: tuple[int, int]) -> str:
    """A module with ``symbol``, a handler of XLA's foreign function interface (version 0 of its C API).

    Its arguments are three f32 arrays of one axis, of as many numbers as the result or of one. ``control``: bits of
    MXCSR to clear and to set while it runs (how subnormal numbers are taken).
    """
    return "\n".join((_DECLARATIONS, _JOB.type, _part(control), _RUN, handler(symbol), sharing()))


def _opened(name: str) -> str:
    """Whether there is one number alone, and a vector of the first."""
    return (f"  %{name}one = icmp eq i64 %{name}size, 1\n  %{name}first = load float, ptr %{name}\n"
            f"{splat(f'%{name}first', f'{name}same', LANES, 'float')}\n"
            f"  %{name}many = xor i1 %{name}one, true\n{splat(f'%{name}many', f'{name}read', LANES, 'i1')}")


def _load(name: str) -> str:
    """``%<name>v``: the vector from ``%i`` on. Of one number nothing is read, and that at its place: processors take
    hundreds of cycles to read nothing where there is no memory."""
    return (f"  %{name}mask = and {MASK} %mask, %{name}read\n  %{name}at = select i1 %{name}one, i64 0, i64 %i\n"
            f"  %{name}p = getelementptr float, ptr %{name}, i64 %{name}at\n"
            f"  %{name}v = call {VECTOR} @llvm.masked.load.v{LANES}f32.p0(ptr %{name}p, i32 4, {MASK} %{name}mask, "
            f"{VECTOR} %{name}same)")


_DECLARATIONS = f"""
declare {VECTOR} @llvm.fma.v{LANES}f32({VECTOR}, {VECTOR}, {VECTOR})
declare {VECTOR} @llvm.masked.load.v{LANES}f32.p0(ptr, i32, {MASK}, {VECTOR})
declare void @llvm.masked.store.v{LANES}f32.p0({VECTOR}, ptr, i32, {MASK})
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
"""


def _part(control: tuple[int, int]) -> str:
    """``@part``: some of the numbers."""
    loads, opened = ("\n".join(map(each, "abc")) for each in (_load, _opened))
    numbers = ", ".join(f"i64 {lane}" for lane in range(LANES))
    return f"""
define internal void @part(ptr %job, i64 %number) {{
entry:
{_JOB.read}
  %saved = alloca i32
  %used = alloca i32
{opened}
  %low = mul i64 %number, {PART}
  %upto = add i64 %low, {PART}
  %high = call i64 @llvm.umin.i64(i64 %upto, i64 %n)
{splat("%high", "end", LANES, "i64")}
  call void @llvm.x86.sse.stmxcsr(ptr %saved)
  %control = load i32, ptr %saved
  %cleared = and i32 %control, {~control[0]}
  %during = or i32 %cleared, {control[1]}
  store i32 %during, ptr %used
  call void @llvm.x86.sse.ldmxcsr(ptr %used)
  br label %step
step:
  %i = phi i64 [%low, %entry], [%next, %step]
{splat("%i", "from", LANES, "i64")}
  %place = add <{LANES} x i64> %from, <{numbers}>
  %mask = icmp ult <{LANES} x i64> %place, %end
{loads}
  %sums = call {VECTOR} @llvm.fma.v{LANES}f32({VECTOR} %av, {VECTOR} %bv, {VECTOR} %cv)
  %yp = getelementptr float, ptr %y, i64 %i
  call void @llvm.masked.store.v{LANES}f32.p0({VECTOR} %sums, ptr %yp, i32 4, {MASK} %mask)
  %next = add i64 %i, {LANES}
  %more = icmp ult i64 %next, %high
  br i1 %more, label %step, label %done
done:
  call void @llvm.x86.sse.ldmxcsr(ptr %saved)
  ret void
}}
"""

_OPERANDS = "\n".join(f"""  %{name} = call ptr @data(ptr %arguments, i64 {number})
  %{name}size = call i64 @extent(ptr %arguments, i64 {number}, i64 1)""" for number, name in enumerate("abc"))

_RUN = f"""
define internal void @run(ptr %frame, ptr %arguments, ptr %results) {{
{_OPERANDS}
  %y = call ptr @data(ptr %results, i64 0)
  %n = call i64 @extent(ptr %results, i64 0, i64 1)
{_JOB.written}
  %over = add i64 %n, {PART - 1}
  %count = udiv i64 %over, {PART}
  call void @share(ptr %frame, i64 %count, ptr @part, ptr %job)
  ret void
}}
"""
