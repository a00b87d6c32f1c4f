"""Spaces of networks and machines that can be enumerated: 2,304 to 3,456 points, each a trial of whole numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

Values = Mapping[str, Sequence[int]]
AIMS = "cycles,area_mm2,max:macs"


@dataclass(frozen=True)
class Points:
    """``sizes`` of an operator, and ``options`` of a target."""

    operator: str
    sizes: Values
    target: str
    options: Values

    @property
    def count(self) -> int:
        return int(np.prod([len(values) for values in (*self.sizes.values(), *self.options.values())]))

    def candidate(self, trial: Any) -> Any:
        """What a trial says by positions among the values; products stand for what a network is good for."""
        import archloom

        sizes, options = ({name: values[trial.suggest_int(name, 0, len(values) - 1)] for name, values in part.items()}
                          for part in (self.sizes, self.options))
        return archloom.Candidate(self.operator.format(**sizes), self.target, options,
                                  figures={"macs": float(np.prod([*sizes.values()]))})


GEMM, CONV = "gemm(m={m},n={n},k={k})", "conv2d(h={h},w={h},c={c},o={o},k={k})"
SPACES: Mapping[str, Points] = {
    "products": Points(
        GEMM, {"m": (1, 16, 64, 256), "n": (64, 256, 1024), "k": (64, 256, 1024)}, "gemmini",
        {"dim": (4, 8, 16, 32), "scratchpad_kib": (64, 128, 256, 512), "dma_bus_bits": (64, 128, 256, 512)}),
    "convolutions": Points(
        CONV, {"h": (7, 14, 28), "c": (16, 64, 256), "o": (16, 64, 256), "k": (1, 3)}, "gemmini",
        {"dim": (4, 8, 16, 32), "scratchpad_kib": (64, 128, 256), "accumulator_kib": (16, 32, 64, 128)}),
    "arrays": Points(
        GEMM, {"m": (1, 16, 64, 256), "n": (16, 64, 256), "k": (16, 64, 256)}, "systolic_array",
        {"rows": (4, 8, 16, 32), "columns": (4, 8, 16, 32), "left_kib": (16, 64, 256), "top_kib": (16, 64)}),
    "matrix_units": Points(
        GEMM, {"m": (1, 16, 64, 256), "n": (64, 256, 1024), "k": (64, 256, 1024)}, "tpu_v1",
        {"dim": (16, 32, 64, 128), "unified_buffer_kib": (256, 1024, 4096), "weight_bytes": (16, 46, 128),
         "accumulator_kib": (64, 256)}),
    "vectors": Points(
        GEMM, {"m": (16, 32, 64, 128), "n": (64, 128, 256), "k": (64, 128, 256)}, "qkv",
        {"dim": (8, 16, 32), "operand_rows": (256, 512, 1024), "sum_rows": (256, 1024), "bus_bytes": (8, 16, 32, 64)}),
}


def space(name: str) -> Any:
    """The space of a name, as searches take it."""
    return partial(_candidate, name)


def _candidate(name: str, trial: Any) -> Any:
    return SPACES[name].candidate(trial)


def fronts(names: Sequence[str], workers: int) -> dict[str, Any]:
    """Of each space the front with bounds and without, and the share that is simulated with them."""
    import archloom

    rows = list[dict[str, Any]]()
    for name in names:
        found = [archloom.search(space(name), sampler="grid", objectives=AIMS, workers=workers, bounds=bounds,
                                 quiet=True) for bounds in (True, False)]
        points = sum(found[1].counts.values())
        rows.append({"space": name, "points": points, "equal": front_of(found[0]) == front_of(found[1]),
                     "front": len(found[1].front), "simulated": found[0].counts["measured"] / points,
                     "failed": found[1].counts["failed"]})
        print(rows[-1], flush=True)
    return {"fronts": rows, "fronts_equal": sum(row["equal"] for row in rows) / len(rows),
            "simulated_share": max(row["simulated"] for row in rows)}


def front_of(result: Any) -> set[tuple[float, ...]]:
    """The points of a front."""
    return {row.values for row in result.front}
