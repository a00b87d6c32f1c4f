"""Runs the command line on one hostile network after the other, each in a process of its own with limits.

``python worker.py N COMMAND...``: a line of JSON for every Nth network. ``python worker.py fuzz N``: N networks that
Hypothesis mutates.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# what each child needs, imported once
from archloom.tvm_backend import cli
from archloom.tvm_backend.ir import compat  # noqa: F401
from archloom.tvm_backend.sources import source  # noqa: F401
from archloom.tvm_backend.targets import lower, partition  # noqa: F401
from tests.tvm_backend.hostile.cases import CASES, conv, product, quantized, write

MEMORY, SECONDS, UNEXPECTED = 4 << 30, 20, 99


def limited(work: Callable[[], object]) -> tuple[int, str]:
    """The exit status and what was printed to standard error of ``work`` in a child with limits."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(writer, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        held = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        spent = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (int(spent) + SECONDS,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            status = work()
        except BaseException as error:
            os.write(2, f"\nunexpected {type(error).__name__}: {error}".encode())
            status = UNEXPECTED
        os._exit(status if isinstance(status, int) else UNEXPECTED)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        printed = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), printed


def all_cases(step: int, words: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        os.chdir(folder)
        for name in list(CASES)[::step]:
            status, printed = limited(lambda name=name: cli.main([words[0], f"{name}.onnx", *words[1:]]))  # type: ignore[misc]
            print(json.dumps({"name": name, "status": status, "printed": printed}), flush=True)


def fields(made: onnx.ModelProto, draw: st.DataObject) -> None:
    """Change one field somewhere in the network."""
    graph = made.graph
    spots: list[Callable[[], object]] = [
        lambda: setattr(made, "ir_version", draw.draw(st.integers(0, 1 << 40))),
        lambda: setattr(made.opset_import[0], "version", draw.draw(st.integers(-5, 1 << 40))),
        lambda: setattr(made.opset_import[0], "domain", draw.draw(st.text(max_size=4))),
        lambda: graph.node.extend(list(graph.node)),  # a repeated field extended by itself grows without end
        lambda: graph.ClearField("output"),
    ]
    small = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3, 300)
    for node in graph.node:
        spots += [
            lambda n=node: setattr(n, "op_type", draw.draw(st.sampled_from(["Relu", "If", "Loop", "Reshape", "Conv"]))),
            lambda n=node: n.input.append(draw.draw(st.sampled_from(["x", "w", "s", "", "none"]))),
            lambda n=node: n.input.pop(), lambda n=node: n.output.append(draw.draw(st.text(max_size=3))),
            lambda n=node: n.attribute.add(name=draw.draw(st.sampled_from(["axis", "group", "strides", "pads"])),
                                           type=draw.draw(st.sampled_from([2, 7])), i=draw.draw(small),
                                           ints=draw.draw(st.lists(small, max_size=5))),
        ]
    for info in (*graph.input, *graph.output):
        kind = info.type.tensor_type
        spots += [
            lambda k=kind: setattr(k, "elem_type", draw.draw(st.integers(-1, 40))),
            lambda k=kind: k.shape.dim.add(dim_value=draw.draw(small)),
            lambda k=kind: setattr(k.shape.dim[0], "dim_value", draw.draw(small)),
            lambda k=kind: setattr(k.shape.dim[0], "dim_param", draw.draw(st.text(max_size=3))),
        ]
    for constant in graph.initializer:
        spots += [
            lambda c=constant: setattr(c, "data_type", draw.draw(st.integers(-1, 40))),
            lambda c=constant: c.dims.append(draw.draw(small)),
            lambda c=constant: setattr(c, "raw_data", draw.draw(st.binary(max_size=80))),
            lambda c=constant: setattr(c, "name", draw.draw(st.text(max_size=3))),
        ]
    draw.draw(st.sampled_from(spots))()


def check(content: bytes) -> None:
    path = Path(tempfile.gettempdir()) / f"fuzzed-{os.getpid()}.onnx"
    path.write_bytes(content)
    try:
        for words in (["compile", str(path), "--explain"], ["estimate", str(path), "--no-cache"]):
            status, printed = limited(lambda words=words: cli.main(words))  # type: ignore[misc]
            assert status in (0, 2) and "Traceback" not in printed, (words[0], status, printed[-2000:])
    finally:
        path.unlink()


def fuzz(count: int) -> None:
    made = st.sampled_from([product(), conv(), quantized(0.1)])
    options = settings(max_examples=count, deadline=None, derandomize=True, database=None,
                       suppress_health_check=list(HealthCheck))

    @options
    @given(made, st.data())
    def of_bytes(network: onnx.ModelProto, draw: st.DataObject) -> None:
        content = bytearray(network.SerializeToString())
        for _ in range(draw.draw(st.integers(1, 4))):
            at = draw.draw(st.integers(0, len(content) - 1))
            if draw.draw(st.booleans()):
                content[at] = draw.draw(st.integers(0, 255))
            else:
                content[at:at + draw.draw(st.integers(0, 3))] = draw.draw(st.binary(max_size=3))
        check(bytes(content))

    @options
    @given(made, st.data())
    def of_fields(network: onnx.ModelProto, draw: st.DataObject) -> None:
        copy = onnx.ModelProto()
        copy.CopyFrom(network)
        for _ in range(draw.draw(st.integers(1, 3))):
            try:
                fields(copy, draw)
            except (IndexError, ValueError):  # the field is not there any more, or takes no such value
                continue
        check(copy.SerializeToString())

    of_bytes()
    of_fields()


if __name__ == "__main__":
    if sys.argv[1] == "fuzz":
        fuzz(int(sys.argv[2]))
    else:
        all_cases(int(sys.argv[1]), sys.argv[2:])
