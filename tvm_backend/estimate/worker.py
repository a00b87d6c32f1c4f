"""A process of :mod:`tvm_backend.estimate.pool`: networks or workloads in, reports or plans out, until the end."""

from __future__ import annotations

import gc
import sys
from typing import Any

from archloom.oracle.errors import ArchloomError
from archloom.tvm_backend.estimate.network import OnnxNetwork, Request
from archloom.tvm_backend.estimate.pool import receive, send
from archloom.tvm_backend.frontends.onnx.skeleton import NoSkeleton
from archloom.tvm_backend.ir.nodes import Unsupported

COLLECTED = 128
"""Answers after which cycles of objects are looked for: what is found here has none, and grows."""


def answer(question: dict[str, Any], skeleton: bytes) -> dict[str, Any]:
    """What was found, or the error."""
    try:
        return planned(question) if "workload" in question else estimated(question, skeleton)
    except (NoSkeleton, Unsupported):
        return {"error": "Unreadable"}
    except ArchloomError as error:
        return {"error": type(error).__name__, "message": str(error)}


def estimated(question: dict[str, Any], skeleton: bytes) -> dict[str, Any]:
    """The report of a network."""
    request = Request(
        question["target"], question["options"], question["as_int8"], question["details"], on_disk=False)
    network = OnnxNetwork(skeleton, request, question["label"], question["title"], question["shapes"])
    return {"report": network.report().to_json()}


def planned(question: dict[str, Any]) -> dict[str, Any]:
    """What a search for the plan of a workload has found."""
    from archloom.mapper.cache import to_json
    from archloom.mapper.search import found
    from archloom.tvm_backend.artifact.workload_json import from_json
    from archloom.tvm_backend.targets.choice import choose

    (target,) = choose(question["target"], question["options"])
    configuration = target.backend.accelerator.configure(target.accelerator_options)
    _, entry = found(from_json(question["workload"]), configuration)
    return {"entry": to_json(entry)}


def main() -> None:
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing else may come between the answers
    gc.disable()
    count = 0
    while (asked := receive(questions)) is not None:
        send(answers, answer(*asked))
        count += 1
        if count % COLLECTED == 0:
            gc.collect()


if __name__ == "__main__":
    main()
