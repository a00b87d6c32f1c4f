"""Batch normalization of networks that are not trained any more: a factor and a shift of each channel.

After a convolution by a constant kernel both go into kernel and bias; elsewhere they become a multiplication and an
addition, which targets with vector instructions take.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.conversion import is_blank


def without_batch_norms(module: ir.IRModule) -> ir.IRModule:
    """Rewrite ``main`` (see above) where statistics and weights are constants and only the result is read."""
    main = module["main"]
    bindings = ir.bindings(main)
    if not any(ir.op_name(b.value) == "nn.batch_norm" for b in bindings):
        return module
    state = _Rewriting({b.var: b.value for b in bindings}, _users(main))
    for binding in bindings:
        state.visit(binding.var, binding.value)
    results = [ir.substitute(r, state.replaced) for r in ir.outputs_of(main)]
    return ir.replace_main(module, ir.rebuild(main, state.body, results))


def _users(main: Any) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for expr in [*(b.value for b in ir.bindings(main)), *ir.outputs_of(main)]:
        for var in ir.variables(expr):
            found[var] = found.get(var, 0) + 1
    return found


@dataclass
class _Rewriting:
    """The rewritten body so far; ``norms`` has what was left out until its result is read."""

    bound: dict[Any, Any]
    users: dict[Any, int]
    body: list[Any] = field(default_factory=list)
    replaced: dict[Any, Any] = field(default_factory=dict)
    norms: dict[Any, Any] = field(default_factory=dict)

    def visit(self, var: Any, value: Any) -> None:
        """Take over one binding."""
        if ir.op_name(value) == "nn.batch_norm" and self.users.get(var) == 1 and _is_constant(value):
            self.norms[var] = value
            return
        got = ir.is_tuple_get(value)
        if got is not None and got[0] in self.norms and got[1] == 0:
            self._normalized(var, self.norms[got[0]])
            return
        if self.norms and any(v in self.norms for v in ir.variables(value)):
            for norm in [v for v in ir.variables(value) if v in self.norms]:
                self.body.append(ir.bind(norm, ir.substitute(self.norms.pop(norm), self.replaced)))
        self.body.append(ir.bind(var, ir.substitute(value, self.replaced)))

    def _normalized(self, var: Any, call: Any) -> None:
        """The result of a batch normalization."""
        factor, shift = _numbers(call)
        data, rank = call.args[0], len(ir.shape_of(call.args[0]))
        axis = int(ir.attr(call, "axis")) % rank
        shape = tuple(-1 if i == axis else 1 for i in range(rank))
        folded = self._folded(data, factor, shift) if axis == 1 else None
        if folded is None:
            x = ir.substitute(data, self.replaced)
            scaled = self._emit("multiply", x, ir.constant_like(factor.reshape(shape), x))
        else:
            scaled, shift = folded
        call = ir.normalized(ir.call_of(
            "add", [scaled, ir.constant_like(shift.reshape(shape), scaled)], {}))
        self.body.append(ir.bind(var, call))

    def _folded(self, data: Any, factor: np.ndarray, shift: np.ndarray) -> tuple[Any, np.ndarray] | None:
        """The convolution that makes ``data``, with the factor in its kernel, and the shift with its bias in it."""
        inner: Any = self.bound.get(data)
        bias = np.zeros_like(shift)
        if self.users.get(data) != 1:
            return None
        if ir.op_name(inner) == "add":
            constants = [a for a in inner.args if ir.is_constant(a)]
            variables = [a for a in inner.args if ir.is_var(a)]
            if len(constants) != 1 or len(variables) != 1 or self.users.get(variables[0]) != 1:
                return None
            given = ir.const_value(constants[0])
            if given.size != bias.size or ir.shape_of(variables[0]) != ir.shape_of(data):
                return None
            bias, inner = given.reshape(-1), self.bound.get(variables[0])
        if ir.op_name(inner) != "nn.conv2d" or not ir.is_constant(inner.args[1]) or str(
                ir.attr(inner, "kernel_layout")) != "OIHW" or str(ir.attr(inner, "out_layout")) != "NCHW":
            return None
        kernel = ir.const_value(inner.args[1])
        weights = kernel if is_blank(kernel) else kernel * factor.reshape(-1, 1, 1, 1).astype(kernel.dtype)
        x = ir.substitute(inner.args[0], self.replaced)
        made = ir.normalized(ir.make_like(inner, [x, ir.constant_like(weights, x)]))
        result = ir.new_var(data.name, made)
        self.body.append(ir.bind(result, made))
        return result, (bias * factor + shift).astype(shift.dtype)

    def _emit(self, op: str, *args: Any) -> Any:
        call = ir.normalized(ir.call_of(op, args, {}))
        result = ir.new_var("lv", call)
        self.body.append(ir.bind(result, call))
        return result


def _is_constant(call: Any) -> bool:
    return all(ir.is_constant(a) for a in call.args[1:])


def _numbers(call: Any) -> tuple[np.ndarray, np.ndarray]:
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
