"""Records what Arm's Vela says of random int8 layers on an Ethos-U55: ``benchmarks/data/vela.json``.

Runs in an environment of its own (``pip install ethos-u-vela``), not in this project's. Each layer is a TensorFlow Lite
file of one convolution, depthwise convolution or fully connected layer, written with Vela's own classes of the format;
Vela compiles it for 128 and 256 multipliers and states cycles as its model of performance has them. ``python
vela_layers.py COUNT`` prints the data.
"""

from __future__ import annotations

import csv
import importlib
import json
import random
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

SEED = 24
CONFIGURATIONS = {"128": "ethos-u55-128", "256": "ethos-u55-256"}
COMMAND = ("--config", "Arm/vela.ini", "--system-config", "Ethos_U55_High_End_Embedded", "--memory-mode",
           "Shared_Sram", "--verbose-performance")
COLUMNS = {"all": "Op Cycles", "array": "NPU", "sram": "SRAM AC", "flash": "OffFlash AC"}
"""Cycles of a layer, which are the most of those of the array and of the memories, and each of them."""

KINDS = {"conv2d": 3, "depthwise": 4, "dense": 9}
"""Operators, and their codes in the format."""

INT8, INT32, SAME, OPTIONS = 9, 2, 0, {"conv2d": 1, "depthwise": 2, "dense": 8}


def layers(count: int) -> list[dict[str, Any]]:
    """Sizes as networks for small devices have them, drawn at random."""
    rng = random.Random(SEED)
    found = []
    while len(found) < count:
        kind = rng.choice(("conv2d", "conv2d", "depthwise", "dense"))
        image, channels = rng.choice((7, 14, 28, 56)), rng.choice((8, 16, 24, 32, 64, 96, 128, 256))
        made: dict[str, Any] = {"kind": kind, "channels": channels}
        if kind == "dense":
            made |= {"channels": 4 * channels, "outputs": 4 * rng.choice((16, 64, 128, 256))}
        else:
            made |= {"image": image, "kernel": rng.choice((1, 3, 3, 5)), "stride": rng.choice((1, 1, 2)),
                     "outputs": channels if kind == "depthwise" else rng.choice((16, 32, 64, 96, 128, 256))}
        if (kind == "depthwise" and made["kernel"] == 1) or made in found:
            continue
        found.append(made)
    return found


def written(layer: dict[str, Any]) -> bytes:
    """The layer as a file of TensorFlow Lite."""
    import flatbuffers

    b = flatbuffers.Builder(1 << 20)
    x, w, y = _shapes(layer)
    rng = np.random.default_rng(SEED)
    weights = rng.integers(-127, 128, w).astype(np.int8)
    bias = rng.integers(-1000, 1000, y[-1]).astype(np.int32)
    buffers = [_buffer(b, data) for data in (b"", weights.tobytes(), bias.tobytes())]
    axis = 3 if layer["kind"] == "depthwise" else 0
    scales = np.full(y[-1], 0.01, np.float32)
    tensors = [
        _tensor(b, "x", x, INT8, 0, np.array([0.05], np.float32), 0),
        _tensor(b, "w", w, INT8, 1, scales, axis),
        _tensor(b, "b", (y[-1],), INT32, 2, 0.05 * scales, 0),
        _tensor(b, "y", y, INT8, 0, np.array([0.1], np.float32), 0)]
    return _model(b, layer, tensors, buffers)


