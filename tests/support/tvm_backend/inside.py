"""Modules of TVM that archloom's targets are partitioned for, and ways to run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import archloom.tvm
from archloom.tvm_backend.host import virtual_machine
from archloom.tvm_backend.ir.compat import constant, relax, tvm
from archloom.tvm_backend.targets import registry

LLVM = "llvm"


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    """Small whole numbers as float32: sums of few products of them are exact, in whatever order."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def const(array: Any) -> Any:
    return constant(np.asarray(array))


def built(inputs: Mapping[str, Sequence[Any]], make: Callable[..., Any], entry: str = "main", into: Any = None) -> Any:
    """A module with one function. ``inputs`` has shape and then type of each parameter (float32 if left out), ``make``
    takes the builder and the parameters and gives the result, or a list of several. ``into``: a builder to go on with;
    then the builder is given back."""
    builder = into or relax.BlockBuilder()
    parameters = [relax.Var(name, relax.TensorType(list(shape), *(dtype or ["float32"])))
                  for name, (shape, *dtype) in inputs.items()]
    with builder.function(entry, parameters):
        with builder.dataflow():
            results = make(builder, *parameters)
            output = builder.emit_output(relax.Tuple(results) if isinstance(results, list) else results)
        builder.emit_func_output(output)
    return builder.get() if into is None else builder


def dense(builder: Any, x: Any, columns: int, seed: int = 0) -> Any:
    """A product with constant weights."""
    return builder.emit(relax.op.matmul(x, const(floats(int(x.ty.shape[-1]), columns, seed=seed))))


def mlp(seed: int = 0, entry: str = "main", into: Any = None) -> Any:
    """Two products with a bias and a ReLU between: 4 x 8 to 4 x 4."""
    def make(builder: Any, x: Any) -> Any:
        y = builder.emit(relax.op.add(dense(builder, x, 16, seed), const(floats(16, seed=seed + 1))))
        return dense(builder, builder.emit(relax.op.nn.relu(y)), 4, seed + 2)

    return built({"x": [(4, 8)]}, make, entry, into)


SCALE = 0.125


def quantize(builder: Any, x: Any, scale: float = SCALE) -> Any:
    return builder.emit(relax.op.quantize(
        x, const(np.float32(scale)), const(np.int8(0)), axis=-1, out_dtype="int8"))


def dequantize(builder: Any, x: Any, scale: float = SCALE) -> Any:
    return builder.emit(relax.op.dequantize(
        x, const(np.float32(scale)), const(np.int8(0)), axis=-1, out_dtype="float32"))


def requantized(builder: Any, x: Any, scale: float = SCALE) -> Any:
    """``x`` as a tensor of int8 that is read as floats: what stands between operators in a network in QDQ form."""
    return dequantize(builder, quantize(builder, x, scale), scale)


def weights(builder: Any, *shape: int, seed: int = 0, scale: float = SCALE) -> Any:
    """Constant int8 weights, read as floats."""
    array = np.random.default_rng(seed).integers(-7, 8, shape).astype(np.int8)
    return dequantize(builder, const(array), scale)


def quantized_mlp(seed: int = 0, entry: str = "main", into: Any = None) -> Any:
    """:func:`mlp` in QDQ form, with scales that are powers of two."""
    def make(builder: Any, x: Any) -> Any:
        y = builder.emit(relax.op.matmul(requantized(builder, x), weights(builder, 8, 16, seed=seed)))
        y = requantized(builder, builder.emit(relax.op.nn.relu(y)))
        z = builder.emit(relax.op.matmul(y, weights(builder, 16, 4, seed=seed + 1)))
        return requantized(builder, z)

    return built({"x": [(4, 8)]}, make, entry, into)


