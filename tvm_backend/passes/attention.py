"""Attention as one operator, whatever importers made of it.

Recognized are products of softmax's shares and values, where the scores are a product of queries and keys: scaled
before or after, by either operand; with additive masks or biases, constant (causal) or computed, and with masks that
choose (``where``). In the result attention is ``nn.attention`` or ``nn.attention_bias`` on [batch, length, heads,
depth], as Relax has it, with what permutes its operands taken into account. Numbers are those of the original up to
rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from archloom.tvm_backend.compiled import Refuse
from archloom.tvm_backend.ir import attention
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.rewriter import Rewriter

MOST_WITHIN = 16
"""Operators one after the other between scores and their product, at most."""
BARRED = -1e4
"""A score that is this much below the others has no share."""
LOWEST = np.float32(-1e37)
"""Stands for what is barred: finite, so that a row without any key has equal shares and not none."""


Fits: TypeAlias = Callable[[attention.AttentionShape], "tuple[str, str] | None"]
"""None where the target takes attention of these sizes, else what it saw and what it takes."""


def as_attention(module: ir.IRModule, fits: Fits, refuse: Refuse) -> ir.IRModule:
    """``main`` with attention as one operator wherever it ``fits``; the rest stays as it is."""
    return _Attention(module, fits, refuse).rewritten()


@dataclass(frozen=True)
class _Permuted:
    """A tensor in the order of axes in which it is used: ``source`` permuted by ``axes``."""

    source: Any
    axes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        given = ir.shape_of(self.source)
        return tuple(given[i] for i in self.axes)

    def in_order(self, order: tuple[int, ...]) -> "_Permuted":
        return _Permuted(self.source, tuple(self.axes[i] for i in order))


@dataclass(frozen=True)
class _Form:
    """Attention: operands as [..., length, depth], what is added to scaled scores (with a factor each), the scale."""

    query: _Permuted
    key: _Permuted
    value: _Permuted
    biases: tuple[tuple[Any, float], ...]
    scale: float
    softmax: str

    @property
    def shape(self) -> attention.AttentionShape:
        *lead, queries, depth = self.query.shape
        batch, heads = (*lead, 1)[:2] if len(lead) < 2 else lead
        return attention.AttentionShape(batch, heads, queries, self.key.shape[-2], depth, self.value.shape[-1])


class _Attention(Rewriter):
    """``permuted`` has the variables of the new body that are others permuted."""

    def __init__(self, module: ir.IRModule, fits: Fits, refuse: Refuse) -> None:
        super().__init__(module)
        self.fits, self.refuse = fits, refuse
        self.permuted: dict[Any, _Permuted] = {}
        self.changed = False

    def visit(self, var: ir.Var, value: Any) -> None:
        """Take over one binding, as it is or as the last one of an attention."""
        name = ir.op_name(value)
        form = self._decomposed(value) if name == "matmul" else None
        if name in attention.ATTENTION:
            form = self._fused(var, value)
        if form is not None:
            misfit = self.fits(form.shape)
            if misfit is None:
                self.changed = True
                self.replaced[var] = self._emit_attention(form, var, name == "matmul")
                return
            self.refuse(form.softmax, *misfit)
        new = self.new(value)
        if name == "permute_dims" and ir.is_var(new.args[0]):
            axes = ir.permutation(value)
            if new.args[0] in self.permuted:
                self.replaced[var] = self._written(self.permuted[new.args[0]].in_order(axes), var.name)
                return
            self.permuted[var] = _Permuted(new.args[0], axes)
        self.bind(var, new)

    # recognition

    def _decomposed(self, call: ir.Call) -> _Form | None:
        """``softmax(scores) · values``, where the scores are attention's; None for any other product."""
        shares, values = call.args
        softmax = self._only(shares)
        if ir.op_name(softmax) != "nn.softmax" or not ir.is_tensor(call) or ir.dtype_of(call) != "float32":
            return None
        rank = len(ir.shape_of(call))
        if rank not in (3, 4) or ir.attr(softmax, "axis") not in (-1, rank - 1):
            return None
        scores = self._scores(softmax.args[0], 1.0, ())
        if scores is None:
            return None
        product, scale, biases = scores
        (query, before), (key, above) = self._scaled(product.args[0]), self._scaled(product.args[1])
        rank = len(ir.shape_of(product))
        last = (*range(rank - 2), rank - 1, rank - 2)
        form = _Form(query, key.in_order(last), self._view(values), biases, scale * before * above, shares.name)
        leads = {v.shape[:-2] for v in (form.query, form.key, form.value)}
        fits = form.query.shape[-1] == form.key.shape[-1] and form.key.shape[-2] == form.value.shape[-2]
        return form if len(leads) == 1 and fits and 0 < form.scale < math.inf else None

    def _scores(
        self, expr: Any, scale: float, biases: tuple[Any, ...], most: int = MOST_WITHIN
    ) -> tuple[Any, float, tuple[Any, ...]] | None:
        """The product within scores, ``most`` operators deep, the factor on it, and what is added, each with its
        factor."""
        value = self._only(expr) if most else None
        if value is None:
            return None
        name = ir.op_name(value)
        if name == "matmul":
            both = all(len(ir.shape_of(a)) == len(ir.shape_of(value)) for a in value.args)
            return (value, scale, biases) if both else None
        if name in ("multiply", "divide"):
            inner, factor = _factor(value, name)
            return None if inner is None else self._scores(inner, scale * factor, biases, most - 1)
        if name == "add":
            for side, other in ((0, 1), (1, 0)):
                found = self._scores(value.args[side], scale, (*biases, (value.args[other], scale)), most - 1)
                if found is not None:
                    return found
        if name == "where":
            condition, first, second = value.args
            for inner, barred, seen in ((first, second, True), (second, first, False)):
                if ir.is_constant(barred) and bool((np.asarray(ir.const_value(barred)) <= BARRED).all()):
                    return self._scores(inner, scale, (*biases, (_Choice(condition, seen), 1.0)), most - 1)
        return None

    def _only(self, expr: Any) -> Any:
        """What a variable is bound to that nothing else reads."""
        return self.values.get(expr) if ir.is_var(expr) and self.uses[expr] == 1 else None

    def _scaled(self, expr: Any) -> tuple[_Permuted, float]:
        """An operand without a factor on it, and the factor; below permutations, too."""
        view, scale = self._view(expr), 1.0
        while ir.is_var(view.source):
            value: Any = self.value_of(view.source)
            name = ir.op_name(value)
            inner, factor = _factor(value, name) if name in ("multiply", "divide") else (None, 1.0)
            if inner is None:
                break
            view, scale = self._view(inner).in_order(view.axes), scale * factor
        return view, scale

    def _view(self, expr: Any) -> _Permuted:
        view = _Permuted(expr, tuple(range(len(ir.shape_of(expr)))))
        while ir.is_var(view.source) and ir.op_name(self.values.get(view.source)) == "permute_dims":
            inner = self.values[view.source]
            view = _Permuted(inner.args[0], ir.permutation(inner)).in_order(view.axes)
        return view

    def _fused(self, var: ir.Var, call: ir.Call) -> _Form:
        """An attention operator as it is, seen as [batch, heads, length, depth]."""
        query, key, value = (self._view(a).in_order(attention.HEADS_SWAPPED) for a in call.args[:3])
        biases = [(call.args[3], 1.0)] if len(call.args) > 3 else []
        diagonal = attention.causal_diagonal(call)
        if diagonal is not None:
            seen = np.tril(np.ones((query.shape[-2], key.shape[-2]), bool), diagonal)
            biases.append((np.where(seen, np.float32(0), LOWEST), 1.0))
        return _Form(query, key, value, tuple(biases), attention.attention_scale(call), f"{var.name}.softmax")

    # emission

    def _emit_attention(self, form: _Form, var: ir.Var, heads_first: bool) -> Any:
        query, key, value = (self._heads_last(v) for v in (form.query, form.key, form.value))
        bias, scale = self._bias(form), form.scale
        if bias is not None and not ir.is_constant(bias) and scale != 1.0:
            # scores are not scaled behind what is added to them: the queries are, before
            query = self.emit("multiply", query, self._number(query, scale))
            scale = 1.0
        result = self.emit("nn.attention", query, key, value, bias=bias, scale=scale, label=var.name)
        if not heads_first:
            return result
        if len(ir.shape_of(var)) == 3:
            return self.emit("reshape", result, ir.shape_of(var), label="reshaped")
        return self._written(_Permuted(result, attention.HEADS_SWAPPED), f"{var.name}.heads_first")

    def _heads_last(self, view: _Permuted) -> Any:
        if len(view.axes) == 3:
            plain = self._written(view, "operand")
            n, length, depth = ir.shape_of(plain)
            return self.emit("reshape", plain, (n, length, 1, depth), label="reshaped")
        return self._written(view.in_order(attention.HEADS_SWAPPED), "operand")

    def _written(self, view: _Permuted, label: str) -> Any:
        """A variable (or constant) in the view's order."""
        source = self.new(view.source)
        below = self.permuted.get(source) if ir.is_var(source) else None
        if below is not None:
            view, source = below.in_order(view.axes), below.source
        if view.axes == tuple(range(len(view.axes))):
            return source
        if ir.is_constant(source):
            return ir.constant_like(np.ascontiguousarray(ir.const_value(source).transpose(view.axes)), source)
        made = self.emit("permute_dims", source, label=label, axes=list(view.axes))
        self.permuted[made] = _Permuted(source, view.axes)
        return made

    def _bias(self, form: _Form) -> Any:
        """All that is added, broadcast to [batch, heads, queries, keys]; None if there is nothing."""
        if not form.biases:
            return None
        shape = form.shape
        full = (shape.batch, shape.heads, shape.queries, shape.keys)
        fixed: np.ndarray = np.zeros(full, np.float32)
        computed: Any = None
        for added, factor in form.biases:
            if isinstance(added, _Choice) and not ir.is_constant(added.condition):
                expr = self._chosen(added, full)
            elif isinstance(added, np.ndarray | _Choice) or ir.is_constant(added):
                array = _array(added)
                with np.errstate(over="ignore"):  # shapes are broadcast as those of what is computed
                    fixed = fixed + array.reshape(_four(array.shape, full)) * np.float32(factor)
                continue
            else:
                expr = self._outwards(self.new(added), full)
                if factor != 1.0:
                    expr = self.emit("multiply", expr, self._number(expr, factor))
            computed = expr if computed is None else self.emit("add", computed, expr)
        constant = ir.constant_like(np.maximum(fixed, LOWEST), form.query.source)
        if computed is None:
            return constant
        return computed if not fixed.any() else self.emit("add", computed, constant)

    def _number(self, like: Any, number: float | np.floating) -> Any:
        return ir.constant_like(np.asarray(number, np.float32), like)

    def _chosen(self, choice: "_Choice", full: tuple[int, ...]) -> Any:
        """Zeros where scores are kept, and the lowest number elsewhere."""
        condition = self.new(choice.condition)
        kept, barred = self._number(condition, 0.0), self._number(condition, LOWEST)
        first, second = (kept, barred) if choice.seen else (barred, kept)
        return self._outwards(self.emit("where", condition, first, second), full)

    def _outwards(self, expr: Any, full: tuple[int, ...]) -> Any:
        """Broadcast to the shape of the scores; masks of three axes belong to heads that are batches."""
        shape = ir.shape_of(expr)
        if shape == full:
            return expr
        wide = _four(shape, full)
        if shape != wide:
            expr = self.emit("reshape", expr, wide, label="reshaped")
        return expr if wide == full else self.emit("broadcast_to", expr, full)


