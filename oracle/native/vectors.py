"""LLVM code of blocks of vectors, as text: what the codes of products share."""

from __future__ import annotations

from collections.abc import Iterator


def splat(scalar: str, name: str, lanes: int, kind: str = "i32") -> str:
    """``%<name>``: a vector of ``scalar`` in all lanes."""
    vector = f"<{lanes} x {kind}>"
    return (f"  %{name}.0 = insertelement {vector} poison, {kind} {scalar}, i64 0\n"
            f"  %{name} = shufflevector {vector} %{name}.0, {vector} poison, <{lanes} x i32> zeroinitializer")


def masks(count: str, lanes: int, vectors: int) -> Iterator[str]:
    """``%mask<v>``: which lanes of each vector are among the first ``count`` (fewer than 2^31)."""
    yield f"  %count = trunc i64 {count} to i32"
    yield splat("%count", "columns", lanes)
    for v in range(vectors):
        numbers = ", ".join(f"i32 {v * lanes + lane}" for lane in range(lanes))
        yield f"  %mask{v} = icmp ult <{lanes} x i32> <{numbers}>, %columns"


def cells(rows: int, vectors: int, text: str) -> Iterator[str]:
    """``text`` for each vector of a block, row by row, with the row in place of ``[r]`` and the vector of ``[v]``."""
    for r in range(rows):
        for v in range(vectors):
            yield text.replace("[r]", f"{r}").replace("[v]", f"{v}")


def control_set(control: tuple[int, int]) -> str:
    """MXCSR with some bits cleared and some set, until it is loaded from ``%saved`` again."""
    return f"""  %saved = alloca i32
  %used = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %saved)
  %control = load i32, ptr %saved
  %cleared = and i32 %control, {~control[0]}
  %during = or i32 %cleared, {control[1]}
  store i32 %during, ptr %used
  call void @llvm.x86.sse.ldmxcsr(ptr %used)"""


def masked_load(lanes: int, kind: str) -> str:
    """The declaration of a load of some lanes."""
    return (f"declare <{lanes} x {kind}> @llvm.masked.load.v{lanes}{kind}.p0(ptr, i32, <{lanes} x i1>, "
            f"<{lanes} x {kind}>)")
