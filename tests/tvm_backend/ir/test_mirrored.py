"""Matches found here give the module that TVM's FuseOpsByPattern gives, but for the names of results, which stay."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
import tvm_ffi
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.models import catalogue, digits
from archloom.tvm_backend.ir import compat, fusing, matcher, mirrored
from archloom.tvm_backend.ir.nodes import Unsupported
from archloom.tvm_backend.ir.patterns import DFPattern, is_const, is_op, to_relax, wildcard
from archloom.tvm_backend.quantization.quantize import quantize
from archloom.tvm_backend.sources import named_networks
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.targets.partition import patterns_of, prepare
from examples import digits_onnx, resnet_onnx
from tests.support.examples import examples, often, randoms
from tests.support.tvm_backend.networks import attention, only, residual_cnn
from tests.support.tvm_backend.relax import parameter, symbolic
from tests.support.tvm_backend.small_networks import float_cnn, int8_cnn

relax, tvm = compat.relax, compat.tvm
Item = tuple[str, Any, Callable[[Any], bool]]
Asked = list[tuple[str, set[tuple[str, int]]]]


def by_tvm(module: Any, patterns: Sequence[Item]) -> Any:
    return compat.fuse_by_pattern(module, [(name, to_relax(p), check) for name, p, check in patterns])


def assert_equal(ours: Any, theirs: Any) -> None:
    """Equal operators, constants, types and order of bindings; equal names of functions."""
    assert tvm_ffi.structural_equal(ours, theirs, map_free_vars=True)
    assert {g.name_hint for g in ours.functions} == {g.name_hint for g in theirs.functions}


# networks


def assert_same(model: onnx.ModelProto, *targets: str) -> None:
    """What is taken, and what is told of each operator, too."""
    for name in targets:
        (chosen,) = only(registry.get(name))
        module = prepare(archloom.load(model, name="net").module, chosen, lambda *_: None)
        found = []
        for fuse in mirrored.fuse, by_tvm:
            refused: dict[str, tuple[str, ...]] = {}  # what is told of each is the first answer
            patterns = patterns_of(chosen, lambda name, *seen, to=refused: to.setdefault(name, seen))
            found.append((fuse(module, patterns), refused))
        (ours, told), (theirs, expected) = found
        assert told == expected
        assert_equal(ours, theirs)


@pytest.mark.first_case
@pytest.mark.parametrize("make", [
    residual_cnn, float_cnn, int8_cnn, attention, lambda: digits_onnx.onnx_model(digits.DigitsNet(8)),
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


@pytest.mark.parametrize("name", registry.names())
def test_no_target_leaves_its_patterns_to_tvm(name: str) -> None:
    for _, pattern, _ in patterns_of(only(registry.get(name))[0]):
        matcher.operators_of(pattern)


# random modules


UNARY, BINARY = ("nn.relu", "negative"), ("add", "multiply", "subtract")
OPERATORS = (*UNARY, *BINARY) * 2 + ("clip", "reshape", "einsum")


class Block:
    """Bindings of a function of one tensor, one after another."""

    def __init__(self) -> None:
        self.x = parameter("x", (2, 2), "float32")
        self.body: list[Any] = []

    def add(self, value: Any, name: str = "") -> Any:
        value = compat.normalized(value)
        var = compat.new_var(name or f"v{len(self.body)}", value)
        self.body.append(compat.bind(var, value))
        return var

    def call(self, op: str, *args: Any) -> Any:
        return self.add(compat.relax_op(op)(*args))

    def module(self, results: Sequence[Any]) -> Any:
        """With one more binding, of the result, as passes of ours make it."""
        return compat.normalize(compat.module_of(compat.make_function([self.x], self.body, results)))

    def as_imported(self, results: Sequence[Any], several: bool) -> Any:
        """With results that the block shows by themselves; of the first alone, or of all."""
        shown = {v: relax.Var(v.name, v.ty) for v in results}
        body = [compat.bind(shown.get(b.var, b.var), compat.substitute(b.value, shown)) for b in self.body]
        out = relax.Tuple(list(shown.values())) if several else shown[results[0]]
        whole = relax.SeqExpr([relax.DataflowBlock(body)], out)
        return compat.normalize(compat.module_of(relax.Function([self.x], whole, out.ty)))


def random_module(random: Random, size: int, rebuilt: bool = True) -> Any:
    """Operators of what was made before, of constants, tuples, shapes and numbers. A few values have two names, or none
    reads them. What nothing reads is among the results, and what is read sometimes."""
    block = Block()
    constants = [compat.constant(np.full((2, 2), i, np.float32)) for i in range(2)]
    made = [block.x]
    for _ in range(size):
        a, b = (random.choice([*made[-3:], *constants]) for _ in range(2))
        op = random.choice((*OPERATORS, "field", "alias", "constant"))
        if op == "field":
            made.append(block.add(compat.tuple_get(block.add(relax.Tuple([a, b])), 1)))
        elif op in ("alias", "constant"):
            made.append(block.add(made[-1] if op == "alias" else constants[0]))
        else:
            rest: dict[str, tuple[Any, ...]] = {"clip": (0, 6), "reshape": ((2, 2),), "einsum": ("ij,ij->ij",)}
            args = ((a, b),) if op == "einsum" else (a, b) if op in BINARY else (a,)
            made.append(block.call(op, *args, *rest.get(op, ())))
    read = {v for b in block.body for v in compat.variables(b.value)}
    results = [v for v in made[1:] if v not in read or random.random() < 0.2]
    if rebuilt:
        return block.module(results if random.random() < 0.7 else results[:1])  # nothing reads the others
    return block.as_imported(results, random.random() < 0.5)


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
        inner = random_pattern(random, depth - 1, known)
        return inner | random.choice((wildcard(), is_const())) if kind == "or" else inner

    name = random.choice(OPERATORS)
    args = []
    for _ in range(2 if name in BINARY else 1):
        args.append(wildcard() if name == "einsum" else part())
        known.append(args[-1])
    rest = {"clip": 2, "reshape": 1}.get(name, 0)
    return is_op(f"relax.{name}")(*args, *(wildcard() for _ in range(rest)))


def keeps_to_itself(context: Any) -> bool:
    """What targets ask of every match."""
    inside = dict(context.matched_bindings.items())
    return all(user in inside for var, value in inside.items() if not value.same_as(context.matched_expr)
               for user in context.var_usages[var])


def heard(check: Callable[[Any], bool], asked: Asked) -> Callable[[Any], bool]:
    """The check, with notes of what it is asked: the name of the result, those inside, each with how many read it."""
    def run(context: Any) -> bool:
        inside = dict(context.matched_bindings.items())
        (root,) = (var.name for var, value in inside.items() if value.same_as(context.matched_expr))
        asked.append((root, {(var.name, len(context.var_usages[var])) for var in inside}))
        return check(context)

    return run


def assert_alike(fuse: Callable[..., Any], module: Any, patterns: Iterable[DFPattern]) -> None:
    """The same questions in the same order, and the same module."""
    asked: tuple[Asked, Asked] = [], []
    ours, theirs = (
        way(module, [(f"t.{i}", pattern, heard(keeps_to_itself, to)) for i, pattern in enumerate(patterns)])
        for way, to in zip((fuse, by_tvm), asked, strict=True))
    assert asked[0] == asked[1]
    assert_equal(ours, theirs)


@given(random=randoms, size=st.integers(1, 9), count=st.integers(1, 3))
@examples(60, 3000)
def test_random_patterns(random: Random, size: int, count: int) -> None:
    """Of modules as passes leave them, nothing is left to TVM."""
    assert_alike(mirrored.fuse, random_module(random, size), [random_pattern(random, 2, []) for _ in range(count)])


@given(random=randoms, size=st.integers(1, 9), rebuilt=st.booleans())
@examples(20, 1000)
def test_checks_that_agree_to_everything(random: Random, size: int, rebuilt: bool) -> None:
    """What is read elsewhere becomes a further result of the function, by TVM."""
    module = random_module(random, size, rebuilt)
    patterns = [("t", random_pattern(random, 2, []), lambda context: True)]
    assert_equal(fusing.fuse_by_pattern(module, patterns)[0], by_tvm(module, patterns))


@given(random=randoms, layers=st.integers(2, 9))
@examples(20, 1000)
def test_matches_that_overlap(random: Random, layers: int) -> None:
    """The first of a chain is taken, but for those that lie within a longer one."""
    block = Block()
    y = block.x
    for _ in range(layers):
        y = block.call(random.choice(UNARY), y)
    pattern: DFPattern = wildcard()
    for _ in range(random.randint(1, 3)):
        pattern = is_op(f"relax.{random.choice(UNARY)}")(pattern)
        if random.random() < 0.4:
            pattern = is_op(f"relax.{random.choice(UNARY)}")(pattern) | pattern
    assert_alike(mirrored.fuse, block.module([y]), [pattern])


@given(random=randoms, size=st.integers(1, 9), rebuilt=st.booleans())
@examples(20, 1000)
def test_dead_code_goes_as_by_tvm(random: Random, size: int, rebuilt: bool) -> None:
    module = random_module(random, size, rebuilt)
    theirs = relax.transform.DeadCodeElimination(["main"])(relax.transform.Normalize()(module))
    assert_equal(compat.replace_main(module, module["main"]), theirs)


# what is left to TVM


def left_to_tvm(module: Any, pattern: Any, why: str, check: Callable[[Any], bool] = keeps_to_itself) -> None:
    with pytest.raises(Unsupported, match=why):
        mirrored.fuse(module, [("t", pattern, check)])
    found, fallbacks = fusing.fuse_by_pattern(module, [("t", pattern, check)])
    assert len(fallbacks) == 1 and re.search(why, fallbacks[0].why)
    assert_equal(found, by_tvm(module, [("t", pattern, check)]))
    assert len(found.functions) > len(module.functions)


def test_patterns_that_are_for_tvm() -> None:
    """TVM's own, quotients of products, and what has no operator at its root."""
    block = Block()
    product = block.call("multiply", block.x, block.x)
    module = block.module([block.call("divide", product, block.x)])
    pattern = is_op("relax.multiply")(wildcard(), wildcard())
    left_to_tvm(module, to_relax(pattern), "written for TVM alone")
    left_to_tvm(module, is_op("relax.divide")(pattern, wildcard()), "quotients of products")
    left_to_tvm(module, pattern | wildcard(), "no operator at its root")


