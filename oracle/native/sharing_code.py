"""The LLVM code by which a handler shares its work with the threads of XLA's pool.

Work is ``count`` parts, numbered from 0. Whoever is free takes the next number from a counter that all see: the thread
that calls, and as many tasks as the pool has other threads. A task that begins after the last part was taken, since its
thread was busy, finds none left and ends; so the caller waits for parts that are under way, and never for the pool,
whose only free thread may be the one that waits. The counters live until the last task has ended.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from archloom.oracle.late_jax import jax

HEADER = 48
"""Bytes of XLA's table of functions before the first of them."""

FUNCTIONS = "XLA_FFI_Error_Destroy", "XLA_FFI_ThreadPool_Schedule", "XLA_FFI_ThreadPool_NumThreads"


@cache
def places() -> tuple[int, ...]:
    """Where the :data:`FUNCTIONS` are among those of the installed XLA, as its header says; none where it has not all
    of them, and then nothing is shared."""
    header = Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    try:
        text = header.read_text(encoding="utf-8")
    except OSError:
        return ()
    table = re.search(r"struct XLA_FFI_Api \{(.*?)\n\};", text, re.DOTALL)
    names = re.findall(r"_XLA_FFI_API_STRUCT_FIELD\((\w+)\)", table[1]) if table else []
    return tuple(map(names.index, FUNCTIONS)) if set(FUNCTIONS) <= set(names) else ()


def sharing() -> str:
    """``@share(frame, much, count, part, job)``, which calls ``part(job, number)`` for each number below ``count``, on
    several threads if it is ``much``.

    Of the handler's ``frame`` it has the pool. ``job`` may lie on the caller's stack: nothing reads it once all parts
    are done. Declares ``@malloc``, ``@free`` and a minimum, too, for the code around it.
    """
    found = places()
    code = _ALONE if not found else _SHARED.format(
        **{name: HEADER + 8 * place for name, place in zip(("destroy", "schedule", "threads"), found, strict=True)})
    return _EACH + code


@dataclass(frozen=True)
class Job:
    """What the parts of a call have in common, as a structure at ``%job``: pointers, and numbers of 64 bits."""

    pointers: tuple[str, ...]
    numbers: tuple[str, ...]

    @property
    def type(self) -> str:
        """Its declaration."""
        return f"%Job = type {{ {', '.join(kind for _, kind in self._fields)} }}"

    @property
    def read(self) -> str:
        """Each field of the structure as a value of its name."""
        return self._each("  %{name} = load {kind}, ptr %{name}.p")

    @property
    def written(self) -> str:
        """A structure with the values of these names."""
        return "  %job = alloca %Job\n" + self._each("  store {kind} %{name}, ptr %{name}.p")

    @property
    def _fields(self) -> list[tuple[str, str]]:
        return [*((name, "ptr") for name in self.pointers), *((name, "i64") for name in self.numbers)]

    def _each(self, line: str) -> str:
        field = "  %{name}.p = getelementptr %Job, ptr %job, i32 0, i32 {number}\n" + line
        return "\n".join(field.format(number=i, name=name, kind=kind) for i, (name, kind) in enumerate(self._fields))


_EACH = """
declare ptr @malloc(i64)
declare void @free(ptr)
declare i64 @llvm.umin.i64(i64, i64)

define internal void @each(i64 %count, ptr %part, ptr %job) {
entry:
  %some = icmp ne i64 %count, 0
  br i1 %some, label %step, label %done
step:
  %i = phi i64 [0, %entry], [%next, %step]
  call void %part(ptr %job, i64 %i)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %step, label %done
done:
  ret void
}
"""

_ALONE = """
define internal void @share(ptr %frame, i1 %much, i64 %count, ptr %part, ptr %job) {
  call void @each(i64 %count, ptr %part, ptr %job)
  ret void
}
"""

