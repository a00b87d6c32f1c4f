"""Pages of headings, texts, code and tables, as Markdown, HTML (nothing loaded, no scripts) or plain text."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Heading:
    """A heading; ``anchor`` is what links to it name."""

    level: int
    text: str
    anchor: str = ""


@dataclass(frozen=True)
class Paragraph:
    """Text in which backquotes enclose code."""

    text: str


@dataclass(frozen=True)
class Code:
    """Lines that are kept as they are."""

    text: str


@dataclass(frozen=True)
class Table:
    """A head and rows of texts in which backquotes enclose code; the first cells are links where ``linked``."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    linked: bool = False


@dataclass(frozen=True)
class Picture:
    """A drawing in SVG, and what stands for it where there is only text."""

    svg: str
    text: str


Block = Heading | Paragraph | Code | Table | Picture


def to_markdown(blocks: Sequence[Block]) -> str:
    """GitHub's Markdown."""
    return "\n\n".join(map(_markdown, blocks)) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(level, text, anchor):
            mark = f'<a id="{anchor}"></a>\n\n' if anchor else ""
            return f"{mark}{'#' * level} {_escaped(text)}"
        case Paragraph(text):
            return _escaped(text)
        case Picture(_, text):
            return _escaped(text)
        case Code(text):
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
            return f"{fence}text\n{text}\n{fence}"
        case Table(head, rows, linked):
            cells = [[_escaped(c).replace("|", "\\|") for c in row] for row in rows]
            if linked:
                cells = [[f"[{row[0]}](#{_anchor(row[0])})", *row[1:]] for row in cells]
            lines = [list(head), ["---"] * len(head), *cells]
            return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(text: str) -> str:
    """The text with the signs escaped that Markdown would read, outside of code."""
    parts = _split(text)
    return "".join(f"`{p}`" if code else re.sub(r"([\\*_<>\[\]#])", r"\\\1", p) for code, p in parts)


def _split(text: str) -> list[tuple[bool, str]]:
    """Code (between backquotes) and the rest; a backquote without its partner is text."""
    pieces = re.split(r"(`[^`]*`)", text)
    return [(p.startswith("`") and len(p) > 1, p[1:-1] if p.startswith("`") and len(p) > 1 else p) for p in pieces if p]


def _anchor(call: str) -> str:
    return call.strip("`").partition("(")[0]


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1d2430; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #d5dae2; }
h3 { margin-top: 2rem; }
code, pre { font: 14px/1.45 ui-monospace, monospace; background: #f3f5f8; border-radius: 4px; }
code { padding: .1em .3em; } pre { padding: .8rem 1rem; overflow-x: auto; } h3 code { background: none; padding: 0; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { text-align: left; vertical-align: top; padding: .35rem .8rem; border-bottom: 1px solid #d5dae2; }
th { font-weight: 600; background: #f3f5f8; } a { color: #1a56b0; text-decoration: none; }
@media print { pre { white-space: pre-wrap; } }
"""


def fragment(blocks: Sequence[Block]) -> str:
    """HTML for a place in another page: a cell of a notebook."""
    return "\n".join(map(_html, blocks))


def to_html(title: str, blocks: Sequence[Block]) -> str:
    """A page of its own, well-formed as XML, too."""
    return (f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n<title>{html.escape(title)}</title>\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"/>\n<style>{_STYLE}</style>\n</head>\n'
            f"<body>\n{fragment(blocks)}\n</body>\n</html>\n")


def _html(block: Block) -> str:
    match block:
        case Heading(level, text, anchor):
            name = f' id="{html.escape(anchor)}"' if anchor else ""
            return f"<h{level}{name}>{_inline(text)}</h{level}>"
        case Paragraph(text):
            return f"<p>{_inline(text)}</p>"
        case Code(text):
            return f"<pre>{html.escape(text)}</pre>"
        case Picture(svg):
            return svg
        case Table(head, rows, linked):
            def first(cell: str) -> str:
                return f'<a href="#{html.escape(_anchor(cell))}">{_inline(cell)}</a>' if linked else _inline(cell)

            lines = ["".join(f"<th>{html.escape(h)}</th>" for h in head)]
            for row in rows:
                cells = [first(row[0]), *map(_inline, row[1:])]
                lines.append("".join(f"<td>{c}</td>" for c in cells))
            return "<table>\n" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "\n</table>"


def _inline(text: str) -> str:
    return "".join(f"<code>{html.escape(p)}</code>" if code else html.escape(p) for code, p in _split(text))


def to_text(blocks: Sequence[Block]) -> str:
    """Plain text, as wide as its tables."""
    return "\n\n".join(filter(None, (_text(b) for b in blocks))) + "\n"


def _text(block: Block) -> str:
    match block:
        case Heading(level, text):
            shown = text.replace("`", "")
            return f"{shown}\n{('=', '-', '.')[level - 1] * len(shown)}"
        case Paragraph(text) | Picture(_, text):
            return text
        case Code(text):
            return "\n".join(f"    {line}".rstrip() for line in text.split("\n"))
        case Table(head, rows):
            lines = [[c.replace("`", "") for c in line] for line in (head, *rows)]
            widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
            rule = ["-" * min(w, 60) for w in widths]
            padded = ([c.ljust(w) for c, w in zip(line, widths, strict=True)] for line in [lines[0], rule, *lines[1:]])
            return "\n".join("  ".join(line).rstrip() for line in padded)
