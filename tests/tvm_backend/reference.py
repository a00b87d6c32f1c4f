"""An executor of steps by the plain evaluation of workloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvm_backend.compiled import Step
from tvm_backend.workload_reference import evaluate

__all__ = ["ReferenceExecutor", "evaluate"]


class ReferenceExecutor:
    """Runs the steps of a compiled network by :func:`evaluate`."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def run(self, step: Step, arguments: Mapping[str, Any]) -> np.ndarray:
        self.steps.append(step.name)
        return evaluate(step.workload, {**{k: np.asarray(v) for k, v in arguments.items()}, **step.constants})
