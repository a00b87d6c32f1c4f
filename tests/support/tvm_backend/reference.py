"""An executor of steps by the plain evaluation of workloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from archloom.tvm_backend.check.workload_reference import evaluate
from archloom.tvm_backend.compiled import Step

__all__ = ["ReferenceExecutor", "evaluate"]


class ReferenceExecutor:
    """Runs the steps of a compiled network by :func:`evaluate`."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def run(self, step: Step, arguments: Mapping[str, Any]) -> np.ndarray:
        self.steps.append(step.name)
        return evaluate(step.workload, {**{k: np.asarray(v) for k, v in arguments.items()}, **step.constants})
