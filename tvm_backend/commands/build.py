"""``compile`` and ``run``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from archloom.oracle.errors import InputError, counted
from archloom.oracle.fallbacks import as_field, titled
from archloom.tvm_backend import samples
from archloom.tvm_backend.artifact.files import check_free
from archloom.tvm_backend.commands import Outcome, arguments
from archloom.tvm_backend.files import write_arrays
from archloom.tvm_backend.progress import bar
from archloom.tvm_backend.report.table import duration
from archloom.tvm_backend.report.text import full_text

ARTIFACT_KINDS = {".loom": "a directory", "": "a directory", ".zip": "one file"}


def register(subparsers: Any) -> None:
    compile_ = arguments.command(
        subparsers, "compile", run_compile, "compile a network for an accelerator and save the artifact",
        "The artifact is a directory, or a zip if its name ends in .zip.")
    arguments.add_model(compile_)
    arguments.add_target(compile_)
    arguments.add_output(compile_, "where the artifact goes (default: the model's name with .loom)")
    compile_.add_argument("--coverage", action="store_true",
                          help="only say who takes which operator, and why the others do not; no artifact is made")
    run = arguments.command(
        subparsers, "run", run_run, "run a compiled network on the accelerator's bit-exact model",
        "On a machine alike to the one that saved it, and for the user who did, its machine code is run; else what is"
        " needed is compiled first.")
    run.add_argument("artifact", type=Path, metavar="DIR", help="an artifact written by compile")
    run.add_argument("--input", "-i", type=Path, required=True, metavar="FILE",
                     help=".npz with an array for each input, or .npy for a network with one")
    arguments.add_output(run, "the .npz that the outputs are written to", required=True)


def run_compile(args: argparse.Namespace) -> Outcome:
    """Compile MODEL and save it; or, with ``--coverage``, say who would take what."""
    from archloom.tvm_backend.executable import build

    if args.coverage:
        return _covered(args)
    path = args.output
    if path is None:
        operator = arguments.source(args).operator
        path = Path(f"{operator.kind if operator else Path(args.model).stem}.loom")
    arguments.suffix_of(path, ARTIFACT_KINDS)
    check_free(path)
    options = arguments.target_options(args)
    with bar(quiet=args.quiet) as progress:
        model = arguments.load_model(args)
        network = build(model, args.target, options, progress=progress)
        report = network.report
    network.save(path)
    data = {
        "model": report.model, "target": report.target, "options": dict(report.options), "artifact": str(path),
        "offloaded": [layer.name for layer in report.accelerator_layers],
        "host": [{"name": h.name, "op": h.op, "engine": h.engine, "reason": h.reason} for h in report.host],
        "offloaded_macs_share": report.offloaded_macs_share, "cycles": report.cycles, "seconds": report.seconds,
        "accelerator_cycles": report.accelerator_cycles, "host_seconds": report.host_seconds,
        **as_field(network.fallbacks),
    }
    later = titled(f for f in network.fallbacks if f not in report.fallbacks)
    return Outcome("\n\n".join(filter(None, [full_text(report), later, f"artifact     {path}"])), data)


def _covered(args: argparse.Namespace) -> Outcome:
    from archloom.tvm_backend.coverage import coverage

    if args.output is not None:
        raise InputError("--coverage and --output: no artifact is made of who takes what; leave one of them out")
    options = arguments.target_options(args)
    found = coverage(arguments.load_model(args), args.target, options)
    return Outcome(str(found), found.to_json())


def run_run(args: argparse.Namespace) -> Outcome:
    """Run an artifact on the arrays of a file; several batches along the first axis run one after the other."""
    from archloom.tvm_backend.executable import open_artifact

    arguments.suffix_of(args.output, {".npz": "arrays by name"})
    network = open_artifact(args.artifact)
    if args.output.is_dir():
        raise InputError(f"{args.output}: expected the name of an .npz file, found a directory")
    inputs = samples.read(args.input, network.compiled.inputs)
    batches = samples.batches(inputs, network.compiled.inputs, str(args.input))
    found = []
    with bar(quiet=args.quiet) as progress:
        network.prepare(progress)
        for i, batch in enumerate(batches):
            progress("running", i, len(batches))
            found.append(network.run(batch))
    outputs = {spec.name: np.concatenate([np.atleast_1d(batch[spec.name]) for batch in found])
               for spec in network.compiled.outputs}
    write_arrays(args.output, outputs)
    described = [{"name": name, "shape": list(y.shape), "dtype": str(y.dtype)} for name, y in outputs.items()]
    report = network.report
    lines = [f"{d['name']}: {d['dtype']} {'×'.join(map(str, d['shape']))}" for d in described]
    lines.append(f"{counted(len(batches), 'run')}, {duration(report.seconds)} each, of these "
                 f"{report.accelerator_cycles:,} cycles on the accelerator; written to {args.output}")
    lines += titled(network.fallbacks).splitlines()
    return Outcome("\n".join(lines), {"outputs": described, "output": str(args.output), "runs": len(batches),
                                      "seconds_per_run": report.seconds,
                                      "cycles_per_run": report.accelerator_cycles, **as_field(network.fallbacks)})
