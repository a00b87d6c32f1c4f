"""``targets``, ``describe`` and ``networks``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archloom.models import catalogue
from archloom.models.networks.listing import Network
from archloom.oracle.errors import GraphError, InputError, TargetError
from archloom.oracle.reading import TEXT_BYTES, read_bytes
from archloom.oracle.taidl.isa import Isa
from archloom.tvm_backend.commands import Outcome, arguments, completion
from archloom.tvm_backend.commands.isa import described, load, written
from archloom.tvm_backend.files import write_file
from archloom.tvm_backend.report.table import Column, render
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.targets.backend import UMABackend
from archloom.tvm_backend.targets.choice import choose, names_of
from archloom.tvm_backend.targets.registry import info, targets

if TYPE_CHECKING:
    from archloom.acadl_models.acadl import ArchitectureGraph

DETAILS = (
    "TARGET is a registered name, a .taidl file (checked and listed; its parameters are set with -O), a .py file of"
    " your own that registers a target or makes an architecture graph at its top level (it is run, checked and listed),"
    " or a .df file with a mesh or rings of cores (-O rates=operations where its throughputs are operations a cycle)."
)


def register(subparsers: Any) -> None:
    listed = arguments.command(
        subparsers, "targets", run_targets, "list the accelerators and their options",
        "Those of your own are listed, too, where their files are given, or named by ARCHLOOM_TARGETS.")
    listed.add_argument("file", nargs="*", type=Path, metavar="FILE.py", help="a file that registers targets")
    describe = arguments.command(
        subparsers, "describe", run_describe, "show an accelerator's options, structure and instructions", DETAILS)
    completion.completed_by(describe.add_argument("target", metavar="TARGET"), completion.targets)
    describe.add_argument("--option", "-O", action="append", default=[], metavar="KEY=VALUE",
                          help="an option of the target, such as dim=32; repeatable")
    form = describe.add_mutually_exclusive_group()
    form.add_argument("--dot", action="store_true", help="print the graph in Graphviz's language instead")
    form.add_argument("--df", action="store_true",
                      help="print cores, memories, links and compute units in the df dialect instead")
    describe.add_argument("--svg", metavar="FILE", type=Path, help="draw the graph into FILE, too")
    arguments.command(
        subparsers, "networks", run_networks, "list the networks that can be given by name",
        "Their sizes go in parentheses: \"mobilenet_v2(image=96,width=50)\".")


def run_targets(args: argparse.Namespace) -> Outcome:
    registry.run_own()
    for file in args.file:
        if not registry.run_file(file).targets:
            raise TargetError(f"{file}: expected a file that registers targets, found none that it does")
    found = targets()
    return Outcome("\n".join(map(str, found)), {"targets": [target.to_json() for target in found]})


def run_describe(args: argparse.Namespace) -> Outcome:
    """Describe a registered target, an ISA in a file or a graph in a file."""
    options = arguments.options(args.option)
    if args.svg is not None:
        arguments.suffix_of(args.svg, {".svg": "a drawing"}, "--svg")
    path = Path(args.target)
    if path.suffix == ".taidl":
        for flag, given in (("--dot", args.dot), ("--svg", args.svg), ("--df", args.df)):
            if given:
                raise InputError(f"{flag}: {path} describes instructions, not a graph")
        isa = load(args.target, options)
        return Outcome(f"{_isa_text(isa)}\n\n{written(isa, 'taidl')}", described(isa))
    if path.suffix == ".df":
        return _graph_outcome(df_graph(path, options), args)
    if path.suffix == ".py":
        ran = registry.run_file(path)
        if ran.targets:
            return _target_outcome(registry.target_in(args.target), options, args)
        if options:
            raise InputError("--option: a graph of your own has no options; change the file")
        return _graph_outcome(graph_of(path, ran.values), args)
    (name,) = names_of([args.target])
    return _target_outcome(name, options, args)


def run_networks(args: argparse.Namespace) -> Outcome:
    from archloom.models import zoo  # which loads onnx

    networks, single = catalogue.BY_NAME.values(), catalogue.OPERATORS_BY_NAME.values()
    light, trained = zoo.names(), [f"{name} ({what})" for name, what in catalogue.TRAINED.items()]
    text = "\n\n".join([
        _sized("network", networks), f"trained on digits when asked for: {', '.join(trained)}",
        _sized("operator", single), f"light test networks of the package onnx: {' '.join(light)}"])
    return Outcome(text, {
        "light": light, "trained": list(catalogue.TRAINED), "operators": [_described(o) for o in single],
        "networks": [{**_described(n), "tiny": catalogue.tiny(n.name)} for n in networks]})


def _sized(what: str, found: Iterable[Network]) -> str:
    rows = [[n.name, n.summary, " ".join(f"{k}={v}" for k, v in n.sizes.items())] for n in found]
    return render((Column(what), Column("", limit=80), Column("sizes", limit=100)), rows)


def _described(network: Network) -> dict[str, Any]:
    return {"name": network.name, "summary": network.summary, "sizes": dict(network.sizes)}


def df_graph(path: Path, options: dict[str, str]) -> "ArchitectureGraph":
    """The graph of the machine in a df file; the option ``rates`` says what its throughputs are."""
    from archloom.mapper.spatial.machines.building import graph_of as built
    from archloom.mapper.spatial.machines.df_text import read

    unknown = ", ".join(name for name in options if name != "rates")
    if unknown:
        raise InputError(f"--option: {path} has no option {unknown} (there is: rates)")
    try:
        text = read_bytes(path, TEXT_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {error}") from error
    try:
        return built(read(text, options.get("rates", "cycles")))
    except TargetError as error:
        raise TargetError(f"{path}: {error}") from error


def _target_outcome(name: str, options: dict[str, str], args: argparse.Namespace) -> Outcome:
    from archloom.acadl_models.acadl.describe import describe

    target, backend = info(name), registry.get(name)
    (chosen,) = choose(backend, options)
    values, own = chosen.options, chosen.accelerator_options
    graph, isa = backend.accelerator.graph(own), backend.accelerator.isa(own)
    if args.df or args.dot:
        return _graph_outcome(graph, args, isa)
    _draw(graph, args.svg)
    rows = [[o.name, "auto" if values[o.name] is None else str(values[o.name]), o.unit, o.expected, o.help]
            for o in target.options]
    columns = (Column("option"), Column("value", "right"), Column("unit"), Column("expected"), Column("", limit=80))
    takes = _rules(backend)
    taken = [line for operator, rules in takes.items()
             for line in (f"takes {operator} where", *(f"  - {rule}" for rule in rules))]
    data = {**target.to_json(), "values": values, "takes": takes, "graph": _graph_data(graph), "isa": {
        "name": isa.name, "parameters": dict(isa.parameters),
        "buffers": [{"name": b.name, "shape": list(b.shape), "dtype": b.dtype} for b in isa.buffers],
        "instructions": [{"name": i.name, "attributes": list(i.attributes)} for i in isa.instructions.values()]}}
    return Outcome("\n\n".join([
        f"{name}: {target.description}", render(columns, rows), "\n".join(taken), describe(graph),
        _isa_text(isa)]), data)


def _rules(backend: "UMABackend") -> dict[str, list[str]]:
    """For each operator that the target takes the rules that a match must keep: the docstrings of its predicates."""
    found: dict[str, list[str]] = {}
    for pattern in backend.patterns:
        rules = getattr(pattern.predicate, "rules", ())
        anchor = getattr(pattern.predicate, "anchor", pattern.name)
        stated = [" ".join((rule.__doc__ or rule.__name__).split()) for rule in rules]
        # other rules for the same operator: another way to compute it
        same = next((key for key, known in found.items() if key.startswith(anchor) and known == stated), None)
        if same is None:
            found[anchor if anchor not in found else f"{anchor}, or"] = stated
    return found


def _isa_text(isa: "Isa") -> str:
    parameters = ", ".join(f"{k}={v}" for k, v in isa.parameters)
    lines = [f"ISA {isa.name} ({parameters})"]
    lines += [f"  buffer {b.name}: {' × '.join(map(str, b.shape))} {b.dtype}" for b in isa.buffers]
    lines += [f"  {i.name}({', '.join(i.attributes)})" for i in isa.instructions.values()]
    return "\n".join(lines)


def graph_of(path: Path, variables: Mapping[str, Any]) -> "ArchitectureGraph":
    """The one graph among a Python file's variables."""
    from archloom.acadl_models.acadl import ArchitectureGraph
    from archloom.acadl_models.acadl.generate import Generated

    graphs = [v.graph if isinstance(v, Generated) else v for v in variables.values()
              if isinstance(v, Generated | ArchitectureGraph)]
    names = {graph.name: graph for graph in graphs}
    if len(names) != 1:
        raise GraphError(str(path), [
            "expected one architecture graph at the top level (graph = create_ag()), or a registered target, "
            f"found {len(names)}"
            + (f": {', '.join(names)}" if names else "")])
    return graphs[0]


