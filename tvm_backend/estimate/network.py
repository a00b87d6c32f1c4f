"""Cycles of a network without building anything that runs: partition, map, time.

An ONNX network is read without its weights and without TVM (:mod:`archloom.tvm_backend.ir.plain`) where its operators
allow that; reports are kept by the content of what was read. Anything else is imported by TVM as for compilation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from archloom.oracle.collector import paused
from archloom.oracle.errors import ArchloomError, ArtifactError, InputError
from archloom.tvm_backend import cache
from archloom.tvm_backend.compiled import HostPart, Partition, Region, Step, TensorSpec, Value
from archloom.tvm_backend.frontends import operators
from archloom.tvm_backend.progress import Progress
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.targets.layouts import ROW_MAJOR

if TYPE_CHECKING:
    import onnx

    from archloom.tvm_backend.estimate.segments import Chain
    from archloom.tvm_backend.model import Model

Options = Mapping[str, object]

LEAST_OPERATOR_SET = 13
"""Of ONNX: the first that quantizes by channels; older networks are converted."""

_reports: cache.Memory[Report] = cache.Memory()
_of_models: "WeakKeyDictionary[Model, dict[str, Report]]" = WeakKeyDictionary()


@dataclass(frozen=True)
class Request:
    """What is to be estimated on what.

    ``as_int8`` takes a float network as if it were quantized; ``details`` keeps what units, stages, storages, links
    and loops did in the report's layers. ``on_disk``: reports are kept there, too.
    """

    target: str
    options: Mapping[str, Any]
    as_int8: bool = False
    details: bool = True
    on_disk: bool = True

    def text(self) -> str:
        """What a report depends on beside the network."""
        return json.dumps([self.target, dict(self.options), self.as_int8, self.details], sort_keys=True, default=str)


def estimate(
    model: Any, target: str, options: Options, *, as_int8: bool = False, progress: Progress | None = None,
    **load_options: Any,
) -> Report:
    """The report of ``model``: a loaded one, an operator as text, or anything that ``frontends.load`` takes.

    ``as_int8`` estimates a float ONNX network as if it were quantized, without calibration.
    """
    from archloom.tvm_backend.frontends import load as frontends

    if (operator := operators.spelled(model)) is not None:
        if load_options or as_int8:
            given = sorted([*load_options, *(["as_int8"] if as_int8 else [])])
            raise InputError(f"{', '.join(given)}: not taken with an operator as text")
        return estimate_operator(operator, target, options)
    request = Request(target, options, as_int8)
    if is_onnx(model) and not set(load_options) - {"input_shapes", "name"}:
        return estimate_onnx(model, request, **load_options, progress=progress)
    if as_int8:
        raise InputError("as_int8: only taken for an ONNX network that is not loaded yet; use quantize() for others")
    return estimate_model(frontends.loaded(model, load_options, target), target, options, progress=progress)


def is_onnx(model: Any) -> bool:
    """Whether ``model`` is a path or a network in memory of ONNX's."""
    kind = type(model)
    return isinstance(model, str | Path) or (kind.__name__ == "ModelProto" and kind.__module__.startswith("onnx"))


def estimate_model(model: "Model", target: str, options: Options, *, progress: Progress | None = None) -> Report:
    """Partition, map and time an imported network; asked again for the same object, the report is at hand."""
    known = _of_models.setdefault(model, {})
    name = Request(target, options).text()
    if name not in known or not _is_built_in(target):
        known[name] = _timed(model, Request(target, options), progress)
    return known[name]


def estimate_onnx(
    source: "str | Path | onnx.ModelProto", request: Request, *, input_shapes: Mapping[str, Any] | None = None,
    name: str | None = None, progress: Progress | None = None,
) -> Report:
    """The report of an ONNX network, kept by its content: its graph, shapes and small constants."""
    from archloom.tvm_backend.frontends.onnx import skeleton as onnx_skeleton
    from archloom.tvm_backend.frontends.onnx.skeleton import NoSkeleton

    in_file = isinstance(source, str | Path)
    label = str(source) if in_file else name or source.graph.name or "network"  # type: ignore[union-attr]
    title = name or (Path(label).stem if in_file else label)
    try:
        skeleton = (
            onnx_skeleton.of_file(Path(label)) if in_file
            else onnx_skeleton.of_proto(source)  # type: ignore[arg-type]
        )
    except NoSkeleton:
        return _imported(source, request, input_shapes, title, progress)
    return estimate_skeleton(skeleton, request, label, title, input_shapes, source, progress)


