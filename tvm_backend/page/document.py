"""One HTML file: style, scripts, and the data as JSON, packed by gzip in base64."""

from __future__ import annotations

import base64
import gzip
import html
import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from archloom.tvm_backend.version import VERSION

ASSETS = Path(__file__).resolve().parent / "assets"
STYLE = "page.css"
SCRIPTS = (
    "base.js", "axes.js", "table.js", "timeline.js", "usage.js", "network.js", "compare.js", "fronts.js",
    "candidate.js", "parallel.js", "progress.js", "search.js", "main.js")

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""Nothing is loaded from anywhere."""


def document(title: str, subtitle: str, data: Mapping[str, Any]) -> str:
    """A page with a title; ``data`` has what main.js draws."""
    shown, below = html.escape(title), html.escape(subtitle)
    scripts = "\n".join(map(asset, SCRIPTS))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{shown}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="archloom {VERSION}">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<style>
{asset(STYLE)}</style>
</head>
<body>
<header><h1>{shown}</h1><p class="soft">{below}</p></header>
<main id="page"><noscript><p class="warning">This page is drawn by a script, which is in it.</p></noscript></main>
<footer>archloom {VERSION}. Hover over a figure for its exact value.</footer>
<script type="text/plain" id="data">{packed(data)}</script>
<script>
"use strict";
{scripts}</script>
</body>
</html>
"""


@cache
def asset(name: str) -> str:
    return (ASSETS / name).read_text("utf-8")


def packed(data: Mapping[str, Any]) -> str:
    """The same bytes for the same data."""
    text = json.dumps(finite(data), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def finite(data: Any) -> Any:
    """What JSON has no numbers for, infinities and NaN, as text."""
    if isinstance(data, float):
        return data if math.isfinite(data) else str(data)
    if isinstance(data, Mapping):
        return {str(key): finite(value) for key, value in data.items()}
    return list(map(finite, data)) if isinstance(data, list | tuple) else data
