"""Records what AccelForge finds for random machines like Gemmini: ``benchmarks/data/accelforge.json``.

Runs in an environment of its own (Python 3.12; ``pip install accelforge hwcomponents-cacti hwcomponents-library``, and
Graphviz), not in this project's. Each machine has DRAM, a scratchpad for operands and an accumulator for results,
single memories by CACTI, and an array of multipliers and registers by Aladdin, in which weights stay. AccelForge finds
the mapping of a product of matrices that takes the least energy, with tiles of operands around those of results or
within them. ``python accelforge_machines.py COUNT`` prints the data; energies are without leakage.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

SEED, EXTENTS = 36, {"m": 256, "n": 256, "k": 256}
CHOICES: dict[str, tuple[int, ...]] = {
    "dim": (4, 8, 16, 32), "scratchpad_kib": (8, 16, 32, 64, 128, 256), "accumulator_kib": (16, 32, 64, 128),
    "node_nm": (22, 32, 45, 65, 90)}

ARCHITECTURE = """
arch:
  extra_attributes_for_all_component_models: {{tech_node: {node_nm}e-9}}
  nodes:
  - !Memory {{name: Memory, component_class: LPDDR4, size: inf, tensors: {{keep: All}}}}
{memories}
  - !Container
    name: Array
    spatial:
    - {{name: reuse_input, fanout: {dim}, reuse: input, min_usage: 1}}
    - {{name: reuse_output, fanout: {dim}, reuse: output, min_usage: 1}}
  - !Memory
    name: Weights
    component_class: Register
    size: 8
    extra_attributes_for_component_model: {{width: 8}}
    tensors: {{keep: weight}}
  - !Compute
    name: Multiplier
    component_class: IntMAC
    extra_attributes_for_component_model: {{multiplier_width: 8, adder_width: 32}}
"""

SCRATCHPAD = """
  - !Memory
    name: Scratchpad
    component_class: SRAM
    size: {bits}
    extra_attributes_for_component_model: {{width: {width}}}
    tensors: {{keep: input | weight}}"""

ACCUMULATOR = """
  - !Memory
    name: Accumulator
    component_class: SRAM
    size: {bits}
    bits_per_value: {{output: 32}}
    extra_attributes_for_component_model: {{width: {width}}}
    tensors: {{keep: output}}"""

WORKLOAD = """
workload:
  iteration_space_shape: {{m: 0 <= m < {m}, n: 0 <= n < {n}, k: 0 <= k < {k}}}
  bits_per_value: {{All: 8}}
  einsums:
  - name: Product
    tensor_accesses:
    - {{name: A, projection: [m, k]}}
    - {{name: B, projection: [k, n]}}
    - {{name: C, projection: [m, n], output: True}}
    renames: {{weight: B, input: A, output: C}}
"""


def machines(count: int) -> list[dict[str, int]]:
    """Different ones, drawn at random."""
    draw, found = random.Random(SEED), list[dict[str, int]]()
    while len(found) < count:
        machine = {name: draw.choice(values) for name, values in CHOICES.items()}
        if machine not in found:
            found.append(machine)
    return found


def joules(forge: Any, folder: Path, machine: dict[str, int]) -> float:
    """Of the best mapping on a machine, whichever memory is the outer one."""
    dim = machine["dim"]
    memories = [SCRATCHPAD.format(bits=machine["scratchpad_kib"] << 13, width=8 * dim),
                ACCUMULATOR.format(bits=machine["accumulator_kib"] << 13, width=32 * dim)]
    return min(_mapped(forge, folder, ARCHITECTURE.format(**machine, memories="".join(order)))
               for order in (memories, memories[::-1]))


def _mapped(forge: Any, folder: Path, architecture: str) -> float:
    (folder / "arch.yaml").write_text(architecture)
    (folder / "work.yaml").write_text(WORKLOAD.format(**EXTENTS))
    spec = forge.Spec.from_yaml(str(folder / "arch.yaml"), str(folder / "work.yaml"))
    spec.mapper.metrics = forge.Metrics.ENERGY
    found = spec.map_workload_to_arch(print_progress=False)
    return min(float(joules) for joules in found.data["Total<SEP>dynamic_energy"])


def main() -> None:
    forge, rows = importlib.import_module("accelforge"), list[dict[str, float]]()
    with tempfile.TemporaryDirectory() as folder:
        for machine in machines(int(sys.argv[1])):
            rows.append({**machine, "joules": joules(forge, Path(folder), machine)})
            print(len(rows), rows[-1], file=sys.stderr, flush=True)
    tools = ("accelforge", "hwcomponents", "hwcomponents-cacti", "hwcomponents-library")
    print(json.dumps({"tools": {name: version(name) for name in tools}, "seed": SEED, **EXTENTS, "designs": rows}))


if __name__ == "__main__":
    main()
