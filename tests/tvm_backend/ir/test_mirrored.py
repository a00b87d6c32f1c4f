"""Matches found here give the module that TVM's FuseOpsByPattern gives, and take a time in proportion to the depth."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import pytest
import tvm_ffi
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.models import catalogue, digits
from archloom.tvm_backend.ir import compat, matcher
from archloom.tvm_backend.ir.patterns import DFPattern, is_const, is_op, to_relax, wildcard
from archloom.tvm_backend.quantization.quantize import quantize
from archloom.tvm_backend.sources import named_networks
from archloom.tvm_backend.targets import partition, registry
from archloom.tvm_backend.targets.partition import patterns_of, prepare
from examples import digits_onnx, resnet_onnx
from tests.support.examples import examples, often, randoms
from tests.support.tvm_backend.networks import Net, attention, only, residual_cnn, split
from tests.support.tvm_backend.relax import parameter
from tests.support.tvm_backend.small_networks import float_cnn, int8_cnn

relax = compat.relax
Item = tuple[str, DFPattern, Any]


def by_tvm(module: Any, patterns: Sequence[Item]) -> Any:
    return compat.fuse_by_pattern(module, [(name, to_relax(p), check) for name, p, check in patterns])


def by_us(module: Any, patterns: Sequence[Item]) -> Any:
    with patch.object(compat, "fuse_by_pattern", side_effect=AssertionError("TVM is asked")):
        return matcher.fuse_by_pattern(module, patterns)


class Graph:
    """What modules compute, whatever the order of independent bindings and the names are: a number for each value, the
    same for the same operators (composite functions: equal ones) of the same values in the same places."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.functions: list[Any] = []

    def of(self, module: Any) -> tuple[Any, Counter[int]]:
        """The results of ``main``, and how often each value is computed."""
        main = module["main"]
        known = {p: self.number("parameter", i) for i, p in enumerate(main.params)}
        for binding in compat.bindings(main):
            known[binding.var] = self.value(module, binding.value, known)
        return self.value(module, compat.result_of(main), known), Counter(known.values())

    def number(self, *key: Any) -> int:
        return self.numbers.setdefault(key, len(self.numbers))

    def value(self, module: Any, expr: Any, known: dict[Any, int]) -> int:
        match compat.kind(expr):
            case "var":
                return known[expr]
            case "constant":
                array = compat.const_value(expr)
                return self.number(array.shape, str(array.dtype), array.tobytes())
            case "call":
                function = compat.callee(module, expr)
                head = (compat.op_name(expr), repr(compat.attributes_of(expr))) if function is None else (
                    "composite", self.function(function))
                return self.number(*head, *(self.value(module, a, known) for a in expr.args))
            case "tuple":
                return self.number("tuple", *(self.value(module, f, known) for f in expr.fields))
            case "field":
                return self.number("field", expr.index, self.value(module, expr.tuple_value, known))
        return self.number("other", str(expr))

    def function(self, function: Any) -> int:
        for i, other in enumerate(self.functions):
            if tvm_ffi.structural_equal(function, other, map_free_vars=True):
                return i
        self.functions.append(function)
        return len(self.functions) - 1


def same(ours: Any, theirs: Any) -> bool:
    """Whether two modules are equal but for the order of independent calls, which TVM chooses, and the numbers in the
    names of functions, which follow it."""
    graph = Graph()
    return graph.of(ours) == graph.of(theirs) and len(ours.functions) == len(theirs.functions)


def assert_same(model: onnx.ModelProto, *targets: str) -> None:
    """Each pattern on the same module: with the order that TVM chooses after one, the next one may find other matches
    where several overlap."""
    for name in targets:
        (chosen,) = only(registry.get(name))
        module = whole = prepare(archloom.load(model, name="net").module, chosen, lambda *_: None)
        for number in range(len(patterns_of(chosen))):
            found = []
            for fuse in by_us, by_tvm:
                refused: dict[str, tuple[str, ...]] = {}  # what is told of each is the first answer
                taken = partition._Taken()
                patterns = patterns_of(chosen, lambda name, *seen, to=refused: to.setdefault(name, seen), taken)
                found.append((fuse(module, patterns[number : number + 1]), refused, taken.names, taken.transposed))
            (ours, *notes), (theirs, *expected) = found
            assert notes == expected
            assert same(ours, theirs)
            module = ours
        assert same(by_us(whole, patterns_of(chosen)), module)


@pytest.mark.parametrize("make", [
    float_cnn, int8_cnn, residual_cnn, attention, lambda: digits_onnx.onnx_model(digits.DigitsNet(8)),
    lambda: resnet_onnx.onnx_model(resnet_onnx.tiny()),
])
def test_networks(make: Any) -> None:
    assert_same(make(), "gemmini", "plasticine", "qkv")


