"""The LLVM code of chains of products: ``c[i, j] = c[i, j] + a[i, k] * b[k, j]`` for one k after the other.

Where operands have parts, each part is a chain from a zero on, and the chains are added to ``c`` one after the other.

A block of :data:`ROWS` rows and :data:`VECTORS` vectors of columns stays in registers from the first k to the last, so
that each element's sum is made in the order of k, whatever the order of the blocks. In strict LLVM code a product and
a sum are two roundings, and ``llvm.fma`` is one; XLA's code generator for the CPU fuses the former as it likes, and has
no word for the latter.
"""

from __future__ import annotations

from collections.abc import Iterator

from archloom.oracle.native.handler import handler
from archloom.oracle.native.sharing_code import Job, sharing
from archloom.oracle.native.vectors import cells, control_set, masks, splat

ROWS, VECTORS, LANES = 6, 2, 16
"""A block: 12 vectors of sums, as many of a part's, 2 of ``b`` and one factor fit into the 32 registers of AVX-512."""

WIDTH = VECTORS * LANES
"""Columns of a block; of the last one in a row those beyond the matrix are masked."""

VECTOR, MASK = f"<{LANES} x float>", f"<{LANES} x i1>"

SHARED = 1 << 20
"""From how many products on cores share them: some thirty microseconds on one, and waking another takes ten. A free
choice, by products of 128 rows of which none is judged."""

SHARE = 8 * ROWS
"""The fewest rows of a part: for fewer, copying a panel of ``b`` takes as long as its products."""

PARTS = 32
"""Parts that are enough for all cores to end at nearly the same time; where there are fewer panels, rows are shared,
too."""

PACKED = 4 * ROWS
"""From how many rows on a panel of ``b`` is copied into one piece first: each of its lines then lies beside the next,
and not a row of ``b`` away from it, which costs more than the copy when it is read that often."""


def module(
    symbol: str, *, fused: bool, control: tuple[int, int], zero: float = -0.0, shared: int = SHARED
) -> str:
    """A module with ``symbol``, a handler of XLA's foreign function interface (version 0 of its C API).

    Its arguments are f32 arrays ``a [..., m, k]``, ``b [..., k, n]`` and the sums to begin with, in row-major order
    with equal leading axes. The sums are one number, or ``[..., m, n]`` where the result lies. ``a`` and ``b`` may have
    an axis of parts before the last two; the chain of each begins with ``zero``. ``fused`` rounds once for each product
    that is added. ``control``: bits of MXCSR to clear and to set while it runs (how subnormal numbers are taken).
    Cores share ``shared`` products and more.
    """
    blocks = (line for rows in (ROWS, 2, 1) for line in _block(rows, fused, zero))
    parts = [*_declarations(), *blocks, *_pack(), _PANEL, _JOB.type,
             _part(control), _run(shared), handler(symbol), sharing()]
    return "\n".join(parts)


def _declarations() -> Iterator[str]:
    yield f"declare {VECTOR} @llvm.fma.v{LANES}f32({VECTOR}, {VECTOR}, {VECTOR})"
    yield f"declare {VECTOR} @llvm.masked.load.v{LANES}f32.p0(ptr, i32, {MASK}, {VECTOR})"
    yield f"declare void @llvm.masked.store.v{LANES}f32.p0({VECTOR}, ptr, i32, {MASK})"
    yield "declare void @llvm.x86.sse.stmxcsr(ptr)"
    yield "declare void @llvm.x86.sse.ldmxcsr(ptr)"
    yield "declare i64 @llvm.umax.i64(i64, i64)"


