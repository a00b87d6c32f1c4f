"""Cycles of a network without building anything that runs: partition, map, time.

No weights are made or read where the operators of a network allow that. An ONNX network, and for integers one by name,
is read without TVM (:mod:`archloom.tvm_backend.ir.plain`); what comes from torch otherwise is imported by TVM with
inputs in place of weights, and goes on as plain expressions, too, which networks by name are shipped as. Reports are
kept by the content of what was read, or by its name. Anything else is imported by TVM as for compilation.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
import onnx
from onnx import helper

from archloom.mapper.explore import GivenUp
from archloom.mapper.search import Plan
from archloom.oracle.errors import ArchloomError, ArtifactError, MappingError, ModelError
from archloom.oracle.fallbacks import Fallback
from archloom.oracle.memory import Remembered, paused
from archloom.tvm_backend import cache
from archloom.tvm_backend.compile import placed, plan_steps, planned, require_mappings
from archloom.tvm_backend.compiled import HostPart, Partition, Region, Step, TensorSpec, Value
from archloom.tvm_backend.estimate import segments
from archloom.tvm_backend.estimate.pieces import Undivided
from archloom.tvm_backend.estimate.request import Request, in_floats
from archloom.tvm_backend.estimate.segments import Chain
from archloom.tvm_backend.frontends.onnx.files import read_onnx
from archloom.tvm_backend.frontends.onnx.guard import Stumbled, without_weights
from archloom.tvm_backend.frontends.onnx.load import load_skeleton
from archloom.tvm_backend.frontends.onnx.skeleton import NoSkeleton, parse
from archloom.tvm_backend.frontends.onnx.versions import renewed
from archloom.tvm_backend.ir.conversion import blank
from archloom.tvm_backend.ir.nodes import Unsupported
from archloom.tvm_backend.ir.numbers import Numbers, is_quantized
from archloom.tvm_backend.memory import LiveRange, Memory
from archloom.tvm_backend.model import Model
from archloom.tvm_backend.progress import Progress
from archloom.tvm_backend.quantization.quantized_form import quantized_form
from archloom.tvm_backend.report.build import build, build_bound
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.report.packing import packed, unpacked
from archloom.tvm_backend.sources import named_networks, operators
from archloom.tvm_backend.sources.operator_network import onnx_skeleton
from archloom.tvm_backend.sources.source import Source
from archloom.tvm_backend.targets.choice import Chosen
from archloom.tvm_backend.targets.layouts import ROW_MAJOR
from archloom.tvm_backend.targets.live_ranges import bytes_of

KEPT, READ = 512, 8
"""Reports that a process remembers, of one model as many; and networks without their weights, which are the same on all
machines."""

_reports: Remembered[str, Report] = Remembered(KEPT)
_read: Remembered[str, Model] = Remembered(READ)
_of_models: "WeakKeyDictionary[Model, Remembered[str, Report]]" = WeakKeyDictionary()


def report_of(source: Source, request: Request, progress: Progress | None = None) -> Report:
    """The report of a network; of an ONNX network kept by its content: its graph, shapes and small constants; of a
    network by name by that, its code, and the libraries that it is made by."""
    source, request = in_floats(source, request)
    if source.kind == "onnx" or (request.as_int8 and source.kind not in ("name", "operator")):
        try:
            return OnnxNetwork.of(source, request).report(progress)
        except NoSkeleton as error:
            return _imported(source, request, progress, error)
    if (operator := source.operator) is not None:
        return _of_operator(operator, source, request, progress)
    if source.kind == "name":
        return _kept(_key_of_name(source, request), request, lambda: _of_name(source, request, progress))
    return _of_source(source, request, progress)


def _of_operator(
    operator: operators.Operator, source: Source, request: Request, progress: Progress | None
) -> Report:
    """Of one operator as text: without TVM where that can be, and without the numbers of its weight."""
    chosen = request.chosen()
    if partition := partition_operator(operator, chosen):
        try:
            return _planned(partition, request, lambda chosen: plan_steps(partition, chosen, progress))
        except GivenUp:
            raise
        except MappingError as error:  # as it is: as a network it may be taken in another form
            form = Fallback("operator", str(error), "it is taken in the form that a network's would be")
            report = _operator_network(operator, source, request, progress)
            return replace(report, fallbacks=(*report.fallbacks, form))
    return _operator_network(operator, source, request, progress)


def _operator_network(
    operator: operators.Operator, source: Source, request: Request, progress: Progress | None
) -> Report:
    """Of one operator as a network of its own."""
    numbers: Numbers = "int8" if request.as_int8 else request.chosen()[0].backend.numbers
    proto, name = onnx_skeleton(operator, numbers), source.name or str(operator)
    try:
        return _timed(load_skeleton(proto, name, name, None), request, progress)
    except (NoSkeleton, Unsupported):
        return _of_model(source.load(numbers), request, progress)


def _key_of_name(source: Source, request: Request) -> str | None:
    if not request.is_kept:
        return None
    libraries = map(named_networks.version, ("torch", "onnx", "onnxscript", "transformers", "apache-tvm"))
    return cache.key([request.text(), source.given, source.name or "", *libraries])


def _of_name(source: Source, request: Request, progress: Progress | None) -> Report:
    """The report of a network by name: quantized without its numbers where the target wants integers, or they are
    asked for."""
    if not is_quantized(source.numbers_for(request.target)) and not request.as_int8:
        return _of_source(source, request, progress)
    quantized = replace(request, as_int8=True, on_disk=False)  # where it is kept by its name
    try:
        return OnnxNetwork.named(source, quantized).report(progress)
    except (NoSkeleton, Unsupported) as error:
        return _with_weights(source, request, progress, error)


def _of_source(source: Source, request: Request, progress: Progress | None) -> Report:
    """The report of what torch makes of a network, without its weights where that is enough, or of a loaded one."""
    try:
        model = source.outlined()
        if model is not None:
            return _timed(model, request, progress)
        return _of_model(source.load_for(request.target), request, progress)
    except Unsupported as error:
        return _with_weights(source, request, progress, error)


def _with_weights(source: Source, request: Request, progress: Progress | None, reason: Exception) -> Report:
    """The report of a network that has to be read as for compilation, with the reason as a fallback; ModelError where
    its weights are not there."""
    model = source.load("int8") if request.as_int8 else source.load_for(request.target)
    if not model.has_weights:
        raise ModelError(f"{model.name}: cannot be estimated without its weights: {reason}") from reason
    return _slower(_timed(model, request, progress), reason)


def slower(reason: Exception) -> Fallback:
    """That a network is read as for compilation."""
    return Fallback("import", str(reason), "the network is read with its weights, by TVM, which takes longer")


def _slower(report: Report, reason: Exception) -> Report:
    return replace(report, fallbacks=(*report.fallbacks, slower(reason)))


def _of_model(model: "Model", request: Request, progress: Progress | None) -> Report:
    """Partition, map and time an imported network; asked again for the same object, the report is at hand."""
    known = _of_models.setdefault(model, Remembered(KEPT))
    name = request.text()
    if name not in known or not request.is_kept:
        known[name] = _timed(model, request, progress)
    return known[name]


@dataclass(frozen=True, eq=False)
class OnnxNetwork:
    """An ONNX network without its weights, and what is to be estimated of it.

    ``label`` is what messages call it, ``title`` what its report does; ``source`` is the whole network, where TVM has
    to read it, or None if that is not at hand. ``fallbacks``: what was done in another way than meant to get here.
    """

    skeleton: bytes
    request: Request
    label: str
    title: str
    shapes: Mapping[str, list[int]]
    source: Source | None = None
    fallbacks: tuple[Fallback, ...] = ()

    @staticmethod
    def of(source: Source, request: Request) -> "OnnxNetwork":
        """A network of floats without its weights; NoSkeleton where it must be read as a whole."""
        found = source.skeleton()
        shapes = {name: list(shape) for name, shape in (source.input_shapes or {}).items()}
        return OnnxNetwork(
            found.content, request, source.label, source.title, shapes, source, found.fallbacks)

    @staticmethod
    def named(source: Source, request: Request) -> "OnnxNetwork":
        """A network by name."""
        found = named_networks.outline(source.given)
        return OnnxNetwork(found.content, request, source.title, source.title, {}, fallbacks=found.fallbacks)

    @cached_property
    def key(self) -> str | None:
        """A name for its report; None for one that is not kept."""
        if not self.request.is_kept:
            return None
        return cache.key([hashlib.sha256(self.skeleton).hexdigest(), self.request.text(), self.title,
                          json.dumps(self.shapes, sort_keys=True)])

    def remembered(self) -> Report | None:
        """The report, if this process has made or been given it before."""
        known = _reports.get(self.key) if self.key else None
        return None if known is None else self.completed(known)

    def remember(self, report: Report) -> None:
        if self.key:
            _reports[self.key] = report

    @paused()
    def report(self, progress: Progress | None = None) -> Report:
        """The report, by whatever way is the shortest."""
        return self.completed(_kept(self.key, self.request, lambda: self._found(progress)))

    def completed(self, report: Report) -> Report:
        """A report of the skeleton, with what was done in another way before that was there."""
        return replace(report, fallbacks=(*report.fallbacks, *self.fallbacks)) if self.fallbacks else report

    def _found(self, progress: Progress | None) -> Report:
        try:
            return self.in_segments(progress) or self.as_whole(progress)
        except (NoSkeleton, Unsupported) as error:
            if self.source is None:
                raise
            return _imported(self.source, self.request, progress, error)

    def in_segments(self, progress: Progress | None = None) -> Report | None:
        """The report from those of the network's segments; None where it has to be looked at as a whole."""
        try:
            return self.of_chain(self.chain(), progress)
        except Undivided:  # the report of the whole is the same, and takes longer
            return None
        except ArchloomError:  # said of the network as a whole, whose operators have names
            return None

    @paused()
    def chain(self) -> "Chain":
        """The network as a chain of segments; Undivided, with the reason, where it has to be looked at as a whole."""
        if not self.request.as_int8 or self.shapes or not self.request.is_built_in:
            raise Undivided("only float networks are cut that are estimated as if quantized, in their own shapes, on "
                            "targets of this package")
        try:
            wanted = replace(self.request, bound=False, known=False)  # is partitioned alike
            return segments.partitioned(self._proto(), wanted.chosen(), wanted.text(), self.title)
        except NoSkeleton as error:
            raise Undivided(str(error)) from error

    def _proto(self) -> onnx.ModelProto:
        try:
            with without_weights():
                return renewed(parse(self.skeleton), self.title)
        except ModelError as error:
            raise Unsupported(str(error)) from error

    @paused()
    def of_chain(self, chain: "Chain", progress: Progress | None = None) -> Report:
        """The report of a network in segments, of which those that are not known yet are planned."""
        partition = replace(chain.partition, memory=chain.memory()) if self.request.details else chain.partition
        return _planned(partition, self.request, lambda chosen: chain.plans(chosen, progress))

    def as_whole(self, progress: Progress | None = None) -> Report:
        """The report of a network that is looked at as a whole; Unsupported for one that only TVM reads."""
        return _timed(self.model(), self.request, progress)

    def model(self) -> Model:
        """The network, quantized if that is asked for, as plain expressions; Unsupported for one that only TVM
        reads."""
        key = cache.key([hashlib.sha256(self.skeleton).hexdigest(), self.label, self.title,
                         json.dumps([self.shapes, self.request.as_int8], sort_keys=True)])
        return _read.once(key, self._whole)

    @paused()
    def _whole(self) -> Model:
        proto = self._proto()
        if self.request.as_int8:
            with without_weights():
                proto = quantized_form(proto)
        return load_skeleton(proto, self.label, self.title, self.shapes or None)


