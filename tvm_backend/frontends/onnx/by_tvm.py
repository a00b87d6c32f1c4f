"""ONNX networks by TVM's importer, with converters of our own in place of some of its; it imports TVM."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from archloom.tvm_backend.ir.compat import IMPORT_ERRORS, IRModule, const_value, emptied, kind, op_name, relax
from archloom.tvm_backend.ir.conversion import NAMED_OPERATORS, clip_bounds, padding, rename


class ConversionError(RuntimeError):
    """A converter of TVM's failed; ``node`` and ``operator`` say where."""

    def __init__(self, node: str, operator: str, cause: BaseException) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.node = node
        self.operator = operator


def unsupported_onnx_operators(graph: Any) -> list[tuple[str, str, str]]:
    """``(domain, operator, node)`` of the nodes that TVM has no converter for."""
    from tvm.relax.frontend.onnx.onnx_frontend import _get_convert_map

    known = set(_get_convert_map()) | {"If", "Constant"}
    return [
        (node.domain, node.op_type, node.name or f"#{index}")
        for index, node in enumerate(graph.node) if node.op_type not in known
    ]


def from_onnx(model: Any) -> tuple[IRModule, dict[str, str]]:
    """Import an ONNX model; the result of each node is bound to a variable of the node's name. With it, by a variable's
    name, the tensor that it holds.

    Raises :class:`ConversionError` with the node, or what the importer raises outside of a node.
    """
    from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter, _get_convert_map

    converters = _get_convert_map()

    class Importer(ONNXGraphImporter):  # type: ignore[misc]
        def _convert_operator(self, name: str, inputs: Any, attrs: Any, opset: int) -> Any:
            node = str(attrs.get("tvm_custom", {}).get("name") or name)
            result = OWN[name](inputs, attrs) if name in OWN else None
            try:
                if result is None:
                    convert = converters[name].get_converter(opset)
                    result = convert(self.bb, inputs, attrs, [self._nodes, self._params])
            except IMPORT_ERRORS as error:
                raise ConversionError(node, name, error) from error
            try:
                return self._named(result, rename(node)) if isinstance(result, relax.Expr) else result
            except (RuntimeError, TypeError, ValueError) as error:  # TVM finds no type for it
                raise ConversionError(node, name, error) from error

        def _named(self, expr: Any, name: str) -> Any:
            """Emit nested calls one by one; the heaviest operator, else the last, gets the node's own name."""
            operators: list[str | None] = []
            relax.analysis.post_order_visit(expr, lambda e: operators.append(op_name(e)))
            anchor = next((o for o in operators if o in NAMED_OPERATORS), op_name(expr))
            return self._emitted(expr, name, anchor)

        def _emitted(self, expr: Any, name: str, anchor: str | None) -> Any:
            if not isinstance(expr, relax.Call):
                return self.bb.normalize(expr)
            args = [self._emitted(a, name, anchor) if isinstance(a, relax.Call) else a for a in expr.args]
            call = self.bb.normalize(relax.Call(expr.op, args, expr.attrs, expr.ty_args))
            if not isinstance(call.ty, relax.TensorType):
                return call
            own = op_name(expr)
            return self.bb.emit(call, name_hint=name if own == anchor else f"{name}.{str(own).split('.')[-1]}")

    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    # the importer prints what it fails on, and warns about names that it changes
    with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
        importer = Importer({}, {})
        try:
            module = importer.from_onnx(model.graph, opset)
            inputs = list(module["main"].params)
            return module, {str(value.name): str(tensor) for tensor, value in importer._nodes.items()
                            if isinstance(value, relax.Var) and not any(value.same_as(given) for given in inputs)}
        finally:
            emptied(importer.bb)


def _clip(inputs: Any, attrs: Mapping[str, Any]) -> relax.Expr | None:
    """``Clip`` between constants as one operator (TVM's converter makes six of it); None for other bounds."""
    ty = inputs[0].ty
    if not isinstance(ty, relax.TensorType) or str(ty.dtype) not in ("bfloat16", "float16", "float32", "float64"):
        return None
    bounds = clip_bounds(inputs, attrs, str(ty.dtype), lambda bound: float(const_value(bound).reshape(())) if (
        kind(bound) == "constant" and const_value(bound).size == 1) else None)
    return None if bounds is None else relax.op.clip(inputs[0], *bounds)


def _pad(inputs: Any, attrs: Mapping[str, Any]) -> relax.Expr | None:
    """``Pad`` as one operator (TVM's converter makes a function of it that only TVM runs); None by widths that are
    computed."""
    ty = inputs[0].ty
    if not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr):
        return None
    found = padding(inputs, attrs, len(ty.shape), lambda given: (
        const_value(given) if kind(given) == "constant" else None))
    if found is None:
        return None
    kept, x = found.slices([int(extent) for extent in ty.shape]), inputs[0]
    if kept is not None:
        x = relax.op.strided_slice(x, *kept)
    return relax.op.nn.pad(x, found.widths, **found.attrs)


def _tile(inputs: Any, attrs: Mapping[str, Any]) -> relax.Expr | None:
    """``Tile`` as one operator, as ``Pad``; None by repeats that are computed."""
    repeats = const_value(inputs[1]) if kind(inputs[1]) == "constant" else None
    return None if repeats is None or (repeats < 1).any() else relax.op.tile(inputs[0], [int(r) for r in repeats])


OWN: Mapping[str, Callable[[Any, Mapping[str, Any]], relax.Expr | None]] = {"Clip": _clip, "Pad": _pad, "Tile": _tile}
"""ONNX operators that are imported otherwise than by TVM's converters; None leaves one to these."""
