"""What results of products are multiplied by and shifted by, taken into their weights.

Batch normalization of networks that are not trained any more is a factor and a shift of each channel. After a
convolution by a constant kernel both go into kernel and bias; elsewhere they become a multiplication and an addition,
which targets with vector instructions take. Numbers by which the result of a dense layer is multiplied go into its
weights and its bias; so are queries scaled before attention::

    (x · W + b) * c   →  x · (c W) + c b        also behind a reshape or a transpose
"""

from __future__ import annotations

from typing import Any

import numpy as np

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.conversion import is_blank
from archloom.tvm_backend.ir.rewriter import Rewriter

RELAYOUTS = frozenset({"reshape", "permute_dims"})


def without_batch_norms(module: ir.IRModule) -> ir.IRModule:
    """Rewrite ``main`` (see above) where statistics and weights are constants and only the result is read."""
    return _BatchNorms(module).rewritten()


class _BatchNorms(Rewriter):
    """``norms`` has what was left out until its result is read."""

    def __init__(self, module: ir.IRModule) -> None:
        super().__init__(module)
        self.norms: dict[Any, Any] = {}
        self.changed = any(ir.op_name(value) == "nn.batch_norm" for value in self.values.values())

    def visit(self, var: ir.Var, value: Any) -> None:
        if ir.op_name(value) == "nn.batch_norm" and self.uses[var] == 1 and not ir.attr(value, "training") and all(
                map(ir.is_constant, value.args[1:])):
            self.norms[var] = value
            return
        got = ir.is_tuple_get(value)
        if got is not None and got[0] in self.norms and got[1] == 0:
            self._normalized(var, self.norms[got[0]])
            return
        for norm in [v for v in ir.variables(value) if v in self.norms] if self.norms else []:
            self.keep(norm, self.norms.pop(norm))
        self.keep(var, value)

    def _normalized(self, var: ir.Var, call: ir.Call) -> None:
        """The result of a batch normalization."""
        factor, shift = _numbers(call)
        data, rank = call.args[0], len(ir.shape_of(call.args[0]))
        axis = int(ir.attr(call, "axis")) % rank
        shape = tuple(-1 if i == axis else 1 for i in range(rank))
        folded = self._folded(data, factor, shift) if axis == 1 else None
        if folded is None:
            x = self.new(data)
            scaled = self.emit("multiply", x, ir.constant_like(factor.reshape(shape), x))
        else:
            scaled, shift = folded
        added = ir.call_of("add", [scaled, ir.constant_like(shift.reshape(shape), scaled)])
        self.bind(var, ir.of(added).normalized(added))

    def _folded(self, data: Any, factor: np.ndarray, shift: np.ndarray) -> tuple[Any, np.ndarray] | None:
        """The convolution that makes ``data``, with the factor in its kernel, and the shift with its bias in it."""
        inner: Any = self.values.get(data)
        bias = np.zeros_like(shift)
        if self.uses[data] != 1:
            return None
        if ir.op_name(inner) == "add":
            constants = [a for a in inner.args if ir.is_constant(a)]
            variables = [a for a in inner.args if ir.is_var(a)]
            if len(constants) != 1 or len(variables) != 1 or self.uses[variables[0]] != 1:
                return None
            given = ir.const_value(constants[0])
            if given.size != bias.size or ir.shape_of(variables[0]) != ir.shape_of(data):
                return None
            bias, inner = given.reshape(-1), self.values.get(variables[0])
        if ir.op_name(inner) != "nn.conv2d" or not ir.is_constant(inner.args[1]) or str(
                ir.attr(inner, "kernel_layout")) != "OIHW" or str(ir.attr(inner, "out_layout")) != "NCHW":
            return None
        kernel = ir.const_value(inner.args[1])
        weights = kernel if is_blank(kernel) else kernel * factor.reshape(-1, 1, 1, 1).astype(kernel.dtype)
        x = self.new(inner.args[0])
        result = self.name(ir.make_like(inner, [x, ir.constant_like(weights, x)]), data.name)
        return result, (bias * factor + shift).astype(shift.dtype)


