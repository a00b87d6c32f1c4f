"""Flags that several commands share, and how their values are read."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archloom.oracle.errors import InputError, suggest
from archloom.tvm_backend import datasets, samples
from archloom.tvm_backend.commands import completion
from archloom.tvm_backend.commands.completion import completed_by
from archloom.tvm_backend.compiled import TensorSpec
from archloom.tvm_backend.files import read_arrays
from archloom.tvm_backend.sources import named_networks, operators
from archloom.tvm_backend.targets.choice import choose, named_options, spelled

if TYPE_CHECKING:
    import onnx

    from archloom.tvm_backend.model import Model
    from archloom.tvm_backend.quantization.scheme import Scheme
    from archloom.tvm_backend.sources.source import Source

Command = Callable[[argparse.Namespace], Any]
MODEL_HELP = ('an .onnx or .pt2 file, a .csv of layers, a network of the catalogue (archloom networks), a '
              'configuration of transformers (hf:LlamaConfig(num_hidden_layers=2), hf:config.json), or an operator '
              'such as "gemm(m=512,n=512,k=512)"')
_RANDOM_SAMPLES, _DATA_SET_SAMPLES = 8, 128


def command(subparsers: Any, name: str, run: Command, summary: str, details: str = "") -> argparse.ArgumentParser:
    """A sub-command with ``--json`` and ``--quiet``; ``run`` takes the parsed arguments and returns an Outcome."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}. {details}".strip())
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    parser.add_argument("--quiet", "-q", action="store_true", help="show no progress on a terminal")
    parser.set_defaults(run=run, parser=parser)
    return parser


def add_target(parser: argparse.ArgumentParser) -> None:
    target = parser.add_argument(
        "--target", "-t", default="gemmini", metavar="NAME[,NAME]",
        help="accelerator (a name, or a .py file of your own that registers one), or several in order of preference "
             "(default: gemmini)")
    option = parser.add_argument(
        "--option", "-O", action="append", default=[], metavar="KEY=VALUE",
        help="an option of the target, such as dim=32 (gemmini.dim=32 of several); repeatable")
    completed_by(target, completion.targets)
    completed_by(option, completion.options)


