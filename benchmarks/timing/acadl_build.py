"""How long architecture graphs take to build, check, describe and draw: a big array must be as handy as a small one.

Cases: systolic arrays at scalar level (every processing element is an object) and at tensor level; ``total_s`` is
building with all checks, plus drawing. The first drawing includes loading Graphviz.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish

_ARRAY = {"dataflow": "os", "convention": "scalesim"}
CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("scalar_32x32", {"rows": 32, "columns": 32, "level": "scalar", **_ARRAY}),
    ("tensor_256x256", {"rows": 256, "columns": 256, "level": "tensor", **_ARRAY}),
    ("scalar_64x64", {"rows": 64, "columns": 64, "level": "scalar", **_ARRAY}),
)


def measure(options: dict[str, Any]) -> dict[str, float]:
    """Seconds of each step for one array, and what there is of it."""
    from archloom.acadl_models.acadl import describe, to_svg
    from archloom.acadl_models.systolic_array import systolic_array

    start = time.perf_counter()
    graph = systolic_array(**options)
    built = time.perf_counter()
    drawing = to_svg(graph)
    drawn = time.perf_counter()
    text = describe(graph)
    described = time.perf_counter()
    return {
        "objects": len(graph.objects), "edges": len(graph.edges), "build_s": built - start, "draw_s": drawn - built,
        "describe_s": described - drawn, "total_s": drawn - start, "svg_bytes": len(drawing),
        "lines": len(text.splitlines()),
    }


def main() -> int:
    args = arguments(__doc__ or "")
    from archloom.acadl_models.systolic_array import systolic_array

    systolic_array(2, 2, "os", level="scalar")  # imports are no part of building
    result: dict[str, Any] = {name: measure(options) for name, options in CASES}
    for name, figures in result.items():
        print(name, {k: round(v, 4) for k, v in figures.items()})
    result["worst_total_s"] = max(result[name]["total_s"] for name in ("scalar_32x32", "tensor_256x256"))
    finish(args, result)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
