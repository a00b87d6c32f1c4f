"""The oracle on a GPU, unchanged: ``oracle_gemm.py``, and Exo's GEMMs and I-BERT's encoder of ``oracle.py``.

Where JAX runs on a GPU the two are run, and what they find is kept in ``data/gpu.json`` with device, JAX and date.
Elsewhere the figures are those that were kept last: ``measured`` says which of both. Both scripts compare results with
NumPy's or with those of the native function before anything is timed.
"""

from __future__ import annotations

import datetime
import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks import common
from benchmarks.run import find

KEPT = common.ROOT / "benchmarks" / "data" / "gpu.json"


def main() -> None:
    args = common.arguments(__doc__ or "")
    import jax

    on_gpu = jax.default_backend() != "cpu"
    if on_gpu:
        KEPT.write_text(json.dumps(measured(), indent=1) + "\n")
    kept = json.loads(KEPT.read_text())
    ratios = list(kept["gemms_over_native"].values())
    common.finish(args, {
        "measured": "now" if on_gpu else "when it was kept", **kept,
        "origin": {"commit": None, "date": kept["date"], "machine": kept["device"]},
        "worst_gemm_over_native": max(ratios),
        "mean_gemm_over_native": statistics.geometric_mean(ratios)})


def measured() -> dict[str, Any]:
    import jax

    gemm = _run("oracle_gemm")
    kernels = {row["name"]: row for row in _run("oracle", "--suite", "exo,ibert")["kernels"]}
    return {
        "device": jax.devices()[0].device_kind, "jax": jax.__version__, "date": str(datetime.date.today()),
        "gemms_over_native": {f"{r['m']}x{r['n']}x{r['k']}": r["ratio"] for r in gemm["rows"]} | {
            name: row["over_native"] for name, row in kernels.items() if name != "ibert"},
        "gemm_ms": {f"{r['m']}x{r['n']}x{r['k']}": r["oracle_ms"] for r in gemm["rows"]},
        "ibert_ms": kernels["ibert"]["oracle_ms"], "ibert_over_native": kernels["ibert"]["over_native"]}


def _run(name: str, *arguments: str) -> Any:
    run = common.child([sys.executable, str(find(name)), *arguments, "--json"])
    if run.status:
        common.refuse(f"{name}: ended with status {run.status}")
    return run.last_json


if __name__ == "__main__":
    main()