@paused()
def estimate_skeleton(
    skeleton: bytes, request: Request, label: str, title: str, input_shapes: Mapping[str, Any] | None = None,
    source: "str | Path | onnx.ModelProto | None" = None, progress: Progress | None = None,
) -> Report:
    """See :func:`estimate_onnx`; ``source`` is the whole network, where TVM has to read it."""
    shapes = {k: list(v) for k, v in (input_shapes or {}).items()}
    key = _key(skeleton, request, title, shapes)
    report = _reports.get(key) if key else None
    if report is None and key and request.on_disk:
        report = _stored(key)
    if report is None:
        try:
            report = _in_segments(skeleton, request, title, shapes, progress)
            report = report or estimate_whole(skeleton, request, label, title, shapes, progress)
        except _unreadable():
            if source is None:
                raise
            report = _imported(source, request, shapes, title, progress)
        if key and request.on_disk:
            cache.store("reports", key, report.to_json())
    if key:
        _reports.put(key, report)
    return report


def remembered(skeleton: bytes, request: Request, title: str, shapes: Mapping[str, Any]) -> Report | None:
    """The report of a network that this process has estimated before."""
    key = _key(skeleton, request, title, shapes)
    return _reports.get(key) if key else None


def remember(skeleton: bytes, request: Request, title: str, shapes: Mapping[str, Any], report: Report) -> None:
    """Keep a report that another process has found."""
    if key := _key(skeleton, request, title, shapes):
        _reports.put(key, report)


def _unreadable() -> tuple[type[Exception], ...]:
    from archloom.tvm_backend.frontends.onnx.skeleton import NoSkeleton
    from archloom.tvm_backend.ir.plain import Unsupported

    return NoSkeleton, Unsupported


def _key(skeleton: bytes, request: Request, title: str, shapes: Mapping[str, Any]) -> str | None:
    """None for targets of other packages, whose code is not part of the key."""
    if not _is_built_in(request.target):
        return None
    return cache.key([hashlib.sha256(skeleton).hexdigest(), request.text(), title, json.dumps(shapes, sort_keys=True)])


def _is_built_in(target: str) -> bool:
    from archloom.tvm_backend.targets import registry
    from archloom.tvm_backend.targets.choice import names_of

    return set(names_of(target)) <= set(registry.BUILT_IN)


def _stored(key: str) -> Report | None:
    try:
        return Report.from_json(cache.load("reports", key))
    except ArtifactError:  # not there, or damaged
        return None


def _plain(
    skeleton: bytes, request: Request, label: str, title: str, shapes: Mapping[str, Any]
) -> "Model":
    from archloom.tvm_backend.frontends import load as frontends
    from archloom.tvm_backend.frontends.onnx import skeleton as onnx_skeleton

    proto = onnx_skeleton.parse(skeleton)
    if request.as_int8:
        from archloom.tvm_backend.quantization.quantized_form import quantized_form

        proto = quantized_form(proto)
    return frontends.load_skeleton(proto, label, title, shapes or None)


def _in_segments(
    skeleton: bytes, request: Request, title: str, shapes: Mapping[str, Any], progress: Progress | None
) -> Report | None:
    """The report from those of the network's segments; None where it has to be looked at as a whole."""
    chain = chain_of(skeleton, request, title, shapes)
    try:
        return None if chain is None else report_of(chain, request, progress)
    except ArchloomError:  # said of the network as a whole, whose operators have names
        return None


@paused()
def chain_of(skeleton: bytes, request: Request, title: str, shapes: Mapping[str, Any]) -> "Chain | None":
    """The network as a chain of segments, None where it has to be looked at as a whole."""
    from archloom.tvm_backend.estimate import segments
    from archloom.tvm_backend.frontends.onnx import skeleton as onnx_skeleton
    from archloom.tvm_backend.targets.choice import choose

    if not request.as_int8 or shapes or not _is_built_in(request.target):
        return None
    chosen = choose(request.target, request.options)
    try:
        return segments.partitioned(onnx_skeleton.parse(skeleton), chosen, request.text(), title)
    except onnx_skeleton.NoSkeleton:
        return None


