"""Loop nests of layers: bytes are those that a walk over every instruction finds, on all targets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from random import Random

import pytest
from hypothesis import given

import archloom
from archloom.oracle.accesses import accesses, element_bits
from archloom.oracle.affine import Affine
from archloom.oracle.nests import walk
from archloom.oracle.resolved import (
    Buffer,
    ResolvedInstr,
    ResolvedLoop,
    ResolvedNode,
    ResolvedStream,
    Window,
    WindowDim,
)
from archloom.oracle.validate import tensor_bytes
from archloom.tvm_backend import cli
from archloom.tvm_backend.commands import arguments
from archloom.tvm_backend.commands import layers as layers_of
from archloom.tvm_backend.commands.explain import planned
from archloom.tvm_backend.compile import partition_among
from archloom.tvm_backend.quantization.quantize import quantize
from archloom.tvm_backend.report.nest import Line, nest
from archloom.tvm_backend.report.touched import touched
from archloom.tvm_backend.sources.source import Source
from archloom.tvm_backend.targets.choice import choose
from archloom.tvm_backend.targets.registry import BUILT_IN
from tests.support.examples import every, examples, randoms
from tests.support.tvm_backend.small_networks import float_cnn, images, int8_cnn

SMALL = {"sums": 1, "stats": 1, "l1_bytes": 16384}
CORES = {"mesh": {"x": 2, "y": 1, **SMALL}, "triple_ring": {"rows": 2, "columns": 2, **SMALL, "l1_bytes": 32768},
         "wormhole": {"rows": 1, "columns": 2, **SMALL}}
"""Two or four cores of little memory: a launch writes all of it."""


def positions(window: Window, buffer: Buffer, values: dict[str, int]) -> Iterator[int]:
    """Row-major positions that a window touches, one after the other."""
    for index in product(*[range(d.extent) for d in window.dims]):
        at = [offset.evaluate(values) for offset in window.offsets]
        for dim, i in zip(window.dims, index, strict=True):
            at[dim.axis] += dim.stride * i
        place = 0
        for coordinate, extent in zip(at, buffer.shape, strict=True):
            place = place * extent + coordinate
        yield place


def drawn(r: Random) -> Affine:
    """An offset over two variables, with divisions and modulos."""
    value = Affine(r.randint(0, 5))
    for _ in range(r.randint(0, 3)):
        term = Affine.variable(r.choice("ij")) * r.randint(1, 9)
        value += r.choice((term, term // r.randint(2, 5), term % r.randint(2, 5)))
    return value


@pytest.mark.slow
@examples(200, 20000)
@given(randoms)
def test_a_window_touches_what_its_elements_are(r: Random) -> None:
    buffer = Buffer("b", (200, 200), "i8")
    dims = tuple(WindowDim(r.randint(0, 1), r.randint(1, 5), r.randint(1, 7)) for _ in range(r.randint(0, 3)))
    window, extents = Window("b", (drawn(r), drawn(r)), dims), {"i": r.randint(1, 6), "j": r.randint(1, 6)}
    found = touched(window, buffer, extents)
    counted = {place for i in range(extents["i"]) for j in range(extents["j"])
               for place in positions(window, buffer, {"i": i, "j": j})}
    assert found.exact
    assert {p for a, b in zip(found.starts, found.ends) for p in range(a, b)} == counted
    assert found.count == len(counted)


def walked(stream: ResolvedStream, nodes: Sequence[ResolvedNode], writes: bool) -> dict[str, int]:
    """Bytes of different elements that nodes touch when they are executed once, by looking at every instruction."""
    touching: dict[str, set[int]] = {}
    for instr, around in walk(nodes):
        inside = {loop.var: loop.extent for loop in around}
        for access in accesses(instr):
            if access.kind != "accumulate" and (access.kind == "write") != writes:
                continue
            buffer = stream.buffer(access.window.buffer)
            names = set().union(*(offset.variables() for offset in access.window.offsets))
            for values in product(*[range(inside.get(name, 1)) for name in names]):
                touching.setdefault(buffer.name, set()).update(
                    positions(access.window, buffer, dict(zip(names, values))))
    found = {b.name: len(touching[b.name]) * element_bits(b.dtype) // 8 for b in stream.buffers if b.name in touching}
    memory = touching.get("hbm", set())
    for tensor in (*stream.arguments, *stream.results):
        inside_tensor = range(tensor.address, tensor.address + tensor_bytes(tensor))
        found[tensor.name] = sum(place in inside_tensor for place in memory)
        found["hbm"] = found.get("hbm", 0) - found[tensor.name]
    return {name: number for name, number in found.items() if number}


def nodes_of(nodes: Sequence[ResolvedNode]) -> Iterator[Sequence[ResolvedNode]]:
    """What each line of a nest stands for, in their order."""
    group: list[ResolvedInstr] = []
    for node in [*nodes, None]:
        if group and not (isinstance(node, ResolvedInstr) and node.mnemonic == group[0].mnemonic):
            yield group
            group = []
        if isinstance(node, ResolvedInstr):
            group.append(node)
        elif isinstance(node, ResolvedLoop):
            yield node.body
            yield from nodes_of(node.body)


@pytest.mark.first_case
@pytest.mark.parametrize("target", every(3, sorted(BUILT_IN)))
def test_lines_have_the_bytes_of_their_instructions(target: str) -> None:
    chosen = choose(target, CORES.get(target, {}))
    model = Source.of("gemm(m=24,n=20,k=36)").load_for(target)
    stream, layer, _ = planned(partition_among(model, chosen), chosen)
    assert layer.gap is not None and layer.gap >= 1
    lines = nest(stream, layer.cycles or 0, layer.loops)
    for line, nodes in zip(lines, [stream.body, *nodes_of(stream.body)], strict=True):
        assert dict(line.reads) == walked(stream, nodes, writes=False), line
        assert dict(line.writes) == walked(stream, nodes, writes=True), line
    outer = [line for line in lines if line.depth == 1 and line.cycles is not None]
    assert sum(line.cycles or 0 for line in outer) <= (layer.cycles or 0)
    check_executed(stream, lines)


def test_a_tensor_may_have_the_name_of_a_buffer() -> None:
    """Then the buffer is written as in TAIDL, and each has its own bytes."""
    def lines(name: str) -> tuple[Line, ...]:
        gemmini = archloom.isa("gemmini", dim=4)

        @gemmini.kernel(arg={"start": 64, "shape": (8, 4, 4), "dtype": "int8", "name": name},
                        res={"start": 256, "shape": (8, 4, 4), "dtype": "int8", "name": "Y"})
        def copied() -> None:
            gemmini.api.config_ld(channel=0, stride=4, scale=gemmini.ONE, shrunk=0, block_stride=4)
            gemmini.api.config_st(4, 0, gemmini.ONE, *[0] * 9)
            with gemmini.loop(8) as i:
                gemmini.api.mvin(dram=64 + 16 * i, local=0x80000000, cols=4, rows=4)
                gemmini.api.mvout(dram=256 + 16 * i, local=0x80000000, cols=4, rows=4)

        return nest(copied.resolved, 0, ())

    other = {"X": "acc", "acc": "$acc"}
    for plain, alike in zip(lines("X"), lines("acc"), strict=True):
        assert {other.get(name, name): size for name, size in plain.reads.items()} == dict(alike.reads)
        assert {other.get(name, name): size for name, size in plain.writes.items()} == dict(alike.writes)


def check_executed(stream: ResolvedStream, lines: Sequence[Line]) -> None:
    counted = sum(line.executed for line in lines if not line.is_loop)
    assert counted == sum(times(around) for _, around in walk(stream.body))


def times(around: Sequence[ResolvedLoop]) -> int:
    product_of = 1
    for loop in around:
        product_of *= loop.extent
    return product_of


def test_the_command_prints_nest_traffic_and_stalls(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "gemm(m=64,n=64,k=64)", "-t", "gemmini"]) == 0
    printed = capsys.readouterr().out
    assert "mapping: gemm" in printed and "A 4096 B, B 4096 B" in printed
    assert "bytes read" in printed and "execute.unit" in printed
    assert cli.main(["explain", "gemm(m=64,n=64,k=64)", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["nest"][0]["reads"]["A"] == 4096 and data["cycles"] == data["nest"][0]["cycles"] >= data["bound_cycles"]


def test_layers_of_a_network_without_its_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer has the cycles of the estimate, whose names it goes by; a network with its weights says the same."""
    for proto, how in ((int8_cnn(), []), (float_cnn(), ["--int8"])):
        path = tmp_path / "net.onnx"
        path.write_bytes(proto.SerializeToString())
        assert cli.main(["estimate", str(path), "--json", *how]) == 0
        layers = [x for x in json.loads(capsys.readouterr().out)["layers"] if x["where"] == "accelerator"]
        asked = ["explain", str(path), "--json", "--layer", layers[-1]["name"]]
        trace = ["trace", *asked[1:], "--from", str(layers[-1]["cycles"] - 100), "-o", str(tmp_path / "t.json")]
        with monkeypatch.context() as patched:
            patched.setattr(arguments, "load_model", None)
            assert cli.main([*asked, *how]) == 0
            found = json.loads(capsys.readouterr().out)
            assert cli.main([*trace, *how]) == 0
        assert json.loads(capsys.readouterr().out)["to"] == layers[-1]["cycles"]
        assert (found["cycles"], found["mapping"]) == (layers[-1]["cycles"], layers[-1]["mapping"])
        if not how:
            monkeypatch.setattr(layers_of, "partition", lambda args, chosen: partition_among(
                arguments.load_model(args), chosen))
            assert cli.main(asked) == 0 and json.loads(capsys.readouterr().out) == found
            monkeypatch.undo()


def test_a_network_that_needs_its_weights_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = float_cnn()
    next(node for node in model.graph.node if node.op_type == "Relu").op_type = "Elu"
    path = tmp_path / "net.onnx"
    path.write_bytes(quantize(model, images(2)[:, None]).SerializeToString())
    assert cli.main(["estimate", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    words = [str(path), "--layer", next(x["name"] for x in report["layers"] if x["where"] == "accelerator")]
    for command in (["explain", *words], ["trace", *words, "-o", str(tmp_path / "t.json")]):
        assert cli.main([*command, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["fallbacks"] == report["fallbacks"]
        assert cli.main(command) == 0
        assert "the network is read with its weights" in capsys.readouterr().out
    path.write_bytes(model.SerializeToString())
    assert cli.main(["explain", *words, "--int8"]) == 2
    assert "operator Elu" in capsys.readouterr().err


def test_a_layer_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "gemm(m=64,n=64,k=64)", "--layer", "gem"]) == 2
    assert "no layer 'gem'; did you mean 'gemm'?" in capsys.readouterr().err