def _block(rows: int, fused: bool, zero: float) -> Iterator[str]:
    """``@block<rows>``: that many rows of a panel of columns, of which ``%width`` count; k is at least 1.

    The lines of the panel of ``b`` lie ``%line`` elements apart, the parts ``%anext`` and ``%bnext``. ``%parts`` is 0
    where there are none.
    """
    def each(text: str) -> Iterator[str]:
        return cells(rows, VECTORS, text)

    yield f"define internal void @block{rows}({_POINTERS}, i64 %k, i64 %n, i64 %width, i64 %line, {_PARTS}) {{\nentry:"
    yield from masks("%width", LANES, VECTORS)
    yield "  %chain = icmp eq i64 %parts, 0"
    yield f"  %one = load float, ptr %start\n{splat('%one', 'uniform', LANES, 'float')}"
    for r in range(rows):
        yield f"  %row{r} = mul i64 %n, {r}\n  %arow{r} = mul i64 %k, {r}"
        yield f"  %a{r} = getelementptr float, ptr %a, i64 %arow{r}"
    for r in range(rows):
        for v in range(VECTORS):
            yield f"  %at{r}.{v} = add i64 %row{r}, {v * LANES}"
            yield f"  %c{r}.{v} = getelementptr float, ptr %c, i64 %at{r}.{v}"
    yield "  %whole = icmp eq ptr %start, %sums\n  br i1 %whole, label %before, label %steps\nbefore:"
    yield from each(f"  %given[r].[v] = {_load('%c[r].[v]', '[v]')}")
    yield "  br label %steps\nsteps:"
    yield from each(f"  %start[r].[v] = phi {VECTOR} [%uniform, %entry], [%given[r].[v], %before]")
    yield "  br label %part\npart:\n  %p = phi i64 [0, %steps], [%p1, %add]"
    yield from each(f"  %total[r].[v] = phi {VECTOR} [%start[r].[v], %steps], [%added[r].[v], %add]")
    yield from each(f"  %from[r].[v] = select i1 %chain, {VECTOR} %total[r].[v], "
                    f"{VECTOR} splat (float {zero})")
    yield "  %aoff = mul i64 %p, %anext\n  %boff = mul i64 %p, %bnext"
    yield "  br label %step\nstep:\n  %i = phi i64 [0, %part], [%next, %step]"
    yield from each(f"  %sum[r].[v] = phi {VECTOR} [%from[r].[v], %part], [%new[r].[v], %step]")
    yield "  %down = mul i64 %i, %line\n  %first = add i64 %down, %boff\n  %along = add i64 %i, %aoff"
    for v in range(VECTORS):
        yield f"  %column{v} = add i64 %first, {v * LANES}\n  %bp{v} = getelementptr float, ptr %b, i64 %column{v}"
        yield f"  %b{v} = {_load(f'%bp{v}', v)}"
    for r in range(rows):
        yield f"  %ap{r} = getelementptr float, ptr %a{r}, i64 %along\n  %as{r} = load float, ptr %ap{r}"
        yield splat(f"%as{r}", f"factor{r}", LANES, "float")
    yield from each(_added("[r].[v]", "%factor[r]", "%b[v]", fused))
    yield "  %next = add i64 %i, 1\n  %more = icmp ult i64 %next, %k\n  br i1 %more, label %step, label %add\nadd:"
    yield from each(f"  %both[r].[v] = fadd {VECTOR} %total[r].[v], %new[r].[v]\n"
                    f"  %added[r].[v] = select i1 %chain, {VECTOR} %new[r].[v], {VECTOR} %both[r].[v]")
    yield "  %p1 = add i64 %p, 1\n  %another = icmp ult i64 %p1, %parts"
    yield "  br i1 %another, label %part, label %done\ndone:"
    yield from each(f"  call void @llvm.masked.store.v{LANES}f32.p0({VECTOR} %added[r].[v], ptr %c[r].[v], i32 4, "
                    f"{MASK} %mask[v])")
    yield "  ret void\n}"


_POINTERS = "ptr %a, ptr %b, ptr %c, ptr %start, ptr %sums"
"""The operands and the result of a block, and the sums to begin with, which lie at ``%sums`` if they are not one
number."""

_PARTS = "i64 %parts, i64 %anext, i64 %bnext"


