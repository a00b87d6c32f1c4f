"""``search`` and ``sweep``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archloom.oracle.errors import InputError
from archloom.tvm_backend import datasets
from archloom.tvm_backend.commands import Outcome, arguments, completion
from archloom.tvm_backend.commands.completion import completed_by
from archloom.tvm_backend.files import read_arrays
from archloom.tvm_backend.progress import bar

if TYPE_CHECKING:
    from archloom.tvm_backend.search.result import SearchResult

NOTHING_FOUND, INTERRUPTED = 1, 130


def register(subparsers: Any) -> None:
    search = arguments.command(
        subparsers, "search", run_search, "search networks and hardware together",
        "SPACE is a Python file with a function space(trial) that returns a Candidate; of a folder of a search what is "
        "there is printed. Exit status 1 if no candidate of the search could be measured.")
    search.add_argument("space", metavar="SPACE", type=Path, help="a .py file, or the --output of a search")
    search.add_argument("--trials", "-n", type=int, metavar="N", help="candidates to ask the sampler for")
    _add_common(search, sampler=None)

    sweep = arguments.command(
        subparsers, "sweep", run_sweep, "estimate networks on every combination of a target's options",
        "Values of an option are parted by commas, or a range: dim=4..64:x2 (4, 8, 16, 32, 64), 1..9:+2, 1..4.")
    completed_by(sweep.add_argument("models", metavar="MODEL", nargs="+", help=arguments.MODEL_HELP), completion.models)
    arguments.add_target(sweep)
    sweep.add_argument("--weight", type=float, action="append", metavar="W",
                       help="how often a MODEL counts, one for each in their order (default 1)")
    arguments.add_int8(sweep, "float networks as if they were")
    sweep.add_argument("--trials", "-n", type=int, metavar="N",
                       help="try only so many of the combinations, chosen by --sampler")
    _add_common(sweep, sampler="grid")


def _add_common(parser: argparse.ArgumentParser, sampler: str | None) -> None:
    parser.add_argument("--objective", default="seconds", metavar="NAME[,NAME]",
                        help="what is to be small: seconds, cycles, joules, edp, area_mm2, ..., or large: utilization, "
                             "accuracy, max:NAME (default: seconds)")
    parser.add_argument("--constraint", action="append", default=[], metavar="NAME<=NUMBER",
                        help="such as 'area_mm2<=2' or 'accuracy>=0.97'; repeatable")
    arguments.add_samples(parser, "what accuracy is found on")
    parser.add_argument("--sampler", default=sampler, metavar="NAME",
                        help="tpe, nsga2, cmaes, qmc, random, gp (Optuna), pymoo (a generation at a time) or grid "
                             f"(default: {sampler or 'tpe, and pymoo for more than 1,000 trials'})")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the sampler (default 0)")
    parser.add_argument("--workers", "-j", type=int, default=1, metavar="N", help="processes (default 1)")
    parser.add_argument("--cluster", metavar="tcp://HOST:PORT", help="a Dask scheduler whose workers are used instead")
    parser.add_argument("--study", metavar="URL",
                        help="a storage of Optuna's (sqlite:///study.db, or the file of a journal) that is told of all "
                             "candidates, too, for its dashboard; the study has the name of the --output")
    parser.add_argument("--host", metavar="NAME", help="whose time host layers are estimated by, or none")
    parser.add_argument("--no-bounds", action="store_true",
                        help="measure candidates, too, whose bounds show that they are on no front")
    parser.add_argument("--parquet", type=Path, metavar="FILE", help="write all candidates there, too")
    arguments.add_output(parser, "a folder that keeps what is found; the same command goes on where it ended")


def run_search(args: argparse.Namespace) -> Outcome:
    from archloom.tvm_backend.search.result import read
    from archloom.tvm_backend.search.searching import search

    if args.space.is_dir():
        return _outcome(read(args.space), args)
    return _run(search, str(args.space), args)


def run_sweep(args: argparse.Namespace) -> Outcome:
    from archloom.tvm_backend.search.searching import search
    from archloom.tvm_backend.search.sweep import network_of, space_of_options, values_of

    options = {name: values_of(text) for name, text in arguments.options(args.option).items()}
    space = space_of_options(list(map(network_of, args.models)), args.target, options, args.weight, args.as_int8)
    if args.sampler == "grid" and args.trials is not None:
        raise InputError("--trials: a grid has all combinations; name a --sampler that chooses among them")
    return _run(search, space, args)


def _run(search: Any, space: Any, args: argparse.Namespace) -> Outcome:
    """The result of a search; of one that was interrupted what is there, where it is kept."""
    from archloom.tvm_backend.host.profile import chosen
    from archloom.tvm_backend.search.result import read
    from archloom.tvm_backend.search.store import FILE

    labels, inputs = arguments.labels(args), args.inputs
    if inputs is not None and not datasets.is_meant(inputs):
        inputs = read_arrays(Path(inputs))
    try:
        with bar(quiet=args.quiet) as progress:
            result = search(
                space, trials=args.trials, objectives=args.objective, constraints=args.constraint,
                sampler=args.sampler, seed=args.seed, workers=args.workers, cluster=args.cluster, output=args.output,
                profile=chosen(args.host), inputs=inputs, labels=labels, bounds=not args.no_bounds, study=args.study,
                progress=progress)
    except KeyboardInterrupt:
        if args.output is None or not (args.output / FILE).exists():
            raise
        found = _outcome(read(args.output), args)
        return Outcome(f"{found.text}\n\ninterrupted: the same command goes on", found.data, INTERRUPTED)
    return _outcome(result, args)


def _outcome(result: "SearchResult", args: argparse.Namespace) -> Outcome:
    if args.parquet is not None:
        result.to_parquet(args.parquet)
    return Outcome(str(result), result.to_json(), 0 if result.counts["measured"] else NOTHING_FOUND)
