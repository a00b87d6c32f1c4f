"""``isa``: check a TAIDL description and document it."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from archloom.oracle import taidl
from archloom.oracle.errors import InputError
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.taidl.printer import print_isa
from archloom.tvm_backend.commands import Outcome, arguments
from archloom.tvm_backend.files import write_file

DETAILS = (
    "ISA is a .taidl file or the name of an ISA that comes with archloom. Prints its reference manual: storage, control"
    " registers, and for each instruction its operands, what it asserts and touches, and its text; descriptions are the"
    " comments of the file. All faults of a description are reported at once, each with its place."
)
SUFFIXES = {".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html", ".txt": "text",
            ".taidl": "taidl"}


def register(subparsers: Any) -> None:
    parser = arguments.command(subparsers, "isa", run, "check a TAIDL description and print its manual", DETAILS)
    parser.add_argument("isa", metavar="ISA")
    parser.add_argument("--option", "-O", action="append", default=[], metavar="PARAM=VALUE",
                        help="a parameter of the ISA, such as dim=32; repeatable")
    parser.add_argument("--format", choices=("text", "markdown", "html", "taidl"),
                        help="of the manual (default: by the suffix of --output, else text); taidl prints the"
                        " description itself in its canonical form")
    arguments.add_output(parser, "write there instead of to stdout")


def run(args: argparse.Namespace) -> Outcome:
    output: Path | None = args.output
    form = args.format or ("text" if output is None else SUFFIXES[arguments.suffix_of(output, SUFFIXES)])
    isa = load(args.isa, arguments.options(args.option))
    text, data = written(isa, form), described(isa)
    if output is not None:
        write_file(output, text.encode("utf-8"))
        text, data["output"] = str(output), str(output)
    return Outcome(text, data)


def load(name: str, options: dict[str, str]) -> "Isa":
    """The checked ISA with its parameters; InputError for a parameter that is no integer."""
    parameters: dict[str, int] = {}
    for key, value in options.items():
        try:
            parameters[key] = int(value, 0)
        except ValueError:
            raise InputError(f"--option {key}={value}: a parameter of an ISA is an integer") from None
    isa = taidl.load(name, **parameters)
    # loading checks with the default parameters
    taidl.check(isa.definition, parameters)
    return isa


def written(isa: "Isa", form: str) -> str:
    """The manual in one of its forms, or the canonical text."""
    from archloom.oracle.taidl.manual import manual
    from archloom.oracle.taidl.manual_pages import FORMS

    return print_isa(isa.definition) if form == "taidl" else FORMS[form](manual(isa))


def described(isa: "Isa") -> dict[str, Any]:
    """The manual as JSON: ``parameters`` by name, ``buffers`` with whole shapes, ``instructions`` with attributes."""
    from archloom.oracle.taidl.manual import manual

    data = asdict(manual(isa))
    data["parameters"] = dict(isa.parameters)
    data["constants"] = dict(isa.constants)
    for buffer, declared in zip(data["buffers"], (*isa.buffers, *isa.views), strict=True):
        buffer.update(shape=list(declared.shape), dtype=declared.dtype)
    for entry in (*data["instructions"], *data["blocks"]):
        entry["attributes"] = [o["name"] for o in entry["operands"]]
        entry["description"] = "\n".join(entry["description"])
        for way in ("reads", "writes"):
            entry[way] = dict(entry[way])
    data["introduction"] = "\n".join(data["introduction"])
    return data
