"""``networks``: what the catalogue holds."""

from __future__ import annotations

import argparse
from typing import Any

from archloom.tvm_backend.commands import arguments
from archloom.tvm_backend.commands.outcome import Outcome
from archloom.tvm_backend.report.table import Column, render


def register(subparsers: Any) -> None:
    arguments.command(
        subparsers, "networks", run_networks, "list the networks that can be given by name",
        "Their sizes go in parentheses: \"mobilenet_v2(image=96,width=50)\".")


def run_networks(args: argparse.Namespace) -> Outcome:
    """List the catalogue."""
    from archloom.models import catalogue, zoo

    found = catalogue.BY_NAME.values()
    rows = [[n.name, n.summary, " ".join(f"{k}={v}" for k, v in n.sizes.items())] for n in found]
    text = render((Column("network"), Column(""), Column("sizes")), rows)
    light, trained = zoo.names(), [f"{name} ({what})" for name, what in catalogue.TRAINED.items()]
    text += f"\n\ntrained on digits when asked for: {', '.join(trained)}"
    text += f"\n\nlight test networks of the package onnx: {' '.join(light)}"
    return Outcome(text, {"light": light, "trained": list(catalogue.TRAINED), "networks": [
        {"name": n.name, "summary": n.summary, "sizes": dict(n.sizes), "tiny": catalogue.tiny(n.name)} for n in found]})