def quantized_conv(builder: Any, x: Any, channels: int, kernel: int = 3, seed: int = 0, **attributes: Any) -> Any:
    """A convolution and its ReLU in QDQ form; ``x`` is dequantized, as is the result."""
    w = weights(builder, channels, int(x.ty.shape[1]), kernel, kernel, seed=seed)
    y = builder.emit(relax.op.nn.conv2d(x, w, **attributes))
    return requantized(builder, builder.emit(relax.op.nn.relu(y)))


def small_conv(builder: Any, x: Any) -> Any:
    """A quantized convolution of stride 1, which the vanilla accelerator takes."""
    w = weights(builder, 4, 3, 3, 3)
    return requantized(builder, builder.emit(relax.op.nn.conv2d(requantized(builder, x), w, padding=1)))


def mixed(builder: Any, x: Any) -> Any:
    """A quantized product, then one of floats."""
    y = builder.emit(relax.op.matmul(requantized(builder, x), weights(builder, 8, 8)))
    return dense(builder, requantized(builder, y), 4)


# running --------------------------------------------------------------------------------------------------------------


def arrays(result: Any) -> list[np.ndarray]:
    """What a virtual machine or archloom gives, as arrays that are nobody else's."""
    if isinstance(result, np.ndarray):
        return [result.copy()]
    if hasattr(result, "numpy"):
        return [np.array(result.numpy())]
    return [array for field in result for array in arrays(field)]


def generated(module: Any) -> Any:
    return relax.transform.RunCodegen()(module)


def compiled(target: Any, module: Any, **options: Any) -> Any:
    """Partitioned and compiled as TVM's documentation has it: an executable."""
    return tvm.compile(generated(archloom.tvm.partition_for(target, module, **options)), target=LLVM)


def run(executable: Any, *inputs: Any, entry: str = "main") -> list[np.ndarray]:
    return arrays(raw(executable, *inputs, entry=entry))


def alone(module: Any, *inputs: Any, entry: str = "main") -> list[np.ndarray]:
    """Results of TVM without any target."""
    return run(tvm.compile(module, target=LLVM), *inputs, entry=entry)


def by_archloom(target: Any, module: Any, *inputs: Any, **options: Any) -> list[np.ndarray]:
    model = archloom.load(module)
    return arrays(archloom.compile(model, target, options)(*inputs))


def kinds(result: Any) -> Any:
    """How the tensors of a result lie in tuples."""
    return "tensor" if hasattr(result, "numpy") or isinstance(result, np.ndarray) else [kinds(r) for r in result]


def raw(executable: Any, *inputs: Any, entry: str = "main") -> Any:
    """The result as the virtual machine gives it."""
    given = [virtual_machine.to_tvm(np.asarray(x)) for x in inputs]
    return relax.VirtualMachine(executable, tvm.cpu())[entry](*given)


def matching(target: str, seed: int = 0) -> Any:
    """The network of two products in the numbers of a target."""
    return quantized_mlp(seed) if registry.get(target).is_quantized else mlp(seed)


def regions(module: Any, codegen: str) -> list[str]:
    """The functions of a code generator in a partitioned module."""
    return [gv.name_hint for gv, f in module.functions.items()
            if getattr(f, "attrs", None) and f.attrs.get("Codegen") == codegen]


def same(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Equal bit for bit, types and shapes included."""
    assert [(x.dtype, x.shape) for x in found] == [(x.dtype, x.shape) for x in expected]
    for x, y in zip(found, expected):
        np.testing.assert_array_equal(x, y)
        assert x.tobytes() == y.tobytes() or x.dtype.kind not in "iub"


def same_or_close(found: Sequence[np.ndarray], expected: Sequence[np.ndarray], apart: Sequence[float]) -> None:
    """Equal within a bound for each result; where that is 0, bit for bit."""
    assert [(x.dtype, x.shape) for x in found] == [(x.dtype, x.shape) for x in expected]
    for x, y, bound in zip(found, expected, apart, strict=True):
        if bound:
            np.testing.assert_allclose(x, y, rtol=0, atol=bound)
        else:
            np.testing.assert_array_equal(x, y)
