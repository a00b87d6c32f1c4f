"""The result of a check as text for people, and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from archloom.oracle.errors import counted
from archloom.oracle.pages import Block, Code
from archloom.tvm_backend.report.table import Column, as_block, figures, percent, render

if TYPE_CHECKING:
    from archloom.tvm_backend.check.network import CheckResult

_LAYERS = (
    Column("layer"), Column("operator"), Column("bit-exact"),
    *figures("to interpreter", "to integers", "not as reference", "steps", "SNR dB"))
_OUTPUTS = Column("output"), *figures("max error", "in steps", "cosine", "same top-1")


def full_text(result: "CheckResult") -> str:
    layers, outputs = _layers(result), _outputs(result)
    tables = [*([render(_LAYERS, layers)] if layers else []), render(_OUTPUTS, outputs)]
    return "\n\n".join([*tables, *_accuracy(result), "\n".join(_verdict(result))])


def page(result: "CheckResult") -> list[Block]:
    """The verdict first, then the tables."""
    tables = [(_LAYERS, _layers(result)), (_OUTPUTS, _outputs(result))]
    return [Code("\n".join([*_accuracy(result), *_verdict(result)])), *(
        as_block(columns, rows) for columns, rows in tables if rows)]


def _layers(result: "CheckResult") -> list[list[str]]:
    return [[
        layer.name, layer.op, "yes" if layer.bit_exact else "NO", f"{layer.max_abs_error:g}",
        _shown(layer.integer_error, "g"), percent(layer.differing), _shown(layer.most_steps, "g"),
        _shown(layer.snr_db, ".1f")] for layer in result.layers]


def _outputs(result: "CheckResult") -> list[list[str]]:
    return [[o.name, f"{o.max_abs_error:.3g}", _shown(o.max_error_in_steps, ".2f"), f"{o.cosine:.6f}",
             percent(o.top1_agreement)] for o in result.outputs]


def _accuracy(result: "CheckResult") -> Iterator[str]:
    if result.accuracy:
        a = result.accuracy
        yield (f"accuracy     {percent(a.float_network)} float, {percent(a.quantized)} quantized reference,"
               f" {percent(a.accelerator)} accelerator")


def _verdict(result: "CheckResult") -> Iterator[str]:
    exact = sum(layer.bit_exact for layer in result.layers)
    yield (f"{result.model} on {result.target}: {counted(result.samples, 'sample')} against {result.reference}; "
           f"{exact} of {counted(len(result.layers), 'layer is', 'layers are')} bit-exact")
    steps = [layer.rounding_steps for layer in result.layers if layer.rounding_steps]
    if steps:
        yield (f"{counted(len(steps), 'layer is', 'layers are')} exact by the machine's own rounding, which is up to "
               f"{max(steps):g} step from onnxruntime's: outputs are compared by cosine")
    yield f"first layer that is not as the quantized reference: {result.first_difference or 'none'}"
    yield from (f"FAILED: {failure}" for failure in result.failures)
    if result.passed:
        yield "passed"


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
