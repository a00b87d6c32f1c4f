"""The documentation as a site in Debian's Chromium: on a desk and on a phone, light and dark (`make test-docs`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support import site
from tests.support.browser import chromium, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with site.served() as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize("scheme", site.SCHEMES)
@pytest.mark.parametrize("width", site.WIDTHS)
def test_every_page_fits(browser: Browser, address: str, width: int, scheme: site.Scheme) -> None:
    assert site.faults(browser, address, width, scheme) == []


def test_the_search_finds_pages(browser: Browser, address: str) -> None:
    page, faults = opened(browser, address, 1280, "light")
    page.goto(f"{address}search.html?q=multicast")
    page.wait_for_selector("#search-results li a")
    found = page.query_selector_all("#search-results li a")
    assert any("wormhole" in (link.get_attribute("href") or "") for link in found)
    page.close()
    assert faults == []
