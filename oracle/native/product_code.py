"""The LLVM code of products of signed bytes: ``c[i, j]`` is the sum of ``a[i, k] * b[k, j]`` as i32, which wraps.

A lane of 32 bits takes a group of neighbours in k at once: four bytes where processors multiply unsigned by signed
bytes, else two numbers of 16 bits. So ``b`` is packed first: panels of columns, in each of them group after group, in
each of those the group of every column. A block of rows and vectors of columns stays in registers from the first group
to the last, as :mod:`archloom.oracle.native.chain_code` has it.

Signed bytes of ``b`` become unsigned ones by 128 more, which makes an element too large by 128 times the sum of its row
of ``a``: sums begin with that less.
"""

from __future__ import annotations

from collections.abc import Iterator

from archloom.oracle.native.handler import handler
from archloom.oracle.native.sharing_code import Job, sharing
from archloom.oracle.native.vectors import cells, masked_load, masks, splat
from archloom.oracle.native.ways import ROWS, Way

SHARED = 1 << 23
"""From how many products on cores share them: some fifty microseconds on one, and waking another takes ten. A free
choice, by products of 128 rows of which none is judged."""

SHARE, PARTS = 12, 32
"""The fewest rows of a part, and how many parts are enough for all cores to end at nearly the same time; where there
are fewer panels, rows are shared, too."""


def products(way: Way, symbol: str, *, shared: int = SHARED) -> str:
    """A module with the handler ``symbol``: ``a [..., m, k]``, of bytes or, for groups of two, of 16 bits, by a packed
    ``b`` gives ``c [..., m, n]``. Cores share ``shared`` products and more."""
    lanes, vector = way.lanes, way.vector
    addend = f"{vector}, " if way.adds else ""
    parts = [
        f"declare {vector} @{way.intrinsic}({addend}{way.operand}, {way.operand})",
        f"declare void @llvm.masked.store.v{lanes}i32.p0({vector}, ptr, i32, <{lanes} x i1>)",
        f"declare i32 @llvm.vector.reduce.add.v{lanes}i32({vector})",
        masked_load(4, "i8"), masked_load(4 * lanes, "i8"),
        "declare i64 @llvm.umax.i64(i64, i64)\ndeclare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        *(line for block in way.blocks for line in _block(way, *block)),
        *_sums(way), *_panel(way), _PRODUCTS.type,
        _part_of_products(way), _run_products(way, shared), handler(symbol), sharing()]
    return "\n".join(parts)


# --- products ---------------------------------------------------------------------------------------------------------


def _block(way: Way, rows: int, vectors: int) -> Iterator[str]:
    """``@block<rows>x<vectors>``: so many rows of ``%bytes`` bytes, and vectors of a panel, of which ``%width`` columns
    count."""
    lanes, vector = way.lanes, way.vector
    yield (f"define internal void @block{rows}x{vectors}(ptr %a, ptr %b, ptr %c, ptr %sums, i64 %bytes, i64 %n, "
           "i64 %width) {\nentry:")
    yield from masks("%width", lanes, vectors)
    for r in range(rows):
        yield f"  %arow{r} = mul i64 %bytes, {r}\n  %a{r} = getelementptr i8, ptr %a, i64 %arow{r}"
        yield f"  %sp{r} = getelementptr i32, ptr %sums, i64 {r}\n  %s{r} = load i32, ptr %sp{r}"
        yield splat(f"%s{r}", f"start{r}", lanes)
    yield "  %groups = lshr i64 %bytes, 2\n  %rest = and i64 %bytes, 3\n  %some = icmp ne i64 %groups, 0"
    yield "  br i1 %some, label %step, label %tail\nstep:\n  %i = phi i64 [0, %entry], [%next, %step]"
    yield from cells(rows, vectors, f"  %sum[r].[v] = phi {vector} [%start[r], %entry], [%new[r].[v], %step]")
    yield from _step(way, rows, vectors, "%i", "sum", "new", masked=False)
    yield "  %next = add i64 %i, 1\n  %more = icmp ult i64 %next, %groups"
    yield "  br i1 %more, label %step, label %tail\ntail:"
    yield from cells(rows, vectors, f"  %total[r].[v] = phi {vector} [%start[r], %entry], [%new[r].[v], %step]")
    yield "  %even = icmp eq i64 %rest, 0\n  br i1 %even, label %done, label %odd\nodd:"
    yield f"  %rest32 = trunc i64 %rest to i32\n{splat('%rest32', 'left', 4)}"
    yield "  %inside = icmp ult <4 x i32> <i32 0, i32 1, i32 2, i32 3>, %left"
    yield from _step(way, rows, vectors, "%groups", "total", "last", masked=True)
    yield "  br label %done\ndone:"
    yield from cells(rows, vectors, f"  %made[r].[v] = phi {vector} [%total[r].[v], %tail], [%last[r].[v], %odd]")
    for r in range(rows):
        for v in range(vectors):
            yield f"  %row{r}.{v} = mul i64 %n, {r}\n  %at{r}.{v} = add i64 %row{r}.{v}, {v * lanes}"
            yield f"  %c{r}.{v} = getelementptr i32, ptr %c, i64 %at{r}.{v}"
            yield (f"  call void @llvm.masked.store.v{lanes}i32.p0({vector} %made{r}.{v}, ptr %c{r}.{v}, i32 4, "
                   f"<{lanes} x i1> %mask{v})")
    yield "  ret void\n}"


