"""What a user gives as a network, looked at once: Python, the command line and estimates go by the same answer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from archloom.models import huggingface
from archloom.models.quiet import TORCHAO, quiet
from archloom.oracle.errors import InputError, ModelError
from archloom.tvm_backend.dynamic.model import DynamicModel
from archloom.tvm_backend.ir.numbers import Numbers
from archloom.tvm_backend.model import Model
from archloom.tvm_backend.sources import named_networks, operators
from archloom.tvm_backend.sources.operators import Operator
from archloom.tvm_backend.sources.taken import TAKEN, refuse_foreign

if TYPE_CHECKING:
    from archloom.tvm_backend.frontends.onnx.skeleton import Skeleton

Shapes = Mapping[str, Sequence[int]]
Kind: TypeAlias = Literal[
    "model", "name", "operator", "onnx", "program", "module", "relax", "dynamic", "layers"]
_KINDS: Mapping[Kind, str] = {
    "model": "a loaded Relax module", "name": "a network by name, which is quantized where its target takes int8",
    "layers": "a table of layers", "operator": "an operator as text", "program": "an exported program",
    "relax": "a Relax module", "dynamic": "a network with open dimensions"}
_WITHOUT_SHAPES = {kind: _KINDS[kind] for kind in ("layers", "operator", "program")}


@dataclass(frozen=True, eq=False)
class Source:
    """A network as it was given.

    ``kind``: a loaded ``model``, the ``name`` of a network, an ``operator`` as text, a table of ``layers`` (``.csv``),
    ``onnx`` (a path or a proto), a ``program`` of ``torch.export`` (``.pt2`` or an object), a torch ``module``, a
    ``relax`` module, or a loaded network with open dimensions (``dynamic``). ``given`` is a
    :class:`~pathlib.Path` where it is a file. ``name`` is what the network is to be called, if that was asked for.
    ``dynamic_shapes`` are those that ``torch.export`` leaves open.
    """

    given: Any
    kind: Kind
    input_shapes: Shapes | None = None
    example_inputs: Sequence[Any] | None = None
    name: str | None = None
    dynamic_shapes: Any = None

    @staticmethod
    def of(
        given: Any, *, input_shapes: Shapes | None = None, example_inputs: Sequence[Any] | None = None,
        name: str | None = None, dynamic_shapes: Any = None,
    ) -> "Source":
        """What ``given`` is; InputError for options that do not go with it, ModelError for what is no network."""
        if huggingface.is_spelled(given):
            return _configured(given, input_shapes, example_inputs, name)
        kind = _kind(given)
        if kind == "name":
            named_networks.refuse_options(given, input_shapes=input_shapes, example_inputs=example_inputs)
        elif kind in ("model", "dynamic"):
            options = {"example_inputs": example_inputs, "input_shapes": input_shapes, "name": name}
            if stated := [key for key, value in options.items() if value is not None]:
                raise InputError(f"{', '.join(stated)}: only taken for a model that is not loaded yet")
        elif isinstance(given, str | Path) and kind in _WITHOUT_SHAPES and (input_shapes or example_inputs is not None):
            raise InputError(f"{given}: input_shapes and example_inputs are not taken with {_WITHOUT_SHAPES[kind]}")
        if dynamic_shapes is not None and kind != "module":
            raise InputError("dynamic_shapes: only taken with a torch.nn.Module, which is exported with them")
        is_file = kind in ("onnx", "program", "layers") and isinstance(given, str | Path)
        return Source(Path(given) if is_file else given, kind, input_shapes, example_inputs, name, dynamic_shapes)

    @property
    def operator(self) -> Operator | None:
        """The operator that a text spells."""
        return operators.parse(self.given) if self.kind == "operator" else None

    def in_floats(self) -> "Source":
        """What the network was in floats, ONNX or torch's, as far as that is at hand; InputError for others."""
        if self.kind in ("onnx", "module", "program"):
            return self
        if self.kind == "model":
            model = self.given
            if (proto := model.floats or model.onnx) is not None:
                return Source(proto, "onnx", name=model.name)
            if model.given is not None:
                return model.given.in_floats()
        raise InputError("as_int8: taken with ONNX networks and torch modules, loaded or not; found "
                         f"{_KINDS[self.kind]}")

    def as_onnx(self) -> "Source":
        """A network of floats as ONNX with its weights; ModelError where they are not there."""
        if self.kind == "onnx":
            return self
        from archloom.tvm_backend.frontends.torch import export, weights

        module, inputs = self._module()
        if not weights.are_known(module):
            raise ModelError(f"{self.title}: cannot be estimated as if quantized without its weights, which are on "
                             "torch's meta device")
        return Source(export.to_onnx(module, inputs, self.title), "onnx", name=self.title)

    def quantizable(self) -> Any:
        """The network in floats, with its weights, in a form that is quantized: ONNX (a path or a proto), or a torch
        module. InputError where that is not at hand, ModelError where its weights are not."""
        if self.kind in ("onnx", "module"):
            return self.given
        if self.kind == "name":
            return named_networks.floats(self.given)
        if self.kind in ("model", "program"):
            return self.in_floats().as_onnx().given
        raise InputError("quantize: expected a network of floats, of ONNX or torch, loaded or not, or the name of one; "
                         f"found {_KINDS[self.kind]}")

    def skeleton(self) -> "Skeleton":
        """A network of floats as ONNX without its weights; NoSkeleton where it must be read as a whole."""
        from archloom.tvm_backend.frontends.onnx import skeleton
        from archloom.tvm_backend.frontends.onnx.files import skeleton_of as skeleton_of_file

        if self.kind != "onnx":
            from archloom.tvm_backend.frontends.torch.skeletons import skeleton_of

            return skeleton_of(*self._module(), self.title)
        in_file = isinstance(self.given, Path)
        return skeleton.Skeleton(skeleton_of_file(self.given) if in_file else skeleton.of_proto(self.given))

    def _module(self) -> tuple[Any, Any]:
        """A torch network as a module and example inputs."""
        if self.kind == "module":
            return self.given, self.example_inputs
        program = self._program()
        if program.example_inputs is not None:
            return program.module(), program.example_inputs[0]
        import torch

        # files are read without them: zeros of the shapes that it was exported with
        values = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
        inputs = [values[name] for name in program.graph_signature.user_inputs]
        return program.module(), tuple(torch.zeros(tuple(map(int, v.shape)), dtype=v.dtype) for v in inputs)

    def _program(self) -> Any:
        from archloom.tvm_backend.frontends.torch.pt2_files import read_program

        return read_program(self.given) if isinstance(self.given, Path) else self.given

    @property
    def label(self) -> str:
        """What messages call a network of ONNX or torch: its path, or its name."""
        return str(self.given) if isinstance(self.given, Path) else self.title

    @property
    def title(self) -> str:
        """What the network is called."""
        if self.name or isinstance(self.given, Path):
            return self.name or self.given.stem
        if self.kind == "model":
            return self.given.name
        if self.kind == "name":
            return named_networks.title(self.given)
        if self.kind == "onnx":
            return self.given.graph.name or "network"
        return type(self.given).__name__ if self.kind == "module" else "program"

    def load_for(self, target: str) -> Model:
        """The network in the numbers that ``target`` (the first of several) computes with, where that is open."""
        return self.load(self.numbers_for(target))

    def numbers_for(self, target: str) -> Numbers:
        """What ``target`` (the first of several) computes with."""
        from archloom.tvm_backend.targets.choice import backends

        return backends(target)[0].numbers

    def outlined(self) -> Model | None:
        """The network without its weights, which are neither made nor read, in floats where it has a name; None for
        what is not read in this way.

        Raises :class:`~archloom.tvm_backend.ir.nodes.Unsupported` where its weights are needed to read it.
        """
        if self.kind == "name":
            return named_networks.load_outline(self.given, self.name)
        if self.kind in ("module", "program") and self.dynamic_shapes is None:
            return self._load_torch(with_weights=False)
        return None

    def load(self, numbers: "Numbers" = "int8") -> Model:
        """Import the network; ``numbers`` says what a name or an operator becomes a network of.

        ModelError with the file and the node.
        """
        given, name = self.given, self.name
        if self.kind == "model":
            return given
        if self.kind == "dynamic" or self.dynamic_shapes is not None:
            shown = ", ".join(f"{n}=..." for n in given.shapes.names) if self.kind == "dynamic" else "n=..."
            raise InputError(f"expected a network of static shapes, found one with open dimensions: give extents with "
                             f"model.at({shown}), or symbols= to an estimate or a check")
        if self.kind == "name":
            return named_networks.load_named(given, numbers, name)
        if self.kind == "relax":
            from archloom.tvm_backend.model import from_relax

            return from_relax(given, name or "network")
        if self.kind in ("onnx", "operator", "layers"):
            return self._load_onnx(numbers)
        return self._load_torch()

    def _load_torch(self, *, with_weights: bool = True) -> Model:
        from archloom.tvm_backend.frontends.torch import export

        if self.kind == "module":
            loaded = export.load_module(self.given, self.example_inputs, self.title, with_weights=with_weights)
        else:
            loaded = export.load_program(self._program(), self.title, with_weights=with_weights)
        return replace(loaded, given=self)

    def _load_onnx(self, numbers: "Numbers") -> Model:
        from archloom.tvm_backend.frontends.onnx import load as onnx_networks

        if (operator := self.operator) is not None:
            from archloom.tvm_backend.sources.operator_network import onnx_model

            return onnx_networks.load_proto(onnx_model(operator, numbers=numbers), self.name or str(operator))
        if self.kind == "layers":
            from archloom.tvm_backend.sources import topology

            proto = topology.network(topology.layers(self.given), self.title, numbers)
            return onnx_networks.load_proto(proto, self.title)
        if isinstance(self.given, Path):
            return onnx_networks.load_file(self.given, self.name, self.input_shapes)
        return onnx_networks.load_proto(self.given, self.label, self.input_shapes)