@pytest.mark.slow
@pytest.mark.parametrize("name", often(catalogue.BY_NAME, ()))
def test_the_catalogue(name: str) -> None:
    built = catalogue.build(catalogue.tiny(name))
    proto = named_networks.float_onnx(built)
    assert_same(proto, "plasticine", "qkv", "wormhole")
    assert_same(quantize(proto, built.samples(1)), "gemmini", "tpu_v1", "mte")


UNARY, BINARY = ("nn.relu", "negative"), ("add", "multiply", "subtract")


def random_module(random: Random, size: int) -> Any:
    """Operators of what was made before, of constants, tuples, shapes and numbers. A few values have two names, or none
    reads them. What nothing reads is among the results, and what is read sometimes."""
    x = parameter("x", (2, 2), "float32")
    constants = [compat.constant(np.full((2, 2), i, np.float32)) for i in range(2)]
    made, body, read = [x], [], set()

    def add(value: Any, name: str) -> Any:
        var = compat.new_var(name, value)
        body.append(compat.bind(var, value))
        read.update(compat.variables(value))
        return var

    for i in range(size):
        a, b = (random.choice([*made[-3:], *constants]) for _ in range(2))
        op = random.choice((*UNARY, *BINARY, *UNARY, *BINARY, "clip", "reshape", "einsum", "field", "alias", "constant"))
        if op == "field":
            pair = add(compat.normalized(relax.Tuple([a, b])), f"pair{i}")
            value = compat.tuple_get(pair, 1)
        elif op in ("alias", "constant"):
            value = made[-1] if op == "alias" else constants[0]
        else:
            rest: dict[str, tuple[Any, ...]] = {"clip": (0, 6), "reshape": ((2, 2),), "einsum": ("ij,ij->ij",)}
            args = ((a, b),) if op == "einsum" else (a, b) if op in BINARY else (a,)
            value = compat.relax_op(op)(*args, *rest.get(op, ()))
        made.append(add(compat.normalized(value), f"v{i}"))
    results = [v for v in made[1:] if v not in read or random.random() < 0.2]
    if random.random() < 0.7:
        results = results if random.random() < 0.7 else results[:1]  # nothing reads the others
        return compat.normalize(compat.module_of(compat.make_function([x], body, results)))
    shown = {v: relax.Var(v.name, v.ty) for v in results}  # what leaves a block
    body = [compat.bind(shown.get(b.var, b.var), compat.substitute(b.value, shown)) for b in body]
    out = shown[results[0]] if random.random() < 0.5 else relax.Tuple(list(shown.values()))
    return compat.normalize(compat.module_of(relax.Function([x], relax.SeqExpr([relax.DataflowBlock(body)], out), out.ty)))


def random_pattern(random: Random, depth: int, known: list[DFPattern]) -> DFPattern:
    """A pattern with a call at its root; parts stand in several places."""
    def part() -> DFPattern:
        kind = random.choice(("call", "any", "constant", "or", "not", "known", "call"))
        if known and (kind == "known" or (kind == "not" and random.random() < 0.5)):
            chosen = random.choice(known)
            return chosen if kind == "known" else ~chosen
        if kind in ("constant", "not"):
            return is_const() if kind == "constant" else ~is_const()
        if kind == "any" or not depth:
            return wildcard()
        if kind == "or":
            return random_pattern(random, depth - 1, known) | random.choice((wildcard(), is_const()))
        return random_pattern(random, depth - 1, known)

    name = random.choice((*UNARY, *BINARY, *UNARY, *BINARY, "clip", "reshape", "einsum"))
    args = []
    for _ in range(2 if name in BINARY else 1):
        args.append(wildcard() if name == "einsum" else part())
        known.append(args[-1])
    rest = {"clip": 2, "reshape": 1}.get(name, 0)
    return is_op(f"relax.{name}")(*args, *(wildcard() for _ in range(rest)))


def keeps_to_itself(module: Any) -> Callable[[Any], bool]:
    """What targets ask of every match."""
    results = set(compat.variables(compat.result_of(module["main"])))  # TVM does not tell that these are read

    def check(context: Any) -> bool:
        inside = dict(context.matched_bindings.items())
        return all(var not in results and all(user in inside for user in context.var_usages[var])
                   for var, value in inside.items() if not value.same_as(context.matched_expr))

    return check


