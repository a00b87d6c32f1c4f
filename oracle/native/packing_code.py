"""The LLVM code that packs the second operand of products of bytes, as :mod:`.product_code` reads it."""

from __future__ import annotations

from collections.abc import Iterator

from archloom.oracle.native.handler import handler
from archloom.oracle.native.sharing_code import Job, sharing
from archloom.oracle.native.vectors import masked_load, masks
from archloom.oracle.native.ways import Way

GROUPS, SHARED = 64, 1 << 20
"""Groups that are packed at once, and from how many bytes on cores share them."""


def packing(way: Way, symbol: str, *, shared: int = SHARED) -> str:
    """A module with the handler ``symbol``: ``b [..., k, n]`` of bytes packed as ``[..., panels, groups, 4 columns]``
    bytes. Cores share ``shared`` bytes and more."""
    parts = [masked_load(way.lanes, "i8"), *_pack(way), _PACKING.type, _run_packing(way, shared), handler(symbol),
             sharing()]
    return "\n".join(parts)


def _pack(way: Way) -> Iterator[str]:
    """``@pack``: a matrix from row ``%low``, the first of a group, to before ``%high``. Rows of the last group beyond k
    are those before, as they are multiplied by 0."""
    columns, rows = way.columns, range(way.group)
    yield "define internal void @pack(ptr %b, ptr %to, i64 %k, i64 %n, i64 %panel, i64 %low, i64 %high) {\nentry:"
    yield f"  %edge = urem i64 %n, {columns}\n  %whole = sub i64 %n, %edge\n  %last = sub i64 %k, 1"
    yield from masks("%edge", way.lanes, way.vectors)
    yield "  br label %group\ngroup:\n  %k0 = phi i64 [%low, %entry], [%knext, %done]"
    for r in rows:
        yield f"  %k{r}.0 = add i64 %k0, {r}\n  %k{r}.1 = call i64 @llvm.umin.i64(i64 %k{r}.0, i64 %last)"
        yield f"  %k{r}.2 = mul i64 %k{r}.1, %n\n  %row{r} = getelementptr i8, ptr %b, i64 %k{r}.2"
    yield f"  %line = mul i64 %k0, {4 * columns // way.group}\n  %first = getelementptr i8, ptr %to, i64 %line"
    yield "  %some = icmp ugt i64 %whole, 0\n  br i1 %some, label %panels, label %rest"
    yield "panels:\n  %j = phi i64 [0, %group], [%jnext, %panels]\n  %at = phi ptr [%first, %group], [%atnext, %panels]"
    yield from _packed(way, "whole", "%j", "%at", masked=False)
    yield f"  %jnext = add i64 %j, {columns}\n  %atnext = getelementptr i8, ptr %at, i64 %panel"
    yield "  %more = icmp ult i64 %jnext, %whole\n  br i1 %more, label %panels, label %rest"
    yield "rest:\n  %atrest = phi ptr [%first, %group], [%atnext, %panels]"
    yield "  %none = icmp eq i64 %edge, 0\n  br i1 %none, label %done, label %narrow\nnarrow:"
    yield from _packed(way, "edge", "%whole", "%atrest", masked=True)
    yield f"  br label %done\ndone:\n  %knext = add i64 %k0, {way.group}"
    yield "  %another = icmp ult i64 %knext, %high\n  br i1 %another, label %group, label %end\nend:\n  ret void\n}"


