"""The module that knows TVM's names: what the rest of archloom relies on."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from archloom.tvm_backend.host import virtual_machine
from archloom.tvm_backend.ir import compat, expressions
from archloom.tvm_backend.ir.conversion import rename
from tests.support.tvm_backend.relax import parameter, symbolic

PACKAGE = Path(__file__).parents[3] / "src/archloom"


def doubled() -> compat.relax.Function:
    """``x + x`` on two by three floats."""
    x = parameter("x", (2, 3), "float32")
    call = compat.normalized(compat.relax_op("add")(x, x))
    y = compat.new_var("y", call)
    return compat.make_function([x], [compat.bind(y, call)], [y])


def run(module: compat.IRModule, *inputs: np.ndarray, **functions: object) -> object:
    executable = virtual_machine.build(compat.normalize(module))
    return virtual_machine.compile_vm(executable, functions)(*map(virtual_machine.to_tvm, inputs))  # type: ignore[arg-type]


def test_nothing_else_imports_tvm() -> None:
    """Others may not know TVM, but for its importer of ONNX and the backends of TVM, which are TVM's."""
    importing = re.compile(r"^\s*(import|from) (tvm|tvm_ffi)\b", re.MULTILINE)
    sources = [p for folder in ("tvm_backend", "uma_targets", "mapper", "oracle", "acadl_models", "models")
               for p in (PACKAGE / folder).rglob("*.py")]
    found = [str(p.relative_to(PACKAGE)) for p in sources if importing.search(p.read_text())]
    assert sorted(name for name in found if not name.startswith("tvm_backend/inside/")) == [
        "tvm_backend/frontends/onnx/by_tvm.py", "tvm_backend/ir/compat.py"]


@pytest.mark.slow
def test_importing_it_does_not_import_torch_or_jax() -> None:
    code = "import sys, archloom.tvm_backend.ir.compat; print(sorted({'torch', 'jax'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent,
                            check=True)  # within the package, "import tvm" would find archloom.tvm
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("array", [
    np.arange(6, dtype=np.int8).reshape(2, 3), np.float32(1.5), np.zeros((0, 3), np.int32), np.ones((2, 2), bool),
    np.arange(12, dtype=np.int64).reshape(3, 4).T,
])
def test_constants_keep_value_and_type(array: np.ndarray) -> None:
    constant = compat.constant(np.asarray(array))
    assert expressions.is_constant(constant) and expressions.is_tensor(constant)
    assert expressions.shape_of(constant) == np.shape(array)
    assert expressions.dtype_of(constant) == str(np.asarray(array).dtype)
    np.testing.assert_array_equal(compat.const_value(constant), array)


def test_calls_show_operator_attributes_and_types() -> None:
    x = parameter("x", (1, 3, 8, 8), "float32")
    pool = compat.relax_op("nn.max_pool2d")(x, pool_size=(3, 2), strides=(2, 2), padding=(1, 0, 1, 1))
    call = compat.normalized(pool)
    assert compat.op_name(call) == "nn.max_pool2d" and compat.op_name(x) is None
    assert expressions.attr_ints(call, "pool_size") == (3, 2) and expressions.attr_ints(call, "padding") == (1, 0, 1, 1)
    assert expressions.attr(call, "ceil_mode") is False or expressions.attr(call, "ceil_mode") == 0
    assert expressions.attr(call, "layout") == "NCHW" and isinstance(expressions.attr(call, "layout"), str)
    assert expressions.shape_of(call) == (1, 3, 4, 4)
    clip = compat.normalized(compat.relax_op("clip")(x, 0, 6))
    assert [compat.scalar_of(a) for a in clip.args[1:]] == [0, 6]


def test_a_new_call_has_the_same_operator_on_other_arguments() -> None:
    x, z = (parameter(n, (2, 3), "float32") for n in "xz")
    call = compat.normalized(compat.relax_op("add")(x, x))
    other = expressions.make_call(call, [z, x])
    assert not other.same_as(call) and compat.op_name(other) == "add" and expressions.shape_of(other) == (2, 3)
    assert [v.name for v in compat.variables(other)] == ["z", "x"]


def test_functions_run() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(run(compat.module_of(doubled()), x).numpy(), 2 * x)  # type: ignore[attr-defined]


