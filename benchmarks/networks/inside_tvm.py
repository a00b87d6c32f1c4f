"""Networks that TVM compiles with archloom's targets as its backends, beside :func:`archloom.compile`.

Of every network's small form on four targets, and of three networks on all others: the module that archloom imported
goes through ``partition_for``, ``RunCodegen``, ``tvm.compile`` and TVM's virtual machine (``equal``: all results are
bit for bit those of ``archloom.compile``); the library is saved, and loaded by a process that only imports TVM
(``reload_equal``). ResNet-50 and BERT-base in full on Gemmini are timed in turns: region by region, with all in one
function (``merge=True``), and as ``archloom.compile`` runs them. ``call_us`` is what a region's call takes in the
virtual machine beyond the region itself, for a product of 16 x 16 x 16.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.models import catalogue
from archloom.oracle.errors import ArchloomError
from archloom.tvm_backend.targets.registry import BUILT_IN
from benchmarks import common
from benchmarks.networks import networks

TARGETS = ("gemmini", "amx", "qkv", "wormhole")
ELSEWHERE = ("resnet18", "lstm_keywords", "bert_base")
TIMED = ("resnet50", "bert_base")
LIMIT = 1200
"""Seconds for a row."""


def main() -> None:
    args = common.arguments(__doc__ or "", _more, seeded=True)
    if args.reload:
        print(json.dumps({path.stem: reloaded(path) for path in sorted(Path(args.reload).glob("*.so"))}))
        return
    if args.timed:
        print(json.dumps(timed(args.timed, args.seed)))
        return
    if args.call:
        print(json.dumps(call_us(args.seed)))
        return
    if args.part:
        measure_part(args)
        return
    with tempfile.TemporaryDirectory(prefix="archloom-inside-tvm-") as folder:
        rows = in_parts(args, folder)
        again = common.child([sys.executable, __file__, "--reload", folder])
        found = again.last_json if again.status == 0 else {}
    seed = str(args.seed)
    for number, row in enumerate(rows):
        row["reload_equal"] = bool(found.get(str(number), False))
    times = {name: common.child([sys.executable, __file__, "--timed", name, "--seed", seed]).last_json for name in TIMED
             if not args.only or name in args.only.split(",")}
    call = common.child([sys.executable, __file__, "--call", "--seed", seed]).last_json
    rows += [{"name": name, "target": "gemmini", **row} for name, row in times.items()]
    common.finish(args, {
        "networks_run": len(rows), "networks_equal": sum(row["equal"] for row in rows),
        "equal_share": sum(row["equal"] for row in rows) / len(rows),
        "networks_reload_equal": sum(row["reload_equal"] for row in rows), "call_us": call,
        "reload_equal_share": sum(row["reload_equal"] for row in rows) / len(rows),
        "targets": len({row["target"] for row in rows}), "networks": rows,
        **{f"{name}_over_archloom": row["seconds_vm"] / row["seconds_archloom"] for name, row in times.items()},
        **{f"{name}_merged_over_archloom": row["seconds_vm_merged"] / row["seconds_archloom"]
           for name, row in times.items()}})


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", metavar="NAME,...", help="these networks (default: all)")
    parser.add_argument("--targets", metavar="NAME,...", help="these targets (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="processes for the small networks (default: 2)")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--reload", help=argparse.SUPPRESS)
    parser.add_argument("--timed", help=argparse.SUPPRESS)
    parser.add_argument("--call", action="store_true", help=argparse.SUPPRESS)


def cases(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Network and target of each row."""
    pairs = [(name, target) for target in TARGETS for name in catalogue.BY_NAME]
    pairs += [(name, target) for target in BUILT_IN if target not in TARGETS for name in ELSEWHERE]
    names, targets = (value.split(",") if value else None for value in (args.only, args.targets))
    return [(n, t) for n, t in pairs if (names is None or n in names) and (targets is None or t in targets)]