def _numbers(call: ir.Call) -> tuple[np.ndarray, np.ndarray]:
    """Factor and shift of each channel."""
    gamma, beta, mean, variance = (np.asarray(ir.const_value(a)) for a in call.args[1:])
    kind, wide = gamma.dtype, np.float64
    factor = 1 / np.sqrt(variance.astype(wide) + float(ir.attr(call, "epsilon")))
    if ir.attr(call, "scale") in (None, True, 1):
        factor = factor * gamma.astype(wide)
    shift = -mean.astype(wide) * factor
    if ir.attr(call, "center") in (None, True, 1):
        shift = shift + beta.astype(wide)
    return factor.astype(kind), shift.astype(kind)


def fold_scales(module: ir.IRModule) -> ir.IRModule:
    """Rewrite ``main`` (see above) where nothing else reads what is multiplied."""
    return _Scales(module).rewritten()


class _Scales(Rewriter):
    """``factors`` has the number by which each variable of a dense layer is multiplied, ``sources`` what has the result
    then, by the variable of the multiplication."""

    def __init__(self, module: ir.IRModule) -> None:
        super().__init__(module)
        self.factors: dict[Any, float] = {}
        self.sources: dict[Any, Any] = {}
        for var, value in self.values.items():
            found = self._scaled(value)
            if found is not None:
                source, layer, number = found
                self.factors.update(dict.fromkeys(layer, number))
                self.sources[var] = source

    def visit(self, var: ir.Var, value: Any) -> None:
        if var in self.sources:
            self.replaced[var] = self.new(self.sources[var])
        elif var in self.factors:  # under another name: its numbers are others than the network's
            new = _times(self.new(value), self.factors[var])
            self.replaced[var] = self.bind(ir.new_var(f"{var.name}.scaled", new), new)
        else:
            self.keep(var, value)

    def _scaled(self, call: ir.Call) -> tuple[Any, tuple[Any, ...], float] | None:
        """What a call multiplies by one number, the variables of the dense layer behind it, and that number."""
        if ir.op_name(call) != "multiply":
            return None
        for side in (0, 1):
            number, source = ir.number_of(call.args[1 - side]), call.args[side]
            layer = self._layer(source) if number is not None else ()
            if number is not None and layer and ir.shape_of(call) == ir.shape_of(source):
                return source, layer, number
        return None

    def _layer(self, var: ir.Var) -> tuple[Any, ...]:
        """The variables of a product with constant weights and of the bias added to it, in any shape; () for others."""
        while ir.is_var(var) and self.uses[var] == 1:
            call = self.value_of(var)
            name = ir.op_name(call)
            if name not in RELAYOUTS:
                return (var,) if self._is_product(call) else self._biased(var, call) if name == "add" else ()
            var = call.args[0]
        return ()

    def _biased(self, var: Any, call: Any) -> tuple[Any, ...]:
        """A product that nothing else reads and the addition of a constant to it; () for another addition."""
        for product, bias in (call.args, call.args[::-1]):
            if ir.is_constant(bias) and self._is_product(self.value_of(product)):
                return (product, var) if self.uses[product] == 1 else ()
        return ()

    @staticmethod
    def _is_product(call: Any) -> bool:
        return ir.op_name(call) == "matmul" and bool(ir.is_constant(call.args[1]))


def _times(call: ir.Call, factor: float) -> Any:
    """A product or an addition with its constant multiplied; one without numbers stays as it is."""
    def scaled(expr: Any) -> Any:
        if not ir.is_constant(expr):
            return expr
        array = ir.const_value(expr)
        return expr if is_blank(array) else ir.constant_like(
            (array * np.asarray(factor, array.dtype)).astype(array.dtype), expr)

    return ir.make_call(call, [scaled(a) for a in call.args])
