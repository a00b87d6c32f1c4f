"""Ways to get a command wrong, each with its exit status and a message of at most three lines."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from archloom.oracle.errors import LISTED, nearest, suggest
from archloom.tvm_backend import cli
from archloom.tvm_backend.sources import operators
from archloom.tvm_backend.sources.operator_network import onnx_model
from tests.support.tvm_backend.registered import forgotten_after
from tests.tvm_backend.hostile.cases import free, model, op, tensor

GEMM = "gemm(m=4,n=4,k=4)"
TARGET = '''
from pathlib import Path
import numpy as np
from archloom.acadl_models.gemmini import gemmini
from archloom.mapper.space import SpaceBuilder, Table
from archloom.uma_targets.kit import GemmKit, Instr, KitTarget, Option, Tiling
from archloom.uma_targets.kit.attention import Kernel
from archloom.acadl_models.options import Clock, Size
from archloom.mapper.options import GraphOptions
from archloom.oracle import taidl
from typing import Annotated
def sized(*, dim: Annotated[int, Size(1, 64, "side", multiple=3)] = 8, clock_hz: Annotated[float, Clock("a")] = 1e9):
    pass
def graph(options):
    {graph}
def emit(gemm, mapping, parameters):
    {emit}
def tiling(shape, hardware, options):
    {tiling}
def made(workload, hardware, options):
    {space}
def listed(columns, needs, estimate, mapping=lambda c, i: c):
    builder = SpaceBuilder("here", {{"rows": 4}})
    builder.add(Table(columns, needs, estimate, mapping))
    return builder.build()
class Mine(KitTarget):
    kit = GemmKit(name="mine_{name}", description="a test", isa="gemmini", graph=graph, emit=emit, tiling=tiling,
                  options=(Option("dim", int, 8, "side", 2, 64),), {kit})
Mine().register()
'''
PARTS = {"graph": "return gemmini(dim=options['dim'])", "emit": "return []", "space": "return None",
         "tiling": "return Tiling({d: [16] for d in 'mnk'})", "kit": ""}
SPACED = "kernels={'gemm': Kernel(emit, made)}"
MISUSES = {
    # what a function of a target's gives, or takes
    "graph_none": ({"graph": "pass"}, "target 'mine_graph_none', its graph at dim=8: graph gives None, expected Arch"),
    "emit_none": ({"emit": "pass"}, "gemm .*, the instructions of .*: emit gives None, expected Iterable"),
    "emit_one": ({"emit": "yield None"}, "the instructions of .* gives None among others, expected Instr or Loop"),
    "tiling_none": ({"tiling": "pass"}, "its mappings: tiling gives None, expected Tiling"),
    "tiles": ({"tiling": "return Tiling({'m': [4], 'n': [4]})"}, "sizes: expected some of each of m, n and k"),
    "room": ({"tiling": "return Tiling({d: [4] for d in 'mnk'}, demand={'x': len}, room={'y': 1})"},
             "room: expected what there is of x, as demand has it, found y"),
    "demand": ({"tiling": "return Tiling({d: [4] for d in 'mnk'}, demand={'x': 3}, room={'x': 1})"},
               "its mappings: expected a function, found 3"),
    "peak": ({"kit": "macs_per_cycle=16"}, "its macs_per_cycle: expected a function, found 16"),
    "peak_none": ({"kit": "macs_per_cycle=lambda graph: None"}, "macs_per_cycle: the lambda gives None, expected Int"),
    "peak_two": ({"kit": "macs_per_cycle=lambda a, b: 1"}, "expected a function of 1 argument, found the lambda"),
    "space_none": ({"kit": SPACED}, "its mappings: made gives None, expected Space"),
    "lengths": ({"kit": SPACED, "space": "return listed({'x': np.zeros(2)}, {'rows': np.zeros(1)}, len)"},
                r"a table: expected columns and needs of one length, found .*'x': \(2,\), 'rows': \(1,\)"),
    "needs": ({"kit": SPACED, "space": "return listed({'x': np.zeros(1)}, {'row': np.zeros(1)}, len)"},
              "room: expected what there is of row, as needs have it, found rows"),
    "estimate": ({"kit": SPACED, "space": "return listed({'x': np.ones(2)}, {}, lambda c: np.ones(1))"},
                 r"the estimate of a table: expected 2 numbers, found \(1,\)"),
    "mapping": ({"kit": SPACED, "space": "return listed({'x': np.ones(1)}, {}, lambda c: c['x'])"},
                "the lambda gives a dict, expected Mapping"),
    "buffer": ({"graph": "return taidl.load('gemmini').buffer('spud')"},
               "its graph at dim=8: ISA gemmini has no buffer 'spud'; did you mean 'spad'"),
    "multiple": ({"graph": "return GraphOptions(sized).graph({'clock_mhz': 1.0, **options})"},
              "sized: dim must be a multiple of 3, not 8"),
    # what a kit states
    "int4": ({"kit": "numbers='int4'"}, "kit 'mine_int4': numbers: expected int8 or float32, found 'int4'"),
    "kind": ({"kit": "kernels={'conv': Kernel(emit, made)}"}, "kernels: expected a Kernel for each of .*conv2d"),
    "kernel": ({"kit": "kernels={'conv2d': emit}"}, "kernels: expected a Kernel for each of .*found .*function emit"),
    "windows": ({"kit": "windows=emit"}, "windows: expected a tuple of rules, found <function emit"),
}


def target(name: str, **parts: str) -> str:
    return TARGET.format(name=name, **PARTS | parts)


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
GRAPHS = {
    "edge": ("ACADLEdge(fu, ifs, FORWARD)", r"fu.*ifs|ifs.*fu"),
    "names": ('FunctionalUnit("fu", to_process={"sub"})', r"'?fu'?"),
    "loose": ('FunctionalUnit("loose", to_process={"sub"})', r"loose"),
    "raised": ("raise RuntimeError('mine')", r"raised\.py:\d+: RuntimeError: mine"),
    "left": ("raise SystemExit(3)", r"left\.py:\d+: SystemExit: 3"),
}
STREAM = """.stream bad
.isa gemmini acc_rows=1024 dim=16 dma_bytes=64 spad_rows=16384
.hbm 4096
.arg A int8[16,16] @0x40
.result C int8[16,16] @0x140
config_ld channel=0, stride=16, scale=1065353216, shrunk=0, block_stride=16
{instruction}
"""
STREAMS = {
    "hbm": ("mvin dram=4096, local=0, cols=16, rows=16", r"mvin.*(hbm|HBM)|(hbm|HBM).*"),
    "mnemonic": ("mvim dram=64, local=0, cols=16, rows=16", r"mvim.*did you mean 'mvin'"),
    "attribute": ("mvin dram=64, local=0, cols=16", r"rows"),
    "variable": ("mvin dram=64, local=0, cols=16, rows=i", r"\bi\b"),
    "spad": ("mvin dram=64, local=99999, cols=16, rows=16", r"spad|local"),
    "step": ("loop i in 0..4 step 0 { }", r"step"),
    "sum": ("mvin dram=64 +", r"sum\.asm:\d+:\d+"),
}

FILES = {
    "graph.py": target("graph", graph="return options['size']"),
    "emit.py": target("emit", emit="return gemm.rows"),
    "instr.py": target("instr", emit="return [Instr.make('mvin', rows=1)]"),
    "size.py": target("size", emit="return mapping.size('kk')"),
    "rows.py": target("rows", emit="return [Instr.make('mvin', dram=1 << 40, local=0, cols=4, rows=4)]"),
    **{f"{name}.py": target(name, **parts) for name, (parts, _) in MISUSES.items()},
    **{f"{name}.py": GRAPH.format(extra=extra) for name, (extra, _) in GRAPHS.items()},
    **{f"{name}.asm": STREAM.format(instruction=instruction) for name, (instruction, _) in STREAMS.items()},
    "syntax.py": "x = 1\ndef graph(:\n", "raises.py": "def f():\n    return 1 / 0\nf()\n", "empty.py": "x = 1\n",
    "dims.taidl": "isa x;\nparam d = 4 in 2..8;\n[v] (2 * d) (d x i8);",
    "row.taidl": "isa x;\n[v] (4) (16 x i8);\n[go](a) { %A:16xi8 <- $v[a]; }",
    "isa.taidl": "isa x;\n[spad] (4) (16xi8);\n[go](a) { %A:1x16xi8 <- $spat[a]; }", "none.taidl": "",
    "bracket.taidl": "isa x;\n[spad] (4 (16xi8);",
    "type.taidl": "isa x;\n[spad] (4) (16xi8);\n[go](a) { %A:1x8xi8 <- $spad[a]; }",
    "outside.taidl": "isa x;\n[spad] (4) (16xi8);\n[go](a) { %A:1x16xi8 <- $spad[7]; }",
    "module.pt": "PK", "weights.safetensors": "{}", "net.tflite": "TFL3", "text.onnx": "hello", "empty.onnx": "",
    "labels.txt": "1 2 3", "negative.csv": "M,N,K\n4,4,-3\n", "isa.asm": ".isa riscv\n.hbm 64\n",
    "bytes.asm": b"\xff\xfe\x00", "short.bin": b"LOOM\x01\x00", "random.onnx": np.random.default_rng(1).bytes(5000),
    "broken.json": "{", "broken.textproto": b"\xfc\x00", "broken.onnxtxt": "{", "def.py": "def",
}

WRONG = [
    # commands and flags
    ("", "the following arguments are required: COMMAND"),
    ("estimat net.onnx", "unknown 'estimat'; did you mean 'estimate'"),
    ("estimate net.onnx --taget gemmini", "unknown argument '--taget'; did you mean '--target'"),
    ("estimate net.onnx extra", "unknown argument 'extra'"),
    ("estimate", "required: MODEL"),
    ("run net.loom", "required: --input"),
    # networks
    *((f"{command} nope.onnx", r"nope\.onnx: no such file") for command in ("compile", "check", "estimate")),
    *((f"{command} random.onnx", r"random\.onnx: ") for command in ("compile", "check", "estimate")),
    ("estimate broken.json", r"broken\.json: not an ONNX file, or cut short: .* \(1 bytes read\)"),
    ("estimate broken.textproto", r"broken\.textproto: not an ONNX file, or cut short: .* \(2 bytes read\)"),
    ("estimate broken.onnxtxt", r"broken\.onnxtxt: not an ONNX file, or cut short: .* \(1 bytes read\)"),
    ("estimate mobilenet_v4", r"no network by that name; did you mean 'mobilenet_v[23]'"),
    ("estimate text.onnx", r"text\.onnx: not an ONNX file"),
    ("estimate empty.onnx", r"empty\.onnx: "),
    ("estimate .", "found a directory"),
    ("estimate module.pt", r"module\.pt: expected an ONNX file or a \.pt2, .*torch\.export\.save"),
    ("estimate weights.safetensors", "arrays without the operators"),
    ("estimate net.tflite", "tf2onnx"),
    ("estimate emit.py", "found Python"),
    (f"estimate {GEMM[:-1]}", "operator:1:"),
    ("estimate gem(m=1)", "unknown operator 'gem'.*did you mean 'gemm'"),
    ("estimate gemm(m=0,n=1,k=1)", r"operator:1:8: m must be an integer"),
    (f"estimate {GEMM} --calibrate random", "--input-shape and --calibrate are for ONNX files"),
    ("compile open.onnx", r"open\.onnx: .*batch.*--input-shape x:"),
    ("compile open.onnx --input-shape z:1x3", "no input is named 'z'"),
    ("compile open.onnx --input-shape x:3", "expected 2 dimensions, found 1"),
    ("compile open.onnx --input-shape x:1xq", "--input-shape 'x:1xq': expected NAME:SIZExSIZE"),
    ("compile open.onnx --input-shape x:0x3", "--input-shape 'x:0x3': expected NAME:SIZExSIZE"),
    ("estimate net.onnx --calibrate", "expected one argument"),
    ("estimate net.onnx --symbol n", "--symbol 'n': expected NAME=EXTENT"),
    # targets
    (f"estimate {GEMM} -t gemini", "unknown target 'gemini'; did you mean 'gemmini'"),
    (f"estimate {GEMM} -O dims=8", "unknown option 'dims'; did you mean 'dim'"),
    (f"estimate {GEMM} -O dim=3", "option 'dim': expected an integer from 4 to 1024, found '3'"),
    (f"estimate {GEMM} -O dim=3.5", "option 'dim': expected an integer from 4 to 1024, found '3.5'"),
    (f"check {GEMM} -O dim=1000000000000000000000", "option 'dim': expected an integer from 4 to 1024"),
    (f"compile {GEMM} -O dim", "--option 'dim': expected KEY=VALUE"),
    (f"estimate {GEMM} -O dim=8 -O dim=16", "--option 'dim' is given twice"),
    (f"estimate {GEMM} -O dataflow=is", "option 'dataflow': expected one of auto, ws, os, found 'is'"),
    ("describe gemini", "unknown target 'gemini'; did you mean 'gemmini'"),
    ("describe gemmini -O dim=0", "target 'gemmini': option 'dim': expected an integer from 4 to 1024, found '0'"),
    (f"estimate {GEMM} --host nowhere", "unknown host 'nowhere'"),
    (f"estimate {GEMM} -t missing.py", r"missing\.py: no such file"),
    (f"estimate {GEMM} -t graph.py", r"graph\.py:15: target 'mine_graph', its graph at dim=8: KeyError: 'size'"),
    (f"estimate {GEMM} -t emit.py", r"emit\.py:17: target 'mine_emit', gemm \(gemm .*\), the instructions of .*: "
                                    r"AttributeError: .*'rows'\n    return gemm\.rows"),
    (f"estimate {GEMM} -t instr.py", r"instr\.py:17: target 'mine_instr', gemm .*: mvin: expected the attributes "
                                     r"\(dram, .*\), found \(rows\)\n    return \[Instr\.make\('mvin', rows=1\)\]"),
    (f"estimate {GEMM} -t size.py", r"size\.py:17: target 'mine_size', gemm .*: the mapping has no tile size for 'kk' "
                                    r"\(it has: .*\)\n    return mapping\.size\('kk'\)"),
    (f"estimate {GEMM} -t rows.py", r"target 'mine_rows', gemm \(gemm .*\), the instructions of gemm .*: "
                                    r".*mvin"),
    *((f"estimate {GEMM} -t {name}.py", message) for name, (_, message) in MISUSES.items()),
    (f"estimate {GEMM} -t syntax.py", r"syntax\.py:2: SyntaxError: "),
    (f"estimate {GEMM} -t raises.py", r"raises\.py:2: ZeroDivisionError: division by zero"),
    (f"estimate {GEMM} -t empty.py", r"empty\.py: expected a file that registers one target"),
    # graphs and descriptions
    *((f"describe {name}.py", message) for name, (_, message) in GRAPHS.items()),
    ("describe empty.py", "expected one architecture graph at the top level"),
    ("describe def.py", "SyntaxError"),
    ("describe isa.taidl", r"isa\.taidl:3:\d+: .*spat"),
    ("describe bracket.taidl", r"bracket\.taidl:2:\d+: .*\n.*\n +\^"),
    ("describe type.taidl", r"type\.taidl:3:"),
    ("describe outside.taidl", r"outside\.taidl:3:"),
    ("describe nope.taidl", "there is no file"),
    ("isa nope", "there is no ISA 'nope'"),
    ("isa nope.taidl", r"there is no file nope\.taidl"),
    ("isa gemmini -O dim=two", "--option dim=two: a parameter of an ISA is an integer"),
    ("isa gemmini -O dim=2", r"parameter dim of ISA gemmini must be in 4\.\.1024, found 2"),
    ("isa none.taidl", r"none\.taidl"),
    ("isa dims.taidl", r"dims\.taidl:3:8: expected the end of a dimension .*in braces, .* found '\*'"),
    ("isa row.taidl", r"row\.taidl:3:11: %A is 16xi8, but \$v\[a\] is 1x16xi8"),
    # what is written
    (f"compile {GEMM} -o net.pdf", r"--output net\.pdf: expected one of \.loom .*\.zip .*found '\.pdf'"),
    (f"estimate {GEMM} -o report.txt", r"expected one of \.json \(JSON\), \.csv .*found '\.txt'"),
    (f"estimate {GEMM} -o report.json --csv", "is to be JSON by its name"),
    (f"compile {GEMM} -o no/a.loom", "the folder .* does not exist"),
    (f"trace {GEMM} -o trace.pdf", r"expected one of \.json .*\.json\.gz"),
    (f"trace {GEMM} -o t.json --from -1", "--from: expected a cycle of at least 0, found -1"),
    (f"trace {GEMM} -o t.json --cycles 0", "--cycles: expected at least 1, found 0"),
    (f"trace {GEMM} -o t.json --from 99999999",
     "the window begins at cycle 99999999, but the last cycle of the run is"),
    (f"trace {GEMM} -o t.json --from {10**30}", f"begins before cycle {2**62}, not at {10**30}"),
    (f"trace {GEMM} -o t.json --layer conv", "no layer 'conv'"),
    (f"trace {GEMM} -o t.json -t gemmin", "gemmin"),
    ("trace nothing.asm -o t.json", r"nothing\.asm: no such file"),
    ("describe gemmini --svg gemmini.png", r"--svg gemmini\.png: expected one of \.svg"),
    ("isa gemmini -o manual.pdf", r"expected one of \.md .*\.html"),
    # artifacts, streams, arrays
    ("run net.onnx -i x.npz -o y.npz", "expected an artifact, found a network: archloom compile"),
    *((words, message) for name, message in (
        ("nope.loom", r"nope\.loom: no such artifact"), ("half.loom", "half-written: manifest.json is missing"),
        ("labels.txt", "neither a directory nor a complete zip"),
    ) for words in (f"report {name}", f"run {name} -i x.npz -o y.npz")),
    *((f"asm {name}.asm", message) for name, (_, message) in STREAMS.items()),
    ("asm nope.asm", "no such file"),
    ("asm bytes.asm", "neither assembly text nor a binary stream"),
    ("asm short.bin", "truncated"),
    ("asm isa.asm", "unknown|no ISA"),
    ("asm x --binary", "--binary: give --output"),
    ("asm half.loom", r"manifest\.json is missing"),
    (f"check {GEMM} --samples 0", "--samples: expected at least 1"),
    (f"check {GEMM} --most-instructions 2", "layer gemm: .* at most 2, and this one has"),
    (f"check {GEMM} --labels l.npy", "--labels: give the inputs"),
    (f"check {GEMM} --inputs labels.txt", r"labels\.txt"),
    # names in other capitals, sizes and flags that do not go together, files of another kind
    ("estimate RESNET50", "no network by that name; did you mean 'resnet50'"),
    (f"estimate {GEMM.replace('gemm', 'GEMM')}", "unknown operator 'GEMM'; did you mean 'gemm'"),
    ("estimate mobilenet_v2(image=64", "network:1:22: expected ',' or '\\)', found the end of the text"),
    ("estimate digits_cnn(image=8)", "digits_cnn is of one size"),
    (f"estimate {GEMM} -t gemmini,", "expected a name before and after each comma, found none in 'gemmini,'"),
    (f"estimate {GEMM} -O energy=nope.toml", r"^archloom: nope\.toml: no such file"),
    ("estimate negative.csv", r"negative\.csv:2: .*k must be an integer from 1 to .*found -3"),
    ("estimate hf:nope", "^archloom: hf:nope: expected the name of a model or configuration"),
    (f"check {GEMM} --samples few", "--samples: expected an integer, found 'few'"),
    ("describe gemmini --df --dot", "--dot: not allowed with argument --df"),
    ("targets empty.py", r"empty\.py: expected a file that registers targets"),
    ("map --gemm 9999999999x4x4 -t wormhole", "expected MxNxK, such as 64x64x64, of at most nine digits each"),
    (f"sweep {GEMM} -O dim=8,16 --sampler nope", "sampler 'nope': unknown"),
    (f"sweep {GEMM} -O dim=8,16 --weight 1 --weight 2", "weights: expected 1 positive numbers"),
    (f"sweep {GEMM} -O dim=8,16 --weight -1", "weights: expected 1 positive numbers"),
    ("sweep nope.onnx -O dim=8,16", r"nope\.onnx: no such file"),
    ("sweep mobilenet_v4 -O dim=8,16", r"no network by that name; did you mean 'mobilenet_v[23]'"),
    ("sweep resnet18(imag=64) -O dim=8,16", "unknown parameter 'imag'"),
    ("sweep gemm(m=4,q=4) -O dim=8,16", "unknown parameter 'q'"),
    ("search nope.py", r"nope\.py: no such file"),
    ("estimate hf:LlamaConfig(num_hidden_layers=-1)", "num_hidden_layers: expected a number of at least 0, found -1"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("wrong")
    for name, content in FILES.items():
        (root / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    onnx.save(onnx_model(operators.parse(GEMM)), root / "net.onnx")
    onnx.save(model([op("Relu", "x")], tensor("x", ["batch", 3]), free(2)), root / "open.onnx")
    (root / "half.loom").mkdir()
    np.savez(root / "x.npz", x=np.zeros(3))
    return root


@pytest.mark.parametrize(("line", "message"), WRONG, ids=[line or "nothing" for line, _ in WRONG])
def test_wrong_input(
    folder: Path, line: str, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    with forgotten_after():
        try:
            status: object = cli.main(line.split())
        except SystemExit as stop:  # argparse's way
            status = stop.code
    out, err = capsys.readouterr()
    assert (status, out) == (2, "") and re.search(message, err, re.DOTALL), err
    assert len(err.strip().splitlines()) <= 3 and "Traceback" not in err
    assert sorted(folder.iterdir()) == before


def test_each_is_another_one() -> None:
    assert len({line for line, _ in WRONG}) == len(WRONG)


def test_names_are_suggested_in_any_capitals_and_long_lists_are_cut() -> None:
    assert nearest("RESNET50", ["resnet18", "resnet50"]) == "; did you mean 'resnet50'?"
    assert nearest("gemm", ["Gemm", "gemm"]) == "; did you mean 'gemm'?" and nearest("x", ["resnet50"]) == ""
    names = [f"layer{i:03}" for i in range(LISTED + 2)]
    assert suggest("q", names[:-2]).endswith(f"{names[LISTED - 1]})")
    assert suggest("q", names).endswith(f"{names[LISTED - 1]} and 2 more)")


def test_two_dashes_are_no_value_of_any_option(capsys: pytest.CaptureFixture[str]) -> None:
    parser = cli.build_parser()
    (commands,) = [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    options = [(name, action.option_strings[0]) for name, command in commands.items() for action in command._actions
               if action.option_strings and action.nargs != 0]
    assert len(options) > 50
    for command, flag in options:
        with pytest.raises(SystemExit):
            parser.parse_args([command, *((f"{flag}=--",) if flag.startswith("--") else (f"{flag}--",))])
        assert "expected a value, found '--'" in capsys.readouterr().err, (command, flag)