def _named(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("expected a file or an operator, found an empty text")
    return text


def add_model(parser: argparse.ArgumentParser) -> None:
    completed_by(parser.add_argument("model", metavar="MODEL", type=_named, help=MODEL_HELP), completion.models)
    parser.epilog = "Operators as text: " + ", ".join(
        f"{name}({','.join(sizes)})" for name, sizes in operators.listed().items())
    add_loading(parser)


def add_int8(parser: argparse.ArgumentParser, what: str = "a float network as if it were") -> None:
    parser.add_argument("--int8", "--as-int8", dest="as_int8", action="store_true",
                        help=f"take {what} quantized to int8, without calibration")


def add_loading(parser: argparse.ArgumentParser) -> None:
    """``--input-shape``, and ``--calibrate`` and how it quantizes."""
    parser.add_argument("--input-shape", action="append", default=[], metavar="NAME:1x3x224x224",
                        help="shape of an input that the model leaves open; repeatable")
    parser.add_argument("--calibrate", metavar="FILE.npz|random[:N]|digits[:N]",
                        help="quantize a float model to int8 first, with these inputs, N random ones (default 8), or N "
                             "of a data set (default 128)")
    parser.add_argument("--calibration", choices=("minmax", "percentile", "entropy"),
                        help="how --calibrate takes ranges from the inputs (default minmax)")
    parser.add_argument("--percentile", type=float, metavar="P",
                        help="per cent of the values that --calibration percentile keeps (default 99.999)")
    parser.add_argument("--per-channel", action="store_true",
                        help="with --calibrate: a scale for each output channel of a weight")
    parser.add_argument("--asymmetric", action="store_true", help="with --calibrate: zero points for activations")
    parser.add_argument("--float-results", action="store_true",
                        help="with --calibrate: matrix products give float32, not int8")


def add_output(parser: argparse.ArgumentParser, what: str, required: bool = False) -> None:
    parser.add_argument("--output", "-o", type=Path, metavar="PATH", help=what, required=required)


def suffix_of(path: Path, kinds: Mapping[str, str], flag: str = "--output") -> str:
    """The ending of a file that is to be written, one of ``kinds`` (by ending, what is written there); InputError
    otherwise. What is there and no file has any: who writes says what is wrong with it."""
    if path.exists() and not path.is_file():
        return next(iter(kinds))
    for suffix in sorted(kinds, key=len, reverse=True):
        if path.name.lower().endswith(suffix) if suffix else not path.suffix:
            return suffix
    shown = ", ".join(f"{suffix or 'no ending'} ({what})" for suffix, what in kinds.items())
    raise InputError(f"{flag} {path}: expected one of {shown}; found {path.suffix or 'no ending'!r}")


def options(pairs: Sequence[str]) -> dict[str, str]:
    """``["dim=16"]`` → ``{"dim": "16"}``; the target reads the values."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals and value):
            raise InputError(f"--option {pair!r}: expected KEY=VALUE, such as dim=16")
        if key in found:
            raise InputError(f"--option {key!r} is given twice: {found[key]!r} and {value!r}")
        found[key] = value
    return found


def target_options(args: argparse.Namespace) -> dict[str, Any]:
    """The options of the targets with their values checked, before anything slow begins.

    ``args.target`` becomes the names of the targets, where it has files.
    """
    args.target = spelled(args.target)
    return named_options(choose(args.target, options(args.option)))


def is_size(text: str) -> bool:
    """Whether a text is a positive integer of at most 18 digits: Python reads no integer of thousands of them."""
    return re.fullmatch(r"0{0,18}[1-9][0-9]{0,17}", text) is not None


def shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """``["image:1x3x224x224"]`` → ``{"image": (1, 3, 224, 224)}``."""
    return _sizes(texts, ":", "x", "--input-shape", "input", "NAME:SIZExSIZE..., such as image:1x3x224x224")


def symbols(texts: Sequence[str]) -> "dict[str, int | list[int]]":
    """``["n=16,32", "batch=1"]`` → ``{"n": [16, 32], "batch": 1}``."""
    found = _sizes(texts, "=", ",", "--symbol", "symbol", "NAME=EXTENT,EXTENT..., such as batch=1,8")
    return {name: list(sizes) if len(sizes) > 1 else sizes[0] for name, sizes in found.items()}


def _sizes(
    texts: Sequence[str], behind: str, between: str, flag: str, what: str, expected: str
) -> dict[str, tuple[int, ...]]:
    """Sizes by the names that stand before them, the values of a flag; InputError for a text that is not as
    ``expected``."""
    found: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, _, sizes = text.rpartition(behind)
        parts = sizes.split(between)
        if not name or not all(map(is_size, parts)):
            raise InputError(f"{flag} {text!r}: expected {expected}")
        if name in found:
            raise InputError(f"{flag}: {what} {name!r} is given twice")
        found[name] = tuple(map(int, parts))
    return found


def source(args: argparse.Namespace) -> "Source":
    """What MODEL is; an operator takes neither shapes nor calibration, and a network of the catalogue no shapes."""
    from archloom.tvm_backend.sources.source import Source

    found = Source.of(args.model)
    if found.kind == "name":
        named_networks.refuse_options(args.model, **{"--input-shape": args.input_shape})
    if found.kind in ("operator", "layers") and (args.input_shape or args.calibrate):
        raise InputError(f"{args.model}: --input-shape and --calibrate are for ONNX files, not for operators")
    return Source.of(args.model, input_shapes=shapes(args.input_shape) or None)


def load_model(args: argparse.Namespace) -> "Model":
    """MODEL, quantized first if that was asked for, and imported."""
    how = scheme(args)
    found = source(args)
    if args.calibrate is None:
        return found.load_for(args.target)
    from archloom.tvm_backend.frontends.onnx.files import read_onnx
    from archloom.tvm_backend.frontends.onnx.guard import refuse_faults
    from archloom.tvm_backend.frontends.onnx.load import load_proto, with_static_inputs
    from archloom.tvm_backend.quantization.quantize import quantize

    path = Path(args.model)
    floats = found.quantizable() if found.kind in ("program", "name") else with_static_inputs(
        read_onnx(path), str(path), shapes(args.input_shape))
    refuse_faults(floats, str(path))
    proto = quantize(floats, _batches(_inputs(floats, str(path)), args.calibrate), how)
    return replace(load_proto(proto, path.stem), floats=floats)


def _batches(inputs: list[TensorSpec], spec: str) -> list[samples.Batch]:
    """What ``--calibrate`` names: an array file, a data set (``digits[:N]``) or ``random[:N]``."""
    word, colon, number = spec.partition(":")
    if (word != "random" and not datasets.is_named(word)) or Path(spec).exists():
        return samples.batches(samples.read(Path(spec), inputs), inputs, spec)
    if colon and not is_size(number):
        raise InputError(f"--calibrate {spec!r}: expected {word}:N with N at least 1")
    if word == "random":
        return samples.random(inputs, int(number or _RANDOM_SAMPLES))
    return samples.batches(datasets.training(word, inputs, int(number or _DATA_SET_SAMPLES)).inputs, inputs, spec)


def _inputs(proto: "onnx.ModelProto", label: str) -> list[TensorSpec]:
    from archloom.tvm_backend.frontends.onnx.dynamic import dtype_of
    from archloom.tvm_backend.frontends.onnx.editor import inputs_of

    kinds = {info.name: info.type.tensor_type for info in inputs_of(proto.graph)}
    return [TensorSpec(name, tuple(d.dim_value for d in kind.shape.dim),
                       dtype_of(kind.elem_type, f"{label}: input {name!r}")) for name, kind in kinds.items()]


def scheme(args: argparse.Namespace) -> "Scheme":
    """How ``--calibrate`` quantizes; InputError where something is asked of it that is not used."""
    from archloom.tvm_backend.quantization.scheme import Scheme

    given = {"--calibration": args.calibration, "--percentile": args.percentile, "--per-channel": args.per_channel,
             "--asymmetric": args.asymmetric, "--float-results": args.float_results}
    for flag, value in given.items():
        if value and args.calibrate is None:
            raise InputError(f"{flag}: only with --calibrate, which quantizes the model")
    if args.percentile is not None and args.calibration != "percentile":
        raise InputError("--percentile: only with --calibration percentile")
    percentile = Scheme.percentile if args.percentile is None else args.percentile
    return Scheme(args.calibration or "minmax", args.per_channel, not args.asymmetric, percentile, args.float_results)


def add_samples(parser: argparse.ArgumentParser, otherwise: str) -> None:
    """``--inputs`` and ``--labels``; ``otherwise`` says what is done without them."""
    parser.add_argument("--inputs", metavar="FILE|digits",
                        help=f".npz or .npy of samples, or a data set by name, with its labels ({otherwise})")
    parser.add_argument("--labels", type=Path, metavar="FILE", help=".npy of class numbers, for accuracy")


def labels(args: argparse.Namespace) -> Any:
    """The array of ``--labels``, if there is one; InputError where it is not one, or inputs are missing."""
    if args.labels is None:
        return None
    if not args.inputs:
        raise InputError("--labels: give the inputs that they belong to with --inputs")
    arrays = read_arrays(args.labels)
    if not isinstance(arrays, dict):
        return arrays
    if len(arrays) != 1:
        raise InputError(f"{args.labels}: expected one array of class numbers, found {', '.join(arrays) or 'none'}")
    return next(iter(arrays.values()))


def layer_of(where: str, names: list[str], asked: str | None) -> str:
    """The layer that is asked for; the only one where there is one."""
    if asked is None:
        if len(names) != 1:
            raise InputError(f"{where}: say which layer with --layer (it has: {', '.join(names) or 'none'})")
        return names[0]
    if asked not in names:
        raise InputError(f"{where}: no layer {asked!r}{suggest(asked, names)}")
    return asked
