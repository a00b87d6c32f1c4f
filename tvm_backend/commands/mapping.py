"""``map``: plan a product, attention, a chain or another workload for the cores of a mesh."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archloom.oracle.errors import InputError, counted
from archloom.tvm_backend.commands import Outcome, arguments
from archloom.tvm_backend.commands.targets import df_graph
from archloom.tvm_backend.progress import bar
from archloom.tvm_backend.report.table import Column, count, duration, figures, percent, render

if TYPE_CHECKING:
    from archloom.acadl_models.acadl import ArchitectureGraph
    from archloom.mapper.spatial.trials import Found, Measured
    from archloom.mapper.spatial.workloads import AnyWork

MACHINES = ("wormhole", "mesh", "triple_ring")
LONG_CYCLES = 1e8
"""Simulating a plan of so many cycles may take minutes: each is announced, with what the model says."""
_ACTIVATIONS = "relu, gelu, silu, sigmoid, tanh, exp"
_SWEEPS = ("softmax", "layer_norm", "rms_norm", "sum", "mean", "max")
_DETAILS = (
    "Every way to cut the work into blocks, to deal it out to the cores and to move its tiles is ranked by a cost"
    " model; the best are simulated, and the best of these is the plan. Numbers are of 16 bits."
)


def register(subparsers: Any) -> None:
    parser = arguments.command(subparsers, "map", run_map, "plan a workload for the cores of a mesh", _DETAILS)
    _add_workloads(parser)
    parser.add_argument("--target", "-t", default="wormhole", metavar="NAME",
                        help=f"{', '.join(MACHINES)}, or a .df file of your own (default: wormhole)")
    parser.add_argument("--option", "-O", action="append", default=[], metavar="KEY=VALUE",
                        help="an option of the machine, such as launch_cycles=1000; repeatable")
    parser.add_argument("--rows", type=int, metavar="N", help="rows of the mesh")
    parser.add_argument("--columns", type=int, metavar="N", help="columns of the mesh")
    parser.add_argument("--objective", choices=("time", "energy", "edp"), default="time",
                        help="what is minimized; edp: energy times time (default: time)")
    parser.add_argument("--top-k", type=int, default=5, metavar="K", help="plans that are simulated (default 5)")
    parser.add_argument("--exhaustive", action="store_true",
                        help="simulate every plan: for small workloads on few cores")
    parser.add_argument("--explain", action="store_true", help="list the plans that were simulated, too")


def run_map(args: argparse.Namespace) -> Outcome:
    from archloom.mapper.spatial.workloads import search_workload

    work = _asked(args)
    if args.top_k < 1:
        raise InputError(f"--top-k {args.top_k}: at least one plan must be simulated")
    plan: object = None
    graph, done = _graph(args), 0
    with bar(quiet=args.quiet) as show:
        def heard(trial: "Measured[Any]") -> None:
            nonlocal done
            done += 1
            show(str(trial.plan), done, max(done, args.top_k))

        def begun(next_one: object, cycles: float) -> None:
            nonlocal plan
            plan = next_one
            text = f"{plan}, {cycles:,.0f} cycles by the model"
            show(text, done, max(done, args.top_k))
            if cycles >= LONG_CYCLES:
                print(f"simulating {text}", file=sys.stderr, flush=True)

        def simulating(_: int, finished: int, total: int) -> None:
            show(f"{plan}: {finished / total:.1%} of {total:,} instructions", done, max(done, args.top_k))

        found = search_workload(
            work.work, graph, top_k=args.top_k, objective=args.objective, exhaustive=args.exhaustive, progress=heard,
            begun=begun, heard=simulating)
    return Outcome(_text(found, graph, work, args), _data(found, graph, work, args.objective))


def _graph(args: argparse.Namespace) -> "ArchitectureGraph":
    from archloom.acadl_models.mesh import mesh
    from archloom.acadl_models.triple_ring import triple_ring
    from archloom.acadl_models.wormhole import wormhole

    given = arguments.options(args.option)
    if args.target.endswith(".df"):
        sizes = [f"--{n}" for n in ("rows", "columns") if getattr(args, n) is not None]
        if sizes:
            raise InputError(f"{', '.join(sizes)}: {args.target} says itself how large the machine is")
        return df_graph(Path(args.target), given)
    if args.target not in MACHINES:
        raise InputError(f"--target {args.target!r} is none of {', '.join(MACHINES)}, and no .df file")
    makers: dict[str, Callable[..., ArchitectureGraph]] = {
        "wormhole": wormhole, "mesh": mesh, "triple_ring": triple_ring}
    maker = makers[args.target]
    names = inspect.signature(maker).parameters
    for name, other in (("rows", "y"), ("columns", "x")):
        extent = getattr(args, name)
        if extent is not None:
            if name not in names and other not in names:
                raise InputError(f"--{name}: {args.target} has no option for it, but {', '.join(names)}")
            given[name if name in names else other] = str(extent)
    return maker(**_values(args.target, given, names))


def _values(target: str, given: Mapping[str, str], names: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    """Options as what their defaults are."""
    found: dict[str, Any] = {}
    for key, text in given.items():
        if key not in names:
            raise InputError(f"--option {key}: {target} has no such option, but {', '.join(names)}")
        kind = type(names[key].default)
        try:
            found[key] = _value(text, kind)
        except ValueError as error:
            raise InputError(f"--option {key}={text}: expected {_EXPECTED[kind]}") from error
    return found


_EXPECTED = {bool: "true or false", int: "a whole number", float: "a number"}


def _value(text: str, kind: type) -> str | float:
    """What a text says as a ``kind``; ValueError where it says none."""
    if kind is str:
        return text
    if kind is bool:
        return ("false", "true").index(text) == 1
    number = float(text)
    if not abs(number) < float("inf") or (kind is int and number != int(number)):
        raise ValueError(text)
    found: float = kind(number)
    return found


def _text(found: "Found[Any, Any]", graph: "ArchitectureGraph", work: _Asked, args: argparse.Namespace) -> str:
    best = found.best
    timing, rows, columns = best.timing, graph.dims["rows"], graph.dims["columns"]
    memory = sum(s.words_read + s.words_written for s in timing.storages if s.name in _memories(graph))
    lines = [
        f"{work.name} on {graph.name}, {rows} x {columns} cores: {counted(found.considered, 'plan')}, "
        f"{len(found.trials)} simulated",
        f"plan    {best.plan}",
        f"time    {count(best.cycles)} cycles, {duration(timing.seconds)}"
        + (f", {2 * work.macs / timing.seconds / 1e12:.2f} TFLOP/s" if work.macs else "")
        + f" (model: {best.estimated_cycles:,.0f} cycles)"
        + ("" if timing.exact else ", the rest of long loops in proportion"),
        f"memory  {count(memory)} bytes",
    ]
    if best.joules is not None:
        lines.append(f"energy  {best.joules:.4g} J")
    if args.explain:
        lines += ["", _explained(found, graph)]
    return "\n".join(lines)


def _memories(graph: "ArchitectureGraph") -> set[str]:
    return {memory.name for memory in graph.tensor_memories}


def _explained(found: "Found[Any, Any]", graph: "ArchitectureGraph") -> str:
    columns = [Column("plan", limit=110),
               *figures("cycles", "model", "error", "matrix units busy", "memory busy", "joules")]
    return render(columns, [_row(trial, graph) for trial in sorted(found.trials, key=lambda t: t.score)])


def _row(trial: "Measured[Any]", graph: "ArchitectureGraph") -> list[str]:
    timing = trial.timing
    units = {u.name for u in graph.functional_units if "matmul" in u.to_process}
    busy = [u.utilization for u in timing.units if u.name in units]
    memory = [s for s in timing.storages if s.name in _memories(graph)]
    moved = sum(s.words_read + s.words_written for s in memory)
    width = sum(getattr(graph[s.name], "port_width", 0) for s in memory)
    return [
        str(trial.plan), count(trial.cycles), f"{trial.estimated_cycles:,.0f}",
        percent(trial.estimated_cycles / trial.cycles - 1), percent(sum(busy) / len(busy)),
        percent(moved / (width * trial.cycles) if width else None),
        "–" if trial.joules is None else f"{trial.joules:.4g}",
    ]


def _data(found: "Found[Any, Any]", graph: "ArchitectureGraph", work: _Asked, objective: str) -> dict[str, Any]:
    return {
        work.kind: work.size, "workload": work.name, "target": graph.name, "rows": graph.dims["rows"],
        "columns": graph.dims["columns"], "objective": objective, "considered": found.considered,
        "plan": str(found.best.plan), "plan_json": found.best.plan.to_json(), "cycles": found.best.cycles,
        "seconds": found.best.timing.seconds, "joules": found.best.joules, "trials": [{
            "plan": str(t.plan), "cycles": t.cycles, "estimated_cycles": t.estimated_cycles, "joules": t.joules,
            "score": t.score} for t in found.trials],
    }


# the workload, as its options state it ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Asked:
    """A workload, the option that it was asked for with, its extents and its multiply-accumulates (0: none)."""

    work: "AnyWork"
    kind: str
    size: tuple[int, ...]
    macs: int

    @property
    def name(self) -> str:
        """Such as ``attention 8 x 12 x 512 x 64``."""
        return f"{self.kind} {' x '.join(map(str, self.size))}"


def _add_workloads(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_mutually_exclusive_group(required=True)
    kinds.add_argument("--gemm", metavar="MxNxK", help="C[M, N] = A[M, K] . B[K, N], in elements")
    kinds.add_argument("--products", metavar="BxMxNxK", help="B products of M x K by K x N")
    kinds.add_argument("--convolution", metavar="NxHxWxCxOxKHxKW",
                       help="N images of H x W and C channels, O filters of KH x KW; --stride, --padding")
    kinds.add_argument("--attention", metavar="BxHxQxD", help="batch, heads, queries and numbers of a head; --keys, "
                                                              "--kv-heads, --causal")
    kinds.add_argument("--chain", metavar="MxKxHxN", help="activation(A[M, K] . W1[K, H]) . W2[H, N]")
    for kind in _SWEEPS:
        kinds.add_argument(f"--{kind.replace('_', '-')}", metavar="MxN", help=argparse.SUPPRESS if kind != "softmax"
                           else f"of each of M rows of N numbers; also --{', --'.join(_SWEEPS[1:])}".replace("_", "-"))
    parser.add_argument("--keys", type=int, metavar="N", help="keys of attention (default: as many as queries)")
    parser.add_argument("--kv-heads", type=int, metavar="N", help="heads of keys and values (default: all)")
    parser.add_argument("--causal", action="store_true", help="queries see the keys up to their own")
    parser.add_argument("--activation", metavar="NAME",
                        help=f"of products, convolutions and chains: {_ACTIVATIONS} (chains: gelu, or none)")
    parser.add_argument("--stride", type=int, default=1, metavar="N", help="of convolutions")
    parser.add_argument("--padding", type=int, default=0, metavar="N", help="of convolutions, on each side")


def _asked(args: argparse.Namespace) -> _Asked:
    """The workload; InputError for extents that are none, or options that another workload has."""
    kind = next(name for name in (*_FORMS, *_SWEEPS) if getattr(args, name) is not None)
    _check(kind, args)
    return _made(kind, _extents(kind, args), args)


_FORMS = {"gemm": "MxNxK", "products": "BxMxNxK", "convolution": "NxHxWxCxOxKHxKW", "attention": "BxHxQxD",
          "chain": "MxKxHxN"}
_OPTIONS = {
    "products": ("activation",), "convolution": ("activation", "stride", "padding"),
    "attention": ("keys", "kv_heads", "causal"), "chain": ("activation",),
}


def _check(kind: str, args: argparse.Namespace) -> None:
    defaults = {"keys": None, "kv_heads": None, "causal": False, "activation": None, "stride": 1, "padding": 0}
    for name, default in defaults.items():
        if getattr(args, name) != default and name not in _OPTIONS.get(kind, ()):
            kinds = [f"--{other}" for other, names in _OPTIONS.items() if name in names]
            raise InputError(f"--{name.replace('_', '-')} goes with {' and '.join(kinds)}, not with --{kind}")


def _extents(kind: str, args: argparse.Namespace) -> tuple[int, ...]:
    text, form = getattr(args, kind), _FORMS.get(kind, "MxN")
    count = form.count("x") + 1
    if re.fullmatch("x".join(["[0-9]{1,9}"] * count), text) is None:
        raise InputError(f"--{kind} {text!r}: expected {form}, such as {'x'.join(['64'] * count)}, of at most nine "
                         "digits each")
    return tuple(map(int, text.split("x")))


def _made(kind: str, size: tuple[int, ...], args: argparse.Namespace) -> _Asked:
    from archloom.mapper.spatial.attention.space import Attention
    from archloom.mapper.spatial.chain.space import Chain
    from archloom.mapper.spatial.epilogue import Epilogue
    from archloom.mapper.spatial.plan import TileGemm
    from archloom.mapper.spatial.products.batched import Product
    from archloom.mapper.spatial.products.convolution import Convolution
    from archloom.mapper.spatial.sweeps.reduction import Rows

    if kind == "gemm":
        m, n, k = size
        return _Asked(TileGemm.of(m, n, k), kind, size, m * n * k)
    if kind == "products":
        batch, m, n, k = size
        products = Product(batch, m, n, k, epilogue=Epilogue(activation=args.activation))
        return _Asked(products, kind, size, products.macs)
    if kind == "convolution":
        n, h, w, c, o, kh, kw = size
        if args.stride < 1 or args.padding < 0:
            raise InputError(f"--stride {args.stride} --padding {args.padding}: expected at least 1, and at least 0")
        convolution = Convolution(n, h, w, c, o, (kh, kw), (args.stride, args.stride), (args.padding,) * 4,
                                  epilogue=Epilogue(activation=args.activation))
        return _Asked(convolution, kind, size, convolution.macs)
    if kind == "attention":
        batch, heads, queries, width = size
        attention = Attention.of(batch, heads, queries, width, args.kv_heads, keys=args.keys, causal=args.causal)
        return _Asked(attention, kind, size, attention.products)
    if kind == "chain":
        m, k, hidden, n = size
        chain = Chain(m, k, hidden, n, None if args.activation == "none" else args.activation or "gelu")
        return _Asked(chain, kind, size, chain.products)
    return _Asked(Rows(*size, kind), kind, size, 0)  # type: ignore[arg-type,call-arg]