def _step(
    way: Way, rows: int, vectors: int, group: str, before: str, after: str, *, masked: bool,
) -> Iterator[str]:
    """The products of a group of all cells; of one that is ``masked`` only bytes ``%inside`` are there."""
    for v in range(vectors):
        yield f"  %line{after}{v} = mul i64 {group}, {4 * way.columns}"
        yield f"  %start{after}{v} = getelementptr i8, ptr %b, i64 %line{after}{v}"
        yield f"  %bp{after}{v} = getelementptr i8, ptr %start{after}{v}, i64 {4 * v * way.lanes}"
        yield f"  %b{after}{v} = load {way.vector}, ptr %bp{after}{v}, align 4"
    for r in range(rows):
        yield f"  %ap{after}{r} = getelementptr i32, ptr %a{r}, i64 {group}"
        if masked:
            yield (f"  %x{after}{r}.b = call <4 x i8> @llvm.masked.load.v4i8.p0(ptr %ap{after}{r}, i32 1, "
                   "<4 x i1> %inside, <4 x i8> zeroinitializer)")
            yield f"  %x{after}{r} = bitcast <4 x i8> %x{after}{r}.b to i32"
        else:
            yield f"  %x{after}{r} = load i32, ptr %ap{after}{r}, align 1"
        yield splat(f"%x{after}{r}", f"f{after}{r}", way.lanes)
    added = _added(way, f"%{after}[r].[v]", f"%{before}[r].[v]", f"%b{after}[v]", f"%f{after}[r]")
    yield from cells(rows, vectors, "\n".join(added))


def _added(way: Way, name: str, total: str, unsigned: str, signed: str) -> Iterator[str]:
    vector = way.vector
    if way.adds:
        yield f"  {name} = call {vector} @{way.intrinsic}({vector} {total}, {vector} {unsigned}, {vector} {signed})"
        return
    for side, x in (("x", unsigned), ("y", signed)):
        yield f"  {name}.{side} = bitcast {vector} {x} to {way.operand}"
    yield f"  {name}.p = call {vector} @{way.intrinsic}({way.operand} {name}.x, {way.operand} {name}.y)"
    yield f"  {name} = add {vector} {total}, {name}.p"


