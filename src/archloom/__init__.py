"""archloom: one description of an accelerator in, a whole software stack out.

    import archloom
    model = archloom.load("net.onnx")
    exe = archloom.compile(model, target="gemmini", options={"dim": 16})
    y = exe(x)                       # bit-exact execution; host operators included
    exe.report                       # cycles, utilization and bytes of every layer
    exe.save("net.loom")

    gemmini = archloom.isa("gemmini", dim=16)    # @gemmini.kernel: programs of its own instructions, by hand

Importing this module loads neither TVM, JAX, PyTorch nor ONNX: each is imported by the call that first needs it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from archloom.oracle.errors import (
    ArchloomError,
    ArtifactError,
    GraphError,
    InputError,
    MappingError,
    ModelError,
    StreamError,
    TaidlError,
    TargetError,
)
from archloom.tvm_backend.progress import bar
from archloom.tvm_backend.version import VERSION as __version__

if TYPE_CHECKING:
    import onnx
    import torch

    from archloom.oracle.kernel import KernelIsa
    from archloom.oracle.kernel.compiled import LoadedKernel
    from archloom.tvm import Library
    from archloom.tvm_backend.check.network import CheckResult
    from archloom.tvm_backend.coverage import Coverage
    from archloom.tvm_backend.dynamic.model import DynamicModel
    from archloom.tvm_backend.dynamic.network import DynamicNetwork
    from archloom.tvm_backend.executable import CompiledNetwork
    from archloom.tvm_backend.model import Model
    from archloom.tvm_backend.report.by_extents import ReportTable
    from archloom.tvm_backend.report.data import Report
    from archloom.tvm_backend.search.candidate import Candidate
    from archloom.tvm_backend.search.objectives import Objective
    from archloom.tvm_backend.search.result import SearchResult
    from archloom.tvm_backend.targets.registry import TargetInfo

__all__ = [
    "__version__", "targets", "load", "quantize", "compile", "coverage", "load_compiled", "estimate", "estimate_many",
    "search", "sweep", "read_search", "Candidate", "Objective", "check", "isa", "load_kernel", "torch_graphs",
    "ArchloomError", "ArtifactError", "GraphError", "InputError", "MappingError", "ModelError", "StreamError",
    "TaidlError", "TargetError",
]

Options = Mapping[str, object]
InputShapes = Mapping[str, Sequence[int]]
Target = str | Sequence[str]
"""A name, or several in order of preference."""
Symbols = Mapping[str, int | Sequence[int]]
"""Extents of open dimensions by name; several of one, where a table is asked for."""


def targets() -> "list[TargetInfo]":
    """The registered accelerators: name, one-line description, options with their defaults."""
    from archloom.tvm_backend.targets.registry import targets as registered

    return registered()


@overload
def load(
    source: Any, example_inputs: Sequence[Any] | None = None, *, input_shapes: InputShapes | None = None,
    name: str | None = None, dynamic: Literal[False] = False,
) -> "Model": ...
@overload
def load(
    source: Any, example_inputs: Sequence[Any] | None = None, *, name: str | None = None, dynamic: Literal[True],
    dynamic_shapes: Any = None,
) -> "DynamicModel": ...
def load(
    source: Any, example_inputs: Sequence[Any] | None = None, *, input_shapes: InputShapes | None = None,
    name: str | None = None, dynamic: bool = False, dynamic_shapes: Any = None,
) -> "Model | DynamicModel":
    """Import a network.

    ``source``: path of an ``.onnx`` file or of an exported program of torch's (``.pt2``), name of a network of the
    catalogue (``"mobilenet_v2"``), one operator as text (``"gemm(m=4,n=4,k=4)"``), ``onnx.ModelProto``,
    ``torch.nn.Module`` (with ``example_inputs``, a tensor or a sequence of them),
    ``torch.export.ExportedProgram`` or a Relax ``IRModule``. ``input_shapes`` fixes the dimensions that the model
    leaves open.

    ``dynamic``: leave them open, for :func:`compile` and :func:`estimate`. The result has ``inputs`` of shapes such as
    ``("batch", 3, "n")`` (dimensions without a name are ``INPUT.AXIS``), ``symbols`` with the extents that are taken,
    none where nothing is open, and ``at(batch=4, n=128)``, the static network. A ``torch.nn.Module`` is exported with
    ``dynamic_shapes``, as ``torch.export`` takes them.

    Raises :class:`ModelError` naming the file and the node, :class:`InputError` for options that do not go together.
    """
    from archloom.tvm_backend.sources.dynamic import load_dynamic
    from archloom.tvm_backend.sources.source import Source

    given = Source.of(source, input_shapes=input_shapes, example_inputs=example_inputs, name=name,
                      dynamic_shapes=dynamic_shapes)
    return load_dynamic(given) if dynamic else given.load()


def quantize(
    model: "str | Path | onnx.ModelProto | torch.nn.Module | Model",
    calibration: Any, *,
    method: Literal["minmax", "entropy", "percentile"] = "minmax", percentile: float = 99.999,
    per_channel: bool = False, symmetric: bool = True, float_results: bool = False, quiet: bool = False,
) -> "onnx.ModelProto":
    """Post-training static quantization of a float model to int8 QDQ, in the form that accelerators execute.

    ``model``: an ONNX file or proto, a torch module, either of them loaded, an exported program, or a network by name.
    ``calibration``: samples, from which ``method`` takes the ranges of activations (``percentile`` is how much of each
    is kept, in per cent): an iterable of arrays, of mappings of input name to array, or of tuples that begin with the
    inputs (a torch ``DataLoader``), with the batch axis or without; or one array, or a mapping of arrays, whose first
    axis counts samples. A torch module is exported on the first of them (of a ``DataLoader`` and of such arrays on one
    sample, of other iterables on what stands there).
    ``per_channel``: a scale for each output channel of a weight. ``symmetric=False``: zero points for activations.
    ``float_results``: matrix products give floats, which leaves most of the accuracy of transformers. ``quiet``: as for
    :func:`estimate`.
    """
    from archloom.tvm_backend.quantization.quantize import quantize as quantize_model
    from archloom.tvm_backend.quantization.scheme import Scheme
    from archloom.tvm_backend.sources.source import Source

    source, scheme = Source.of(model), Scheme(method, per_channel, symmetric, percentile, float_results)
    with bar(quiet=quiet) as progress:
        return quantize_model(source.quantizable(), calibration, scheme, name=source.title, progress=progress)


@overload
def compile(
    model: "DynamicModel", target: Target = "gemmini", options: Options | None = None, *, keep: int | None = None,
) -> "DynamicNetwork": ...
@overload
def compile(
    model: Any, target: Target = "gemmini", options: Options | None = None, *, quiet: bool = False, **load_options: Any
) -> "CompiledNetwork": ...
def compile(
    model: Any, target: Target = "gemmini", options: Options | None = None, *, keep: int | None = None,
    quiet: bool = False, **load_options: Any,
) -> "CompiledNetwork | DynamicNetwork":
    """Partition, map and compile ``model`` (a loaded one or anything that :func:`load` takes) for ``target``.

    ``target`` may be a list in order of preference: each operator goes to the first that takes it, and an option named
    ``gemmini.dim`` is that of one of them.

    A model with open dimensions gives a network that is called in the same way: it is planned and compiled for the
    extents that it is first called with, and kept; ``keep`` (8) says how many are, the least recently used goes first.
    Its ``at(batch=4)`` is the compiled network for these extents, with report and ``save``. ``quiet``: as for
    :func:`estimate`.
    """
    from archloom.tvm_backend.executable import build
    from archloom.tvm_backend.sources.given import source_of

    names, stated = _spelled(target), _options(options)
    found = source_of(model, load_options)
    if found.kind == "dynamic":
        from archloom.tvm_backend.dynamic.network import build_dynamic

        return build_dynamic(found.given, names, stated, keep)
    if keep is not None:
        raise InputError("keep: only taken for a network with open dimensions (load it with dynamic=True)")
    with bar(quiet=quiet) as progress:
        return build(found.load_for(names), names, stated, progress=progress)


def coverage(
    model: Any, target: Target = "gemmini", options: Options | None = None, *, symbols: Mapping[str, int] | None = None,
    **load_options: Any,
) -> "Coverage":
    """Who takes which operator of ``model`` (at the extents ``symbols`` of open dimensions), and why the others do not;
    nothing is mapped or built."""
    from archloom.tvm_backend.coverage import coverage as coverage_of
    from archloom.tvm_backend.sources.given import model_of

    names = _spelled(target)
    return coverage_of(model_of(model, load_options, names, symbols), names, _options(options))


def load_compiled(path: "str | Path", *, programs: bool = True) -> "CompiledNetwork | Library":
    """Open a saved artifact (directory or ``.zip``); :class:`ArtifactError` if it is damaged or of another version.

    A library that TVM has saved (``.so``, see docs/tvm.md) gives a :class:`~archloom.tvm.Library`: called, it runs in
    TVM's virtual machine; ``functions`` has what it calls, ``artifacts`` the compiled networks behind it.

    Nothing of the artifact is executed but its host part and, on a machine alike to the one that saved it, its
    machine code: open only artifacts whose origin you trust. ``programs=False`` leaves the machine code aside.
    """
    if Path(path).suffix in (".so", ".dylib"):
        from archloom.tvm import Library

        return Library(Path(path))
    from archloom.tvm_backend.executable import open_artifact

    return open_artifact(Path(path), programs=programs)


@overload
def estimate(
    model: Any, target: Target = "gemmini", options: Options | None = None, *, as_int8: bool = False,
    host: str | None = None, symbols: Mapping[str, int] | None = None, quiet: bool = False, **load_options: Any,
) -> "Report": ...
@overload
def estimate(
    model: Any, target: Target = "gemmini", options: Options | None = None, *, as_int8: bool = False,
    host: str | None = None, symbols: Symbols, quiet: bool = False, **load_options: Any,
) -> "Report | ReportTable": ...
def estimate(
    model: Any, target: Target = "gemmini", options: Options | None = None, *, as_int8: bool = False,
    host: str | None = None, symbols: Symbols | None = None, quiet: bool = False, **load_options: Any,
) -> "Report | ReportTable":
    """The latency of a network, and what every layer costs, without building anything that runs.

    ``seconds`` of the report are those of accelerator and host together, ``cycles`` the same in ticks of the
    accelerator's clock. ``host``: whose profile the time of host layers is estimated by (default: what
    ``archloom calibrate-host`` has measured last, or else the one that comes along); ``"none"`` for the accelerator
    only. ``as_int8``: take a float network (ONNX, or a torch module, loaded or not) as if it were quantized, without
    calibration. Reports and the timing of kernels are kept by content, in memory and on disk.

    ``symbols``: an extent for each open dimension, ``{"batch": 1, "n": 128}``. Several of one (``{"n": [64, 128]}``)
    give a table with a report for each combination.

    On terminals and in notebooks a line on stderr shows how far it is, while it takes seconds, unless it is to be
    ``quiet``.
    """
    from archloom.tvm_backend.estimate.extents import reports
    from archloom.tvm_backend.estimate.request import Request
    from archloom.tvm_backend.host.profile import chosen
    from archloom.tvm_backend.sources.given import source_of

    request = Request(_spelled(target), _options(options), as_int8)
    with bar(quiet=quiet) as progress:
        return reports(source_of(model, load_options), symbols, request, chosen(host), progress)


def estimate_many(
    models: Any, target: Target = "gemmini", options: "Options | Sequence[Options] | None" = None, *,
    as_int8: bool = False, host: str | None = None, input_shapes: InputShapes | None = None, example_inputs: Any = None,
    workers: int | None = None, details: bool = False,
    on_error: Literal["raise", "return"] = "raise", quiet: bool = False,
) -> "list[Report | ArchloomError]":
    """:func:`estimate` of many networks (a list or a generator) on all cores, for searches.

    Torch modules come with ``example_inputs`` for all of them, or as pairs ``(module, example_inputs)``. ``options`` is
    one mapping, or a list with one for each network; a single network is estimated with each of them.
    ``workers``: processes, by default one for each core. Without ``details`` layers have cycles, bytes and mapping
    but nothing of units, stages, storages, links and loops. ``on_error="return"`` puts the error of a network in the
    place of its report. ``quiet``: as for :func:`estimate`.
    """
    from archloom.tvm_backend.estimate.many import estimate_many as estimate_models
    from archloom.tvm_backend.host.profile import chosen

    stated = [_options(one) for one in options] if isinstance(options, Sequence) else _options(options)
    with bar(quiet=quiet) as progress:
        return estimate_models(models, _spelled(target), stated,
                               as_int8=as_int8, input_shapes=input_shapes, example_inputs=example_inputs,
                               workers=workers, details=details, on_error=on_error, profile=chosen(host),
                               progress=progress)


def search(
    space: Any, *, trials: int | None = None, objectives: Any = "seconds", constraints: Any = (), sampler: Any = None,
    seed: int = 0, workers: int = 1, cluster: str | None = None, output: "str | Path | None" = None,
    host: str | None = None, inputs: Any = None, labels: Any = None, bounds: bool = True, study: Any = None,
    quiet: bool = False,
) -> "SearchResult":
    """Search networks and hardware together.

    ``space``: a function of a trial (``trial.suggest_int("dim", 4, 64)``, as in Optuna) that returns a
    :class:`Candidate`, or the path of a Python file with such a function, called ``space``. ``objectives``: one or
    several of ``seconds``, ``cycles``, ``accelerator_seconds``, ``accelerator_cycles``, ``joules``, ``edp``,
    ``area_mm2``, ``peak_bytes`` (of activations), ``utilization``, ``accuracy`` (a figure of the candidates, or found
    by :func:`check` with ``inputs`` and ``labels``), figures of the candidates' own (``"max:score"``), functions of a
    report, and :class:`Objective`. ``constraints``: ``"area_mm2<=2"``, ``"accuracy>=0.97"``.

    ``sampler``: ``tpe``, ``nsga2``, ``cmaes``, ``qmc``, ``random`` and ``gp`` are Optuna's, ``pymoo`` is pymoo's
    NSGA-II, asked for a generation at a time, ``grid`` is every combination; or an object of Optuna's or pymoo's. By
    default TPE for up to a thousand ``trials``, pymoo's for more. ``workers``: processes, each for one candidate at a
    time; ``cluster``: the address of a Dask scheduler whose workers are used instead. ``bounds=False``: measure
    candidates, too, whose bounds show that they are on no front.

    ``output``: a folder that keeps all that was found. The same call goes on where one ended, however it did;
    :func:`read_search` reads it, also while the search is at work. A candidate that fails is kept with its error.
    ``study``: a study of Optuna's, or a storage for one (``sqlite:///study.db``, the file of a journal), that is told
    of all candidates, too, for its dashboard.
    """
    from archloom.tvm_backend.host.profile import chosen
    from archloom.tvm_backend.search.searching import search as search_space

    with bar(quiet=quiet) as progress:
        return search_space(space, trials=trials, objectives=objectives, constraints=constraints, sampler=sampler,
                            seed=seed, workers=workers, cluster=cluster, output=output, profile=chosen(host),
                            inputs=inputs, labels=labels, bounds=bounds, study=study, progress=progress)


def sweep(
    networks: Any, target: Target = "gemmini", options: Options | None = None, *,
    weights: Sequence[float] | None = None, as_int8: bool = False, host: str | None = None, quiet: bool = False,
    **how: Any,
) -> "SearchResult":
    """Every combination of ``options``, of which those that are lists vary: ``{"dim": [8, 16], "scratchpad_kib": 64}``.

    ``networks``: one, or a list, of which each counts ``weights`` times; ``how`` as for :func:`search`.
    """
    from archloom.tvm_backend.host.profile import chosen
    from archloom.tvm_backend.search.sweep import sweep as sweep_options

    with bar(quiet=quiet) as progress:
        return sweep_options(networks, target, _options(options), weights=weights, as_int8=as_int8,
                             profile=chosen(host), progress=progress, **how)


def read_search(folder: "str | Path") -> "SearchResult":
    """What a search has found, or has found so far, whose ``output`` was this folder."""
    from archloom.tvm_backend.search.result import read

    return read(Path(folder))


def torch_graphs() -> "list[CompiledNetwork]":
    """What ``torch.compile(module, backend="archloom", options={"target": "qkv", "dim": 8})`` has compiled in this
    process: a network with its report for each graph, in order."""
    from archloom.tvm_backend.torch_backend import GRAPHS

    return list(GRAPHS)


def check(
    model: Any, target: Target = "gemmini", options: Options | None = None, *, inputs: Any = None, labels: Any = None,
    reference: Any = None, symbols: Mapping[str, int] | None = None, most_instructions: int | None = None,
    quiet: bool = False, **load_options: Any,
) -> "CheckResult":
    """Compare the accelerator with onnxruntime's execution of the same model, and look at every layer.

    ``inputs``: an array or a mapping of name to array, the first axis counting samples (random ones if absent), or
    the name of a data set, ``"digits"``; ``labels``: class numbers, for the accuracies of the float network, of the
    quantized reference and of the accelerator; ``reference``: the float network (ONNX) that ``model`` was quantized
    from. Of each layer: is it bit-exact, is it what the quantized reference has there, and its signal-to-noise ratio
    against the float network in decibels. ``symbols``: the extents of open dimensions. The interpreter takes
    instructions one by one: a network with a layer of more than ``most_instructions``, by default of those that take 40
    seconds of this processor, is refused before anything runs. ``quiet``: as for :func:`estimate`.
    """
    from archloom.tvm_backend.check.network import check as check_model
    from archloom.tvm_backend.sources.given import model_of

    names = _spelled(target)
    with bar(quiet=quiet) as progress:
        return check_model(model_of(model, load_options, names, symbols), names, _options(options), inputs=inputs,
                           labels=labels, reference=reference, most_instructions=most_instructions, progress=progress)


def isa(name_or_path: "str | Path", **parameters: int) -> "KernelIsa":
    """An ISA, by its name or as a ``.taidl`` file, for writing kernels by hand; parameters by name."""
    from archloom.oracle.kernel import isa as open_isa

    return open_isa(name_or_path, **parameters)


def load_kernel(source: "bytes | str | Path") -> "LoadedKernel":
    """A kernel that ``kernel.compile().serialize()`` made, from bytes or a file; it runs without the ISA.

    :class:`ArtifactError` for what is damaged, of another version or for another platform.
    """
    from archloom.oracle.kernel.compiled import load_kernel as load_serialized

    return load_serialized(source)


def __getattr__(name: str) -> Any:
    if name == "tvm":  # imports TVM
        return importlib.import_module("archloom.tvm")
    if name == "Candidate":
        return importlib.import_module("archloom.tvm_backend.search.candidate").Candidate
    if name == "Objective":
        return importlib.import_module("archloom.tvm_backend.search.objectives").Objective
    raise AttributeError(f"module 'archloom' has no attribute {name!r}")


def _options(options: Options | None) -> dict[str, object]:
    if options is not None and not (isinstance(options, Mapping) and all(isinstance(name, str) for name in options)):
        raise InputError(f"options: expected a mapping such as {{'dim': 16}}, found {options!r}")
    return dict(options or {})


def _spelled(target: Target) -> str:
    from archloom.tvm_backend.targets.choice import spelled

    return spelled(target)