def _pack() -> Iterator[str]:
    """``@pack``: k lines of a panel of ``b``, one beside the other; columns beyond the matrix are 0."""
    yield "define internal void @pack(ptr %b, ptr %to, i64 %k, i64 %n, i64 %width) {\nentry:"
    yield from masks("%width", LANES, VECTORS)
    yield "  br label %step\nstep:\n  %i = phi i64 [0, %entry], [%next, %step]"
    yield f"  %from = mul i64 %i, %n\n  %into = mul i64 %i, {WIDTH}"
    for v in range(VECTORS):
        yield f"  %at{v} = add i64 %from, {v * LANES}\n  %bp{v} = getelementptr float, ptr %b, i64 %at{v}"
        yield f"  %lines{v} = add i64 %into, {v * LANES}\n  %tp{v} = getelementptr float, ptr %to, i64 %lines{v}"
        yield f"  %b{v} = {_load(f'%bp{v}', v)}\n  store {VECTOR} %b{v}, ptr %tp{v}, align 4"
    yield "  %next = add i64 %i, 1\n  %more = icmp ult i64 %next, %k\n  br i1 %more, label %step, label %done"
    yield "done:\n  ret void\n}"


def _load(pointer: str, vector: int | str) -> str:
    return (f"call {VECTOR} @llvm.masked.load.v{LANES}f32.p0(ptr {pointer}, i32 4, {MASK} %mask{vector}, "
            f"{VECTOR} zeroinitializer)")


def _added(cell: str, a: str, b: str, fused: bool) -> str:
    if fused:
        return f"  %new{cell} = call {VECTOR} @llvm.fma.v{LANES}f32({VECTOR} {a}, {VECTOR} {b}, {VECTOR} %sum{cell})"
    return (f"  %product{cell} = fmul {VECTOR} {a}, {b}\n"
            f"  %new{cell} = fadd {VECTOR} %sum{cell}, %product{cell}")


_ROW = ("ptr %ap, ptr %bp, ptr %crow, ptr %start, ptr %sums, i64 %k, i64 %n, i64 %width, i64 %line, "
        "i64 %parts, i64 %anext, i64 %bstep")

_PANEL = f"""
; rows by a panel of columns, a block of rows after the other
define internal void @panel({_POINTERS}, i64 %m, i64 %k, i64 %n, i64 %width, {_PARTS}) {{
entry:
  %packs = icmp uge i64 %m, {PACKED}
  br i1 %packs, label %copy, label %rows
copy:
  %every = call i64 @llvm.umax.i64(i64 %parts, i64 1)
  %lines = mul i64 %k, %every
  %bytes = mul i64 %lines, {WIDTH * 4}
  %memory = call ptr @malloc(i64 %bytes)
  call void @pack(ptr %b, ptr %memory, i64 %lines, i64 %n, i64 %width)
  br label %rows
rows:
  %piece = phi ptr [null, %entry], [%memory, %copy]
  %direct = icmp eq ptr %piece, null
  %bp = select i1 %direct, ptr %b, ptr %piece
  %line = select i1 %direct, i64 %n, i64 {WIDTH}
  %packed = mul i64 %k, {WIDTH}
  %bstep = select i1 %direct, i64 %bnext, i64 %packed
  br label %row
row:
  %r = phi i64 [0, %rows], [%r{ROWS}, %block], [%r2, %pair], [%r1, %single]
  %left = sub i64 %m, %r
  %end = icmp eq i64 %left, 0
  br i1 %end, label %done, label %choose
choose:
  %ao = mul i64 %r, %k
  %ap = getelementptr float, ptr %a, i64 %ao
  %co = mul i64 %r, %n
  %crow = getelementptr float, ptr %c, i64 %co
  %whole = icmp uge i64 %left, {ROWS}
  br i1 %whole, label %block, label %few
block:
  call void @block{ROWS}({_ROW})
  %r{ROWS} = add i64 %r, {ROWS}
  br label %row
few:
  %two = icmp uge i64 %left, 2
  br i1 %two, label %pair, label %single
pair:
  call void @block2({_ROW})
  %r2 = add i64 %r, 2
  br label %row
single:
  call void @block1({_ROW})
  %r1 = add i64 %r, 1
  br label %row
done:
  call void @free(ptr %piece)
  ret void
}}
"""

_JOB = Job(("a", "b", "c", "start"), ("m", "k", "n", "parts", "panels", "chunks", "rows"))
"""What the parts of a call have in common: each of the ``panels`` is shared by ``chunks`` of so many ``rows``."""