@dataclass(frozen=True)
class _Choice:
    """Scores are kept where the condition is ``seen``."""

    condition: Any
    seen: bool


def _array(added: Any) -> np.ndarray:
    """A constant that is added, or the numbers that stand for a constant choice."""
    if isinstance(added, _Choice):
        keeps = np.asarray(ir.const_value(added.condition), bool) == added.seen
        return np.where(keeps, np.float32(0), LOWEST)
    return np.asarray(added if isinstance(added, np.ndarray) else ir.const_value(added), np.float32)


def _four(shape: tuple[int, ...], full: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with four axes; of three, the first is the batch where there is one head."""
    if len(shape) == 3 and full[1] == 1:
        return shape[0], 1, *shape[1:]
    return (*[1] * (4 - len(shape)), *shape)


def _factor(call: ir.Call, name: str | None) -> tuple[Any, float]:
    """The operand that a number multiplies or divides, and the factor; None if there is no such number."""
    for side, other in ((1, 0), (0, 1)):
        number = call.args[side]
        if ir.is_constant(number) and ir.const_value(number).size == 1 and (name == "multiply" or side == 1):
            value = float(ir.const_value(number).reshape(-1)[0])
            if name == "divide":
                value = 1 / value if value else math.inf
            return call.args[other], value
    return None, 1.0