def _sums(way: Way) -> Iterator[str]:
    """``@sums``: what the elements of each of m rows of ``a`` begin with."""
    wide, vector = 4 * way.lanes, way.vector
    yield "define internal void @sums(ptr %a, ptr %to, i64 %m, i64 %bytes) {\nentry:"
    if not way.adds:
        yield "  %size = mul i64 %m, 4\n  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 %size, i1 false)"
        yield "  ret void\n}"
        return
    yield f"  %rest = urem i64 %bytes, {wide}\n  %whole = sub i64 %bytes, %rest\n  %even = icmp eq i64 %rest, 0"
    yield f"  %small = trunc i64 %rest to i8\n  %left.0 = insertelement <{wide} x i8> poison, i8 %small, i64 0"
    yield (f"  %left = shufflevector <{wide} x i8> %left.0, <{wide} x i8> poison, <{wide} x i32> zeroinitializer\n"
           f"  %inside = icmp ult <{wide} x i8> <{', '.join(f'i8 {i}' for i in range(wide))}>, %left")
    yield "  br label %row\nrow:\n  %r = phi i64 [0, %entry], [%r1, %store]\n  %line = mul i64 %r, %bytes"
    yield "  %from = getelementptr i8, ptr %a, i64 %line\n  br label %check\ncheck:"
    yield f"  %i = phi i64 [0, %row], [%i1, %add]\n  %sum = phi {vector} [zeroinitializer, %row], [%new, %add]"
    yield "  %end = getelementptr i8, ptr %from, i64 %i"
    yield "  %more = icmp ult i64 %i, %whole\n  br i1 %more, label %add, label %tail\nadd:"
    yield f"  %x = load {vector}, ptr %end, align 1\n  %i1 = add i64 %i, {wide}"
    yield from _added(way, "%new", "%sum", f"splat (i32 {0x01010101})", "%x")
    yield "  br label %check\ntail:\n  br i1 %even, label %store, label %odd\nodd:"
    yield (f"  %bytesleft = call <{wide} x i8> @llvm.masked.load.v{wide}i8.p0(ptr %end, i32 1, <{wide} x i1> %inside, "
           f"<{wide} x i8> zeroinitializer)\n  %y = bitcast <{wide} x i8> %bytesleft to {vector}")
    yield from _added(way, "%last", "%sum", f"splat (i32 {0x01010101})", "%y")
    yield f"  br label %store\nstore:\n  %all = phi {vector} [%sum, %tail], [%last, %odd]"
    yield f"  %total = call i32 @llvm.vector.reduce.add.v{way.lanes}i32({vector} %all)\n  %less = mul i32 %total, -128"
    yield "  %where = getelementptr i32, ptr %to, i64 %r\n  store i32 %less, ptr %where"
    yield "  %r1 = add i64 %r, 1\n  %another = icmp ult i64 %r1, %m\n  br i1 %another, label %row, label %done"
    yield "done:\n  ret void\n}"