def _part(control: tuple[int, int]) -> str:
    """``@part``: a chunk of rows by a panel of columns of one product of matrices."""
    return f"""
define internal void @part(ptr %job, i64 %number) noinline {{
entry:
{_JOB.read}
  %each = mul i64 %panels, %chunks
  %i = udiv i64 %number, %each
  %inside = urem i64 %number, %each
  %panel = udiv i64 %inside, %chunks
  %chunk = urem i64 %inside, %chunks
  %low = mul i64 %chunk, %rows
  %below = sub i64 %m, %low
  %height = call i64 @llvm.umin.i64(i64 %below, i64 %rows)
  %j = mul i64 %panel, {WIDTH}
  %beside = sub i64 %n, %j
  %width = call i64 @llvm.umin.i64(i64 %beside, i64 {WIDTH})
  %every = call i64 @llvm.umax.i64(i64 %parts, i64 1)
  %anext = mul i64 %m, %k
  %bnext = mul i64 %k, %n
  %as = mul i64 %anext, %every
  %bs = mul i64 %bnext, %every
  %cs = mul i64 %m, %n
  %a0 = mul i64 %i, %as
  %a1 = mul i64 %low, %k
  %ao = add i64 %a0, %a1
  %b0 = mul i64 %i, %bs
  %bo = add i64 %b0, %j
  %c0 = mul i64 %i, %cs
  %c1 = mul i64 %low, %n
  %c2 = add i64 %c0, %c1
  %co = add i64 %c2, %j
  %ap = getelementptr float, ptr %a, i64 %ao
  %bp = getelementptr float, ptr %b, i64 %bo
  %cp = getelementptr float, ptr %c, i64 %co
{control_set(control)}
  call void @panel(ptr %ap, ptr %bp, ptr %cp, ptr %start, ptr %c, i64 %height, i64 %k, i64 %n, i64 %width, {_PARTS})
  call void @llvm.x86.sse.ldmxcsr(ptr %saved)
  ret void
}}
"""


def _run(shared: int) -> str:
    """``@run``: the parts of a call."""
    return f"""
define internal void @run(ptr %frame, ptr %arguments, ptr %results) {{
entry:
  %a = call ptr @data(ptr %arguments, i64 0)
  %b = call ptr @data(ptr %arguments, i64 1)
  %start = call ptr @data(ptr %arguments, i64 2)
  %c = call ptr @data(ptr %results, i64 0)
  %rank = call i64 @rank(ptr %arguments, i64 0)
  %crank = call i64 @rank(ptr %results, i64 0)
  %split = icmp ugt i64 %rank, %crank
  %batches = call i64 @extents(ptr %results, i64 0, i64 2)
  %lead = select i1 %split, i64 3, i64 2
  %third = call i64 @extent(ptr %arguments, i64 0, i64 %lead)
  %parts = select i1 %split, i64 %third, i64 0
  %m = call i64 @extent(ptr %arguments, i64 0, i64 2)
  %k = call i64 @extent(ptr %arguments, i64 0, i64 1)
  %n = call i64 @extent(ptr %results, i64 0, i64 1)
  %over = add i64 %n, {WIDTH - 1}
  %panels = udiv i64 %over, {WIDTH}
  %every = call i64 @llvm.umax.i64(i64 %parts, i64 1)
  %sums = mul i64 %m, %n
  %depth = mul i64 %k, %every
  %products = mul i64 %sums, %depth
  %all = mul i64 %products, %batches
  %much = icmp uge i64 %all, {shared}
  %columns = mul i64 %batches, %panels
  %high = udiv i64 %m, {SHARE}
  %apiece = udiv i64 {PARTS}, %columns
  %wanted = call i64 @llvm.umin.i64(i64 %high, i64 %apiece)
  %some = call i64 @llvm.umax.i64(i64 %wanted, i64 1)
  %shares = select i1 %much, i64 %some, i64 1
  %blocks = mul i64 %shares, {ROWS}
  %rest = add i64 %m, %blocks
  %less = sub i64 %rest, 1
  %deep = udiv i64 %less, %blocks
  %rows = mul i64 %deep, {ROWS}
  %upto = add i64 %m, %rows
  %before = sub i64 %upto, 1
  %chunks = udiv i64 %before, %rows
{_JOB.written}
  %count = mul i64 %columns, %chunks
  call void @share(ptr %frame, i1 %much, i64 %count, ptr @part, ptr %job)
  ret void
}}
"""