def in_parts(args: argparse.Namespace, folder: str) -> list[dict[str, Any]]:
    """The rows of all cases, which processes share."""
    chosen = [word for name in ("only", "targets") if (value := getattr(args, name))
              for word in (f"--{name}", value)]
    parts = [subprocess.Popen([sys.executable, __file__, *chosen, "--jobs", str(args.jobs), "--part", str(part),
                               "--folder", folder, "--seed", str(args.seed)]) for part in range(args.jobs)]
    for part in parts:
        part.wait()
    rows = {int(path.stem): json.loads(path.read_text()) for path in Path(folder).glob("*.json")}
    return [rows.get(number, {"name": name, "target": target, "equal": False, "reason": "its process ended"})
            for number, (name, target) in enumerate(cases(args))]


def measure_part(args: argparse.Namespace) -> None:
    """The rows of one process, each in a file."""
    networks._load_modules()
    for number, (name, target) in enumerate(cases(args)):
        if number % args.jobs == int(args.part):
            row = in_process(name, target, Path(args.folder) / f"{number}.so", args.seed)
            (Path(args.folder) / f"{number}.json").write_text(json.dumps(row))


def in_process(name: str, target: str, library: Path, seed: int) -> dict[str, Any]:
    run = common.forked(lambda: measured(name, target, library, seed), LIMIT)
    row: dict[str, Any] = {"name": name, "target": target, "equal": False}
    row |= run.last_json if run.status == 0 else {"reason": f"the process ended with status {run.status}"}
    print(f"{'ok  ' if row['equal'] else 'FAIL'} {name:16} {target:14} {run.cpu_seconds:6.1f} s "
          f"{row.get('reason', '')}", flush=True)
    return row


def measured(name: str, target: str, library: Path, seed: int) -> dict[str, Any]:
    """One network on one target, compiled both ways; the library and what it is to give are left in a folder."""
    import tvm
    from tvm import relax

    import archloom

    options = networks.OPTIONS.get(target, {})
    try:
        source, _, inputs = networks.prepared(catalogue.tiny(name), target, seed)
        model = source()
        network = archloom.compile(model, target=target, options=options)
        given = [np.asarray(inputs[spec.name]) for spec in model.inputs]
        expected = _arrays(network(*given))
        module = archloom.tvm.partition_for(target, model.module, **options)
        executable = tvm.compile(relax.transform.RunCodegen()(module), target="llvm")
        machine = relax.VirtualMachine(executable, tvm.cpu())
        tensors = [tvm.runtime.tensor(x) for x in given]
        made = _arrays(machine["main"](*tensors))
        times = common.interleaved([lambda: machine["main"](*tensors), lambda: network(*given)], rounds=3)
        executable.export_library(str(library))
    except ArchloomError as error:
        return {"equal": False, "reason": f"{type(error).__name__}: {error}"}
    arrays = {f"input{i:03}": x for i, x in enumerate(given)} | {f"result{i:03}": y for i, y in enumerate(expected)}
    np.savez(library.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]
    return {"equal": _equal(made, expected), "regions": len(network.compiled.regions), "seconds_vm": times[0],
            "seconds_archloom": times[1]}


def reloaded(library: Path) -> bool:
    """Whether a library gives what the network that it was made of gives."""
    import tvm
    from tvm import relax

    with np.load(library.with_suffix(".npz")) as arrays:
        given = [arrays[k] for k in sorted(arrays) if k.startswith("input")]
        expected = [arrays[k] for k in sorted(arrays) if k.startswith("result")]
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    return _equal(_arrays(machine["main"](*[tvm.runtime.tensor(x) for x in given])), expected)


