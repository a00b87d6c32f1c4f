"""Bad input on the command line: one message that names the culprit, exit status 2, nothing written."""

import gc
import os
import re
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from archloom.tvm_backend import cli
from archloom.tvm_backend.sources import operators
from archloom.tvm_backend.sources.operator_network import onnx_model
from tests.support.examples import slow

Fails = Callable[..., str]

GRAPH = """
from archloom.acadl_models.acadl import *
@generate
def machine():
    ifs = InstructionFetchStage("ifs", issue_buffer_size=2)
    imau = InstructionMemoryAccessUnit("imau")
    imem = SRAM("imem", data_width=32, port_width=2, address_ranges=[(0, 1024)])
    ex = ExecuteStage("ex")
    fu = FunctionalUnit("fu", to_process={{"add"}})
    rf = RegisterFile("rf", registers={{"r0": 0}})
    ACADLEdge(ifs, imau, CONTAINS)
    ACADLEdge(imem, imau, READ_DATA)
    ACADLEdge(ifs, ex, FORWARD)
    ACADLEdge(ex, fu, CONTAINS)
    ACADLEdge(rf, fu, READ_DATA)
    {extra}
graph = create_ag(machine())
"""

STREAM = """.stream bad
.isa gemmini acc_rows=1024 dim=16 dma_bytes=64 spad_rows=16384
.hbm {hbm}
.arg A int8[16,16] @0x40
.result C int8[16,16] @0x140
config_ld channel=0, stride=16, scale=1065353216, shrunk=0, block_stride=16
{instruction}
"""