@given(random=randoms, size=st.integers(1, 8), count=st.integers(1, 3))
@examples(40, 2000)
def test_random_patterns(random: Random, size: int, count: int) -> None:
    module = random_module(random, size)
    patterns = [(f"t.{i}", random_pattern(random, 2, []), keeps_to_itself(module)) for i in range(count)]
    assert same(by_us(module, patterns), by_tvm(module, patterns))


@given(random=randoms, layers=st.integers(2, 9))
@examples(40, 2000)
def test_matches_that_overlap(random: Random, layers: int) -> None:
    """The first of a chain is taken, but for those that lie within a longer one."""
    names = [random.choice(UNARY) for _ in range(layers)]
    x = y = parameter("x", (2, 2), "float32")
    body = []
    for i, name in enumerate(names):
        call = compat.normalized(compat.relax_op(name)(y))
        y = compat.new_var(f"v{i}", call)
        body.append(compat.bind(y, call))
    module = compat.normalize(compat.module_of(compat.make_function([x], body, [y])))
    pattern: DFPattern = wildcard()
    for _ in range(random.randint(1, 3)):
        pattern = is_op(f"relax.{random.choice(UNARY)}")(pattern)
        if random.random() < 0.4:
            pattern = is_op(f"relax.{random.choice(UNARY)}")(pattern) | pattern
    patterns = [("t", pattern, keeps_to_itself(module))]
    assert same(by_us(module, patterns), by_tvm(module, patterns))


def test_patterns_that_are_for_tvm() -> None:
    """TVM's own, quotients of products, and what has no operator at its root."""
    module = random_module(Random(0), 3)
    product = is_op("relax.multiply")(wildcard(), wildcard())
    for pattern in (to_relax(product), is_op("relax.divide")(product, wildcard()), product | wildcard()):
        with pytest.raises(AssertionError, match="TVM is asked"):
            by_us(module, [("t", pattern, keeps_to_itself(module))])
        matcher.fuse_by_pattern(module, [("t", pattern, keeps_to_itself(module))])


def test_a_check_has_to_refuse_what_is_read_elsewhere() -> None:
    x = parameter("x", (2, 2), "float32")
    negative, y = compat.normalized(compat.relax_op("negative")(x)), None
    y = compat.new_var("y", negative)
    total = compat.normalized(compat.relax_op("nn.relu")(y))
    z = compat.new_var("z", total)
    module = compat.normalize(compat.module_of(compat.make_function([x], [
        compat.bind(y, negative), compat.bind(z, total)], [y, z])))
    pattern = is_op("relax.nn.relu")(is_op("relax.negative")(wildcard()))
    with pytest.raises(ValueError, match=r"a match of t whose inner results are read elsewhere"):
        by_us(module, [("t", pattern, lambda context: True)])


def test_equal_matches_are_one_function() -> None:
    """By operators, attributes and constants, not by those that most constants differ by."""
    x = parameter("x", (2000,), "float32")
    constants = [np.zeros(2000, np.float32) for _ in range(3)]
    constants[1][1] = 1  # at a place that is not looked at first
    body, y = [], x
    for value in constants:
        call = compat.normalized(compat.relax_op("add")(y, compat.constant(value)))
        y = compat.new_var("y", call)
        body.append(compat.bind(y, call))
    module = compat.normalize(compat.module_of(compat.make_function([x], body, [y])))
    patterns = [("t", is_op("relax.add")(wildcard(), is_const()), keeps_to_itself(module))]
    ours = by_us(module, patterns)
    assert len(ours.functions) == 3
    assert tvm_ffi.structural_equal(ours, by_tvm(module, patterns), map_free_vars=True)


def chain(layers: int) -> onnx.ModelProto:
    """Equal quantized products."""
    net = Net()
    q = net.input("x", 4, 16, dtype=onnx.TensorProto.INT8)
    scale, zero = net.constant("scale", 0.05), net.constant("zero", 0, np.int8)
    for i in range(layers):
        weight = net.constant(f"w{i}", net.rng.integers(-9, 9, (16, 16)), np.int8)
        x, w = (net.node("DequantizeLinear", [v, scale, zero], f"{n}{i}") for n, v in (("x", q), ("w.", weight)))
        q = net.node("QuantizeLinear", [net.node("MatMul", [x, w], f"y{i}"), scale, zero], f"q{i}")
    return net.model(q)


@pytest.mark.slow
def test_time_is_in_proportion_to_depth() -> None:
    """Four times the layers in less than eight times the time: TVM's way takes sixteen times."""
    def seconds(layers: int) -> float:
        model, start = chain(layers), time.process_time()
        part, *_ = split(model)
        assert len(part.regions) == 1 and len(part.regions[0].steps) == layers
        return time.process_time() - start

    seconds(10)
    assert seconds(2000) < 8 * seconds(500)
