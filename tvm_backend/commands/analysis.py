"""``check``, ``estimate`` and ``report``."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from archloom.mapper.disk import ENVIRONMENT
from archloom.oracle.errors import InputError
from archloom.tvm_backend import datasets, samples
from archloom.tvm_backend.commands import Outcome, arguments, completion
from archloom.tvm_backend.files import write_file
from archloom.tvm_backend.progress import bar
from archloom.tvm_backend.report.by_extents import ReportTable
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.report.headline import headline
from archloom.tvm_backend.report.memory import text as memory_text
from archloom.tvm_backend.report.table import size
from archloom.tvm_backend.report.text import to_csv

CHECK_FAILED = 1
FRONT_REPORTS = 10
REPORT_KINDS = {".json": "JSON", ".csv": "CSV", "": "JSON, or CSV with --csv"}


def register(subparsers: Any) -> None:
    check = arguments.command(
        subparsers, "check", run_check, "compare the accelerator with onnxruntime and with the interpreter of its ISA",
        "Exit status 1 if any layer is not bit-exact, an output is off by more than one quantization step, or nothing "
        "runs on the accelerator.")
    arguments.add_model(check)
    arguments.add_target(check)
    arguments.add_samples(check, "default: random samples")
    check.add_argument("--reference", type=Path, metavar="ONNX",
                       help="the float network that MODEL was quantized from, for its accuracy and the layers' SNR")
    check.add_argument("--samples", type=int, metavar="N", default=4, help="number of random inputs (default 4)")
    check.add_argument("--most-instructions", type=int, metavar="N",
                       help="most instructions of a layer that is interpreted (default: those of 40 s)")

    estimate = arguments.command(
        subparsers, "estimate", run_estimate, "cycles of every layer, without building anything that runs",
        "Results are cached by the contents of the model, the target and its options.")
    arguments.add_model(estimate)
    arguments.add_target(estimate)
    arguments.add_int8(estimate)
    host = estimate.add_argument(
        "--host", metavar="NAME",
        help="whose time host layers are estimated by (archloom calibrate-host), or none for the accelerator only "
             "(default: measured last, or else the one that comes along)")
    completion.completed_by(host, completion.hosts)
    estimate.add_argument("--symbol", action="append", default=[], metavar="NAME=EXTENT[,EXTENT]",
                          help="extent of an open dimension; several give a table, of all combinations; repeatable")
    estimate.add_argument("--no-cache", action="store_true", help="neither read nor write cached results")
    _add_format(estimate)

    calibrate = arguments.command(
        subparsers, "calibrate-host", run_calibrate_host, "measure this machine for estimates of host layers",
        "Writes a profile that `archloom estimate --host NAME` takes; do it while nothing else runs.")
    calibrate.add_argument("name", metavar="NAME", help="what to call this machine")

    report = arguments.command(
        subparsers, "report", run_report, "print the report of an artifact, or make a page of reports or of a search",
        "A PATH is an artifact, JSON that estimate has written, or with --html the folder of a search.")
    report.add_argument("paths", type=Path, metavar="PATH", nargs="+",
                        help="one report; with --html several beside each other, or a search")
    report.add_argument("--html", type=Path, metavar="FILE",
                        help="make a page instead, one file with charts and tables that needs no network")
    report.add_argument("--reports", type=int, metavar="N", default=FRONT_REPORTS,
                        help="in the page of a search: estimate the first N candidates of the front again for their "
                             f"reports (default {FRONT_REPORTS})")
    _add_format(report)


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--memory", action="store_true",
                        help="show the activations instead: bytes while each layer runs, and the life of each tensor")
    parser.add_argument("--csv", action="store_true", help="one line for each layer, comma-separated")
    parser.add_argument("--energy", action="store_true",
                        help="energy and area by object, and energy by layer, below the report")
    arguments.add_output(parser, "write the report there instead: .json, or .csv (as with --csv)")


def run_check(args: argparse.Namespace) -> Outcome:
    from archloom.tvm_backend.check.network import check

    if args.samples < 1:
        raise InputError(f"--samples: expected at least 1, found {args.samples}")
    options = arguments.target_options(args)
    labels = arguments.labels(args)
    with bar(quiet=args.quiet) as progress:
        model = arguments.load_model(args)
        inputs: Any = args.inputs
        if inputs is not None and not datasets.is_meant(inputs):
            inputs = samples.read(Path(inputs), model.inputs)
        result = check(model, args.target, options, inputs=inputs, labels=labels, reference=args.reference,
                       count=args.samples, most_instructions=args.most_instructions, progress=progress)
    return Outcome(str(result), result.to_json(), 0 if result.passed else CHECK_FAILED)


def run_estimate(args: argparse.Namespace) -> Outcome:
    from archloom.tvm_backend.estimate.extents import reports
    from archloom.tvm_backend.estimate.request import Request
    from archloom.tvm_backend.host.profile import chosen
    from archloom.tvm_backend.sources.source import Source

    _is_csv(args)  # before anything slow begins
    options = arguments.target_options(args)  # which spells args.target
    request = Request(args.target, options, args.as_int8)
    arguments.scheme(args)
    source = arguments.source(args)
    if args.as_int8 and args.calibrate:
        raise InputError("--int8: without --calibrate, which quantizes the network")
    symbols = arguments.symbols(args.symbol)
    if symbols and (args.calibrate or args.input_shape):
        raise InputError("--symbol: not taken with --calibrate and --input-shape, which fix the shapes of inputs")
    profile = chosen(args.host)
    if args.no_cache:
        os.environ[ENVIRONMENT] = ""
    with bar(quiet=args.quiet) as progress:
        if args.calibrate:
            source = Source.of(arguments.load_model(args))
        report = reports(source, symbols or None, request, profile, progress)
    return _report_outcome(report, args)


def run_calibrate_host(args: argparse.Namespace) -> Outcome:
    from archloom.tvm_backend.host.calibration import calibrate
    from archloom.tvm_backend.host.profile import save

    profile = calibrate(args.name)
    path = save(profile)
    lines = [f"{profile.name}: {profile.machine}, {profile.cores} cores, {profile.engine}",
             f"bandwidth {profile.bandwidth / 1e9:.2f} GB/s, {profile.overhead_s * 1e6:.1f} us for each operator"]
    lines += [f"{kind:14} {rate / 1e9:8.3f} G a second" for kind, rate in profile.rates.items()]
    return Outcome("\n".join([*lines, f"written to {path}"]), {**asdict(profile), "path": str(path)})


def run_report(args: argparse.Namespace) -> Outcome:
    """Print a report, or make a page; nothing of an artifact is built."""
    from archloom.tvm_backend.page import made

    if args.html is not None:
        return _page(args)
    path = args.paths[0]
    if len(args.paths) > 1:
        raise InputError(f"{path} and {len(args.paths) - 1} more: give one to print, or --html FILE for a page of all")
    if made.is_search(path):
        raise InputError(f"{path}: holds a search, which archloom search {path} prints; --html FILE makes a page of it")
    _is_csv(args)
    return _report_outcome(made.report_of(path), args)


def _page(args: argparse.Namespace) -> Outcome:
    from archloom.tvm_backend.page.made import page

    arguments.suffix_of(args.html, {".html": "a page"}, "--html")
    stated = {"--output": args.output, "--csv": args.csv, "--memory": args.memory, "--energy": args.energy}
    if others := [flag for flag, value in stated.items() if value]:
        raise InputError(f"--html and {others[0]}: choose one; the page has all that there is")
    if args.reports < 0:
        raise InputError(f"--reports: expected 0 or more, found {args.reports}")
    with bar(quiet=args.quiet) as progress:
        content = page(args.paths, args.reports, progress).encode()
    write_file(args.html, content)
    return Outcome(f"written to {args.html} ({size(len(content))})", {"html": str(args.html), "bytes": len(content)})


def _report_outcome(report: "Report | ReportTable", args: argparse.Namespace) -> Outcome:
    """What is asked for alone: of a network of thousands of layers each form takes a second."""
    memory = _memory(report, args) if args.memory else None
    data = report.to_json() if args.json else {}
    if args.output is not None:
        written = _csv(report) if _is_csv(args) else json.dumps(data or report.to_json(), indent=1)
        write_file(args.output, written.encode())
        return Outcome(f"written to {args.output}", data)
    if args.json:
        return Outcome("", data)
    if _is_csv(args):
        return Outcome(_csv(report))
    return Outcome("\n\n".join([memory or str(report), *(energy_tables(report) if args.energy else ())]))


def _csv(report: "Report | ReportTable") -> str:
    return to_csv(report) if isinstance(report, Report) else report.to_csv()


def _memory(report: "Report | ReportTable", args: argparse.Namespace) -> str:
    if args.csv or args.output is not None:
        raise InputError("--memory: prints text; leave out --csv and --output (the JSON of a report has its memory)")
    if not isinstance(report, Report):
        raise InputError("--memory: expected one report, found a table of several extents")
    if report.memory is None or not report.memory.layers:
        raise InputError(f"--memory: nothing is known of the activations of {report.model!r}")
    return f"{headline(report)}\n\n{memory_text(report.memory)}"


def energy_tables(report: "Report | ReportTable") -> list[str]:
    """The tables of ``--energy``, of each report under its extents."""
    from archloom.tvm_backend.report.energy import tables

    if isinstance(report, Report):
        return [tables(report)]
    return [f"{', '.join(f'{k}={v}' for k, v in row.extents.items())}\n\n{tables(row.report)}" for row in report]


def _is_csv(args: argparse.Namespace) -> bool:
    """Whether the report is to be in CSV; InputError where flags and the file's name say several things."""
    if args.output is None:
        if args.csv and args.json:
            raise InputError("--csv and --json: choose one, or write the CSV to a file with --output")
        return bool(args.csv)
    suffix = arguments.suffix_of(args.output, REPORT_KINDS)
    if args.csv and suffix == ".json":
        raise InputError(f"--csv: {args.output} is to be JSON by its name; choose one")
    return bool(args.csv) or suffix == ".csv"
