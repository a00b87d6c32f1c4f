"""The blocks of the documentation's pages, run in order as a reader would (`tests/support/reader.py`).

A block of ``sh`` goes to bash, ``python`` and the cells of a notebook to one interpreter, all of a page in one folder.
A block with its name in bold above it (``**`net.py`**``), or with ``%%writefile`` as its first line, is a file. What
is in a block of ``text`` right below is what is printed; ``...`` stands for anything. A comment
``<!-- not run: why -->`` above a block leaves it out. Other kinds (``asm``, ``text``, none) are for the eyes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from doctest import ELLIPSIS, Example, OutputChecker
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
OWN = ("net.onnx", "samples.npz", "encoder.onnx")
"""What readers made on earlier pages (:func:`make_earlier`)."""
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"(?:\*\*`(?P<file>[\w./]+)`\*\*\n\n|<!-- not run: (?P<reason>[^\n]*) -->\n\n?)?"
                   r"^```(?P<kind>[^\n`]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
KINDS = {"sh": "sh", "python": "python", "{code-cell} python": "python"}
EARLIER = {"quickstart": "network.py", "networks": "encoder.py"}
"""Pages whose file makes what other pages have at hand: a network of the reader's own and its data."""


@dataclass(frozen=True)
class Block:
    """``kind``: ``file`` (of that ``name``), ``sh`` or ``python``; ``name`` is otherwise the page's."""

    kind: str
    name: str
    text: str
    shown: str | None = None
    reason: str | None = None


def blocks(page: Path) -> list[Block]:
    """Those of a page that are run, written or left out."""
    text = page.read_text(encoding="utf-8")
    found = list(FENCE.finditer(text))
    shown = {a.end(): b["text"] for a, b in pairwise(found)
             if b["kind"] == "text" and not b["file"] and not text[a.end():b.start()].strip()}
    name = page.relative_to(ROOT).as_posix()
    return [block for fence in found for block in _block(fence, name, shown.get(fence.end()))]


def _block(fence: re.Match[str], page: str, shown: str | None) -> Iterator[Block]:
    kind, text = KINDS.get(fence["kind"]), fence["text"]
    cell, _, rest = text.partition("\n")
    if fence["file"]:
        yield Block("file", fence["file"], text)
    elif kind and cell.startswith("%%writefile "):
        yield Block("file", cell.split()[1], rest)
    elif kind:
        yield Block(kind, page, text, shown, fence["reason"])


def with_blocks() -> list[Path]:
    """The pages of which anything is run."""
    return [page for page in PAGES if any(block.reason is None for block in blocks(page))]


def files(page: Path) -> dict[str, str]:
    """The files that a page writes, by name."""
    return {block.name: block.text for block in blocks(page) if block.kind == "file"}


def make_earlier(folder: Path) -> None:
    """Write into ``folder`` what a reader made on earlier pages."""
    _read([block for page, name in EARLIER.items() for block in (
        Block("file", name, files(DOCS / f"{page}.md")[name]), Block("sh", page, f"python {name}"))], folder)


def faults(page: Path, folder: Path, earlier: Callable[[], Path]) -> list[str]:
    """What is wrong with each block of a page that is run in ``folder``, empty for one that is right.

    ``earlier`` gives the folder of :func:`make_earlier`, and is asked where the page needs it. A block that fails ends
    the run: then it is wrong with all of the page's.
    """
    given = [block for block in blocks(page) if not block.reason]
    try:
        if any(name in block.text for name in OWN for block in given):
            shutil.copytree(earlier(), folder, dirs_exist_ok=True)
        return [difference(block, printed) for block, printed in run(page, folder)]
    except (AssertionError, subprocess.TimeoutExpired) as error:
        return [f"{page.name}: {error}" for block in given if block.kind != "file"]


def run(page: Path, folder: Path) -> list[tuple[Block, str]]:
    """Every block of the page that is run, with what it printed; ``folder`` has what earlier pages made."""
    for name in ("benchmarks", "examples"):
        (folder / name).symlink_to(ROOT / name)
    given = [block for block in blocks(page) if not block.reason]
    printed = _read(given, folder)
    return list(zip([block for block in given if block.kind != "file"], printed, strict=True))


def _read(given: list[Block], folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-P", str(Path(__file__).with_name("reader.py"))], cwd=folder, check=False, text=True,
        input=json.dumps([asdict(block) for block in given]), capture_output=True, timeout=1800,
        env={**os.environ, "PYTHON": sys.executable, "MPLBACKEND": "Agg", "COLUMNS": "120",
             "PIP_TARGET": str(folder), "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1",
             "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", folder, ROOT)))})
    assert done.returncode == 0, done.stderr[-4000:]
    printed: list[str] = json.loads(done.stdout.splitlines()[-1])
    return printed


def difference(block: Block, printed: str) -> str:
    """What was printed beside what is shown; empty where they are alike or nothing is shown."""
    checker = OutputChecker()
    if block.shown is None or checker.check_output(block.shown, printed, ELLIPSIS):
        return ""
    return block.text + checker.output_difference(Example(block.text, block.shown), printed, ELLIPSIS)