def timed(name: str, seed: int) -> dict[str, Any]:
    """A network in full, in the virtual machine and as archloom runs it, in turns."""
    import tvm
    from tvm import relax

    import archloom

    model = archloom.load(common.resnet50_int8() if name == "resnet50" else common.network_int8(name))
    rng = np.random.default_rng(seed)
    given = [rng.integers(0, 2, s.shape).astype(s.dtype) if "int" in s.dtype else
             rng.standard_normal(s.shape).astype(s.dtype) for s in model.inputs]
    network = archloom.compile(model, target="gemmini")
    begin = time.perf_counter()
    module = relax.transform.RunCodegen()(archloom.tvm.partition_for("gemmini", model.module))
    executable = tvm.compile(module, target="llvm")
    compiled = time.perf_counter() - begin
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    tensors = [tvm.runtime.tensor(x) for x in given]
    same = _equal(_arrays(main(*tensors)), _arrays(network(*given)))
    merged = relax.transform.RunCodegen()(archloom.tvm.partition_for("gemmini", model.module, merge=True))
    whole = relax.VirtualMachine(tvm.compile(merged, target="llvm"), tvm.cpu())["main"]
    same = same and _equal(_arrays(whole(*tensors)), _arrays(network(*given)))
    machine, at_once, own = common.interleaved(
        [lambda: main(*tensors), lambda: whole(*tensors), lambda: network(*given)], rounds=31)
    with tempfile.TemporaryDirectory(prefix="archloom-inside-tvm-") as folder:
        library = Path(folder) / "0.so"
        executable.export_library(str(library))
        arrays = {f"input{i:03}": x for i, x in enumerate(given)}
        arrays |= {f"result{i:03}": y for i, y in enumerate(_arrays(network(*given)))}
        np.savez(library.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]
        again = common.child([sys.executable, __file__, "--reload", folder])
        size = library.stat().st_size
    return {"equal": same, "reload_equal": again.status == 0 and again.last_json["0"], "seconds_vm": machine,
            "seconds_vm_merged": at_once, "seconds_archloom": own, "compile_seconds": compiled, "library_bytes": size}


def call_us(seed: int) -> float:
    """Microseconds of a region's call in the virtual machine, less those of the region."""
    import jax
    import tvm
    from tvm import relax

    import archloom
    from archloom.tvm_backend.inside.library import artifacts

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((16, 16), "int8"))
    scale, zero = relax.const(0.05, "float32"), relax.const(0, "int8")
    weight = relax.const(np.random.default_rng(seed).integers(-127, 128, (16, 16)).astype("int8"))
    with builder.function("main", [x]):
        with builder.dataflow():
            left = builder.emit(relax.op.dequantize(x, scale, zero))
            right = builder.emit(relax.op.dequantize(weight, scale, zero))
            product = builder.emit(relax.op.matmul(left, right))
            out = builder.emit_output(relax.op.quantize(product, scale, zero, out_dtype="int8"))
        builder.emit_func_output(out)
    module = relax.transform.RunCodegen()(archloom.tvm.partition_for("gemmini", builder.get()))
    executable = tvm.compile(module, target="llvm")
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    network = artifacts(executable)["gemmini"]
    given = np.random.default_rng(seed + 1).integers(-127, 128, (16, 16)).astype("int8")
    tensor, array = tvm.runtime.tensor(given), jax.numpy.asarray(given)

    def many(call: Any) -> Any:
        return lambda: [call() for _ in range(200)]

    machine, alone = common.interleaved(
        [many(lambda: main(tensor)), many(lambda: network.call(0, [array])[0].block_until_ready())], rounds=15)
    return (machine - alone) / 200 * 1e6


def _arrays(results: Any) -> list[np.ndarray]:
    found = results if isinstance(results, list | tuple) or not hasattr(results, "shape") else [results]
    return [np.asarray(y) if isinstance(y, np.ndarray) else y.numpy() for y in found]


def _equal(made: list[np.ndarray], expected: list[np.ndarray]) -> bool:
    return len(made) == len(expected) and all(
        x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in zip(made, expected))


if __name__ == "__main__":
    main()
