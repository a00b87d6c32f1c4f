"""Attention as one operator, whatever importers made of it.

Recognized are products of softmax's shares and values, where the scores are a product of queries and keys: scaled
before or after, by either operand; with additive masks or biases, constant (causal) or computed, and with masks that
choose (``where``). In the result attention is ``nn.attention`` or ``nn.attention_bias`` on [batch, length, heads,
depth], as Relax has it, with what permutes its operands taken into account. Numbers are those of the original up to
rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from archloom.tvm_backend.compiled import Refuse
from archloom.tvm_backend.ir import expressions as compat
from archloom.tvm_backend.ir.nodes import Call, Constant, TensorType, attributes, is_plain

HEADS = (0, 2, 1, 3)
"""From [batch, heads, length, depth] to [batch, length, heads, depth], and back."""
BARRED = -1e4
"""A score that is this much below the others has no share."""
LOWEST = np.float32(-1e37)
"""Stands for what is barred: finite, so that a row without any key has equal shares and not none."""


@dataclass(frozen=True)
class AttentionShape:
    """Sizes of attention: ``heads`` in each of ``batch``; scores are ``queries`` × ``keys``, from ``depth``; results
    have ``values`` columns."""

    batch: int
    heads: int
    queries: int
    keys: int
    depth: int
    values: int


def attention_shape(call: Any) -> AttentionShape:
    """The sizes of an attention operator, whose operands are [batch, length, heads, depth]."""
    batch, queries, heads, depth = compat.shape_of(call.args[0])
    return AttentionShape(batch, heads, queries, compat.shape_of(call.args[1])[1], depth,
                          compat.shape_of(call.args[2])[-1])


Fits: TypeAlias = Callable[[AttentionShape], "tuple[str, str] | None"]
"""None where the target takes attention of these sizes, else what it saw and what it takes."""


def as_attention(module: "compat.IRModule", fits: Fits, refuse: Refuse) -> "compat.IRModule":
    """``main`` with attention as one operator wherever it ``fits``; the rest stays as it is."""
    main = module["main"]
    rewriting = _Rewriting({b.var: b.value for b in compat.bindings(main)}, _uses(main), fits, refuse, is_plain(module))
    for binding in compat.bindings(main):
        rewriting.visit(binding.var, binding.value)
    if not rewriting.found:
        return module
    results = [compat.substitute(r, rewriting.replaced) if compat.is_var(r) else r for r in compat.outputs_of(main)]
    return compat.replace_main(module, compat.rebuild(main, rewriting.body, results))


def _uses(main: Any) -> dict[Any, int]:
    uses: dict[Any, int] = {}
    for expr in [*(b.value for b in compat.bindings(main)), *compat.outputs_of(main)]:
        for var in compat.variables(expr):
            uses[var] = uses.get(var, 0) + 1
    return uses


@dataclass(frozen=True)
class _View:
    """A tensor in the order of axes in which it is used: ``source`` permuted by ``axes``."""

    source: Any
    axes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        given = compat.shape_of(self.source)
        return tuple(given[i] for i in self.axes)

    def permuted(self, order: tuple[int, ...]) -> "_View":
        return _View(self.source, tuple(self.axes[i] for i in order))


@dataclass(frozen=True)
class _Form:
    """Attention: operands as [..., length, depth], what is added to scaled scores (with a factor each), the scale."""

    query: _View
    key: _View
    value: _View
    biases: tuple[tuple[Any, float], ...]
    scale: float
    softmax: str

    @property
    def shape(self) -> AttentionShape:
        *lead, queries, depth = self.query.shape
        batch, heads = (*lead, 1)[:2] if len(lead) < 2 else lead
        return AttentionShape(batch, heads, queries, self.key.shape[-2], depth, self.value.shape[-1])


@dataclass
class _Rewriting:
    """The rewritten body so far; ``replaced`` maps variables of the old body to expressions of the new one."""

    bound: dict[Any, Any]
    uses: Mapping[Any, int]
    fits: Fits
    refuse: Refuse
    plain: bool
    body: list[Any] = field(default_factory=list)
    replaced: dict[Any, Any] = field(default_factory=dict)
    views: dict[Any, _View] = field(default_factory=dict)
    found: bool = False

    def visit(self, var: Any, value: Any) -> None:
        """Take over one binding, as it is or as the last one of an attention."""
        name = compat.op_name(value)
        form = self._decomposed(value) if name == "matmul" else None
        if name in ("nn.attention", "nn.attention_bias"):
            form = self._fused(var, value)
        if form is not None:
            misfit = self.fits(form.shape)
            if misfit is None:
                self.found = True
                self.replaced[var] = self._emit_attention(form, var, name == "matmul")
                return
            self.refuse(form.softmax, *misfit)
        new = compat.substitute(value, self.replaced)
        if name == "permute_dims" and compat.is_var(new.args[0]):
            axes = _axes(value, len(compat.shape_of(var)))
            if new.args[0] in self.views:
                self.replaced[var] = self._materialized(self.views[new.args[0]].permuted(axes), var.name)
                return
            self.views[var] = _View(new.args[0], axes)
        self.body.append(compat.bind(var, new))

    # recognition

    def _decomposed(self, call: Any) -> _Form | None:
        """``softmax(scores) · values``, where the scores are attention's; None for any other product."""
        shares, values = call.args
        softmax = self._only(shares)
        if compat.op_name(softmax) != "nn.softmax" or not _floats(call) or len(compat.shape_of(call)) not in (3, 4):
            return None
        if compat.attr(softmax, "axis") not in (-1, len(compat.shape_of(call)) - 1):
            return None
        scores = self._scores(softmax.args[0], 1.0, ())
        if scores is None:
            return None
        product, scale, biases = scores
        (query, before), (key, above) = self._scaled(product.args[0]), self._scaled(product.args[1])
        rank = len(compat.shape_of(product))
        last = (*range(rank - 2), rank - 1, rank - 2)
        form = _Form(query, key.permuted(last), self._view(values), biases, scale * before * above, shares.name)
        leads = {v.shape[:-2] for v in (form.query, form.key, form.value)}
        fits = form.query.shape[-1] == form.key.shape[-1] and form.key.shape[-2] == form.value.shape[-2]
        return form if len(leads) == 1 and fits and 0 < form.scale < math.inf else None

    def _scores(self, expr: Any, scale: float, biases: tuple[Any, ...]) -> tuple[Any, float, tuple[Any, ...]] | None:
        """The product within scores, the factor on it, and what is added, each with its factor."""
        value = self._only(expr)
        name = compat.op_name(value)
        if name == "matmul":
            both = all(len(compat.shape_of(a)) == len(compat.shape_of(value)) for a in value.args)
            return (value, scale, biases) if both else None
        if name in ("multiply", "divide"):
            inner, factor = _factor(value, name)
            return None if inner is None else self._scores(inner, scale * factor, biases)
        if name == "add":
            for side, other in ((0, 1), (1, 0)):
                found = self._scores(value.args[side], scale, (*biases, (value.args[other], scale)))
                if found is not None:
                    return found
        if name == "where":
            condition, first, second = value.args
            for inner, barred, seen in ((first, second, True), (second, first, False)):
                if _is_barred(barred):
                    return self._scores(inner, scale, (*biases, (_Choice(condition, seen), 1.0)))
        return None

    def _only(self, expr: Any) -> Any:
        """What a variable is bound to that nothing else reads."""
        return self.bound.get(expr) if compat.is_var(expr) and self.uses.get(expr) == 1 else None

    def _scaled(self, expr: Any) -> tuple[_View, float]:
        """An operand without a factor on it, and the factor; below permutations, too."""
        view, scale = self._view(expr), 1.0
        while compat.is_var(view.source):
            value = self.bound.get(view.source)
            name = compat.op_name(value)
            inner, factor = _factor(value, name) if name in ("multiply", "divide") else (None, 1.0)
            if inner is None:
                break
            below = self._view(inner)
            view, scale = _View(below.source, tuple(below.axes[i] for i in view.axes)), scale * factor
        return view, scale

    def _view(self, expr: Any) -> _View:
        axes = tuple(range(len(compat.shape_of(expr))))
        while compat.is_var(expr) and compat.op_name(self.bound.get(expr)) == "permute_dims":
            inner = self.bound[expr]
            order = _axes(inner, len(axes))
            axes, expr = tuple(order[i] for i in axes), inner.args[0]
        return _View(expr, axes)

    def _fused(self, var: Any, call: Any) -> _Form:
        """An attention operator as it is, seen as [batch, heads, length, depth]."""
        query, key, value = (self._view(a).permuted(HEADS) for a in call.args[:3])
        scale = compat.attr(call, "scale")
        number = query.shape[-1] ** -0.5 if scale is None else float(getattr(scale, "value", scale))
        biases = [(call.args[3], 1.0)] if len(call.args) > 3 else []
        causal = compat.attr(call, "causal_mask")
        if causal is not None:
            rows, columns = query.shape[-2], key.shape[-2]
            seen = np.tril(np.ones((rows, columns), bool), columns - rows if str(causal) == "BottomRight" else 0)
            biases.append((np.where(seen, np.float32(0), LOWEST), 1.0))
        return _Form(query, key, value, tuple(biases), number, f"{var.name}.softmax")

    # emission

    def _emit_attention(self, form: _Form, var: Any, heads_first: bool) -> Any:
        query, key, value = (self._heads_last(v) for v in (form.query, form.key, form.value))
        bias, scale = self._bias(form), form.scale
        if bias is not None and not compat.is_constant(bias) and scale != 1.0:
            # scores are not scaled behind what is added to them: the queries are, before
            query = self._emit("multiply", [query, self._constant(np.float32(scale))], compat.shape_of(query))
            scale = 1.0
        shape = form.shape
        size = (shape.batch, shape.queries, shape.heads, shape.values)
        result = self._call_attention(query, key, value, bias, scale, size, var.name)
        if not heads_first:
            return result
        if len(compat.shape_of(var)) == 3:
            return self._reshape(result, compat.shape_of(var))
        return self._materialized(_View(result, HEADS), f"{var.name}.heads_first")

    def _heads_last(self, view: _View) -> Any:
        if len(view.axes) == 3:
            plain = self._materialized(view, "operand")
            n, length, depth = compat.shape_of(plain)
            return self._reshape(plain, (n, length, 1, depth))
        return self._materialized(view.permuted(HEADS), "operand")

    def _materialized(self, view: _View, label: str) -> Any:
        """A variable (or constant) in the view's order."""
        source = compat.substitute(view.source, self.replaced) if compat.is_var(view.source) else view.source
        below = self.views.get(source) if compat.is_var(source) else None
        if below is not None:
            view = _View(below.source, tuple(below.axes[i] for i in view.axes))
            source = view.source
        if view.axes == tuple(range(len(view.axes))):
            return source
        if compat.is_constant(source):
            return self._constant(np.ascontiguousarray(compat.const_value(source).transpose(view.axes)))
        made = self._emit("permute_dims", [source], tuple(compat.shape_of(source)[i] for i in view.axes), label,
                          axes=list(view.axes))
        self.views[made] = _View(source, view.axes)
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
            if isinstance(added, _Choice) and not compat.is_constant(added.condition):
                expr = self._chosen(added, full)
            elif isinstance(added, np.ndarray | _Choice) or compat.is_constant(added):
                with np.errstate(over="ignore"):
                    fixed = fixed + _outwards(_array(added), full) * np.float32(factor)
                continue
            else:
                expr = self._outwards(compat.substitute(added, self.replaced), full)
                if factor != 1.0:
                    expr = self._emit("multiply", [expr, self._constant(np.float32(factor))], full)
            computed = expr if computed is None else self._emit("add", [computed, expr], full)
        constant = self._constant(np.maximum(fixed, LOWEST))
        if computed is None:
            return constant
        return computed if not fixed.any() else self._emit("add", [computed, constant], full)

    def _chosen(self, choice: "_Choice", full: tuple[int, ...]) -> Any:
        """Zeros where scores are kept, and the lowest number elsewhere."""
        kept, barred = self._constant(np.float32(0)), self._constant(LOWEST)
        condition = compat.substitute(choice.condition, self.replaced)
        first, second = (kept, barred) if choice.seen else (barred, kept)
        shape = compat.shape_of(condition)
        return self._outwards(self._emit("where", [condition, first, second], shape), full)

    def _outwards(self, expr: Any, full: tuple[int, ...]) -> Any:
        """Broadcast to the shape of the scores; masks of three axes belong to heads that are batches."""
        shape = compat.shape_of(expr)
        if shape == full:
            return expr
        wide = _four(shape, full)
        if shape != wide:
            expr = self._reshape(expr, wide)
        if wide == full:
            return expr
        if self.plain:
            from archloom.tvm_backend.ir.nodes import Shape

            return self._emit("broadcast_to", [expr, Shape(full)], full)
        return self._emit("broadcast_to", [expr, full], full)

    def _call_attention(
        self, query: Any, key: Any, value: Any, bias: Any, scale: float, size: tuple[int, ...], label: str
    ) -> Any:
        if self.plain:
            name = "nn.attention" if bias is None else "nn.attention_bias"
            args = [query, key, value, *([] if bias is None else [bias])]
            return self._emit(name, args, size, label, scale=scale, causal_mask=None)
        from archloom.tvm_backend.ir import compat as relax

        call = relax.normalized(relax.relax_op("nn.attention")(
            query, key, value, bias=bias, scale=relax.float_immediate(scale)))
        return self._bound(call, label)

    def _reshape(self, expr: Any, shape: tuple[int, ...]) -> Any:
        call = compat.reshape(expr, shape)
        return self._bound(call if self.plain else compat.normalized(call), "reshaped")

    def _emit(self, op: str, args: list[Any], shape: tuple[int, ...], label: str = "lv", **attrs: Any) -> Any:
        if self.plain:
            named = {k: tuple(v) if isinstance(v, list) else v for k, v in attrs.items()}
            return self._bound(Call(op, tuple(args), attributes(**named), TensorType(shape, "float32")), label)
        from archloom.tvm_backend.ir import compat as relax

        return self._bound(relax.normalized(relax.relax_op(op)(*args, **attrs)), label)

    def _bound(self, call: Any, label: str) -> Any:
        var = compat.new_var(label, call)
        self.body.append(compat.bind(var, call))
        return var

    def _constant(self, array: Any) -> Any:
        if self.plain:
            return Constant(np.asarray(array))
        from archloom.tvm_backend.ir import compat as relax

        return relax.constant(np.asarray(array))