def _configured(text: str, shapes: Shapes | None, example_inputs: Any, name: str | None) -> Source:
    """A configuration of transformers, as the torch module that it describes."""
    if example_inputs is not None:
        raise InputError(f"{text}: example_inputs are for modules; give shapes with input_shapes")
    with quiet(*TORCHAO):  # which transformers imports where it looks for the class
        built = huggingface.outline(text, shapes)
    return Source(built.module, "module", example_inputs=tuple(built.inputs.values()), name=name or built.name)


def is_network(given: Any) -> bool:
    """Whether it is one network, and not several: a module of torch's may be iterable, too."""
    return _kind_of(given) is not None


def _kind(given: Any) -> Kind:
    """The kind of what is given; ModelError for what cannot be loaded."""
    found = _kind_of(given)
    if found in ("onnx", "program") and isinstance(given, str | Path):
        refuse_foreign(Path(given))
    if found is None:
        name = f"{type(given).__module__}.{type(given).__name__}".removeprefix("builtins.")
        raise ModelError(f"expected a network, found {name}; what can be loaded: {TAKEN}")
    return found


def _kind_of(given: Any) -> Kind | None:
    if isinstance(given, Model):
        return "model"
    if isinstance(given, DynamicModel):
        return "dynamic"
    if isinstance(given, str) and not os.path.exists(given):  # as a Path would raise for what is too long
        if named_networks.is_named(given):
            return "name"
        if operators.looks_like_operator(given):
            return "operator"
    if isinstance(given, str | Path):
        return {".pt2": "program", ".csv": "layers"}.get(Path(given).suffix, "onnx")  # type: ignore[return-value]
    kind = f"{type(given).__module__}.{type(given).__name__}"
    if kind.startswith("onnx.") and kind.endswith("ModelProto"):
        return "onnx"
    if any(base.__module__ == "torch.nn.modules.module" and base.__name__ == "Module" for base in type(given).__mro__):
        return "module"
    if kind.startswith("torch.export"):
        return "program"
    if kind.startswith("tvm.") and kind.endswith("IRModule"):
        return "relax"
    return None