@pytest.fixture
def fails(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Fails:
    """Run the command line in an empty folder; it must fail as bad input should, with a message that matches."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def run(message: str, *words: str) -> str:
        before = sorted(work.rglob("*"))
        status = cli.main(list(words))
        out, err = capsys.readouterr()
        assert status == 2, err
        assert out == "" and "Traceback" not in err
        assert err.startswith("archloom: ") and re.search(message, err), err
        assert sorted(work.rglob("*")) == before
        return err

    return run


def _write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def _operator(path: Path, text: str = "gemm(m=4,n=4,k=4)") -> str:
    onnx.save(onnx_model(operators.parse(text)), path)
    return str(path)


COMMANDS = ["compile", "check", "estimate"]


@pytest.mark.parametrize("command", COMMANDS)
def test_missing_file(fails: Fails, command: str) -> None:
    fails(r"nope\.onnx: no such file", command, "nope.onnx")
    fails(r"mobilenet_v4: no such file, and no network by that name; did you mean 'mobilenet_v[23]'", command,
          "mobilenet_v4")


@pytest.mark.parametrize("command", COMMANDS)
def test_random_bytes(fails: Fails, tmp_path: Path, command: str) -> None:
    fails(r"random\.onnx: ", command, _write(tmp_path / "random.onnx", np.random.default_rng(1).bytes(5000)))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.99])
def test_truncated_onnx(fails: Fails, tmp_path: Path, share: float) -> None:
    whole = Path(_operator(tmp_path / "whole.onnx", "gemm(m=4,n=64,k=64)")).read_bytes()
    fails(r"cut\.onnx: ", "estimate", _write(tmp_path / "cut.onnx", whole[: int(share * len(whole))]))


@pytest.mark.parametrize("suffix", [".json", ".textproto", ".onnxtxt"])
@pytest.mark.parametrize("content", [b"{", b"\xfc\x00"])
def test_broken_text_forms_of_onnx(fails: Fails, tmp_path: Path, suffix: str, content: bytes) -> None:
    file = _write(tmp_path / f"net{suffix}", content)
    fails(rf"net{suffix}: not an ONNX file, or cut short: .* \({len(content)} bytes read\)", "estimate", file)


def test_directory_as_model(fails: Fails, tmp_path: Path) -> None:
    fails(r"found a directory|Is a directory", "estimate", str(tmp_path))


def _model(*nodes: onnx.NodeProto, shape: list[int | str]) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes), "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    return model


def test_unsupported_operator_is_named_with_its_node(fails: Fails, tmp_path: Path) -> None:
    model = _model(helper.make_node("Det", ["x"], ["y"], name="the_det"), shape=[3, 3])
    onnx.save(model, tmp_path / "det.onnx")
    fails(r"det\.onnx: .*the_det.*Det", "compile", str(tmp_path / "det.onnx"))


def test_dynamic_shapes(fails: Fails, tmp_path: Path) -> None:
    onnx.save(_model(helper.make_node("Relu", ["x"], ["y"]), shape=["batch", 3]), tmp_path / "open.onnx")
    path = str(tmp_path / "open.onnx")
    fails(r"open\.onnx: .*batch.*--input-shape x:", "compile", path)
    fails(r"no input is named 'z'", "compile", path, "--input-shape", "z:1x3")
    fails(r"expected 2 dimensions, found 1", "compile", path, "--input-shape", "x:3")
    fails(r"--input-shape 'x:1xq': expected NAME:SIZExSIZE", "compile", path, "--input-shape", "x:1xq")
    fails(r"--input-shape 'x:0x3': expected NAME:SIZExSIZE", "compile", path, "--input-shape", "x:0x3")


@pytest.mark.parametrize(("words", "message"), [
    (["-t", "gemini"], r"unknown target 'gemini'; did you mean 'gemmini'\?"),
    (["-O", "dims=4"], r"unknown option 'dims'; did you mean 'dim'\?"),
    (["-O", "dim=0"], r"target 'gemmini': option 'dim': expected an integer from 4 to 1024, found '0'"),
    (["-O", "dim=3.5"], r"option 'dim': expected an integer from 4 to 1024, found '3.5'"),
    (["-O", "dim=1000000000000000000000"], r"option 'dim': expected an integer from 4 to 1024"),
    (["-O", "dim"], r"--option 'dim': expected KEY=VALUE"),
    (["-O", "dim=8", "-O", "dim=16"], r"--option 'dim' is given twice"),
    (["-O", "dataflow=is"], r"option 'dataflow': expected one of auto, ws, os, found 'is'"),
])
@pytest.mark.parametrize("command", [*COMMANDS, "describe"])
def test_targets_and_options(fails: Fails, command: str, words: list[str], message: str) -> None:
    if command == "describe":
        fails(message, command, *([words[1]] if words[0] == "-t" else ["gemmini", *words]))
    else:
        fails(message, command, "gemm(m=4,n=4,k=4)", *words)


def test_operator_text(fails: Fails) -> None:
    fails(r"operator:1:8: m must be an integer", "estimate", "gemm(m=0,n=1,k=1)")
    fails(r"unknown operator 'gem'", "compile", "gem(m=1)")
    fails(r"--input-shape and --calibrate are for ONNX files", "estimate", "gemm(m=1,n=1,k=1)", "--calibrate", "random")


@pytest.mark.parametrize(("text", "message"), [
    ("isa x;\n[spad] (4 (16xi8);", r"bad\.taidl:2:\d+: .*\n.*\n +\^"),
    ("isa x;\n[spad] (4) (16xi8);\n[go](a) { %A:1x8xi8 <- $spad[a]; }", r"bad\.taidl:3:"),
    ("isa x;\n[spad] (4) (16xi8);\n[go](a) { %A:1x16xi8 <- $spat[a]; }", r"bad\.taidl:3:.*spat"),
    ("isa x;\n[spad] (4) (16xi8);\n[go](a) { %A:1x16xi8 <- $spad[7]; }", r"bad\.taidl:3:"),
    ("", r"bad\.taidl"),
])
def test_taidl(fails: Fails, tmp_path: Path, text: str, message: str) -> None:
    fails(message, "describe", _write(tmp_path / "bad.taidl", text))


def test_taidl_parameters(fails: Fails) -> None:
    isa = str(Path(__file__).parents[3] / "src/archloom/oracle/isas/gemmini.taidl")
    fails(r"dim.*4\.\.1024", "describe", isa, "-O", "dim=3")
    fails(r"parameter of an ISA is an integer", "describe", isa, "-O", "dim=x")
    fails(r"there is no file", "describe", "nope.taidl")


@pytest.mark.parametrize(("extra", "message"), [
    ("ACADLEdge(fu, ifs, FORWARD)", r"fu.*ifs|ifs.*fu"),
    ('FunctionalUnit("fu", to_process={"sub"})', r"'?fu'?"),
    ('FunctionalUnit("loose", to_process={"sub"})', r"loose"),
    ("raise RuntimeError('mine')", r"machine\.py:\d+: RuntimeError: mine"),
    ("raise SystemExit(3)", r"machine\.py:\d+: SystemExit: 3"),
])
def test_graphs(fails: Fails, tmp_path: Path, extra: str, message: str) -> None:
    fails(message, "describe", _write(tmp_path / "machine.py", GRAPH.format(extra=extra)))


def test_graph_files_without_a_graph(fails: Fails, tmp_path: Path) -> None:
    fails(r"expected one architecture graph at the top level", "describe", _write(tmp_path / "a.py", "x = 1"))
    fails(r"SyntaxError", "describe", _write(tmp_path / "b.py", "def"))


@pytest.mark.parametrize(("instruction", "message"), [
    ("mvin dram=4096, local=0, cols=16, rows=16", r"mvin.*(hbm|HBM)|(hbm|HBM).*"),
    ("mvim dram=64, local=0, cols=16, rows=16", r"mvim.*did you mean 'mvin'"),
    ("mvin dram=64, local=0, cols=16", r"rows"),
    ("mvin dram=64, local=0, cols=16, rows=i", r"\bi\b"),
    ("mvin dram=64, local=99999, cols=16, rows=16", r"spad|local"),
    ("loop i in 0..4 step 0 { }", r"step"),
    ("mvin dram=64 +", r"bad\.loom:\d+:\d+"),
])
def test_streams(fails: Fails, tmp_path: Path, instruction: str, message: str) -> None:
    text = STREAM.format(hbm=4096, instruction=instruction)
    fails(message, "asm", _write(tmp_path / "bad.loom", text))


def test_streams_of_other_kinds(fails: Fails, tmp_path: Path) -> None:
    fails(r"no such file", "asm", "nope.loom")
    fails(r"neither assembly text nor a binary stream", "asm", _write(tmp_path / "x.loom", b"\xff\xfe\x00"))
    fails(r"truncated", "asm", _write(tmp_path / "y.loom", b"LOOM\x01\x00"))
    fails(r"unknown|no ISA", "asm", _write(tmp_path / "z.loom", ".isa riscv\n.hbm 64\n"))
    fails(r"--binary: give --output", "asm", "x", "--binary")
    fails(r"manifest.json is missing", "asm", str(tmp_path))


def test_artifacts_that_are_none(fails: Fails, tmp_path: Path) -> None:
    (tmp_path / "empty.loom").mkdir()
    given = _write(tmp_path / "in.npz", b"")
    for command in (["report"], ["run", "--input", given, "--output", "out.npz"]):
        fails(r"nope: no such artifact", command[0], "nope", *command[1:])
        fails(r"half-written: manifest.json is missing", command[0], str(tmp_path / "empty.loom"), *command[1:])
        fails(r"neither a directory nor a complete zip", command[0], given, *command[1:])


def test_compile_refuses_its_output_before_it_starts(fails: Fails, tmp_path: Path) -> None:
    precious = _write(tmp_path / "precious", "x")
    fails(r"precious: exists and is not an artifact", "compile", "gemm(m=4,n=4,k=4)", "-o", precious)
    fails(r"the folder .* does not exist", "compile", "gemm(m=4,n=4,k=4)", "-o", str(tmp_path / "no" / "a.loom"))
    assert Path(precious).read_text() == "x"


def test_check_arguments(fails: Fails, tmp_path: Path) -> None:
    fails(r"--samples: expected at least 1, found 0", "check", "gemm(m=4,n=4,k=4)", "--samples", "0")
    fails(r"layer gemm: .* at most 2, and this one has", "check", "gemm(m=4,n=4,k=4)", "--most-instructions", "2")
    fails(r"--labels: give the inputs", "check", "gemm(m=4,n=4,k=4)", "--labels", "l.npy")


def test_usage_errors_exit_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["frobnicate"], ["estimate"], ["run", "x"]):
        with pytest.raises(SystemExit) as raised:
            cli.main(words)
        assert raised.value.code == 2
        error = capsys.readouterr().err
        assert error.startswith("archloom") and "--help shows what it takes" in error and error.count("\n") == 1


def test_interruption_exits_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("archloom.tvm_backend.commands.targets.targets", interrupt)
    assert cli.main(["targets"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_signal_exits_with_130() -> None:
    code = ("import os, signal, sys, archloom.tvm_backend.targets.registry as t;"
            # children of background jobs start with the signal ignored
            "signal.signal(signal.SIGINT, signal.default_int_handler);"
            "t.targets = lambda: os.kill(os.getpid(), signal.SIGINT);")
    run = subprocess.run(
        [sys.executable, "-c", f"{code} from archloom.tvm_backend import cli; sys.exit(cli.main(['targets']))"],
        capture_output=True, text=True, check=False)
    assert run.returncode == 130 and run.stderr == "archloom: interrupted\n"


def _in_a_destructor() -> None:
    class Dropped:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    Dropped()


def _when_collected() -> None:
    def collected(phase: str, _: object) -> None:
        if phase == "start":
            gc.callbacks.remove(collected)
            signal.raise_signal(signal.SIGINT)

    gc.callbacks.append(collected)
    gc.collect()


def _when_dropped() -> None:
    watched = {1, 2}
    kept = weakref.ref(watched, lambda _: signal.raise_signal(signal.SIGINT))
    del watched
    assert kept() is None


def _made_another_error() -> None:
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt as error:
        raise RuntimeError("as libraries in C++ do") from error


@pytest.mark.parametrize("lost", [_in_a_destructor, _when_collected, _when_dropped, _made_another_error])
def test_no_interruption_is_lost(
    lost: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where Python prints what is raised and goes on, and where libraries make something else of it."""
    def work() -> None:
        lost()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            pass

    monkeypatch.setattr("archloom.tvm_backend.commands.targets.targets", work)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert cli.main(["targets"]) == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, handler)
    assert capsys.readouterr().err == "archloom: interrupted\n"


