"""The documentation as a site in Debian's Chromium: on a desk and on a phone, light and dark (`make test-docs`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"
pytestmark = pytest.mark.slow

WIDER = """() => {
    const scrolls = (element) => {
        for (let around = element.parentElement; around && around !== document.body; around = around.parentElement)
            if (getComputedStyle(around).overflowX !== "visible") return true;
        return false;
    };
    const article = document.querySelector("article") ?? document.body;
    const right = article.getBoundingClientRect().right + 1;
    const found = [...article.querySelectorAll("*")].filter(
        (element) => element.getBoundingClientRect().right > right && !scrolls(element));
    if (document.documentElement.scrollWidth > window.innerWidth) found.unshift(document.body);
    return found.map((element) => element.tagName + ": " + element.textContent.trim().slice(0, 60));
}"""
"""What reaches over the column of the text and does not scroll in itself, and the body where it scrolls sideways."""


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
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the packages of the extra 'docs'")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs the program chromium (apt-get install chromium)")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield found
        found.close()


def opened(browser: Browser, address: str, width: int, scheme: Literal["dark", "light"]) -> tuple[Page, list[str]]:
    """An empty page, and the list to which the faults of what it opens are added."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    faults: list[str] = []
    page.on("console", lambda said: said.type == "error" and faults.append(f"{page.url}: {said.text}"))
    page.on("pageerror", lambda error: faults.append(f"{page.url}: {error}"))
    page.on("request", lambda asked: asked.url.startswith((address, "data:")) or faults.append(
        f"{page.url} asks for {asked.url}"))
    page.on("requestfailed", lambda asked: faults.append(f"{page.url}: no {asked.url}"))
    return page, faults


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