def _kept(key: str | None, request: Request, make: Callable[[], Report]) -> Report:
    """What this process, or the disk, remembers under a key, or else what is made."""
    report = _reports.get(key) if key else None
    if report is not None or key is None:
        return make() if report is None else report
    if request.on_disk:
        with suppress(ArtifactError):  # not there, or damaged
            report = unpacked(cache.load("reports", key))
    if report is None:
        report = make()
        if request.on_disk and (failure := cache.store("reports", key, packed(report))) is not None:
            report = replace(report, fallbacks=(*report.fallbacks, failure))
    _reports[key] = report
    return report


def _imported(source: Source, request: Request, progress: Progress | None, reason: Exception) -> Report:
    """By TVM's importer, from the whole ONNX network, with the reason as a fallback; raises it if that is a fault
    of a program, which it is if there is nothing wrong with the network. ModelError where its weights are not there."""
    source = source.as_onnx()
    given = _as_int8(source.given) if request.as_int8 else source.given
    whole = Source.of(given, input_shapes=source.input_shapes or None, name=source.title)
    report = _timed(whole.load(), request, progress)
    if isinstance(reason, Stumbled) and reason.__cause__ is not None:
        raise reason.__cause__
    return _slower(report, reason)


def _as_int8(given: "Path | onnx.ModelProto") -> "onnx.ModelProto":
    """The quantized form of a whole network, with zeros for the weights that it leaves out: TVM demands some."""
    proto = read_onnx(given) if isinstance(given, Path) else given
    form = quantized_form(renewed(proto))
    for tensor in form.graph.initializer:
        if tensor.name.endswith("_quantized") and not tensor.raw_data:
            itemsize = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type)).itemsize
            tensor.raw_data = bytes(math.prod(tensor.dims) * itemsize)
    return form