def _shapes(layer: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    c, o = layer["channels"], layer["outputs"]
    if layer["kind"] == "dense":
        return (1, c), (o, c), (1, o)
    n, k = layer["image"], layer["kernel"]
    out = -(-n // layer["stride"])
    return (1, n, n, c), (1, k, k, c) if layer["kind"] == "depthwise" else (o, k, k, c), (1, out, out, o)


def _tables(name: str) -> Any:
    return importlib.import_module(f"ethosu.vela.tflite.{name}")


def _table(b: Any, name: str, **fields: Any) -> int:
    module = _tables(name)
    getattr(module, f"{name}Start")(b)
    for field, value in fields.items():
        getattr(module, f"{name}Add{field}")(b, value)
    return int(getattr(module, f"{name}End")(b))


def _vector(b: Any, values: Any) -> int:
    return int(b.CreateNumpyVector(np.asarray(values)))


def _offsets(b: Any, offsets: list[int]) -> int:
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return int(b.EndVector())


def _buffer(b: Any, data: bytes) -> int:
    if not data:
        return _table(b, "Buffer")
    b.StartVector(1, len(data), 16)
    b.head -= len(data)
    b.Bytes[b.head:b.head + len(data)] = data
    return _table(b, "Buffer", Data=b.EndVector())


def _tensor(b: Any, name: str, shape: tuple[int, ...], kind: int, buffer: int, scale: np.ndarray, axis: int) -> int:
    called, sizes = b.CreateString(name), _vector(b, np.array(shape, np.int32))
    scales, zeros = _vector(b, scale), _vector(b, np.zeros(len(scale), np.int64))
    by = _table(b, "QuantizationParameters", Scale=scales, ZeroPoint=zeros, QuantizedDimension=axis)
    return _table(b, "Tensor", Shape=sizes, Type=kind, Buffer=buffer, Name=called, Quantization=by)


def _options(b: Any, layer: dict[str, Any]) -> int:
    if layer["kind"] == "dense":
        return _table(b, "FullyConnectedOptions")
    common = {"Padding": SAME, "StrideW": layer["stride"], "StrideH": layer["stride"]}
    if layer["kind"] == "conv2d":
        return _table(b, "Conv2DOptions", **common, DilationWFactor=1, DilationHFactor=1)
    return _table(b, "DepthwiseConv2DOptions", **common, DepthMultiplier=1, DilationWFactor=1, DilationHFactor=1)


def _model(b: Any, layer: dict[str, Any], tensors: list[int], buffers: list[int]) -> bytes:
    code = KINDS[layer["kind"]]
    options = _options(b, layer)
    inputs, outputs = _vector(b, np.array([0, 1, 2], np.int32)), _vector(b, np.array([3], np.int32))
    operator = _table(b, "Operator", OpcodeIndex=0, Inputs=inputs, Outputs=outputs,
                      BuiltinOptionsType=OPTIONS[layer["kind"]], BuiltinOptions=options)
    all_tensors, operators = _offsets(b, tensors), _offsets(b, [operator])
    ins, outs = _vector(b, np.array([0], np.int32)), _vector(b, np.array([3], np.int32))
    graph = _table(b, "SubGraph", Tensors=all_tensors, Inputs=ins, Outputs=outs, Operators=operators)
    codes = _offsets(b, [_table(b, "OperatorCode", DeprecatedBuiltinCode=code, BuiltinCode=code, Version=3)])
    graphs, data = _offsets(b, [graph]), _offsets(b, buffers)
    b.Finish(_table(b, "Model", Version=3, OperatorCodes=codes, Subgraphs=graphs, Buffers=data), b"TFL3")
    return bytes(b.Output())


def cycles(content: bytes, configuration: str) -> dict[str, float]:
    """Cycles of the whole file as Vela prints them (:data:`COLUMNS`)."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "net.tflite"
        file.write_bytes(content)
        vela = Path(sys.executable).with_name("vela")
        done = subprocess.run([str(vela), str(file), "--accelerator-config", configuration, "--output-dir", folder,
                               *COMMAND], capture_output=True, text=True, check=False)
        found = list(Path(folder).glob("*per-layer*.csv"))
        if done.returncode or not found:
            raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
        rows = list(csv.DictReader(found[0].read_text().splitlines()))
    return {name: sum(float(row[column]) for row in rows) for name, column in COLUMNS.items()}


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    found = [{**layer, "cycles": {name: cycles(written(layer), configuration)
                                  for name, configuration in CONFIGURATIONS.items()}} for layer in layers(count)]
    print(json.dumps({
        "source": f"ethos-u-vela {version('ethos-u-vela')}: vela net.tflite --accelerator-config ethos-u55-128 (256) "
                  + " ".join(COMMAND), "seed": SEED, "layers": found}, indent=1))


if __name__ == "__main__":
    main()
