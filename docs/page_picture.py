"""Takes a picture of a page of ``archloom report --html`` in Debian's Chromium, as wide as a desk's screen.

``python docs/page_picture.py PAGE.html PICTURE.png SECTION ...``: the sections that are named by their headings, one
below the other.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

WIDTH = 1100


def draw(page: Path, picture: Path, sections: list[str]) -> None:
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector(".chart > svg")
        shots = [Image.open(io.BytesIO(tab.locator(f"section[aria-label='{name}']").screenshot())) for name in sections]
        browser.close()
    whole = Image.new("RGB", (max(shot.width for shot in shots), sum(shot.height for shot in shots)), "#fbfbfa")
    below = 0
    for shot in shots:
        whole.paste(shot, (0, below))
        below += shot.height
    whole.quantize(128).save(picture, optimize=True)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