@paused()
def report_of(chain: "Chain", request: Request, progress: Progress | None = None) -> Report:
    """The report of a network in segments, of which those that are not known yet are planned."""
    from archloom.tvm_backend.report.build import build
    from archloom.tvm_backend.targets.choice import choose

    chosen = choose(request.target, request.options)
    return build(chain.partition, chain.plans(chosen, progress), chosen, details=request.details)


def estimate_whole(
    skeleton: bytes, request: Request, label: str, title: str, shapes: Mapping[str, Any],
    progress: Progress | None = None,
) -> Report:
    """The report of a network that is looked at as a whole; Unsupported for one that only TVM reads."""
    return _timed(_plain(skeleton, request, label, title, shapes), request, progress)


def _imported(
    source: "str | Path | onnx.ModelProto", request: Request, shapes: Mapping[str, Any] | None, title: str,
    progress: Progress | None,
) -> Report:
    """By TVM's importer, from the whole network."""
    from archloom.tvm_backend.frontends import load as frontends

    if request.as_int8:
        source = _as_int8(source)
    return _timed(frontends.load(source, input_shapes=shapes or None, name=title), request, progress)


def _as_int8(source: "str | Path | onnx.ModelProto") -> "onnx.ModelProto":
    """The quantized form of a whole network, with zeros for the weights that it leaves out: TVM demands some."""
    import math

    import numpy as np
    from onnx import helper, version_converter

    from archloom.tvm_backend.frontends.onnx.files import read_onnx
    from archloom.tvm_backend.quantization.quantized_form import quantized_form

    if isinstance(source, str | Path):
        proto = read_onnx(Path(source))
    else:
        proto = type(source)()
        proto.CopyFrom(source)
    version = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)
    if version < LEAST_OPERATOR_SET:
        proto = version_converter.convert_version(proto, LEAST_OPERATOR_SET)
    form = quantized_form(proto)
    for tensor in form.graph.initializer:
        if tensor.name.endswith("_quantized") and not tensor.raw_data:
            itemsize = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type)).itemsize
            tensor.raw_data = bytes(math.prod(tensor.dims) * itemsize)
    return form


@paused()
def _timed(model: "Model", request: Request, progress: Progress | None) -> Report:
    from archloom.tvm_backend.compile import partition_model, plan_steps
    from archloom.tvm_backend.report.build import build
    from archloom.tvm_backend.targets.choice import choose

    chosen = choose(request.target, request.options)
    partition = partition_model(model, request.target, request.options)
    return build(partition, plan_steps(partition, chosen, progress), chosen, details=request.details)


def estimate_operator(operator: operators.Operator, target: str, options: Options) -> Report:
    """Map and time one operator; TVM is not needed where it is one of int8 on one target."""
    from archloom.tvm_backend.compile import plan_steps
    from archloom.tvm_backend.report.build import build
    from archloom.tvm_backend.targets.choice import choose

    chosen = choose(target, options)
    if len(chosen) > 1 or chosen[0].backend.numbers != "int8":
        from archloom.tvm_backend.frontends import load as frontends

        return estimate_model(frontends.loaded(str(operator), {}, target), target, options)
    partition = partition_operator(operator, chosen[0].name, chosen[0].options)
    return build(partition, plan_steps(partition, chosen), chosen)


def partition_operator(operator: operators.Operator, target: str, options: Mapping[str, Any]) -> Partition:
    """A network of one step and no host."""
    work = operators.workload(operator)
    tensors = [*work.inputs, work.output]
    values = tuple(Value(t.name, t.shape, t.dtype, ROW_MAJOR) for t in tensors)
    names = tuple(t.name for t in work.inputs)
    step = Step(operator.kind, str(operator), work, tuple(zip(names, names)), work.output.name, work.output.shape)
    region = Region("region_0", target, values, names, (work.output.name,), (step,))
    specs = tuple(TensorSpec(t.name, t.shape, t.dtype) for t in tensors)
    return Partition(str(operator), "operator", target, options, specs[:-1], specs[-1:], (region,), HostPart("", ()))


def forget() -> None:
    """Drop the reports that this process remembers; those on disk stay."""
    from archloom.tvm_backend.estimate import segments

    _reports.clear()
    _of_models.clear()
    segments.forget()