def _graph_outcome(graph: "ArchitectureGraph", args: argparse.Namespace, isa: "Isa | None" = None) -> Outcome:
    from archloom.acadl_models.acadl.describe import describe
    from archloom.acadl_models.acadl.draw import to_dot
    from archloom.mapper.spatial.machines.view import described

    _draw(graph, args.svg)
    if args.df:
        text = str(described(graph, isa))
        return Outcome(text.rstrip("\n"), {"name": graph.name, "df": text})
    return Outcome(to_dot(graph) if args.dot else describe(graph), _graph_data(graph))


def _graph_data(graph: "ArchitectureGraph") -> dict[str, Any]:
    from archloom.acadl_models.acadl.describe import describe_json
    from archloom.acadl_models.energy.figures import area_of, leakage_of

    return {
        **describe_json(graph),
        "area_mm2": area_of(graph)[0],
        "leakage_watts": leakage_of(graph)[0],
        "objects": [{"name": name, "class": type(obj).__name__} for name, obj in graph.objects.items()],
        "edges": len(graph.edges),
    }


def _draw(graph: "ArchitectureGraph", file: Path | None) -> None:
    """Draw the graph into ``file``, if one is given; nothing is written where drawing fails."""
    if file is None:
        return
    from archloom.acadl_models.acadl.draw import to_svg

    write_file(file, to_svg(graph).encode("utf-8"))