def test_an_interrupt_while_modules_are_imported() -> None:
    code = ("import os, signal, sys\n"
            "class Interrupting:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            "        if name.startswith('archloom.tvm_backend.commands.'):\n"
            "            os.kill(os.getpid(), signal.SIGINT)\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "sys.meta_path.insert(0, Interrupting())\n"
            "sys.argv = ['archloom', 'targets']\n"
            "from archloom.__main__ import main; main()")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 130 and not run.stdout and "Traceback" not in run.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_standard_output() -> None:
    with open("/dev/full", "w") as full:
        run = subprocess.run([sys.executable, "-m", "archloom.tvm_backend.cli", "targets", "--json"], stdout=full,
                             stderr=subprocess.PIPE, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr == "archloom: standard output: No space left on device\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("streams", ["2>/dev/full", ">&- 2>&-", *map(slow, ("2>&-", ">&-", "<&-", "<&- >&- 2>&-"))])
@pytest.mark.parametrize(("words", "status"), [
    ("describe nothing", 2), slow("targets", 0), slow("estimate --no-cache 'gemm(m=4,n=4,k=4)'", 0)])
def test_streams_that_cannot_be_written_or_are_closed(streams: str, words: str, status: int) -> None:
    """The exit status is that with sound streams; what can be said is no traceback."""
    run = subprocess.run(["sh", "-c", f'"{sys.executable}" -m archloom {words} {streams}'], capture_output=True,
                         text=True, check=False)
    assert run.returncode == status and "Traceback" not in run.stderr


def test_an_empty_model_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["estimate", ""])
    assert stop.value.code == 2
    assert "argument MODEL: expected a file or an operator, found an empty text" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "content"), [
    ("n.onnxtxt", '<ir_version: 8, producer_name: "' + "a" * 100_000),
    ("n.taidl", "isa t; [m](4)(1 x i8); [go](i) { %x:1x1xi8 <- $m[" + "-" * 50_000 + "i]; }"),
])
def test_messages_are_short_however_long_the_input(fails: Fails, tmp_path: Path, name: str, content: str) -> None:
    path = _write(tmp_path / name, content)
    command = ("isa", path) if name.endswith("taidl") else ("estimate", path)
    said = fails(r"\.\.\. \([\d,]+ characters more\)", *command)
    assert max(map(len, said.splitlines())) < cli.MOST_CHARACTERS + 100