def test_an_operator_that_is_not_known_is_an_error() -> None:
    block = Block()
    module = block.module([block.call("negative", block.x)])
    with pytest.raises(AttributeError, match=r"relax\.nosuch is not registered"):
        fusing.fuse_by_pattern(module, [("t", is_op("relax.nosuch")(wildcard()), keeps_to_itself)])


def test_results_within_a_match_that_are_read_elsewhere() -> None:
    block = Block()
    y = block.call("negative", block.x)
    module = block.module([y, block.call("nn.relu", y)])
    pattern = is_op("relax.nn.relu")(is_op("relax.negative")(wildcard()))
    left_to_tvm(module, pattern, "a match of t of which more than the result is read elsewhere", lambda context: True)


def test_functions_that_are_for_tvm() -> None:
    negative = is_op("relax.negative")(wildcard())
    block = Block()
    y = block.call("negative", block.x)
    main = block.module([y])["main"]
    other = Block()
    two = tvm.IRModule({"main": main, "other": other.module([other.call("negative", other.x)])["main"].with_attr(
        "global_symbol", "other")})
    left_to_tvm(two, negative, "several functions")
    blocks = relax.SeqExpr([*main.body.blocks, relax.BindingBlock([])], main.body.body)
    split = relax.Function(main.params, blocks, main.ret_ty)
    left_to_tvm(compat.module_of(split), negative, "not one block")


