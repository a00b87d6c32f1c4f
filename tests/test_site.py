"""The documentation as a site in Debian's Chromium: on a desk and on a phone, light and dark (`make test-docs`)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Literal

import pytest

from tests.support.browser import WIDER, chromium, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"
pytestmark = pytest.mark.slow

class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and keeps no log."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of the site, built anew as far as its sources have changed."""
    pytest.importorskip("pydata_sphinx_theme", reason="needs the packages of the extra 'docs'")
    subprocess.run([sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", ROOT / "build" / "doctrees",
                    ROOT / "docs", SITE], check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_fits(
    browser: Browser, address: str, width: int, scheme: Literal["dark", "light"],
) -> None:
    page, faults = opened(browser, address, width, scheme)
    for file in sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts):
        page.goto(address + file.relative_to(SITE).as_posix())
        faults += [f"{file.name}, {width} pixels wide, is less than {wide}" for wide in page.evaluate(WIDER)]
        if page.evaluate("document.documentElement.dataset.theme") != scheme:
            faults.append(f"{file.name} is not {scheme}")
    page.close()
    assert faults == []


def test_the_search_finds_pages(browser: Browser, address: str) -> None:
    page, faults = opened(browser, address, 1280, "light")
    page.goto(f"{address}search.html?q=multicast")
    page.wait_for_selector("#search-results li a")
    found = page.query_selector_all("#search-results li a")
    assert any("wormhole" in (link.get_attribute("href") or "") for link in found)
    page.close()
    assert faults == []
