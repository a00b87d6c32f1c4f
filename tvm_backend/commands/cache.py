"""``cache``: what is kept between processes, how much of it may be, and its end."""

from __future__ import annotations

import argparse
import re
from typing import Any

from archloom.mapper import disk
from archloom.oracle.errors import InputError, suggest
from archloom.tvm_backend.commands import Outcome, arguments
from archloom.tvm_backend.report.table import Column, count, render

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) *([KMGT]?)(?:I?B)?", re.IGNORECASE)
LEAST = 2**20


def register(subparsers: Any) -> None:
    parser = arguments.command(
        subparsers, "cache", run, "what is kept between commands (plans, programs, reports), its limit, its end",
        "Everything in it is found again where it is needed.")
    parser.add_argument("--limit", metavar="SIZE", type=size,
                        help="keep at most so many bytes (500M, 2G) from now on; the least lately used leaves first")
    parser.add_argument("--clear", metavar="KIND", nargs="?", const="", help="forget all, or one kind")


def size(text: str) -> int:
    """Bytes of ``"2G"``, ``"500 MiB"``; units are powers of 1,024."""
    match = _SIZE.fullmatch(text.strip())
    found = round(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if found < LEAST:
        raise argparse.ArgumentTypeError(f"expected a size of at least 1M, such as 500M or 2G; found {text!r}")
    return found


def run(args: argparse.Namespace) -> Outcome:
    root = disk.folder()
    if root is None:
        raise InputError(f"nothing is kept: {disk.ENVIRONMENT} is empty")
    if args.clear:
        known = [kind.name for kind in disk.kinds()]
        if args.clear not in known:
            raise InputError(f"--clear {args.clear}: nothing of this kind is kept{suggest(args.clear, known)}")
    failures = [*([disk.clear(args.clear or None)] if args.clear is not None else []),
                *([disk.set_limit(args.limit)] if args.limit is not None else [])]
    for failure in filter(None, failures):
        raise InputError(f"{failure.where}: {failure.why}")
    kinds = disk.kinds()
    data = {"path": str(root / disk.FILE), "limit": disk.limit(), "bytes": sum(kind.bytes for kind in kinds),
            "kinds": [vars(kind) for kind in kinds]}
    rows = [[kind.name, count(kind.results), mib(kind.bytes)] for kind in kinds]
    table = render((Column("kind"), Column("results", "right"), Column("MiB", "right")), rows) if rows else "empty"
    return Outcome(f"{data['path']}: {mib(data['bytes'])} of at most {mib(data['limit'])} MiB\n\n{table}", data)


def mib(size: Any) -> str:
    return f"{size / 2**20:,.1f}"