def test_values_that_are_for_tvm() -> None:
    """Shapes by name, calls by two names, symbols, and arguments that are neither tensors nor shapes nor numbers."""
    block = Block()
    shape = block.add(relax.ShapeExpr([2, 2]))
    flat = block.call("reshape", block.x, shape)
    left_to_tvm(block.module([flat]), is_op("relax.reshape")(wildcard(), wildcard()), "a variable for shapes")
    block = Block()
    call = compat.normalized(compat.relax_op("negative")(block.x))
    first, second = block.add(call), block.add(call)
    left_to_tvm(block.module([first, second]), is_op("relax.negative")(wildcard()), "bound twice")
    block = Block()
    block.x = parameter("x", (symbolic("n"), 2), "float32")
    left_to_tvm(block.module([block.call("negative", block.x)]), is_op("relax.negative")(wildcard()), "symbols")
    block = Block()
    block.add(compat.call_external("f", [block.x], [block.x]))
    y = block.call("negative", block.body[-1].var)
    pattern = is_op("relax.negative")(is_op("relax.call_pure_packed")(wildcard(), wildcard()))
    left_to_tvm(block.module([y]), pattern, "an argument that is a")


def test_equal_matches_are_one_function() -> None:
    """By operators, attributes and constants, not by those that most constants differ by; earlier passes' as well."""
    constants = [np.zeros(2000, np.float32) for _ in range(4)]
    constants[1][1] = 1  # at a place that is not looked at first
    block = Block()
    block.x = y = parameter("x", (2000,), "float32")
    for value in constants:
        y = block.call("add", block.call("nn.relu", y), compat.constant(value))
    module = block.module([y])
    added = [("t", is_op("relax.add")(is_op("relax.nn.relu")(wildcard()), is_const()), keeps_to_itself)]
    ours = mirrored.fuse(module, added)
    assert len(ours.functions) == 3
    assert_equal(ours, by_tvm(module, added))
    half = by_tvm(module, [("t", added[0][1], lambda context: compat.const_value(context.matched_expr.args[1])[1] > 0)])
    assert len(half.functions) == 2
    assert_equal(mirrored.fuse(half, added), by_tvm(half, added))
