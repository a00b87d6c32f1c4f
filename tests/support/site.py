"""The documentation as a site: built as far as its sources have changed, served here, and looked at for faults."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Literal, TypeAlias

import pytest

from tests.support.browser import WIDER, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Scheme: TypeAlias = Literal["dark", "light"]

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
WIDTHS = (1280, 390)
"""Pixels: of a desk's window and of a phone."""
SCHEMES: tuple[Scheme, ...] = ("dark", "light")


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and keeps no log."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served() -> Iterator[str]:
    """The address of the site; a test is skipped where the extra 'docs' is not installed."""
    pytest.importorskip("pydata_sphinx_theme", reason="needs the packages of the extra 'docs'")
    subprocess.run([sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", ROOT / "build" / "doctrees",
                    ROOT / "docs", SITE], check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def files() -> list[Path]:
    """The pages of the site that was built."""
    return sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts)


def faults(browser: Browser, address: str, width: int, scheme: Scheme) -> list[str]:
    """What is wrong with any page: errors of the console, what it loads from elsewhere, what is wider than its column,
    and a page that has not the scheme of the reader's."""
    page, found = opened(browser, address, width, scheme)
    for file in files():
        page.goto(address + file.relative_to(SITE).as_posix())
        found += [f"{file.name}, {width} pixels wide, is less than {wide}" for wide in page.evaluate(WIDER)]
        if page.evaluate("document.documentElement.dataset.theme") != scheme:
            found.append(f"{file.name} is not {scheme}")
    page.close()
    return found
