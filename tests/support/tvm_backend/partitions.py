"""Partitions in a form that can be compared: names of values inside of regions and the order of independent steps,
which TVM chooses, left out."""

from __future__ import annotations

from collections import Counter
from typing import Any

from archloom.tvm_backend.compiled import Partition


def facts(partition: Partition) -> dict[str, Any]:
    """Everything that an estimate is made of."""
    return {
        "target": (partition.name, partition.source, partition.target, dict(partition.options)),
        "inputs": partition.inputs, "outputs": partition.outputs,
        "regions": [
            (r.symbol, len(r.inputs), len(r.outputs),
             {s.name: (s.op, s.workload, s.shape, tuple(a for a, _ in s.inputs), tuple(sorted(s.constants)))
              for s in r.steps})
            for r in partition.regions
        ],
        "host": Counter(partition.host.ops), "macs": (partition.macs, partition.offloaded_macs),
    }
