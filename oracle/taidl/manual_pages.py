"""A manual as a page: Markdown, HTML (one file, no scripts, nothing loaded), or plain text for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence

from archloom.oracle.pages import Block, Code, Heading, Paragraph, Table, to_html, to_markdown, to_text
from archloom.oracle.taidl.manual import Entry, Manual, Storage, Value, paragraphs


def page(manual: Manual) -> list[Block]:
    """The blocks of a manual, in order."""
    blocks: list[Block] = [Heading(1, f"{manual.name}: reference manual")]
    blocks += _prose(manual.introduction)
    blocks += [Heading(2, "Storage"), Table(
        ("buffer", "rows", "base type", "bytes", ""),
        (("`hbm`", "as large as the stream says", "`i8`", "", "global memory"), *map(_storage, manual.buffers)))]
    for title, head, values in (
        ("Control registers", ("register", "at reset", "", ""), manual.registers),
        ("Parameters", ("parameter", "value", "range", ""), manual.parameters),
        ("Constants", ("constant", "value", "from", ""), manual.constants),
    ):
        if values:
            blocks += [Heading(2, title), Table(head, tuple(map(_value, values)))]
    blocks += [Heading(2, "Instructions"), Table(
        ("instruction", "reads", "writes", "sets", ""), tuple(map(_row, manual.instructions)), linked=True)]
    section = ""
    for entry in manual.instructions:
        if entry.section and entry.section != section:
            blocks.append(Heading(2, entry.section[0].upper() + entry.section[1:]))
        section = entry.section
        blocks += _instruction(entry)
    if manual.blocks:
        blocks.append(Heading(2, "Shared blocks"))
        blocks.append(Paragraph("Put in place where an instruction calls them."))
        for entry in manual.blocks:
            blocks += [Heading(3, f"`{entry.call}`", f"def-{entry.name}"), *_prose(entry.description), Code(entry.text)]
    return blocks


def _prose(comment: Sequence[str]) -> Iterator[Block]:
    for kept, text in paragraphs(comment):
        yield Code(textwrap.dedent(text)) if kept else Paragraph(text)


def _storage(s: Storage) -> tuple[str, ...]:
    return (f"`{s.name}`", " × ".join(map(str, s.rows)) or "one", f"`{s.base}`", f"{s.bytes:,}", s.description)


def _value(v: Value) -> tuple[str, ...]:
    return (f"`{v.name}`", f"`{v.value}`", f"`{v.expected}`" if v.expected else "", v.description)


def _row(e: Entry) -> tuple[str, ...]:
    first = next((text for kept, text in paragraphs(e.description) if not kept), "")
    return (f"`{e.call}`", _names(b for b, _ in e.reads), _names(b for b, _ in e.writes), _names(e.registers_written),
            first)


def _names(names: Sequence[str] | Iterator[str]) -> str:
    return ", ".join(f"`{n}`" for n in names)


def _instruction(e: Entry) -> Iterator[Block]:
    yield Heading(3, f"`{e.call}`", e.name)
    yield from _prose(e.description)
    if e.aliases:
        yield Paragraph(f"In kernels also {_names(e.aliases)}.")
    if e.operands:
        yield Table(("operand", "what it decides"), tuple((f"`{o.name}`", "; ".join(o.uses)) for o in e.operands))
    touched = [*((f"`${b}`", "read", slices) for b, slices in e.reads),
               *((f"`${b}`", "written", slices) for b, slices in e.writes)]
    if touched:
        yield Table(("storage", "", "where"), tuple((b, how, _names(slices)) for b, how, slices in touched))
    if e.registers_read or e.registers_written:
        yield Table(("control register", ""), tuple(
            (f"`{r}`", " and ".join(["read"] * (r in e.registers_read) + ["set"] * (r in e.registers_written)))
            for r in dict.fromkeys([*e.registers_read, *e.registers_written])))
    if e.asserts:
        yield Table(("asserted",), tuple((f"`{a}`",) for a in e.asserts))
    yield Code(e.text)


FORMS: dict[str, Callable[[Manual], str]] = {
    "text": lambda m: to_text(page(m)),
    "markdown": lambda m: to_markdown(page(m)),
    "html": lambda m: to_html(f"{m.name}: reference manual", page(m)),
}
"""A page of a manual by the name of its form."""