_SHARED = """
; the next part, those that are done, those who may still look at this; count, part and job of the call
%Work = type {{ i64, i64, i64, i64, ptr, ptr }}
%Asked = type {{ i64, ptr, ptr, ptr, ptr }}
%Counted = type {{ i64, ptr, ptr, ptr }}
%Fault = type {{ i64, ptr, ptr }}

declare i32 @sched_yield()
declare void @llvm.x86.sse2.pause()

; parts, as long as there are any
define internal void @take(ptr %work) {{
entry:
  %donep = getelementptr %Work, ptr %work, i32 0, i32 1
  %countp = getelementptr %Work, ptr %work, i32 0, i32 3
  %partp = getelementptr %Work, ptr %work, i32 0, i32 4
  %jobp = getelementptr %Work, ptr %work, i32 0, i32 5
  %count = load i64, ptr %countp
  %part = load ptr, ptr %partp
  %job = load ptr, ptr %jobp
  br label %next
next:
  %i = atomicrmw add ptr %work, i64 1 seq_cst
  %some = icmp ult i64 %i, %count
  br i1 %some, label %do, label %end
do:
  call void %part(ptr %job, i64 %i)
  %finished = atomicrmw add ptr %donep, i64 1 seq_cst
  br label %next
end:
  ret void
}}

define internal void @leave(ptr %work) {{
entry:
  %usersp = getelementptr %Work, ptr %work, i32 0, i32 2
  %before = atomicrmw sub ptr %usersp, i64 1 seq_cst
  %last = icmp eq i64 %before, 1
  br i1 %last, label %drop, label %end
drop:
  call void @free(ptr %work)
  br label %end
end:
  ret void
}}

define internal void @task(ptr %work) {{
  call void @take(ptr %work)
  call void @leave(ptr %work)
  ret void
}}

; whether there was no error, which is dropped
define internal i1 @fine(ptr %api, ptr %error) {{
entry:
  %none = icmp eq ptr %error, null
  br i1 %none, label %end, label %drop
drop:
  %fault = alloca %Fault
  store %Fault zeroinitializer, ptr %fault
  store i64 24, ptr %fault
  %errorp = getelementptr %Fault, ptr %fault, i32 0, i32 2
  store ptr %error, ptr %errorp
  %where = getelementptr i8, ptr %api, i64 {destroy}
  %destroy = load ptr, ptr %where
  call void %destroy(ptr %fault)
  br label %end
end:
  ret i1 %none
}}

; threads of the pool, 1 where there is none
define internal i64 @threads(ptr %api, ptr %ctx) {{
  %number = alloca i64
  store i64 1, ptr %number
  %asked = alloca %Counted
  store %Counted zeroinitializer, ptr %asked
  store i64 32, ptr %asked
  %ctxp = getelementptr %Counted, ptr %asked, i32 0, i32 2
  store ptr %ctx, ptr %ctxp
  %numberp = getelementptr %Counted, ptr %asked, i32 0, i32 3
  store ptr %number, ptr %numberp
  %where = getelementptr i8, ptr %api, i64 {threads}
  %threads = load ptr, ptr %where
  %error = call ptr %threads(ptr %asked)
  %fine = call i1 @fine(ptr %api, ptr %error)
  %found = load i64, ptr %number
  %known = select i1 %fine, i64 %found, i64 1
  ret i64 %known
}}

define internal i1 @schedule(ptr %api, ptr %ctx, ptr %work) {{
  %asked = alloca %Asked
  store %Asked zeroinitializer, ptr %asked
  store i64 40, ptr %asked
  %ctxp = getelementptr %Asked, ptr %asked, i32 0, i32 2
  store ptr %ctx, ptr %ctxp
  %taskp = getelementptr %Asked, ptr %asked, i32 0, i32 3
  store ptr @task, ptr %taskp
  %datap = getelementptr %Asked, ptr %asked, i32 0, i32 4
  store ptr %work, ptr %datap
  %where = getelementptr i8, ptr %api, i64 {schedule}
  %schedule = load ptr, ptr %where
  %error = call ptr %schedule(ptr %asked)
  %fine = call i1 @fine(ptr %api, ptr %error)
  ret i1 %fine
}}

define internal void @share(ptr %frame, i1 %much, i64 %count, ptr %part, ptr %job) {{
entry:
  %two = icmp ugt i64 %count, 1
  %several = and i1 %two, %much
  br i1 %several, label %ask, label %alone
ask:
  %apip = getelementptr %Frame, ptr %frame, i32 0, i32 2
  %api = load ptr, ptr %apip
  %ctxp = getelementptr %Frame, ptr %frame, i32 0, i32 3
  %ctx = load ptr, ptr %ctxp
  %threads = call i64 @threads(ptr %api, ptr %ctx)
  %most = call i64 @llvm.umin.i64(i64 %threads, i64 %count)
  %pool = icmp ugt i64 %most, 1
  br i1 %pool, label %begin, label %alone
alone:
  call void @each(i64 %count, ptr %part, ptr %job)
  ret void
begin:
  %work = call ptr @malloc(i64 48)
  store i64 0, ptr %work
  %donep = getelementptr %Work, ptr %work, i32 0, i32 1
  store i64 0, ptr %donep
  %usersp = getelementptr %Work, ptr %work, i32 0, i32 2
  store i64 %most, ptr %usersp
  %countp = getelementptr %Work, ptr %work, i32 0, i32 3
  store i64 %count, ptr %countp
  %partp = getelementptr %Work, ptr %work, i32 0, i32 4
  store ptr %part, ptr %partp
  %jobp = getelementptr %Work, ptr %work, i32 0, i32 5
  store ptr %job, ptr %jobp
  br label %another
another:
  %t = phi i64 [1, %begin], [%t1, %counted]
  %taken = call i1 @schedule(ptr %api, ptr %ctx, ptr %work)
  br i1 %taken, label %counted, label %refused
refused:
  %fewer = atomicrmw sub ptr %usersp, i64 1 seq_cst
  br label %counted
counted:
  %t1 = add i64 %t, 1
  %more = icmp ult i64 %t1, %most
  br i1 %more, label %another, label %own
own:
  call void @take(ptr %work)
  br label %look
look:
  %looks = phi i64 [0, %own], [%looks1, %again]
  %done = load atomic i64, ptr %donep seq_cst, align 8
  %all = icmp uge i64 %done, %count
  br i1 %all, label %end, label %wait
wait:
  %looks1 = add i64 %looks, 1
  %long = icmp ugt i64 %looks1, 4096
  call void @llvm.x86.sse2.pause()
  br i1 %long, label %yield, label %again
yield:
  %yielded = call i32 @sched_yield()
  br label %again
again:
  br label %look
end:
  call void @leave(ptr %work)
  ret void
}}
"""
