"""A process of :mod:`tvm_backend.estimate_many`: networks in, reports out, until the input ends."""

from __future__ import annotations

import sys
from typing import Any

from oracle.errors import ArchloomError
from tvm_backend.estimate import Request, estimate_skeleton
from tvm_backend.estimate_many import receive, send
from tvm_backend.onnx_skeleton import NoSkeleton
from tvm_backend.plain import Unsupported


def answer(question: dict[str, Any], skeleton: bytes) -> dict[str, Any]:
    """The report, or the error."""
    request = Request(
        question["target"], question["options"], question["as_int8"], question["details"], on_disk=False)
    try:
        report = estimate_skeleton(skeleton, request, question["label"], question["title"], question["shapes"])
    except (NoSkeleton, Unsupported):
        return {"error": "Unreadable"}
    except ArchloomError as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {"report": report.to_json()}


def main() -> None:
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing else may come between the answers
    while (asked := receive(questions)) is not None:
        send(answers, answer(*asked))


if __name__ == "__main__":
    main()
