"""The LLVM code by which XLA calls other code: a handler of its foreign function interface (version 0 of its C API)."""

from __future__ import annotations


def handler(symbol: str) -> str:
    """``@symbol``, which calls ``@run(frame, arguments, results)``, and what that may ask of the arrays in either list.

    ``@data(list, i)`` is where array i lies, ``@extent(list, i, back)`` its extent along an axis, the last one being 1,
    and ``@extents(list, i, back)`` the product of those before that axis; ``@rank(list, i)`` counts axes, and
    ``@arrays(frame)`` arguments.
    """
    return _HANDLER.format(symbol=symbol)


_HANDLER = """
; of XLA's C API: a call with an extension asks for the version that the handler is written for
%Version = type {{ i64, ptr, i32, i32 }}
%Metadata = type {{ i64, %Version, i32, i64 }}
%Extension = type {{ i64, i32, ptr, ptr }}
%List = type {{ i64, ptr, i64, ptr, ptr }}
%Frame = type {{ i64, ptr, ptr, ptr, i32, %List, %List }}
%Buffer = type {{ i64, ptr, i32, ptr, i64, ptr }}

define internal ptr @data(ptr %list, i64 %i) {{
  %where = getelementptr ptr, ptr %list, i64 %i
  %buffer = load ptr, ptr %where
  %pointer = getelementptr %Buffer, ptr %buffer, i32 0, i32 3
  %data = load ptr, ptr %pointer
  ret ptr %data
}}

define internal i64 @rank(ptr %list, i64 %i) {{
  %where = getelementptr ptr, ptr %list, i64 %i
  %buffer = load ptr, ptr %where
  %pointer = getelementptr %Buffer, ptr %buffer, i32 0, i32 4
  %rank = load i64, ptr %pointer
  ret i64 %rank
}}

define internal i64 @arrays(ptr %frame) {{
  %count = getelementptr %Frame, ptr %frame, i32 0, i32 5, i32 2
  %arrays = load i64, ptr %count
  ret i64 %arrays
}}

define internal ptr @axis(ptr %list, i64 %i, i64 %back) {{
  %where = getelementptr ptr, ptr %list, i64 %i
  %buffer = load ptr, ptr %where
  %pointer = getelementptr %Buffer, ptr %buffer, i32 0, i32 5
  %dims = load ptr, ptr %pointer
  %rank = call i64 @rank(ptr %list, i64 %i)
  %number = sub i64 %rank, %back
  %axis = getelementptr i64, ptr %dims, i64 %number
  ret ptr %axis
}}

define internal i64 @extent(ptr %list, i64 %i, i64 %back) {{
  %axis = call ptr @axis(ptr %list, i64 %i, i64 %back)
  %extent = load i64, ptr %axis
  ret i64 %extent
}}

define internal i64 @extents(ptr %list, i64 %i, i64 %back) {{
entry:
  %end = call ptr @axis(ptr %list, i64 %i, i64 %back)
  %rank = call i64 @rank(ptr %list, i64 %i)
  %first = call ptr @axis(ptr %list, i64 %i, i64 %rank)
  br label %check
check:
  %axis = phi ptr [%first, %entry], [%next, %multiply]
  %product = phi i64 [1, %entry], [%more, %multiply]
  %done = icmp uge ptr %axis, %end
  br i1 %done, label %return, label %multiply
multiply:
  %extent = load i64, ptr %axis
  %more = mul i64 %product, %extent
  %next = getelementptr i64, ptr %axis, i64 1
  br label %check
return:
  ret i64 %product
}}

define ptr @{symbol}(ptr %frame) {{
  %extensions = getelementptr %Frame, ptr %frame, i32 0, i32 1
  %extension = load ptr, ptr %extensions
  %called = icmp eq ptr %extension, null
  br i1 %called, label %run, label %describe
describe:
  %where = getelementptr %Extension, ptr %extension, i32 0, i32 3
  %metadata = load ptr, ptr %where
  %major = getelementptr %Metadata, ptr %metadata, i32 0, i32 1, i32 2
  %minor = getelementptr %Metadata, ptr %metadata, i32 0, i32 1, i32 3
  %traits = getelementptr %Metadata, ptr %metadata, i32 0, i32 2
  store i32 0, ptr %major
  store i32 1, ptr %minor
  store i32 0, ptr %traits
  ret ptr null
run:
  %given = getelementptr %Frame, ptr %frame, i32 0, i32 5, i32 4
  %arguments = load ptr, ptr %given
  %made = getelementptr %Frame, ptr %frame, i32 0, i32 6, i32 4
  %results = load ptr, ptr %made
  call void @run(ptr %frame, ptr %arguments, ptr %results)
  ret ptr null
}}
"""