def _panel(way: Way) -> Iterator[str]:
    """``@panel``: all rows by a panel of columns, a block of rows after the other."""
    call = "ptr %ap, ptr %b, ptr %cp, ptr %sp, i64 %bytes, i64 %n, i64 %width"
    yield ("define internal void @panel(ptr %a, ptr %b, ptr %c, ptr %sums, i64 %m, i64 %bytes, i64 %n, i64 %width) {\n"
           f"entry:\n  %few = icmp ult i64 %m, {ROWS}\n  %rows = select i1 %few, i64 1, i64 {ROWS}")
    yield f"  %over = sub i64 %width, 1\n  %kind = udiv i64 %over, {way.lanes}"
    yield "  %last = sub i64 %m, %rows\n  br label %row\nrow:\n  %r = phi i64 [0, %entry], [%r1, %next]"
    yield "  %at = call i64 @llvm.umin.i64(i64 %r, i64 %last)\n  %sp = getelementptr i32, ptr %sums, i64 %at"
    for x, size, kind in (("a", "%bytes", "i8"), ("c", "%n", "i32")):
        yield f"  %{x}o = mul i64 %at, {size}\n  %{x}p = getelementptr {kind}, ptr %{x}, i64 %{x}o"
    single, *others = (f"label %run{r}x{v}" for r, v in way.blocks)
    narrow = zip(way.blocks[1:-1], others[:-1], strict=True)
    cases = " ".join(f"i64 {i}, {to}" for (_, v), to in narrow for i in range(v // 2, v))
    yield f"  br i1 %few, {single}, label %choose\nchoose:\n  switch i64 %kind, {others[-1]} [{cases}]"
    for r, v in way.blocks:
        yield f"run{r}x{v}:\n  call void @block{r}x{v}({call})\n  br label %next"
    yield "next:\n  %r1 = add i64 %r, %rows\n  %more = icmp ult i64 %r1, %m\n  br i1 %more, label %row, label %done"
    yield "done:\n  ret void\n}"


_PRODUCTS = Job(("a", "b", "c", "sums"), ("m", "bytes", "n", "panel", "panels", "chunks"))
"""Of products: a part is a chunk of the rows by a panel of columns."""


def _part_of_products(way: Way) -> str:
    """``@part``: some rows of a panel of a product."""
    return f"""
define internal void @part(ptr %job, i64 %number) {{
{_PRODUCTS.read}
  %piece = udiv i64 %number, %chunks
  %chunk = urem i64 %number, %chunks
  %i = udiv i64 %piece, %panels
  %p = urem i64 %piece, %panels
  %all = mul i64 %m, %chunk
  %low = udiv i64 %all, %chunks
  %and = add i64 %all, %m
  %high = udiv i64 %and, %chunks
  %height = sub i64 %high, %low
  %rows = mul i64 %i, %m
  %row = add i64 %rows, %low
  %j = mul i64 %p, {way.columns}
  %left = sub i64 %n, %j
  %width = call i64 @llvm.umin.i64(i64 %left, i64 {way.columns})
  %ao = mul i64 %row, %bytes
  %bo = mul i64 %piece, %panel
  %c0 = mul i64 %row, %n
  %co = add i64 %c0, %j
  %ap = getelementptr i8, ptr %a, i64 %ao
  %bp = getelementptr i8, ptr %b, i64 %bo
  %cp = getelementptr i32, ptr %c, i64 %co
  %sp = getelementptr i32, ptr %sums, i64 %row
  call void @panel(ptr %ap, ptr %bp, ptr %cp, ptr %sp, i64 %height, i64 %bytes, i64 %n, i64 %width)
  ret void
}}
"""


def _run_products(way: Way, shared: int) -> str:
    """``@run`` of products."""
    return f"""
define internal void @run(ptr %frame, ptr %arguments, ptr %results) {{
entry:
  %a = call ptr @data(ptr %arguments, i64 0)
  %b = call ptr @data(ptr %arguments, i64 1)
  %c = call ptr @data(ptr %results, i64 0)
  %batches = call i64 @extents(ptr %results, i64 0, i64 2)
  %m = call i64 @extent(ptr %arguments, i64 0, i64 2)
  %k = call i64 @extent(ptr %arguments, i64 0, i64 1)
  %n = call i64 @extent(ptr %results, i64 0, i64 1)
  %groups = call i64 @extent(ptr %arguments, i64 1, i64 2)
  %panels = call i64 @extent(ptr %arguments, i64 1, i64 3)
  %bytes = mul i64 %k, {4 // way.group}
  %panel = mul i64 %groups, {4 * way.columns}
  %every = mul i64 %batches, %m
  %four = mul i64 %every, 4
  %sums = call ptr @malloc(i64 %four)
  call void @sums(ptr %a, ptr %sums, i64 %every, i64 %bytes)
  %results1 = mul i64 %every, %n
  %all = mul i64 %results1, %k
  %much = icmp uge i64 %all, {shared}
  %columns = mul i64 %batches, %panels
  %most = udiv i64 %m, {SHARE}
  %apiece = udiv i64 {PARTS}, %columns
  %wanted = call i64 @llvm.umin.i64(i64 %most, i64 %apiece)
  %some = call i64 @llvm.umax.i64(i64 %wanted, i64 1)
  %chunks = select i1 %much, i64 %some, i64 1
{_PRODUCTS.written}
  %count = mul i64 %columns, %chunks
  call void @share(ptr %frame, i1 %much, i64 %count, ptr @part, ptr %job)
  call void @free(ptr %sums)
  ret void
}}
"""