def test_several_results_are_a_tuple() -> None:
    function = doubled()
    pair = compat.make_function(
        function.params, compat.bindings(function)[:1], [compat.bindings(function)[0].var, function.params[0]]
    )
    assert [expressions.shape_of(r) for r in expressions.outputs_of(pair)] == [(2, 3), (2, 3)]
    x = np.ones((2, 3), np.float32)
    first, second = run(compat.module_of(pair), x)  # type: ignore[misc]
    np.testing.assert_array_equal(first.numpy(), 2 * x)
    np.testing.assert_array_equal(second.numpy(), x)


def test_modules_survive_as_text() -> None:
    x = parameter("x", (2, 3), "float32")
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    call = compat.normalized(compat.relax_op("matmul")(x, compat.constant(weights)))
    y = compat.new_var("y", call)
    module = compat.module_of(compat.make_function([x], [compat.bind(y, call)], [y]))
    again = compat.from_json(compat.to_json(module))
    value = compat.const_value(compat.bindings(again["main"])[0].value.args[1])
    np.testing.assert_array_equal(value, weights)
    data = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(run(again, data).numpy(), data @ weights)  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"root": 0}', "not json"])
def test_a_text_that_is_no_module(text: str) -> None:
    with pytest.raises(ValueError, match="serialized Relax module"):
        compat.from_json(text)


def external(results: int) -> compat.IRModule:
    x = parameter("x", (2, 3), "float32")
    call = compat.call_external("archloom.test", [x], [x] * results)
    pair = compat.new_var("r", call)
    fields = [pair] if results == 1 else [compat.tuple_get(pair, i) for i in range(results)]
    return compat.module_of(compat.make_function([x], [compat.bind(pair, call)], fields))


def test_packed_functions_are_bound_to_their_network() -> None:
    """Two networks whose functions have the same name do not see each other's."""
    x = np.ones((2, 3), np.float32)
    executable = virtual_machine.build(compat.normalize(external(1)))

    def times(k: int) -> Callable[[Any], Any]:
        return lambda t: virtual_machine.to_tvm(np.from_dlpack(t) * np.float32(k))

    mains = [virtual_machine.compile_vm(executable, {"archloom.test": times(k)}) for k in (2, 3)]
    assert [float(m(virtual_machine.to_tvm(x)).numpy()[0, 0]) for m in mains] == [2.0, 3.0]


def test_packed_functions_may_return_several_tensors() -> None:
    def function(t: object) -> list[object]:
        x = np.from_dlpack(t)  # type: ignore[arg-type]
        return [virtual_machine.to_tvm(x + 1), virtual_machine.to_tvm(x + 2)]

    first, second = run(external(2), np.zeros((2, 3), np.float32), **{"archloom.test": function})  # type: ignore[misc]
    assert (float(first.numpy()[0, 0]), float(second.numpy()[0, 0])) == (1.0, 2.0)


def test_aligned_arrays_are_shared_and_others_copied() -> None:
    memory = np.zeros(1024 + 64, np.int8)
    start = -memory.ctypes.data % 64
    aligned = memory[start : start + 1024]
    shared = virtual_machine.to_tvm(aligned)
    aligned[0] = 7
    assert shared.numpy()[0] == 7
    copied = virtual_machine.to_tvm(memory[start + 1 : start + 33])
    memory[start + 1] = 9
    assert copied.numpy()[0] == 0
    assert virtual_machine.to_tvm(np.zeros((4, 6), np.float32)[:, ::2]).shape == (4, 3)


def pattern() -> compat.DFPattern:
    return compat.is_op("relax.add")(compat.wildcard(), compat.wildcard())


def test_patterns_make_composite_functions() -> None:
    fused = compat.fuse_by_pattern(compat.module_of(doubled()), [("t.add", pattern(), lambda context: True)])
    names = [expressions.is_composite(fused, b.value) for b in compat.bindings(fused["main"])]
    assert [n[0] for n in names if n is not None] == ["t.add"]


def test_a_check_that_raises_ends_with_its_own_exception() -> None:
    def check(context: object) -> bool:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        compat.fuse_by_pattern(compat.module_of(doubled()), [("t.add", pattern(), check)])


def test_symbolic_shapes_are_seen() -> None:
    n = symbolic("n")
    x = parameter("x", (n, 3), "float32")
    assert not expressions.is_tensor(x) and not expressions.has_static_type(x)


@pytest.mark.parametrize(("name", "variable"), [
    ("/layer1/0/Conv", "layer1.0.Conv"), ("conv", "conv"), ("a::b", "a.b"), ("", "node"), ("/", "node"),
])
def test_node_names_become_variable_names(name: str, variable: str) -> None:
    assert rename(name) == variable
