"""Debian's Chromium, driven by Playwright; tests are skipped where one of them is not installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WIDER = """() => {
    const article = document.querySelector("article") ?? document.body;
    const scrolls = (element) => {
        for (let around = element.parentElement; around && around !== article; around = around.parentElement)
            if (getComputedStyle(around).overflowX !== "visible") return true;
        return false;
    };
    const right = article.getBoundingClientRect().right + 1;
    const found = [...article.querySelectorAll("*")].filter(
        (element) => element.getBoundingClientRect().right > right && !scrolls(element));
    if (document.documentElement.scrollWidth > window.innerWidth) found.unshift(document.body);
    return found.map((element) => element.tagName + ": " + element.textContent.trim().slice(0, 60));
}"""
"""What reaches over the column of the text and does not scroll in itself, and the body where it scrolls sideways."""


@contextmanager
def chromium() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the packages of the extra 'docs'")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("needs the program chromium (apt-get install chromium)")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield found
        found.close()


def opened(browser: Browser, address: str, width: int, scheme: Literal["dark", "light"]) -> tuple[Page, list[str]]:
    """An empty page, and the list to which the faults of what it opens are added: errors, and what it asks for that is
    not below ``address``."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    faults: list[str] = []
    page.on("console", lambda said: said.type == "error" and faults.append(f"{page.url}: {said.text}"))
    page.on("pageerror", lambda error: faults.append(f"{page.url}: {error}"))
    page.on("request", lambda asked: asked.url.startswith((address, "data:", "blob:")) or faults.append(
        f"{page.url} asks for {asked.url}"))
    page.on("requestfailed", lambda asked: faults.append(f"{page.url}: no {asked.url}"))
    return page, faults