@dataclass(frozen=True)
class _Choice:
    """Scores are kept where the condition is ``seen``."""

    condition: Any
    seen: bool


def _array(added: Any) -> np.ndarray:
    """A constant that is added, or the numbers that stand for a constant choice."""
    if isinstance(added, _Choice):
        keeps = np.asarray(compat.const_value(added.condition), bool) == added.seen
        return np.where(keeps, np.float32(0), LOWEST)
    return np.asarray(added if isinstance(added, np.ndarray) else compat.const_value(added), np.float32)


def _outwards(array: np.ndarray, full: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(array.reshape(_four(array.shape, full)), full)


def _four(shape: tuple[int, ...], full: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with four axes; of three, the first is the batch where there is one head."""
    if len(shape) == 3 and full[1] == 1:
        return shape[0], 1, *shape[1:]
    return (*[1] * (4 - len(shape)), *shape)


def _axes(call: Any, rank: int) -> tuple[int, ...]:
    return tuple(reversed(range(rank))) if call.attrs.axes is None else tuple(
        i % rank for i in compat.attr_ints(call, "axes"))


def _floats(expr: Any) -> bool:
    return compat.is_tensor(expr) and compat.dtype_of(expr) == "float32"


def _factor(call: Any, name: str | None) -> tuple[Any, float]:
    """The operand that a number multiplies or divides, and the factor; None if there is no such number."""
    for side, other in ((1, 0), (0, 1)):
        number = call.args[side]
        if compat.is_constant(number) and compat.const_value(number).size == 1 and (name == "multiply" or side == 1):
            value = float(compat.const_value(number).reshape(-1)[0])
            if name == "divide":
                value = 1 / value if value else math.inf
            return call.args[other], value
    return None, 1.0


def _is_barred(expr: Any) -> bool:
    """Whether an expression is a constant of numbers far below all scores."""
    return compat.is_constant(expr) and bool((np.asarray(compat.const_value(expr)) <= BARRED).all())
