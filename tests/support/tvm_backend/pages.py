"""Searches and reports to make pages of, without estimating anything."""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
from pathlib import Path
from typing import Any

from archloom.tvm_backend.search.objectives import Aims, aims
from archloom.tvm_backend.search.store import FILE, Row, Store

NASTY = '<script>document.title = "taken"</script>'
"""A name that a page must show as it is."""


def made_search(
    folder: Path, count: int, objectives: str = "seconds,joules,area_mm2", constraints: tuple[str, ...] = (),
    seed: int = 0,
) -> list[Row]:
    """A search with so many made-up candidates, some of them failed, ruled out or of one's own network."""
    wanted, rng = aims(objectives, constraints), random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    rows = [_row(number, rng, wanted) for number in range(count)]
    with Store.create(folder / FILE, {**wanted.to_json(), "host": "none", "code": "-"}) as store:
        store.add(rows)
    return rows


def _row(number: int, rng: random.Random, wanted: Aims) -> Row:
    params = {"dim": rng.choice((4, 8, 16, 32, 64)), "scratchpad_kib": rng.choice((64, 128, 256, 512)),
              "dataflow": rng.choice(("ws", "os")), "clock_mhz": rng.uniform(200, 1500), "deep": rng.random() < 0.5,
              NASTY: rng.randint(1, 9)}
    size = params["dim"] ** 2
    noise = rng.lognormvariate(0, 0.3)
    seconds = 4e-2 * noise * (1 + 3000 / size) / params["clock_mhz"] * (1 + 64 / params["scratchpad_kib"])
    area = 0.05 + 1e-3 * size + 4e-4 * params["scratchpad_kib"] + rng.uniform(0, 0.05)
    joules = 1e-3 * rng.lognormvariate(0, 0.25) * (1 + params["clock_mhz"] / 900) * (1 + 20 / size)
    figures = {"seconds": seconds, "cycles": int(seconds * params["clock_mhz"] * 1e6), "joules": joules,
               "edp": joules * seconds, "area_mm2": area, "peak_bytes": None, "utilization": rng.uniform(0.05, 0.98)}
    candidate = {"networks": ["resnet50", NASTY], "weights": [1.0, 2.0], "target": "gemmini", "as_int8": False,
                 "options": {k: params[k] for k in ("dim", "scratchpad_kib", "dataflow", "clock_mhz")},
                 "named": number % 5 != 0}
    key, took = f"{number:064x}", rng.uniform(0.01, 0.2)
    if number % 17 == 16:
        return Row(key, "failed", params, candidate, error=f"no mapping fits {NASTY}", took=took)
    state = "bounded" if number % 7 == 6 else "measured"
    values = tuple(o.sign * value for o, value in zip(wanted.objectives, wanted.values(figures)))
    return Row(key, state, params, candidate, values, wanted.violations(figures), figures, None, took)


def data_of(html: str) -> dict[str, Any]:
    """What the scripts of a page draw."""
    (packed,) = re.findall(r'<script type="text/plain" id="data">([^<]*)</script>', html)
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))
    return found


def values_of(column: dict[str, Any]) -> list[Any]:
    """A column of the candidates as it was before it was packed."""
    return [column["words"][code] for code in column["codes"]] if "codes" in column else list(column["values"])