def _packed(way: Way, name: str, column: str, to: str, *, masked: bool) -> Iterator[str]:
    """A group of a panel: neighbours in k side by side."""
    lanes, kind = way.lanes, f"<{way.lanes} x i8>"
    for v in range(way.vectors):
        yield f"  %{name}{v} = add i64 {column}, {v * lanes}"
        for r in range(way.group):
            cell = f"{name}{v}.{r}"
            yield f"  %p{cell} = getelementptr i8, ptr %row{r}, i64 %{name}{v}"
            yield f"  %x{cell}.1 = " + (
                f"call {kind} @llvm.masked.load.v{lanes}i8.p0(ptr %p{cell}, i32 1, <{lanes} x i1> %mask{v}, "
                f"{kind} zeroinitializer)" if masked else f"load {kind}, ptr %p{cell}, align 1")
        step = 1
        while step < way.group:
            for r in range(0, way.group, 2 * step):
                yield _zipped(f"%x{name}{v}.{r}", f"%x{name}{v}.{r + step}", step, lanes)
            step *= 2
        made, width = f"%x{name}{v}.0.{way.group}", way.group * lanes
        if way.adds:
            yield f"  %u{name}{v} = xor <{width} x i8> {made}, splat (i8 -128)"
        else:
            yield f"  %u{name}{v} = sext <{width} x i8> {made} to <{width} x i16>"
        yield f"  %q{name}{v} = getelementptr i8, ptr {to}, i64 {v * lanes * 4}"
        yield f"  store <{width} x {'i8' if way.adds else 'i16'}> %u{name}{v}, ptr %q{name}{v}, align 4"


def _zipped(a: str, b: str, step: int, lanes: int) -> str:
    """Pieces of ``step`` bytes of ``a`` and ``b`` in turns."""
    width = step * lanes
    order = [start + side * width + i for start in range(0, width, step) for side in (0, 1) for i in range(step)]
    indices = ", ".join(f"i32 {i}" for i in order)
    return (f"  {a}.{2 * step} = shufflevector <{width} x i8> {a}.{step}, <{width} x i8> {b}.{step}, "
            f"<{2 * width} x i32> <{indices}>")


_PACKING = Job(("b", "to"), ("k", "n", "panel", "matrix", "packed", "lines", "chunks"))
"""Of packing: ``lines`` of each ``matrix`` are a part, of which there are ``chunks``."""


def _run_packing(way: Way, shared: int) -> str:
    """``@run`` of packing, and its ``@part``."""
    return f"""
define internal void @part(ptr %job, i64 %number) {{
{_PACKING.read}
  %i = udiv i64 %number, %chunks
  %chunk = urem i64 %number, %chunks
  %low = mul i64 %chunk, %lines
  %upto = add i64 %low, %lines
  %high = call i64 @llvm.umin.i64(i64 %upto, i64 %k)
  %bo = mul i64 %i, %matrix
  %bp = getelementptr i8, ptr %b, i64 %bo
  %too = mul i64 %i, %packed
  %top = getelementptr i8, ptr %to, i64 %too
  call void @pack(ptr %bp, ptr %top, i64 %k, i64 %n, i64 %panel, i64 %low, i64 %high)
  ret void
}}

define internal void @run(ptr %frame, ptr %arguments, ptr %results) {{
entry:
  %b = call ptr @data(ptr %arguments, i64 0)
  %to = call ptr @data(ptr %results, i64 0)
  %batches = call i64 @extents(ptr %arguments, i64 0, i64 2)
  %k = call i64 @extent(ptr %arguments, i64 0, i64 2)
  %n = call i64 @extent(ptr %arguments, i64 0, i64 1)
  %panels = call i64 @extent(ptr %results, i64 0, i64 3)
  %groups = call i64 @extent(ptr %results, i64 0, i64 2)
  %line = call i64 @extent(ptr %results, i64 0, i64 1)
  %panel = mul i64 %groups, %line
  %packed = mul i64 %panels, %panel
  %matrix = mul i64 %k, %n
  %lines = mul i64 {way.group}, {GROUPS}
  %over = add i64 %k, %lines
  %less = sub i64 %over, 1
  %chunks = udiv i64 %less, %lines
{_PACKING.written}
  %all = mul i64 %batches, %matrix
  %much = icmp uge i64 %all, {shared}
  %count = mul i64 %batches, %chunks
  call void @share(ptr %frame, i1 %much, i64 %count, ptr @part, ptr %job)
  ret void
}}
"""