@paused()
def _timed(model: "Model", request: Request, progress: Progress | None) -> Report:
    chosen = request.chosen()
    if request.bound:
        return build_bound(placed(model, chosen, require_mappings)[0], chosen, known=request.known)
    return build(*planned(model, chosen, progress), chosen, details=request.details)


def _planned(
    partition: Partition, request: Request, plans: "Callable[[tuple[Chosen, ...]], Mapping[str, Plan]]"
) -> Report:
    """The report of a partition by the ``plans`` of its steps, or by bounds where these are asked for."""
    chosen = request.chosen()
    if request.bound:
        require_mappings(partition, chosen)
        return build_bound(partition, chosen, known=request.known)
    return build(partition, plans(chosen), chosen, details=request.details)


def partition_operator(operator: operators.Operator, chosen: "tuple[Chosen, ...]") -> Partition | None:
    """One operator as a network of one step and no host, made without TVM.

    None where it has to be loaded as a network: for several targets, for one of floats, and for one whose results are
    made of more than a factor.
    """
    if len(chosen) > 1 or not chosen[0].backend.is_quantized or not chosen[0].backend.by_one_factor:
        return None
    work, target = chosen[0].packed(operators.workload(operator)), chosen[0].name
    given = [t for t in work.inputs if t.name not in work.constants]
    constants = {t.name: blank(t.stored_shape, t.dtype) for t in work.inputs if t.name in work.constants}
    memory = Memory((operator.kind,), tuple(
        LiveRange(t.name, bytes_of(t.shape, t.dtype), 0, 0)
        for t in (*given, replace(work.output, name=operator.kind))))
    tensors, names = [*given, work.output], tuple(t.name for t in given)
    values = tuple(Value(t.name, t.shape, t.dtype, ROW_MAJOR) for t in tensors)
    step = Step(operator.kind, str(operator), work, tuple(zip(names, names)), work.output.name, work.output.shape,
                constants)
    region = Region("region_0", target, values, names, (work.output.name,), (step,))
    specs = tuple(TensorSpec(t.name, t.shape, t.dtype) for t in tensors)
    return Partition(str(operator), "operator", target, chosen[0].options, specs[:-1], specs[-1:], (region,),
                     HostPart("", ()), memory=memory)


def forget() -> None:
    """Drop the reports that this process remembers; those on disk stay."""
    _reports.clear()
    _read.clear()
    _of_models.clear()
    segments.forget()
